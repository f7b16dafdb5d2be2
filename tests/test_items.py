"""Items: identity, canonical task names, and what bad input says."""

import json

import pytest

from catalog import CatalogError
from catalog.identity import folder_of, qog_key, with_occurrences
from catalog.items import canonical_task, itemsets, read_items

GOOD = {
    "task": "quiz",
    "subset": "test",
    "item_id": "1",
    "question": "Which?",
    "choices": ["R", "rr", "Rr", "RR"],
    "answer_index": 1,
    "answer": "rr",
}


def write(path, *rows):
    """A JSON Lines file of GOOD with changes; a text goes in as it is."""
    lines = [row if isinstance(row, str) else json.dumps({**GOOD, **row}) for row in rows]
    path.write_text("\n".join(lines) + ("\n" if lines else ""), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("task", "subset", "wanted"),
    [("piqa", "validation", ("piqa/main", "validation")), ("hellaswag", "validation_sample1000", ("hellaswag/main", "validation")),
     ("winogrande", "xl_validation", ("winogrande/main", "validation")), ("musr", "team_allocation_sample", ("musr/team_allocation", None)),
     ("mctest", "mc160_test", ("mctest/main", "test")), ("mctest", "mc500_test", ("mctest/main", "test")), ("arc", "challenge", ("arc/challenge", None)),
     ("truthfulqa", "mc1", ("truthfulqa/mc1", None)), ("mmlu", "high_school_physics", ("mmlu/high_school_physics", None)), ("quiz", "", ("quiz/main", None))],
)  # fmt: skip
def test_canonical_task(task, subset, wanted):
    """Split and sample suffixes are no part of a task's name."""
    assert canonical_task(task, subset) == wanted


def test_key_keeps_what_distinguishes_items():
    """Case, inner space, order of options and gold are content; outer space, line ends and Unicode form are not."""
    key = qog_key("Q a\nb", ["R", "rr"], [0])
    assert key == qog_key(" Q a\r\nb ", ["R ", "rr"], [0]) == "qog:4f7bf50cd3279ef2b190fb222a68fcc8"
    assert qog_key("caf\u00e9", [], ["x"]) == qog_key("cafe\u0301", [], ["x"])
    others = [qog_key("q a\nb", ["R", "rr"], [0]), qog_key("Q a\nb", ["r", "rr"], [0]), qog_key("Q a\nb", ["rr", "R"], [0]), qog_key("Q a\nb", ["R", "rr"], [1]),
              qog_key("Q  a\nb", ["R", "rr"], [0]), qog_key("Q a\nb", ["R", "rr"], ["0"])]  # fmt: skip
    assert len({key, *others}) == 7


def test_folder_of_a_model():
    """A folder of its own, which `datasets` does not pass over; never the one above, nor what looks like a file."""
    assert folder_of("org/name@1.5") == "org--name@1.5"
    found = [folder_of(name) for name in ("..", ".", "", ".hidden/x@1", "__x/y", "../x", "x.parquet", "a b/c:d")]
    assert found == ["-", "-", "-", "-hidden--x@1", "-x--y", "---x", "x-parquet", "a-b--c-d"]


def test_occurrences():
    """Equal items of a task stay two items."""
    assert with_occurrences(["a", "b", "a"]) == ["a#0", "b#0", "a#1"]


def test_limit_is_nested_and_keeps_file_order(tmp_path):
    """A smaller limit is part of a larger one, whatever the order of the file."""
    rows = [{"item_id": str(i), "question": f"Which {i}?"} for i in range(30)]
    items, _ = read_items([write(tmp_path / "a.jsonl", *rows)])
    back, _ = read_items([write(tmp_path / "b.jsonl", *rows[::-1])])
    small, large = itemsets(items, 5)[0], itemsets(items, 12)[0]
    assert set(small.keys) < set(large.keys) and set(small.keys) == set(itemsets(back, 5)[0].keys)
    assert [i.source_id for i in large.items] == sorted((i.source_id for i in large.items), key=int)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((), r"items.jsonl is empty: wanted one JSON object a line"),
        (({}, "{not json"), r"items.jsonl:2: not JSON \(.*\)"),
        (("[1]",), r"items.jsonl:1: wanted one JSON object, found a list"),
        (({"answer_index": 4},), r"items.jsonl:1: item 1 of quiz/test: answer_index 4 is not one of its 4 options"),
        (({"answer_index": None},), r"answer_index None is not one of its 4 options"),
        (({"answer_index": True},), r"answer_index True"),
        (({"choices": ["only"], "answer_index": 0},), r"items.jsonl:1: item 1 of quiz/test: 1 option; a choice needs at least 2"),
        (({}, {"question": "Other?"}), r"items.jsonl:2: item 1 of quiz/main was there before, at .*items.jsonl:1"),
        (({"question": " "},), r"no question"),
        (({"choices": [1, 2]},), r"choices must be a list of texts"),
        (({"choices": [], "answer_index": None, "answer": ""},), r"a free-form item needs its answer"),
    ],
)
def test_bad_items(tmp_path, rows, message):
    """Every fault names file, line and item, and says what to type next."""
    path = write(tmp_path / "items.jsonl", *rows)
    with pytest.raises(CatalogError, match=message):
        read_items([path])


def test_bad_items_are_all_listed_or_left_out(tmp_path):
    """Without --skip-bad all are listed and nothing is taken; with it the good ones are taken and the others told."""
    path = write(tmp_path / "items.jsonl", {"item_id": "a"}, {"item_id": "b", "answer_index": 9}, {"item_id": "c", "choices": ["x"]})
    with pytest.raises(CatalogError, match=r"(?s)2 items cannot be used.*:2: item b.*:3: item c.*--skip-bad"):
        read_items([path])
    items, left_out = read_items([path], skip_bad=True)
    assert [i.source_id for i in items] == ["a"] and len(left_out) == 2


def test_missing_files(tmp_path):
    """A path that is not there, a folder without items."""
    with pytest.raises(CatalogError, match=r"no items at .*nowhere"):
        read_items([tmp_path / "nowhere"])
    with pytest.raises(CatalogError, match=r"holds no .jsonl file"):
        read_items([tmp_path])


def test_line_separator_inside_a_line(tmp_path):
    """U+2028 does not end a line."""
    items, _ = read_items([write(tmp_path / "items.jsonl", json.dumps({**GOOD, "question": "a\u2028b"}, ensure_ascii=False))])
    assert items[0].question == "a\u2028b"
