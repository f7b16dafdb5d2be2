"""RACE: English examinations of Chinese middle and high schools, test splits.

Hub id: ehovy/race. Revision: as inspect-evals 0.28.0 pins it. Licence: for research that is not commercial. Paper: arXiv
1704.04683. Rows: example_id (of the article, not of the question), article, question, options (list), answer. Outside the
categories of arXiv 2510.17776.
"""

from collect.benchmarks.table import Benchmark, Columns, Task, letter, listed

RACE = Benchmark(
    name="race",
    hub="ehovy/race",
    revision="2fec9fd81f1dc971569a9b729c43f2f0e6436637",
    licence="non-commercial research",
    paper="arXiv 1704.04683",
    columns=Columns("{article}\n\n{question}", listed("options"), letter("answer")),
    tasks=(Task("high", "Knowledge/QA", ("high",)), Task("middle", "Knowledge/QA", ("middle",))),
)
