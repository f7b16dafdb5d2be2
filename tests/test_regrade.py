"""`collect regrade`: kept answers read by other rules, nothing lost when killed."""

import csv
import io
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from catalog import connect
from collect.__main__ import main
from collect.config import SHIPPED_ITEMS, Plan
from collect.engines import Generated
from collect.models import ModelSpec
from collect.protocols import Ask, Protocol
from collect.regrade import text_file, was_finished
from collect.run import collect
from collect.store import read_card, write_table

SAID = ("The answer is 7.", "Antwort: 9", "The answer is 8 or 9", "<think>The answer is 3</think> so", "", "(B)", "The answer is (B)")


class Speaker:
    """An engine that says one of a few things, by the seed of the request."""

    name, hardware, dtype, has_template, chat_template_sha256 = "speaker", "none", "float32", False, None

    def n_params(self):
        return 1

    def generate(self, requests, sampling, advance, keep):
        for at, request in enumerate(requests):
            text = SAID[request.seed % len(SAID)]
            keep(at, Generated(text, len(text.split()), True))
            advance(1)


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """Four runs read by the first rules, and the same ones collected with the second."""
    folder = tmp_path_factory.mktemp("collected")
    for version in ("1", "2"):
        ask = Ask("cot", max_new_tokens=12, replicates=2, option_order="shuffled", extraction=version)
        model = ModelSpec(str(SHIPPED_ITEMS.parent / "models" / "small-base"))
        plan = Plan([model], [ask], tasks=["world/provinces", "world/sums"], limit=5)
        assert collect(plan, folder / version, lambda located: Speaker(), Console(file=io.StringIO()))[0] == 4
    return folder


@pytest.fixture
def runs(collected, tmp_path):
    """A copy of the runs read by the first rules."""
    return shutil.copytree(collected / "1", tmp_path / "runs")


def content(folder):
    """Everything the files say of their runs but when they were collected."""
    found = {str(p.relative_to(folder)): pq.read_table(p).to_pylist() for p in folder.rglob("*.parquet")}
    cards = [read_card(p) for p in sorted(folder.glob("outcomes/*/*.parquet"))]
    return found, [({k: v for k, v in c["runs"][0].items() if k not in ("collected_at", "wall_s")}, c["protocols"]) for c in cards]


def say(runs, **texts):
    """Put these texts (item -> text) into one run of sums, and 'no idea' everywhere else."""
    for path in runs.glob("outcomes/*/*.parquet"):
        card = read_card(path)
        mine = texts if (card["itemsets"][0]["task_id"], card["runs"][0]["replicate"]) == ("world/sums", 0) else {}
        file = text_file(runs, card)
        rows = [{**row, "text": mine.get(f"item{row['item']}", "no idea")} for row in pq.read_table(file).to_pylist()]
        write_table(file, "generations", rows)


def table(text):
    """Printed CSV without its heading."""
    return list(csv.reader(io.StringIO(text)))[1:]


def test_same_as_collected_with_these_rules(collected, runs, capfd):
    """The rules have no part in what is drawn: read again, runs are those that the new rules would have collected; and back."""
    assert main(["regrade", str(runs)]) == 0
    assert "4 runs read by rules 2" in capfd.readouterr().err
    assert content(runs) == content(collected / "2") != content(collected / "1")
    assert main(["regrade", str(runs), "--rules", "1"]) == 0
    assert content(runs) == content(collected / "1")


def test_counts_and_dry_run(runs, capfd):
    """What changed is counted by status before and after; a dry run counts the same and touches nothing."""
    gold = dict(
        connect(runs).sql("SELECT item, gold[1] FROM samples JOIN itemsets USING (itemset_id) WHERE task_id = 'world/sums'").fetchall()
    )
    say(runs, item0="<think>The answer is 1</think> none", item1=f"Antwort: {gold[1]}", item2=f"The answer is {gold[2]} or 99", item3="")
    assert main(["regrade", str(runs), "--rules", "1"]) == 0  # what the first rules make of these
    capfd.readouterr()
    before = {path: path.read_bytes() for path in runs.rglob("*.parquet")}
    assert main(["regrade", str(runs), "--dry-run"]) == 0
    shown = capfd.readouterr()
    assert {path: path.read_bytes() for path in runs.rglob("*.parquet")} == before and "nothing was written" in shown.err
    rows = {tuple(row[:3]): list(map(int, row[3:])) for row in table(shown.out)}
    # item 0: read in its thought, now not read; item 2: the first number right, now two answers; item 1: guessed, now stated
    assert rows == {
        ("cot", "ok", "unparsed"): [2, 0, 1, 0],
        ("cot", "lenient", "ok"): [1, 0, 0, 0],
        ("cot", "unparsed", "unparsed"): [17, 0, 0, 0],
    }
    assert main(["regrade", str(runs)]) == 0
    assert table(capfd.readouterr().out) == table(shown.out)
    reasons = connect(runs).sql("SELECT DISTINCT reason FROM outcomes WHERE status = 'unparsed'").fetchall()
    assert {("two answers",), ("empty answer",)} <= set(reasons)


