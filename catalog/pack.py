"""Packed catalogs: opened once, kept as a DuckDB file in the user's cache folder, named by the content of their files.

What is packed and why stands in schema.sql, section packed. A file is written whole or not at all, is opened read-only,
and is found again only while every Parquet file of its folders has the same bytes.
"""

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from catalog.errors import CatalogError
from catalog.guard import first_line, footer
from catalog.hub import say
from catalog.open import blank, cache_folder, part_of, schema_sql
from catalog.sources import BROUGHT

PACK_FROM = 2_000_000  # outcomes; from here on packing once costs less than opening a few times
BATCH = 10_000_000  # outcomes packed at once: about 1 GB
KEPT_DAYS = 30  # a packed file that nobody opened for so long is removed when another is written
# What macros and views read once it is packed: name(parameters) or name -> what of section packed takes its place
FROM_WORDS = {
    "strata": "FROM packed_strata",
    "itemset_overlap": "FROM packed_overlap",
    "run_words_of(before_model := NULL, after_model := NULL)": "TABLE FROM packed_words_of(before_model, after_model)",
    "item_patterns_of(before_model := NULL, after_model := NULL)": "TABLE FROM packed_item_patterns_of(before_model, after_model)",
    "pattern_codes_of(before_model := NULL, after_model := NULL)": "TABLE FROM packed_pattern_codes_of(before_model, after_model)",
}
FROM_COUNTS = {
    "transition_counts_of(before_model := NULL, after_model := NULL, kinds := ['pair', 'cross', 'self', 'consecutive'])":
        "TABLE FROM packed_counts_of(before_model, after_model, kinds)",
    "item_sums_of(before_model := NULL, after_model := NULL)": "TABLE FROM packed_item_sums_of(before_model, after_model)",
}  # fmt: skip
# Models in the order in which their outcomes lie, with the rowids between which these are
EXTENTS = """
SELECT model_id, min(o.rowid), max(o.rowid), count(*) FROM outcomes AS o JOIN runs USING (run_id) GROUP BY model_id ORDER BY min(o.rowid)
"""
# What several steps read is computed once into a temporary table, which the macros and views of schema.sql find first
KEPT = {"strata": "strata_of_rows()", "item_places": "item_places", "itemset_overlap": "itemset_overlap_of_rows()"}
MODELS = "INSERT INTO packed_models SELECT unnest($1), (SELECT count(*) FROM packed_models) + generate_subscripts($1, 1)"
WORDS = """
INSERT INTO packed_words BY NAME
SELECT w.*, model_no FROM run_words_of_rows($1, $2, $3) AS w JOIN runs USING (run_id) JOIN packed_models USING (model_id)
ORDER BY model_no, run_id, word
"""
FINGERPRINTS = "CREATE TEMP TABLE batch AS FROM fingerprints_of_rows($1, $2, $3)"
UNSEEN = """
CREATE TEMP MACRO fingerprints_of_rows(models := NULL, first_row := NULL, last_row := NULL) AS TABLE
FROM batch WHERE pattern NOT IN (SELECT fingerprint FROM packed_patterns)
"""
PATTERNS = """
INSERT INTO packed_patterns BY NAME
SELECT (SELECT count(*) FROM packed_patterns) + row_number() OVER (ORDER BY codes) AS pattern, pattern AS fingerprint, codes
FROM pattern_codes_of_rows($1, $2, $3)
"""
ITEMS = """
INSERT INTO packed_item_patterns BY NAME
SELECT series_id, stratum, place, p.pattern, model_no
FROM batch AS b JOIN packed_patterns AS p ON p.fingerprint = b.pattern
JOIN (SELECT DISTINCT series_no, series_id, model_no FROM runs_numbered($1) JOIN packed_models USING (model_id)) USING (series_no)
JOIN (SELECT DISTINCT place, stratum FROM item_places) USING (place)
ORDER BY series_no, place
"""
SHADOWED = "DROP MACRO TABLE temp.fingerprints_of_rows; DROP TABLE batch"


def n_outcomes(roots: Sequence[Path]) -> int:
    """Outcomes of the folders, from the files' footers."""
    return sum(footer(path)[0].num_rows for root in roots for path in root.glob("outcomes/**/*.parquet"))


def batches(con: duckdb.DuckDBPyConnection) -> list[tuple[list[str], int, int]]:
    """Models whose outcomes are packed together, about BATCH, and the rowids between which these lie."""
    done: list[tuple[list[str], int, int]] = []
    n = BATCH
    for model, low, high, rows in con.execute(EXTENTS).fetchall():
        if n + rows > BATCH:
            done.append(([], low, high))
            n = 0
        models, first, last = done[-1]
        done[-1] = (sorted([*models, model]), min(first, low), max(last, high))  # in which order run_answers_of numbers them
        n += rows
    return done


