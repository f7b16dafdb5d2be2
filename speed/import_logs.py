"""How fast and in how much memory `collect import` reads a large lm-eval log, beside reading it with json alone.

    python speed/import_logs.py [--mb 1000] [--runs 3]

Each measurement is a process of its own; its peak memory is what the system counted (ru_maxrss).
"""

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORDS = [f"word{n}" for n in range(4000)]
PEER = "import json, sys\nfor line in open(sys.argv[1], 'rb'): json.loads(line)"
OURS = "from collect.__main__ import main; import sys; sys.exit(main(['import', sys.argv[1], '--out', sys.argv[2], '--jobs', '1']))"


def record(n: int, draw: random.Random) -> dict[str, object]:
    """One record as lm-eval 0.4 writes it: four options, five examples before the question, log-likelihoods as strings."""
    texts = [" ".join(draw.choices(WORDS, k=6)) for _ in range(4)]
    prompt = " ".join(draw.choices(WORDS, k=250))
    lls = [str(-20 * draw.random()) for _ in texts]
    gold = draw.randrange(4)
    right = float(max(range(4), key=lambda i: float(lls[i])) == gold)
    return {
        "doc_id": n, "doc": {"question": f"{n} {prompt[-200:]}", "choices": texts, "answer": gold}, "target": str(gold),
        "arguments": {f"gen_args_{i}": {"arg_0": prompt, "arg_1": f" {text}"} for i, text in enumerate(texts)},
        "resps": [[[ll, "False"]] for ll in lls], "filtered_resps": [[ll, "False"] for ll in lls], "filter": "none", "metrics": ["acc"],
        "doc_hash": "0" * 64, "prompt_hash": "0" * 64, "target_hash": "0" * 64, "acc": right,
    }  # fmt: skip


def write_log(path: Path, megabytes: float) -> int:
    """A synthetic log of about that size; returns its rows."""
    draw, n = random.Random(0), 0
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < megabytes * 1e6:
            for _ in range(200):
                file.write(json.dumps(record(n, draw)) + "\n")
                n += 1
    return n


def measured(code: str, *arguments: str) -> tuple[float, float]:
    """Seconds and peak memory in MB of a fresh Python that runs `code`."""
    wrapped = (
        f"import resource\ntry:\n exec({code!r})\nfinally:\n print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)"
    )
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", wrapped, *arguments], capture_output=True, text=True, check=True)
    return time.perf_counter() - start, int(done.stdout.rsplit("peak ", 1)[1]) / (1024 if sys.platform == "linux" else 1024**2)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--mb", type=float, default=1000)
    options.add_argument("--runs", type=int, default=3)
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples_synthetic_2026-01-01T00-00-00.000000.jsonl"
        rows, size = write_log(path, args.mb), path.stat().st_size / 1e6
        timed: dict[str, list[tuple[float, float]]] = {"json.loads of every line": [], "collect import --jobs 1": []}
        for n in range(args.runs):
            timed["json.loads of every line"].append(measured(PEER, str(path)))
            timed["collect import --jobs 1"].append(measured(OURS, str(path), str(Path(folder) / f"out{n}")))
    print(f"one log of {size:.0f} MB, {rows} rows; medians of {args.runs}")
    base = statistics.median(s for s, _ in timed["json.loads of every line"])
    for name, found in timed.items():
        seconds, peak = (statistics.median(values) for values in zip(*found, strict=True))
        print(
            f"{name:26} {seconds:7.1f} s {size / seconds:7.1f} MB/s {rows / seconds:9.0f} rows/s {peak:7.0f} MB peak  x{seconds / base:.2f}"
        )


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
