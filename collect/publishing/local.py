"""A catalog folder as a publisher sees it: its rows, its runs' digests, and the files that carry runs to the Hub."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from catalog.open import SCHEMA_VERSION, SMALL_TABLES, arrow_schema, columns_of, connect
from collect.publishing.remote import DIGESTS, Rows
from collect.store import folder_of, write_whole

ROWS_AT_ONCE = 5_000_000  # outcomes of one file, and of one query for digests
TEXTS_AT_ONCE = 200_000  # the same where texts are published: they are thousands of times larger
# the rows of a run as text in one order; NULL and '' differ
RUN_DIGESTS = """
SELECT run_id, sha256(string_agg(concat_ws('|', item, coalesce(CAST(correct AS VARCHAR), '-'), coalesce(CAST(predicted AS VARCHAR), '-'),
                                           CAST(status AS VARCHAR), coalesce(CAST(n_tokens AS VARCHAR), '-'), coalesce('=' || reason, '-')),
                                 chr(10) ORDER BY item))[:16]
FROM {source} WHERE run_id IN (SELECT unnest($1)) GROUP BY run_id
"""
ITEMSET_DIGESTS = """
SELECT itemset_id, sha256(string_agg(concat_ws('|', item, sample_key, CAST(answer AS VARCHAR), coalesce(CAST(n_options AS VARCHAR), '-'),
                                               to_json(gold)), chr(10) ORDER BY item))[:16]
FROM samples GROUP BY itemset_id
"""


class Piece(NamedTuple):
    """Runs of one model that go into one file per table."""

    model_id: str
    run_ids: list[int]
    tables: tuple[str, ...]


class Local:
    """What a folder holds; a sound catalog or an error."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.con = connect(root)
        self.rows: dict[str, Rows] = {table: self.rows_of(table, key) for table, key in SMALL_TABLES.items()}
        self.n_rows: dict[int, int] = dict(self.con.sql("SELECT run_id, count(*) FROM outcomes GROUP BY run_id").fetchall())
        self.model_of: dict[int, str] = {run["run_id"]: run["model_id"] for run in self.rows["runs"]}
        self.digests: dict[str, str] = {str(run): d for run, d in run_digests(self.con, "outcomes", self.n_rows)}
        self.itemset_digests: dict[str, str] = dict(self.con.sql(ITEMSET_DIGESTS).fetchall())

    def rows_of(self, table: str, key: str) -> Rows:
        """Rows of a small table; the paper's map comes with the package, not with the folder."""
        own = "WHERE map <> 'paper'" if table == "categories" else ""
        found: Rows = self.con.sql(f"SELECT {columns_of(table)} FROM {table} {own} ORDER BY {key}").to_arrow_table().to_pylist()
        return found

    def samples_of(self, itemset_ids: Sequence[str]) -> pa.Table:
        """Items of some itemsets, in their order."""
        query = f"SELECT {columns_of('samples')} FROM samples WHERE itemset_id IN (SELECT unnest($1)) ORDER BY itemset_id, item"
        return self.con.sql(query, params=[itemset_ids]).to_arrow_table()

    def with_rows(self, table: str) -> set[int]:
        """Runs that have rows of a large table."""
        return {run for (run,) in self.con.sql(f"SELECT DISTINCT run_id FROM {table}").fetchall()}


def run_digests(con: duckdb.DuckDBPyConnection, source: str, n_rows: Mapping[int, int]) -> Iterator[tuple[int, str]]:
    """Run and 16 hex digits over its outcomes, whatever the order they lie in; `source` is a table or what FROM takes."""
    for runs in chunks(sorted(n_rows), n_rows, ROWS_AT_ONCE):
        yield from con.execute(RUN_DIGESTS.format(source=source), [runs]).fetchall()


def chunks(run_ids: Sequence[int], n_rows: Mapping[int, int], at_most: int) -> Iterator[list[int]]:
    """Runs in their order, cut where their rows become too many; a run is never cut."""
    chunk: list[int] = []
    total = 0
    for run in run_ids:
        if chunk and total + n_rows[run] > at_most:
            yield chunk
            chunk, total = [], 0
        chunk.append(run)
        total += n_rows[run]
    if chunk:
        yield chunk


def pieces(local: Local, new: Iterable[int], texts: Iterable[int], with_text: bool) -> Iterator[Piece]:
    """What is new, model by model: whole runs, then texts of runs that are there without them."""
    tables = ("outcomes", "option_scores", *(("generations",) if with_text else ()))
    at_most = TEXTS_AT_ONCE if with_text else ROWS_AT_ONCE
    for runs, names in ((new, tables), (texts, ("generations",))):
        by_model: dict[str, list[int]] = {}
        for run in sorted(runs):
            by_model.setdefault(local.model_of[run], []).append(run)
        for model_id, own in sorted(by_model.items()):
            yield from (Piece(model_id, chunk, names) for chunk in chunks(own, local.n_rows, at_most))


def piece_files(local: Local, piece: Piece, folder: Path) -> dict[str, Path]:
    """Write the files of a piece, sorted; path in the dataset -> local file. A table without rows of it has no file."""
    files: dict[str, Path] = {}
    for table in piece.tables:
        query = f"SELECT {columns_of(table)} FROM {table} WHERE run_id IN (SELECT unnest($1)) ORDER BY run_id, item"
        rows = local.con.sql(query, params=[piece.run_ids]).to_arrow_table()
        if rows.num_rows:
            there = {str(run): "" for run in rows["run_id"].unique().to_pylist()} if table == "generations" else {}
            files |= content_file(folder, table, rows, there, folder_of(piece.model_id))
    return files


def content_file(
    folder: Path, table: str, rows: pa.Table | Rows, digests: Mapping[str, str] | None = None, below: str = ""
) -> dict[str, Path]:
    """Write one append-only file, named by its bytes; path in the dataset -> local file."""
    part = folder / f"{table}.new"
    write_rows(part, table, rows, digests)
    with part.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    path = "/".join(filter(None, (table, below, f"{content}.parquet")))
    whole = folder / path
    whole.parent.mkdir(parents=True, exist_ok=True)
    part.replace(whole)
    return {path: whole}


def write_rows(path: Path, table: str, rows: pa.Table | Rows, digests: Mapping[str, str] | None = None) -> None:
    """One file in the table's types, with the digests of what it holds."""
    schema = arrow_schema(table)
    data = rows.select(schema.names).cast(schema) if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows, schema)
    told = {DIGESTS: json.dumps(dict(digests), sort_keys=True)} if digests else {}
    write_whole(path, data, {"schema_version": SCHEMA_VERSION, **told})


def progress(title: str, things: Sequence[Any]) -> Iterator[Any]:
    """Walk through a list under a bar on standard error; without one where that is no terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return iter(track(things, title, console=console, transient=True, disable=not console.is_terminal))
