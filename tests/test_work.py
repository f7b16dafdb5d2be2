"""Sharing work out: shards, the schedule of workers, storage by URL; on Ray itself in the slow tests."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from models import DEMO

from catalog import CatalogError, connect
from collect.__main__ import main
from collect.claims import FOLDER, claims
from collect.storage import Storage
from collect.work import Schedule, Shard, cost, shard_named, share

FOUR = ("small-base", "small-domain", "medium-base", "medium-domain")


@dataclass(frozen=True)
class Pass:
    """As much of a job as sharing needs."""

    name: str
    model: str
    n: int = 10
    decoding: str = "scored"
    protocols: tuple = ()
    located: object = field(default=None, compare=False)
    itemset: object = field(default=None, compare=False)


def passes(*models, n=4, items=10):
    """n passes of every model; each model weighs 1 (its folder holds nothing)."""
    return [
        Pass(f"{model}{at}", model, located=SimpleNamespace(model_id=model, folder=Path("/nowhere"), gguf=None),
             itemset=SimpleNamespace(items=[None] * items), protocols=(SimpleNamespace(decoding="scored", protocol_id="p", setting="s"),))
        for model in models for at in range(n)
    ]  # fmt: skip


def test_shares_are_whole_and_cut_along_models():
    """Every pass in exactly one share; with as many shares as models each loads one; more shares than passes leave some empty."""
    jobs = passes("a", "b", "c", "d")
    for n in (1, 2, 3, 4, 7, 40):
        shares = [share(jobs, Shard(i, n)) for i in range(1, n + 1)]
        assert sorted(job.name for mine in shares for job in mine) == sorted(job.name for job in jobs)
        assert share(reversed(jobs), Shard(1, n)) or n == 40
        if n == 4:
            assert [{job.model for job in mine} for mine in shares] == [{"a"}, {"b"}, {"c"}, {"d"}]
        if n == 2:
            assert [len({job.model for job in mine}) for mine in shares] == [2, 2]
    assert cost(jobs[0]) == 10


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3", "1/3x"])
def test_no_such_share(text):
    """Refused with an example."""
    with pytest.raises(CatalogError, match="wanted I/N with I from 1 to N, for example 3/8"):
        shard_named(text)


def test_shards_together_are_the_plan(tmp_path, capfd):
    """Three processes of a plan make what one makes, and nothing twice; a share is the same when the rest is collected."""
    models = [str(DEMO / "models" / name) for name in FOUR[:2]]
    command = ["run", "--models", *models, "--tasks", "world/provinces", "world/seas", "--limit", "3", "--out"]
    assert main([*command, str(tmp_path / "whole")]) == 0
    made = []
    for i in (1, 2, 3):
        before = set((tmp_path / "runs").glob("outcomes/*/*.parquet"))
        assert main([*command, str(tmp_path / "runs"), "--shard", f"{i}/3"]) == 0
        made.append(len(set((tmp_path / "runs").glob("outcomes/*/*.parquet")) - before))
    assert sum(made) == 8 and all(made)
    sql = "SELECT run_id, item, correct, predicted FROM outcomes ORDER BY ALL"
    assert connect(tmp_path / "runs").sql(sql).fetchall() == connect(tmp_path / "whole").sql(sql).fetchall()
    capfd.readouterr()
    assert main([*command, str(tmp_path / "runs"), "--shard", "2/3"]) == 0
    assert f"nothing to do: all {made[1]} runs" in capfd.readouterr().err
    assert main([*command, "s3://bucket/runs"]) == 1
    assert "only --ray writes to a URL" in capfd.readouterr().err


def drained(schedule, workers, fault=lambda number, item: None):
    """What each of some workers is given in turn, until nothing waits."""
    given = []
    for turn in range(1000):
        number = turn % workers
        item = schedule.next(number)
        if item is None and not any(schedule.waiting.values()):
            return given
        if item is None:
            continue
        given.append((number, [job.name for job in item.jobs]))
        if why := fault(number, item):
            schedule.failed(item, why)
            schedule.lost(number)
    raise AssertionError("the schedule never ends")


def test_a_worker_keeps_its_model():
    """As many loads as models, where workers are few; a worker without work of its own joins where most is left."""
    schedule = Schedule()
    schedule.add([job] for job in passes("a", "b", "c", "d"))
    given = drained(schedule, 2)
    assert len(given) == 16 and schedule.n_loads == 4
    schedule = Schedule()
    schedule.add([job] for job in passes("a", n=20) + passes("b", n=2))
    given = drained(schedule, 2)
    assert [number for number, names in given if names[0][0] == "a"].count(1) == 10 and schedule.n_loads <= 4


def test_what_fails_twice_is_set_aside_alone():
    """A poisoned pass of a group is found alone; its group's other passes, and all others, are done once more and no more."""
    schedule = Schedule()
    jobs = passes("a", "b")
    schedule.add([jobs[:4], jobs[4:]])
    given = drained(schedule, 2, lambda number, item: "Traceback: poison" if any(job.name == "a2" for job in item.jobs) else None)
    assert [(job.name, why) for job, why in schedule.set_aside] == [("a2", "Traceback: poison")]
    names = [name for _, group in given for name in group]
    assert {name: names.count(name) for name in names} == {
        **dict.fromkeys(("a0", "a1", "a2", "a3"), 2),
        **dict.fromkeys(("b0", "b1", "b2", "b3"), 1),
    }


def test_a_lost_worker_is_no_poison():
    """What was lost once is collected elsewhere; nothing is set aside."""
    schedule, lost = Schedule(), []
    schedule.add([job] for job in passes("a", "b"))
    drained(schedule, 2, lambda number, item: lost.append(item) or "its worker was lost" if number == 1 and not lost else None)
    assert len(lost) == 1 and not schedule.set_aside


