"""The loaders' code over real items, where they are at hand: options per item as counted, and the published columns round about."""

import json
from collections import Counter
from pathlib import Path

import pytest

from catalog.items import itemsets
from collect.benchmarks import BENCHMARKS
from collect.benchmarks.listing import constants
from collect.benchmarks.loading import finished, local_lines, mapped

SHARED = Path(__file__).parents[2] / "shared" / "items"
pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="no real items beside the checkout")
# task -> (left out, options -> items)
KS = {
    "arc/challenge": (0, {3: 4, 4: 1165, 5: 3}), "truthfulqa/mc1": (0, {2: 43, 3: 88, 4: 219, 5: 190, 6: 132, 7: 70, 8: 35, 9: 20, 10: 9, 11: 7, 12: 2, 13: 2}),
    "piqa/main": (0, {2: 1838}), "commonsense_qa/main": (0, {5: 1221}), "social_iqa/main": (0, {3: 1954}), "mctest/main": (0, {4: 840}),
    "hellaswag/main": (0, {4: 1000}), "musr/murder_mysteries": (0, {2: 5}), "musr/team_allocation": (0, {3: 5}), "musr/object_placements": (0, {3: 8, 4: 8, 5: 4}),
    "bbh/movie_recommendation": (1, {4: 231, 5: 18}), "bbh/ruin_names": (2, {3: 1, 4: 247}), "bbh/snarks": (1, {2: 177}),
    "bbh/reasoning_about_colored_objects": (0, {2: 27, 7: 48, 17: 57, 18: 118}), "bbh/date_understanding": (0, {5: 38, 6: 212}),
    "bbh/geometric_shapes": (0, {10: 200, 11: 50}), "bbh/disambiguation_qa": (0, {3: 247, 4: 3}), "bbh/penguins_in_a_table": (0, {4: 1, 5: 145}),
    "bbh/object_counting": (0, {0: 250}), "bbh/dyck_languages": (0, {0: 250}), "bbh/word_sorting": (0, {0: 250}), "bbh/multistep_arithmetic_two": (0, {0: 250}),
    "gsm8k/main": (0, {0: 1319}), "boolq/main": (0, {2: 2000}), "winogrande/main": (0, {2: 1267}), "mmlu/moral_scenarios": (0, {4: 895}),
}  # fmt: skip


@pytest.fixture(scope="module")
def read():
    """task_id -> (benchmark, task, items, left out, lines), of every task that is there."""
    found = {}
    for benchmark in BENCHMARKS:
        lines = local_lines(SHARED, benchmark)
        for task in benchmark.tasks:
            if task_lines := lines.get(benchmark.task_id(task)):
                found[benchmark.task_id(task)] = (benchmark, task, *finished(benchmark, task, task_lines, None), task_lines)
    return found


@pytest.mark.slow
def test_options_per_item(read):
    """As counted before any of this was written; MMLU has 4 everywhere; the committed constants are what is here."""
    assert {task: (len(read[task][3]), dict(Counter(len(i.choices) for i in read[task][2]))) for task in KS} == KS
    mmlu = [item for name, (_, _, items, *_) in read.items() if name.startswith("mmlu/") for item in items]
    assert len(mmlu) == 14042 and {len(item.choices) for item in mmlu} == {4}
    for name, (_, _, items, left_out, _) in read.items():
        row = constants()[name]
        counts = " ".join(f"{k or 'free'}:{n}" for k, n in sorted(Counter(len(item.choices) for item in items).items()))
        assert int(row["n_refused"]) == len(left_out)
        assert row["counted"] == "stated" or (int(row["n_items"]), row["options"]) == (len(items), counts), name
    assert {name for name, row in constants().items() if row["tokens_are"] != "assumed"} == read.keys()


@pytest.mark.slow
def test_every_item_has_its_own_key(read):
    """Equal questions, options that differ in case, duplicates, conflicting golds: no two items of a task share a key."""
    for name, (_, _, items, *_) in read.items():
        (found,) = itemsets(items)
        assert found.task_id == name and len(set(found.keys)) == len(items)
    (social,) = itemsets(read["social_iqa/main"][2])
    assert sum(not key.endswith("#0") for key in social.keys) == 24 - 5  # pairs, without those of two golds


