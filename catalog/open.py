"""Open catalogs: one in-memory DuckDB connection over schema.sql, filled from one or more catalog folders.

A catalog folder holds Parquet files by table (`outcomes/`, `samples/`, `runs/` ...). A run's own file carries the
rows it adds to the small tables in its metadata (its card), so a folder of run files is a whole catalog.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from threading import get_ident
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from catalog.errors import CatalogError
from catalog.guard import first_line, footer, unreadable
from catalog.sources import LARGE_TABLES, PAPER_MAP, PUBLISHED, SHIPPED, SMALL_TABLES, Place, files_of, places_of

SCHEMA_VERSION = "1.0"
__all__ = ["LARGE_TABLES", "PUBLISHED", "SHIPPED", "SMALL_TABLES"]  # of sources.py, for who reads or writes the same files
CARD = "forgetting_catalog_run"  # Parquet metadata key of a run's card
LOADING = 4  # GiB of memory while files of others are read; what does not fit goes to the temporary folder
NEWEST_WINS = ("models", "tasks", "categories", "pairs")  # described, not content-addressed


@cache
def schema_sql() -> str:
    """Text of schema.sql: beside the packages in a checkout, inside the package in a wheel."""
    for path in (Path(__file__).parent / "schema.sql", Path(__file__).parent.parent / "schema.sql"):
        if path.exists():
            return path.read_text(encoding="utf-8")
    raise CatalogError("schema.sql is not where the package expects it: reinstall forgetting-catalog")


def connect(
    *sources: str | Path, check: bool = True, packed: bool | None = None, revision: str | None = None, download: bool = True
) -> duckdb.DuckDBPyConnection:
    """Open catalogs together, in memory or packed; what is on disk is only read.

    Args:
        sources: Catalog folders (a runs folder, a downloaded dataset) and data sets on the Hub ("ORG/NAME",
            "ORG/NAME@REVISION"); a folder of that name wins; none means the shipped catalog.
        check: Refuse a catalog whose `integrity` view is not empty; False opens it raw, to look at the faults.
        packed: Pack once into the user's cache folder and open that, read-only; None does so for large sound catalogs.
        revision: Branch, tag or commit of the one data set on the Hub; default: main.
        download: False leaves outcomes, scores and texts on the Hub: every query fetches the columns it reads, and
            only the small tables are checked.

    Returns:
        A connection with the tables, views and macros of schema.sql: `con.sql("FROM pair_metrics")`. Which commit of
        which data set it holds: `FROM opened_from`.

    Raises:
        CatalogError: A folder is missing, empty, of another schema version, damaged, or fails integrity; a data set is
            not there, not to be trusted, or neither in reach nor in the cache; the cache folder cannot take what is to be packed.
    """
    from catalog import pack

    places = places_of(sources, revision, download)
    roots = [place.root for place in places]
    if any(place.far for place in places):
        from catalog.remote import connect_far

        if packed:
            raise CatalogError("what stays on the Hub cannot be packed: leave out packed or download=False")
        return connect_far(places, check)
    large = packed is None and check and pack.n_outcomes(roots) >= pack.PACK_FROM
    con = pack.opened(roots, lambda empty: load_sound(empty, places), must=not large) if packed or large else None
    if con is None:
        con = blank()
        with bounded(con):
            (load_sound if check else load)(con, places)
    note_places(con, places)
    return con


def note_places(con: duckdb.DuckDBPyConnection, places: Sequence[Place]) -> None:
    """Write down what was opened."""
    con.executemany("INSERT INTO opened_from VALUES ($1, $2)", [(place.name, place.commit) for place in places])


def load_sound(con: duckdb.DuckDBPyConnection, places: Sequence[Place]) -> None:
    """Fill every table and refuse a catalog that is not sound."""
    load(con, places)
    refuse_faults(con, places, "FROM integrity LIMIT 6")


def refuse_faults(con: duckdb.DuckDBPyConnection, places: Sequence[Place], query: str) -> None:
    """Raise what a query over `integrity` finds; where catalogs contradict each other, with both their names."""
    if faults := con.sql(query).fetchall():
        told = conflicts(places) if len(places) > 1 else []
        told = told or [f"{problem}: {detail}" for problem, detail in faults]
        more = "\n  ..." if len(told) > 5 else ""
        names = " and ".join(place.name for place in places)
        raise CatalogError(
            f"{names} fails integrity:\n  " + "\n  ".join(told[:5]) + f"{more}\nList all: catalog check --from {places[0].name}"
        )


# what two catalogs may not say differently under one id: the id, its content, the content in words
CONTENT = {
    "run": """SELECT run_id, hash(list((item, correct, predicted, CAST(status AS VARCHAR)) ORDER BY item)), 'outcomes'
              FROM outcomes GROUP BY run_id""",
    "protocol": "SELECT protocol_id, any_value(hash(setting)), 'setting ' || any_value(setting) FROM protocols GROUP BY protocol_id",
}


def conflicts(places: Sequence[Place]) -> list[str]:
    """Runs and protocols that stand in several catalogs with different content. Opens each alone: only after a fault."""
    seen: dict[tuple[str, Any], tuple[Any, str, str]] = {}
    told = []
    for place in places:
        con = blank()
        load(con, [place])
        for kind, query in CONTENT.items():
            for key, content, shown in con.sql(query).fetchall():
                other, what, where = seen.setdefault((kind, key), (content, shown, place.name))
                if other != content:
                    told.append(f"{kind} {key} differs: {what} in {where}, other {shown} in {place.name}")
    return told


def blank(file: Path | None = None) -> duckdb.DuckDBPyConnection:
    """An empty catalog in memory, or in a new file, copied from a template in the user's cache folder.

    Binding the nested views of schema.sql takes half a second, copying what was bound once a thirtieth of one. Where
    the cache cannot be written or read, the schema is executed.
    """
    con = new(file)
    try:
        con.execute(f"ATTACH '{str(template()).replace(chr(39), chr(39) * 2)}' AS template (READ_ONLY)")
        (here,) = con.sql("SELECT current_database()").fetchall()[0]
        con.execute(f'COPY FROM DATABASE template TO "{here}"; DETACH template')
    except (OSError, duckdb.Error):
        con.close()
        with suppress(OSError):
            template_file().unlink(missing_ok=True)  # damaged, perhaps: the next call makes it anew
        if file:
            file.unlink(missing_ok=True)
        con = new(file)
        fill(con)
    return con


def new(file: Path | None = None) -> duckdb.DuckDBPyConnection:
    """A connection in memory that spills into the system's temporary folder, not into the working folder; or to a new file."""
    if file:
        return duckdb.connect(str(file), config={"temp_directory": str(file.with_suffix(".tmp"))})
    return duckdb.connect(config={"temp_directory": str(Path(tempfile.gettempdir()) / f"forgetting-catalog-{os.getpid()}.tmp")})