def test_storage_by_url(tmp_path):
    """Files appear whole under their names, outcomes last; item lists are not sent twice; a folder is written in place."""
    there = Storage("memory://bucket/runs")
    order, put = [], there.fs.put_file
    there.fs.put_file = lambda source, target, **more: order.append(target) or put(source, target, **more)
    try:
        for _ in range(2):
            with there.folder() as folder:
                for name in ("outcomes/m/1.parquet", "samples/i.parquet", ".collecting/1.jsonl", "generations/m/1.parquet"):
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    (folder / name).write_text(name)
        assert [name.partition("runs/")[2] for name in order] == [
            "generations/m/1.parquet.part", "samples/i.parquet.part", "outcomes/m/1.parquet.part",
            "generations/m/1.parquet.part", "outcomes/m/1.parquet.part",
        ]  # fmt: skip
        assert there.has("outcomes/m/1.parquet") and not there.has("outcomes/m/1.parquet.part") and not there.has(".collecting/1.jsonl")
        there.fetch("samples/i.parquet", tmp_path)
        assert (tmp_path / "samples" / "i.parquet").read_text() == "samples/i.parquet"
        assert there.note("set-aside/7.txt", "why") == "memory://bucket/runs/set-aside/7.txt" and there.has("set-aside/7.txt")
    finally:
        del there.fs.put_file
    here = Storage(str(tmp_path))
    with here.folder() as folder:
        assert folder == tmp_path
    with pytest.raises(CatalogError, match="cannot be reached"):
        Storage("nowhere://bucket")


def test_without_ray(monkeypatch, capfd):
    """--ray says what to install; it wants no --shard."""
    monkeypatch.setitem(sys.modules, "ray", None)
    command = ["run", "--models", str(DEMO / "models" / "small-base"), "--ray"]
    assert main(command) == 1
    assert "--ray needs ray, which is not installed: pip install 'forgetting-catalog[ray]'" in capfd.readouterr().err
    assert main([*command, "--shard", "1/2"]) == 1
    assert "--ray shares the work out itself" in capfd.readouterr().err


PLAN = """
tasks = ["world/provinces", "world/seas", "world/stars", "world/remedies"]
limit = {limit}
{models}
[[protocols]]
style = "option-text"
[[protocols]]
style = "cot"
replicates = 3
max_new_tokens = 80
"""


def plan_file(folder, models, limit):
    """A plan of model folders."""
    path = folder / "plan.toml"
    listed = "".join(f'[[models]]\npath = "{model}"\n' for model in models)
    path.write_text(PLAN.format(models=listed, limit=limit))
    return path


def on_ray(plan, out):
    """`collect run` on two workers of a Ray of its own."""
    pytest.importorskip("ray")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "RAY_agent_register_timeout_ms": "120000", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "collect", "run", str(plan), "--out", str(out), "--ray", "--workers", "2"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)


def killed_in_the_middle(process, out):
    """Kill a worker that has noted a few results. Returns what it was at."""
    until = time.monotonic() + 150  # Ray takes its time on a busy machine
    while time.monotonic() < until:
        for entry in claims(out) if (out / FOLDER).exists() else []:
            if entry["state"] == "running" and entry["n_results"] >= 3:
                os.kill(entry["pid"], signal.SIGKILL)
                return entry
        assert process.poll() is None
        time.sleep(0.05)
    raise AssertionError("no worker was seen at work")


def rows(out):
    """What was measured."""
    return connect(out).sql("SELECT run_id, item, correct, predicted, CAST(status AS VARCHAR) FROM outcomes ORDER BY ALL").fetchall()


@pytest.mark.slow
def test_a_worker_killed_in_the_middle(tmp_path):
    """The run is taken up elsewhere, and comes out as one process alone would have it; the driver's own memory holds no outcome."""
    plan, out = plan_file(tmp_path, [DEMO / "models" / name for name in FOUR[:2]], 40), tmp_path / "runs"
    process = on_ray(plan, out)
    killed = killed_in_the_middle(process, out)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert re.search(rf"worker \d was lost at \d+ runs of {re.escape(killed['model_id'])}: tried again", said)
    assert not (out / FOLDER).exists() and not (out / "set-aside").exists()
    assert main(["run", str(plan), "--out", str(tmp_path / "alone")]) == 0
    assert rows(out) == rows(tmp_path / "alone")


@pytest.mark.slow
def test_a_poisoned_run_is_set_aside(tmp_path):
    """Weights that do not load: two tries, then a file with the traceback; the other model is done. To a URL. Exit status 1."""
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in (DEMO / "models" / "small-base").iterdir():
        (broken / path.name).write_bytes(path.read_bytes()[: 300_000 if path.suffix == ".safetensors" else None])
    plan, out = plan_file(tmp_path, [broken, DEMO / "models" / "small-domain"], 4), tmp_path / "runs"
    process = on_ray(plan, out.as_uri())
    _, said = process.communicate(timeout=300)
    assert process.returncode == 1 and "runs were set aside: their tracebacks are in" in said, said
    files = list((out / "set-aside").glob("*.txt"))
    assert len(files) == 4 * (1 + 3) and all("SafetensorError" in path.read_text() for path in files)
    found = connect(out).sql("SELECT DISTINCT model_id FROM runs").fetchall()
    assert [name.split("@")[0] for (name,) in found] == ["local/small-domain"] and not list(out.rglob("*.part"))
    assert json.dumps(claims(out)) == "[]"
