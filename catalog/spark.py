"""The views of schema.sql as Spark SQL, for who outgrows DuckDB: `python -m catalog.spark --from runs/ --out spark/`.

Writes every table as Parquet, and views.sql, which makes a table of each view and of what it reads. Macros are expanded, stars
and COLUMNS(...) are spelt out with the names DuckDB finds; sqlglot turns the rest. What does not turn: docs/scale.md.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from catalog.errors import CatalogError

VIEWS = ("run_facts", "itemset_overlap", "run_pairs", "run_outcomes", "transitions", "transition_counts", "task_replicates", "noise_floor",
         "seed_consistent", "gold_rank", "task_metrics", "task_categories", "category_metrics", "pair_metrics")  # fmt: skip
TABLES = ("models", "tasks", "categories", "itemsets", "samples", "protocols", "runs", "outcomes", "option_scores", "pairs")
# What Spark has no word for. Rows have no number there: all of them, in no order
INSTEAD = {"outcomes_between": "SELECT * FROM outcomes"}
WORDS = {
    "lgamma": "CAST(reflect('org.apache.commons.math3.special.Gamma', 'logGamma', CAST({} AS DOUBLE)) AS DOUBLE)",
    "list_sum": "aggregate({}, CAST(0 AS DOUBLE), (total, x) -> total + x)",
    "list_min": "array_min({})",
    "len": "size({})",
    "count_star": "count(*)",
    "hash": "xxhash64({})",  # its own hash has 32 bits, too few to tell lists of answers apart
}


class Turner:
    """Turns views one by one; a table macro becomes a view for every set of arguments it is called with."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        """Read the catalog's macros.

        Raises:
            CatalogError: sqlglot is not installed.
        """
        try:
            import sqlglot
        except ModuleNotFoundError as error:
            raise CatalogError("catalog.spark needs sqlglot, which is not installed: pip install 'forgetting-catalog[spark]'") from error
        self.con, self.glot, self.exp = con, sqlglot, sqlglot.exp
        self.macros: dict[str, tuple[list[str], str, bool]] = {}
        rows = con.sql(
            "SELECT function_name, parameters, macro_definition, function_type FROM duckdb_functions() WHERE NOT internal"
        ).fetchall()
        for name, parameters, body, kind in rows:
            self.macros[name] = (parameters, body, kind == "table_macro")
        self.defaults = defaults_of(con)
        self.done: dict[str, str] = {}

    def view(self, name: str) -> str:
        """Name of the Spark view that stands for a view, made before if need be."""
        if name not in self.done:
            ((sql,),) = self.con.execute("SELECT sql FROM duckdb_views() WHERE view_name = $1 AND NOT internal", [name]).fetchall()
            self.make(name, re.sub(r"(?s)^CREATE VIEW .*? AS ", "", sql).rstrip(";"), {})
        return name

    def make(self, name: str, body: str, arguments: dict[str, Any]) -> None:
        """Turn one body, after all that it reads."""
        tree = self.parsed(body)
        self.fill_in(tree, arguments)
        tree = self.scalars(tree)
        self.sources(tree)
        self.number(tree)
        self.spell_out(tree)
        self.done[name] = self.for_spark(tree)

    def parsed(self, text: str) -> Any:
        """A query or expression as DuckDB prints it; lambdas as sqlglot knows them."""
        while found := re.search(r"\(lambda (\w+): ", text):
            end = closing(text, found.start())
            text = f"{text[: found.start()]}{found[1]} -> ({text[found.end() : end]}){text[end + 1 :]}"
        return self.glot.parse_one(re.sub(r"= ANY ?\(", "IN (", text), read="duckdb")

    def fill_in(self, tree: Any, arguments: dict[str, Any]) -> None:
        """Put arguments in the place of parameters."""
        for column in list(tree.find_all(self.exp.Column)):
            if not column.table and column.name in arguments:
                column.replace(arguments[column.name].copy())

    def scalars(self, tree: Any) -> Any:
        """Expand scalar macros, innermost last."""
        while True:
            call = next((node for node in tree.find_all(self.exp.Anonymous) if self.is_scalar(node)), None)
            if call is None:
                return tree
            parameters, body, _ = self.macros[call.name.lower()]
            expanded = self.parsed(f"SELECT {body}").expressions[0]
            wrapped = self.exp.Paren(this=expanded)
            self.fill_in(wrapped, dict(zip(parameters, (self.exp.Paren(this=a) for a in call.expressions), strict=True)))
            call.replace(wrapped)

    def is_scalar(self, node: Any) -> bool:
        """Whether a call is one of a scalar macro."""
        macro = self.macros.get(node.name.lower())
        return macro is not None and not macro[2]

    def sources(self, tree: Any) -> None:
        """Make what a query reads: views, and table macros with their arguments."""
        inside = {cte.alias for cte in tree.find_all(self.exp.CTE)}
        for table in list(tree.find_all(self.exp.Table)):
            if isinstance(table.this, self.exp.Anonymous):
                table.set("this", self.exp.to_identifier(self.instance(table.this)))
            elif table.name not in inside and table.name not in TABLES and not table.name.startswith("glossary"):
                self.view(table.name)

    def instance(self, call: Any) -> str:
        """Name of the view that stands for a table macro with these arguments."""
        name = call.name.lower()
        parameters, body, _ = self.macros[name]
        given = dict(zip(parameters, call.expressions, strict=False))
        for argument in call.expressions:
            if isinstance(argument, self.exp.PropertyEQ | self.exp.Kwarg):
                given = {**given, argument.this.name: argument.expression}
        arguments = {p: given.get(p) or self.glot.parse_one(self.defaults.get((name, p), "NULL"), read="duckdb") for p in parameters}
        told = ", ".join(a.sql(dialect="duckdb") for a in arguments.values())
        own = f"{name}_{abs_hash(told)}" if told.replace("NULL", "").strip(", ()") else f"{name}_all"
        if own not in self.done:
            self.make(own, INSTEAD.get(name, body), arguments)
            self.con.execute(f"CREATE OR REPLACE TEMP VIEW {own} AS FROM {name}({told})")  # for the names of its columns
        return own

    def spell_out(self, tree: Any) -> None:
        """Write stars with exceptions and COLUMNS(...) as lists of columns, inner queries first."""
        ctes = [cte for cte in tree.find_all(self.exp.CTE) if cte.find_ancestor(self.exp.CTE) is None]

        def place(select: Any) -> tuple[int, int]:  # named queries in order, then the query itself; in each the innermost first
            inside = next((n for n, cte in enumerate(ctes) if any(node is select for node in cte.find_all(self.exp.Select))), len(ctes))
            return inside, -select.depth

        selects = [s for s in tree.find_all(self.exp.Select) if any(special(self.exp, e) for e in s.expressions)]
        for select in sorted(selects, key=place):
            new = []
            for expression in select.expressions:
                new += self.columns(tree, select, expression) if special(self.exp, expression) else [expression]
            select.set("expressions", new)

    def number(self, tree: Any) -> None:
        """Give numbers of rows in the order of all columns: Spark may compute a named query once for each use."""
        for window in list(tree.find_all(self.exp.Window)):
            if isinstance(window.this, self.exp.RowNumber) and not window.args.get("order") and not window.args.get("partition_by"):
                names = self.names(tree, window.find_ancestor(self.exp.Select), "*")
                window.set("order", self.exp.Order(expressions=[self.exp.Ordered(this=self.exp.column(n)) for n in names]))

    def columns(self, tree: Any, select: Any, expression: Any) -> list[Any]:
        """What one special expression stands for."""
        exp = self.exp
        if isinstance(expression, exp.Star) or (isinstance(expression, exp.Column) and isinstance(expression.this, exp.Star)):
            star = expression if isinstance(expression, exp.Star) else expression.this
            return self.starred(tree, select, star, expression.table if isinstance(expression, exp.Column) else "")
        (call,) = list(expression.find_all(exp.Columns))[:1]
        inner = call.this
        if isinstance(inner, exp.Literal):
            names = [n for n in self.names(tree, select, "*") if re.search(inner.name, n)]
            pattern, table = inner.name, ""
        else:
            table = inner.table if isinstance(inner, exp.Column) else ""
            star = inner.this if isinstance(inner, exp.Column) else inner
            left_out = {e.name for e in star.args.get("except_") or star.args.get("except") or []}
            names = [n for n in self.names(tree, select, f"{table}.*" if table else "*") if n not in left_out]
            pattern = ""
        return [self.one(expression, name, pattern, table) for name in names]

    def one(self, expression: Any, name: str, pattern: str, table: str) -> Any:
        """An expression for one of its columns."""
        copy = expression.copy()
        for call in list(copy.find_all(self.exp.Columns)):
            column = self.exp.column(name, table or None)
            if call is copy:
                return column.as_(name)
            call.replace(column)
        if not isinstance(copy, self.exp.Alias):
            return copy.as_(name)
        return copy.this.as_(re.sub(pattern or ".*", lambda found: copy.alias.replace("\\0", found[0]), name, count=1))

    def starred(self, tree: Any, select: Any, star: Any, table: str) -> list[Any]:
        """A star with EXCLUDE or REPLACE."""
        left_out = {e.name for e in star.args.get("except_") or star.args.get("except") or []}
        replaced = {e.alias: e for e in star.args.get("replace") or []}
        return [
            replaced[n].copy() if n in replaced else self.exp.column(n, table or None)
            for n in self.names(tree, select, f"{table}.*" if table else "*")
            if n not in left_out
        ]

    def names(self, tree: Any, select: Any, star: str) -> list[str]:
        """Columns that a star stands for in a query, as DuckDB finds them."""
        probe = self.exp.Select(expressions=[self.glot.parse_one(f"SELECT {star}", read="duckdb").expressions[0]])
        for part in ("from_", "from", "joins", "laterals"):
            if select.args.get(part):
                value = select.args[part]
                probe.set(part, [v.copy() for v in value] if isinstance(value, list) else value.copy())
        ctes = [cte.sql(dialect="duckdb") for cte in self.before(tree, select)]
        text = (f"WITH {', '.join(ctes)} " if ctes else "") + probe.sql(dialect="duckdb") + " LIMIT 0"
        return [name for name, *_ in self.con.execute(f"DESCRIBE {text}").fetchall()]

    def before(self, tree: Any, select: Any) -> Iterator[Any]:
        """Named queries that stand before a query."""
        own = select.find_ancestor(self.exp.CTE)
        for cte in tree.find_all(self.exp.CTE):
            if cte is own or (own is not None and own.find_ancestor(self.exp.CTE) is cte):
                return
            if cte.find_ancestor(self.exp.CTE) is None:
                yield cte

    def for_spark(self, tree: Any) -> str:
        """sqlglot's Spark, and the words it does not know."""
        exp = self.exp
        for call in list(tree.find_all(exp.Length)):
            call.replace(exp.Anonymous(this="size", expressions=[call.this]))
        for call in reversed(list(tree.find_all(exp.Anonymous))):  # the innermost first
            word, inside = call.name.lower(), [a.sql(dialect="spark") for a in call.expressions]
            if word in WORDS:
                call.replace(self.glot.parse_one(WORDS[word].format(*inside), read="spark"))
            elif word == "xor":
                call.replace(exp.Paren(this=exp.BitwiseXor(this=call.expressions[0], expression=call.expressions[1])))
        for cte in tree.find_all(exp.CTE):
            cte.set("materialized", None)
        return str(tree.sql(dialect="spark"))


