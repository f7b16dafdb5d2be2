"""Nothing twice, nothing lost: claims of passes, kills at any moment, what `collect status` and a dry run say."""

import errno
import json
import subprocess
import sys

import pytest
from models import DEMO

from catalog import CatalogError, connect
from catalog.identity import itemset_id_of
from collect.__main__ import main
from collect.claims import FOLDER, Claim, claim, claims
from collect.engines.transformers import TransformersEngine

SMALL = DEMO / "models" / "small-base"
HEADER = {"model_id": "m", "task_id": "t/main", "itemset_id": "i", "settings": ["s"], "replicate": 0, "n_items": 3, "conditions": ["1"]}


def run(out, *more):
    """`collect run` of two passes."""
    return main(["run", "--models", str(SMALL), "--limit", "4", "--tasks", "world/provinces", "world/seas", "--out", str(out), *more])


def same(a, b):
    """Equal outcomes and texts; scores equal but for rounding, which depends on what stands in a batch."""
    for table in ("outcomes", "generations"):
        assert rows(a, table) == rows(b, table)
    for (*key, scores), (*wanted, known) in zip(rows(a, "option_scores"), rows(b, "option_scores"), strict=True):
        assert key == wanted and scores == pytest.approx(known, abs=1e-4)
    return True


def rows(out, table):
    """What was measured, whenever and by whom."""
    return connect(out).sql(f"FROM {table} ORDER BY ALL").fetchall() if list(out.glob(f"{table}/*/*.parquet")) else []


def test_a_claim_is_held_noted_and_taken_up(tmp_path):
    """One holder at a time; its results stay when it ends, a torn line and other conditions count for nothing."""
    with pytest.raises(ValueError, match="a bug"), claim(tmp_path, "7", HEADER) as mine:
        assert claim(tmp_path, "7", HEADER) is None and claims(tmp_path)[0]["state"] == "running"
        mine.keep(0, [[-1.5], 3, None])
        raise ValueError("a bug")
    [left] = claims(tmp_path)
    assert (left["state"], left["failed"], left["n_results"]) == ("failed", "a bug", 1)
    with (tmp_path / FOLDER / "7.jsonl").open("a") as file:
        file.write("[1, [[-2.")
    with claim(tmp_path, "7", HEADER) as again:
        assert again.results == {0: [[-1.5], 3, None]}
        again.done()
    assert not claims(tmp_path)
    with claim(tmp_path, "7", HEADER) as mine:
        mine.keep(0, [])
    with claim(tmp_path, "7", {**HEADER, "conditions": ["2"]}) as other:
        assert other.results == {}


def test_interrupted_inside_a_pass_goes_on(tmp_path, monkeypatch, capfd):
    """The items that were answered are not asked again, and all comes out as uninterrupted; status says what happened."""
    assert run(tmp_path / "whole") == 0
    out, real, asked = tmp_path / "runs", TransformersEngine.score, []

    def halfway(self, requests, advance, keep=None):
        real(self, requests[:3], advance, keep)
        raise CatalogError("the cable was pulled")

    monkeypatch.setattr(TransformersEngine, "score", halfway)
    assert run(out) == 1
    plan = tmp_path / "p.toml"
    plan.write_text(f'tasks = ["world/provinces", "world/seas", "world/stars"]\nlimit = 4\n[[models]]\npath = "{SMALL}"\n')
    capfd.readouterr()
    assert main(["status", str(out), str(plan)]) == 0
    said = capfd.readouterr()
    assert "option-text-sum,0,0,2," in said.out and "the cable was pulled; 3 of 4 items are kept" in said.err
    assert "0 of 6 runs done, 4 failed, 2 missing; the same `collect run` goes on" in said.err
    monkeypatch.setattr(TransformersEngine, "score", lambda self, r, a, keep=None: asked.append(len(r)) or real(self, r, a, keep))
    assert run(out) == 0
    assert asked == [5] and same(out, tmp_path / "whole") and not (out / FOLDER).exists()
    assert main(["status", str(out)]) == 0
    assert "option-text-sum,2,0,0,0" in capfd.readouterr().out


def test_killed_at_the_last_step(tmp_path, monkeypatch, capfd):
    """Runs are whole, their claim is still there: done, not failed; the next call sweeps it away."""
    with monkeypatch.context() as context:
        context.setattr(Claim, "done", lambda self: None)
        assert run(tmp_path) == 0
    assert len(claims(tmp_path)) == 2
    capfd.readouterr()
    assert main(["status", str(tmp_path)]) == 0
    said = capfd.readouterr()
    assert "option-text-sum,2,0,0,0" in said.out and said.err == "4 of 4 runs done\n"
    assert run(tmp_path) == 0 and not (tmp_path / FOLDER).exists()


def test_killed_while_writing(tmp_path):
    """Half a file of a run: the run is written anew, the half is swept away."""
    assert run(tmp_path) == 0
    first, *_ = tmp_path.glob("outcomes/*/*.parquet")
    half = first.rename(f"{first}.7.part")
    assert run(tmp_path) == 0 and first.exists() and not half.exists()


def test_a_pass_that_another_process_holds_is_left_to_it(tmp_path, monkeypatch, capfd):
    """Never the same run twice; the rest is done, and what is missing is said."""
    out, names = tmp_path / "runs", []
    with monkeypatch.context() as context:
        context.setattr("collect.passes.claim", lambda out, name, header: names.append(name))
        assert run(out) == 0
    assert "4 runs are being collected by another process" in capfd.readouterr().err and len(names) == 2
    with claim(out, names[0], HEADER):
        assert run(out) == 0
        assert "2 runs are being collected by another process" in capfd.readouterr().err
        assert len(list(out.glob("outcomes/*/*.parquet"))) == 2
    assert run(out) == 0 and len(list(out.glob("outcomes/*/*.parquet"))) == 4


