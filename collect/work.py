"""Who collects what, where many do: a fixed share of a plan (`--shard i/n`), or work handed out as workers become free.

A work item is a group of passes of one model that are asked together. Models load slowly: a worker keeps its model while
there is work for it, and shares are cut along models.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from catalog.errors import CatalogError
from collect.cards import Job

TRIES = 2  # of a run, before it is set aside
GENERATING = 8  # times as much work an item is that is answered in words; a guess that only balances


@dataclass(frozen=True)
class Shard:
    """Number i (from 1) of n equal shares."""

    i: int
    n: int


def shard_named(text: str) -> Shard:
    """'3/8' is the third of eight shares.

    Raises:
        CatalogError: It is not of that form, or there is no such share.
    """
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise CatalogError(f"--shard {text}: wanted I/N with I from 1 to N, for example 3/8. An array that counts from 0 adds 1")
    return Shard(int(found[1]), int(found[2]))


def share(jobs: Iterable[Job], shard: Shard) -> list[Job]:
    """A shard's jobs: cut along models, then along ways of asking, so that few models load twice and batches stay full.

    Every process of the same plan cuts the same way, whatever is collected already.
    """
    ordered = [(n, job) for n, model in enumerate(by_model(jobs).values()) for job in model]
    ordered.sort(key=lambda pair: (pair[0], pair[1].protocols[0].decoding, pair[1].protocols[0].protocol_id))
    costs = [cost(job) for _, job in ordered]
    total, before, mine = sum(costs), 0.0, []
    for (_, job), own in zip(ordered, costs, strict=True):
        if int((before + own / 2) / total * shard.n) == shard.i - 1:
            mine.append(job)
        before += own
    return mine


def by_model(jobs: Iterable[Job]) -> dict[str, list[Job]]:
    """Jobs of each model, models in order of appearance."""
    models: dict[str, list[Job]] = {}
    for job in jobs:
        models.setdefault(job.located.model_id, []).append(job)
    return models


def cost(job: Job) -> float:
    """How much work a job is, in no unit: items, as heavy as the model's weights and as words are."""
    each = 1 if job.protocols[0].decoding == "scored" else GENERATING
    return len(job.itemset.items) * each * weight(job.located.folder, job.located.gguf)


@cache
def weight(folder: Path, gguf: str | None) -> int:
    """Bytes of a model's weights."""
    return sum(path.stat().st_size for path in folder.glob(gguf or "*.safetensors")) or 1


@dataclass
class Item:
    """A work item: jobs of one model asked together, and how often it was tried."""

    jobs: list[Job]
    tries: int = 0

    @property
    def model_id(self) -> str:
        """The model it asks."""
        return self.jobs[0].located.model_id


@dataclass
class Schedule:
    """Hands out work items; knows what every worker has loaded. set_aside: what failed for good, and why."""

    waiting: dict[str, deque[Item]] = field(default_factory=dict)
    loaded: dict[int, str] = field(default_factory=dict)
    set_aside: list[tuple[Job, str]] = field(default_factory=list)
    n_loads: int = 0

    def add(self, groups: Iterable[Sequence[Job]]) -> None:
        """More work."""
        for group in groups:
            item = Item(list(group))
            self.waiting.setdefault(item.model_id, deque()).append(item)

    def next(self, worker: int) -> Item | None:
        """Work for a worker: of the model it has loaded, else of the one with most work left for each that has it loaded."""
        open_models = [model for model, items in self.waiting.items() if items]
        if not open_models:
            return None
        model = self.loaded.get(worker)
        if model not in open_models:
            having = Counter(self.loaded.values())
            model = max(open_models, key=lambda name: self.left(name) / (1 + having[name]))
            self.loaded[worker] = model
            self.n_loads += 1
        return self.waiting[model].popleft()

    def left(self, model: str) -> float:
        """Work that waits for a model."""
        return sum(cost(job) for item in self.waiting[model] for job in item.jobs)

    def lost(self, worker: int) -> None:
        """A worker is gone, and what it had loaded."""
        self.loaded.pop(worker, None)

    def failed(self, item: Item, why: str) -> list[Job]:
        """Try an item again, its jobs one by one, so that what fails again is alone.

        Returns:
            Jobs that were set aside: each failed alone, for the last time.
        """
        tries, aside = item.tries + 1, []
        for job in item.jobs:
            if tries >= TRIES and len(item.jobs) == 1:
                self.set_aside.append((job, why))
                aside.append(job)
            else:
                self.waiting[item.model_id].append(Item([job], min(tries, TRIES - 1)))
        return aside
