"""What a report asks the catalog: one query a table, shown on the page as it was asked."""

import re
from dataclasses import dataclass
from typing import Any

import duckdb

from catalog.compare import FORGOTTEN, warnings_of

Row = dict[str, Any]

# $1 before, $2 after, $3 the map of categories
QUERIES = {
    "headline": """
        SELECT setting, n_items, n_tasks, n_categories, n_replicates, a_pre, a_post, f, f_lo, f_hi, bt, bt_lo, bt_hi, method,
               metric, n_beyond, lost, lost_lo, lost_hi, gained, gained_lo, gained_hi
        FROM headline($1, $2) WHERE map = $3 ORDER BY setting""",
    # n11 to n00 are numbers of items where tasks are of one size, else shares of a mean over tasks times n_items.
    # noise counts where every item has it: a share of some tasks cannot be taken off a share of all
    "categories": """
        SELECT f.*, m.f_max, m.bt_max, f.n_items * (f.a_pre - f.f) AS n11, f.n_items * f.f AS n10, f.n_items * f.bt AS n01,
               f.n_items * (1 - f.a_pre - f.bt) AS n00, CASE WHEN m.n_replicated = m.n_items THEN m.f_self END AS noise,
               m.f_unparsed AS unread, f.f - unread - coalesce(noise, 0) AS rest
        FROM forgetting($1, $2) AS f JOIN category_metrics_of($1, $2) AS m USING (setting, map, category)
        WHERE map = $3 AND f.f IS NOT NULL ORDER BY setting, category = 'Other', category""",
    # the page shows those with q below .05
    "tests": """
        SELECT setting, task_id, n, n10, n01, net, net_lo, net_hi, mcnemar_p, mcnemar_q, n_tests, sparse
        FROM task_tests_of($1, $2) ORDER BY setting, mcnemar_q, task_id""",
    "forgotten": FORGOTTEN,
}


@dataclass(frozen=True)
class Pair:
    """All that a page says of two models: rows by name of the query, and what must be known before them."""

    before: str
    after: str
    map: str
    warnings: list[str]
    rows: dict[str, list[Row]]

    def of(self, name: str, setting: str) -> list[Row]:
        """The rows of one query in one setting."""
        return [row for row in self.rows[name] if row["setting"] == setting]

    @property
    def settings(self) -> list[str]:
        """Every setting in which the two are compared."""
        return sorted({row["setting"] for name in ("categories", "tests") for row in self.rows[name]})


def numbers(sql: str) -> int:
    """How many parameters a query has."""
    return max(int(n) for n in re.findall(r"\$(\d)", sql))


def ask(con: duckdb.DuckDBPyConnection, before: str, after: str, chosen_map: str) -> Pair:
    """Everything a page needs.

    Raises:
        CatalogError: The two models cannot be paired; the reason is given.
    """
    warnings = warnings_of(con, before, after)
    given = [before, after, chosen_map]
    rows = {}
    for name, sql in QUERIES.items():
        cursor = con.execute(sql, given[: numbers(sql)])  # con.sql would plan each of them twice, which takes longer than the answer
        columns = [column[0] for column in cursor.description]
        rows[name] = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
    return Pair(before, after, chosen_map, warnings, rows)


def as_typed(name: str, pair: Pair) -> str:
    """A query with its names filled in, for `catalog query` or `con.sql`."""
    given = [pair.before, pair.after, pair.map]
    lines = QUERIES[name].strip("\n").split("\n")
    indent = min(len(line) - len(line.lstrip()) for line in lines)
    sql = "\n".join(line[indent:] for line in lines)
    return re.sub(r"\$(\d)", lambda found: "'" + given[int(found[1]) - 1].replace("'", "''") + "'", sql)
