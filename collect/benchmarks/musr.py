"""MuSR: three kinds of long stories that take several steps of reasoning.

Hub id: TAUR-Lab/MuSR. Revision: as inspect-evals 0.28.0 pins it. Licence: CC-BY-4.0 as its card states. Paper: arXiv
2310.16049. Rows: narrative, question, choices (a Python list as text), answer_index, answer_choice; a split a task.
"""

from collect.benchmarks.table import Benchmark, Columns, Task, literal, number

MUSR = Benchmark(
    name="musr",
    hub="TAUR-Lab/MuSR",
    revision="7c365b439a222150f317764d4f16ae6c96d7d94a",
    licence="CC-BY-4.0",
    paper="arXiv 2310.16049",
    columns=Columns("{narrative}\n\n{question}", literal("choices"), number("answer_index")),
    tasks=tuple(Task(name, "Logic", split=name) for name in ("murder_mysteries", "object_placements", "team_allocation")),
)