def cache_folder() -> Path:
    """Where this user's cached files lie: XDG_CACHE_HOME, else ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "forgetting-catalog"


def part_of(path: Path) -> Path:
    """Where a file of the cache is written until it is whole: a name that no other process or thread uses."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(f"{path.name}.{os.getpid()}-{get_ident()}.part")


def template_file() -> Path:
    """Where the empty catalog lies, named by what is in it."""
    content = hashlib.sha256(f"{duckdb.__version__}\n{schema_sql()}\n{COMMENTS}".encode()).hexdigest()[:16]
    return cache_folder() / f"schema-{content}.duckdb"


def template() -> Path:
    """The empty catalog as a DuckDB file; made once, whole or not at all."""
    path = template_file()
    if not path.exists():
        part = part_of(path)
        try:
            with duckdb.connect(str(part)) as con:
                fill(con)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    return path


def fill(con: duckdb.DuckDBPyConnection) -> None:
    """Make the tables, macros and views of schema.sql, every column with its meaning."""
    con.execute(schema_sql())
    comment_columns(con)


COMMENTS = "SELECT table_name, column_name, meaning FROM columns_explained WHERE meaning IS NOT NULL AND table_name LIKE $1"


def comment_columns(con: duckdb.DuckDBPyConnection, pattern: str = "%") -> None:
    """Give every column, of the tables that are LIKE a pattern, the meaning that the glossary of schema.sql has for its name."""
    meanings = con.execute(COMMENTS, [pattern]).fetchall()
    quoted = ((table, column, meaning.replace("'", "''")) for table, column, meaning in meanings)
    con.execute(";".join(f'COMMENT ON COLUMN "{table}"."{column}" IS \'{meaning}\'' for table, column, meaning in quoted))


