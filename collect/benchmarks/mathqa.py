"""MathQA: word problems with five options, the test split.

Hub id: allenai/math_qa, of which only code and the Hub's own conversion to Parquet are there. Revision: not known for
certain; looked up at first use. Licence: Apache-2.0. Paper: arXiv 1905.13319. Rows: Problem, options ('a ) 38 , b ) ...'), correct
('a' to 'e') and more. Outside the categories of arXiv 2510.17776.
"""

from collect.benchmarks.table import Benchmark, Columns, Task, between, letter

MATHQA = Benchmark(
    name="mathqa",
    hub="allenai/math_qa",
    revision=None,
    branch="refs/convert/parquet",
    licence="Apache-2.0",
    paper="arXiv 1905.13319",
    columns=Columns("{Problem}", between("options", "a ) ", ", b ) ", ", c ) ", ", d ) ", ", e ) "), letter("correct")),
    tasks=(Task("main", "Math", files="default/test/*.parquet"),),
)
