"""What a plan would take: runs, tokens, time and memory, from a few of its questions."""

import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from collect.cards import Job
from collect.config import Plan
from collect.engines import GenerateRequest, ScoreRequest
from collect.engines.transformers import TransformersEngine
from collect.models import locate
from collect.passes import ask, requests_of
from collect.run import MakeEngine, chosen_itemsets, jobs_of, missing_of

COLUMNS = ["model", "setting", "runs", "items", "tokens", "minutes", "memory_mb"]
PROBE = 16  # questions asked to measure


def dry_run(plan: Plan, out: Path, make_engine: MakeEngine, console: Console) -> list[list[Any]]:
    """A row per model and way of asking. Nothing is written.

    tokens: read of prompts and options; of generated answers the most there can be, so that their time is the longest.
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
    return rows


def measured(jobs: Sequence[Job], engine: Any) -> list[Any]:
    """Runs, items, tokens, minutes and memory of passes of one protocol."""
    protocol = jobs[0].protocols[0]
    requests = [request for job in jobs for request in requests_of(job)[1]]
    tokens = [tokens_of(engine, request, protocol.max_new_tokens or 0) for request in requests]
    at = [len(requests) * n // PROBE for n in range(min(PROBE, len(requests)))] if len(requests) > PROBE else list(range(len(requests)))
    ask(protocol, [requests[n] for n in at[:2]], engine, lambda n: None, lambda n, result: None)  # the first pass is slower
    began = time.monotonic()
    ask(protocol, [requests[n] for n in at], engine, lambda n: None, lambda n, result: None)
    seconds = (time.monotonic() - began) * sum(tokens) / max(1, sum(tokens[n] for n in at))
    return [sum(len(job.protocols) for job in jobs), len(requests), sum(tokens), round(seconds / 60, 2), memory_mb(engine)]


def tokens_of(engine: TransformersEngine, request: ScoreRequest | GenerateRequest, new: int) -> int:
    """Tokens one request takes at most."""
    if isinstance(request, ScoreRequest):
        return engine.questions([request], 0)[0].cost
    return len(engine.encode(engine.templated(request.prompt) if request.chat else request.prompt, request.chat)) + new


def memory_mb(engine: TransformersEngine) -> int:
    """Most memory held so far."""
    import torch

    if engine.place.device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() // 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (2**20 if sys.platform == "darwin" else 2**10)
