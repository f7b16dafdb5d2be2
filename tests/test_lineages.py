"""Checkpoints of one training run as an ordered sequence: a Trainer folder, revisions, plans and options."""

import json
import shutil

import pytest
from models import DEMO

import catalog
from catalog.errors import CatalogError
from collect.__main__ import main
from collect.config import read_plan
from collect.lineages import Lineage, expanded
from collect.models import ModelSpec


@pytest.fixture
def trainer(tmp_path):
    """A Trainer's folder: checkpoints of the given steps with tokens seen (None: not counted), and what else lies there."""

    def make(seen, name="run"):
        folder = tmp_path / name
        for step, tokens in seen.items():
            (folder / f"checkpoint-{step}").mkdir(parents=True)
            state = {"global_step": step, "num_input_tokens_seen": tokens or 0}
            (folder / f"checkpoint-{step}" / "trainer_state.json").write_text(json.dumps(state))
        (folder / "tmp-checkpoint-7").mkdir()
        (folder / "checkpoint-last").mkdir()
        return folder

    return make


def test_trainer_folder_in_order_of_step(trainer):
    """20 before 100, not by name; each pair has the tokens its checkpoint had seen; the start is step 0."""
    start = ModelSpec("base", "base")
    models, pairs = expanded(Lineage("run", str(trainer({100: 5000, 20: 1000})), start=start, pair={"regime": "tuning"}))
    assert [(m.name, m.description) for m in models] == [
        ("run-20", {"lineage": "run", "step": 20}),
        ("run-100", {"lineage": "run", "step": 100}),
    ]
    assert pairs == [
        {"before": "base", "after": "run-20", "regime": "tuning", "data_tokens": 1000},
        {"before": "base", "after": "run-100", "regime": "tuning", "data_tokens": 5000},
    ]
    assert start.description == {"lineage": "run", "step": 0}


def test_start_of_another_run_and_none(trainer):
    """A model is of one run: a second one leaves it there. Without a start the first checkpoint is it, and data counts from there."""
    start = ModelSpec("base", "base", description={"lineage": "first", "step": 9})
    folder = str(trainer({20: None, 50: None}))
    _, pairs = expanded(Lineage("run", folder, start=start))
    assert start.description == {"lineage": "first", "step": 9} and [p["after"] for p in pairs] == ["run-20", "run-50"]
    _, pairs = expanded(Lineage("run", folder, per_step={"tokens": 8, "examples": 2}))
    assert pairs == [{"before": "run-20", "after": "run-50", "data_tokens": 30 * 8, "data_examples": 30 * 2}]


def test_revisions_by_step():
    """Steps are read from names, or told; a name without one is refused, and so is a step twice."""
    models, pairs = expanded(Lineage("olmo", "org/olmo", ("step2000-tokens8B", "step-500", "main-ckpt10"), told={"family": "olmo"}))
    assert [(m.name, m.revision, m.where, m.description["family"]) for m in models] == [
        ("olmo-10", "main-ckpt10", "org/olmo", "olmo"),
        ("olmo-500", "step-500", "org/olmo", "olmo"),
        ("olmo-2000", "step2000-tokens8B", "org/olmo", "olmo"),
    ]
    assert [(p["before"], p["after"]) for p in pairs] == [("olmo-10", "olmo-500"), ("olmo-10", "olmo-2000")]
    assert [m.name for m in expanded(Lineage("l", "org/m", ("a", "b"), (7, 3)))[0]] == ["l-3", "l-7"]
    for revisions, steps, why in (
        (("main",), (), "no step in the revision 'main': give steps"),
        (("step1", "1"), (), "found 2 steps for 2 revisions: 1, 1"),
        (("a", "b"), (1,), "found 1 steps for 2 revisions: 1"),
    ):
        with pytest.raises(CatalogError, match=why):
            expanded(Lineage("l", "org/m", revisions, steps))


def test_faults_of_a_trainer_folder(trainer, tmp_path):
    """No checkpoint, a state of another step, a damaged one: named."""
    with pytest.raises(CatalogError, match=r"no checkpoint-<step> folder in .*/nothing; wanted a folder as the Trainer writes it"):
        expanded(Lineage("l", str(tmp_path / "nothing")))
    folder = trainer({10: 1})
    (folder / "checkpoint-10").rename(folder / "checkpoint-20")
    with pytest.raises(CatalogError, match=r"trainer_state.json is of step 10, its folder of step 20"):
        expanded(Lineage("l", str(folder)))
    (folder / "checkpoint-20" / "trainer_state.json").write_text('{"global_step"')
    with pytest.raises(CatalogError, match=r"trainer_state.json cannot be read .* copy it again, or remove it"):
        expanded(Lineage("l", str(folder)))


