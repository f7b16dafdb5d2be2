"""Social IQa: reasoning about people, the validation split; the test split has no labels.

Hub id: allenai/social_i_qa, of which only code and the Hub's own conversion to Parquet are there. Revision: a commit of that
conversion which other projects pin. Licence: CC-BY-4.0 as its card states. Paper: arXiv 1904.09728. Rows: context, question,
answerA to answerC, label ('1' to '3'). 24 pairs of rows are duplicates, 5 of them with another gold: each stays an item.
"""

from collect.benchmarks.table import Benchmark, Columns, Task, each, number

SOCIAL_IQA = Benchmark(
    name="social_iqa",
    hub="allenai/social_i_qa",
    revision="537a2ec8ec565adc0b70b70752893e59e024df26",
    branch="refs/convert/parquet",
    licence="CC-BY-4.0",
    paper="arXiv 1904.09728",
    columns=Columns("{context}\n{question}", each("answerA", "answerB", "answerC"), number("label", first=1)),
    tasks=(Task("main", "Language", split="validation", files="default/validation/*.parquet"),),
)
