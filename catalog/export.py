"""Write a model's runs as other tools read them, so that nothing is locked in; `collect import` reads them back whole.

every-eval-ever: a file of instances and its aggregate a run. lm-eval: a folder a setting and replicate, with a samples
file a task and one results file. What a format has no field for travels with each item under OWN; with a file's first
item, under OWN_RUN, travels the card of its run. Nothing in a file depends on when it was written.
"""

import filecmp
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
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
# which runs: a pattern is a whole name, a GLOB, or a task's benchmark
CHOSEN = """
SELECT run_id FROM run_facts
WHERE model_id = $model AND replicate = coalesce($replicate, replicate)
  AND (len($tasks::VARCHAR[]) = 0 OR EXISTS (
        FROM unnest($tasks::VARCHAR[]) AS u(p) WHERE task_id = p OR task_id GLOB p OR task_id GLOB p || '/*'))
  AND (len($settings::VARCHAR[]) = 0 OR EXISTS (FROM unnest($settings::VARCHAR[]) AS u(p) WHERE setting = p OR setting GLOB p))
ORDER BY setting, protocol_id, replicate, task_id, itemset_id"""
UNFIT = """
SELECT p FROM (SELECT unnest($tasks::VARCHAR[]) AS p) WHERE NOT EXISTS (
    FROM run_facts WHERE model_id = $model AND (task_id = p OR task_id GLOB p OR task_id GLOB p || '/*'))
UNION ALL SELECT p FROM (SELECT unnest($settings::VARCHAR[]) AS p) WHERE NOT EXISTS (
    FROM run_facts WHERE model_id = $model AND (setting = p OR setting GLOB p))"""
OF_RUN = "WITH r AS (SELECT r.*, i.task_id FROM runs AS r JOIN itemsets AS i USING (itemset_id) WHERE run_id = $1) SELECT"
CARD_ROWS = {
    "models": f"{OF_RUN} m.* FROM models AS m SEMI JOIN r USING (model_id)",
    "tasks": f"{OF_RUN} t.* FROM tasks AS t SEMI JOIN r USING (task_id)",
    "categories": f"{OF_RUN} c.* FROM categories AS c SEMI JOIN r USING (task_id) WHERE map <> 'paper' ORDER BY ALL",  # the package has it
    "itemsets": f"{OF_RUN} i.* FROM itemsets AS i SEMI JOIN r USING (itemset_id)",
    "protocols": f"{OF_RUN} p.* FROM protocols AS p SEMI JOIN r USING (protocol_id)",
    "runs": "SELECT * FROM runs WHERE run_id = $1",
}
# a run of an importer may not say how it was decoded
FIGURES = """
SELECT coalesce(any_value(p.decoding) = 'scored', EXISTS (FROM option_scores WHERE run_id = $1)), any_value(i.n_items), count(o.correct),
       avg(o.correct::INTEGER), stddev_samp(o.correct::INTEGER) / sqrt(count(o.correct))
FROM runs AS r JOIN itemsets AS i USING (itemset_id) JOIN protocols AS p USING (protocol_id) LEFT JOIN outcomes AS o USING (run_id)
WHERE r.run_id = $1"""
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
    def run_id(self) -> int:
        """Its id."""
        return int(self.row("runs")["run_id"])

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
        parts = {"run": run.run_id, "itemset": run.row("itemsets")["itemset_id"]}
        result = self.con.cursor().execute(ROWS, parts)
        names = [column[0] for column in result.description or []]
        own_run: dict[str, Any] = {OWN_RUN: {"schema_version": SCHEMA_VERSION, **run.card}}
        self.n_runs += 1
        while batch := result.fetchmany(BATCH):
            for values in batch:
                row = dict(zip(names, values, strict=True))
                item = self.text.get((run.task_id, row["sample_key"]))
                item = item if item and len(item.choices) == (row["n_options"] or 0) else None
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
                self.n_files += 1
                if not path.exists():
                    part.replace(path)
                elif filecmp.cmp(part, path, shallow=False):
                    self.n_same += 1
                else:
                    raise CatalogError(f"{path} is there with other content: choose another --out, or remove it")
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            raise CatalogError(f"cannot write {path}: {error.strerror or error}. Make room and run the same command again") from error
        return hashed.hexdigest()


