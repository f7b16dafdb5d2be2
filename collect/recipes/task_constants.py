"""Make `collect/benchmarks/constants.csv`: items, options and mean tokens of every benchmark task.

`python -m collect.recipes.task_constants ITEMS TOKENIZER`: a folder of JSON Lines as `from_jsonl` takes it, and a tokenizer.json
(the committed file: SmolLM2's). What the folder holds whole is measured; of samples the tokens are measured and the
counts are the publishers'; of the rest both are stated or assumed, and say so.
"""

import csv
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from catalog.items import Item
from collect.benchmarks import BENCHMARKS
from collect.benchmarks.listing import CONSTANTS, FIELDS
from collect.benchmarks.loading import finished, local_lines

# n_items and options as the publishers state them, of splits that ITEMS lacks or holds a sample of
STATED = {
    "gpqa/diamond": (198, "4"), "musr/murder_mysteries": (250, "2"), "musr/object_placements": (256, "2-5"),
    "musr/team_allocation": (250, "3"),
    "hellaswag/main": (10042, "4"), "salad_bench/mrq": (3840, "3"), "boolq/main": (3270, "2"), "mathqa/main": (2985, "5"),
    "race/high": (3498, "4"), "race/middle": (1436, "4"),
}  # fmt: skip
# mean tokens of question and options where no item was at hand
ASSUMED = {
    "gpqa/diamond": (150, 80),
    "salad_bench/mrq": (60, 90),
    "mathqa/main": (50, 30),
    "race/high": (430, 45),
    "race/middle": (300, 35),
}


def constants(folder: Path, tokenizer: Any) -> Iterable[dict[str, Any]]:
    """A row per task."""
    for benchmark in BENCHMARKS:
        lines = local_lines(folder, benchmark)
        for task in benchmark.tasks:
            task_id = benchmark.task_id(task)
            items, left_out = finished(benchmark, task, lines.get(task_id, []), None)
            options = Counter(len(item.choices) for item in items)
            counts = " ".join(f"{k or 'free'}:{n}" for k, n in sorted(options.items()))
            n, ks = STATED.get(task_id, (len(items), counts))
            question, listed = tokens(items, tokenizer) if items else ASSUMED[task_id]
            yield dict(zip(FIELDS, (
                task_id, n, len(left_out), ks, "stated" if task_id in STATED else "measured", round(question, 1), round(listed, 1),
                "assumed" if not items else "sample" if task_id in STATED else "measured",
            ), strict=True))  # fmt: skip


def tokens(items: list[Item], tokenizer: Any) -> tuple[float, float]:
    """Mean tokens of the question, and of all options together."""
    question = sum(len(tokenizer.encode(item.question).ids) for item in items)
    options = sum(len(tokenizer.encode(f" {option}").ids) for item in items for option in item.choices)
    return question / len(items), options / len(items)


if __name__ == "__main__":
    from tokenizers import Tokenizer

    with CONSTANTS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(constants(Path(sys.argv[1]), Tokenizer.from_file(sys.argv[2])))
