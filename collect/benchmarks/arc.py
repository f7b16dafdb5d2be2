"""ARC: grade-school science, easy and challenge, the test split.

Hub id: allenai/ai2_arc. Revision: as inspect-evals 0.28.0 pins it. Licence: CC-BY-SA-4.0. Paper: arXiv 1803.05457. Rows: id,
question, choices (text, label), answerKey. Labels are letters or digits, three to five a row; options can differ in case only.
"""

from collect.benchmarks.table import Benchmark, Columns, Task, label_among, listed

ARC = Benchmark(
    name="arc",
    hub="allenai/ai2_arc",
    revision="210d026faf9955653af8916fad021475a3f00453",
    licence="CC-BY-SA-4.0",
    paper="arXiv 1803.05457",
    columns=Columns("{question}", listed("choices.text"), label_among("answerKey", "choices.label"), item_id="id"),
    tasks=(Task("easy", "Logic", ("ARC-Easy",)), Task("challenge", "Logic", ("ARC-Challenge",))),
)
