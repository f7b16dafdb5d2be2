"""Runs folders as `collect` writes them, without a model: answers are drawn from a seed."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hub import Hub

from catalog.identity import digest, itemset_id_of, protocol_id_of, run_id_of
from catalog.open import connect
from collect.__main__ import main
from collect.store import merge_pairs, write_run

SAMPLED = {"setting": "cot", "prompt_style": "cot", "decoding": "sampled", "temperature": 0.6}
SCORED = {"setting": "option-text-sum", "prompt_style": "option-text", "decoding": "scored", "scoring": "sum"}


def samples_of(task_id: str, n_items: int) -> tuple[str, list[dict[str, Any]]]:
    """An itemset of four options each; gold is the first."""
    keys = [f"qog:{digest([task_id, n])}#0" for n in range(n_items)]
    itemset_id = itemset_id_of(task_id, keys)
    rows = [{"itemset_id": itemset_id, "item": n, "sample_key": key, "answer": "choice", "n_options": 4, "gold": ["0"], "source_id": f"q{n}"}
            for n, key in enumerate(keys)]  # fmt: skip
    return itemset_id, rows


def write_runs(
    out: Path, models: Sequence[str] = ("org/a@1", "org/b@1"), tasks: Sequence[str] = ("quiz/rivers",), replicates: int = 1,
    n_items: int = 5, seed: int = 0, scored: bool = False, **more: dict[str, Any],
) -> Path:  # fmt: skip
    """Runs of every model on every task; `more`: fields of the rows of "model" and "run". Returns the folder."""
    protocol = SCORED if scored else SAMPLED
    protocol_id = protocol_id_of(protocol)
    for model_id in models:
        for task_id in tasks:
            itemset_id, samples = samples_of(task_id, n_items)
            for replicate in range(replicates):
                run_id = run_id_of(model_id, itemset_id, protocol_id, replicate)
                draw = random.Random(f"{seed} {run_id}")
                picked = [draw.randrange(4) for _ in samples]
                card = {
                    "models": [{"model_id": model_id, "family": "tiny", **more.get("model", {})}],
                    "tasks": [{"task_id": task_id, "benchmark": task_id.split("/")[0], "subset": task_id.split("/")[1], "behavioural": False}],
                    "categories": [{"map": "own", "task_id": task_id, "category": "Quiz"}],
                    "itemsets": [{"itemset_id": itemset_id, "task_id": task_id, "n_items": n_items}],
                    "protocols": [{"protocol_id": protocol_id, **protocol}],
                    "runs": [{"run_id": run_id, "model_id": model_id, "itemset_id": itemset_id, "protocol_id": protocol_id, "replicate": replicate,
                              "engine": "by hand", "collected_at": "2026-01-01 00:00:00", **more.get("run", {})}],
                }  # fmt: skip
                tables = {
                    "outcomes": [{"correct": p == 0, "predicted": p, "status": "ok", "n_tokens": 9} for p in picked],
                    **({"option_scores": [{"scores": [-float(p == n) for n in range(4)]} for p in picked]} if scored else
                       {"generations": [{"text": f"The answer is ({'ABCD'[p]})."} for p in picked]}),
                }  # fmt: skip
                write_run(out, card, samples, tables)
    return out


def declare(out: Path, before: str = "org/a@1", after: str = "org/b@1", **more: Any) -> Path:
    """Declare a pair in a runs folder. Returns the folder."""
    merge_pairs(out, [{"pair_id": f"pair {before}", "before_id": before, "after_id": after, **more}])
    return out


# ---- and what arrived on the test Hub ----

NAME = "org/name"
TABLES = ("models", "tasks", "categories", "itemsets", "samples", "protocols", "runs", "pairs", "outcomes", "option_scores", "generations")


def rows_of(folder: Path, texts: bool = False) -> dict[str, list[Any]]:
    """Every row of a folder, which must be a sound catalog."""
    con = connect(folder)
    return {table: con.sql(f"FROM {table} ORDER BY ALL").fetchall() for table in TABLES if texts or table != "generations"}


def held(hub: Hub, out: Path, revision: str = "main") -> Path:
    """A revision's files as a folder."""
    for path, data in hub.files(NAME, revision).items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_bytes(data)
    return out


def send(folder: Path, *options: str) -> int:
    """`collect publish`; returns its exit status."""
    return main(["publish", str(folder), "--repo", NAME, *options])


def n_commits(hub: Hub) -> int:
    """Commits of whatever branch, the first one of a repository aside."""
    return len(hub.repos["dataset", NAME].commits) - 1


def sizes(hub: Hub, revision: str = "main") -> dict[str, int]:
    """Bytes of what was published."""
    return {path: len(data) for path, data in hub.files(NAME, revision).items() if path != ".gitattributes"}
