"""`collect pair`: declare that one model came out of another, after saying what of them can be compared."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from catalog.compare import reason_unpaired
from catalog.errors import CatalogError
from catalog.names import model_named
from catalog.open import connect
from catalog.output import records
from collect.store import merge_pairs

ENOUGH = 0.9  # of the larger side


def declare(out: Path, before: str, after: str, told: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Add a pair to a catalog folder.

    Args:
        out: Catalog folder that holds runs of both.
        before: Model the training started from; its id, or the part of it that is enough.
        after: Model that came out.
        told: pair_id, regime, data_examples, data_tokens, source where the user gave them.

    Returns:
        The pair, and how many items match per setting, task and key scheme.

    Raises:
        CatalogError: A model is unknown, both are the same, or they share no item; then nothing is written.
    """
    con = connect(out)
    before_id, after_id = model_named(con, before), model_named(con, after)
    if before_id == after_id:
        raise CatalogError(f"before and after are the same model, {before_id}")
    matches = records(con.sql("FROM item_matches($1, $2) ORDER BY ALL", params=[before_id, after_id]))
    if not sum(row["n_common"] for row in matches):
        raise CatalogError(f"{before_id} and {after_id} cannot be paired: {reason_unpaired(con, before_id, after_id)}")
    stored = records(con.sql("FROM pairs WHERE before_id = $1 AND after_id = $2", params=[before_id, after_id]))
    said = {name: value for name, value in told.items() if value is not None}  # what is not said again stays
    pair = {**(stored[0] if stored else {}), "before_id": before_id, "after_id": after_id, **said}
    pair["pair_id"] = pair.get("pair_id") or f"{short(before_id)} -> {short(after_id)}"
    known = con.execute("SELECT before_id, after_id FROM pairs WHERE pair_id = $1", [pair["pair_id"]]).fetchall()
    if known and known[0] != (before_id, after_id):
        raise CatalogError(f"pair {pair['pair_id']!r} is another one already: {known[0][0]} -> {known[0][1]}. Name this one with --id")
    merge_pairs(out, [pair])
    return pair, matches


def short(model_id: str) -> str:
    """A model's name without organisation and revision."""
    return model_id.partition("@")[0].rpartition("/")[2]


def warnings_of(matches: list[dict[str, Any]]) -> list[str]:
    """What a reader of this pair must know: tasks of one side only, little overlap, golds that differ."""
    lines = []
    for row in matches:
        where, largest = f"{row['setting']}, {row['task_id']}", max(row["n_before"], row["n_after"])
        if 0 < row["n_common"] < ENOUGH * largest:
            lines.append(
                f"{where}: only {row['n_common']} items match of {row['n_before']} before and {row['n_after']} after ({row['scheme']})"
            )
        elif not row["n_common"] and row["n_before"] and row["n_after"]:
            lines.append(f"{where}: no item matches of {row['n_before']} before and {row['n_after']} after ({row['scheme']})")
        if row["n_other_gold"]:
            lines.append(f"{where}: {row['n_other_gold']} items have another gold before than after")
    return lines
