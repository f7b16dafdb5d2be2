"""A group of passes: held, asked together, noted item by item, and written as runs."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

from collect.cards import Job, card_of, sample_rows, versions
from collect.claims import Claim, claim
from collect.engines import Engine, Generated, GenerateRequest, Keep, Sampling, Scored, ScoreRequest, seed_of
from collect.extract import Grade, graded_text
from collect.protocols import Protocol, continuations, examples, option_order, prompt
from collect.shots import shots_of
from collect.store import run_file, write_run

Request = ScoreRequest | GenerateRequest
Tables = dict[str, list[dict[str, Any]]]


def run_group(out: Path, jobs: Sequence[Job], engine: Engine, contributor: str | None, advance: Callable[[int], None]) -> tuple[int, int]:
    """Ask every item of a group of jobs together and write their runs.

    Returns:
        Number of runs written, and of runs that another process is collecting.
    """
    elsewhere = 0
    with ExitStack() as stack:
        held: list[tuple[Job, Claim]] = []
        for job in jobs:
            mine = claim(out, pass_name(job), header_of(job, engine))
            if mine is None:
                elsewhere += len(job.protocols)
                advance(len(job.itemset.items))
                continue
            stack.enter_context(mine)
            wanted = tuple(p for p in job.protocols if not run_file(out, "outcomes", job.located.model_id, job.run_id(p)).exists())
            if wanted:
                held.append((replace(job, protocols=wanted), mine))
            else:  # another process wrote them since we looked
                mine.done()
                advance(len(job.itemset.items))
        written = run_held(out, held, engine, contributor, advance) if held else 0
    return written, elsewhere


def run_held(out: Path, held: Sequence[tuple[Job, Claim]], engine: Engine, contributor: str | None, advance: Callable[[int], None]) -> int:
    """Ask what is not known yet of the passes we hold, and write their runs."""
    began = time.monotonic()
    asked = [(job, mine, *requests_of(job)) for job, mine in held]
    open_items = [(mine, at, request) for _, mine, _, requests in asked for at, request in enumerate(requests) if at not in mine.results]
    advance(sum(len(job.itemset.items) for job, _ in held) - len(open_items))

    def keep(n: int, result: Any) -> None:
        mine, at, _ = open_items[n]
        mine.keep(at, list(astuple(result)))

    ask(held[0][0].protocols[0], [request for *_, request in open_items], engine, advance, keep)
    seconds_per_item = (time.monotonic() - began) / max(1, len(open_items))
    written = 0
    for job, mine, orders, _ in asked:
        for protocol in job.protocols:
            seed = job.run_id(protocol.drawn) if protocol.varies else None
            told = {"contributor": contributor, "rng_seed": seed, "wall_s": round(seconds_per_item * len(orders), 3)}
            write_run(out, card_of(job, protocol, engine, told), sample_rows(job.itemset), rows_of(job, protocol, orders, mine.results))
            written += 1
        mine.done()
    return written


def pass_name(job: Job) -> str:
    """A pass's own name: the id of the first of its runs."""
    return str(min(job.run_id(protocol) for protocol in job.protocols))


def header_of(job: Job, engine: Engine) -> dict[str, Any]:
    """What a claim says of its pass; under other conditions results of an earlier try are not used."""
    conditions = [versions(), engine.name, engine.hardware, engine.chat_template_sha256]
    return {
        "model_id": job.located.model_id, "task_id": job.itemset.task_id, "itemset_id": job.itemset.itemset_id, "replicate": job.replicate,
        "settings": [p.setting for p in job.protocols], "n_items": len(job.itemset.items), "conditions": conditions,
    }  # fmt: skip


def requests_of(job: Job) -> tuple[list[list[int]], list[Request]]:
    """Option orders and requests of every item of a job; protocols of one pass share them."""
    protocol, items, keys = job.protocols[0], job.itemset.items, job.itemset.keys
    orders = [option_order(protocol, key, len(item.choices), job.replicate) for item, key in zip(items, keys, strict=True)]
    requests: list[Request] = []
    for item, key, order, shots in zip(items, keys, orders, shots_of(protocol, job.itemset), strict=True):
        text, chat = prompt(protocol, item, order, shots), protocol.template == "model"
        if protocol.decoding == "scored":
            requests.append(ScoreRequest(text, tuple(continuations(protocol, item, order)), chat, examples(protocol, shots)))
        else:
            requests.append(GenerateRequest(text, chat, seed_of(job.run_id(protocol.drawn), key)))
    return orders, requests


def ask(protocol: Protocol, requests: Sequence[Any], engine: Engine, advance: Callable[[int], None], keep: Keep) -> None:
    """Put requests of one protocol to the engine; `keep` takes the results."""
    if protocol.decoding == "scored":
        engine.score(requests, advance, keep)
    else:
        sampling = Sampling(protocol.temperature, protocol.top_p, protocol.max_new_tokens or 1, protocol.stop or (), 0)
        engine.generate(requests, sampling, advance, keep)


def rows_of(job: Job, protocol: Protocol, orders: Sequence[list[int]], results: dict[int, list[Any]]) -> Tables:
    """The rows of one run, from the results of its items."""
    found = [results[at] for at in range(len(orders))]
    if protocol.decoding == "scored":
        return score_rows(job, protocol, orders, [Scored(*result) for result in found])
    return generation_rows(job, protocol, orders, [Generated(*result) for result in found])


def score_rows(job: Job, protocol: Protocol, orders: Sequence[list[int]], scored: Sequence[Scored]) -> Tables:
    """Outcomes and scores of one run by option scoring. Equal best scores go to the first option shown."""
    rows: Tables = {"outcomes": [], "option_scores": []}
    for item, order, result in zip(job.itemset.items, orders, scored, strict=True):
        if result.logprobs is None:
            rows["outcomes"].append({"correct": None, "status": "error", "reason": result.error})
            rows["option_scores"].append({"scores": [None] * len(order)})
            continue
        sizes = [max(1, len(item.choices[o].encode())) if protocol.scoring == "per-byte" else 1 for o in order]
        shown = [total / size for total, size in zip(result.logprobs, sizes, strict=True)]
        predicted = order[shown.index(max(shown))]
        rows["outcomes"].append({"correct": predicted in item.gold, "predicted": predicted, "status": "ok", "n_tokens": result.n_tokens})
        rows["option_scores"].append({"scores": [shown[order.index(o)] for o in range(len(order))]})
    return rows


def generation_rows(job: Job, protocol: Protocol, orders: Sequence[list[int]], generated: Sequence[Generated]) -> Tables:
    """Outcomes and texts of one run by generation and extraction."""
    rows: Tables = {"outcomes": [], "generations": []}
    for item, order, result in zip(job.itemset.items, orders, generated, strict=True):
        if result.error is not None:
            graded = Grade(None, None, "error", result.error)
        else:
            graded = graded_text(protocol, item, order, result.text, result.finished)
        rows["outcomes"].append({**graded._asdict(), "n_tokens": result.n_tokens})
        rows["generations"].append({"text": result.text})
    return rows
