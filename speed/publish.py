"""How long `collect publish` takes and how much it sends, against the test Hub on this machine (no network in between).

    python speed/publish.py [--runs 1 100 5000] [--items 100]

Each publish is a process of its own, as a user starts it. Sent: bodies of all its requests; new: files that the commits brought.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from hub import Hub
from runs_by_hand import NAME, write_runs

TASKS_EACH = 100


def folder_of(out: Path, runs: int, items: int) -> Path:
    """So many scored runs: models that answer up to a hundred tasks each."""
    tasks = [f"quiz/t{n}" for n in range(min(runs, TASKS_EACH))]
    return write_runs(out, [f"org/m{n}@1" for n in range(max(1, runs // TASKS_EACH))], tasks, n_items=items, scored=True)


def measured(hub: Hub, runs: Path, home: Path, *options: str) -> list[str]:
    """One row: what a publish of a folder took."""
    start, seen = time.perf_counter(), len(hub.log)
    before = hub.files(NAME) if ("dataset", NAME) in hub.repos else {}
    commits = len(hub.repos["dataset", NAME].commits) if before else 1
    command = [sys.executable, "-m", "collect", *options]
    subprocess.run(command, env=os.environ | hub.environment(home), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    log = hub.log[seen:]
    new = {path: data for path, data in hub.files(NAME).items() if before.get(path) != data}
    numbers = [len(new), sum(map(len, new.values())), sum(r.received for r in log), sum(r.sent for r in log), len(log),
               len(hub.repos["dataset", NAME].commits) - commits]  # fmt: skip
    return [f"{seconds:.1f}", *(f"{number:,}" for number in numbers)]


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, nargs="+", default=[1, 100, 5000])
    options.add_argument("--items", type=int, default=100)
    args = options.parse_args()
    columns = ["", "seconds", "files", "bytes new", "bytes sent", "bytes read", "requests", "commits"]
    print(f"{columns[0]:28}" + "".join(f"{name:>13}" for name in columns[1:]))
    for n in args.runs:
        with Hub() as hub, tempfile.TemporaryDirectory() as folder:
            runs, home = folder_of(Path(folder) / "runs", n, args.items), Path(folder) / "hf"
            publish = ("publish", str(runs), "--repo", NAME)
            rows = {f"{n:,} runs": measured(hub, runs, home, *publish)}
            write_runs(runs, ["org/one-more@1"], ["quiz/t0"], n_items=args.items, scored=True)
            rows["  one more"] = measured(hub, runs, home, *publish)
            rows["  again, nothing new"] = measured(hub, runs, home, *publish)
            rows["  from an empty cache"] = measured(hub, runs, home / "other", *publish)
            rows["  compact --repo"] = measured(hub, runs, home, "compact", "--repo", NAME)
            for name, row in rows.items():
                print(f"{name:28}" + "".join(f"{value:>13}" for value in row), flush=True)


if __name__ == "__main__":
    main()
