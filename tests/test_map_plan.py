"""The small map as data: its two plans agree, cover every category, and what training was is on record."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from collect.benchmarks.loading import tasks_named
from collect.config import read_plan

ROOT = Path(__file__).parent.parent
PLANS = ROOT / "collect" / "plans"
RECIPE = ROOT / "collect" / "recipes" / "small_map"
STEPS = {"domain": (18, 36, 72, 144, 288), "task": (49, 98)}


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """Both plans, beside folders as the training runs leave them."""
    base = tmp_path_factory.mktemp("map")
    for run, steps in STEPS.items():
        for step in steps:
            folder = base / "build" / "map" / run / f"checkpoint-{step}"
            folder.mkdir(parents=True)
            (folder / "trainer_state.json").write_text(json.dumps({"global_step": step, "num_input_tokens_seen": 1024 * step}))
    (base / "collect" / "plans").mkdir(parents=True)
    names = ("small_map", "small_map_answers")
    return [read_plan(Path(shutil.copy(PLANS / f"{name}.toml", base / "collect" / "plans"))) for name in names]


def test_every_category_has_tasks(plans):
    """30 tasks or fewer, the first ten one a category: the paper's nine and Other."""
    with (RECIPE.parent / "paper_categories.csv").open(newline="") as file:
        categories = {row["task"]: row["category"] for row in csv.DictReader(file)}
    for plan in plans:
        assert all(len(tasks_named(task)) == 1 for task in plan.tasks)
    tasks = plans[0].tasks
    assert len(tasks) == len(set(tasks)) <= 30 and set(plans[1].tasks) <= set(tasks)
    assert sorted(categories.get(task, "Other") for task in tasks[:10]) == sorted(
        {*categories.values()} - {"(left out by the paper)"} | {"Other"}
    )


def test_models_and_pairs_of_the_plans(plans):
    """What the second plan says of a model the first says too: one row of models. Every model but the start is the end of one pair."""
    first, second = ({model.name: model for model in plan.models} for plan in plans)
    for name, model in second.items():
        assert (model.model_id, model.description) == (first[name].model_id, first[name].description)
        assert Path(model.where).resolve() == Path(first[name].where).resolve()
    afters = [pair["after"] for pair in plans[0].pairs]
    assert sorted(afters) == sorted(set(first) - {"SmolLM2-135M-Instruct"})
    assert {pair["before"] for pair in plans[0].pairs} == {"SmolLM2-135M-Instruct", "python-288"}


def test_records_of_training():
    """Tokens and every step of both runs are on record, and the losses fell."""
    for run, steps in STEPS.items():
        told = json.loads((RECIPE / f"{run}.json").read_text())
        assert [told["tokens"][str(step)] for step in steps] == [1024 * step for step in steps] and len(told["log"]) >= steps[-1]
        nats = told["held_out_nats"]
        assert nats[str(steps[-1])] < nats["0"] and "/" not in told["machine"]
