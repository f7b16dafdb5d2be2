"""What a run says about itself: its job, and the rows it adds to the small tables, carried in its own file (its card)."""

import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from catalog.identity import run_id_of
from catalog.items import Itemset
from collect.engines import Engine
from collect.models import Located, model_row
from collect.protocols import Protocol

# Safety/Truth of arXiv 2510.17776, which leaves them out wherever a base model is in the pair
BEHAVIOURAL = frozenset(
    ("truthfulqa/mc1", "salad_bench/mrq", "mmlu/moral_scenarios", "mmlu/moral_disputes", "mmlu/jurisprudence", "mmlu/business_ethics")
)


@dataclass(frozen=True)
class Job:
    """One pass of a model over an itemset: one run, or two where the pass is scored two ways."""

    located: Located
    itemset: Itemset
    protocols: tuple[Protocol, ...]
    replicate: int

    def run_id(self, protocol: Protocol) -> int:
        """The id of one of its runs."""
        return run_id_of(self.located.model_id, self.itemset.itemset_id, protocol.protocol_id, self.replicate)


def sample_rows(itemset: Itemset) -> list[dict[str, Any]]:
    """The itemset as rows of `samples`: identity and gold, no text of choice items.

    Gold of a free-form item is its accepted text; of a choice, the option's index.
    """
    return [
        {"itemset_id": itemset.itemset_id, "item": at, "sample_key": key, "answer": item.answer, "n_options": len(item.choices) or None,
         "gold": [str(g) for g in item.gold], "source_id": item.source_id}
        for at, (item, key) in enumerate(zip(itemset.items, itemset.keys, strict=True))
    ]  # fmt: skip


def card_of(job: Job, protocol: Protocol, engine: Engine, told: Mapping[str, Any]) -> dict[str, Any]:
    """The rows a run adds to the small tables, stored in its own file; `told`: contributor, rng_seed, wall_s."""
    task_id, items = job.itemset.task_id, job.itemset.items
    benchmark, subset = task_id.split("/", 1)
    categories = {item.category for item in items if item.category}  # one at most: chosen_itemsets sees to it
    sources = sorted({item.source or "" for item in items})
    run = {
        "run_id": job.run_id(protocol), "model_id": job.located.model_id, "itemset_id": job.itemset.itemset_id,
        "protocol_id": protocol.protocol_id, "replicate": job.replicate,
        "engine": engine.name,
        "versions": json.dumps(versions(), sort_keys=True), "hardware": engine.hardware,
        "chat_template_sha256": engine.chat_template_sha256 if protocol.template == "model" else None,
        "collected_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f"), "source": "collect run", **told,
    }  # fmt: skip
    return {
        "models": [model_row(job.located, engine.n_params(), engine.has_template)],
        "tasks": [{"task_id": task_id, "benchmark": benchmark, "subset": subset, "behavioural": task_id in BEHAVIOURAL}],
        "categories": [{"map": "own", "task_id": task_id, "category": category} for category in categories],
        "itemsets": [{"itemset_id": job.itemset.itemset_id, "task_id": task_id, "source": ", ".join(sources)[:200] or None,
                      "source_revision": items[0].source_revision, "split": items[0].split,
                      "permutation_seed": items[0].permutation_seed, "n_items": len(items)}],
        "protocols": [protocol.row()],
        "runs": [run],
    }  # fmt: skip


def versions() -> dict[str, str]:
    """Versions of what decides an outcome."""
    return {name: importlib.metadata.version(name) for name in ("forgetting-catalog", "torch", "transformers", "tokenizers")}
