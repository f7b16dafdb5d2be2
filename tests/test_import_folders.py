"""Whole folders: many files at once, bad ones among them, imported twice, by several processes, through the command line."""

import csv
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from logs_by_hand import corrects, lm_log, lm_row, load, write_lines
from rich.console import Console

from catalog import connect
from catalog.errors import CatalogError
from collect.__main__ import main
from collect.import_logs import import_logs
from collect.importers import Told
from collect.pair import declare, warnings_of

LOGS = Path(__file__).parent / "logs"


def collect(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The command as a user types it."""
    return subprocess.run([sys.executable, "-m", "collect", *map(str, arguments)], capture_output=True, text=True, check=False)


def folder_of_all_kinds(root: Path) -> Path:
    """Good logs, a bad one, an empty one, a copy under another name, summaries and other files."""
    for n, model in enumerate(("a", "b", "c")):
        lm_log(root / model, [lm_row(i, float(i % (n + 2) > 0), None) for i in range(10)], model=f"org/{model}")
    shutil.copytree(root / "a", root / "copy of a")
    write_lines(root / "bad" / "samples_quiz_2026-01-02T03-04-05.000006.jsonl", [lm_row(0)])
    with (root / "bad" / "samples_quiz_2026-01-02T03-04-05.000006.jsonl").open("a") as file:
        file.write("{half a rec")
    (root / "empty.jsonl").touch()
    (root / "notes.md").write_text("# notes")
    (root / ".hidden.jsonl").write_text("{}")
    (root / "numbers.csv").write_text("a,b\n1,2\n")
    return root


def test_a_folder_goes_on_after_a_bad_file(tmp_path):
    """Good files are in, bad ones refused by name, what is no log skipped with a reason; the exit status is 1."""
    done = collect("import", folder_of_all_kinds(tmp_path / "logs"), "--out", tmp_path / "out", "--jobs", "2")
    assert done.returncode == 1, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [(r["format"], r["model"][:5], r["setting"], r["items"], r["new"], r["already_there"]) for r in rows] == [
        ("lm-eval", "org/a", "acc", "20", "1", "1"), ("lm-eval", "org/b", "acc", "10", "1", "0"), ("lm-eval", "org/c", "acc", "10", "1", "0")]  # fmt: skip
    said = done.stderr
    assert "refused: samples_quiz_2026-01-02T03-04-05.000006.jsonl:2: cut off in the middle (a killed run?): {half a rec" in said
    assert "refused: empty.jsonl is empty" in said and "skipped: .md: not a suffix of logs" in said
    assert "a results file" not in said
    assert "skipped: a table without a column that says right or wrong, or that tells items apart (columns: a, b)" in said
    assert (
        "4 files imported (4 lm-eval), 4 files read along, 2 files skipped, 2 files refused; 3 new runs" in said and ".hidden" not in said
    )
    assert not list((tmp_path / "out").glob(".importing*"))
    assert connect(tmp_path / "out").sql("SELECT count(*) FROM runs").fetchall() == [(3,)]


def test_twice_adds_nothing(tmp_path):
    """The same folder again, by several processes or one: not a byte changes, and everything was there."""
    root = folder_of_all_kinds(tmp_path / "logs")
    load(tmp_path / "out", root)
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in (tmp_path / "out").rglob("*.parquet")}
    results = import_logs([root], tmp_path / "out", Told(), Console(quiet=True), jobs=2)
    assert {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in (tmp_path / "out").rglob("*.parquet")} == before
    assert sum(len(r.new) for r in results) == 0
    import_logs([root], tmp_path / "other", Told(), Console(quiet=True), jobs=2)
    assert {p.relative_to(tmp_path / "other"): p.read_bytes() for p in (tmp_path / "other").rglob("*.parquet")} == {
        p.relative_to(tmp_path / "out"): content for p, (_, content) in before.items()}  # fmt: skip


def test_a_second_sampling_is_a_conflict_until_numbered(tmp_path):
    """Same model, items and protocol, other outcomes: named with both files; --replicate takes it, and pairs by number."""
    for name, rights in (("a", (1.0, 0.0)), ("b", (1.0, 1.0))):
        lm_log(tmp_path / name, [lm_row(n, None, None, metrics=["exact_match"], exact_match=right, doc={"q": n}, target="x", resps=[["x"]], filtered_resps=["x"],
               arguments={"gen_args_0": {"arg_0": "p", "arg_1": {"do_sample": True}}}) for n, right in enumerate(rights)])  # fmt: skip
    load(tmp_path / "out", tmp_path / "a")
    _, refused = load(tmp_path / "out", tmp_path / "b")
    assert refused.state == "refused" and "exact_match, replicate 0: 1 of 2 outcomes differ (from lm-eval: samples_quiz" in refused.reason
    assert corrects(tmp_path / "out") == [True, False]
    load(tmp_path / "out", tmp_path / "b", replicate=1)
    assert corrects(tmp_path / "out") == [True, False, True, True]


def test_little_overlap_is_warned_about_and_none_refused(tmp_path):
    """`collect pair` tells how many items match by which scheme; 20 of 60 is a warning, other items are refused."""
    load(
        tmp_path / "out",
        lm_log(tmp_path / "a", [lm_row(n) for n in range(60)], model="org/a"),
        lm_log(tmp_path / "b", [lm_row(n) for n in range(20)], model="org/b"),
    )
    pair, matches = declare(tmp_path / "out", "a", "b", {"regime": "Instruction Tuning", "data_examples": 7})
    assert pair["pair_id"] == "a -> b" and [(m["scheme"], m["n_before"], m["n_after"], m["n_common"]) for m in matches] == [
        ("doc", 60, 20, 20)
    ]
    assert warnings_of(matches) == ["acc, quiz/main: only 20 items match of 60 before and 20 after (doc)"]
    declare(tmp_path / "out", "a", "b", {"regime": "Instruction Tuning"})  # again: replaced
    assert connect(tmp_path / "out").sql("SELECT pair_id, regime FROM pairs").fetchall() == [("a -> b", "Instruction Tuning")]
    load(tmp_path / "out", lm_log(tmp_path / "c", [lm_row(n, doc={"other": n}) for n in range(20)], model="org/c"))
    with pytest.raises(
        CatalogError,
        match=r"cannot be paired: quiz/main .acc.: 0 items in common of 60 and 20: 20 ids are the same, but the logged rows differ",
    ):
        declare(tmp_path / "out", "a", "c", {})
    load(tmp_path / "out", lm_log(tmp_path / "d", [lm_row(n) for n in range(20)], task="exam", model="org/d"))
    with pytest.raises(CatalogError, match="they share no task under one setting"):
        declare(tmp_path / "out", "a", "d", {})
    with pytest.raises(CatalogError, match="are the same model"):
        declare(tmp_path / "out", "a", "a", {})
    with pytest.raises(CatalogError, match="is another one already"):
        declare(tmp_path / "out", "b", "a", {"pair_id": "a -> b"})


def test_other_golds_are_said(tmp_path):
    """The same free-form document graded against another target still pairs, and the import says so."""
    logs = {}
    for name in ("x", "y"):
        rows = [
            lm_row(n, None, None, metrics=["exact_match"], exact_match=1.0, doc={"q": n}, target=name, resps=[["x"]], filtered_resps=["x"])
            for n in range(3)
        ]
        (logs[name],) = load(tmp_path / "out", lm_log(tmp_path / name, rows, model=f"org/{name}"))
    assert logs["x"].notes == [] and logs["y"].notes == [
        "quiz/main: 3 items have another gold here than in the logs before; theirs is kept"
    ]
    con = connect(tmp_path / "out")
    assert con.sql(
        "SELECT n_common FROM item_matches((SELECT min(model_id) FROM models), (SELECT max(model_id) FROM models))"
    ).fetchall() == [(3,)]


def test_asked_differently_is_said(tmp_path):
    """25 examples without a template against none with one, and another task of the same documents: compared, and said."""
    from catalog.compare import warnings_of as compare_warnings

    for name, shots, template in (("a", 25, None), ("b", 0, "{{ x }}")):
        results = {
            "configs": {"arc_easy": {}},
            "n-shot": {"arc_easy": shots},
            "chat_template": template,
            "config": {"model_args": f"pretrained=org/{name}", "model_sha": "a" * 40},
        }
        load(tmp_path / "out", lm_log(tmp_path / name, [lm_row(n) for n in range(3)], task="arc_easy", results=results))
    con = connect(tmp_path / "out")
    said = compare_warnings(con, "org/a@" + "a" * 40, "org/b@" + "a" * 40)
    assert said == ["acc, 1 task: not asked alike: shots 25 before, 0 after; template none before, model after"]


@pytest.mark.slow
def test_a_killed_import_leaves_nobody_and_nothing(tmp_path):
    """kill -9 of the command: its workers end by themselves, and the next import removes what it left."""
    import signal
    import time

    for n in range(6):
        lm_log(tmp_path / "logs" / str(n), [lm_row(i, note="x" * 2000) for i in range(6000)], model=f"org/m{n}")
    command = [sys.executable, "-m", "collect", "import", str(tmp_path / "logs"), "--out", str(tmp_path / "out"), "--jobs", "2"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        while not list((tmp_path / "out").glob(".importing-*/*")):
            time.sleep(0.05)
        children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False).stdout.split()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    deadline = time.time() + 30
    while (
        any(Path(f"/proc/{pid}").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text() for pid in children)
        and time.time() < deadline
    ):
        time.sleep(0.2)
    assert children and time.time() < deadline
    assert list((tmp_path / "out").iterdir())
    done = collect("import", tmp_path / "logs", "--out", tmp_path / "out")
    assert done.returncode == 0 and not list((tmp_path / "out").glob(".importing-*"))
    assert connect(tmp_path / "out").sql("SELECT count(*) FROM runs").fetchall() == [(6,)]


def test_errors_of_the_command(tmp_path, capsys):
    """One line, what was wanted, what was found, what to type next."""
    assert main(["import", str(tmp_path / "nowhere"), "--out", str(tmp_path / "out")]) == 1
    assert f"error: no log at {tmp_path / 'nowhere'}: wanted a file or a folder of logs" in capsys.readouterr().err
    log = lm_log(tmp_path / "a", [lm_row(0)])
    assert main(["import", str(log), "--out", str(tmp_path / "out"), "--metric", "acc>="]) == 1
    assert "wanted a name, or a name and a threshold as in 'f1>=0.5'" in capsys.readouterr().err
    assert main(["import", str(log), "--out", str(tmp_path / "out"), "--column", "x"]) == 1
    assert "--column 'x': wanted FIELD=COLUMN, as in correct=is_right" in capsys.readouterr().err
    assert main(["import", str(log), "--out", str(log)]) == 1
    assert "is a file: --out wants a folder" in capsys.readouterr().err
    (tmp_path / "notes.txt").write_text("x")
    assert main(["import", str(tmp_path / "notes.txt"), "--out", str(tmp_path / "out")]) == 1
    assert "no log among them was taken" in capsys.readouterr().err
    (tmp_path / "m.toml").write_text("colums = 1")
    assert main(["import", str(log), "--out", str(tmp_path / "out"), "--mapping", str(tmp_path / "m.toml")]) == 1
    assert "no key colums; there are format, model, task" in capsys.readouterr().err


def test_a_mapping_file(tmp_path):
    """TOML says what the options say; the command line wins."""
    (tmp_path / "t.csv").write_text("q,g,ok\nq1,a,1\nq2,b,0\n")
    (tmp_path / "m.toml").write_text('model = "org/m"\ntask = "quiz"\n[columns]\nquestion = "q"\ngold = "g"\ncorrect = "ok"\n')
    assert (
        main(
            ["import", str(tmp_path / "t.csv"), "--mapping", str(tmp_path / "m.toml"), "--out", str(tmp_path / "out"), "--model", "org/n@1"]
        )
        == 0
    )
    assert connect(tmp_path / "out").sql("SELECT model_id, task_id FROM run_facts").fetchall() == [("org/n@1", "quiz/main")]


# ---- logs that the harnesses wrote --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def harness(tmp_path_factory):
    """All logs of tests/logs in one catalog."""
    out = tmp_path_factory.mktemp("harness")
    results = load(out, LOGS)
    (refused,) = [r.reason for r in results if r.state == "refused"]  # its converter gives .5, "correct", to answers inspect graded I
    assert "choice,accuracy (values such as 0.5)" in refused
    return connect(out)


def test_what_the_harnesses_printed(harness):
    """The rows add up to the means in the harnesses' own results: their word against ours, for every metric and task."""
    import json

    checked = 0
    for path in LOGS.glob("lm_eval/**/results_*.json"):
        results = json.loads(path.read_text())
        for task, printed in results["results"].items():
            for name, value in printed.items():
                metric, _, variant = name.partition(",")
                if not variant or "stderr" in metric:
                    continue
                setting, shots = metric if variant == "none" else f"{metric},{variant}", results["n-shot"][task]
                model = results["config"]["model_args"]["pretrained"] + "@main"
                found = harness.execute(
                    """SELECT avg(CAST(correct AS INT)), count(*) FROM outcomes JOIN run_facts USING (run_id) JOIN protocols AS p USING (protocol_id)
                       WHERE model_id = $1 AND task_id = $2 AND p.setting = $3 AND p.shots = $4 AND p.details LIKE '%lm-eval%'""",
                    [model, f"{task}/main", setting, shots]).fetchall()[0]  # fmt: skip
                assert found == (pytest.approx(value), results["n-samples"][task]["effective"])
                checked += 1
    assert checked >= 10


def test_before_and_after_pair_by_document(harness):
    """base and domain, and base and instruct through its chat template, pair on all their items."""
    matches = harness.sql("""SELECT setting, task_id, n_before, n_after, n_common FROM item_matches('models/large-base@main', 'models/large-domain@main')
                             WHERE scheme = 'doc' AND setting = 'acc'""").fetchall()  # fmt: skip
    assert matches == [("acc", "demo_text/main", 60, 60, 60)]
    chat = harness.sql(
        "SELECT n_common FROM item_matches('models/large-base@main', 'models/large-instruct@main') WHERE scheme = 'doc' AND n_after > 0"
    ).fetchall()
    assert chat == [(12,), (12,)]


def test_what_inspect_wrote(harness):
    """zstd members; the .json of the same log is the same runs; an error stays unmeasured; a float is left out."""
    epochs = harness.sql("SELECT count(*) FROM runs WHERE source LIKE 'inspect: %demo-choice%'").fetchall()
    assert epochs == [(2,)]
    epochs = harness.sql("SELECT count(*) FROM runs WHERE model_id LIKE 'hf/local%' AND replicate > 0").fetchall()
    assert epochs == [(0,)]  # the converter of Every Eval Ever repeats one score for every epoch
    unmeasured = harness.sql(
        "SELECT count(*) FROM outcomes JOIN runs USING (run_id) WHERE source LIKE 'inspect: %demo-error%' AND correct IS NULL AND reason LIKE 'error: %'"
    ).fetchall()
    assert unmeasured[0][0] >= 1
    assert harness.sql("SELECT count(*) FROM protocols WHERE setting = 'closeness'").fetchall() == [(0,)]


def test_lighteval_predictions(harness):
    """acc and acc_norm of lighteval follow from the logged log-probabilities: no prediction contradicts a grade."""
    found = harness.sql("""SELECT count(*), count(predicted) FROM outcomes JOIN runs USING (run_id) JOIN protocols USING (protocol_id)
                           WHERE engine = 'lighteval' AND setting IN ('acc', 'acc_norm')""").fetchall()  # fmt: skip
    assert found[0][0] == found[0][1] >= 100
