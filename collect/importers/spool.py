"""From rows of a log to runs: one model, one task, one setting, one replicate each.

Rows are spooled into a temporary DuckDB file, so that a log of any size passes in bounded memory; what identifies an
item, which repeat is which replicate and what counts as right is then said once, in SQL.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from catalog.errors import CatalogError
from collect.importers import Row
from collect.importers.values import Metric, mark_of

BATCH = 2_000
TABLES = """
CREATE TABLE rows ("row" BIGINT, grp INTEGER, key VARCHAR, source_id VARCHAR, position BIGINT, replicate INTEGER, answer VARCHAR,
                   n_options SMALLINT, gold VARCHAR[], text VARCHAR, truncated BOOLEAN, error VARCHAR, n_tokens INTEGER,
                   item INTEGER, occurrence INTEGER, status VARCHAR, reason VARCHAR);
CREATE TABLE marks ("row" BIGINT, series INTEGER, value DOUBLE, missing VARCHAR, predicted SMALLINT, scores DOUBLE[], unread BOOLEAN);
"""
# one row an item and replicate of a series. Without an id, the n-th row of a key in a replicate is the n-th such item.
# Rows of the catalog's own export say which item they are.
PLACED = """
CREATE OR REPLACE TABLE placed AS
WITH named AS (
    SELECT m.*, r.* EXCLUDE ("row"),
           coalesce('#' || r.item, r.source_id,
                    '~' || row_number() OVER (PARTITION BY m.series, r.replicate, r.key ORDER BY r."row")) AS name
    FROM marks AS m JOIN rows AS r USING ("row") WHERE r.grp = $grp)
SELECT * REPLACE (coalesce(replicate, row_number() OVER (PARTITION BY series, key, name, replicate ORDER BY "row") - 1) AS replicate)
FROM named
"""
ITEMS = """
CREATE OR REPLACE TABLE items AS
WITH once AS (
    SELECT key, name, min(position) AS position, first(answer ORDER BY "row") AS answer, first(n_options ORDER BY "row") AS n_options,
           first(gold ORDER BY "row") AS gold, first(source_id ORDER BY "row") AS source_id,
           min(item) AS asked_as, min(occurrence) AS occurrence
    FROM placed GROUP BY key, name),
keyed AS (
    SELECT *, key || '#' || coalesce(occurrence, row_number() OVER (PARTITION BY key ORDER BY position NULLS LAST, name) - 1) AS sample_key
    FROM once)
SELECT CAST(row_number() OVER (ORDER BY asked_as NULLS LAST, sample_key) - 1 AS INTEGER) AS item, * FROM keyed
"""
# a value is right at 1, or beyond the bound asked for; predicted is kept where it agrees with that. A status of the
# catalog's own export stays with all that belongs to it.
OUTCOMES = """
WITH marked AS (
    SELECT i.item, p.* EXCLUDE (item), i.answer AS kind, i.gold AS golds,
           CASE WHEN p.error IS NULL AND p.value IS NOT NULL THEN {right} END AS correct
    FROM items AS i LEFT JOIN (FROM placed WHERE series = $series AND replicate = $replicate) AS p USING (key, name))
SELECT item, correct,
       CASE WHEN status IS NOT NULL THEN predicted
            WHEN predicted IS NOT NULL AND kind = 'choice' AND correct = coalesce(golds[1] = CAST(predicted AS VARCHAR), correct)
            THEN predicted END AS predicted,
       coalesce(status, CASE WHEN correct IS NULL THEN 'error' WHEN correct THEN 'ok' WHEN truncated AND predicted IS NULL THEN 'truncated'
                             WHEN unread THEN 'unparsed' ELSE 'ok' END) AS status,
       CASE WHEN status IS NOT NULL THEN reason
            WHEN correct IS NULL THEN coalesce(error, 'not measured: ' || missing, 'not in the log') END AS reason,
       n_tokens, scores, text, kind = 'choice' AND predicted IS NOT NULL AS had_prediction
FROM marked ORDER BY item
"""


@dataclass
class Series:
    """One metric, with its filter, of one model and task, and what its values were. own: of the catalog's own export."""

    number: int
    metric: str
    own: bool = False
    n: int = 0
    n_missing: int = 0
    fractions: list[float] = field(default_factory=list)  # examples of values that are neither 0 nor 1
    odd: str | None = None

    def binary(self, bound: Metric | None) -> bool:
        """Whether every value says right or wrong."""
        return self.own or (self.odd is None and self.n > self.n_missing and (bool(bound and bound.sign) or not self.fractions))

    def kind(self) -> str:
        """What its values are, in a word or two."""
        return "no numbers" if self.odd is not None else "not 0 or 1" if self.fractions else "never measured"

    def why_not(self) -> str:
        """What its values are instead."""
        if self.odd is not None:
            return f"values such as {self.odd}"
        return f"values such as {self.fractions[0]:g}" if self.fractions else "no value"


