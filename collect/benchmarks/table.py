"""What a benchmark's file says, and the ways its columns hold question, options and gold."""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]
Gold = int | list[int] | None  # option index, several, or none that is an option
Options = Callable[[Row], list[str]]


@dataclass(frozen=True)
class Task:
    """One task: `subset` is the second half of its task_id.

    category: in our own map; where arXiv 2510.17776 sorts the task, the same as there.
    configs: configurations of the Hub dataset that hold its rows; none means the dataset has only one.
    files: Parquet files of the split instead, where the configurations are made by code that `datasets` does not run.
    """

    subset: str
    category: str
    configs: tuple[str, ...] = ("",)
    split: str = "test"
    files: str | None = None


@dataclass(frozen=True)
class Columns:
    """How one row of the Hub dataset becomes an item.

    question: template over the columns, joined as published. options: none makes the item free-form, `answer` its gold.
    item_id: the column that holds an id of its own; without it the row's number counts from 0.
    """

    question: str | Callable[[Row], str]
    options: Options | None = None
    gold: Callable[[Row], Gold] | None = None
    answer: Callable[[Row], str] | None = None
    item_id: str | None = None

    def item(self, row: Row) -> dict[str, Any]:
        """The row in the shape of a line of items: question, choices, answer_index, answer."""
        question = self.question.format(**row) if isinstance(self.question, str) else self.question(row)
        return {
            "question": question,
            "choices": self.options(row) if self.options else [],
            "answer_index": self.gold(row) if self.gold else None,
            "answer": self.answer(row) if self.answer else None,
        }


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: where it lies, what it is, how it is read.

    revision: commit of the Hub dataset; None: not known for certain, so the newest of `branch` is looked up at first use,
        said, and recorded with the runs.
    permutation_seed: set where the gold stands at one place as published: listed options are then shown in the order of
        protocols.option_order, by item and replicate; recorded in `itemsets`.
    several: an item may have more than one gold: 1/k is no model of chance, even for those that have one.
    examples_split: rows of this split are shown solved before those of the same task and never asked.
    refused: subset -> id -> why the item cannot be asked.
    """

    name: str
    hub: str
    revision: str | None
    licence: str
    paper: str
    columns: Columns
    tasks: tuple[Task, ...]
    branch: str = "main"
    permutation_seed: int | None = None
    several: bool = False
    examples_split: str | None = None
    refused: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def task_id(self, task: Task) -> str:
        """The task's canonical name."""
        return f"{self.name}/{task.subset}"


def at(path: str) -> Callable[[Row], Any]:
    """The value of a column; 'choices.text' is the field text of the struct choices."""

    def find(row: Row) -> Any:
        value: Any = row
        for name in path.split("."):
            value = value[name]
        return value

    return find


def listed(path: str) -> Options:
    """Options in one column that holds a list."""
    return lambda row: list(at(path)(row))


def literal(path: str) -> Options:
    """Options in one column that holds a Python list as text."""
    return lambda row: list(ast.literal_eval(row[path]))


def each(*paths: str) -> Options:
    """Options in a column each."""
    return lambda row: [at(path)(row) for path in paths]


def fixed(*options: str) -> Options:
    """The same options in every row."""
    return lambda row: list(options)


def between(path: str, *marks: str) -> Options:
    """Options in one text, each behind its mark, in the marks' order; a mark that is missing gives no option."""

    def split(row: Row) -> list[str]:
        text, options, start = row[path], [], 0
        for mark, following in zip(marks, (*marks[1:], None), strict=True):
            begin = text.find(mark, start)
            if begin < 0:
                continue
            start = begin + len(mark)
            end = text.find(following, start) if following else -1
            options.append(text[start : end if end >= 0 else None].strip().rstrip(";,").strip())
        return options

    return split


def number(path: str, first: int = 0) -> Callable[[Row], Gold]:
    """Gold by its number, counted from `first`; an empty label is none."""
    return lambda row: int(row[path]) - first if str(row[path]).strip().isdigit() else None


def letter(path: str) -> Callable[[Row], Gold]:
    """Gold by its letter, in either case."""
    return lambda row: "ABCDEFGHIJKLMNOPQRSTUVWXYZ".index(row[path].strip().upper())


def letters(path: str) -> Callable[[Row], Gold]:
    """Golds by their letters, side by side: 'BC'."""
    return lambda row: ["ABCDEFGHIJKLMNOPQRSTUVWXYZ".index(mark) for mark in row[path].upper() if mark.isalpha()]


def label_among(path: str, labels: str) -> Callable[[Row], Gold]:
    """Gold by its label among the labels of the options, which are letters in one row and digits in the next."""

    def find(row: Row) -> Gold:
        names: Sequence[str] = at(labels)(row)
        return names.index(row[path]) if row[path] in names else None

    return find


def flagged(path: str) -> Callable[[Row], Gold]:
    """Gold by a list of flags beside the options."""

    def find(row: Row) -> Gold:
        found = [n for n, flag in enumerate(at(path)(row)) if flag]
        return found[0] if len(found) == 1 else None

    return find


def always(index: int) -> Callable[[Row], Gold]:
    """Gold at the same place in every row."""
    return lambda row: index
