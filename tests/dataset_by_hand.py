"""A small data set as it lies on the Hub, and Parquet files that no writer would write."""

import hashlib
import io
import struct
from collections.abc import Callable

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from conftest import Filler

from catalog.identity import folder_of
from catalog.open import SCHEMA_VERSION, SMALL_TABLES, arrow_schema, blank, columns_of

CARD = "---\nlicense: apache-2.0\nconfigs:\n" + "".join(
    f"- config_name: {table}\n  data_files: {table}/**/*.parquet\n" + ("  default: true\n" if table == "outcomes" else "")
    for table in (*SMALL_TABLES, "samples", "outcomes", "option_scores")
) + "---\n"  # fmt: skip


def parquet(rows: pa.Table, version: str = SCHEMA_VERSION, **options: object) -> bytes:
    """Rows as one Parquet file."""
    out = io.BytesIO()
    with pq.ParquetWriter(out, rows.schema, compression="zstd", store_schema=False, **options) as writer:
        writer.write(rows)
        writer.add_key_value_metadata({"schema_version": version})
    return out.getvalue()


def rows_of(con: duckdb.DuckDBPyConnection, table: str, where: str = "TRUE") -> pa.Table:
    """Rows of a table in the types of its files."""
    return con.sql(f"SELECT {columns_of(table)} FROM {table} WHERE {where} ORDER BY ALL").to_arrow_table().cast(arrow_schema(table))


def laid_out(con: duckdb.DuckDBPyConnection) -> dict[str, bytes]:
    """A catalog in the layout of the Hub: small tables one file each, outcomes and scores by model, named by content."""
    files = {"README.md": CARD.encode()}
    places = [(table, table, "TRUE") for table in (*SMALL_TABLES, "samples")]
    for (model,) in con.sql("SELECT DISTINCT model_id FROM runs ORDER BY ALL").fetchall():
        own = f"run_id IN (SELECT run_id FROM runs WHERE model_id = '{model}')"
        places += [(table, f"{table}/{folder_of(model)}", own) for table in ("outcomes", "option_scores", "generations")]
    for table, folder, where in places:
        rows = rows_of(con, table, where)
        if rows.num_rows:
            data = parquet(rows)
            replaced = table in ("models", "tasks", "categories", "pairs")
            files[f"{folder}/{table if replaced else hashlib.sha256(data).hexdigest()[:16]}.parquet"] = data
    return files


def small(change: Callable[[Filler], object] = lambda fill: None) -> dict[str, bytes]:
    """Two models on two tasks, three replicates each; one answer of B is not measured."""
    fill = Filler(blank())
    fill.task("x/one", [4, 4, 2, "free"])
    fill.task("y/two", [3, 3])
    for replicate in range(3):
        fill.answers("org/A@1", "x/one", "0001", replicate)
        fill.answers("org/A@1", "y/two", "02", replicate)
        fill.answers("org/B@1", "x/one", "01-1", replicate, kind="instruct")
        fill.answers("org/B@1", "y/two", "0u", replicate, kind="instruct")
    fill.pair("org/A@1", "org/B@1")
    fill.con.execute("UPDATE outcomes SET n_tokens = 3 + item")
    fill.insert("categories", map="mine", task_id="x/one", category="c")
    change(fill)
    return laid_out(fill.con)


def varint(n: int) -> bytes:
    """An integer as Thrift's compact protocol writes it."""
    n, out = n << 1 if n >= 0 else -2 * n - 1, b""
    while n >= 0x80:
        n, out = n >> 7, out + bytes([n & 0x7F | 0x80])
    return out + bytes([n])


def footer_says(data: bytes, old: int, new: int) -> bytes:
    """The file with every 64-bit number `old` of its footer replaced."""
    (length,) = struct.unpack("<I", data[-8:-4])
    body, footer = data[: -8 - length], data[-8 - length : -8]
    assert b"\x16" + varint(old) in footer
    footer = footer.replace(b"\x16" + varint(old), b"\x16" + varint(new))
    return body + footer + struct.pack("<I", len(footer)) + b"PAR1"
