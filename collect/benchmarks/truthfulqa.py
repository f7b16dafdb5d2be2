"""TruthfulQA MC1: one true answer among false ones, the one split there is.

Hub id: truthfulqa/truthful_qa. Revision: as inspect-evals 0.28.0 pins it. Licence: Apache-2.0. Paper: arXiv 2109.07958. Rows:
question, mc1_targets (choices, labels), mc2_targets. The true answer always stands first: options are shown in a recorded order.
"""

from collect.benchmarks.table import Benchmark, Columns, Task, flagged, listed

TRUTHFULQA = Benchmark(
    name="truthfulqa",
    hub="truthfulqa/truthful_qa",
    revision="741b8276f2d1982aa3d5b832d3ee81ed3b896490",
    licence="Apache-2.0",
    paper="arXiv 2109.07958",
    columns=Columns("{question}", listed("mc1_targets.choices"), flagged("mc1_targets.labels")),
    tasks=(Task("mc1", "Safety/Truth", ("multiple_choice",), "validation"),),
    permutation_seed=0,
)
