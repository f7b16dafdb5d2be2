"""Nothing twice, nothing lost: claims of passes, kills at any moment, what `collect status` and a dry run say."""

import errno
import json
import random
import signal
import subprocess
import sys
import time

import pytest
from models import DEMO

from catalog import CatalogError, connect
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
    monkeypatch.setattr(TransformersEngine, "score", lambda self, r, a, keep=None: asked.append(len(r)) or real(self, r, a, keep))
    assert run(out) == 0
    assert asked == [5] and same(out, tmp_path / "whole") and not (out / FOLDER).exists()
    assert main(["status", str(out)]) == 0
    assert "option-text-sum,2,0,0,0" in capfd.readouterr().out


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


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
    """kill -9 at 20 random moments, two collectors at once in between: as uninterrupted, nothing twice."""
    command = [sys.executable, "-m", "collect", "run", str(DEMO / "demo.toml"), "--limit", "12", "--out"]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, stderr=subprocess.DEVNULL)
    out, rng = tmp_path / "runs", random.Random(0)
    for number in range(20):
        both = [subprocess.Popen([*command, str(out)], stderr=subprocess.DEVNULL) for _ in range(1 + number % 2)]
        time.sleep(rng.uniform(4, 14))
        for process in both:
            process.send_signal(signal.SIGKILL)
            process.wait()
        if list(out.glob("outcomes/*/*.parquet")):
            connect(out)
    subprocess.run([*command, str(out)], check=True, stderr=subprocess.DEVNULL)
    again = subprocess.run([*command, str(out)], check=True, capture_output=True, text=True)
    assert "nothing to do" in again.stderr and json.dumps(claims(out)) == "[]"
    assert same(out, tmp_path / "whole")
