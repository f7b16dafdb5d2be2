"""Write a run: Parquet files that appear whole or not at all. The outcomes file comes last and makes the run complete."""

import errno
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from catalog import identity
from catalog.errors import CatalogError
from catalog.open import CARD, SCHEMA_VERSION, arrow_schema, refuse_version

folder_of = identity.folder_of  # the layout of outcomes/, which catalog/ reads too


def run_file(out: Path, table: str, model_id: str, run_id: int) -> Path:
    """Where a run's rows of a table lie."""
    return out / table / folder_of(model_id) / f"{run_id}.parquet"


def write_table(path: Path, table: str, rows: Sequence[Mapping[str, Any]], card: Mapping[str, Any] | None = None) -> None:
    """Write rows of a table of schema.sql to `path`, whole or not at all.

    Raises:
        CatalogError: The disk is full or the folder cannot be written.
    """
    metadata = {"schema_version": SCHEMA_VERSION, **({CARD: json.dumps(card, sort_keys=True)} if card else {})}
    schema = arrow_schema(table)
    try:
        data = pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise CatalogError(f"a value does not fit table {table}: {error}") from error
    write_whole(path, data, metadata)


def write_stream(path: Path, table: str, reader: pa.RecordBatchReader, card: Mapping[str, Any] | None = None) -> None:
    """Write batches of a table of schema.sql to `path`, whole or not at all, a batch at a time.

    Raises:
        CatalogError: The disk is full or the folder cannot be written.
    """
    metadata = {"schema_version": SCHEMA_VERSION, **({CARD: json.dumps(card, sort_keys=True)} if card else {})}
    write_whole(path, reader.cast(arrow_schema(table)), metadata)


def write_whole(path: Path, data: pa.Table | pa.RecordBatchReader, metadata: Mapping[str, str]) -> None:
    """Write one Parquet file under another name, then rename it.

    Raises:
        CatalogError: The disk is full or the folder cannot be written.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_parquet(data, part, metadata)
        part.replace(path)
    except OSError as error:
        what = "the disk is full" if error.errno == errno.ENOSPC else f"{error.strerror or error}"
        raise CatalogError(f"cannot write {path}: {what}. Nothing is half-written; make room and run the same command again") from error
    finally:
        with suppress(OSError):  # where nothing could be written nothing can be removed: the first error is the one to show
            part.unlink(missing_ok=True)


def write_parquet(data: pa.Table | pa.RecordBatchReader, path: Path, metadata: Mapping[str, str]) -> None:
    """One Parquet file, zstd, with its metadata; without Arrow's own copy of the schema, half the size of a small file.

    `item` counts up: its differences take a hundredth of a byte a row, a dictionary of them two bytes.
    """
    encoding = {"column_encoding": {"item": "DELTA_BINARY_PACKED"}} if "item" in data.schema.names else {}
    with pq.ParquetWriter(
        path, data.schema, compression="zstd", version="2.6", store_schema=False, use_dictionary=dictionary_columns(data.schema), **encoding
    ) as writer:
        for batch in data if isinstance(data, pa.RecordBatchReader) else [data]:
            writer.write(batch, row_group_size=122_880)
        writer.add_key_value_metadata(dict(metadata))


def dictionary_columns(schema: pa.Schema) -> list[str]:
    """Parquet paths of the columns that are written through a dictionary: all but `item`."""
    return [f"{f.name}.list.element" if pa.types.is_list(f.type) else f.name for f in schema if f.name != "item"]


def write_run(
    out: Path, card: Mapping[str, Any], samples: Sequence[Mapping[str, Any]], tables: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    """Write one run: its item list, its scores or texts, and last its outcomes with the run's card.

    Args:
        out: Catalog folder.
        card: table -> rows this run adds to the small tables; "runs" holds exactly one.
        samples: Rows of `samples` of the run's itemset.
        tables: 'outcomes', and 'option_scores' or 'generations', one row per item; run_id is filled in here.
    """
    run = card["runs"][0]
    itemset = out / "samples" / f"{run['itemset_id']}.parquet"
    if not itemset.exists():
        write_table(itemset, "samples", samples)
    for table in sorted(tables, key=lambda name: name == "outcomes"):
        rows = [{"run_id": run["run_id"], "item": item, **row} for item, row in enumerate(tables[table])]
        write_table(run_file(out, table, run["model_id"], run["run_id"]), table, rows, card if table == "outcomes" else None)


def read_card(path: Path) -> dict[str, Any]:
    """The card of a run on disk, its schema version checked."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError) as error:
        raise CatalogError(f"{path} cannot be read as Parquet: remove it and run the same command again") from error
    refuse_version(path, metadata.get(b"schema_version", b"").decode())
    card: dict[str, Any] = json.loads(metadata.get(CARD.encode(), b"{}"))
    return card


def check_folder(out: Path) -> dict[str, str]:
    """Refuse to add to a folder of another major schema version, or to something that is no folder.

    Returns:
        protocol_id -> setting of the runs that are there.

    Raises:
        CatalogError: `out` is a file, or holds runs of another schema version.
    """
    if out.exists() and not out.is_dir():
        raise CatalogError(f"{out} is a file: --out wants a folder")
    cards = [read_card(path) for path in sorted(out.glob("outcomes/*/*.parquet"))]
    return {row["protocol_id"]: row["setting"] for card in cards for row in card.get("protocols", [])}


def merge_pairs(out: Path, pairs: Iterable[Mapping[str, Any]]) -> None:
    """Add declared pairs to the folder's one pairs file; a pair of the same two models is replaced."""
    path = out / "pairs" / "pairs.parquet"
    known = pq.read_table(path).to_pylist() if path.exists() else []
    merged = {(row["before_id"], row["after_id"]): row for row in known}
    for pair in pairs:
        merged[pair["before_id"], pair["after_id"]] = {name: pair.get(name) for name in arrow_schema("pairs").names}
    if list(merged.values()) != known:
        write_table(path, "pairs", list(merged.values()))