def pack(con: duckdb.DuckDBPyConnection, step: Callable[[int, int], object] = lambda done, of: None) -> None:
    """Fill the packed tables from the catalog open in `con` and let its views read them; in batches, to bound memory.

    Args:
        con: A sound catalog whose packed tables are empty.
        step: Told how many steps are done, of how many.
    """
    parts, pairs = batches(con), con.sql("SELECT before_id, after_id FROM pairs ORDER BY ALL").fetchall()
    steps = len(parts) + len(pairs) + 1
    for view, rows in KEPT.items():
        con.execute(f"CREATE TEMP TABLE {view} AS FROM {rows}")
    con.execute("INSERT INTO packed_strata FROM strata; INSERT INTO packed_overlap FROM itemset_overlap")
    for done, (models, first, last) in enumerate(parts):
        step(done, steps)
        con.execute(MODELS, [models])
        con.execute(WORDS, [models, first, last])
        con.execute(FINGERPRINTS, [models, first, last])
        con.execute(UNSEEN)
        con.execute(PATTERNS, [models, first, last])
        con.execute(ITEMS, [models])
        con.execute(SHADOWED)
    switch(con, FROM_WORDS)
    for done, pair in enumerate(pairs, len(parts)):
        step(done, steps)
        con.execute("INSERT INTO packed_item_sums FROM item_sums_of_patterns($1, $2)", pair)
    step(steps - 1, steps)
    con.execute("INSERT INTO packed_counts FROM transition_counts_of_words(kinds := ['pair'])")
    for view in KEPT:
        con.execute(f"DROP TABLE temp.{view}")
    switch(con, FROM_COUNTS)


def switch(con: duckdb.DuckDBPyConnection, macros: Mapping[str, str]) -> None:
    """Let macros and views read something else; they keep their comments."""
    comments = dict(
        con.sql("""
            SELECT function_name, comment FROM duckdb_functions() WHERE NOT internal
            UNION ALL SELECT view_name, comment FROM duckdb_views() WHERE NOT internal""").fetchall()
    )
    for head, body in macros.items():
        name, is_macro, _ = head.partition("(")
        con.execute(f"CREATE OR REPLACE {'MACRO' if is_macro else 'VIEW'} {head} AS {body}")
        kind = "VIEW" if not is_macro else "MACRO TABLE" if body.startswith("TABLE") else "MACRO"
        if comment := comments[name]:  # copied from the template, a view has none
            con.execute(f"COMMENT ON {kind} {name} IS '{comment.replace(chr(39), chr(39) * 2)}'")


def opened(roots: Sequence[Path], load: Callable[[duckdb.DuckDBPyConnection], None], must: bool) -> duckdb.DuckDBPyConnection | None:
    """The packed catalog of the folders, read-only; made where the cache has none of this content that can be opened.

    Args:
        roots: Catalog folders.
        load: Fills an empty catalog from the folders and refuses an unsound one.
        must: Whether the user asked for it; None is returned, and why is said, where the cache cannot take it and nobody did.

    Raises:
        CatalogError: The folders are no sound catalog, or it must be packed and the cache cannot take it.
    """
    path = cache_folder() / f"packed-{digest(roots)}.duckdb"
    try:
        con = sound(path)
        if con is None:
            write(path, roots, load)
            con = duckdb.connect(str(path), read_only=True)
    except (OSError, duckdb.OperationalError) as error:
        why = f"{path.parent} cannot take the packed catalog ({getattr(error, 'strerror', None) or first_line(error)})"
        if must:
            raise CatalogError(f"{why}: make room there, or set XDG_CACHE_HOME to another folder") from error
        say(f"note: {why}; it is opened unpacked, which is slower every time")
        return None
    con.execute("CREATE TEMP TABLE opened_from AS FROM opened_from LIMIT 0")  # the file may have been packed from elsewhere
    return con


def sound(path: Path) -> duckdb.DuckDBPyConnection | None:
    """A packed catalog, if it is there and can be opened; from now on it counts as just used."""
    if not path.exists():
        return None
    with suppress(OSError):  # a cache that cannot be written can be read
        path.touch()
    try:
        return duckdb.connect(str(path), read_only=True)
    except duckdb.Error:
        return None


def write(path: Path, roots: Sequence[Path], load: Callable[[duckdb.DuckDBPyConnection], None]) -> None:
    """Pack the folders into a file, whole or not at all; what is there is replaced."""
    part = part_of(path)
    try:
        with progress(n_outcomes(roots)) as step:
            step(0, 0)
            with blank(part) as con:
                con.execute("SET memory_limit = '4GB'")
                load(con)
                pack(con, step)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
        part.with_name(f"{part.name}.wal").unlink(missing_ok=True)
        shutil.rmtree(part.with_suffix(".tmp"), ignore_errors=True)
    remove_old(path)


@contextmanager
def progress(n: int) -> Iterator[Callable[[int, int], object]]:
    """A bar on stderr while a catalog of n outcomes is packed; of 0 steps only the text."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(f"packing {n:,} outcomes, once", total=None)
        yield lambda done, of: bars.update(task, completed=done, total=of or None)


def remove_old(new: Path) -> None:
    """Remove packed files that nobody opened for KEPT_DAYS, and what a killed process left half-written a day ago."""
    for pattern, days in (("packed-*.duckdb", KEPT_DAYS), ("*.part*", 1), ("packed-*.duckdb.*.tmp", 1)):
        for path in new.parent.glob(pattern):
            with suppress(OSError):  # another process is as tidy
                if path != new and path.stat().st_mtime < time.time() - days * 86_400:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


def digest(roots: Sequence[Path]) -> str:
    """16 hex digits over the bytes of every Parquet file, of the package's own as well, its code and the version of DuckDB."""
    total = hashlib.sha256(f"{duckdb.__version__}\n{schema_sql()}".encode())
    for own in (Path(__file__), Path(__file__).with_name("open.py"), *BROUGHT):
        total.update(hashlib.sha256(own.read_bytes()).digest())
    for root in roots:
        for path in sorted(root.rglob("*.parquet")):
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            total.update(f"\n{path.relative_to(root)} {content}".encode())
        total.update(b"\n--")
    return total.hexdigest()[:16]
