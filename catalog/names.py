"""Find what a user names: a model by its id or the part of it that is enough, a map of categories."""

import difflib

import duckdb

from catalog.errors import CatalogError


def model_named(con: duckdb.DuckDBPyConnection, text: str) -> str:
    """The one model_id a user means: exact, or without revision, or without organisation and revision.

    Raises:
        CatalogError: None or several fit; the near ones are named.
    """
    ids = [row[0] for row in con.sql("SELECT model_id FROM models ORDER BY ALL").fetchall()]
    if not ids:
        raise CatalogError(f"no model {text}: the catalog holds no models. Collect or import runs first (collect run, collect import)")
    if text in ids:
        return text
    fits = [i for i in ids if text in (i.split("@")[0], i.split("@")[0].split("/")[-1], i.split("/")[-1])]
    if len(fits) == 1:
        return str(fits[0])
    if fits:
        raise CatalogError(f"{text} could be {len(fits)} models: give one of\n  " + "\n  ".join(fits))
    short = {i.split("@")[0].split("/")[-1]: i for i in ids} | {i.split("@")[0]: i for i in ids}
    near = list(dict.fromkeys(short[name] for name in difflib.get_close_matches(text, short, 5, 0.4)))
    near = near or [i for i in ids if text.lower() in i.lower()][:5] or ids[:5]
    raise CatalogError(
        f"no model {text} in the catalog ({len(ids)} models). Near it:\n  " + "\n  ".join(near) + "\nAll: catalog query 'FROM models'"
    )


def map_for(con: duckdb.DuckDBPyConnection, before: str, after: str, wanted: str | None) -> str:
    """The map to sort two models' tasks by: the one asked for, else paper, else the items' own, else by benchmark.

    Raises:
        CatalogError: The map asked for does not exist.
    """
    maps = [
        row[0] for row in con.sql("SELECT DISTINCT map FROM task_categories ORDER BY map <> 'paper', map = 'benchmark', map").fetchall()
    ]
    if wanted and wanted not in maps:
        raise CatalogError(f"no map {wanted}; there are {', '.join(maps)}")
    query = """SELECT DISTINCT map FROM run_pairs_of($1, $2) AS p JOIN task_categories AS c USING (task_id)
               WHERE p.kind = 'pair' AND c.category <> 'Other'"""
    used = {row[0] for row in con.execute(query, [before, after]).fetchall()}
    if wanted and wanted not in used:
        raise CatalogError(f"map {wanted} sorts none of the tasks of these models; {', '.join(m for m in maps if m in used)} does")
    return wanted or next((m for m in maps if m in used), "benchmark")
