"""The views on Spark beside DuckDB, over the same Parquet: rows, and the largest difference of any number.

    python speed/spark.py [--from runs/] [VIEW ...]

Needs pyspark, sqlglot and a Java runtime; runs Spark in one process on one core.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

import catalog
from catalog.spark import TABLES, VIEWS, write


def session() -> Any:
    """A Spark of its own, quiet."""
    from pyspark.sql import SparkSession

    told = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.memory": "2g",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in told.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def made(spark: Any, con: duckdb.DuckDBPyConnection, folder: Path, views: Sequence[str]) -> Iterator[str]:
    """Make views in Spark, each computed once into Parquet: plans of views over views over views grow beyond measure.

    Yields:
        Names, as they are made.
    """
    queries = write(con, folder, views)
    for name in TABLES:
        spark.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    for name, sql in queries.items():
        spark.sql(sql).write.mode("overwrite").parquet(str(folder / "views" / name))
        spark.read.parquet(str(folder / "views" / name)).createOrReplaceTempView(name)
        yield name


def key(row: Sequence[Any]) -> list[tuple[int, Any]]:
    """Rows in an order that rounding does not change."""
    return [(0, "") if v is None else (1, f"{v:.6g}") if isinstance(v, float) else (2, str(v)) for v in row]


def plain(value: Any) -> Any:
    """A value as both sides say it."""
    if hasattr(value, "normalize") and not isinstance(value, str):  # a decimal
        return float(value)
    return list(value) if isinstance(value, list | tuple) else value


def compared(spark: Any, con: duckdb.DuckDBPyConnection, view: str) -> tuple[int, int, float, list[str]]:
    """Rows of DuckDB and of Spark, the largest difference of numbers, and columns that differ otherwise."""
    told = spark.sql(f"SELECT * FROM {view}")
    columns = [c for c in con.sql(f"FROM {view}").columns if c in told.columns]
    missing = [c for c in con.sql(f"FROM {view}").columns if c not in told.columns]
    listed = ", ".join(f'"{c}"' for c in columns)
    ours = sorted(([plain(v) for v in row] for row in con.sql(f"SELECT {listed} FROM {view}").fetchall()), key=key)
    theirs = sorted(([plain(row[c]) for c in columns] for row in told.collect()), key=key)
    largest, wrong = 0.0, set(missing)
    for a, b in zip(ours, theirs, strict=False):
        for name, x, y in zip(columns, a, b, strict=True):
            if isinstance(x, int | float) and isinstance(y, int | float):
                if math.isfinite(x) and math.isfinite(y):
                    largest = max(largest, abs(x - y))
                elif x != y and not (math.isnan(x) and math.isnan(y)):
                    wrong.add(name)
            elif x != y and str(x) != str(y):
                wrong.add(name)
    return len(ours), len(theirs), largest, sorted(wrong)


def table(spark: Any, con: duckdb.DuckDBPyConnection, views: Iterable[str]) -> None:
    """One line a view."""
    print("| view | rows DuckDB | rows Spark | largest difference | other differences | seconds |\n|---|---|---|---|---|---|")
    for view in views:
        began = time.perf_counter()
        try:
            ours, theirs, largest, wrong = compared(spark, con, view)
        except Exception as error:  # noqa: BLE001 a table of what works names what does not
            print(f"| `{view}` | | | {str(error).splitlines()[0]:.160} | | |", flush=True)
            continue
        print(f"| `{view}` | {ours} | {theirs} | {largest:.1e} | {', '.join(wrong)} | {time.perf_counter() - began:.0f} |", flush=True)


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="source", action="append", default=[])
    parser.add_argument("views", nargs="*", default=VIEWS)
    args = parser.parse_args()
    con = catalog.connect(*args.source, packed=False)
    with tempfile.TemporaryDirectory() as folder:
        spark = session()
        table(spark, con, (name for name in made(spark, con, Path(folder), args.views) if name in args.views))
        spark.stop()


if __name__ == "__main__":
    main()
