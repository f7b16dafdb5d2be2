"""Show a result: a table on a terminal, CSV in a pipe, or the format asked for."""

import csv
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import duckdb
from rich.console import Console
from rich.table import Table
from rich.text import Text

from catalog.errors import CatalogError


def shown(value: Any) -> str:
    """A cell of a table: numbers short, lists joined, nothing for NULL."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def records(relation: duckdb.DuckDBPyRelation) -> list[dict[str, Any]]:
    """Rows by column name."""
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None, console: Console | None = None) -> None:
    """A plain table; numbers to the right. Wide tables keep their columns and wrap cells."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for at, name in enumerate(columns):
        numeric = any(isinstance(row[at], int | float) or str(row[at])[:1].isdigit() for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold", no_wrap=numeric)
    for row in rows:
        table.add_row(*(Text(shown(value)) for value in row))  # Text: brackets in data are no markup
    (console or Console(width=None if sys.stdout.isatty() else 200)).print(table)


def write_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Rows as CSV to standard output."""
    csv.writer(sys.stdout).writerows([columns, *rows])


def write_parquet(relation: duckdb.DuckDBPyRelation, out: Path | None) -> None:
    """Parquet into a file, or through a pipe.

    Raises:
        CatalogError: Standard output is a terminal.
    """
    if out:
        relation.write_parquet(str(out))
        return
    if sys.stdout.isatty():
        raise CatalogError("Parquet is no text for a terminal: name a file with --out FILE.parquet, or pipe it")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        relation.write_parquet(str(path))
        sys.stdout.buffer.write(path.read_bytes())


def write(relation: duckdb.DuckDBPyRelation, kind: str | None, out: Path | None = None) -> None:
    """Print a relation, or write it to a file; Parquet goes into a file or a pipe, never onto a terminal."""
    columns = relation.columns
    kind = kind or ("table" if sys.stdout.isatty() and out is None else "csv")
    if kind == "parquet":
        write_parquet(relation, out)
        return
    rows = relation.fetchall()
    target = out.open("w", encoding="utf-8", newline="") if out else sys.stdout
    try:
        write_text(columns, rows, kind, target, 200 if out else None)
    finally:
        if out:
            target.close()


def write_text(columns: Sequence[str], rows: Sequence[Sequence[Any]], kind: str, target: TextIO, width: int | None) -> None:
    """Rows as a table of so many columns of text (None: of the terminal), CSV or JSON."""
    if kind == "table":
        print_table(columns, rows, console=Console(file=target, width=width) if width else None)
    elif kind == "csv":
        csv.writer(target).writerows([columns, *rows])
    else:
        target.write(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=str, ensure_ascii=False, indent=1) + "\n")
