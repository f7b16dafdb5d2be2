"""What a plan would take: runs, tokens, time and memory, from a few of its questions."""

import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from collect.cards import Job
from collect.config import Plan
from collect.engines import GenerateRequest, ScoreRequest
from collect.engines.transformers import TransformersEngine
from collect.models import locate
from collect.passes import ask, requests_of
from collect.protocols import Protocol
from collect.run import MakeEngine, chosen_itemsets, jobs_of, missing_of

COLUMNS = ["model", "setting", "runs", "items", "tokens", "minutes", "memory_mb"]
PROBE = 16  # questions asked to measure
PROBE_NEW = 64  # tokens generated for each, at most: an answer may take thousands


def dry_run(plan: Plan, out: Path, make_engine: MakeEngine, console: Console) -> list[list[Any]]:
    """A row per model and way of asking. Nothing is written.

    tokens, minutes: of prompts and options, and of generated answers; of those that did not end within the probe the most
    there can be. The run's own batches are larger than the probe's, and faster.
    memory_mb: the most this process (on a GPU: its allocator) held up to then.
    """
    sets = chosen_itemsets(plan, console.print)
    rows = []
    for model in map(locate, plan.models):
        engine = make_engine(model)
        jobs = [job for job in jobs_of(model, engine, sets, plan.asks) if missing_of(out, job, engine)]
        for protocol in dict.fromkeys(job.protocols[0] for job in jobs):
            own = [job for job in jobs if job.protocols[0] == protocol]
            rows.append([model.spec.name, " ".join(p.setting for p in own[0].protocols), *measured(own, engine)])
    runs, minutes = sum(row[2] for row in rows), sum(row[5] for row in rows)
    console.print(
        f"{runs} runs to collect, about {minutes:.2g} minutes. Nothing was written" if runs else f"nothing to do: all runs are in {out}"
    )
    return rows


def measured(jobs: Sequence[Job], engine: Any) -> list[Any]:
    """Runs, items, tokens, minutes and memory of passes of one protocol."""
    protocol = jobs[0].protocols[0]
    requests = [request for job in jobs for request in requests_of(job)[1]]
    n, new = min(PROBE, len(requests)), protocol.max_new_tokens or 0
    at = [len(requests) * i // n for i in range(n)]
    probe, read = [requests[i] for i in at], [tokens_of(engine, request) for request in requests]
    short = replace(protocol, max_new_tokens=1) if new else protocol
    timed(short, probe[:2], engine)  # the first pass is slower
    seconds, _ = timed(short, probe, engine)
    share, generated = sum(read) / max(1, sum(read[i] for i in at)), 0.0
    if new > 1:
        both, found = timed(replace(protocol, max_new_tokens=min(new, PROBE_NEW)), probe, engine)
        drawn = sum(result.n_tokens for result in found)
        generated = drawn + sum(new - result.n_tokens for result in found if not result.finished)
        seconds += max(0.0, both - seconds) * generated / max(1, drawn)
    tokens, minutes = sum(read) + round(generated * len(requests) / n), float(f"{seconds * share / 60:.2g}")
    return [sum(len(job.protocols) for job in jobs), len(requests), tokens, minutes, memory_mb(engine)]


def timed(protocol: Protocol, requests: Sequence[Any], engine: Any) -> tuple[float, list[Any]]:
    """Seconds that requests take, and their results."""
    results: list[Any] = []
    began = time.monotonic()
    ask(protocol, requests, engine, lambda n: None, lambda n, result: results.append(result))
    return time.monotonic() - began, results


def tokens_of(engine: TransformersEngine, request: ScoreRequest | GenerateRequest) -> int:
    """Tokens that are read for one request."""
    if isinstance(request, ScoreRequest):
        return engine.questions([request], 0)[0].cost
    return len(engine.encode(engine.templated(request.prompt) if request.chat else request.prompt, request.chat))


def memory_mb(engine: TransformersEngine) -> int:
    """Most memory held so far."""
    import torch

    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return torch.cuda.max_memory_allocated() // 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (2**20 if sys.platform == "darwin" else 2**10)