class Disk:
    """A file on a disk with room for so many lines, shared with other files; half of the next one still fits."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def __getattr__(self, name):
        return getattr(self.file, name)

    def write(self, data):
        self.room[0] -= 1
        self.file.write(data if self.room[0] >= 0 else data[: len(data) // 2] if self.room[0] == -1 else b"")
        self.file.flush()
        if self.room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")


def test_full_disk_while_noting(tmp_path, monkeypatch, capfd):
    """No room for a result: refused, what was noted stays, also when there is still no room; with room the rest is asked."""
    out, init, real, asked = tmp_path / "runs", Claim.__init__, TransformersEngine.score, []
    monkeypatch.setattr(TransformersEngine, "score", lambda self, r, a, keep=None: asked.append(len(r)) or real(self, r, a, keep))
    for room in ([2 + 3], [0]):  # for the headers of two passes and three results; for nothing
        monkeypatch.setattr(Claim, "__init__", lambda self, path, file, header, room=room: init(self, path, Disk(file, room), header))
        assert run(out) == 1
        assert "the disk is full. Nothing is half-written; make room" in capfd.readouterr().err and not list(out.rglob("*.parquet"))
    kept = sum(entry["n_results"] for entry in claims(out))
    monkeypatch.setattr(Claim, "__init__", init)
    assert run(out) == 0 and run(tmp_path / "whole") == 0
    assert asked == [8, 5, 8] and kept == 3 and same(out, tmp_path / "whole")


def test_dry_run_writes_nothing(tmp_path, capfd):
    """Runs, items, tokens, time, memory of each way of asking."""
    assert run(tmp_path / "runs", "--dry-run", "--protocol", "option-text", "cot", "--max-new-tokens", "5") == 0
    header, *lines = [line.split(",") for line in capfd.readouterr().out.splitlines()]
    assert header == ["model", "setting", "runs", "items", "tokens", "minutes", "memory_mb"] and len(lines) == 2
    assert not (tmp_path / "runs").exists()


def test_no_work_grows_with_the_square_of_the_items(tmp_path, monkeypatch):
    """A list of items is hashed once, not for every item of it."""
    hashed = []
    monkeypatch.setattr("catalog.items.itemset_id_of", lambda task, keys: hashed.append(task) or itemset_id_of(task, keys))
    assert run(tmp_path, "--protocol", "option-text", "cot", "--max-new-tokens", "2") == 0
    assert sorted(hashed) == ["world/provinces", "world/seas"]


# Imports once, then a fork for every try: a process of its own, which is killed while it works, not while it starts.
KILLER = """
import json, os, random, shutil, signal, sys, time
import collect.engines.transformers, collect.run, transformers.models.llama.modeling_llama
from collect.__main__ import main

def start(out):
    if not (pid := os.fork()):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os._exit(main([*sys.argv[3:], "--out", out]))
    return pid

began, rng = time.monotonic(), random.Random(0)
assert os.waitpid(start(sys.argv[1]), 0)[1] == 0
whole = time.monotonic() - began
kills = number = 0
while kills < 20 and number < 60:
    started = [start(sys.argv[2]) for _ in range(1 + number % 2)]
    time.sleep(rng.uniform(0.02, 0.15) * whole)
    for pid in started:
        os.kill(pid, signal.SIGKILL)
    ends = [os.WTERMSIG(os.waitpid(pid, 0)[1]) for pid in started]
    kills, number = kills + (signal.SIGKILL in ends), number + 1
    print(json.dumps([signal.SIGKILL in ends, sum(len(files) for *_, files in os.walk(sys.argv[2] + "/outcomes"))]))
    if signal.SIGKILL not in ends:  # all was whole before: again from the beginning
        shutil.rmtree(sys.argv[2] + "/outcomes")
"""


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
    """kill -9 at 20 random moments, every other time of two collectors at once: as uninterrupted, row for row, nothing twice.

    Options are scored and text is drawn. Each kill finds a process at work, and runs become whole in between.
    """
    plan, whole, out = tmp_path / "plan.toml", tmp_path / "whole", tmp_path / "runs"
    models = [f'[[models]]\npath = "{DEMO}/models/{name}"\n' for name in ("small-base", "small-instruct", "small-domain")]
    protocols = '[[protocols]]\nstyle = "option-text"\n[[protocols]]\nstyle = "cot"\nreplicates = 2\nmax_new_tokens = 60\n'
    plan.write_text("limit = 40\n" + "".join(models) + protocols)
    command = ["run", str(plan)]
    killed = subprocess.run([sys.executable, "-c", KILLER, str(whole), str(out), *command], check=True, capture_output=True, text=True)
    at_work, done = zip(*map(json.loads, killed.stdout.splitlines()), strict=True)
    assert sum(at_work) == 20 and len(set(done)) > 3, killed.stdout
    assert main([*command, "--out", str(out)]) == 0
    assert rows(out, "outcomes") and rows(out, "generations") and same(out, whole) and not claims(out)
    assert {p.relative_to(out) for p in out.rglob("*.parquet")} == {p.relative_to(whole) for p in whole.rglob("*.parquet")}
    assert not [p for p in out.rglob("*.part") if p.parent.name != "samples"]  # those may be another process's
