"""What is new for a dataset and what contradicts it: rows merge by key, ids that name content must name the same content."""

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from catalog.errors import CatalogError
from catalog.open import SMALL_TABLES, arrow_schema, blank, card_of_checked, columns_of
from collect.publishing.local import ITEMSET_DIGESTS, Local, run_digests
from collect.publishing.remote import Dataset, Rows, State
from collect.store import folder_of

MERGE_KEYS = {"models": ("model_id",), "tasks": ("task_id",), "categories": ("map", "task_id"), "pairs": ("before_id", "after_id")}
# of the view integrity: what two sound catalogs can break together; outcomes are not needed to see it
TOGETHER = ("more than one row", "one item with two numbers of options", "replicates of a protocol that cannot vary")


def merge(table: str, there: Rows, ours: Rows, guesses: Collection[tuple[str, str]] = ()) -> tuple[Rows, list[str]]:
    """Rows of both by key: our value fills an empty one and replaces another one, unless ours is a guess.

    Args:
        table: A descriptive table.
        there: Rows of the dataset.
        ours: Rows to publish.
        guesses: (model_id, column) that nobody told us.

    Returns:
        Rows by key, and a line for every value that was replaced.
    """
    keys = MERGE_KEYS[table]
    merged = {tuple(row[key] for key in keys): dict(row) for row in there}
    notes = []
    for row in ours:
        at = tuple(row[key] for key in keys)
        known = merged.setdefault(at, dict(row))
        for name, value in row.items():
            if value is None or value == known[name] or (known[name] is not None and (at[0], name) in guesses):
                continue
            if known[name] is not None:
                notes.append(f"{table} {' '.join(at)}: {name} was {known[name]!r}, is now {value!r}")
            known[name] = value
    order = [name.strip() for name in SMALL_TABLES[table].split(",")]
    return sorted(merged.values(), key=lambda row: [row[name] for name in order]), notes


def guesses_in(root: Path) -> set[tuple[str, str]]:
    """Which columns of which models are guesses in every run that says anything of them."""
    guessed: set[tuple[str, str]] = set()
    told: set[tuple[str, str]] = set()
    for path in sorted(root.glob("outcomes/**/*.parquet")):
        for row in json.loads(card_of_checked("outcomes", str(path)) or "{}").get("models", []):
            said = {(row["model_id"], name) for name, value in row.items() if value is not None}
            unsure = {(row["model_id"], name) for name in row.get("guessed", [])}
            guessed |= said & unsure
            told |= said - unsure
    return guessed - told


def new_content(local: Local, state: State, dataset: Dataset) -> tuple[Rows, Rows, Rows]:
    """Itemsets, protocols and runs that the dataset lacks.

    Raises:
        CatalogError: An id that is there names something else here; nothing may be sent then.
    """
    check_protocols(local, state, dataset.repo)
    check_itemsets(local, state, dataset)
    check_runs(local, state, dataset)
    return lacking("itemsets", local, state), lacking("protocols", local, state), lacking("runs", local, state)


def lacking(table: str, local: Local, state: State) -> Rows:
    """Our rows of a table whose ids the dataset does not have."""
    key = SMALL_TABLES[table]
    there = {row[key] for row in state.rows[table]}
    return [row for row in local.rows[table] if row[key] not in there]


def check_protocols(local: Local, state: State, repo: str) -> None:
    """One protocol has one setting."""
    there = {row["protocol_id"]: row["setting"] for row in state.rows["protocols"]}
    for row in local.rows["protocols"]:
        if (setting := there.get(row["protocol_id"], row["setting"])) != row["setting"]:
            raise CatalogError(
                f"conflict, nothing was sent: protocol {row['protocol_id']} is setting {setting!r} in {repo} and {row['setting']!r} here. "
                f"Collect or import those runs again as {setting!r}, or publish into another dataset"
            )


def check_itemsets(local: Local, state: State, dataset: Dataset) -> None:
    """One itemset has one list of items, options and golds."""
    shared = {row["itemset_id"] for row in state.rows["itemsets"]} & local.itemset_digests.keys()
    there = dict(state.digests.get("itemsets", {}))
    if state.oid and not shared <= there.keys():  # another program wrote them: look at the items themselves
        files = dataset.fetch(state.oid, state.of_table("samples"))
        there |= digests_of_samples(files)
    if odd := sorted(i for i in shared if there.get(i) != local.itemset_digests[i]):
        raise CatalogError(
            f"conflict, nothing was sent: itemset {', '.join(odd[:5])} has other options or golds in {dataset.repo} than here. "
            "Publish into another dataset, or find out which of the two read its items wrongly"
        )


