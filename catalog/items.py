"""Benchmark items in JSON Lines: read, checked, named and keyed.

One object a line: task, subset, item_id, question, choices, answer_index, answer, and optionally source, licence,
category. `choices` empty means free-form (the gold is `answer`); `answer_index` a list means several golds.
`"example": true` marks an item that is shown solved before others of its task and never asked (a benchmark's dev split);
`reasoning` is then the thought that leads to its answer.
"""

import fnmatch
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catalog.errors import CatalogError
from catalog.identity import itemset_id_of, qog_key, with_occurrences

SPLIT = re.compile(r"(?:^|_)(?:xl_)?(validation|test|train|dev)?(?:_?sample\d*)?$")


@dataclass(frozen=True)
class Item:
    """One question as published. `gold` holds option indices, or the accepted texts of a free-form item.

    several: its task asks for one or more options, so that it is 'multi' even with one gold. permutation_seed: its task's
    options are shown in the order of protocols.option_order, for its gold stands at one place as published.
    """

    task_id: str
    source_id: str
    question: str
    choices: tuple[str, ...]
    gold: tuple[int | str, ...]
    where: str = ""
    category: str | None = None
    source: str | None = None
    split: str | None = None
    example: bool = False
    reasoning: str | None = None
    source_revision: str | None = None
    permutation_seed: int | None = None
    several: bool = False

    @property
    def answer(self) -> str:
        """'free', 'choice' or 'multi', as in samples.answer."""
        return "free" if not self.choices else "multi" if self.several or len(self.gold) > 1 else "choice"

    @property
    def key(self) -> str:
        """The item's qog key, without its occurrence."""
        return qog_key(self.question, self.choices, self.gold)


@dataclass(frozen=True)
class Itemset:
    """The items of one task in one order, with their sample_keys; `itemset_id` names exactly this list.

    examples: the task's own solved examples, none of which is asked; no part of the identity.
    """

    task_id: str
    items: tuple[Item, ...]
    keys: tuple[str, ...] = field(repr=False)
    examples: tuple[Item, ...] = field(default=(), repr=False)

    @property
    def itemset_id(self) -> str:
        """Hash of the task and the sample_keys in order."""
        return itemset_id_of(self.task_id, self.keys)


def canonical_task(task: str, subset: str) -> tuple[str, str | None]:
    """('piqa', 'xl_validation_sample1000') -> ('piqa/main', 'validation'): the split is no part of a task's name."""
    found = SPLIT.search(subset)
    split, rest = (found.group(1), subset[: found.start()]) if found else (None, subset)
    if task == "mctest" and rest in ("mc160", "mc500"):
        rest = ""
    return f"{task}/{rest or 'main'}", split


def fits(task_id: str, pattern: str) -> bool:
    """Whether a task is meant: 'mmlu' (a benchmark), 'bbh/navigate', 'mmlu/high_school_*', '*'."""
    return fnmatch.fnmatchcase(task_id, pattern if "/" in pattern or pattern == "*" else f"{pattern}/*")


def item_files(paths: Iterable[str | Path]) -> list[Path]:
    """All .jsonl files named or lying under the named folders, sorted.

    Raises:
        CatalogError: A path does not exist, or a folder holds no .jsonl file.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise CatalogError(f"no items at {path}: wanted a .jsonl file or a folder of them. Give one with --items PATH")
        found = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
        if not found:
            raise CatalogError(f"{path} holds no .jsonl file: wanted one JSON object a line (docs/collecting.md)")
        files += found
    return files


def read_lines(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every line of a JSON Lines file as ('file:line', object); only LF ends a line (text may hold U+2028).

    Raises:
        CatalogError: A line is not JSON or not an object, or the file has no line.
    """
    found = False
    with file.open("rb") as lines:  # bytes: only LF ends a line
        for n, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.decode("utf-8-sig" if n == 1 else "utf-8"))
            except UnicodeDecodeError as error:
                raise CatalogError(f"{file}:{n}: not UTF-8 (byte {error.start} of the line): save the file as UTF-8") from error
            except json.JSONDecodeError as error:
                raise CatalogError(f"{file}:{n}: not JSON ({error.msg} at column {error.colno}): {line.decode()[:60].strip()}") from error
            if not isinstance(row, dict):
                raise CatalogError(f"{file}:{n}: wanted one JSON object, found a {type(row).__name__}")
            found = True
            yield f"{file}:{n}", row
    if not found:
        raise CatalogError(f"{file} is empty: wanted one JSON object a line (docs/collecting.md)")


