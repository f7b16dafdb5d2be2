"""Reading answers: the tables of docs/protocols.md row by row, what no text may do, and the first version of the rules."""

import functools
import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog import connect
from catalog.items import Item
from collect.__main__ import RULE_VERSIONS, main
from collect.extract import EXTRACTION, VERSIONS, grade
from collect.list_protocols import rule_lines

first = functools.partial(grade, version="1")
PAGE = (Path(__file__).parent.parent / "docs" / "protocols.md").read_text(encoding="utf-8")
CHOICE = Item("t/t", "1", "q", ("Paris", "Rome", "A cat", "42"), (1,))
NUMBER = Item("t/t", "1", "q", (), ("18",))
TEXT = Item("t/t", "1", "q", (), ("] ]",))
ORDER = [3, 1, 0, 2]  # shown: (A) 42 (B) Rome (C) Paris (D) A cat
FREE = {"29": Item("t/t", "1", "q", (), ("29",)), "words": Item("t/t", "1", "q", (), ("sing birds red",))}


def table(heading):
    """Rows of the first table after a line of the page: answer, read as, status, rule."""
    rows = []
    for line in PAGE.partition(heading)[2].split("\n\n")[1].splitlines()[2:]:
        *_, read, status, rule = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        code = re.match(r"\|\s*(`+)\s?(.*?)\s?\1\s*\|", line)[2]
        rows.append((json.loads(code.replace("\\|", "|")), read, status, rule or None))
    return rows


def shown(found, choice):
    """A grade as the page's tables show it."""
    read = (
        ""
        if found.status not in ("ok", "lenient")
        else "ABCD"[ORDER.index(found.predicted)]
        if choice
        else ["wrong", "right"][found.correct]
    )
    return read, found.status, found.reason


@pytest.mark.parametrize("row", table("Options shown:"), ids=lambda row: repr(row[0])[:40])
def test_options(row):
    """Letters and texts of options, as the page says."""
    found = grade(row[0], CHOICE, ORDER)
    assert shown(found, True) == row[1:] and found.correct == (row[1] == "B")


@pytest.mark.parametrize("row", table("the gold is 29:"), ids=lambda row: repr(row[0])[:40])
def test_numbers(row):
    """Numbers, as the page says."""
    assert shown(grade(row[0], FREE["29"], []), False) == row[1:]


@pytest.mark.parametrize("row", table('the gold is "sing birds red":'), ids=lambda row: repr(row[0])[:40])
def test_texts(row):
    """Free texts, as the page says."""
    assert shown(grade(row[0], FREE["words"], []), False) == row[1:]


@pytest.mark.parametrize("row", table("Cut off by the token limit"), ids=lambda row: repr(row[0])[:40])
def test_cut_off(row):
    """What the token limit cut off, as the page says."""
    choice = not re.search(r"\d", row[0])
    item, order = (CHOICE, ORDER) if choice else (FREE["29"], [])
    assert shown(grade(row[0], item, order, finished=False), choice) == row[1:]


def test_page_holds_the_rules():
    """The rules and their versions as the command prints them, and enough rows that each rule reads one."""
    assert rule_lines() in PAGE
    rows = [row for heading in ("Options shown:", "the gold is 29:") for row in table(heading)]
    assert {row[3] for row in rows} >= {
        "answer-line",
        "boxed",
        "answer-is",
        "hashes",
        "correct-option",
        "last-line",
        "last-bracket",
        "last-number",
    }
    assert len(rows) > 90


def test_versions():
    """The command line offers the versions there are, and the newest is the default."""
    assert tuple(VERSIONS) == RULE_VERSIONS and RULE_VERSIONS[-1] == EXTRACTION
    assert first("The answer is (E), not (A).", CHOICE, ORDER).predicted == 3  # guessed: what the second version is there to mend
    assert grade("The answer is (E), not (A).", CHOICE, ORDER).reason == "no such letter"


OTHERS = Item("t/t", "1", "q", ("B", "A", "New York", "New York City", "-3", "3.0", ""), (0,))


@pytest.mark.parametrize(
    ("text", "predicted", "reason"),
    [
        ("Answer: B", 1, "answer-line"),  # the letter, not the text of (A)
        ("Answer: New York City, of course", 3, "answer-line"),
        ("Answer: New York, of course", 2, "answer-line"),
        ("Answer: 3", 5, "answer-line"),
        ("Answer: $-3.00", 4, "answer-line"),
        ("Answer: G", 6, "answer-line"),
        ("Answer: ", None, None),
        ("Answer: 3.05", None, None),
        ("Answer: H", None, "no such letter"),
    ],
)
def test_options_like_each_other(text, predicted, reason):
    """Options that are letters, numbers, empty, or begin like another."""
    assert grade(text, OTHERS, range(7))[1::2] == (predicted, reason)


