"""Read an answer out of generated text and grade it. Pure.

Rules have a version, which is part of a protocol's id: outcomes read by different rules never share a run. Change what
a rule reads: add a version, and keep the one before as long as outcomes read by it are around.
"""

from collections.abc import Sequence

from catalog.items import Item
from collect.extract.answers import Grade
from collect.protocols import Protocol

EXTRACTION = "2"  # the newest
VERSIONS = {
    "1": "the first: eight rules in a row, kept to read what was collected with it",
    "2": "stated answers before guesses; two answers, missing letters, thoughts, code, refusals and other languages are told apart",
}

__all__ = ["EXTRACTION", "VERSIONS", "Grade", "grade", "graded_text"]


def grade(
    text: str, item: Item, order: Sequence[int], letters: bool = True, finished: bool = True, version: str = EXTRACTION, match: str = "auto"
) -> Grade:
    """Read and grade one generated answer.

    Args:
        text: What was generated, stop string cut off.
        item: The item asked.
        order: Published option indices in the order shown; empty for free-form.
        letters: Whether options were shown with letters.
        finished: False when generation ended at the token limit.
        version: Of the rules.
        match: How a free answer is compared: 'auto', 'exact', 'numeric' (same_answer).

    Returns:
        Grade; nothing readable is wrong, with status 'unparsed', or 'truncated' where the limit cut the answer off.
    """
    if version == "1":
        from collect.extract import first

        return first.grade(text, item, order, letters, finished)
    from collect.extract import rules
    from collect.extract.options import shown

    return rules.grade(text, item, shown(item, order, letters), finished, match)


def graded_text(protocol: Protocol, item: Item, order: Sequence[int], text: str, finished: bool) -> Grade:
    """Read and grade an answer as its protocol says."""
    return grade(protocol.spoken(text), item, order, protocol.lettered, finished, protocol.extraction or EXTRACTION, protocol.match)
