"""Peak memory of `collect run` over ever more items: a process each, on a random Llama of one small layer.

    python speed/collect_memory.py [--items 1000 10000 100000] [--protocol option-text]

What grows are the items themselves, which are read once; prompts, scores and answers pass through.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

from collecting import WORDS, make_model

BUILD = Path(__file__).parent.parent / "build" / "speed-memory"
RUN = "import sys; from collect.__main__ import main; sys.exit(main(sys.argv[1:]))"


def write_items(path: Path, n: int) -> None:
    """Made-up questions of four options."""
    rng = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for number in range(n):
            options = [f"{rng.choice(WORDS)} {rng.choice(WORDS)} {i}" for i in range(4)]
            question = f"{' '.join(rng.choice(WORDS) for _ in range(20))} {number}?"
            row = {"task": "made", "subset": f"up{number % 10}", "item_id": str(number), "question": question, "choices": options}
            file.write(json.dumps(row | {"answer_index": number % 4, "answer": options[number % 4]}) + "\n")


def measure(n: int, protocol: str, model: Path) -> tuple[float, float]:
    """Seconds and peak MB of collecting n items in a process of its own."""
    folder = BUILD / str(n)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_items(folder / "items.jsonl", n)
    asked = ["run", "--models", model, "--items", folder / "items.jsonl", "--protocol", protocol, "--out", folder / "runs"]
    start = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", RUN, *map(str, asked)]) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = status
    if status:
        raise SystemExit(f"collect run of {n} items ended with {status}")
    return time.perf_counter() - start, used.ru_maxrss / (1024 if sys.platform == "linux" else 1024**2)


def main() -> None:
    """Measure and print, Markdown."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--items", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    p.add_argument("--protocol", default="option-text")
    args = p.parse_args()
    model = make_model(BUILD / "model", hidden=64, layers=1)
    print("| items | s | items/s | peak MB |\n|---|---|---|---|")
    for n in args.items:
        seconds, peak = measure(n, args.protocol, model)
        print(f"| {n:,} | {seconds:.0f} | {n / seconds:.0f} | {peak:.0f} |", flush=True)


if __name__ == "__main__":
    main()