def closing(text: str, start: int) -> int:
    """Where the parenthesis at `start` closes."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    raise ValueError(f"a parenthesis is not closed: {text[start : start + 60]}")


def special(exp: Any, expression: Any) -> bool:
    """Whether an expression of a SELECT has to be spelt out."""
    star = expression if isinstance(expression, exp.Star) else expression.this if isinstance(expression, exp.Column) else None
    if isinstance(star, exp.Star):
        return any(star.args.get(name) for name in ("except", "except_", "replace"))
    return expression.find(exp.Columns) is not None


def abs_hash(text: str) -> str:
    """A short name for arguments."""
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:6]


def defaults_of(con: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], str]:
    """(macro, parameter) -> default, from the text of schema.sql."""
    from catalog.open import schema_sql

    found = {}
    for name, parameters in re.findall(r"CREATE MACRO (\w+)\((.*?)\) AS", schema_sql()):
        for parameter, default in re.findall(r"(\w+) := (\[.*?\]|[^,]+)", parameters):
            found[name, parameter] = default
    return found


def turned(con: duckdb.DuckDBPyConnection, views: Sequence[str] = VIEWS) -> dict[str, str]:
    """Spark's text of views and of what they read, in the order in which they must be made."""
    turner = Turner(con)
    for name in views:
        turner.view(name)
    return turner.done


