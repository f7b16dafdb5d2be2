"""GPQA diamond: 198 questions that experts answer and search engines do not.

Hub id: Idavidrein/gpqa (gated: accept its terms, then `hf auth login`). Revision: as inspect-evals 0.28.0 pins it. Licence:
CC-BY-4.0; its authors ask that the questions be shown nowhere in plain text. Paper: arXiv 2311.12022. Rows: Question, Correct
Answer, Incorrect Answer 1 to 3, Record ID and more: the correct answer always stands first, so options are shown in a
recorded order (harnesses draw one without a seed).
"""

from collect.benchmarks.table import Benchmark, Columns, Task, always, each

GPQA = Benchmark(
    name="gpqa",
    hub="Idavidrein/gpqa",
    revision="5233cd1db58884ed0bf678c7c6be731722a23f84",
    licence="CC-BY-4.0",
    paper="arXiv 2311.12022",
    columns=Columns(
        "{Question}",
        each("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"),
        always(0),
        item_id="Record ID",
    ),
    tasks=(Task("diamond", "Science/Tech", ("gpqa_diamond",), "train"),),
    permutation_seed=0,
)
