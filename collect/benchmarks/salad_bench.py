"""SALAD-Bench's multiple-choice questions about safety, of which several of three options may be right.

Hub id: OpenSafetyLab/Salad-Data. Revision: not known for certain; looked up at first use. Licence: Apache-2.0. Paper: arXiv
2402.05044. Rows: mcq, baseq, choices ('A. ...; B. ...; C. ...;'), gt ('A', 'BC'). `mcq` says what to choose; its own list of
the options, where it has one, is cut off. An answer is right if it is one of the golds; chance-adjusted metrics are left out.
"""

from collect.benchmarks.table import Benchmark, Columns, Row, Task, between, letters

options = between("choices", "A. ", "; B. ", "; C. ")


def question(row: Row) -> str:
    """What is asked, without its options."""
    text, first = str(row["mcq"]), options(row)[:1]
    listed = text.find(f"A. {first[0]}") if first else -1
    return text[:listed].rstrip() if listed > 0 else text


SALAD_BENCH = Benchmark(
    name="salad_bench",
    hub="OpenSafetyLab/Salad-Data",
    revision=None,
    licence="Apache-2.0",
    paper="arXiv 2402.05044",
    columns=Columns(question, options, letters("gt")),
    tasks=(Task("mrq", "Safety/Truth", ("mcq_set",), "train"),),
    several=True,
)
