r"""Version 1 of the rules: what the shipped answers were read with. It stays as it is; new rules go into rules.py."""

import re
from collections.abc import Callable, Sequence
from fractions import Fraction

from catalog.items import Item
from collect.extract.answers import Grade
from collect.extract.rules import boxed
from collect.protocols import LETTERS

NUMBER = r"[-\u2212]?[$\u00a3\u20ac]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:/\d+)?"
# (b), [B] with anything after it; a bare capital only at the end of a sentence or before its option's text, since A and I are words
LETTER = re.compile(r"(?i:the\s+)?(?i:option|letter|choice)?\s*(?:[(\[]([A-Za-z])[)\]]|([A-Z])(?=\s*(?:$|[.:;)\n*]|because\b)))")
LOOSE = ("last-line", "last-bracket", "last-number")  # read what any text holds: only of an answer that came to its end


def after_answer_is(text: str) -> list[str]:
    """What follows every 'the answer is' on its line."""
    return re.findall(r"(?i)\banswer is:?[ \t]*(?=([^\n]{1,1200}))", text)  # looking ahead: one line may hold several


def after_answer_colon(text: str) -> list[str]:
    """What follows every 'Answer:' or 'Correct answer:' that begins a line, asterisks of Markdown aside."""
    return re.findall(r"(?im)^[^\w\n]*(?:the )?(?:final |correct )?answer\W{0,3}:\W{0,3}?[ \t]*([^\n]+)", text)


def correct_option(text: str) -> list[str]:
    """The letter in 'B is the correct answer' and 'the correct option is B'."""
    before = re.findall(r"([(\[]?\b[A-Z]\b[)\]]?) is (?:the )?correct", text)
    return before + re.findall(r"(?i:correct (?:answer|option|choice) is:?)[ \t]*([^\n]+)", text)


def hashes(text: str) -> list[str]:
    """A number alone on a line after '####', as GSM8K ends; other such lines are headings."""
    return re.findall(r"(?m)^####[ \t]*(\S+)[ \t]*$", text)


def last_line(text: str) -> list[str]:
    """The last line that is not blank."""
    return [line for line in text.split("\n") if line.strip()][-1:]


def bracketed(text: str) -> list[str]:
    """Every single capital in parentheses."""
    return re.findall(r"\(([A-Z])\)", text)


def numbers(text: str) -> list[str]:
    """Every number."""
    return re.findall(rf"{NUMBER}", text)


# name, status of what it reads, how candidates are found; the last readable candidate of the first rule that has one
RULES: tuple[tuple[str, str, Callable[[str], list[str]]], ...] = (
    ("boxed", "ok", boxed),
    ("answer-is", "ok", after_answer_is),
    ("hashes", "ok", hashes),
    ("answer-colon", "lenient", after_answer_colon),
    ("correct-option", "lenient", correct_option),
    ("last-line", "lenient", last_line),
    ("last-bracket", "lenient", bracketed),
    ("last-number", "lenient", numbers),
)


def bare(text: str) -> str:
    r"""An answer without what decorates it: Markdown, quotes, LaTeX text, a list's dash, a final full stop."""
    text = re.sub(r"\\(?:text|textbf|mathbf|mathrm|boxed)\s*\{([^{}]*)\}", r"\1", text)
    return re.sub(r"^(?:- )?[\s*_`\"'$]+|^- |[\s*_`\"'$.]+$", "", text)


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
    """'$1,234.50', '-3', '1/2' as an exact number; None for anything else."""
    match = re.fullmatch(rf"({NUMBER})\s*%?", re.sub(r"^[\s*_`\"']+|[\s*_`\"'.]+$", "", text))
    try:
        return Fraction(re.sub(r"[$\u00a3\u20ac,]", "", match.group(1)).replace("\u2212", "-")) if match else None
    except (ValueError, ZeroDivisionError):  # more digits than Python reads
        return None


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
    """As collect.extract.grade, which says what is given and returned, by this version of the rules."""
    for name, status, find in RULES:
        if name in LOOSE and not finished:
            continue
        for candidate in reversed(find(text)):
            if item.choices:
                predicted = as_option(candidate, item, order, letters)
                if predicted is not None:
                    return Grade(predicted in item.gold, predicted, status, name)
            elif usable(name, head := candidate if name == "last-line" else stated_number(candidate, item), item):
                return Grade(any(same_answer(head, str(g)) for g in item.gold), None, status, name)
    return Grade(False, None, "unparsed" if finished else "truncated", None)


def stated_number(candidate: str, item: Item) -> str:
    """'40 + 2 = 42 apples.' as '42' where the gold is a number: the number after the last equals sign, else the first."""
    if all(as_number(str(g)) is not None for g in item.gold):
        match = re.search(NUMBER, candidate.rpartition("=")[2])
        return match.group(0).rstrip(",") if match else candidate
    return candidate