def test_options_of_one_text():
    """An option that stands twice is not named by its text; with several golds any of them is right, two at once are none."""
    twice = Item("t/t", "1", "q", ("same", "same", "other"), (0,))
    assert grade("Answer: same", twice, [0, 1, 2]).status == "unparsed"
    assert grade("Answer: (B)", twice, [0, 1, 2]).predicted == 1
    several = Item("t/t", "1", "q", ("a", "b", "c"), (0, 2))
    assert grade("Answer: (C)", several, [0, 1, 2]).correct and grade("Answer: A and C", several, [0, 1, 2]).reason == "two answers"


def test_without_letters():
    """Options shown without letters are named by their text, numbered or not; a letter is no answer."""
    for text in ("Answer: Rome", "Answer: - Rome", "Answer: B) Rome", "Answer: 2. Rome", "rome."):
        assert grade(text, CHOICE, ORDER, letters=False).predicted == 1, text
    assert grade("Answer: B", CHOICE, ORDER, letters=False).status == "unparsed"


@pytest.mark.parametrize(
    ("match", "answer", "gold", "right"),
    [
        ("auto", "Sing  Birds", "sing birds", True), ("exact", "Sing  Birds", "sing birds", False), ("exact", "**sing birds**.", "sing birds", True),
        ("exact", "29.0", "29", False), ("auto", "29.0", "29", True), ("numeric", "about 29 km", "29", True), ("numeric", "many", "29", None),
        ("auto", "1,234", "1234", True), ("auto", "2,5", "2.5", True), ("auto", "1.234.567", "1234567", True), ("auto", "1e3", "1000", True),
        ("auto", "9" * 70, "9" * 70, True), ("auto", "1/0", "1", None),
    ],
)  # fmt: skip
def test_match(match, answer, gold, right):
    """How a free answer is compared; what is no number where one is wanted was not read."""
    found = grade(f"Answer: {answer}", Item("t/t", "1", "q", (), (gold,)), [], match=match)
    assert (found.correct if found.status == "ok" else None) == right


PIECES = (
    "Answer: ",
    "The answer is ",
    "\\boxed{",
    "}",
    "(A)",
    "B",
    " or ",
    "<think>",
    "</think>",
    "```",
    "\n",
    "####",
    "29",
    ",",
    "$",
    "Rome",
    "is correct",
    " ",
    "é",
    "答案：",
)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.booleans(), st.sampled_from(RULE_VERSIONS))
@settings(max_examples=200, deadline=None)
def test_any_text_has_a_grade(text, finished, version):
    """Nothing crashes; a predicted option exists and decides what is right; what is not read is wrong and has no option."""
    for item, order in ((CHOICE, ORDER), (FREE["29"], []), (FREE["words"], [])):
        found = grade(text, item, order, True, finished, version)
        read = found.status in ("ok", "lenient")
        assert found.status in ("ok", "lenient", "unparsed", "truncated") and (read or not found.correct)
        assert (
            (found.predicted in range(4) and found.correct == (found.predicted in item.gold))
            if item.choices and read
            else found.predicted is None
        )


LONG = (
    "the answer is ",
    "\\boxed{",
    "\n",
    "Answer:\n",
    "Answer: A or B\n",
    "(A) ",
    "1",
    "1,",
    "*",
    "<think>",
    "```",
    "B is correct ",
    "_ ",
    "x",
    "{",
    "a b ",
)


