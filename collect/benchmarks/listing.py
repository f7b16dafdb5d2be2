"""`collect tasks`: what can be asked, with committed constants; reads no item and no Hub."""

import csv
from functools import cache
from pathlib import Path
from typing import Any

from catalog.errors import CatalogError
from collect.benchmarks import BENCHMARKS
from collect.benchmarks.loading import tasks_named

CONSTANTS = Path(__file__).parent / "constants.csv"
PAPER_MAP = Path(__file__).parent.parent / "recipes" / "paper_categories.csv"
FIELDS = ("task_id", "n_items", "n_refused", "options", "counted", "question_tokens", "options_tokens", "tokens_are")
COLUMNS = ["task", "items", "refused", "counted", "options", "category", "paper_category", "split", "licence", "hub", "revision"]


@cache
def constants() -> dict[str, dict[str, str]]:
    """task_id -> its row of constants.csv. counted: measured, or stated by the publisher; tokens_are: measured, of a sample, assumed."""
    with CONSTANTS.open(encoding="utf-8", newline="") as file:
        return {row["task_id"]: row for row in csv.DictReader(file)}


@cache
def paper_categories() -> dict[str, str]:
    """task_id -> category of arXiv 2510.17776; tasks it leaves out or does not have are Other."""
    with PAPER_MAP.open(encoding="utf-8", newline="") as file:
        return {row["task"]: row["category"] for row in csv.DictReader(file) if not row["category"].startswith("(")}


def listing(patterns: list[str]) -> list[list[Any]]:
    """A row of COLUMNS per task that a pattern fits, in the benchmarks' order; all of them without a pattern.

    Raises:
        CatalogError: No task fits a pattern.
    """
    chosen = {(b.name, task.subset): (b, task) for pattern in patterns or ["*"] for b, task in found(pattern)}
    rows = []
    for benchmark, task in chosen.values():
        row, task_id = constants()[benchmark.task_id(task)], benchmark.task_id(task)
        told = (int(row["n_items"]), int(row["n_refused"]), row["counted"], row["options"], task.category)
        paper = paper_categories().get(task_id, "Other")
        rows.append([task_id, *told, paper, task.split, benchmark.licence, benchmark.hub, benchmark.revision or "looked up at first use"])
    return rows


def found(pattern: str) -> Any:
    """The tasks that a pattern fits, or an error with the benchmarks there are."""
    if not (tasks := tasks_named(pattern)):
        raise CatalogError(f"no task fits {pattern}; benchmarks are {', '.join(b.name for b in BENCHMARKS)}")
    return tasks
