"""How far a matrix of runs is: done, running, failed, missing. Reads files only, no model is loaded."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from catalog.errors import CatalogError
from collect.claims import claims
from collect.config import Plan
from collect.models import locate
from collect.run import chosen_itemsets, jobs_of
from collect.store import read_card

STATES = ("done", "running", "failed", "missing")
Key = tuple[str, str, str, int]  # model_id, itemset_id, setting, replicate


@dataclass
class Anything:
    """Stands for a model that is not loaded: settings and replicates are the same whatever it says."""

    has_template: bool = True
    dtype: str = ""


def states(out: Path, plan: Plan | None) -> tuple[dict[Key, str], list[str]]:
    """The state of every run of the plan, or without one of every run there or begun; and why passes failed.

    Raises:
        CatalogError: No such folder, or the plan's items or models are not found.
    """
    if not out.is_dir() and plan is None:
        raise CatalogError(f"no runs folder at {out}: `collect run --out {out}` makes it")
    found: dict[Key, str] = {}
    reasons = []
    for entry in claims(out):
        for setting in entry["settings"]:
            found[entry["model_id"], entry["itemset_id"], setting, entry["replicate"]] = entry["state"]
        if entry["state"] == "failed":
            why = entry.get("failed") or "it was killed"
            reasons.append(f"{entry['model_id']} {entry['task_id']}: {why}; {entry['n_results']} of {entry['n_items']} items are kept")
    for path in out.glob("outcomes/**/*.parquet"):
        card = read_card(path)
        settings = {row["protocol_id"]: row["setting"] for row in card.get("protocols", [])}
        for run in card.get("runs", []):
            found[run["model_id"], run["itemset_id"], settings[run["protocol_id"]], run["replicate"]] = "done"
    if plan is None:
        return found, reasons
    return {key: found.get(key, "missing") for key in wanted(plan)}, reasons


def wanted(plan: Plan) -> list[Key]:
    """Every run of a plan."""
    sets = chosen_itemsets(plan, lambda text: None)
    return [
        (job.located.model_id, job.itemset.itemset_id, protocol.setting, job.replicate)
        for model in map(locate, plan.models)
        for job in jobs_of(model, Anything(), sets, plan.asks)
        for protocol in job.protocols
    ]


def matrix(found: dict[Key, str]) -> tuple[list[str], list[list[str | int]]]:
    """A row per model and setting: how many runs are in which state."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for (model_id, _, setting, _), state in found.items():
        counts.setdefault((model_id, setting), Counter())[state] += 1
    return ["model", "setting", *STATES], [[*key, *(states[s] for s in STATES)] for key, states in sorted(counts.items())]
