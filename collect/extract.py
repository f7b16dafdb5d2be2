r"""Read an answer out of generated text: a table of named rules, tried in order, strict ones first. Pure.

The name of the rule that read an answer is stored with it. Change a rule: raise EXTRACTION, so that outcomes read by
different rules never share a protocol.
"""

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from catalog.items import Item
from collect.protocols import LETTERS

EXTRACTION = "1"
# (b), (B) with anything after it; a bare capital only where no word follows, since A and I are words
LETTER = re.compile(r"(?:option\s+)?(?:\(([A-Za-z])\)|([A-Z])(?=\s*(?:$|[.,:;)\n*-])))")


class Grade(NamedTuple):
    """What became of one answer. predicted: option index in published order, or None; correct: None is not measured."""

    correct: bool | None
    predicted: int | None
    status: str
    reason: str | None


def boxed(text: str) -> list[str]:
    r"""Contents of every \boxed{...}, braces balanced."""
    found = []
    for match in re.finditer(r"\\boxed\s*\{", text):
        depth, at = 1, match.end()
        while at < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        if not depth:
            found.append(text[match.end() : at - 1])
    return found


def after_answer_is(text: str) -> list[str]:
    """What follows every 'the answer is' on its line."""
    return re.findall(r"(?i)\banswer is:?[ \t]*(?=([^\n]+))", text)  # looking ahead: one line may hold several


def after_answer_colon(text: str) -> list[str]:
    """What follows every 'Answer:' on its line, asterisks of Markdown aside."""
    return re.findall(r"(?im)^\W*(?:final )?answer\W{0,3}:\W{0,3}?[ \t]*([^\n]+)", text)


def hashes(text: str) -> list[str]:
    """What follows every '####', as in GSM8K."""
    return re.findall(r"####\s*([^\n]+)", text)


def last_line(text: str) -> list[str]:
    """The last line that is not blank."""
    return [line for line in text.split("\n") if line.strip()][-1:]


def bracketed(text: str) -> list[str]:
    """Every single capital in parentheses."""
    return re.findall(r"\(([A-Z])\)", text)


def numbers(text: str) -> list[str]:
    """Every number."""
    return re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)


# name, status of what it reads, how candidates are found; the last readable candidate of the first rule that has one
RULES: tuple[tuple[str, str, Callable[[str], list[str]]], ...] = (
    ("boxed", "ok", boxed),
    ("answer-is", "ok", after_answer_is),
    ("hashes", "ok", hashes),
    ("answer-colon", "lenient", after_answer_colon),
    ("last-line", "lenient", last_line),
    ("last-bracket", "lenient", bracketed),
    ("last-number", "lenient", numbers),
)


def bare(text: str) -> str:
    """An answer without what decorates it: Markdown, quotes, a final full stop."""
    return re.sub(r"^[\s*_`\"'$]+|[\s*_`\"'$.]+$", "", text)


def as_option(candidate: str, item: Item, order: Sequence[int], letters: bool) -> int | None:
    """The published index a candidate names: by its letter, where letters were shown, or by its whole text."""
    text = bare(candidate)
    named = [o for o in order if bare(item.choices[o]) == text] or [o for o in order if bare(item.choices[o]).lower() == text.lower()]
    if len(named) == 1:
        return named[0]
    match = re.match(LETTER, text) if letters else None
    if match and (letter := (match.group(1) or match.group(2)).upper()) in LETTERS[: len(order)]:
        return order[LETTERS.index(letter)]
    return None


def as_number(text: str) -> Fraction | None:
    """'$1,234.50' as an exact number; None for anything else."""
    match = re.fullmatch(r"[$£€]?\s*(-?\d[\d,]*(?:\.\d+)?)\s*%?", bare(text))
    return Fraction(match.group(1).replace(",", "")) if match else None


def same_answer(candidate: str, gold: str) -> bool:
    """Equal as numbers, or as texts with case and inner spacing folded."""
    number, wanted = as_number(candidate), as_number(gold)
    if number is not None and wanted is not None:
        return number == wanted
    return " ".join(bare(candidate).lower().split()) == " ".join(bare(gold).lower().split())


def usable(name: str, candidate: str, item: Item) -> bool:
    """Whether a candidate of a free-form item can be its answer: a number where the gold is one, loose rules short."""
    if all(as_number(str(g)) is not None for g in item.gold):
        return as_number(candidate) is not None
    return bool(bare(candidate)) and name not in ("last-bracket", "last-number") and (name != "last-line" or len(candidate) <= 60)


def grade(text: str, item: Item, order: Sequence[int], letters: bool = True, finished: bool = True) -> Grade:
    """Read and grade one generated answer.

    Args:
        text: What was generated, stop string cut off.
        item: The item asked.
        order: Published option indices in the order shown; empty for free-form.
        letters: Whether options were shown with letters.
        finished: False when generation ended at the token limit.

    Returns:
        Grade; nothing readable is wrong, with status 'unparsed', or 'truncated' where the limit cut the answer off.
    """
    for name, status, find in RULES:
        for candidate in reversed(find(text)):
            if item.choices:
                predicted = as_option(candidate, item, order, letters)
                if predicted is not None:
                    return Grade(predicted in item.gold, predicted, status, name)
            elif usable(name, head := candidate if name == "last-line" else first_number(candidate, item), item):
                return Grade(any(same_answer(head, str(g)) for g in item.gold), None, status, name)
    return Grade(False, None, "unparsed" if finished else "truncated", None)


def first_number(candidate: str, item: Item) -> str:
    """'5 apples.' as '5' where the gold is a number: units and words after it are no part of the answer."""
    if all(as_number(str(g)) is not None for g in item.gold):
        match = re.match(r"\W*?[$£€]?\s*(-?\d[\d,]*(?:\.\d+)?)", candidate)
        return match.group(1).rstrip(",") if match else candidate
    return candidate