@contextmanager
def bounded(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Less memory than DuckDB would take by itself, unless that is less already: a small file can be made to hold very much."""
    size, unit = con.sql("SELECT current_setting('memory_limit')").fetchall()[0][0].split()
    if unit == "TiB" or (unit == "GiB" and float(size) > LOADING):
        con.execute(f"SET memory_limit = '{LOADING}GiB'")
    yield
    con.execute("RESET memory_limit")


def load(con: duckdb.DuckDBPyConnection, places: Sequence[Place]) -> None:
    """Fill every table from the folders' Parquet files and from the cards of their runs."""
    found = [files_of(place) for place in places]
    files = {table: [path for one in found for path in one.get(table, [])] for table in (*SMALL_TABLES, *LARGE_TABLES)}
    for table, path in (("categories", PAPER_MAP), ("published_results", PUBLISHED)):  # there for every catalog
        files[table] = list(dict.fromkeys([str(path), *files[table]]))
    cards = {path: card for table, paths in files.items() for path in paths if (card := card_of_checked(table, path))}
    load_small(con, files, told_by(cards))
    for table in LARGE_TABLES:
        if files[table]:
            # an item list lies once per folder, a run may lie in several, a figure in a copy of ours: equal rows are one row
            several = len(places) > 1 or table == "published_results"
            distinct = "DISTINCT ON (itemset_id, item, sample_key)" if table == "samples" else "DISTINCT" if several else ""
            read_into(con, table, f"SELECT {distinct} {columns_of(table)} FROM read_parquet($1, union_by_name = true)", files[table])


def read_into(con: duckdb.DuckDBPyConnection, table: str, query: str, files: Sequence[str]) -> None:
    """Fill a table from Parquet files; where that fails, name the file."""
    try:
        con.execute(f"INSERT INTO {table} BY NAME {query}", [files] if files else [])
    except duckdb.OutOfMemoryException as error:
        raise CatalogError(f"{table} of {len(files)} files do not fit into {LOADING} GiB of memory: {first_line(error)}") from error
    except duckdb.Error as error:
        if culprit := unreadable(table, files, columns_of(table)):
            raise CatalogError(culprit) from error
        raise


def card_of_checked(table: str, path: str) -> str | None:
    """Validate one file before anything is read from it; return the run card it carries.

    Raises:
        CatalogError: The file is no Parquet, of another major version, or has other columns or types than `table`.
    """
    described, schema = footer(path)
    refuse_schema(table, path, described, schema)
    card = (described.metadata or {}).get(CARD.encode())
    return card.decode("utf-8", "replace") if card else None


def refuse_schema(table: str, path: str, described: pq.FileMetaData, schema: pa.Schema) -> None:
    """Refuse a file of another major version, or with other columns or types than `table`; more columns are left aside."""
    refuse_version(path, (described.metadata or {}).get(b"schema_version", b"").decode("utf-8", "replace"))
    found = {field.name: field.type for field in schema}
    wrong = [f"{f.name} is {found[f.name]}, wanted {f.type}" if f.name in found else f"no column {f.name}"
             for f in arrow_schema(table) if found.get(f.name) != f.type]  # fmt: skip
    if wrong:
        raise CatalogError(f"{path} is not a file of {table}: {'; '.join(wrong)}")


def major(version: str) -> str:
    """'1' of '1.0'."""
    return version.partition(".")[0]


def refuse_version(path: str | Path, version: str) -> None:
    """Newer minor versions open, other major ones do not."""
    if not version:
        raise CatalogError(f"{path} has no schema_version in its metadata: it was not written by `collect`")
    if major(version) != major(SCHEMA_VERSION):
        raise CatalogError(
            f"{path} has schema_version {version}, this package reads {major(SCHEMA_VERSION)}.x. "
            "For a newer one: pip install --upgrade forgetting-catalog; an older one: collect it again into another folder"
        )


@cache
def arrow_schemas() -> dict[str, pa.Schema]:
    """Columns of every table as its Parquet files hold them: schema.sql's, an enum as text."""
    con = duckdb.connect()
    con.execute(schema_sql().split("-- ==== 2.")[0])  # the tables
    columns = con.execute(
        "SELECT table_name, list(column_name), list(data_type) FROM duckdb_columns() WHERE NOT internal GROUP BY ALL"
    ).fetchall()
    tables = {}
    for table, names, kinds in columns:
        if table in (*SMALL_TABLES, *LARGE_TABLES):
            casts = ", ".join(
                f'CAST("{n}" AS VARCHAR) AS "{n}"' if k.startswith("ENUM") else f'"{n}"' for n, k in zip(names, kinds, strict=True)
            )
            tables[table] = con.sql(f"SELECT {casts} FROM {table}").to_arrow_table().schema.remove_metadata()
    return tables


def arrow_schema(table: str) -> pa.Schema:
    """Columns of one table as its Parquet files hold them."""
    return arrow_schemas()[table]


def columns_of(table: str) -> str:
    """The table's columns for a SELECT; what a newer minor version added to its files is left aside."""
    return ", ".join(f'"{name}"' for name in arrow_schema(table).names)


CARD_ERRORS = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)  # what a card of nonsense raises


