"""BIG-Bench Hard: 27 tasks of the one split there is.

Hub id: lukaemon/bbh. Revision: widely pinned, 6,511 rows; counts here are of the authors' own files, which it copies in
their order. Licence: MIT. Paper: arXiv 2210.09261. Rows: input, target. The options stand in the text of `input`, as letters
or as a list of two words; three tasks ask for one of two words they do not list; four are free-form.
"""

import re

from collect.benchmarks.table import Benchmark, Columns, Gold, Row, Task

TASKS = {
    "Culture": """
        movie_recommendation sports_understanding""",
    "Logic": """
        causal_judgement date_understanding dyck_languages formal_fallacies logical_deduction_five_objects
        logical_deduction_seven_objects logical_deduction_three_objects navigate penguins_in_a_table
        reasoning_about_colored_objects temporal_sequences tracking_shuffled_objects_five_objects
        tracking_shuffled_objects_seven_objects tracking_shuffled_objects_three_objects web_of_lies""",
    "Knowledge/QA": """
        object_counting""",
    "Language": """
        disambiguation_qa hyperbaton ruin_names salient_translation_error_detection snarks word_sorting""",
    "Math": """
        boolean_expressions geometric_shapes multistep_arithmetic_two""",
}
# Tasks of arXiv 2510.17776's list of left out are sorted here: dyck_languages, word_sorting, multistep_arithmetic_two.
UNLISTED = {"boolean_expressions": ["False", "True"], "web_of_lies": ["Yes", "No"], "sports_understanding": ["yes", "no"]}
NO_GOLD = "its gold is no option: the published options were cut at commas"


def question(row: Row) -> str:
    """`input` without its list of options."""
    return str(row["input"]).partition("\nOptions:\n")[0]


def options(row: Row) -> list[str]:
    """The options listed in `input`: '(A) ...' or '- ...', one a line; of the three tasks that list none, their two words."""
    listed = str(row["input"]).partition("\nOptions:\n")[2]
    mark = r"(?:^|\n)\([A-Z]\)" if listed.startswith("(") else r"(?:^|\n)- "
    return [text.strip() for text in re.split(mark, listed)[1:]] or unlisted(str(row["target"]).strip())


def unlisted(target: str) -> list[str]:
    """The two words one of which is the target; none where the task is free-form."""
    return next((words for words in UNLISTED.values() if target in words), [])


def gold(row: Row) -> Gold:
    """The index of the target, which is a letter in parentheses or the option itself."""
    target, found = str(row["target"]).strip(), options(row)
    if re.fullmatch(r"\([A-Z]\)", target):
        return ord(target[1]) - ord("A")
    return found.index(target) if target in found else None


BBH = Benchmark(
    name="bbh",
    hub="lukaemon/bbh",
    revision="982bb89fd79532a8ac676a61fc42eb1aeec63f99",
    licence="MIT",
    paper="arXiv 2210.09261",
    columns=Columns(question, options, gold, lambda row: str(row["target"])),
    tasks=tuple(Task(name, category, (name,)) for category, names in TASKS.items() for name in names.split()),
    refused={
        "snarks": {"88": "it has one option"},
        "movie_recommendation": {"163": NO_GOLD},
        "ruin_names": {"99": NO_GOLD, "144": NO_GOLD},
    },
)
