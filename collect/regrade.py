"""Read kept generations again with other rules: outcomes anew, no model asked.

A run read by other rules is another run: its protocol holds the version of the rules. Its file is whole before the old
one goes, so that a kill at any moment leaves every answer graded at least once; the same command ends the work.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from catalog.errors import CatalogError
from catalog.identity import run_id_of
from catalog.items import Item, itemsets, read_items
from collect.extract import VERSIONS, graded_text
from collect.extract.first import LOOSE
from collect.extract.options import OUTSIDE, TWO
from collect.protocols import Protocol, option_order
from collect.store import read_card, run_file, write_run

COLUMNS = ["setting", "from_status", "to_status", "n", "n_now_right", "n_now_wrong", "n_other_answer"]
GUESSES = LOOSE  # both versions guess by the same rules
Row = dict[str, Any]


@dataclass(frozen=True)
class Kept:
    """A run whose texts are there. card: what its file says of it; keys: sample_keys of its items."""

    card: dict[str, Any]
    keys: tuple[str, ...]
    outcomes: list[Row]
    texts: list[str]

    @property
    def run(self) -> Row:
        """Its row of `runs`."""
        row: Row = self.card["runs"][0]
        return row

    @property
    def protocol(self) -> Protocol:
        """How it was asked."""
        row = {k: v for k, v in self.card["protocols"][0].items() if k != "protocol_id"}
        return Protocol(**{**row, "stop": tuple(row["stop"]) if row["stop"] else None})

    @property
    def task_id(self) -> str:
        """Its task."""
        return str(self.card["itemsets"][0]["task_id"])


def kept_runs(runs: Path) -> tuple[list[Path], Counter[str]]:
    """Files of runs that can be read again, and why others cannot, counted.

    Raises:
        CatalogError: The folder holds no single runs.
    """
    able, why = [], Counter[str]()
    for path in sorted(runs.glob("outcomes/*/*.parquet")):
        card = read_card(path)
        if len(card.get("runs", [])) != 1:
            why["files hold many runs (compacted): their texts are in the folder they were compacted from"] += 1
        elif card["runs"][0]["source"] != "collect run":
            why["runs were imported: what was shown to the model is not known"] += 1
        elif card["protocols"][0]["decoding"] == "scored":
            why["runs by option scoring have no text to read"] += 1
        elif not text_file(runs, card).exists():
            why["runs come without their texts"] += 1
        else:
            able.append(path)
    if not able:
        raise CatalogError(
            f"no generated text to read again in {runs}: wanted a folder that collect run wrote with a generating protocol; found "
            + ("; ".join(f"{n} {reason}" for reason, n in why.items()) or "no run")
        )
    return able, why


def text_file(runs: Path, card: Row) -> Path:
    """Where a run's texts lie."""
    return run_file(runs, "generations", card["runs"][0]["model_id"], card["runs"][0]["run_id"])


def read_run(runs: Path, path: Path) -> Kept:
    """A run with its texts and keys, in the order of its items."""
    card = read_card(path)
    samples = pq.read_table(runs / "samples" / f"{card['runs'][0]['itemset_id']}.parquet").sort_by("item").to_pylist()
    texts = pq.read_table(text_file(runs, card)).sort_by("item").to_pylist()
    outcomes = pq.read_table(path).sort_by("item").to_pylist()
    return Kept(card, tuple(row["sample_key"] for row in samples), outcomes, [row["text"] for row in texts])


def items_of(paths: Sequence[Path]) -> dict[tuple[str, str], Item]:
    """Items with their text, by task and sample_key."""
    return {
        (s.task_id, key): item for s in itemsets(read_items(paths, skip_bad=True)[0]) for item, key in zip(s.items, s.keys, strict=True)
    }


def was_finished(protocol: Protocol, row: Row) -> bool:
    """Whether an answer came to its end, as far as its outcome tells: at the limit, unless it was read as a finished one."""
    if row["status"] == "truncated":
        return False
    unread = row["status"] == "unparsed" and row["reason"] not in (TWO, OUTSIDE)  # these two are stated, in an unfinished text too
    return unread or row["reason"] in GUESSES or (row["n_tokens"] or 0) < (protocol.max_new_tokens or 0)


def regraded(kept: Kept, rules: str, items: dict[tuple[str, str], Item]) -> tuple[Protocol, list[Row]]:
    """A run's protocol and outcomes under other rules; what was not measured stays so.

    Raises:
        CatalogError: The text of some of its items is not given.
    """
    if missing := [key for key in kept.keys if (kept.task_id, key) not in items]:
        raise CatalogError(
            f"reading answers needs the items' options: {len(missing)} of {len(kept.keys)} items of {kept.task_id} are not in the "
            "files given. Name those that were asked: --items FILE.jsonl"
        )
    old = kept.protocol
    new = Protocol(**{**vars(old), "extraction": rules})
    rows = []
    for key, row, text in zip(kept.keys, kept.outcomes, kept.texts, strict=True):
        fresh = {k: v for k, v in row.items() if k not in ("run_id", "item")}
        if row["status"] != "error":
            item = items[kept.task_id, key]
            order = option_order(old, key, len(item.choices), kept.run["replicate"])
            fresh |= graded_text(new, item, order, text, was_finished(old, row))._asdict()
        rows.append(fresh)
    return new, rows


