"""What a plan would take whose models are not on this disk: every run with tokens and GPU-hours from committed constants.

No network, no model, no item of a benchmark is read. Everything in capitals below is assumed, not measured; what the
tasks hold is in benchmarks/constants.csv.
"""

import heapq
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catalog.errors import CatalogError
from catalog.items import itemsets, read_items
from collect.benchmarks.choosing import parted
from collect.benchmarks.listing import constants
from collect.config import Plan
from collect.models import ModelSpec
from collect.protocols import Ask, Protocol
from collect.run import asked_of

COLUMNS = ["model", "size_b", "task", "setting", "replicate", "items", "read_tokens", "new_tokens", "gpu_hours"]
# tokens a second of one 80 GB GPU of the H100's class, bfloat16, full batches, at 7 billion parameters; inverse to their number
READ_PER_S, NEW_PER_S, AT_B = 20_000, 2_500, 7.0
# mean tokens of a generated answer with a chain of thought, by kind of model; of another kind as of 'instruct'
NEW_TOKENS = {"base": 200, "instruct": 350, "merged": 2_000, "reasoning": 4_000}
GPUS = (8, 64)
DIRECT_TOKENS = 4  # of an answer without one
FRAME_TOKENS = 40  # instruction, template, letters
WORKED_TOKENS = 150  # of one of our own worked examples
BYTES_PER_TOKEN = 4.4  # of own items
ASSUMED = (
    f"assumed: {READ_PER_S:,} tokens read and {NEW_PER_S:,} generated a second on one GPU at {AT_B:g} billion parameters, inverse to their "
    f"number; answers of {', '.join(f'{n:,} ({kind})' for kind, n in NEW_TOKENS.items())} tokens"
)


@dataclass(frozen=True)
class Size:
    """A task as far as its cost goes: items, mean tokens of question and of all options, free-form or not."""

    task_id: str
    n_items: int
    question: float
    options: float
    free: bool
    shuffled: bool = False


def away(plan: Plan) -> bool:
    """Whether a model of the plan is not on this disk, so that no probe of it can be made."""
    return any(not here(spec) for spec in plan.models)


def here(spec: ModelSpec) -> bool:
    """Whether a model is a path that exists, or lies in the Hub's cache."""
    if Path(spec.where).expanduser().exists():
        return True
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", spec.where):
        return spec.size_b is None  # a path that is not there: without a size it is a mistake, which locate() explains
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(spec.where, "config.json", revision=spec.revision), str)


def estimated(plan: Plan) -> list[list[Any]]:
    """A row of COLUMNS per run of the plan, whether or not it is collected already.

    Raises:
        CatalogError: A model's size is neither told nor in its name, or own items are bad.
    """
    sizes = sizes_of(plan)
    rows = []
    for spec in plan.models:
        billions = size_b(spec)
        kind = spec.description.get("kind", "instruct")
        for size in sizes:
            for ask in asked_of(spec, kind != "base", size.task_id, plan.asks):
                if not (size.free and not ask.generates):
                    rows += runs_of(spec.name, kind, billions, size, ask)
    return rows


def runs_of(name: str, kind: str, billions: float, size: Size, ask: Ask) -> list[list[Any]]:
    """The runs of one model on one task asked one way; a pass scored two ways is paid for once."""
    protocols = ask.settle(kind != "base", "bfloat16", name)
    varies = protocols[0].varies or (size.shuffled and protocols[0].lists_options)
    read, new = tokens_of(protocols[0], kind, size)
    hours = (size.n_items * read / READ_PER_S + size.n_items * new / NEW_PER_S) * billions / AT_B / 3600
    return [
        [name, billions, size.task_id, protocol.setting, replicate, size.n_items, round(size.n_items * read) if first else 0,
         round(size.n_items * new) if first else 0, round(hours, 4) if first else 0]
        for replicate in range(ask.replicates if varies else 1)
        for protocol in protocols
        for first in [protocol is protocols[0]]
    ]  # fmt: skip


def tokens_of(protocol: Protocol, kind: str, size: Size) -> tuple[float, float]:
    """Mean tokens read and generated for one item."""
    asked = size.question + FRAME_TOKENS + (size.options if protocol.lists_options else 0)
    if protocol.decoding == "scored":
        return asked * (1 + protocol.shots) + size.options, 0
    direct = protocol.prompt_style.endswith("-direct")
    example = WORKED_TOKENS if protocol.prompt_style.endswith("-line") else asked + DIRECT_TOKENS
    new = DIRECT_TOKENS if direct else NEW_TOKENS.get(kind, NEW_TOKENS["instruct"])
    return asked + protocol.shots * example, min(new, protocol.max_new_tokens or new)


def sizes_of(plan: Plan) -> list[Size]:
    """The plan's tasks: of benchmarks by their constants, of own items by their length."""
    own, brought = parted(plan)
    sizes = []
    for benchmark, task in brought:
        row = constants()[benchmark.task_id(task)]
        n = int(row["n_items"])
        tokens = (float(row["question_tokens"]), float(row["options_tokens"]))
        free, shuffled = row["options"].startswith("free"), benchmark.permutation_seed is not None
        sizes.append(Size(row["task_id"], min(n, plan.limit or n), *tokens, free, shuffled))
    if own or not brought:
        for itemset in itemsets(read_items(plan.items, plan.skip_bad, own)[0], plan.limit):
            question = mean([len(item.question.encode()) for item in itemset.items]) / BYTES_PER_TOKEN
            options = mean([len("".join(item.choices).encode()) for item in itemset.items]) / BYTES_PER_TOKEN
            free = any(item.answer == "free" for item in itemset.items)
            sizes.append(Size(itemset.task_id, len(itemset.items), question, options, free))
    return sizes


def mean(values: Sequence[int]) -> float:
    """Arithmetic mean."""
    return sum(values) / len(values)


def size_b(spec: ModelSpec) -> float:
    """Billions of parameters: as told, else as the name says.

    Raises:
        CatalogError: Neither.
    """
    found = re.findall(r"(?<![\w.])(\d+(?:\.\d+)?)[bB](?![a-zA-Z0-9])", Path(spec.where).name.replace("-", " "))
    if spec.size_b is None and not found:
        raise CatalogError(
            f"{spec.name}: no size in its name, and the plan tells none: add size_b = 7 (billions of parameters) to its [[models]]"
        )
    return spec.size_b if spec.size_b is not None else float(found[-1])


def hours_on(rows: Sequence[Sequence[Any]], n_gpus: int) -> float:
    """Hours until the last of several GPUs is done, each collecting whole runs, the longest first."""
    ends = [0.0] * n_gpus
    for hours in sorted((row[8] for row in rows), reverse=True):
        heapq.heapreplace(ends, ends[0] + hours)
    return max(ends)


def closing(rows: Sequence[Sequence[Any]]) -> str:
    """Totals, hours on several GPUs, and assumptions, a line each."""
    read, new, hours = (sum(row[at] for row in rows) for at in (6, 7, 8))
    models, tasks = (len({row[at] for row in rows}) for at in (0, 2))
    return (
        f"{len(rows):,} runs of {models} models on {tasks} tasks: {read / 1e9:.2f} billion tokens read, {new / 1e9:.2f} billion generated, "
        f"{hours:,.0f} GPU-hours, those collected already included\n"
        f"on {', '.join(f'{n} GPUs {hours_on(rows, n):,.0f} hours' for n in GPUS)}, without loading models\n{ASSUMED}"
    )
