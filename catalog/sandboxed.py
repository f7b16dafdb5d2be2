"""The process that answers untrusted SQL: opens the catalog, locks itself, then answers one question after another.

Four locks, each of which holds without the others: the statement may be one SELECT over what the catalog has, and table
functions that are known to be harmless; DuckDB's own configuration, locked; a read-only transaction; the system's limits on
memory, processor time, files that are written (none) and files that are opened (none any more). The clock is held by who
started this process (catalog/sandbox.py).
"""

import io
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from catalog.errors import CatalogError
from catalog.output import write_text

# Table functions that read neither files nor memory they are pointed to, set nothing, and run no SQL they are given as text
HARMLESS = frozenset(
    ("range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree", "histogram", "histogram_values",
     "duckdb_columns", "duckdb_tables", "duckdb_views", "duckdb_functions", "duckdb_types", "pragma_table_info")
)  # fmt: skip
REFUSED = frozenset(("json_serialize_plan", "write_log"))  # functions: plans SQL given as text; fills a log
PATHS = frozenset(("duckdb_databases", "pragma_database_list"))  # views that tell where files lie
QUERIES = frozenset(("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"))  # that change nothing
SETTINGS = (
    "autoinstall_known_extensions = false", "autoload_known_extensions = false", "allow_community_extensions = false",
    "allow_persistent_secrets = false", "python_enable_replacements = false", "python_scan_all_frames = false",
    "enable_progress_bar = false", "temp_directory = ''", "secret_directory = ''", "home_directory = ''", "extension_directory = ''",
    "enable_external_access = false",
)  # fmt: skip


def answers_of(requests: BinaryIO, replies: BinaryIO) -> None:
    """Take up the task from the first line, then answer each further one."""
    task = json.loads(requests.readline())
    try:
        con = opened(task["sources"])
        lock(con, task["memory_mb"], task["threads"])
        limit_process(task["memory_mb"])
    except CatalogError as error:
        send(replies, refusal=str(error))
        return
    send(replies)
    harmless = HARMLESS | {name for (name,) in con.execute(OWN).fetchall()}
    while line := requests.readline():
        limit_processor(task["seconds"] * task["threads"])
        question = json.loads(line)
        try:
            refuse_unsafe(con, question["sql"], harmless)
            send(replies, answered(con, question, task))
        except CatalogError as error:
            send(replies, refusal=str(error))
        except (duckdb.OutOfMemoryException, MemoryError):
            send(replies, refusal=f"query needs more than {task['memory_mb']:,} MB: ask for less, or allow more: --max-memory-mb")
        except (duckdb.Error, pa.ArrowException, RecursionError, ValueError, OverflowError) as error:
            send(replies, refusal=f"SQL: {str(error) or type(error).__name__:.2000}\nTables and views: catalog tables")


OWN = (
    "SELECT function_name FROM duckdb_functions() WHERE NOT internal AND function_type = 'table_macro'"
    " AND macro_definition NOT LIKE '%query_table%'  -- which would take the name of a file"
)


def opened(sources: list[str]) -> duckdb.DuckDBPyConnection:
    """The catalogs; everything Python needs for an answer is imported before no file can be opened."""
    from catalog.open import connect

    con = connect(*sources)
    rows = con.execute("SELECT COLUMNS(* EXCLUDE (date, timestamp, timestamp_tz)), now(), chr(8364) FROM test_all_types()").fetchall()
    columns = [name for name, *_ in con.description or []]
    for kind in ("table", "csv", "json"):
        write_text(columns, rows, kind, io.StringIO(), 80)
    parquet(con.sql("SELECT 1 AS a").to_arrow_table())
    return con


def lock(con: duckdb.DuckDBPyConnection, memory_mb: int, threads: int) -> None:
    """DuckDB's own locks; from here on nothing can be set, and no file can be reached."""
    for setting in (f"memory_limit = '{memory_mb}MB'", f"threads = {threads}", *SETTINGS, "lock_configuration = true"):
        con.execute(f"SET {setting}")


def limit_process(memory_mb: int) -> None:
    """The system's limits, and an empty environment.

    Raises:
        CatalogError: This system has none.
    """
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
            now = int(file.read().split()[0]) * resource.getpagesize()
    except (ModuleNotFoundError, OSError) as error:
        raise CatalogError("--sandbox needs Linux, whose limits hold a process: this system has none that are known to hold") from error
    silence = os.open(os.devnull, os.O_RDWR)
    for loud in (1, 2):
        os.dup2(silence, loud)
    os.close(silence)
    most = now + (2 * memory_mb + 512) * 2**20
    for what, amount in (
        (resource.RLIMIT_AS, most), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, 0)
    ):  # fmt: skip
        resource.setrlimit(what, (below_hard(what, amount),) * 2)
    os.environ.clear()