def digests_of_samples(files: Mapping[str, Path]) -> dict[str, str]:
    """Digest of every itemset in samples files."""
    for path in files.values():
        card_of_checked("samples", str(path))
    con = blank()
    if files:
        con.execute(f"INSERT INTO samples BY NAME SELECT {columns_of('samples')} FROM read_parquet($1)", [[str(p) for p in files.values()]])
    found: dict[str, str] = dict(con.sql(ITEMSET_DIGESTS).fetchall())
    return found


def check_runs(local: Local, state: State, dataset: Dataset) -> None:
    """One run has one set of outcomes."""
    model_of = {str(run["run_id"]): run["model_id"] for run in state.rows["runs"]}
    shared = model_of.keys() & local.digests.keys()
    there = dict(state.digests.get("runs", {}))
    if unknown := shared - there.keys():  # another program wrote them: look at the outcomes themselves
        there |= digests_of_outcomes(dataset, state, {folder_of(model_of[run]) for run in unknown}, unknown)
    if odd := sorted(run for run in shared if there.get(run) != local.digests[run]):
        named = "\n  ".join(f"run {run} of {model_of[run]}" for run in odd[:5])
        more = f"\n  ... and {len(odd) - 5} more" if len(odd) > 5 else ""
        raise CatalogError(
            f"conflict, nothing was sent: {len(odd)} runs have other outcomes in {dataset.repo} than here:\n  {named}{more}\n"
            "A run is published once. Publish into another dataset, or collect them as another replicate"
        )


def digests_of_outcomes(dataset: Dataset, state: State, folders: Collection[str], runs: Iterable[str]) -> dict[str, str]:
    """Digests of published runs from their outcomes, downloaded: their models' folders, or all where they are not there."""
    paths = state.of_table("outcomes")
    own = [path for path in paths if path.split("/")[1] in folders]
    found: dict[str, str] = {}
    for some in (own, paths):
        if some and state.oid and not set(runs) <= found.keys():
            files = [str(path) for path in dataset.fetch(state.oid, some).values()]
            for file in files:
                card_of_checked("outcomes", file)
            con = blank()
            quoted = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
            source = f"read_parquet([{quoted}])"
            n_rows = dict(con.sql(f"SELECT run_id, count(*) FROM {source} GROUP BY run_id").fetchall())
            found |= {str(run): digest for run, digest in run_digests(con, source, n_rows)}
    return found


def check_together(local: Local, state: State, dataset: Dataset, merged: Mapping[str, Rows]) -> None:
    """Refuse what is sound here and sound there and would not be together.

    Raises:
        CatalogError: With the rows of the view `integrity`.
    """
    if {row["run_id"] for row in state.rows["runs"]} <= local.model_of.keys() and not state.rows["pairs"]:
        return  # all of it is here, and sound
    con = blank()
    for table, rows in merged.items():
        insert(con, table, pa.Table.from_pylist(rows, arrow_schema(table)))
    insert(con, "samples", local.con.sql(f"SELECT {columns_of('samples')} FROM samples").to_arrow_table())
    ours = {row["itemset_id"] for row in local.rows["itemsets"]}
    asked = {row["task_id"] for row in local.rows["itemsets"]}
    if state.oid and any(row["task_id"] in asked and row["itemset_id"] not in ours for row in state.rows["itemsets"]):
        files = [str(path) for path in dataset.fetch(state.oid, state.of_table("samples")).values()]
        con.execute(
            f"INSERT INTO samples BY NAME SELECT {columns_of('samples')} FROM read_parquet($1) WHERE itemset_id NOT IN (SELECT unnest($2))",
            [files, sorted(ours)],
        )
    query = "FROM integrity WHERE problem IN (SELECT unnest($1)) ORDER BY ALL LIMIT 5"
    if faults := con.execute(query, [list(TOGETHER)]).fetchall():
        shown = "\n  ".join(f"{problem}: {detail}" for problem, detail in faults)
        raise CatalogError(f"nothing was sent, together with what {dataset.repo} holds this would be no sound catalog:\n  {shown}")


def insert(con: Any, table: str, rows: pa.Table) -> None:
    """Rows into a table of a catalog."""
    con.register("rows_to_insert", rows)
    con.execute(f"INSERT INTO {table} BY NAME FROM rows_to_insert")
    con.unregister("rows_to_insert")
