"""Write a model's runs as other tools read them, so that nothing is locked in; `collect import` reads them back whole.

every-eval-ever: a file of instances and its aggregate a run. lm-eval: a folder a setting and replicate, with a samples
file a task and one results file. What a format has no field for travels with each item under OWN; with a file's first
item, under OWN_RUN, travels the card of its run. Nothing in a file depends on when it was written.
"""

import filecmp
import hashlib
import itertools
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
from rich.console import Console
from rich.progress import track

from catalog.errors import CatalogError
from catalog.items import Item, itemsets, read_items
from catalog.open import CARD, SCHEMA_VERSION
from catalog.output import records

OWN = "forgetting_catalog"  # key of what an item has beside the format
OWN_RUN = CARD  # key of the run's card: table -> rows, and schema_version
FORMATS = ("every-eval-ever", "lm-eval")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NORMALISED = ("per-byte", "acc_norm", "acc_bytes")  # protocols.scoring of scores divided by length
UNREAD = "[invalid]"  # what lm-eval leaves where no answer could be read
NO_TEXT = (
    "The catalog holds no benchmark text: where an item's text was not given, its sample_key and letters stand for question and options."
)
BATCH = 1_000
FITS = "list_bool_or(list_transform({patterns}, lambda p: {column} GLOB p OR {column} GLOB p || '/*'))"
ROWS = """
SELECT s.item, s.sample_key, s.answer::VARCHAR AS answer, s.n_options, s.gold, s.source_id, o.correct, o.predicted,
       coalesce(o.status::VARCHAR, 'error') AS status, if(o.status IS NULL, 'no outcome in the catalog', o.reason) AS reason,
       o.n_tokens, v.scores, g.text
FROM samples AS s
LEFT JOIN (FROM outcomes WHERE run_id = $run) AS o USING (item)
LEFT JOIN (FROM option_scores WHERE run_id = $run) AS v USING (item)
LEFT JOIN (FROM generations WHERE run_id = $run) AS g USING (item)
WHERE s.itemset_id = $itemset ORDER BY s.item"""


@dataclass(frozen=True)
class Wanted:
    """Which runs of a model: tasks ('arc', 'bbh/navigate', 'mmlu/high_*') and settings, all where empty; one replicate."""

    tasks: Sequence[str] = ()
    settings: Sequence[str] = ()
    replicate: int | None = None


@dataclass(frozen=True)
class Run:
    """One run: the rows of its card, how it was graded, and its figures: items, measured, share right, standard error."""

    card: dict[str, list[dict[str, Any]]]
    scored: bool
    figures: tuple[int, int, float | None, float | None]

    def row(self, table: str) -> dict[str, Any]:
        """Its row of a table, without empty columns."""
        return self.card[table][0]

    @property
    def task_id(self) -> str:
        """The task asked."""
        return str(self.row("itemsets")["task_id"])

    @property
    def metric(self) -> str:
        """What harnesses call its grade."""
        normalised = self.row("protocols").get("scoring") in NORMALISED
        return ("acc_norm" if normalised else "acc") if self.scored else "exact_match"

    @property
    def model(self) -> tuple[str, str, str | None]:
        """Organisation, name and revision of its model_id."""
        name, _, revision = str(self.row("runs")["model_id"]).partition("@")
        organisation, _, rest = name.rpartition("/")
        return organisation or "unknown", rest, revision or None

    @property
    def seconds(self) -> float:
        """When it was collected, in seconds since 1970; 0 where that is not known."""
        time = self.row("runs").get("collected_at")
        return time.replace(tzinfo=UTC).timestamp() if time else 0.0


@dataclass(frozen=True)
class Asked:
    """An item as readers of other tools see it: in texts where they were given, else in key and letters."""

    prompt: str
    choices: list[str]
    golds: list[str]
    answer: str | None


