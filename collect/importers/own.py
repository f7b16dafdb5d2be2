"""Logs that `catalog export` wrote: every item says what its format has no field for, the first one carries its run's card.

The card is checked, not believed: protocol_id, itemset_id and run_id are computed again from what the file holds.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catalog.errors import CatalogError
from catalog.export import OWN, OWN_RUN
from catalog.identity import itemset_id_of, protocol_id_of, run_id_of
from catalog.open import refuse_version
from collect.importers import About, Row

DAMAGE = (KeyError, IndexError, TypeError, ValueError, AttributeError)  # of text that another hand changed
IDS = ("run_id", "model_id", "itemset_id", "protocol_id", "replicate")  # of `runs`: computed anew from the rows


@dataclass
class Exported:
    """The card of a model and task in a file, and the items read so far."""

    card: dict[str, Any]
    keys: list[tuple[int, str]] = field(default_factory=list)


class Own:
    """What a file says of itself as one of our own exports; nothing, if it is a foreign log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.groups: dict[tuple[str, str], Exported] = {}

    def row(self, row: Row, holder: Any, value: Any) -> None:
        """Fill a row with what our export says of its item in `holder`; one of a foreign log stays as it is.

        Args:
            row: Knows where it stands, its model and task, its text, and as the key of `values` its metric.
            value: The grade that the format's own field holds; None is not measured.

        Raises:
            CatalogError: What it says is damaged, contradicts the grade, or comes without the card of its run.
        """
        if not isinstance(holder, Mapping) or OWN not in holder:
            if self.groups:
                raise CatalogError(f"{row.where}: wanted an item of the export that the lines before are, found none ({OWN})")
            return
        try:
            group = self.group(row, holder)
            restore(row, loaded(holder[OWN]), value, int(group.card["runs"][0]["replicate"]))
            group.keys.append((int(row.item or 0), f"{row.key}#{row.occurrence}"))
        except DAMAGE as error:
            raise CatalogError(f"{row.where}: what it says under {OWN} is damaged ({error!r}): export the run again") from error

    def group(self, row: Row, holder: Mapping[str, Any]) -> Exported:
        """The group a row belongs to; the first row of one brings its card."""
        name = (row.model, row.task)
        if OWN_RUN in holder:
            card = loaded(holder[OWN_RUN])
            if name in self.groups and self.groups[name].card != card:
                raise CatalogError(
                    f"{row.where}: wanted one run of a model and task, found a second: import the files as they were exported"
                )
            refuse_version(self.path.name, str(card.get("schema_version", "")))
            self.groups.setdefault(name, Exported(card))
        if name not in self.groups:
            raise CatalogError(f"{row.where}: wanted the card of the run with its first item ({OWN_RUN}), found none: was the file cut?")
        return self.groups[name]

    def about(self, model: str, task: str) -> About | None:
        """The rows of the card once all items were read; None of a foreign log.

        Raises:
            CatalogError: The card is not that of these items, or an id in it is not the hash of its parts.
        """
        if (group := self.groups.get((model, task))) is None:
            return None
        try:
            models, itemset, protocol, run = (dict(group.card[table][0]) for table in ("models", "itemsets", "protocols", "runs"))
            task_id, told = itemset["task_id"], protocol["protocol_id"]
            itemset_id = itemset_id_of(task_id, (key for _, key in sorted(group.keys)))
            ids = [
                ("protocol_id", told, protocol_id_of(protocol)),
                ("itemset_id", itemset["itemset_id"], itemset_id),
                ("run_id", run["run_id"], run_id_of(models["model_id"], itemset_id, told, run["replicate"])),
            ]
            n_told = itemset["n_items"]
        except DAMAGE as error:
            raise CatalogError(f"{self.path.name}: the card of its run ({OWN_RUN}) is damaged ({error!r}): export it again") from error
        for what, wanted, found in ids:
            if wanted != found:
                raise CatalogError(
                    f"{self.path.name}: wanted {what} {wanted} of {n_told} items, as the card of its run says, found {found} of "
                    f"{len(group.keys)}: the file was changed since it was exported. Export it again"
                )
        rest = {name: value for name, value in run.items() if name not in IDS}
        categories = list(group.card.get("categories", []))
        return About(models, task_id, protocol, {"source": None, **rest}, itemset, task=dict(group.card["tasks"][0]), categories=categories)


def loaded(told: Any) -> dict[str, Any]:
    """An object, or the JSON of one."""
    found = json.loads(told) if isinstance(told, str) else told
    if not isinstance(found, dict):
        raise TypeError(f"a {type(found).__name__}")
    return found


def restore(row: Row, own: Mapping[str, Any], value: Any, replicate: int) -> None:
    """Fill a row from what our export says of its item. The grade is the format's; it must agree with status and prediction."""
    metric, gold = next(iter(row.values), ""), own["gold"]
    key, _, occurrence = own["sample_key"].rpartition("#")
    row.key, row.occurrence, row.item, row.source_id, row.replicate = key, int(occurrence), int(own["item"]), own["source_id"], replicate
    row.answer, row.n_options, row.gold = own["answer"], own["n_options"], gold
    row.status, row.reason, row.n_tokens = own["status"], own["reason"], own["n_tokens"]
    row.predicted = {metric: own["predicted"]} if own["predicted"] is not None else {}
    row.scores = {metric: [float(score) for score in own["scores"]]} if own["scores"] is not None else {}
    row.text = row.text if own["has_text"] else None
    row.values = {metric: value}
    agrees = (value is None) == (row.status == "error") and not (value and row.status in ("unparsed", "truncated"))
    if value is not None and row.answer == "choice" and row.predicted:
        agrees = agrees and (gold[0] == str(own["predicted"])) == bool(value)
    if value not in (None, 0, 1) or not agrees:
        raise CatalogError(
            f"{row.where}: the grade {value!r} contradicts status {row.status}, predicted {own['predicted']} and gold {gold}: "
            "it was changed since it was exported"
        )
