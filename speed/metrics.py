"""How fast every metric of every pair is, packed and over rows, beside Polars, pandas and a bare scan; medians and ratios.

    python speed/metrics.py [--outcomes 10_000_000] [--runs 3] [--folder build/speed]

The catalog is synthetic (speed/synthetic.py): 30 pairs, 3 replicates, 100 tasks. Packing and opening are a process each, with
the peak memory that the system counted. Peers: pip install polars pandas.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
from synthetic import generate

import catalog
from catalog.open import blank, load
from catalog.sources import places_of
from collect.store import write_parquet

OPEN = """
import resource, sys, time
import catalog
start = time.perf_counter()
catalog.connect(sys.argv[1], packed=True)
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1024**2))
"""
COLUMNS = {
    "correct": "run_id, item, correct",
    "with predicted": "run_id, item, correct, predicted",
    "with status": "run_id, item, correct, predicted, status",
    "all columns": "*",
}
PAIRS = """
    SELECT b.run_id, a.run_id FROM pairs JOIN runs AS b ON b.model_id = before_id
    JOIN runs AS a ON a.model_id = after_id AND a.itemset_id = b.itemset_id AND a.replicate = b.replicate WHERE pair_id = 'pair 00'
"""


def median(ask: Callable[[], object], runs: int) -> float:
    """Median seconds of a call, after one that is not counted."""
    ask()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        ask()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def opened(root: Path) -> tuple[float, float]:
    """Seconds and peak MB of a fresh process that opens the catalog packed."""
    done = subprocess.run([sys.executable, "-c", OPEN, str(root)], capture_output=True, text=True, check=True)
    seconds, peak = done.stdout.split()[-2:]  # after what a progress bar wrote
    return float(seconds), float(peak)


def sizes(root: Path, folder: Path) -> dict[str, float]:
    """Bytes per outcome on disk by what is kept, in files as `collect` writes them."""
    path, found = folder / "size.parquet", {}
    for name, columns in COLUMNS.items():
        rows = duckdb.sql(f"SELECT {columns} FROM read_parquet('{root}/outcomes/*/*.parquet') LIMIT 5000000").to_arrow_table()
        write_parquet(rows, path, {})
        found[name] = path.stat().st_size / rows.num_rows
        path.unlink()
    return found


def peers(con: duckdb.DuckDBPyConnection) -> dict[str, Callable[[], object]]:
    """The four raw counts of one pair's runs by Polars and pandas, outcomes of the two models already in memory."""
    import pandas as pd
    import polars as pl

    con.execute(f"CREATE OR REPLACE TEMP TABLE compared AS SELECT row_number() OVER () AS pair_no, * FROM ({PAIRS}) AS p (b_run, a_run)")
    sides = [
        con.sql(f"SELECT pair_no, item, correct FROM compared JOIN outcomes ON run_id = {run} WHERE correct IS NOT NULL").to_arrow_table()
        for run in ("b_run", "a_run")
    ]
    lazy = [pl.from_arrow(side).lazy() for side in sides]
    frames: list[pd.DataFrame] = [side.to_pandas() for side in sides]
    keys = ["pair_no", "item"]

    def by_polars() -> object:
        met = lazy[0].join(lazy[1], on=keys, suffix="_after")
        return met.group_by("pair_no", "correct", "correct_after").len().collect()

    def by_pandas() -> object:
        return (
            frames[0]
            .merge(frames[1], on=keys, suffixes=("_before", "_after"))
            .groupby(["pair_no", "correct_before", "correct_after"])
            .size()
        )

    return {"Polars, raw counts of one pair": by_polars, "pandas, raw counts of one pair": by_pandas}


def questions(packed: duckdb.DuckDBPyConnection) -> dict[str, Callable[[], object]]:
    """What is asked of the packed catalog."""

    def ask(query: str) -> Callable[[], object]:
        return lambda: packed.execute(query).fetchall()

    before, after = packed.sql("SELECT min(before_id), max(after_id) FROM pairs").fetchall()[0]  # of two pairs: declared by none
    return {
        "bare scan: sum(correct)": lambda: packed.execute("SELECT sum(CAST(correct AS INT)) FROM outcomes").fetchall(),
        "task_replicates: sections 1-3, all pairs": ask("FROM task_replicates"),
        "task_metrics: with intervals and section 4": ask("FROM task_metrics"),
        "pair_metrics: the same, by pair and map": ask("FROM pair_metrics"),
        "transition_counts: every kind of run pair": ask("FROM transition_counts"),
        "undeclared pair, task_metrics_of": ask(f"FROM task_metrics_of('{before}', '{after}')"),
        "undeclared pair, task_replicates_of": ask(f"FROM task_replicates_of('{before}', '{after}')"),
        "undeclared pair, forgetting": ask(f"FROM forgetting('{before}', '{after}')"),
        "undeclared pair over rows, transitions": ask(f"SELECT transition, count(*) FROM transitions('{before}', '{after}') GROUP BY ALL"),
        "noise_floor: every model against itself": ask("FROM noise_floor"),
    }


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--outcomes", type=int, default=10_000_000)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--folder", type=Path, default=Path("build/speed"))
    args = options.parse_args()
    root = args.folder / str(args.outcomes)
    os.environ["XDG_CACHE_HOME"] = str((args.folder / "cache").resolve())
    if not (root / "outcomes").exists():
        generate(root, args.outcomes)
    cold, peak = opened(root)
    warm, _ = opened(root)
    packed = catalog.connect(root, packed=True)
    n = packed.sql("SELECT count(*) FROM outcomes").fetchall()[0][0]
    print(f"{n:,} outcomes; medians of {args.runs}, {os.cpu_count()} cores")
    for name, size in sizes(root, args.folder).items():
        print(f"  {name:46} {size:8.2f} bytes per outcome in Parquet")
    print(f"  {'connect, first time (packs unless cached)':46} {cold:8.2f} s  {peak:6.0f} MB peak\n  {'connect, packed':46} {warm:8.2f} s")
    base = 0.0
    for name, question in (questions(packed) | peers(packed)).items():
        seconds = median(question, args.runs)
        base = base or seconds
        print(f"  {name:46} {seconds:8.3f} s  x{seconds / base:.1f} of the scan")
    if n <= 20_000_000:
        rows = blank()
        start = time.perf_counter()
        load(rows, places_of([root]))
        print(f"  {'load into memory, unpacked':46} {time.perf_counter() - start:8.2f} s")
        seconds = median(lambda: rows.execute("SELECT bit_xor(h) FROM (SELECT hash(x) AS h FROM task_metrics AS x)").fetchall(), 1)
        print(f"  {'task_metrics over rows, all pairs':46} {seconds:8.3f} s  x{seconds / base:.1f} of the scan")


if __name__ == "__main__":
    main()
