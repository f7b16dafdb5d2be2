r"""What an answer is once it is found: a number, a text, and what became of it. Pure.

Numbers are compared exactly, as fractions: '$29.00' is 29, '1,234' is 1234, '1/2' is .5, '2,5' is 2.5 (a comma before
other than three digits is a decimal comma).
"""

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

DIGITS = 60  # of a number; more is babble, and slow to compare
NUMBER = r"[$£€]?[-\u2212+]?[$£€]?(?:\d+(?:[.,]\d+)*|\.\d+)(?:[eE][-+]?\d{1,2}(?!\d))?(?:/\d+)?"
THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
POINTS = re.compile(r"\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?")  # 1.234.567,8; a single point is a decimal point
DRESS = " \t\r\n\v\f\u00a0*_`\"'“”‘’«»「」$"  # Markdown, quotes, dollar signs around an answer
ENDS = DRESS + ".。．｡"


class Grade(NamedTuple):
    """What became of one answer. predicted: option index in published order, or None; correct: None is not measured.

    reason: the rule that read the answer, or why none did.
    """

    correct: bool | None
    predicted: int | None
    status: str
    reason: str | None


def plain(text: str) -> str:
    r"""A short text without LaTeX: '\text{B}' is 'B', '\frac{1}{2}' is '1/2', '1{,}000' is '1,000', '\$5' is '$5'."""
    if "\\" not in text and "{,}" not in text:
        return text
    text = re.sub(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r"\1/\2", text)
    for _ in range(3):  # \boxed{\text{B}}
        text = re.sub(r"\\(?:text|textbf|textit|mathbf|mathrm|mathit|boxed|fbox)\s*\{([^{}]*)\}", r"\1", text)
    return re.sub(r"\\([$%&#_{}])", r"\1", re.sub(r"\\[,!;: ]|\\[()\[\]]", "", text.replace("{,}", ",")))


def bare(text: str) -> str:
    """An answer without what decorates it: LaTeX, Markdown, quotes, a list's dash, a final full stop."""
    text = plain(text).lstrip(DRESS)
    for dash in ("- ", "• ", "> "):
        text = text.removeprefix(dash)
    return text.lstrip(DRESS).rstrip(ENDS)


def folded(text: str) -> str:
    """For comparing texts: case and inner spacing do not count."""
    return " ".join(bare(text).casefold().split())


def value_of(number: str) -> Fraction | None:
    """The value of a text that fits NUMBER."""
    text = re.sub(r"[$£€+]", "", number).replace("\u2212", "-")
    if len(text) > DIGITS:
        return None
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    amount, _, divisor = digits.partition("/")
    separator = "," if THOUSANDS.fullmatch(amount) else "." if POINTS.fullmatch(amount) else None
    if separator:
        amount = amount.replace(separator, "")
    try:
        return sign * Fraction(amount.replace(",", ".")) / (int(divisor) if divisor else 1)
    except (ValueError, ZeroDivisionError):  # 1.2.3, 1/0
        return None


def as_number(text: str) -> Fraction | None:
    """'$1,234.50', '-3', '1/2', '29 %' as an exact number; None for anything else."""
    dressed = plain(text).strip(" \t\r\n*_`\"'“”").rstrip(".。 *_`")
    match = re.fullmatch(rf"({NUMBER})\s*[%$£€]?", dressed.strip("$") if dressed.endswith("$") else dressed)
    return value_of(match.group(1)) if match else None


def numeric(gold: Sequence[int | str]) -> bool:
    """Whether every accepted answer is a number."""
    return all(as_number(str(g)) is not None for g in gold)


def stated_number(candidate: str) -> str | None:
    """'40 + 2 = 42 apples.' as '42': the number after the last equals sign, else the first; of '3 or 4' none: both."""
    text = plain(candidate)
    after = re.search(NUMBER, text.rpartition("=")[2]) or re.search(NUMBER, text)
    if after is None:
        return None
    both = re.match(rf"\s*(?:or|oder|ou|o)\s+({NUMBER})", after.string[after.end() :])
    return f"{after.group(0)} or {both.group(1)}" if both else after.group(0)


def same_answer(candidate: str, gold: str, match: str = "auto") -> bool:
    """Equal to an accepted answer.

    match: 'auto' compares numbers where both are, else texts with case and inner spacing folded; 'numeric' numbers only;
    'exact' texts character by character, decoration around them aside.
    """
    if match == "exact":
        return bare(candidate) == bare(gold)
    number, wanted = as_number(candidate), as_number(gold)
    if match == "numeric" or (number is not None and wanted is not None):
        return number is not None and number == wanted
    if folded(candidate) == folded(gold):
        return True
    reasons = re.split(r",?\s+(?:because|since|weil|parce que|porque)\b|[.;]\s", candidate, maxsplit=1)
    return len(reasons) > 1 and folded(reasons[0]) == folded(gold)
