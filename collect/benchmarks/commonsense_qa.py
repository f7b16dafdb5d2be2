"""CommonsenseQA: five options, the validation split; the test split has no labels.

Hub id: tau/commonsense_qa. Revision: as inspect-evals 0.28.0 pins it. Licence: MIT. Paper: arXiv 1811.00937. Rows: id, question,
choices (text, label), answerKey.
"""

from collect.benchmarks.table import Benchmark, Columns, Task, label_among, listed

COMMONSENSE_QA = Benchmark(
    name="commonsense_qa",
    hub="tau/commonsense_qa",
    revision="94630fe30dad47192a8546eb75f094926d47e155",
    licence="MIT",
    paper="arXiv 1811.00937",
    columns=Columns("{question}", listed("choices.text"), label_among("answerKey", "choices.label"), item_id="id"),
    tasks=(Task("main", "Common Sense", split="validation"),),
)
