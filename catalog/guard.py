"""Files that others made: refused before they are read, where they are damaged or absurd. Nothing here trusts a size or a name.

A footer says how many rows and bytes a Parquet file holds; whoever made the file may have it say anything.
"""

import hashlib
import re
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from catalog.errors import CatalogError

FOOTER = 8 << 20  # bytes; one of 1.2 billion outcomes has as many
FREE_ROWS, ROWS_PER_BYTE = 1_000_000, 1_000  # footers of `collect` alone take a byte for 250 rows; packed outcomes have 10 rows per byte
FREE_BYTES, BYTES_PER_BYTE = 64 << 20, 200  # zstd on our tables reaches 30
BLOCK = 1 << 20
DRIVE = re.compile(r"^[A-Za-z]:")


def footer(path: str | Path, file: BinaryIO | None = None) -> tuple[pq.FileMetaData, pa.Schema]:
    """What a Parquet file says of itself, read only if it can be true.

    Args:
        path: Where it lies, and what errors call it.
        file: The open file, where it does not lie on this machine.

    Raises:
        CatalogError: It is no Parquet, or says that it holds more than a file of its size can hold.
    """
    try:
        with file or Path(path).open("rb") as opened:
            size = refuse_not_parquet(path, opened)
            found = pq.ParquetFile(opened)
            metadata, schema = found.metadata, found.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: a name that is no UTF-8
        if file and isinstance(error, OSError) and type(error) is not OSError:
            raise  # the line, not the file: pyarrow raises plain ones
        raise CatalogError(f"{path} cannot be read as Parquet ({first_line(error)}): remove or replace it") from error
    refuse_absurd(path, metadata, size)
    return metadata, schema


def refuse_not_parquet(path: str | Path, file: BinaryIO) -> int:
    """Refuse what is visibly no Parquet, and footers that are too long to be read. Returns the size of the file."""
    start = file.read(64)
    size = file.seek(0, 2)
    file.seek(max(size - 8, 0))
    length, magic = struct.unpack("<I4s", file.read(8).rjust(8, b"\0"))
    file.seek(0)
    if start.lstrip()[:1] == b"<":
        raise CatalogError(f"{path} is a web page, not Parquet: remove it, and fetch it anew from where it came from")
    if start[:4] == magic == b"PAR1" and length > FOOTER:
        raise CatalogError(f"{path} has a footer of {length} bytes, more than {FOOTER}: it was not written by `collect`")
    return size


def refuse_absurd(path: str | Path, metadata: pq.FileMetaData, size: int) -> None:
    """Refuse a file whose declared rows or bytes are out of all proportion to its size: a bomb, or a lie."""
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    columns = [group.column(at) for group in groups for at in range(group.num_columns)]
    rows = metadata.num_rows
    unpacked = max(sum(group.total_byte_size for group in groups), sum(column.total_uncompressed_size for column in columns))
    sizes = [size for column in columns for size in (column.total_uncompressed_size, column.total_compressed_size)]
    if min([rows, *(group.num_rows for group in groups), *sizes]) < 0 or rows != sum(group.num_rows for group in groups):
        raise CatalogError(f"{path} contradicts itself on how many rows and bytes it holds: remove or replace it")
    if rows > FREE_ROWS + size * ROWS_PER_BYTE or unpacked > FREE_BYTES + size * BYTES_PER_BYTE:
        raise CatalogError(
            f"{path} has {size} bytes and says it holds {rows} rows and {unpacked} bytes unpacked: more than its size can hold. Remove it"
        )


def refuse_paths(source: str, paths: Iterable[str]) -> None:
    """Refuse a listing with a path that leads out of the folder it is to be written to.

    Raises:
        CatalogError: A path has `..`, a backslash, a drive or control character, or begins at the root.
    """
    for path in paths:
        odd = any(part in ("", ".", "..") for part in path.split("/")) or "\\" in path or DRIVE.match(path)
        if odd or any(ord(char) < 32 or ord(char) == 127 for char in path):
            raise CatalogError(f"{source} lists a file {path!r}, which may lie outside its folder: nothing was downloaded. Tell its owner")


def refuse_patterns(source: str, paths: Iterable[str]) -> None:
    """Refuse names that DuckDB would read as patterns of other names."""
    for path in paths:
        if set(path) & set("*?["):
            raise CatalogError(f"{source} lists a file {path!r}, whose name is a pattern: nothing was downloaded. Tell its owner")


def content_ids(path: Path) -> tuple[str, str]:
    """sha256 of a file, and git's id of it: sha1 over its length and bytes."""
    sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            sha256.update(block)
            git.update(block)
    return sha256.hexdigest(), git.hexdigest()


def unreadable(table: str, files: Sequence[Any], columns: str) -> str | None:
    """The first file whose rows cannot be read, with the reason; found by reading each alone, after an error."""
    for file in files:
        try:
            with duckdb.connect() as con:
                con.execute(f"SELECT bit_xor(hash({columns})) FROM read_parquet($1)", [str(file)])
        except duckdb.Error as error:
            return f"{file} cannot be read as {table} ({first_line(error)}): remove or replace it"
    return None


def first_line(error: Exception) -> str:
    """The first line of a library's error, for one-line messages."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