def parse_item(where: str, row: dict[str, Any]) -> Item:
    """One checked item from one line.

    Raises:
        CatalogError: A field is missing or of the wrong type, k < 2, or the gold is not one of the options; the
            message starts with file:line and names the item.
    """
    task, subset, item_id = ("" if row.get(name) is None else str(row[name]) for name in ("task", "subset", "item_id"))
    here = f"{where}: item {item_id or '?'} of {task or '?'}/{subset}"
    missing = [
        name for name, value in (("task", task), ("item_id", item_id), ("question", row.get("question"))) if not str(value or "").strip()
    ]
    if missing:
        raise CatalogError(f"{here}: no {', '.join(missing)}")
    if wrong := [name for name in ("question", "category", "source", "reasoning") if not isinstance(row.get(name) or "", str)]:
        raise CatalogError(f"{here}: {', '.join(wrong)} must be text")
    if not all(encodable(text) for text in (row["question"], *(c for c in row.get("choices") or [] if isinstance(c, str)))):
        raise CatalogError(f"{here}: holds half a Unicode character (a lone surrogate): its text is damaged")
    choices = row.get("choices") or []
    if not isinstance(choices, list) or not all(isinstance(c, str) for c in choices):
        raise CatalogError(f"{here}: choices must be a list of texts, found {choices!r:.60}")
    task_id, split = canonical_task(task, subset)
    gold = free_gold(here, row) if not choices else choice_gold(here, row, len(choices))
    if not isinstance(row.get("example", False), bool):
        raise CatalogError(f"{here}: example must be true or false, found {row['example']!r:.60}")
    described = (row.get("category"), row.get("source"), split, row.get("example", False), row.get("reasoning"))
    return Item(task_id, item_id, str(row["question"]), tuple(choices), gold, where, *described)


def free_gold(here: str, row: dict[str, Any]) -> tuple[str, ...]:
    """The accepted answer texts of a free-form item."""
    answers = row.get("answer")
    texts = tuple(str(a) for a in (answers if isinstance(answers, list) else [answers]) if a not in (None, ""))
    if not texts:
        raise CatalogError(f"{here}: no choices and no answer: a free-form item needs its answer")
    return texts


def choice_gold(here: str, row: dict[str, Any], k: int) -> tuple[int, ...]:
    """The gold option indices of a multiple-choice item of k options."""
    index = row.get("answer_index")
    gold = tuple(index) if isinstance(index, list) else (index,)
    if k < 2:
        raise CatalogError(f"{here}: {k} option; a choice needs at least 2")
    if not gold or not all(isinstance(g, int) and not isinstance(g, bool) and 0 <= g < k for g in gold):
        raise CatalogError(f"{here}: answer_index {index!r} is not one of its {k} options (0 to {k - 1})")
    return tuple(sorted(set(gold)))


def encodable(text: str) -> bool:
    """Whether a text is whole Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_items(paths: Iterable[str | Path], skip_bad: bool = False, tasks: Iterable[str] = ()) -> tuple[list[Item], list[str]]:
    """Every item of the given files and folders, and what was left out.

    Args:
        paths: .jsonl files or folders.
        skip_bad: Leave out items that cannot be asked or graded instead of refusing them all.
        tasks: Only these: 'arc' (a benchmark), 'bbh/navigate', 'mmlu/high_school_*'; none means all.

    Returns:
        The items in file order, and one line for each item left out.

    Raises:
        CatalogError: Files are missing, empty or not JSON; no task fits; or, without skip_bad, items are bad: all are listed.
    """
    patterns = list(tasks)
    items, bad, seen, fitted, names = [], [], dict[tuple[str, str, bool], str](), set[str](), set[str]()
    for file in item_files(paths):
        for where, row in read_lines(file):
            name = canonical_task(str(row.get("task") or "?"), str(row.get("subset") or ""))[0]
            names.add(name)
            meant = {pattern for pattern in patterns if fits(name, pattern)}
            fitted |= meant
            if patterns and not meant:
                continue
            try:
                item = parse_item(where, row)
            except CatalogError as error:
                bad.append(str(error))
                continue
            first = seen.setdefault((item.task_id, item.source_id, item.example), where)
            if first != where:
                bad.append(f"{where}: item {item.source_id} of {item.task_id} was there before, at {first}")
            else:
                items.append(item)
    if unmatched := [pattern for pattern in patterns if pattern not in fitted]:
        raise CatalogError(f"no task fits {', '.join(unmatched)}; the items have {', '.join(sorted(names))}")
    if bad and not skip_bad:
        shown = "\n  ".join(bad[:20]) + (f"\n  and {len(bad) - 20} more" if len(bad) > 20 else "")
        raise CatalogError(f"{len(bad)} items cannot be used:\n  {shown}\nMend them, or leave them out with --skip-bad")
    return items, bad


def itemsets(items: Iterable[Item], limit: int | None = None) -> list[Itemset]:
    """Items grouped by task, in file order; with a limit, those whose sample_keys sort first.

    The limit draws by key, not by position: every model gets the same items, a larger limit contains a smaller one,
    and a file sorted by topic is not cut to its first topic. Examples are not asked; one that is asked is no example.
    """
    by_task: dict[str, list[Item]] = {}
    examples: dict[str, list[Item]] = {}
    for item in items:
        (examples if item.example else by_task).setdefault(item.task_id, []).append(item)
    sets = []
    for task_id, group in sorted(by_task.items()):
        keys = with_occurrences(item.key for item in group)
        kept = sorted(sorted(range(len(group)), key=keys.__getitem__)[:limit])
        asked = {item.key for item in group}
        shown = tuple(item for item in examples.get(task_id, ()) if item.key not in asked)
        sets.append(Itemset(task_id, tuple(group[i] for i in kept), tuple(keys[i] for i in kept), shown))
    return sets