PLAN = """
[[models]]
name = "base"
path = "base"

[[lineages]]
name = "tuning"
path = "run"
start = "base"
kind = "domain"
regime = "domain"
examples_per_step = 4

[[lineages]]
name = "other"
hub = "org/other"
revisions = ["step3", "step1"]

[[pairs]]
before = "tuning-5"
after = "other-3"
"""


def test_lineages_of_a_plan(trainer, tmp_path):
    """Checkpoints are models of the plan: its pairs name them; paths are relative to the file."""
    trainer({5: 50})
    (tmp_path / "plan.toml").write_text(PLAN)
    plan = read_plan(tmp_path / "plan.toml")
    assert [m.name for m in plan.models] == ["base", "tuning-5", "other-1", "other-3"]
    assert plan.models[1].where == str(tmp_path / "run" / "checkpoint-5") and plan.models[1].description["kind"] == "domain"
    assert [(p["before"], p["after"], p.get("data_tokens"), p.get("data_examples"), p.get("regime")) for p in plan.pairs] == [
        ("base", "tuning-5", 50, 20, "domain"),
        ("other-1", "other-3", None, None, None),
        ("tuning-5", "other-3", None, None, None),
    ]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('start = "base"', 'start = "nobody"', r"starts from nobody, which is not among the models: base"),
        ('hub = "org/other"', 'hub = "org/other"\npath = "x"', r"other wants a name, and either path or hub with revisions"),
        ('revisions = ["step3", "step1"]', "", r"other wants a name, and either path or hub with revisions"),
        ('name = "other"', 'name = "tuning"\nsteps = ["1"]', r"has steps = \['1'\]; wanted a list of whole numbers"),
        ('name = "other"', 'name = "base"\nsteps = [5, 5]', r"found 2 steps for 2 revisions: 5, 5"),
        ('after = "other-3"', 'after = "other-2"', r"names other-2, which is not among the models: base, tuning-5, other-1, other-3"),
    ],
)
def test_mistakes_in_a_plan(trainer, tmp_path, old, new, why):
    """Each is told with the place where it stands."""
    trainer({5: 50})
    (tmp_path / "plan.toml").write_text(PLAN.replace(old, new, 1))
    with pytest.raises(CatalogError, match=why):
        read_plan(tmp_path / "plan.toml")


def test_one_command_collects_a_sequence(trainer, tmp_path, capsys):
    """The base and two checkpoints of a folder: models with lineage and step, pairs from the base, the sequence's own views."""
    folder = trainer({10: 100, 5: 50}, "learning")
    for step, name in ((5, "small-domain"), (10, "small-instruct")):
        shutil.copytree(DEMO / "models" / name, folder / f"checkpoint-{step}", dirs_exist_ok=True)
    asked = ["--items", str(DEMO / "items.jsonl"), "--tasks", "world/provinces", "--limit", "4", "--out", str(tmp_path / "runs")]
    assert main(["run", "--models", str(DEMO / "models" / "small-base"), "--lineage", str(folder), *asked]) == 0
    con = catalog.connect(tmp_path / "runs")
    names = "regexp_extract(model_id, '/(.*)@', 1)"
    assert con.sql(f"SELECT {names}, lineage, step FROM models ORDER BY step").fetchall() == [
        ("small-base", "learning", 0),
        ("learning-5", "learning", 5),
        ("learning-10", "learning", 10),
    ]
    assert con.sql("SELECT pair_id, data_tokens FROM pairs ORDER BY ALL").fetchall() == [
        ("small-base -> learning-10", 100),
        ("small-base -> learning-5", 50),
    ]
    assert con.sql("SELECT DISTINCT n_checkpoints FROM temporal_forgetting").fetchall() == [(3,)]
    assert main(["run", "--revisions", "step1", "--models", "x/y", *asked]) == 1
    assert "--revisions are those of a Hub id: add --lineage ORG/NAME" in capsys.readouterr().err
