"""The paper's matrix as a plan: every printed pair is in it; its cost is estimated with no network and no model."""

import csv
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from test_collect import SMALL

from catalog import CatalogError
from collect import estimate
from collect.benchmarks.listing import constants, paper_categories
from collect.cards import BEHAVIOURAL
from collect.config import Plan, read_plan
from collect.models import ModelSpec
from collect.protocols import Ask
from collect.recipes.published import published_rows

PAPER = Path(estimate.__file__).parent / "plans" / "paper.toml"


@pytest.fixture(scope="module")
def plan():
    """The committed plan."""
    return read_plan(PAPER)


@pytest.fixture(scope="module")
def rows(plan):
    """Its runs, by column."""
    return [dict(zip(estimate.COLUMNS, row, strict=True)) for row in estimate.estimated(plan)]


def test_every_printed_pair(plan):
    """Regime, before and after of every pair in the paper's tables, and no other."""
    printed = {(row["regime"], row["before_model"], row["after_model"]) for row in published_rows() if row["paper"] == "arXiv 2510.17776"}
    assert {(pair["regime"], pair["before"], pair["after"]) for pair in plan.pairs} == printed and len(plan.pairs) == len(printed) == 47


def test_tasks_and_ways_of_asking(plan, rows):
    """The paper's 94 tasks; behavioural ones only where a pair has no base model; three replicates of one way each."""
    asked = {name: {row["task"] for row in rows if row["model"] == name} for name in (model.name for model in plan.models)}
    assert set.union(*asked.values()) == paper_categories().keys()
    kinds = {model.name: model.description["kind"] for model in plan.models}
    for name, tasks in asked.items():
        free_of_base = [
            p for p in plan.pairs if name in (p["before"], p["after"]) and "base" not in (kinds[p["before"]], kinds[p["after"]])
        ]
        assert tasks == (paper_categories().keys() if free_of_base else paper_categories().keys() - BEHAVIOURAL), name
    assert set(Counter((row["model"], row["task"]) for row in rows).values()) == {3} and {row["setting"] for row in rows} == {"paper"}


def test_base_models_answer_mmlu_at_once(rows):
    """A few tokens an item; elsewhere a chain of thought."""
    new = {row["task"].split("/")[0]: row["new_tokens"] / row["items"] for row in rows if row["model"] == "Qwen/Qwen2.5-7B"}
    assert new["mmlu"] == estimate.DIRECT_TOKENS and new["arc"] == estimate.NEW_TOKENS["base"]


def test_by_hand():
    """Option text and a chain of thought on 100 items of piqa, by the committed constants."""
    row = constants()["piqa/main"]
    question, options = float(row["question_tokens"]), float(row["options_tokens"])
    spec = ModelSpec("org/thing-14B", description={"kind": "instruct"})
    asks = [Ask("option-text"), Ask("cot", template="model", replicates=2)]
    found = estimate.estimated(Plan([spec], asks, tasks=["piqa"], limit=100))
    scored, generated = 100 * (question + 40 + options), 100 * (question + 40 + options)
    seconds = (generated / 20_000 + 100 * 350 / 2_500) * 14 / 7
    assert [row[3:8] for row in found] == [
        ["option-text-sum", 0, 100, round(scored), 0],
        ["option-text-norm", 0, 100, 0, 0],  # the same pass
        ["cot", 0, 100, round(generated), 35_000],
        ["cot", 1, 100, round(generated), 35_000],
    ]
    assert found[2][8] == round(seconds / 3600, 4) and found[0][1] == 14
    assert "4 runs of 1 models on 1 tasks" in estimate.closing(found)
    assert estimate.hours_on(found, 2) == found[2][8] + found[0][8] and estimate.hours_on(found, 1) == pytest.approx(
        sum(row[8] for row in found)
    )


def test_the_total_in_the_docs(plan):
    """Figures and assumptions as the command prints them."""
    text = (Path(__file__).parents[1] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert estimate.closing(estimate.estimated(plan)) in text


@pytest.mark.parametrize(
    ("where", "told", "wanted"),
    [("Qwen/Qwen2.5-0.5B-Instruct", None, 0.5), ("a/Llama-3.1-8B", None, 8), ("a/LIMO", 32, 32), ("a/DeepSeek-R1-Distill-Qwen-7B", None, 7), ("a/x-4bit", 3.0, 3)],
)  # fmt: skip
def test_sizes(where, told, wanted):
    """As told, else as the name says."""
    assert estimate.size_b(ModelSpec(where, size_b=told)) == wanted


def test_no_size():
    """A size that nobody told is asked for."""
    with pytest.raises(CatalogError, match=r"LIMO: no size in its name.*add size_b = 7"):
        estimate.size_b(ModelSpec("GAIR/LIMO"))


def test_what_is_here(monkeypatch):
    """A folder is here; a Hub id that is not in the cache and a merge that is not made yet are not; a mistake is told by others."""
    specs = [ModelSpec(str(SMALL)), ModelSpec("org/name-7B"), ModelSpec("merges/a+b", size_b=7), ModelSpec("nowhere/or/else")]
    assert [estimate.here(spec) for spec in specs] == [True, False, False, True]


def test_dry_run_needs_no_network_and_no_torch(tmp_path):
    """In a process that can open no connection and import no torch: a line a run, totals and assumptions beside."""
    script = (
        "import socket, sys\n"
        "def refuse(*args, **kwargs): raise AssertionError('network')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "sys.modules['torch'] = sys.modules['transformers'] = sys.modules['datasets'] = None\n"
        "from collect.__main__ import main\n"
        f"sys.exit(main(['run', {str(PAPER)!r}, '--dry-run', '--out', {str(tmp_path / 'r')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = list(csv.DictReader(done.stdout.splitlines()))
    assert len(lines) == 11_958 and "11,958 runs of 44 models on 94 tasks" in done.stderr and "assumed: " in done.stderr
    assert not (tmp_path / "r").exists()
