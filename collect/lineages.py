"""Checkpoints of one training run as an ordered sequence: a Trainer folder, or revisions of a Hub model.

Every checkpoint is a model `<lineage>-<step>`; where the run began (`start`, else the first checkpoint) is compared with
each of the others.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catalog.errors import CatalogError
from collect.models import ModelSpec


@dataclass(frozen=True)
class Lineage:
    """A training run as a user names it.

    where: folder that holds checkpoint-<step> folders, or a Hub id with `revisions`. steps: of the revisions, where their
    names hold none. start: the model the run began from. told: of every checkpoint, for the table models. pair: of every
    pair (regime, source). per_step: training tokens and examples of a step, where trainer_state.json does not say.
    """

    name: str
    where: str
    revisions: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    start: ModelSpec | None = None
    size_b: float | None = None
    told: dict[str, Any] = field(default_factory=dict)
    pair: dict[str, Any] = field(default_factory=dict)
    per_step: dict[str, int] = field(default_factory=dict)


def expanded(lineage: Lineage) -> tuple[list[ModelSpec], list[dict[str, Any]]]:
    """The checkpoints in order of step, and a pair from the start to each; the start becomes step 0 unless it is of another run.

    Raises:
        CatalogError: No checkpoint, a step twice, a revision without one, or a trainer_state.json that cannot be read.
    """
    found = of_revisions(lineage) if lineage.revisions else of_folder(lineage)
    models = [spec for spec, _ in found]
    start, seen = (lineage.start, {}) if lineage.start else found[0]
    if lineage.start and "lineage" not in lineage.start.description:
        lineage.start.description |= {"lineage": lineage.name, "step": 0}
    pairs = [
        {"before": start.name, "after": spec.name, **lineage.pair, **{key: n - seen.get(key, 0) for key, n in data.items()}}
        for spec, data in found
        if spec is not start
    ]
    return models, pairs


def checkpoint(lineage: Lineage, where: str, step: int, revision: str | None = None) -> ModelSpec:
    """One checkpoint as a model."""
    told = {**lineage.told, "lineage": lineage.name, "step": step}
    return ModelSpec(where, f"{lineage.name}-{step}", None, revision, told, lineage.size_b)


def of_folder(lineage: Lineage) -> list[tuple[ModelSpec, dict[str, int]]]:
    """checkpoint-<step> folders by step, with the data each has seen. Others, such as tmp-checkpoint-*, are left alone."""
    folder = Path(lineage.where).expanduser()
    steps = sorted(
        int(match[1]) for path in folder.glob("checkpoint-*") if path.is_dir() and (match := re.fullmatch(r"checkpoint-(\d+)", path.name))
    )
    if not steps:
        raise CatalogError(
            f"lineage {lineage.name}: no checkpoint-<step> folder in {lineage.where}; wanted a folder as the Trainer writes it, or a "
            "Hub id with its revisions"
        )
    paths = {step: folder / f"checkpoint-{step}" for step in steps}
    return [(checkpoint(lineage, str(path), step), data_of(lineage, step, path)) for step, path in paths.items()]


def data_of(lineage: Lineage, step: int, path: Path | None = None) -> dict[str, int]:
    """Training tokens and examples a checkpoint has seen, as far as they are known.

    Raises:
        CatalogError: trainer_state.json is no JSON, or of another step.
    """
    data = {f"data_{what}": n * step for what, n in lineage.per_step.items()}
    state = path / "trainer_state.json" if path else None
    if state is None or not state.exists():
        return data
    try:
        told = json.loads(state.read_text(encoding="utf-8"))
        says = int(told["global_step"])
        tokens = int(told.get("num_input_tokens_seen") or 0)  # 0 unless the Trainer was asked to count
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CatalogError(f"{state} cannot be read ({error!r}): copy it again, or remove it") from error
    if says != step:
        raise CatalogError(f"{state} is of step {says}, its folder of step {step}: the folder was renamed or copied; put it right")
    return data | ({"data_tokens": tokens} if tokens and "data_tokens" not in data else {})


def of_revisions(lineage: Lineage) -> list[tuple[ModelSpec, dict[str, int]]]:
    """Revisions of a Hub model by step."""
    steps = lineage.steps or tuple(step_of(lineage, revision) for revision in lineage.revisions)
    if len(steps) != len(lineage.revisions) or len(set(steps)) != len(steps):
        raise CatalogError(
            f"lineage {lineage.name}: wanted one step a revision, each another; found {len(steps)} steps for "
            f"{len(lineage.revisions)} revisions: {', '.join(map(str, steps))}"
        )
    ordered: Sequence[tuple[int, str]] = sorted(zip(steps, lineage.revisions, strict=True))
    return [(checkpoint(lineage, lineage.where, step, revision), data_of(lineage, step)) for step, revision in ordered]


def step_of(lineage: Lineage, revision: str) -> int:
    """The step a revision's name holds: step1000-tokens4B, checkpoint-500, 500.

    Raises:
        CatalogError: It holds none for certain.
    """
    named = re.search(r"(?:step|checkpoint|ckpt)[-_]?(\d+)", revision, re.IGNORECASE) or re.fullmatch(r"(\d{1,9})", revision)
    if not named:
        raise CatalogError(f"lineage {lineage.name}: no step in the revision {revision!r}: give steps = [...], one a revision")
    return int(named[1])
