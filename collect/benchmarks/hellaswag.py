"""HellaSwag: how a scene goes on, the validation split; the test split has no labels.

Hub id: Rowan/hellaswag. Revision: as inspect-evals 0.28.0 pins it. Licence: MIT. Paper: arXiv 1905.07830. Rows: ind,
activity_label, ctx_a, ctx_b, endings, label (text) and more. Texts are tidied as harnesses do: half of the rows come from
WikiHow with marks such as [header] in them.
"""

import re

from collect.benchmarks.table import Benchmark, Columns, Row, Task, number


def tidied(text: str) -> str:
    """Without WikiHow's marks."""
    return re.sub(r"\[.*?\]", "", text.strip().replace(" [title]", ". ")).replace("  ", " ")


def question(row: Row) -> str:
    """Activity and scene."""
    return tidied(f"{row['activity_label']}: {row['ctx_a']} {row['ctx_b'].capitalize()}")


HELLASWAG = Benchmark(
    name="hellaswag",
    hub="Rowan/hellaswag",
    revision="218ec52e09a7e7462a5400043bb9a69a41d06b76",
    licence="MIT",
    paper="arXiv 1905.07830",
    columns=Columns(question, lambda row: [tidied(ending) for ending in row["endings"]], number("label"), item_id="ind"),
    tasks=(Task("main", "Language", split="validation"),),
)