def export(
    con: duckdb.DuckDBPyConnection,
    model_id: str,
    out: Path,
    *,
    kind: str = FORMATS[0],
    wanted: Wanted = Wanted(),
    items: Sequence[Path] = (),
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
        from catalog.export_lm_eval import write_lm_eval

        write_lm_eval(under_way, model_id, run_ids, runs)
    else:
        from catalog.export_every_eval_ever import write_every_eval_ever

        write_every_eval_ever(under_way, runs)
    return under_way


def chosen(con: duckdb.DuckDBPyConnection, model_id: str, wanted: Wanted) -> list[int]:
    """run_ids in the order of setting, protocol, replicate, task.

    Raises:
        CatalogError: No run fits, or none fits one of the patterns; what there is is listed.
    """
    asked_for = {"model": model_id, "tasks": list(wanted.tasks), "settings": list(wanted.settings), "replicate": wanted.replicate}
    found = con.execute(CHOSEN, asked_for).fetchall()
    lost = [p for (p,) in con.execute(UNFIT, {k: v for k, v in asked_for.items() if k != "replicate"}).fetchall()]
    if found and not lost:
        return [int(run_id) for (run_id,) in found]
    there = con.execute("""SELECT setting, list(DISTINCT replicate ORDER BY replicate), list(DISTINCT task_id ORDER BY task_id)
                           FROM run_facts WHERE model_id = $1 GROUP BY ALL ORDER BY ALL""", [model_id]).fetchall()  # fmt: skip
    lines = [f"{setting}, replicate {', '.join(map(str, replicates))}: {', '.join(tasks)}" for setting, replicates, tasks in there]
    what = f"no run of {model_id} fits {', '.join(lost)}" if lost else f"no run of {model_id} fits all that was asked for"
    raise CatalogError(f"{what}. It has\n  " + ("\n  ".join(lines) or "no run"))


def run_of(con: duckdb.DuckDBPyConnection, run_id: int) -> Run:
    """A run's card, as its own file would carry it, and its figures."""
    card = {table: described(con.sql(query, params=[run_id])) for table, query in CARD_ROWS.items()}
    scored, *figures = con.execute(FIGURES, [run_id]).fetchall()[0]
    return Run(card, scored, tuple(figures))


def described(relation: duckdb.DuckDBPyRelation) -> list[dict[str, Any]]:
    """Rows without their empty columns."""
    return [{name: value for name, value in row.items() if value is not None} for row in records(relation)]


def own_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What both formats lack of an item; scores as text, for JSON has no infinity."""
    kept = {
        name: row[name]
        for name in ("item", "sample_key", "answer", "n_options", "gold", "source_id", "predicted", "status", "reason", "n_tokens")
    }
    scores = [repr(score) for score in row["scores"]] if row["scores"] is not None else None
    return {**kept, "scores": scores, "has_text": row["text"] is not None}


def asked(row: Mapping[str, Any], item: Item | None) -> Asked:
    """An item with the text of the user's file, or with its sample_key and letters."""
    n, unread = row["n_options"] or 0, UNREAD if row["status"] in ("unparsed", "truncated") else None
    choices = list(item.choices) if item else list(LETTERS[:n]) if n <= len(LETTERS) else [str(at) for at in range(n)]
    golds = [choices[int(gold)] for gold in row["gold"] or []] if n else list(row["gold"] or [])
    return Asked(
        item.question if item else row["sample_key"], choices, golds, choices[row["predicted"]] if row["predicted"] is not None else unread
    )


def dumped(value: Any, indent: int | None = None) -> str:
    """JSON in ASCII: no reader can take a U+2028 inside a text for the end of its line."""
    return json.dumps(value, allow_nan=False, default=str, indent=indent)


def slug(text: str) -> str:
    """A name every file system takes, in one piece."""
    return re.sub(r"[^\w@+=,.-]+", "-", text.replace("/", "_")).strip(" .") or "_"


def sha256(text: str) -> str:
    """Hex digits of a text's hash."""
    return hashlib.sha256(text.encode()).hexdigest()


def json_object(text: str | None) -> dict[str, str]:
    """A column of JSON, such as runs.versions, with every value as text."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return {str(k): v if isinstance(v, str) else json.dumps(v) for k, v in found.items()} if isinstance(found, dict) else {}


def present(**values: Any) -> dict[str, Any]:
    """The values that are there."""
    return {name: value for name, value in values.items() if value is not None}
