"""BoolQ: yes or no about a passage, the validation split.

Hub id: google/boolq. Revision: as inspect-evals 0.28.0 pins it. Licence: CC-BY-SA-3.0. Paper: arXiv 1905.10044. Rows: question,
answer (true or false), passage. Outside the categories of arXiv 2510.17776.
"""

from collect.benchmarks.table import Benchmark, Columns, Task, fixed

BOOLQ = Benchmark(
    name="boolq",
    hub="google/boolq",
    revision="35b264d03638db9f4ce671b711558bf7ff0f80d5",
    licence="CC-BY-SA-3.0",
    paper="arXiv 1905.10044",
    columns=Columns("{passage}\n{question}", fixed("no", "yes"), lambda row: int(row["answer"])),
    tasks=(Task("main", "Knowledge/QA", split="validation"),),
)
