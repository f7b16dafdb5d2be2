"""MCTest: children's stories with four questions each; mc160 and mc500, test splits.

Hub id: sagnikrayc/mctest, of which only code and the Hub's own conversion to Parquet are there. Revision: not known for
certain; looked up at first use. Licence: Microsoft Research licence agreement. Paper: aclanthology.org/D13-1020. Rows: story (line
ends written as \\newline), question, answer_options (A to D), answer.
"""

from collect.benchmarks.table import Benchmark, Columns, Row, Task, each, letter


def question(row: Row) -> str:
    """Story and question."""
    story = str(row["story"]).replace(r"\newline", "\n").replace(r"\tab", "\t")
    return f"{story}\n\n{row['question']}"


MCTEST = Benchmark(
    name="mctest",
    hub="sagnikrayc/mctest",
    revision=None,
    branch="refs/convert/parquet",
    licence="MSR-LA",
    paper="aclanthology.org/D13-1020",
    columns=Columns(
        question,
        each("answer_options.A", "answer_options.B", "answer_options.C", "answer_options.D"),
        letter("answer"),
    ),
    tasks=(Task("main", "Knowledge/QA", ("mc160", "mc500"), files="{config}/test/*.parquet"),),
)
