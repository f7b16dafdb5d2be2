"""Solved examples before a question: other items of the task, the task's own examples (dev split), or ours.

Examples that are not drawn from the items asked are named in the protocol's details with a hash of their content, so that
other examples are another protocol. Ours (examples.jsonl) are written for this project and in no benchmark.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from catalog.errors import CatalogError
from catalog.identity import digest
from catalog.items import Item, Itemset, read_items
from collect.protocols import STYLES, Ask, Protocol, pick_shots

WORKED = Path(__file__).parent / "examples.jsonl"


@cache
def worked() -> tuple[Item, ...]:
    """Our own examples, with reasoning: five with options, five without."""
    return tuple(read_items([WORKED])[0])


def fitting(pool: Sequence[Item], itemset: Itemset, n: int, thought: bool) -> list[Item]:
    """The first n examples of every kind (options, or none) that the itemset asks; thought: only those with their reasoning."""
    usable = [item for item in pool if item.reasoning or not thought]
    kinds = sorted({bool(item.choices) for item in itemset.items}, reverse=True)
    return [item for kind in kinds for item in [i for i in usable if bool(i.choices) == kind][:n]]


def with_examples(protocol: Protocol, ask: Ask, itemset: Itemset) -> Protocol:
    """The protocol with its examples named, where they are not other items of the task.

    Raises:
        CatalogError: Examples of the task were asked for and it has none, or more than there are.
    """
    source = STYLES[ask.style].examples if ask.examples == "auto" else ask.examples
    if not protocol.shots or source == "task":
        return protocol
    thought = protocol.ending == "line"
    chosen = fitting(itemset.examples, itemset, protocol.shots, thought)
    if source == "dev" and not chosen and ask.examples == "dev":
        kind = " with their reasoning" if thought else ""
        raise CatalogError(
            f"task {itemset.task_id} brings no examples{kind}: mark some of its items with \"example\": true, or use examples = 'worked'"
        )
    if source == "worked" or not chosen:
        source, chosen = "worked", fitting(worked(), itemset, protocol.shots, thought)
    kinds = {bool(item.choices) for item in chosen}
    n = min(sum(bool(item.choices) == kind for item in chosen) for kind in kinds)
    if ask.shots is not None and n < ask.shots:
        raise CatalogError(
            f"protocol {protocol.setting!r} wants {ask.shots} examples, task {itemset.task_id} has {n} ({source}): use --shots {n}"
        )
    content = digest([[e.question, e.choices, e.gold, e.reasoning] for e in chosen], 12)
    return replace(protocol, shots=n, details=json.dumps({"examples": source, "sha256": content}, sort_keys=True))


def shots_of(protocol: Protocol, itemset: Itemset) -> list[list[Item]]:
    """The examples of every item of the itemset under a protocol that `with_examples` settled."""
    if not protocol.details:
        return pick_shots(protocol.shots, itemset.items, itemset.keys)
    pool = worked() if json.loads(protocol.details)["examples"] == "worked" else itemset.examples
    chosen = fitting(pool, itemset, protocol.shots, protocol.ending == "line")
    return [[shot for shot in chosen if bool(shot.choices) == bool(item.choices)] for item in itemset.items]
