"""WinoGrande XL: which of two fills the blank, the validation split; the test split has no labels.

Hub id: allenai/winogrande. Revision: as inspect-evals 0.28.0 pins it. Licence: unstated on the Hub; CC-BY in its repository.
Paper: arXiv 1907.10641. Rows: sentence, option1, option2, answer ('1' or '2'). Outside the categories of arXiv 2510.17776.
"""

from collect.benchmarks.table import Benchmark, Columns, Task, each, number

WINOGRANDE = Benchmark(
    name="winogrande",
    hub="allenai/winogrande",
    revision="01e74176c63542e6b0bcb004dcdea22d94fb67b5",
    licence="CC-BY",
    paper="arXiv 1907.10641",
    columns=Columns("{sentence}", each("option1", "option2"), number("answer", first=1)),
    tasks=(Task("main", "Common Sense", ("winogrande_xl",), "validation"),),
)
