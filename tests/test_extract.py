"""Reading answers: each case is a text, what it predicts, the status and the rule that read it."""

import pytest

from catalog.items import Item
from collect.extract import grade

CHOICE = Item("t/t", "1", "q", ("Paris", "Rome", "A cat", "42"), (1,))
NUMBER = Item("t/t", "1", "q", (), ("18",))
TEXT = Item("t/t", "1", "q", (), ("] ]",))
ORDER = [3, 1, 0, 2]  # shown: (A) 42 (B) Rome (C) Paris (D) A cat


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
def test_choice(text, predicted, status, rule):
    """Letters go back to published positions; a text must be one whole option."""
    found = grade(text, CHOICE, ORDER)
    assert (found.predicted, found.status, found.reason) == (predicted, status, rule)
    assert found.correct == (predicted == 1)


def test_texts_only():
    """Where options were shown without letters, a letter is no answer."""
    assert grade("The answer is (B).", CHOICE, ORDER, letters=False).status == "unparsed"
    assert grade("The answer is Rome.", CHOICE, ORDER, letters=False).predicted == 1
    assert grade("The answer is - Rome", CHOICE, ORDER, letters=False).predicted == 1


@pytest.mark.parametrize(
    ("text", "correct", "status"),
    [("The answer is 18.", True, "ok"), ("The answer is $18.00 per day.", True, "ok"), ("#### 1,8", True, "ok"), ("The answer is 1,800", False, "ok"),
     ("9 * 2 = 18 dollars", True, "lenient"), ("The answer is eighteen", False, "unparsed"), (r"\boxed{18}", True, "ok"), ("The answer is -18", False, "ok"),
     ("The answer is \u221218", False, "ok"), ("The answer is -$18", False, "ok"), ("The answer is 10 + 8 = 18.", True, "ok"), ("The answer is .18", False, "ok"),
     ("#### 2. Add them\n**Answer: 18**", True, "lenient"), ("The answer is 36/2", True, "ok"), ("#### 18", True, "ok")],
)  # fmt: skip
def test_number(text, correct, status):
    """Numbers are compared exactly, units and separators aside."""
    assert grade(text, NUMBER, [])[::2] == (correct, status)


def test_free_text_and_truncation():
    """Free text folds case and spacing only; an answer cut off by the limit is truncated, not unparsed."""
    assert grade("The answer is ]  ].", TEXT, []).correct
    assert not grade("The answer is ].", TEXT, []).correct
    assert grade("Let me think about", CHOICE, ORDER, finished=False).status == "truncated"
    assert grade("Let me think. (A) says one thing whereas (C)", CHOICE, ORDER, finished=False) == (False, None, "truncated", None)
    assert grade("First 3 apples plus 18 gives", NUMBER, [], finished=False).status == "truncated"
    assert grade("The answer is (B). And then", CHOICE, ORDER, finished=False).status == "ok"


def test_repeated_options_and_several_golds():
    """An option that stands twice is not named by its text; with several golds any of them is right."""
    twice = Item("t/t", "1", "q", ("same", "same", "other"), (0,))
    assert grade("The answer is same.", twice, [0, 1, 2]).status == "unparsed"
    assert grade("The answer is (B).", twice, [0, 1, 2]).predicted == 1
    assert grade("The answer is (C).", Item("t/t", "1", "q", ("a", "b", "c"), (0, 2)), [0, 1, 2]).correct