def regrade(runs: Path, items: Sequence[Path], rules: str, setting: str | None, dry_run: bool) -> tuple[list[list[Any]], int, Counter[str]]:
    """Read every kept text of a folder again.

    Args:
        runs: Catalog folder.
        items: Files with the text of the items asked.
        rules: Version of the rules.
        setting: Name of what they read, kept beside what was there; None: it takes the place of what was there.
        dry_run: Write nothing.

    Returns:
        Rows of COLUMNS; number of runs read; why others were not, counted.

    Raises:
        CatalogError: Nothing can be read again, texts of items are missing, or a name is taken; nothing was written.
    """
    if rules not in VERSIONS:
        raise CatalogError(f"no rules of version {rules!r}; there are {', '.join(VERSIONS)}")
    paths, why = kept_runs(runs)
    text = items_of(items)
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for _, kept, protocol, rows in all_of(runs, paths, rules, text):  # everything is read once before anything is written
        refuse_taken(runs, kept, protocol, setting)
        count(counts, setting or protocol.setting, kept.outcomes, rows)
    if not dry_run:
        for path, kept, protocol, rows in all_of(runs, paths, rules, text):
            write(runs, path, kept, Protocol(**{**vars(protocol), "setting": setting or protocol.setting}), rows, keep=setting is not None)
    return [[*key, *(c[name] for name in COLUMNS[3:])] for key, c in sorted(counts.items())], len(paths), why


def all_of(
    runs: Path, paths: Sequence[Path], rules: str, items: dict[tuple[str, str], Item]
) -> Iterator[tuple[Path, Kept, Protocol, list[Row]]]:
    """Every run, one at a time, with what the rules read in it."""
    for path in paths:
        kept = read_run(runs, path)
        yield path, kept, *regraded(kept, rules, items)


def refuse_taken(runs: Path, kept: Kept, protocol: Protocol, setting: str | None) -> None:
    """One way of asking and reading has one name.

    Raises:
        CatalogError: The run was read by these rules already and shall have another name, or such a run is there under another name.
    """
    path = run_file(runs, "outcomes", kept.run["model_id"], new_id(kept, protocol))
    had = read_card(path)["protocols"][0]["setting"] if path.exists() else None
    wanted = setting or protocol.setting
    if had not in (None, wanted):
        raise CatalogError(
            f"{path} is that run, read by the same rules and called {had!r}, not {wanted!r}: use --setting {had!r} or other --rules"
        )


def new_id(kept: Kept, protocol: Protocol) -> int:
    """The id of a run under another protocol."""
    return run_id_of(kept.run["model_id"], kept.run["itemset_id"], protocol.protocol_id, kept.run["replicate"])


def count(counts: dict[tuple[str, str, str], Counter[str]], setting: str, before: Sequence[Row], after: Sequence[Row]) -> None:
    """Count what became of every outcome, by status before and after."""
    for old, new in zip(before, after, strict=True):
        tally = counts.setdefault((setting, old["status"], new["status"]), Counter())
        tally["n"] += 1
        tally["n_now_right"] += bool(new["correct"] and not old["correct"])
        tally["n_now_wrong"] += bool(old["correct"] and not new["correct"])
        tally["n_other_answer"] += old["predicted"] != new["predicted"]


def write(runs: Path, path: Path, kept: Kept, protocol: Protocol, rows: Sequence[Row], keep: bool) -> None:
    """Write a run anew, whole, and then remove the one it takes the place of."""
    run = {**kept.run, "run_id": new_id(kept, protocol), "protocol_id": protocol.protocol_id}
    card = {**kept.card, "protocols": [protocol.row()], "runs": [run]}
    write_run(runs, card, [], {"outcomes": rows, "generations": [{"text": text} for text in kept.texts]})
    if not keep and run["run_id"] != kept.run["run_id"]:
        path.unlink()
    forget_rest(runs, kept)


def forget_rest(runs: Path, kept: Kept) -> None:
    """Remove texts of this run's other readings that have no outcomes any more; a kill may have left them."""
    for version in VERSIONS:
        run_id = new_id(kept, Protocol(**{**vars(kept.protocol), "extraction": version}))
        if not run_file(runs, "outcomes", kept.run["model_id"], run_id).exists():
            run_file(runs, "generations", kept.run["model_id"], run_id).unlink(missing_ok=True)
