"""Catalogs whose large tables stay on the Hub: every query fetches the columns it reads, by range, at the pinned commit."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb

from catalog.errors import CatalogError
from catalog.guard import footer
from catalog.hub import Dataset, OutOfReach, answers
from catalog.open import blank, bounded, comment_columns, load, note_places, refuse_faults, refuse_schema
from catalog.sources import FAR_TABLES, Place

if TYPE_CHECKING:
    from huggingface_hub import HfFileSystem

BLOCK = 1 << 18  # bytes fetched at once, at least
# the rest of `integrity` looks at outcomes, which would fetch all of them
NEAR_FAULTS = "FROM integrity WHERE problem <> 'run without outcomes' LIMIT 6"
# a view has no rowids; nothing is packed from it
IN_NO_ORDER = """
CREATE OR REPLACE MACRO outcomes_between(first_row, last_row) AS TABLE FROM outcomes;
COMMENT ON MACRO TABLE outcomes_between IS 'All outcomes: those on the Hub have no order.';
"""
OPENERS = 8  # footers read at once


def connect_far(places: Sequence[Place], check: bool) -> duckdb.DuckDBPyConnection:
    """Open catalogs of which at least one leaves its outcomes on the Hub; its small tables are checked, no more.

    Raises:
        CatalogError: As `connect`; or a data set keeps its runs only in its outcomes files.
    """
    con = blank()
    with bounded(con):
        load(con, places)
        if check:
            refuse_faults(con, places, NEAR_FAULTS)
    far = [place.far for place in places if place.far]
    for data in far:
        if not any(path.startswith("runs/") for path in data.files):
            raise CatalogError(f"{data} has no runs/*.parquet, so its outcomes say which runs there are: open it with a download")
    system = file_system(far)
    con.register_filesystem(system)
    for table in FAR_TABLES:
        if addresses := checked(system, far, table):
            view(con, table, addresses, several=len(places) > 1)
    con.execute(IN_NO_ORDER)
    note_places(con, places)
    return con


def view(con: duckdb.DuckDBPyConnection, table: str, addresses: Sequence[str], several: bool) -> None:
    """Put a view in the place of a table: what was loaded into it, and the rows on the Hub. A run in both is one run."""
    comment = con.execute("SELECT comment FROM duckdb_tables() WHERE table_name = $1", [table]).fetchall()[0][0]
    casts = ", ".join(f'CAST("{name}" AS {kind}) AS "{name}"' for name, kind, *_ in con.sql(f"DESCRIBE {table}").fetchall())
    listed = ", ".join(quoted(address) for address in addresses)
    con.execute(f"CREATE TABLE near_{table} AS FROM {table}; DROP TABLE {table}")
    con.execute(f"COMMENT ON TABLE near_{table} IS 'Rows of {table} that do not stay on the Hub.'")
    con.execute(
        f"CREATE VIEW {table} AS FROM near_{table} UNION {'' if several else 'ALL'} "
        f"SELECT {casts} FROM read_parquet([{listed}], union_by_name = true)"
    )
    con.execute(f"COMMENT ON VIEW {table} IS {quoted(comment)}")
    comment_columns(con, f"%{table}")


def quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def file_system(data: Sequence[Dataset]) -> "HfFileSystem":
    """A file system of the data sets' files for DuckDB; the client's own would ask the Hub for each file's size and time again."""
    from huggingface_hub import HfFileSystem

    sizes = {place(one, path): entry.size for one in data for path, entry in one.files.items()}

    class Pinned(HfFileSystem):
        protocol = "catalog"
        cachable = False

        def info(self, path: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
            path = path.removeprefix("catalog://")
            if path not in sizes:
                raise FileNotFoundError(path)
            return {"name": path, "size": sizes[path], "type": "file"}

        def modified(self, path: str, **kwargs: Any) -> datetime:
            return datetime(2000, 1, 1, tzinfo=UTC)  # a commit's files never change

        def _open(self, path: str, *args: Any, **kwargs: Any) -> Any:
            return super()._open(path, block_size=BLOCK)

    return Pinned()


def checked(system: "HfFileSystem", data: Sequence[Dataset], table: str) -> list[str]:
    """The addresses of a table's files, each footer looked at before any row is read.

    Raises:
        CatalogError: A file is damaged, absurd, of another schema version or not of this table; or the Hub is out of reach.
    """

    def check(at: tuple[Dataset, str]) -> str:
        one, path = at
        where = f"{one}: {path}"
        with answers(one.repo, one.commit):
            described, schema = footer(where, system.open(place(one, path)))
        refuse_schema(table, where, described, schema)
        return f"catalog://{place(one, path)}"

    paths = [(one, path) for one in data for path in sorted(one.files) if path.startswith(f"{table}/")]
    try:
        with ThreadPoolExecutor(OPENERS) as pool:
            return list(pool.map(check, paths))
    except OutOfReach as error:
        raise CatalogError(f"the Hub is out of reach ({error}): without a download nothing can be read now") from error


def place(data: Dataset, path: str) -> str:
    """Where the client's file system has a file of a data set."""
    return f"datasets/{data.repo}@{data.commit}/{path}"
