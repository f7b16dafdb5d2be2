"""Values of logs: what counts as right, wrong or not measured, and which option a gold or an answer names."""

import ast
import contextlib
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.errors import CatalogError
from catalog.identity import tidy

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# names under which harnesses log right-or-wrong; others (f1, missing, mcc ...) are taken only when asked for
CORRECTNESS = re.compile(
    r"(?:^|[^a-z])(?:acc|accuracy|em|match|correct(?!_(?:answer|option|index|choice|label))|pass|passed|mc1)(?:$|[^a-z])", re.IGNORECASE
)
MISSING = ("", "none", "null", "nan", "n/a", "inf", "-inf", "infinity", "-infinity")


@dataclass(frozen=True)
class Metric:
    """A metric asked for, and from which value on an answer counts as right; without a bound it must be 0 or 1."""

    name: str
    sign: str = ""
    bound: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "Metric":
        """'acc', 'exact_match,strict-match', 'f1>=0.5', 'edit_distance<=2'."""
        found = re.fullmatch(r"\s*([^<>]+?)\s*(?:(>=|<=)\s*(\S+))?\s*", text)
        try:
            if found:
                return cls(found[1], found[2] or "", float(found[3]) if found[3] else 1.0)
        except ValueError:
            pass
        raise CatalogError(f"--metric {text!r}: wanted a name, or a name and a threshold as in 'f1>=0.5'")

    def fits(self, metric: str) -> bool:
        """Whether a log's metric is meant: by its whole name, or by the name before its filter."""
        return self.name in (metric, metric.split(",", maxsplit=1)[0])


@dataclass(frozen=True)
class Mark:
    """One value of a metric: a number, or why there is none. `odd`: it is neither a number nor a missing one."""

    number: float | None
    missing: str | None = None
    odd: str | None = None


def mark_of(value: Any) -> Mark:
    """Read a logged value as what it is: booleans, numbers, and their strings; NaN, Infinity and None are not measured."""
    if value is None:
        return Mark(None, missing="null")
    if isinstance(value, bool | int | float):
        return Mark(float(value)) if math.isfinite(value) else Mark(None, missing=str(value))
    if isinstance(value, str):
        text = value.strip().lower()
        if text in MISSING:
            return Mark(None, missing=value.strip() or "empty")
        if text in ("true", "false"):
            return Mark(float(text == "true"))
        try:
            return mark_of(float(text))
        except ValueError:
            pass
    return Mark(None, odd=f"{value!r:.40}")


def encodable(text: str | None) -> str | None:
    """The text with halves of characters (lone surrogates, which JSON allows) replaced, so that it can be stored."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-8", "replace").decode() if any("\ud800" <= c <= "\udfff" for c in text) else text


def whole(value: Any) -> int | None:
    """An integer, or its string; None otherwise."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,18}(?:\.0+)?\s*", value):
        return int(float(value)) if "." in value else int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and abs(value) < 2**63 else None


def listed(value: Any) -> Any:
    """A list, which some logs hold as its JSON or Python text; anything else as it is."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        for parse in (json.loads, ast.literal_eval):
            with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                found = parse(value.strip())
                return found if isinstance(found, list) else value
    return list(value) if isinstance(value, tuple) else value


def option_named(value: Any, options: Sequence[str], index: bool = True) -> int | None:
    """Which option a gold or an answer names: by its text, its letter or its index; None if none or two differ.

    Args:
        index: Whether a number is an index; not in what a model wrote, which counts from anywhere.
    """
    if not isinstance(value, str):
        at = whole(value) if index else None
        return at if at is not None and 0 <= at < len(options) else None
    text = tidy(value)
    named = {at for at, option in enumerate(options) if tidy(option) == text}
    letter = re.fullmatch(r"\(?([A-Z])\)?\.?", text) or (None if named else re.fullmatch(r"\(?([a-z])\)?\.?", text))
    if letter and LETTERS.index(letter[1].upper()) < len(options):
        named.add(LETTERS.index(letter[1].upper()))
    if not named and index and (at := whole(text)) is not None and at < len(options):
        named.add(at)
    return named.pop() if len(named) == 1 else None


def gold_indices(golds: Any, options: Sequence[str]) -> list[int] | None:
    """The options a gold names; None if one of them is no option."""
    found = [option_named(gold, options) for gold in (golds if isinstance(golds, list | tuple) else [golds])]
    return sorted({g for g in found if g is not None}) if found and None not in found else None


def best(scores: Sequence[float]) -> int | None:
    """The option with the highest score, the first of equal ones; None if a score is not a number."""
    return None if not scores or any(math.isnan(s) for s in scores) else max(range(len(scores)), key=scores.__getitem__)


LONG_GOLD = 80  # an accepted answer; longer ones are worked solutions or rubrics, which are the benchmark's text


def stored_gold(gold: str) -> str:
    """A free-form gold as the catalog keeps it: the final answer behind '####', and of a long text only its hash."""
    answer = gold.rsplit("####", 1)[-1].strip()
    return answer if len(answer) <= LONG_GOLD else f"sha256:{short_hash(answer)}"


def short_hash(text: Any) -> str | None:
    """12 hex digits for a text, so that two templates are told apart without repeating them."""
    return hashlib.sha256(str(text).encode("utf-8", "surrogatepass")).hexdigest()[:12] if text is not None else None


def without_secrets(text: str) -> str:
    """An error's first line, without keys, addresses and paths, at most 120 characters."""
    line = (text.strip().splitlines() or [""])[0]
    line = re.sub(r"\b(?:sk|hf|gsk|xai|pk|ghp|key)[-_][\w-]{3,}", "<key>", line)
    line = re.sub(r"(?i)bearer\s+\S+", "Bearer <key>", line)
    line = re.sub(r"[\w.+-]+@[\w-]+\.[\w.]+", "<address>", line)
    return re.sub(r"(?:[A-Za-z]:\\|~?/)[\w.~-]+(?:[/\\][^\s'\"]*)+", "<path>", line)[:120]


def at_path(row: Mapping[str, Any], path: str) -> Any:
    """The value of a column, or of a dotted path into it."""
    if path in row:
        return row[path]
    value: Any = row
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