COLUMNS = """
SELECT string_agg(if(data_type LIKE 'ENUM%', format('CAST("{0}" AS VARCHAR) AS "{0}"', column_name), format('"{}"', column_name)), ', '
                  ORDER BY column_index) FROM duckdb_columns() WHERE table_name = $1 AND NOT internal"""


def write(con: duckdb.DuckDBPyConnection, out: Path, views: Sequence[str] = VIEWS) -> dict[str, str]:
    """Write every table as Parquet and the views as Spark SQL, each a table that is computed once.

    Args:
        con: An open catalog, not a packed one.
        out: Folder for TABLE.parquet and views.sql; made where missing.
        views: Which views.

    Returns:
        The queries by name, in the order in which they must be made.
    """
    queries = turned(con, views)
    out.mkdir(parents=True, exist_ok=True)
    for table in TABLES:
        ((columns,),) = con.execute(COLUMNS, [table]).fetchall()
        con.sql(f"SELECT {columns} FROM {table}").write_parquet(str(out / f"{table}.parquet"), overwrite=True)
    tables = [f"CREATE OR REPLACE TEMPORARY VIEW {t} AS SELECT * FROM parquet.`{(out / t).resolve()}.parquet`" for t in TABLES]
    made = [f"CREATE TABLE {name} USING parquet AS {sql}" for name, sql in queries.items()]
    (out / "views.sql").write_text(";\n\n".join([*tables, *made]) + ";\n", encoding="utf-8")
    return queries


def main(argv: list[str] | None = None) -> int:
    """Exit status as of `catalog`."""
    from catalog.open import connect

    parser = argparse.ArgumentParser(prog="python -m catalog.spark", description="Write a catalog's tables and views for Spark.")
    parser.add_argument("--from", dest="sources", action="append", metavar="FOLDER", help="catalog folder; default: the shipped one")
    parser.add_argument("--out", type=Path, required=True, help="folder for Parquet files and views.sql")
    args = parser.parse_args(argv)
    try:
        n = len(write(connect(*(args.sources or []), packed=False), args.out))
    except CatalogError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"wrote {len(TABLES)} tables and {args.out / 'views.sql'} with {n} queries", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
