"""Importers: one file a format. Each reads a log into `Row`s; what they mean as runs is decided once, in spool.py.

A log says which item was asked, what came out and how it was graded. An importer keeps to what the log says: what a
harness does not record stays unknown (None), it is never guessed from a neighbouring field.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collect.importers.values import Metric


class NotALog(Exception):
    """The file holds no answers graded right or wrong; the message says what it is.

    kind: 'beside' a log and read along with it, 'other' (no suffix of logs), or of a 'shape' that says nothing of answers.
    """

    def __init__(self, reason: str, kind: str = "shape") -> None:
        super().__init__(reason)
        self.kind = kind


Tick = Callable[[int], None]  # told how many bytes of the log were read since the last call


@dataclass(frozen=True)
class Told:
    """What the user says about logs; it wins over what the logs say.

    columns: field of a table -> column, a dotted path, or a list of columns (options).
    """

    format: str | None = None
    model: str | None = None
    task: str | None = None
    metrics: tuple[Metric, ...] = ()
    replicate: int | None = None
    trust_ids: bool = False
    columns: Mapping[str, Any] = field(default_factory=dict)
    skip_bad: bool = False
    keep_text: bool = True


@dataclass(slots=True)
class Row:
    """One line of a log: an item asked once, graded by one or more metrics.

    key: sample_key without its occurrence. values, predicted, scores: by metric, named with its filter. replicate:
    None where the log numbers no repeats; then the n-th row of one id and key is replicate n-1. unread: metrics for
    which the log says that no answer could be read. error: why nothing was measured. item, occurrence, status and reason: only of
    the catalog's own export, where they are known; elsewhere they follow from the rest.
    """

    where: str
    key: str
    values: dict[str, Any]
    model: str = ""
    task: str = ""
    source_id: str | None = None
    position: int | None = None
    replicate: int | None = None
    answer: str = "free"
    n_options: int | None = None
    gold: list[str] | None = None
    predicted: dict[str, int] = field(default_factory=dict)
    scores: dict[str, Sequence[float]] = field(default_factory=dict)
    text: str | None = None
    unread: set[str] = field(default_factory=set)
    truncated: bool = False
    error: str | None = None
    n_tokens: int | None = None
    item: int | None = None
    occurrence: int | None = None
    status: str | None = None
    reason: str | None = None


@dataclass
class About:
    """What a log says about the runs of one model on one task in it: rows of the small tables, in part.

    claims: metric -> (items, mean) as the harness printed them, to hold against the rows.
    """

    model: dict[str, Any]
    task_id: str
    protocol: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)
    itemset: dict[str, Any] = field(default_factory=dict)
    task: dict[str, Any] = field(default_factory=dict)
    categories: list[dict[str, Any]] = field(default_factory=list)
    claims: dict[str, tuple[int | None, float | None]] = field(default_factory=dict)


@dataclass
class Log:
    """An open log. `about(model, task)` is asked after the rows were read.

    every_metric: every metric of the format says right or wrong (a scorer); else only those with such a name.
    """

    format: str
    path: Path
    rows: Iterator[Row]
    about: Callable[[str, str], About]
    every_metric: bool = False
    notes: list[str] = field(default_factory=list)