@pytest.mark.parametrize("piece", LONG)
def test_repetition_takes_linear_time(piece):
    """100,000 characters of anything repeated are read in a fraction of a second; in quadratic time it would be minutes."""
    text = piece * (100_000 // len(piece))
    began = time.process_time()
    for item, order in ((CHOICE, ORDER), (FREE["29"], [])):
        grade(text, item, order)
    assert time.process_time() - began < 4


LOGS = Path(__file__).parent.parent.parent / "shared" / "logs" / "inspect"


@pytest.mark.slow
@pytest.mark.skipif(not LOGS.is_dir(), reason="no logs of other harnesses beside this checkout")
def test_agrees_with_the_harness_that_wrote_the_logs(tmp_path):
    """Real answers of several hundred items: right and wrong as inspect's own scorer `match` said."""
    assert main(["import", str(LOGS), "--out", str(tmp_path)]) in (0, 1)
    rows = (
        connect(tmp_path)
        .sql("""SELECT s.gold, g.text, o.correct FROM outcomes AS o JOIN run_facts AS f USING (run_id)
        JOIN samples AS s ON s.itemset_id = f.itemset_id AND s.item = o.item JOIN generations AS g ON g.run_id = o.run_id AND g.item = o.item
        WHERE s.answer = 'free' AND o.correct IS NOT NULL AND f.setting = 'match'""")
        .fetchall()
    )
    assert len(rows) > 500
    assert [grade(text, Item("t/t", "1", "q", (), tuple(gold)), []).correct for gold, text, _ in rows] == [correct for *_, correct in rows]


# ---- the first version of the rules: it stays as it is, for what was read with it ----


@pytest.mark.parametrize(
    ("text", "predicted", "status", "rule"),
    [
        ("Well. The answer is (B).", 1, "ok", "answer-is"),
        ("The answer is B", 1, "ok", "answer-is"),
        ("the answer is: **B**.", 1, "ok", "answer-is"),
        ("The answer is (D) A cat.", 2, "ok", "answer-is"),
        ("First (A). The answer is (A). No: the answer is (C).", 0, "ok", "answer-is"),
        ("The answer is Rome.", 1, "ok", "answer-is"),
        ("The answer is a cat.", 2, "ok", "answer-is"),
        ("The answer is A dog.", None, "unparsed", None),
        ("The answer is 42", 3, "ok", "answer-is"),
        (r"so \boxed{\text{C}}", 0, "ok", "boxed"),
        ("The answer is Option B.", 1, "ok", "answer-is"),
        ("The answer is [C]", 0, "ok", "answer-is"),
        ("The answer is B because of the river", 1, "ok", "answer-is"),
        ("Correct answer: C", 0, "lenient", "answer-colon"),
        ("B is the correct answer.", 1, "lenient", "correct-option"),
        ("The correct option is C.", 0, "lenient", "correct-option"),
        ("A, C and D are wrong, so it must be Rome.", None, "unparsed", None),
        ("- Rome", 1, "lenient", "last-line"),
        (r"so \boxed{C}", 0, "ok", "boxed"),
        ("**Answer: C**", 0, "lenient", "answer-colon"),
        ("I think\n\nRome", 1, "lenient", "last-line"),
        ("It may be (A) but rather (C) I guess", 0, "lenient", "last-bracket"),
        ("The answer is (E).", None, "unparsed", None),
        ("I do not know", None, "unparsed", None),
        ("", None, "unparsed", None),
    ],
)
def test_first_choice(text, predicted, status, rule):
    """Letters go back to published positions; a text must be one whole option."""
    found = first(text, CHOICE, ORDER)
    assert (found.predicted, found.status, found.reason) == (predicted, status, rule)
    assert found.correct == (predicted == 1)


def test_first_texts_only():
    """Where options were shown without letters, a letter is no answer."""
    assert first("The answer is (B).", CHOICE, ORDER, letters=False).status == "unparsed"
    assert first("The answer is Rome.", CHOICE, ORDER, letters=False).predicted == 1
    assert first("The answer is - Rome", CHOICE, ORDER, letters=False).predicted == 1


@pytest.mark.parametrize(
    ("text", "correct", "status"),
    [("The answer is 18.", True, "ok"), ("The answer is $18.00 per day.", True, "ok"), ("#### 1,8", True, "ok"), ("The answer is 1,800", False, "ok"),
     ("9 * 2 = 18 dollars", True, "lenient"), ("The answer is eighteen", False, "unparsed"), (r"\boxed{18}", True, "ok"), ("The answer is -18", False, "ok"),
     ("The answer is \u221218", False, "ok"), ("The answer is -$18", False, "ok"), ("The answer is 10 + 8 = 18.", True, "ok"), ("The answer is .18", False, "ok"),
     ("#### 2. Add them\n**Answer: 18**", True, "lenient"), ("The answer is 36/2", True, "ok"), ("#### 18", True, "ok")],
)  # fmt: skip
def test_first_number(text, correct, status):
    """Numbers are compared exactly, units and separators aside."""
    assert first(text, NUMBER, [])[::2] == (correct, status)


def test_first_free_text_and_truncation():
    """Free text folds case and spacing only; an answer cut off by the limit is truncated, not unparsed."""
    assert first("The answer is ]  ].", TEXT, []).correct
    assert not first("The answer is ].", TEXT, []).correct
    assert first("Let me think about", CHOICE, ORDER, finished=False).status == "truncated"
    assert first("Let me think. (A) says one thing whereas (C)", CHOICE, ORDER, finished=False) == (False, None, "truncated", None)
    assert first("First 3 apples plus 18 gives", NUMBER, [], finished=False).status == "truncated"
    assert first("The answer is (B). And then", CHOICE, ORDER, finished=False).status == "ok"


def test_first_repeated_options_and_several_golds():
    """An option that stands twice is not named by its text; with several golds any of them is right."""
    twice = Item("t/t", "1", "q", ("same", "same", "other"), (0,))
    assert first("The answer is same.", twice, [0, 1, 2]).status == "unparsed"
    assert first("The answer is (B).", twice, [0, 1, 2]).predicted == 1
    assert first("The answer is (C).", Item("t/t", "1", "q", ("a", "b", "c"), (0, 2)), [0, 1, 2]).correct
