"""PIQA: how to do everyday things, two ways each; the validation split, for the test split has no labels.

Hub id: baber/piqa, a copy in Parquet of ybisk/piqa, which is code. Revision: widely pinned, 1,838 rows. Licence: AFL-3.0.
Paper: arXiv 1911.11641. Rows: goal, sol1, sol2, label.
"""

from collect.benchmarks.table import Benchmark, Columns, Task, each, number

PIQA = Benchmark(
    name="piqa",
    hub="baber/piqa",
    revision="142f6d7367fd9877f0fb3b5734ea6a545f54cdd1",
    licence="AFL-3.0",
    paper="arXiv 1911.11641",
    columns=Columns("{goal}", each("sol1", "sol2"), number("label")),
    tasks=(Task("main", "Common Sense", split="validation"),),
)
