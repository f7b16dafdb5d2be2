"""Packed catalogs: opened once, kept as a DuckDB file in the user's cache folder, named by the content of their files.

What is packed and why stands in schema.sql, section packed. A file is written whole or not at all, is opened read-only,
and is found again only while every Parquet file of its folders has the same bytes.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb

from catalog.guard import footer
from catalog.open import cache_folder, fill, schema_sql

PACK_FROM = 2_000_000  # outcomes; from here on packing once costs less than opening a few times
BATCH = 10_000_000  # outcomes packed at once: about 1 GB
SWITCH = """
CREATE OR REPLACE MACRO run_words_of(before_model := NULL, after_model := NULL) AS TABLE
FROM packed_words_of(before_model, after_model);
COMMENT ON MACRO TABLE run_words_of IS 'The answers of every run (of two models, if given), 60 items a row, one bit each.';
CREATE OR REPLACE MACRO item_sums_of(before_model := NULL, after_model := NULL) AS TABLE
FROM packed_item_sums_of(before_model, after_model);
COMMENT ON MACRO TABLE item_sums_of IS 'Sums and sums of squares of the item scores of a pair, by answer kind and number of options.';
"""


def n_outcomes(roots: Sequence[Path]) -> int:
    """Outcomes of the folders, from the files' footers."""
    return sum(footer(path)[0].num_rows for root in roots for path in root.glob("outcomes/**/*.parquet"))


def pack(con: duckdb.DuckDBPyConnection) -> None:
    """Fill the packed tables from the catalog open in `con` and let its views read them; batched, to bound memory."""
    batches = con.execute(
        """SELECT list(model_id ORDER BY model_id) FROM (
               SELECT model_id, sum(sum(n_items)) OVER (ORDER BY model_id) // $1 AS batch FROM run_facts GROUP BY model_id)
           GROUP BY batch ORDER BY batch""", [BATCH]).fetchall()  # fmt: skip
    for (models,) in batches:
        con.execute("INSERT INTO packed_words FROM run_words_of_rows($1) ORDER BY run_id", [models])
    declared = con.sql("SELECT before_id, after_id FROM pairs ORDER BY ALL").fetchall()
    for before, after in declared if len(batches) > 1 else [(None, None)]:
        con.execute("INSERT INTO packed_item_sums FROM item_sums_of_rows($1, $2)", [before, after])
    con.execute(SWITCH)


def packed_file(roots: Sequence[Path], load: Callable[[duckdb.DuckDBPyConnection], None]) -> Path:
    """The packed catalog of the folders; made where the cache has none of this content.

    Args:
        roots: Catalog folders.
        load: Fills an empty catalog from the folders and refuses an unsound one.
    """
    path = cache_folder() / f"packed-{digest(roots)}.duckdb"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            with duckdb.connect(str(part), config={"temp_directory": str(part.with_suffix(".tmp")), "memory_limit": "4GB"}) as con:
                fill(con)
                load(con)
                pack(con)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
            part.with_name(f"{part.name}.wal").unlink(missing_ok=True)
            shutil.rmtree(part.with_suffix(".tmp"), ignore_errors=True)
    return path


def digest(roots: Sequence[Path]) -> str:
    """16 hex digits over the bytes of every Parquet file, the schema and the version of DuckDB; never over times."""
    total = hashlib.sha256(f"{duckdb.__version__}\n{schema_sql()}\n{SWITCH}".encode())
    for root in roots:
        for path in sorted(root.rglob("*.parquet")):
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            total.update(f"\n{path.relative_to(root)} {content}".encode())
        total.update(b"\n--")
    return total.hexdigest()[:16]