def told_by(cards: Mapping[str, str]) -> dict[str, pa.Table]:
    """table -> the rows that the cards of runs tell, the newest last.

    Args:
        cards: Path of the run's file -> its card.

    Raises:
        CatalogError: A card is no card; its file is named.
    """
    try:
        read = sorted((json.loads(card) for card in cards.values()), key=lambda card: str(card["runs"][0].get("collected_at")))
        return {table: told_rows(table, read) for table in SMALL_TABLES}
    except CARD_ERRORS as error:
        if len(cards) > 1:
            for path, card in cards.items():
                told_by({path: card})
        raise CatalogError(
            f"{next(iter(cards))} carries a run card that cannot be read ({first_line(error)}): remove or replace it"
        ) from error


def told_rows(table: str, cards: Sequence[dict[str, Any]]) -> pa.Table:
    """Rows of a table that cards tell."""
    schema = arrow_schema(table)
    rows = [row for card in cards for row in card.get(table, [])]
    if table in NEWEST_WINS:  # once more without what was guessed: what was told at any time counts more
        rows += [row | dict.fromkeys(row.get("guessed", [])) for row in rows]
    return pa.Table.from_pylist(
        [{name: as_stored(row.get(name), schema.field(name).type) for name in schema.names} for row in rows], schema
    )


def load_small(con: duckdb.DuckDBPyConnection, files: dict[str, list[str]], told_rows: Mapping[str, pa.Table]) -> None:
    """One row per key from files and cards; of descriptive rows the newest, of content-addressed ones each distinct one."""
    for table, key in SMALL_TABLES.items():
        con.register("told", told_rows[table])
        told = "SELECT *, row_number() OVER () AS age FROM told"
        if files[table]:
            told += f" UNION ALL SELECT {columns_of(table)}, 0 FROM read_parquet($1, union_by_name = true)"
        names = arrow_schema(table).names
        if table in NEWEST_WINS:  # column by column: a later run that says less takes nothing away
            keys = key.split(", ")
            newest = ", ".join(name if name in keys else f"arg_max({name}, age) AS {name}" for name in names)
            query = f"SELECT {newest} FROM ({told}) GROUP BY {key}"
        else:  # a protocol's id does not cover its setting: two settings stay two rows, which integrity refuses
            keep = columns_of(table) if table == "protocols" else key
            query = f"SELECT DISTINCT ON ({keep}) {columns_of(table)} FROM ({told}) ORDER BY {keep}, age"
        read_into(con, table, query, files[table])
        con.unregister("told")


def as_stored(value: Any, kind: pa.DataType) -> Any:
    """A card's JSON value as its column holds it: times are text in JSON."""
    return datetime.fromisoformat(value) if value is not None and pa.types.is_timestamp(kind) else value
