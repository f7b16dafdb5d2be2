"""Gather the many files of a published dataset into few sorted ones, in commits that each leave the same rows."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb

from catalog.errors import CatalogError
from catalog.open import NEWEST_WINS, SMALL_TABLES, card_of_checked, columns_of
from collect.dataset_card import CardFacts, card_text
from collect.publish import FILES_PER_COMMIT
from collect.publishing.local import content_file, write_rows
from collect.publishing.remote import Change, Dataset, State, is_newer, is_small, refuse_to_rewrite
from collect.publishing.settling import Sent, settle

LARGE = {"samples": "itemset_id, item", **dict.fromkeys(("outcomes", "option_scores", "generations"), "run_id, item")}
BIG = 100_000_000  # bytes from which a file is not written again, and which those that become one do not exceed together


def compact_dataset(dataset: Dataset) -> Sent:
    """Merge small files of every table and model; old ones go in the commit that brings the new one.

    Raises:
        CatalogError: A file cannot be read, or the Hub cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="compact-") as folder:
        return settle(dataset, lambda state: next_change(dataset, state, Path(folder)))


def next_change(dataset: Dataset, state: State, folder: Path) -> Change | None:
    """Small tables first, then as many groups of files as one commit takes; None where every group is one file already."""
    if state.oid is None:
        raise CatalogError(f"no dataset {dataset.repo} that your token may see: check the name, or log in with `hf auth login`")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    change = Change("")
    for table in SMALL_TABLES:
        gather_small(change, state, folder, table)
    refuse_to_rewrite(dataset.repo, set(state.newer) & {*change.deletes, *change.adds})
    for table, below, paths in groups(state):
        if change.adds and len(change.adds) + len(change.deletes) + len(paths) > FILES_PER_COMMIT:
            break
        copies = dataset.fetch(state.oid, paths)
        replace(change, gathered([str(copy) for copy in copies.values()], folder, table, below), paths)
        refuse_to_rewrite(dataset.repo, [path for path, copy in copies.items() if is_newer(copy)])
    if not change.adds:
        return None
    change.message = f"Gather {len(change.deletes)} files into {len(change.adds)}"
    sizes = {path: size for path, size in state.files.items() if path not in change.deletes} | change.sizes()
    text = card_text(CardFacts(dataset.repo, state.rows, sizes), state.readme)
    if text != state.readme:
        change.adds["README.md"] = text.encode()
    return change


def gather_small(change: Change, state: State, folder: Path, table: str) -> None:
    """One file of a small table, where it has several or where runs' own files hold rows of it, which are about to go."""
    paths, rows = state.of_table(table), state.rows[table]
    if not rows or (len(paths) == 1 and not any(is_small(path) for path in state.of_table("outcomes"))):
        return
    if table not in NEWEST_WINS:
        replace(change, content_file(folder, table, rows, state.digests.get(table)), paths)
    elif len(paths) > 1 or not paths:
        path = f"{table}/{table}.parquet"
        write_rows(folder / path, table, rows)
        replace(change, {path: folder / path}, paths)


def replace(change: Change, added: dict[str, Path], paths: list[str]) -> None:
    """Put new files in the place of old ones; a file that is there already stays."""
    change.adds |= {path: file for path, file in added.items() if path not in paths or path.split("/")[0] in NEWEST_WINS}
    change.deletes += [path for path in paths if path not in added]


def groups(state: State) -> Iterator[tuple[str, str, list[str]]]:
    """Table, folder below it, and those files of it that are worth merging."""
    for table in LARGE:
        by_folder: dict[str, list[list[str]]] = {}
        for path in sorted(state.of_table(table), key=lambda path: state.files[path]):
            some = by_folder.setdefault("/".join(path.split("/")[1:-1]), [[]])
            if some[-1] and sum(state.files[other] for other in some[-1]) + state.files[path] > BIG:
                some.append([])
            some[-1].append(path)
        for below, parts in sorted(by_folder.items()):
            yield from ((table, below, paths) for paths in parts if len(paths) > 1 or is_small(paths[0]))


def gathered(copies: list[str], folder: Path, table: str, below: str) -> dict[str, Path]:
    """One new file of all rows in some files."""
    for copy in copies:
        card_of_checked(table, copy)
    query = f"SELECT {columns_of(table)} FROM read_parquet($1, union_by_name = true) ORDER BY {LARGE[table]}"
    rows = duckdb.connect().sql(query, params=[copies]).to_arrow_table()
    texts = {str(run): "" for run in rows["run_id"].unique().to_pylist()} if table == "generations" else {}
    return content_file(folder, table, rows, texts, below)