@dataclass
class Export:
    """An export under way. text: (task_id, sample_key) -> the user's item. n_same: files that were there already."""

    con: duckdb.DuckDBPyConnection
    out: Path
    text: Mapping[tuple[str, str], Item]
    n_runs: int = 0
    n_files: int = 0
    n_same: int = 0
    n_items: int = 0
    n_texts: int = 0

    def rows(self, run: Run) -> Iterator[tuple[dict[str, Any], Asked, dict[str, Any]]]:
        """Every item of a run in order: its columns, what a reader sees, and what goes under OWN and OWN_RUN."""
        parts = {"run": run.row("runs")["run_id"], "itemset": run.row("itemsets")["itemset_id"]}
        result = self.con.cursor().execute(ROWS, parts)
        names = [column[0] for column in result.description or []]
        own_run: dict[str, Any] = {OWN_RUN: {"schema_version": SCHEMA_VERSION, **run.card}}
        self.n_runs += 1
        while batch := result.fetchmany(BATCH):
            for values in batch:
                row = dict(zip(names, values, strict=True))
                item = self.text.get((run.task_id, row["sample_key"]))
                self.n_items += 1
                self.n_texts += item is not None
                yield row, asked(row, item), {OWN: own_of(row), **own_run}
                own_run = {}

    def write(self, path: Path, lines: Iterable[str]) -> str:
        """Write a file whole or not at all; one that is there and says the same stays.

        Returns:
            sha256 of the file.

        Raises:
            CatalogError: Another file is there, or the disk is full or cannot be written.
        """
        part, hashed = path.with_name(f"{path.name}.{os.getpid()}.part"), hashlib.sha256()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with part.open("wb") as file:
                    for line in lines:
                        file.write(data := f"{line}\n".encode())
                        hashed.update(data)
                if path.exists() and not filecmp.cmp(part, path, shallow=False):
                    raise CatalogError(f"{path} is there with other content: choose another --out, or remove it")
                self.n_files, self.n_same = self.n_files + 1, self.n_same + path.exists()
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            raise CatalogError(f"cannot write {path}: {error.strerror or error}. Make room and run the same command again") from error
        return hashed.hexdigest()


def export(
    con: duckdb.DuckDBPyConnection, model_id: str, out: Path, kind: str = FORMATS[0], wanted: Wanted = Wanted(), items: Sequence[Path] = ()
) -> Export:
    """Write the runs of a model that fit `wanted` into folder `out`, one run in memory at a time.

    Args:
        items: The user's own item files, which give questions and options their text.

    Raises:
        CatalogError: No run fits, `out` is a file, or a file of other content is in the way.
    """
    if out.exists() and not out.is_dir():
        raise CatalogError(f"{out} is a file: --out wants a folder")
    run_ids = chosen(con, model_id, wanted)
    found = read_items(items, skip_bad=True)[0] if items else []
    text = {(s.task_id, key): item for s in itemsets(found) for item, key in zip(s.items, s.keys, strict=True)}
    under_way = Export(con, out, text)
    console = Console(stderr=True)
    bar = track(run_ids, "exporting", console=console, transient=True, disable=not console.is_terminal)
    runs = (run_of(con, run_id) for run_id in bar)
    if kind == "lm-eval":
        write_lm_eval(under_way, model_id, runs)
    else:
        write_every_eval_ever(under_way, runs)
    return under_way


def chosen(con: duckdb.DuckDBPyConnection, model_id: str, wanted: Wanted) -> list[int]:
    """run_ids in the order of setting, protocol, replicate, task.

    Raises:
        CatalogError: A task or setting asked for has no run, or no run has them all; what there is is listed.
    """
    told = {"tasks": list(wanted.tasks), "settings": list(wanted.settings)}
    there = con.execute(
        "SELECT DISTINCT setting, task_id, list(DISTINCT replicate ORDER BY replicate) FROM run_facts WHERE model_id = $1 GROUP BY ALL ORDER BY ALL",
        [model_id],
    ).fetchall()
    query = f"""
        SELECT run_id FROM run_facts
        WHERE model_id = $model AND (len($tasks) = 0 OR {FITS.format(patterns="$tasks", column="task_id")})
          AND (len($settings) = 0 OR {FITS.format(patterns="$settings", column="setting")}) AND replicate = coalesce($replicate, replicate)
        ORDER BY setting, protocol_id, replicate, task_id, itemset_id"""  # noqa: S608
    run_ids = [int(r) for (r,) in con.execute(query, {"model": model_id, "replicate": wanted.replicate, **told}).fetchall()]
    ...
    return run_ids