class Spool:
    """Rows of one log on disk, grouped by model and task."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.con = con
        self.groups: dict[tuple[str, str], int] = {}
        self.series: dict[tuple[int, str], Series] = {}
        self.n = 0
        self._rows: list[dict[str, Any]] = []
        self._marks: list[dict[str, Any]] = []
        self._schemas = [con.sql(f"FROM {table}").to_arrow_table().schema for table in ("rows", "marks")]

    def add(self, row: Row) -> None:
        """Spool one row."""
        group = self.groups.setdefault((row.model, row.task), len(self.groups))
        for metric, value in row.values.items():
            series = self.series.setdefault((group, metric), Series(len(self.series), metric))
            mark = mark_of(value)
            series.n += 1
            series.n_missing += mark.number is None
            series.odd = series.odd or mark.odd
            series.own = series.own or row.item is not None
            if mark.number not in (None, 0.0, 1.0) and len(series.fractions) < 3:
                series.fractions.append(float(mark.number or 0))
            read = {"predicted": row.predicted.get(metric), "scores": row.scores.get(metric), "unread": metric in row.unread}
            self._marks.append({"row": self.n, "series": series.number, "value": mark.number, "missing": mark.missing, **read})
        if not row.values:  # asked, and nothing came of it: it counts as not measured in every series
            self._marks.append({"row": self.n, "series": -1})
        self._rows.append({"row": self.n, "grp": group, **{name: getattr(row, name) for name in self._schemas[0].names[2:]}})
        self.n += 1
        if len(self._rows) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        for table, held, schema in zip(("rows", "marks"), (self._rows, self._marks), self._schemas, strict=True):
            if held:
                batch = pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in held], schema)
                self.con.register("batch", batch)
                self.con.execute(f"INSERT INTO {table} FROM batch")
                self.con.unregister("batch")
                held.clear()

    def series_of(self, group: int) -> list[Series]:
        """The metrics of a group, by name."""
        return sorted((s for (g, _), s in self.series.items() if g == group), key=lambda s: s.metric)

    def place(self, group: int) -> None:
        """Decide items and replicates of a group: tables `placed` and `items` are then about it."""
        self.flush()
        for series in self.series_of(group):  # rows that no metric graded
            self.con.execute(
                """INSERT INTO marks ("row", series)
                   SELECT m."row", $s FROM marks AS m JOIN rows AS r USING ("row") WHERE m.series = -1 AND r.grp = $g""",
                {"s": series.number, "g": group},
            )
        self.con.execute(
            'DELETE FROM marks USING rows WHERE marks.series = -1 AND rows."row" = marks."row" AND rows.grp = $g', {"g": group}
        )
        self.con.execute(PLACED, {"grp": group})
        self.con.execute(ITEMS)

    def replicates(self, series: Series) -> dict[int, int]:
        """Replicate -> items of it that are in the log, of a placed series."""
        query = "SELECT replicate, count(*) FROM placed WHERE series = $1 GROUP BY ALL ORDER BY ALL"
        return {int(r): int(n) for r, n in self.con.execute(query, [series.number]).fetchall()}

    def uneven(self, series: Series) -> bool:
        """Whether rows are repeated without a number, and not all equally often."""
        query = """SELECT count(DISTINCT n) > 1 FROM (
                       SELECT count(*) AS n FROM placed JOIN rows AS r USING ("row") WHERE series = $1 AND r.replicate IS NULL
                       GROUP BY placed.key, placed.name)"""
        return bool(self.con.execute(query, [series.number]).fetchall()[0][0])

    def drop_repeats(self, series: Series) -> int:
        """Of a deterministic series, leave out rows that say again what their first row said.

        Returns:
            How many rows.

        Raises:
            CatalogError: A repeat says something else.
        """
        differ = self.con.execute(
            """SELECT any_value(name), count(*) FROM (
                   SELECT name, key FROM placed WHERE series = $1 GROUP BY ALL
                   HAVING count(DISTINCT coalesce(value, -1)) > 1 OR count(DISTINCT coalesce(predicted, -1)) > 1)""",
            [series.number],
        ).fetchall()[0]
        if differ[1]:
            raise CatalogError(
                f"{series.metric}: {differ[1]} items occur several times with different results (first: id {differ[0]}), "
                "though nothing was sampled, or not all equally often: two logs in one file? Split it"
            )
        again = self.con.execute(
            "DELETE FROM placed WHERE series = $1 AND replicate > 0 AND item IS NULL RETURNING 1", [series.number]
        ).fetchall()
        return len(again)

    def unnumbered(self, group: int) -> int:
        """Rows that repeat an item where neither an id nor a replicate tells repeats from further items."""
        query = (
            "SELECT count(*) - count(DISTINCT key) FROM rows WHERE grp = $1 AND source_id IS NULL AND replicate IS NULL AND item IS NULL"
        )
        return int(self.con.execute(query, [group]).fetchall()[0][0])

    def n_items(self) -> int:
        """Items of the placed group."""
        return int(self.con.execute("SELECT count(*) FROM items").fetchall()[0][0])

    def sample_keys(self) -> Iterator[str]:
        """sample_keys of the placed group, in order."""
        reader = self.con.sql("SELECT sample_key FROM items ORDER BY item").to_arrow_reader(100_000)
        for batch in reader:
            yield from batch.column(0).to_pylist()


@contextmanager
def spooled(memory: str = "500MB") -> Iterator[Spool]:
    """An empty spool in a temporary folder; gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="forgetting-catalog-") as folder:
        con = duckdb.connect(str(Path(folder) / "spool.db"), config={"threads": 1, "memory_limit": memory})
        try:
            con.execute(TABLES)
            yield Spool(con)
        finally:
            con.close()