def below_hard(what: int, amount: int) -> int:
    """A limit, or the one that whoever started us set, if that is lower: it cannot be raised."""
    import resource

    hard = resource.getrlimit(what)[1]
    return amount if hard == resource.RLIM_INFINITY else min(amount, hard)


def limit_processor(seconds: float) -> None:
    """So much processor time for the next question: should nobody hold the clock any more, this ends it."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = below_hard(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + seconds) + 2)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def refuse_unsafe(con: duckdb.DuckDBPyConnection, sql: str, harmless: frozenset[str]) -> None:
    """Refuse what is not one SELECT over tables, views and harmless functions. DuckDB's own parser reads it; nothing runs.

    Raises:
        CatalogError: It is something else.
    """
    ((text,),) = con.execute("SELECT json_serialize_sql($1)", [sql]).fetchall()
    tree = json.loads(text)
    if tree["error"]:
        if tree["error_type"] == "not implemented":
            raise CatalogError("the sandbox answers SELECT (also FROM, WITH, VALUES, DESCRIBE, SUMMARIZE), this is another statement")
        raise CatalogError(f"SQL: {tree['error_message']}\nTables and views: catalog tables")
    if len(tree["statements"]) != 1:
        raise CatalogError(f"the sandbox answers one statement at a time, these are {len(tree['statements'])}")
    for node in nodes(tree["statements"]):
        kind = str(node.get("type"))
        if "cte_map" in node and kind not in QUERIES:
            raise CatalogError(f"the sandbox only reads: {kind.removesuffix('_QUERY_NODE')} inside WITH is refused")
        if kind == "TABLE_FUNCTION" and (name := str(node["function"].get("function_name")).lower()) not in harmless:
            raise CatalogError(f"the sandbox has no table function {name}: it reads no file and runs no SQL given as text")
        if node.get("class") == "FUNCTION" and (name := str(node.get("function_name")).lower()) in REFUSED:
            raise CatalogError(f"the sandbox has no function {name}")
        if kind == "BASE_TABLE" and (name := str(node.get("table_name")).lower()) in PATHS:
            raise CatalogError(f"the sandbox has no view {name}: it tells nothing of files")


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every JSON object of a tree, however deep."""
    open_nodes = [tree]
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, dict):
            yield node
            open_nodes += node.values()
        elif isinstance(node, list):
            open_nodes += node


def answered(con: duckdb.DuckDBPyConnection, question: dict[str, Any], task: dict[str, Any]) -> bytes:
    """The whole result in the form asked for.

    Raises:
        CatalogError: It has more rows or bytes than the sandbox gives.
    """
    con.execute("BEGIN TRANSACTION READ ONLY")
    try:
        result = con.execute(question["sql"])
        columns = [name for name, *_ in con.description or []]
        if question["kind"] == "parquet":
            data = parquet(limited(arrow(result, task["rows"] + 1), task["rows"]))
        else:
            rows = limited(result.fetchmany(task["rows"] + 1), task["rows"])
            text = io.StringIO()
            write_text(columns, rows, question["kind"], text, question["width"])
            data = text.getvalue().encode("utf-8", "replace")
    finally:
        con.abort()
        con.execute("ROLLBACK")
    size, most = len(data) / 2**20, task["result_mb"]
    if size > most:
        raise CatalogError(f"the result has {size:,.1f} MB, the sandbox gives {most:g}: ask for less, or allow more: --max-result-mb")
    return data


def arrow(result: duckdb.DuckDBPyConnection, most: int) -> pa.Table:
    """The first rows of a result, not the whole of it."""
    reader: pa.RecordBatchReader = result.to_arrow_reader(min(most, 2048))
    batches, n = [], 0
    for batch in reader:
        batches.append(batch)
        n += len(batch)
        if n >= most:
            break
    return pa.Table.from_batches(batches, reader.schema)


def limited(rows: Any, most: int) -> Any:
    """Rows, unless they are too many."""
    if len(rows) > most:
        raise CatalogError(f"the result has more than {most:,} rows: aggregate, or add LIMIT {most}, or allow more: --max-rows")
    return rows


def parquet(table: pa.Table) -> bytes:
    """A Parquet file in memory."""
    target = io.BytesIO()
    pq.write_table(table, target)
    return target.getvalue()


def send(replies: BinaryIO, body: bytes = b"", refusal: str | None = None) -> None:
    """A line that says what follows, and that."""
    replies.write(json.dumps({"size": len(body), "refusal": refusal}).encode() + b"\n" + body)
    replies.flush()


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "wb") as own:
        os.dup2(2, 1)  # nobody else writes where answers go
        answers_of(sys.stdin.buffer, own)