def test_killed(collected, tmp_path, monkeypatch):
    """Stopped before any of its steps: every answer is there with its grade; the same command ends the work."""
    texts = sorted(
        (row["item"], row["text"]) for p in (collected / "1").rglob("generations/*/*.parquet") for row in pq.read_table(p).to_pylist()
    )
    for step in range(8):  # the first two of four runs: text, outcomes, the old outcomes, the old text
        runs, steps = shutil.copytree(collected / "1", tmp_path / str(step)), []

        def stop_at(real, step=step, steps=steps):
            def call(path, *args, **kwargs):
                if ".part" not in path.name:
                    if len(steps) == step:
                        raise KeyboardInterrupt
                    steps.append(path)
                return real(path, *args, **kwargs)

            return call

        with monkeypatch.context() as patch:
            patch.setattr("collect.store.write_table", stop_at(write_table))
            patch.setattr(Path, "unlink", stop_at(Path.unlink))
            assert main(["regrade", str(runs)]) == 130
        whole = {p.name: p for p in runs.glob("outcomes/*/*.parquet")}
        kept = {(read_card(p)["runs"][0]["itemset_id"], read_card(p)["runs"][0]["replicate"]): p.name for p in whole.values()}
        left = [row for name in kept.values() for row in pq.read_table(next(runs.glob(f"generations/*/{name}"))).to_pylist()]
        assert sorted((row["item"], row["text"]) for row in left) == texts
        if step == 2:
            assert len(whole) == len(kept) + 1
            connect(runs)  # sound with both readings of a run
        assert main(["regrade", str(runs)]) == 0
        assert content(runs) == content(collected / "2")


def test_side_by_side(runs, capfd):
    """Under a name of its own the new reading stands beside the old one; the same name for other rules is refused."""
    assert main(["regrade", str(runs), "--setting", "cot by rules 2"]) == 0
    found = (
        connect(runs)
        .sql("SELECT setting, extraction, count(*) FROM runs JOIN protocols USING (protocol_id) GROUP BY ALL ORDER BY ALL")
        .fetchall()
    )
    assert found == [("cot", "1", 4), ("cot by rules 2", "2", 4)]
    capfd.readouterr()
    assert main(["regrade", str(runs)]) == 1
    assert "read by the same rules and called 'cot by rules 2', not 'cot'" in capfd.readouterr().err


def test_what_cannot_be_read_again(collected, tmp_path, runs, capfd):
    """Without the items, without texts, without generations: said, and nothing is written."""
    other = tmp_path / "other.jsonl"
    other.write_text('{"task": "t", "item_id": "1", "question": "q", "choices": ["a", "b"], "answer_index": 0}\n')
    before = content(runs)
    assert main(["regrade", str(runs), "--items", str(other)]) == 1
    assert "5 of 5 items of world/" in capfd.readouterr().err and content(runs) == before
    shutil.rmtree(runs / "generations")
    assert main(["regrade", str(runs)]) == 1
    assert "no generated text to read again" in (said := capfd.readouterr().err) and "4 runs come without their texts" in said
    assert main(["regrade", str(tmp_path / "nowhere")]) == 1
    assert "found no run" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("status", "reason", "n_tokens", "finished"),
    [("truncated", None, 12, False), ("unparsed", None, 12, True), ("unparsed", "two answers", 12, False), ("ok", "answer-is", 12, False),
     ("ok", "answer-is", 11, True), ("lenient", "last-line", 12, True)],
)  # fmt: skip
def test_whether_it_was_finished(status, reason, n_tokens, finished):
    """What an outcome tells of how its text ended."""
    assert (
        was_finished(Protocol("cot", "letters", max_new_tokens=12), {"status": status, "reason": reason, "n_tokens": n_tokens}) is finished
    )
