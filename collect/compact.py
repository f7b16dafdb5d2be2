"""Turn runs folders of many small files into one catalog of few: outcomes of one model in one file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from catalog.errors import CatalogError
from catalog.open import PUBLISHED, SCHEMA_VERSION, SMALL_TABLES, arrow_schema, columns_of, connect
from collect.store import folder_of, write_whole

BY_MODEL = ("outcomes", "option_scores")  # texts stay where they were generated


def compact(sources: Sequence[Path], out: Path) -> None:
    """Write what the folders hold as few sorted files, without generated texts.

    Raises:
        CatalogError: `out` exists and is not empty, or the sources together are no sound catalog.
    """
    if out.exists() and any(p for p in out.rglob("*.parquet") if p.parent.name != "categories"):
        raise CatalogError(f"{out} is not empty: compact into a new folder")
    con = connect(*sources)
    con.read_parquet(str(PUBLISHED)).select(columns_of("published_results")).create_view("package")
    others = {"categories": "WHERE map <> 'paper'", "published_results": "EXCEPT FROM package"}  # the package brings these itself
    for table, key in {**SMALL_TABLES, "samples": "itemset_id, item", "published_results": "ALL"}.items():
        rows = con.sql(f"SELECT {columns_of(table)} FROM {table} {others.get(table, '')} ORDER BY {key}").to_arrow_table()
        if rows.num_rows:
            write(out / table / f"{table}.parquet", table, rows)
    for (model_id,) in con.sql("SELECT DISTINCT model_id FROM runs ORDER BY ALL").fetchall():
        for table in BY_MODEL:
            own = "(SELECT run_id FROM runs WHERE model_id = $1)"
            query = f"SELECT {columns_of(table)} FROM {table} SEMI JOIN {own} USING (run_id) ORDER BY run_id, item"
            rows = con.sql(query, params=[model_id]).to_arrow_table()
            if rows.num_rows:
                write(out / table / folder_of(model_id) / "part-0.parquet", table, rows)


def write(path: Path, table: str, rows: Any) -> None:
    """One file in the catalog's types, whole or not at all."""
    write_whole(path, rows.cast(arrow_schema(table)), {"schema_version": SCHEMA_VERSION})
