"""GSM8K: grade-school arithmetic in words, free-form; the test split.

Hub id: openai/gsm8k. Revision: widely pinned, 1,319 rows. Licence: MIT. Paper: arXiv 2110.14168. Rows: question, answer (a
worked solution, then '#### 18'). Outside the categories of arXiv 2510.17776.
"""

from collect.benchmarks.table import Benchmark, Columns, Task

GSM8K = Benchmark(
    name="gsm8k",
    hub="openai/gsm8k",
    revision="740312add88f781978c0658806c59bc2815b9866",
    licence="MIT",
    paper="arXiv 2110.14168",
    columns=Columns("{question}", answer=lambda row: str(row["answer"]).rpartition("####")[2].strip()),
    tasks=(Task("main", "Math", ("main",)),),
)
