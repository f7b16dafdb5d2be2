"""OpenAI's solution files: one row an item, one column a system, each with `is_correct` and its solution."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from catalog.identity import qog_key
from collect.importers import About, Log, Row, Tick, Told
from collect.importers.names import model_row, task_id_of
from collect.importers.reading import records
from collect.importers.values import at_path

GOLD = ("ground_truth", "answer", "reference")


def systems_of(head: Mapping[str, Any]) -> list[str]:
    """Columns that hold a system's answer."""
    return [name for name, value in head.items() if isinstance(value, dict) and "is_correct" in value]


def fits(head: Mapping[str, Any]) -> bool:
    """Whether a first record lists several systems' answers to a question."""
    return "question" in head and bool(systems_of(head))


def open_log(path: Path, told: Told, tick: Tick) -> Log:
    """Rows of one file; every system is a model."""
    task = path.stem
    log = Log("openai-jsonl", path, iter(()), lambda model, _task: about(model, task))

    def rows() -> Iterator[Row]:
        for n, (where, raw) in enumerate(records(path, told, tick, log.notes)):
            gold = final_answer(next((raw[name] for name in GOLD if raw.get(name) is not None), None))
            key = qog_key(str(raw["question"]), [], gold)
            for system in systems_of(raw):
                yield Row(where, key, {"is_correct": at_path(raw[system], "is_correct")}, system, task, str(n), n,
                          gold=gold or None, text=at_path(raw[system], "solution"))  # fmt: skip

    log.rows = rows()
    return log


def final_answer(solution: Any) -> list[str]:
    """What stands behind the last '####' of a worked solution (the convention of GSM8K), else the solution."""
    return [] if solution is None else [str(solution).rsplit("####", 1)[-1].strip()]


def about(model: str, task: str) -> About:
    """A system is a model named by its column; the file says nothing else."""
    return About(model_row(model), task_id_of(task), {"prompt_style": task}, {"engine": "openai-jsonl"})