@pytest.mark.slow
def test_where_the_gold_always_stands_first_a_seed_is_recorded(read):
    """Of whole tasks, TruthfulQA alone."""
    constant = {
        name for name, (_, _, items, *_) in read.items() if len(items) > 20 and len({item.gold for item in items if item.choices}) == 1
    }
    assert constant == {"truthfulqa/mc1"} == {name for name, (_, _, items, *_) in read.items() if items[0].permutation_seed is not None}


def bbh_row(line):
    """A line of BBH as its dataset has it: the options listed in the text."""
    if line["subset"] in ("boolean_expressions", "sports_understanding", "web_of_lies") or not line["choices"]:
        return {"input": line["question"], "target": line["answer"]}
    lettered = line["subset"] not in ("causal_judgement", "formal_fallacies", "navigate")
    marks = [f"({chr(65 + n)}) " if lettered else "- " for n in range(len(line["choices"]))]
    return {
        "input": line["question"] + "\nOptions:\n" + "\n".join(map("".join, zip(marks, line["choices"], strict=True))),
        "target": line["answer"],
    }


def text_and(name):
    """A row with the last paragraph as the question, the rest in a column of that name."""
    return lambda question: dict(zip((name, "question"), question.rsplit("\n\n" if name != "passage" else "\n", 1), strict=True))


LABELS = "ABCDE"
ROWS = {
    "mmlu": lambda q, c, g, a: {"question": q, "choices": c, "answer": g},
    "arc": lambda q, c, g, a: {"question": q, "choices": {"text": c, "label": list(LABELS[: len(c)])}, "answerKey": LABELS[g], "id": "x"},
    "commonsense_qa": lambda q, c, g, a: {"question": q, "choices": {"text": c, "label": list(LABELS)}, "answerKey": LABELS[g], "id": "x"},
    "truthfulqa": lambda q, c, g, a: {"question": q, "mc1_targets": {"choices": c, "labels": [int(n == g) for n in range(len(c))]}},
    "musr": lambda q, c, g, a: {**text_and("narrative")(q), "choices": repr(c), "answer_index": g},
    "mctest": lambda q, c, g, a: {**text_and("story")(q.replace("\n\n", "\\newline\\newline", q.count("\n\n") - 1)),
                                  "answer_options": dict(zip("ABCD", c, strict=True)), "answer": LABELS[g]},
    "piqa": lambda q, c, g, a: {"goal": q, "sol1": c[0], "sol2": c[1], "label": g},
    "social_iqa": lambda q, c, g, a: {**dict(zip(("context", "question"), q.rsplit("\n", 1), strict=True)), "answerA": c[0], "answerB": c[1], "answerC": c[2],
                                      "label": str(g + 1)},
    "boolq": lambda q, c, g, a: {**text_and("passage")(q), "answer": g == 1},
    "winogrande": lambda q, c, g, a: {"sentence": q, "option1": c[0], "option2": c[1], "answer": str(g + 1)},
    "gsm8k": lambda q, c, g, a: {"question": q, "answer": f"Because.\n#### {a}"},
}  # fmt: skip


@pytest.mark.slow
def test_published_columns_give_the_same_items(read):
    """Real items put back into the columns of their datasets and read from there are the same items: same keys."""
    for name, (benchmark, task, items, left_out, lines) in read.items():
        if benchmark.name == "hellaswag":  # its marks are gone for good
            continue
        rows = [
            bbh_row(line)
            if benchmark.name == "bbh"
            else ROWS[benchmark.name](line["question"], line["choices"], line["answer_index"], line["answer"])
            for _, line in lines
        ]
        if benchmark.columns.item_id:
            rows = [{**row, benchmark.columns.item_id: line["item_id"]} for row, (_, line) in zip(rows, lines, strict=True)]
        found, refused = finished(benchmark, task, mapped(benchmark, task, rows), "c0")
        assert [item.key for item in found] == [item.key for item in items], name
        assert refused == left_out


@pytest.mark.slow
def test_no_text_of_theirs_is_in_the_package():
    """The last 60 characters of no question stand in code, docs or tests."""
    root = Path(__file__).parents[1]
    paths = [
        path
        for folder in ("collect", "docs", "tests")
        for kind in ("py", "csv", "toml", "md")
        for path in (root / folder).rglob(f"*.{kind}")
    ]
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    ends = {json.loads(line)["question"][-60:] for file in SHARED.rglob("*.jsonl") for line in file.open(encoding="utf-8")}
    assert len(paths) > 50 and not {text[at : at + 60] for at in range(len(text) - 59)} & {end for end in ends if len(end) == 60}
