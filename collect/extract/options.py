"""Which option a short text names: by its letter, by its text, by its number. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from catalog.items import Item
from collect.extract.answers import as_number, bare, folded
from collect.protocols import LETTERS

TWO, OUTSIDE = "two answers", "no such letter"
PLACEHOLDER = "X"  # our own prompt says 'Answer: X'; a model that repeats it has not answered
CLOSED = r"[(\[（【{]\s*([A-Za-z])\s*[)\]）】}]"
# a bare capital is a letter where a sentence ends or its reason begins; A and I are English words too
STOP = r"[.,](?:\s|$)|[:;)\]!?*—–。，、：；）]|[-\u2013]\s|[\u0590-\uffee]"
ENDED = rf"(?=\s*(?:$|{STOP})|\s+(?:because|since|as|for|due|which|where|weil|car|porque|is|was)\b)"
BARE = rf"([A-Z]){ENDED}|([B-HJ-Z])(?=\s+[a-z])|([a-z])(?=[):]|\.(?:\s|$)|$)"
LEAD = re.compile(
    r"(?i:(?:(?:the|it|that|this|is|be|my|final|correct|right|best|most likely|answer|option|choice|letter|letra|buchstabe|lettre|"
    r"la|le|el|die|der|das|opción|opção|opzione|вариант|选项|選択肢)\b|[:：])\s*)*"
)
LABEL = re.compile(rf"(?:{CLOSED}|{BARE})")
NUMBERED = re.compile(r"[(\[]?(?:[A-Za-z]|\d{1,2})[)\].:]\s+")  # 'B) Rome' where no letters were shown
JOINED = r"\s*(?:,|/|&|\+|\b(?:and|or|und|oder|et|ou|y|o|e|и|или)\b|和|或|と)\s*"
PAIR = re.compile(
    rf"(?:(?i:both|either)\s+)?(?:{CLOSED}|([A-Z])){JOINED}(?:{CLOSED}|([A-Z])(?=\s*(?:$|[.,;:)!?*]|\b(?:and|or|are|both)\b)))"
)
WIDE = str.maketrans({chr(0xFF21 + i): LETTERS[i] for i in range(26)})  # full-width capitals


@dataclass(frozen=True)
class Options:
    """An item's options as they were shown. order: published indices; lettered: whether they had letters."""

    texts: tuple[str, ...]
    order: tuple[int, ...]
    lettered: bool

    def by_letter(self, letter: str) -> int | None:
        """The published index of a letter, or None where there is no such option."""
        at = LETTERS.find(letter.upper())
        return self.order[at] if self.lettered and 0 <= at < len(self.order) else None

    def by_text(self, text: str) -> int | None:
        """The one option that has this text: to the letter, else with case folded, else as a number."""
        number = as_number(text)
        for same in (
            [o for o in self.order if bare(self.texts[o]) == bare(text)],
            [o for o in self.order if folded(self.texts[o]) == folded(text)],
            [o for o in self.order if number is not None and as_number(self.texts[o]) == number],
        ):
            if same:
                return same[0] if len(same) == 1 and bare(text) else None
        return None

    def by_beginning(self, text: str) -> int | str | None:
        """The longest option that a text begins with ('Rome, since ...'), or TWO where another one follows it ('Rome or Paris')."""
        low = folded(text)
        begun = [(len(folded(self.texts[o])), o) for o in self.order if begins(low, folded(self.texts[o]))]
        longest = [o for size, o in begun if size == max(begun)[0]]
        if len(longest) != 1:
            return None
        rest = re.match(JOINED, low[max(begun)[0] :])
        follows = low[max(begun)[0] + rest.end() :] if rest else ""
        others = [o for o in self.order if o != longest[0] and follows and begins(follows, folded(self.texts[o]))]
        return TWO if others else longest[0]


def begins(text: str, option: str) -> bool:
    """Whether a text begins with an option and not with a longer word or number."""
    return bool(option) and text.startswith(option) and not re.match(r"\w|[.,]\d|[-'’]\w", text[len(option) :])


def shown(item: Item, order: Sequence[int], letters: bool) -> Options:
    """An item's options in the order shown."""
    return Options(item.choices, tuple(order), letters)


def option_of(candidate: str, options: Options, whole: bool = False) -> int | str | None:
    """What a candidate names.

    Args:
        candidate: Short text, one line.
        options: As shown.
        whole: The candidate must be the letter or the option and nothing else.

    Returns:
        The published index; TWO or OUTSIDE where it is an answer that cannot be taken; None where it is no answer.
    """
    text = bare(candidate).translate(WIDE)
    for told in dict.fromkeys((text, bare(text[LEAD.match(text).end() :]) if LEAD.match(text) else text)):  # type: ignore[union-attr]
        found = told_option(told, options, whole)
        if found is not None:
            return found
    return None


def told_option(text: str, options: Options, whole: bool) -> int | str | None:
    """What a candidate without decoration names."""
    alone = re.fullmatch(rf"(?:{CLOSED}|([A-Za-z]))[).:]?", text)
    if alone and (at := options.by_letter(alone.group(1) or alone.group(2))) is not None:
        return at
    for told in (text, re.sub(r"(?i)^(?:the|an?)\s+", "", text)):
        if (at := options.by_text(told)) is not None:
            return at
    if not options.lettered:
        unnumbered = NUMBERED.sub("", text, count=1) if NUMBERED.match(text) else text
        return options.by_text(unnumbered) if whole or unnumbered != text else options.by_beginning(text)
    named = letter_of(text, options, whole)
    if whole or not (named is None or named == OUTSIDE):
        return named
    begun = options.by_beginning(text)  # 'T cells, because ...' begins like a letter
    return begun if begun is not None else named


def letter_of(text: str, options: Options, whole: bool) -> int | str | None:
    """What a text's first letter names, where it begins with one; the letter counts, whichever option's text follows it."""
    both = PAIR.fullmatch(text) if whole else PAIR.match(text)
    if both:
        first, second = [group for group in both.groups() if group]
        if {options.by_letter(first), options.by_letter(second)} - {None} and first.upper() != second.upper():
            return TWO
    label = LABEL.match(text)
    letter = next((group for group in label.groups() if group), None) if label else None
    if label is None or letter is None:
        return None
    at, rest = options.by_letter(letter), text[label.end() :].lstrip(" ).:]-\u2013*")
    if whole and rest and options.by_text(rest) is None:
        return None
    return (None if letter == PLACEHOLDER else OUTSIDE) if at is None else at
