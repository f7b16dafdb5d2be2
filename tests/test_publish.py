"""`collect publish` against the test Hub: what arrives, what is refused before it leaves, and what a bad line does to it."""

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hub import OWNER, READER, STRANGER, Hub
from huggingface_hub import HfApi
from runs_by_hand import declare, write_runs

from catalog.errors import CatalogError
from catalog.open import connect
from collect import publish as publishing
from collect.__main__ import main
from collect.publish import Told, plan, publish
from collect.publishing import local, remote
from collect.publishing.compacting import compact_dataset
from collect.publishing.merging import merge
from collect.publishing.remote import DIGESTS, Dataset

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # huggingface_hub's own call of its HTTP client
NAME = "org/name"
TABLES = ("models", "tasks", "categories", "itemsets", "samples", "protocols", "runs", "pairs", "outcomes", "option_scores", "generations")
A, B = "org/a@1", "org/b@1"


def rows_of(folder: Path, leave_out: tuple[str, ...] = ("generations",)) -> dict[str, list[Any]]:
    """Every row of a folder, which must be a sound catalog."""
    con = connect(folder)
    return {table: con.sql(f"FROM {table} ORDER BY ALL").fetchall() for table in TABLES if table not in leave_out}


def held(hub: Hub, out: Path, revision: str = "main") -> Path:
    """A revision's files as a folder."""
    for path, data in hub.files(NAME, revision).items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_bytes(data)
    return out


def send(folder: Path, *options: str) -> int:
    return main(["publish", str(folder), "--repo", NAME, *options])


def commits(hub: Hub) -> int:
    """Commits that changed anything, the first one of a repository aside."""
    return len(hub.repos["dataset", NAME].commits) - 1


def sizes(hub: Hub, revision: str = "main") -> dict[str, int]:
    return {path: len(data) for path, data in hub.files(NAME, revision).items() if path != ".gitattributes"}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two models on one task."""
    return declare(write_runs(tmp_path / "runs"), regime="tuning")


# ---- all is well ----


def test_what_arrives_is_what_was_there(hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One commit, the same rows, sorted files named by their content; a second call makes none and says so."""
    runs = declare(write_runs(tmp_path / "runs", tasks=("quiz/rivers", "quiz/hills"), replicates=2), regime="tuning")
    write_runs(runs, models=(A,), scored=True)
    assert send(runs, "--license", "apache-2.0") == 0
    assert commits(hub) == 1
    folder = held(hub, tmp_path / "copy")
    assert rows_of(folder) == rows_of(runs)
    assert not list(folder.glob("generations/*"))
    assert [len(list(folder.glob(f"outcomes/{m}/*.parquet"))) for m in ("org--a@1", "org--b@1")] == [1, 1]
    for path in folder.glob("outcomes/*/*.parquet"):
        table = pq.read_table(path)
        assert table.equals(table.sort_by([("run_id", "ascending"), ("item", "ascending")]))
        assert pq.read_schema(path).metadata[b"schema_version"] == b"1.0"
    out, err = capfd.readouterr()
    assert out.strip() == f"{hub.url}/datasets/{NAME}/commit/{hub.repos['dataset', NAME].at('main').oid}"
    assert f"{len(sizes(hub))} files, {sum(sizes(hub).values()):,} bytes in 1 commits" in err
    assert send(runs) == 0
    assert commits(hub) == 1
    assert "nothing to do: org/name has it all" in capfd.readouterr().err


def test_adding_runs_rewrites_nothing(hub: Hub, runs: Path, tmp_path: Path) -> None:
    """New runs come in new files; of the others only tables that changed are sent again."""
    assert send(runs) == 0
    before = hub.files(NAME)
    write_runs(runs, models=("org/c@1",))
    assert send(runs) == 0
    after = hub.files(NAME)
    changed = {path for path in after if after[path] != before.get(path)}
    assert {path.split("/")[0] for path in changed} == {"README.md", "models", "runs", "outcomes"}
    assert changed - before.keys() == {path for path in changed if path.startswith(("runs", "outcomes"))}
    assert before.keys() <= after.keys()
    assert rows_of(held(hub, tmp_path / "copy")) == rows_of(runs)


def test_dry_run_changes_nothing_and_needs_no_token(
    hub: Hub, runs: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    assert send(runs, "--dry-run") == 0
    out, err = capfd.readouterr()
    assert not hub.repos
    assert not [r for r in hub.log if r.method != "GET"]
    assert "would go to org/name; nothing was sent" in err
    monkeypatch.setenv("HF_TOKEN", OWNER)
    assert send(runs) == 0
    printed = {path: int(size) for path, size in (line.split(",") for line in out.split()[1:])}
    assert printed == sizes(hub)


def test_texts_come_when_asked_for_also_later(hub: Hub, runs: Path, tmp_path: Path) -> None:
    assert send(runs) == 0
    assert send(runs, "--with-text") == 0
    assert rows_of(held(hub, tmp_path / "copy"), ()) == rows_of(runs, ())
    n = commits(hub)
    assert send(runs, "--with-text") == 0
    assert commits(hub) == n
    write_runs(runs, models=("org/c@1",))
    assert send(runs, "--with-text") == 0
    assert rows_of(held(hub, tmp_path / "copy"), ()) == rows_of(runs, ())


def test_large_sets_go_in_commits_that_are_each_sound(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "FILES_PER_COMMIT", 8)
    monkeypatch.setattr(local, "ROWS_AT_ONCE", 20)  # two runs a file
    runs = write_runs(tmp_path / "runs", models=(A, B, "org/c@1"), replicates=3, n_items=10)
    declare(runs)
    _, counted = plan(runs, Dataset(NAME, may_create=False), Told())
    sent = publish(runs, Dataset(NAME), Told())
    chain = [oid for oid in hub.repos["dataset", NAME].commits][1:]
    assert len(chain) == len(sent.urls) > 2
    assert counted > 1
    for n, oid in enumerate(chain):
        rows_of(held(hub, tmp_path / str(n), oid))
    assert rows_of(tmp_path / str(n)) == rows_of(runs)


def test_private_and_branch(hub: Hub, runs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A branch is made where it is missing, from main; a public dataset does not become private silently."""
    assert send(runs, "--private", "--revision", "next") == 0
    repo = hub.repos["dataset", NAME]
    assert repo.private
    assert list(hub.files(NAME)) == [".gitattributes"]
    assert "README.md" in hub.files(NAME, "next")
    HfApi().create_repo("org/open", repo_type="dataset")
    assert main(["publish", str(runs), "--repo", "org/open", "--private"]) == 1
    assert "is public" in capfd.readouterr().err
    assert list(hub.files("org/open")) == [".gitattributes"]


def test_pull_request_by_somebody_without_rights(
    hub: Hub, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """403 names --pr; with it all commits go into one pull request and main stays."""
    assert send(runs) == 0
    main_before = hub.files(NAME)
    write_runs(runs, models=("org/c@1", "org/d@1"), replicates=2)
    monkeypatch.setenv("HF_TOKEN", STRANGER)
    assert send(runs) == 1
    assert "the same command with --pr" in capfd.readouterr().err
    monkeypatch.setattr(publishing, "FILES_PER_COMMIT", 3)
    assert send(runs, "--pr") == 0
    assert hub.files(NAME) == main_before
    assert [ref for ref in hub.repos["dataset", NAME].refs if "pr" in ref] == ["refs/pr/1"]
    assert rows_of(held(hub, tmp_path / "copy", "refs/pr/1")) == rows_of(runs)
    assert f"{hub.url}/datasets/{NAME}/discussions/1" in capfd.readouterr().out


# ---- what is there and what comes ----


def test_rows_merge_by_key() -> None:
    """Ours fills what is empty, replaces what differs and says so, and replaces nothing by a guess or by nothing."""
    there = [{"model_id": "a", "family": "x", "kind": "base", "step": None}, {"model_id": "z", "family": None, "kind": None, "step": 1}]
    ours = [{"model_id": "a", "family": "y", "kind": "instruct", "step": 5}, {"model_id": "b", "family": None, "kind": "base", "step": None}]
    rows, notes = merge("models", there, ours, {("a", "kind"), ("b", "kind")})
    assert rows == [
        {"model_id": "a", "family": "y", "kind": "base", "step": 5},
        {"model_id": "b", "family": None, "kind": "base", "step": None},
        {"model_id": "z", "family": None, "kind": None, "step": 1},
    ]
    assert notes == ["models a: family was 'x', is now 'y'"]


def test_merging_is_said_and_guesses_replace_nothing(hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first = write_runs(tmp_path / "1", models=(A,), model={"kind": "domain", "family": "old"})
    assert send(first) == 0
    second = write_runs(tmp_path / "2", models=(A,), tasks=("quiz/hills",), model={"kind": "base", "guessed": ["kind"], "n_params": 7, "family": "new"})
    assert send(second) == 0
    err = capfd.readouterr().err
    assert err.count("replaced: models org/a@1: family was 'old', is now 'new'") == 1
    assert "kind was" not in err
    con = connect(held(hub, tmp_path / "copy"))
    assert con.sql("SELECT family, kind, n_params FROM models").fetchall() == [("new", "domain", 7)]


def test_other_outcomes_of_a_run_are_a_conflict(hub: Hub, runs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Known by digests, without a download of outcomes; where there are none, by the outcomes."""
    assert send(runs) == 0
    other = write_runs(tmp_path / "other", seed=1)
    write_runs(other, models=("org/new@1",))
    before = hub.files(NAME)
    assert send(other) == 1
    err = capfd.readouterr().err
    assert "2 runs have other outcomes in org/name than here" in err and "of org/a@1" in err
    assert not hub.seen("GET .*outcomes")
    assert hub.files(NAME) == before
    [path] = [path for path in before if path.startswith("runs/")]
    table = pq.read_table(tmp_path_file(tmp_path, before[path]))
    pq.write_table(table.replace_schema_metadata({"schema_version": "1.0"}), tmp_path / "bare.parquet")
    hub.commit(NAME, {path: (tmp_path / "bare.parquet").read_bytes()})
    n = commits(hub)
    assert send(other) == 1
    assert "2 runs have other outcomes" in capfd.readouterr().err
    assert send(runs) == 0
    assert commits(hub) == n
    assert hub.seen("GET .*outcomes")


def tmp_path_file(folder: Path, data: bytes) -> Path:
    path = folder / "some.parquet"
    path.write_bytes(data)
    return path


def test_a_runs_folder_uploaded_by_hand_is_gone_on_with(hub: Hub, runs: Path, tmp_path: Path) -> None:
    """Runs whose rows are in their own files' cards are there too; compacting keeps those rows."""
    hub.commit(NAME, {str(p.relative_to(runs)): p.read_bytes() for p in runs.rglob("*.parquet") if "generations" not in p.parts})
    write_runs(runs, models=("org/c@1",))
    assert send(runs) == 0
    assert rows_of(held(hub, tmp_path / "copy")) == rows_of(runs)
    compact_dataset(Dataset(NAME))
    assert rows_of(held(hub, tmp_path / "after")) == rows_of(runs)
    assert not [path for path in hub.files(NAME) if path.startswith("outcomes/") and Path(path).stem.isdigit()]


@pytest.mark.parametrize("what", ["setting", "gold", "pair"])
def test_contradictions_are_named_and_nothing_is_sent(
    hub: Hub, runs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert send(runs) == 0
    before = hub.files(NAME)
    if what == "setting":
        monkeypatch.setitem(__import__("runs_by_hand").SAMPLED, "setting", "other")
    other = write_runs(tmp_path / "other", models=("org/c@1", "org/d@1"))
    if what == "gold":
        [path] = (other / "samples").glob("*.parquet")
        table = pq.read_table(path)
        rows = [row | {"gold": ["0", "1"], "answer": "multi"} for row in table.to_pylist()]
        pq.write_table(table.from_pylist(rows, table.schema), path)
    if what == "pair":
        declare(other, "org/c@1", "org/d@1", pair_id="pair org/a@1")
    assert send(other) == 1
    err = capfd.readouterr().err
    assert {"setting": "is setting 'cot' in org/name and 'other' here", "gold": "has other options or golds in org/name",
            "pair": "pair 'pair org/a@1' is of other models"}[what] in err  # fmt: skip
    assert "nothing was sent" in err
    assert hub.files(NAME) == before


def test_what_would_be_unsound_together_is_refused(hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A second replicate of a protocol that cannot vary: sound alone, unsound with the first."""
    both = write_runs(tmp_path / "both", models=(A,), scored=True, replicates=2)
    paths = sorted((both / "outcomes" / "org--a@1").iterdir())
    cards = {path: json.loads(pq.read_schema(path).metadata[b"forgetting_catalog_run"]) for path in paths}
    for wanted in (0, 1):
        folder = tmp_path / str(wanted)
        for path in both.rglob("*.parquet"):
            run = next((card["runs"][0] for p, card in cards.items() if p.stem == path.stem), None)
            if run is None or run["replicate"] == wanted:
                (folder / path.relative_to(both)).parent.mkdir(parents=True, exist_ok=True)
                (folder / path.relative_to(both)).write_bytes(path.read_bytes())
        assert send(folder) == wanted
    assert "replicates of a protocol that cannot vary" in capfd.readouterr().err


# ---- what must not leave ----

SECRETS = {
    "hf_" + "x" * 34: "Hugging Face token", "sk-proj-" + "a1" * 20: "OpenAI", "AKIA" + "Q7" * 8: "AWS key", "ghp_" + "a" * 36: "GitHub",
    "-----BEGIN RSA PRIVATE KEY-----": "private key", "me@example.org": "e-mail", "/home/jane/runs": "local path", "/Users/j/x": "local path",
    "file:///data/x": "local path", "C:\\data\\x": "local path", OWNER: "your own Hugging Face token",
    "https://user:pass@example.org/x": "password in an address", '{"a": "see /home/jane"}': "local path",
}  # fmt: skip
FINE = ("lighteval: details_2026.parquet", "org/name@release.final", "https://example.org/home/jane/x", '{"stop": ["Q:\\nA:\\n"]}', "task-sk-learn")


def test_private_text_is_refused_by_place_and_never_printed(hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Every shape in the column `source`, one row each; what only looks like one passes."""
    runs = tmp_path / "runs"
    for n, text in enumerate([*SECRETS, *FINE]):
        write_runs(runs, models=(f"org/m{n}@1",), run={"source": text})
    assert send(runs) == 1
    err = capfd.readouterr().err
    assert f"{len(SECRETS)} texts look private" in err
    with pytest.raises(CatalogError) as refused:
        publishing.refuse_leaks(connect(runs), (), False)
    for text, kind in list(SECRETS.items())[:10]:
        assert text not in err
        assert f": {kind}" in str(refused.value)
    assert "--allow-found runs.source" in err
    assert not hub.log
    assert send(runs, "--allow-found", "runs.source") == 1
    err = capfd.readouterr().err
    assert "1 texts look private" in err and "your own" in err and OWNER not in err
    assert send(runs, "--allow-found", "runs.nothing") == 1
    assert "wants TABLE.COLUMN" in capfd.readouterr().err


def test_private_text_is_found_in_every_column_of_text(hub: Hub, tmp_path: Path) -> None:
    """An id that holds it is masked; texts count only where they are published."""
    con = connect(write_runs(tmp_path / "runs", models=("org/a@1",)))
    leak = "see /home/jane/x"
    con.execute("UPDATE generations SET text = $1", [leak])
    publishing.refuse_leaks(con, (), False)
    for table, column in publishing.leaks.text_columns(True) if hasattr(publishing, "leaks") else __import__("collect.publishing.leaks", fromlist=["x"]).text_columns(True):
        if table == "pairs" or (table, column) in (("samples", "answer"), ("outcomes", "status")):
            continue
        kind = con.sql(f"SELECT typeof({column}) FROM {table} LIMIT 1").fetchall()[0][0]
        con.execute("BEGIN")
        con.execute(f"UPDATE {table} SET {column} = $1", [[leak] if kind.endswith("[]") else leak])
        with pytest.raises(CatalogError, match=rf"{table}\.{column}, row .*local path") as refused:
            publishing.refuse_leaks(con, (), True)
        assert "jane" not in str(refused.value)
        con.execute("ROLLBACK")
    with pytest.raises(CatalogError, match=r"generations\.text"):
        publishing.refuse_leaks(con, (), True)


def test_an_unsound_folder_is_not_sent(hub: Hub, runs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    next((runs / "samples").iterdir()).unlink()
    assert send(runs) == 1
    assert "fails integrity" in capfd.readouterr().err
    assert not hub.log


def test_a_token_is_nowhere(hub: Hub, runs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture,
                            monkeypatch: pytest.MonkeyPatch, waits: list[float]) -> None:  # fmt: skip
    """Not in output, logs or files, of a success, a failure on the way, and a refusal."""
    secret = "hf_thisIsVerySecret0123456789abcdef"
    hub.users[secret] = hub.users[OWNER]
    monkeypatch.setenv("HF_TOKEN", secret)
    with caplog.at_level("DEBUG"):
        hub.fault("PUT /lfs/", status=500, times=2)
        hub.fault("/commit/", status=500)
        assert send(runs) == 0
        hub.fault("/commit/", status=403)
        write_runs(runs, models=("org/c@1",))
        assert send(runs) == 1
    assert [r for r in hub.log if secret in r.headers.get("Authorization", "")]
    out, err = capfd.readouterr()
    assert secret not in out + err + caplog.text
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


# ---- the line is bad ----

FAULTS: dict[str, tuple[str, dict[str, Any], int]] = {  # name: (where, what, tries of the commit)
    "500 while reading": ("GET /api/datasets/org/name$", {"status": 500, "times": 2}, 1),
    "503 on listing": ("GET .*/tree/", {"status": 503, "times": 2}, 1),
    "500 on making the repository": ("POST /api/repos/create", {"status": 500, "times": 1}, 1),
    "429 with Retry-After on preupload": ("/preupload/", {"status": 429, "headers": {"Retry-After": "7"}}, 1),
    "429 with Retry-After on commit": ("/commit/", {"status": 429, "headers": {"Retry-After": "7"}}, 2),
    "500 on commit": ("/commit/", {"status": 500, "times": 3}, 4),
    "cut in mid-upload of a large file": ("PUT /lfs/", {"cut": 500, "times": 3}, 1),
    "500 on every large file once": ("PUT /lfs/", {"status": 500, "times": 5}, 1),
    "answer lost after the commit": ("/commit/", {"status": 500, "done": True}, 1),
    "line dead after the commit": ("/commit/", {"cut": 0, "done": True}, 1),
    "line dead before the commit": ("/commit/", {"cut": 10}, 2),
    "500 on reading back": ("GET .*/resolve/.*README.md", {"status": 500, "times": 1}, 1),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_that_pass(hub: Hub, runs: Path, waits: list[float], capfd: pytest.CaptureFixture[str], name: str, tmp_path: Path) -> None:
    """All of it arrives in one commit, and is counted."""
    on, what, tries = FAULTS[name]
    fault = hub.fault(on, **what)
    assert send(runs) == 0
    assert fault.times == 0
    assert len(hub.seen("/commit/main")) == tries
    assert commits(hub) == 1
    assert rows_of(held(hub, tmp_path / "copy")) == rows_of(runs)
    out, err = capfd.readouterr()
    assert out.strip().endswith(hub.repos["dataset", NAME].at("main").oid)
    assert f"{len(sizes(hub))} files" in err
    if "Retry-After" in name:
        assert max(waits) >= 7


def test_a_pull_request_whose_answer_was_lost_is_the_one(hub: Hub, runs: Path, waits: list[float], capfd: pytest.CaptureFixture[str]) -> None:
    HfApi().create_repo(NAME, repo_type="dataset")
    hub.fault("/commit/", status=502, done=True)
    assert send(runs, "--pr") == 0
    assert [ref for ref in hub.repos["dataset", NAME].refs if "pr" in ref] == ["refs/pr/1"]
    assert len(hub.seen("/commit/")) == 1


STAY: dict[str, tuple[str, dict[str, Any], str]] = {
    "403 on commit": ("/commit/", {"status": 403}, "the same command with --pr"),
    "401 on commit": ("/commit/", {"status": 401}, "hf auth login"),
    "500 on every commit": ("/commit/", {"status": 500}, "gave up on org/name after 6 tries"),
    "stale on every commit": ("/commit/", {"status": 412}, "somebody else has just committed"),
    "large files never arrive": ("PUT /lfs/", {"cut": 0}, "gave up on org/name after"),
    "a day of waiting": ("/commit/", {"status": 429, "headers": {"Retry-After": "86400"}}, "asks to wait 86400 s"),
    "refused": ("/commit/", {"status": 400}, "the Hub refused what was sent to org/name"),
    "everything is down": (".", {"cut": 0}, "gave up on org/name after"),
}


@pytest.mark.parametrize("name", STAY)
def test_faults_that_stay(hub: Hub, runs: Path, waits: list[float], capfd: pytest.CaptureFixture[str], name: str) -> None:
    """Nothing is half there, the message says what to do, and the same command does it afterwards."""
    HfApi().create_repo(NAME, repo_type="dataset")
    on, what, said = STAY[name]
    fault = hub.fault(on, times=999, **what)
    assert send(runs) == 1
    assert said in capfd.readouterr().err
    assert commits(hub) == 0
    fault.times = 0
    assert send(runs) == 0
    assert commits(hub) == 1


def test_nobody_is_logged_in(hub: Hub, runs: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for token in ("", "hf_wrong_token"):
        monkeypatch.setenv("HF_TOKEN", token)
        assert send(runs) == 1
        assert "hf auth login" in capfd.readouterr().err
    monkeypatch.setenv("HF_TOKEN", READER)
    assert send(runs) == 1
    assert "may not write to org/name" in capfd.readouterr().err
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert send(runs) == 1
    assert main(["publish", str(runs), "--repo", "no-slash"]) == 1
    assert "--repo wants ORG/NAME" in capfd.readouterr().err


def test_a_changed_file_is_noticed(hub: Hub, runs: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables are read back; here something between changes the card."""
    fetch = Dataset.fetch

    def garbled(self: Dataset, oid: str, paths: list[str]) -> dict[str, Path]:
        found = fetch(self, oid, paths)
        if "README.md" in found:
            found["README.md"].write_text("other")
        return found

    monkeypatch.setattr(Dataset, "fetch", garbled)
    assert send(runs) == 1
    assert "README.md of org/name came back other than it was sent" in capfd.readouterr().err


def test_something_that_is_no_table_is_named(hub: Hub, runs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An error page saved as Parquet on the Hub: named, and nothing is sent."""
    hub.commit(NAME, {"runs/0123456789abcdef.parquet": b"<html>502</html>"})
    assert send(runs) == 1
    assert "0123456789abcdef.parquet cannot be read as Parquet" in capfd.readouterr().err
    assert commits(hub) == 1


# ---- two at once ----


def test_somebody_else_commits_meanwhile(hub: Hub, runs: Path, tmp_path: Path, waits: list[float]) -> None:
    """412: their rows stay, ours come on top; also where both add the same model and one empty field each."""
    theirs = write_runs(tmp_path / "theirs", models=(A, "org/t@1"), tasks=("quiz/hills",), model={"n_params": 5})
    assert main(["publish", str(theirs), "--repo", "org/other"]) == 0
    files = {path: data for path, data in hub.files("org/other").items() if path != ".gitattributes"}
    HfApi().create_repo(NAME, repo_type="dataset")
    hub.meanwhile(NAME, files)
    assert send(runs) == 0
    assert len(hub.seen("/datasets/org/name/commit/")) == 2
    ours = held(hub, tmp_path / "copy")
    con = connect(ours)
    assert con.sql("SELECT model_id, n_params FROM models ORDER BY ALL").fetchall() == [(A, 5), (B, None), ("org/t@1", 5)]
    assert con.sql("SELECT count(*) FROM runs").fetchall() == [(4,)]


def test_two_publishers_at_once_both_end_up_in(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with runs of a model of its own and of one they share."""
    monkeypatch.setattr(remote.random, "uniform", lambda low, high: low / 10)  # type: ignore[attr-defined]
    folders = [write_runs(tmp_path / name, models=(f"org/{name}@1",), tasks=(f"quiz/{name}",)) for name in ("x", "y")]
    for folder in folders:
        write_runs(folder, models=(A,))
    barrier = threading.Barrier(2)
    failed: list[BaseException] = []

    def go(folder: Path) -> None:
        try:
            barrier.wait()
            publish(folder, Dataset(NAME), Told())
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=go, args=(folder,)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    con = connect(held(hub, tmp_path / "copy"))
    assert con.sql("SELECT model_id FROM runs ORDER BY ALL").fetchall() == [(A,), ("org/x@1",), ("org/y@1",)]


# ---- few files again ----


def test_compact_makes_few_files_of_the_same_rows(hub: Hub, runs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for n in range(3):
        write_runs(runs, tasks=(f"quiz/t{n}",))
        assert send(runs, "--with-text") == 0
    before, size = rows_of(held(hub, tmp_path / "before"), ()), len(hub.files(NAME))
    assert main(["compact", "--repo", NAME]) == 0
    assert rows_of(held(hub, tmp_path / "after"), ()) == before
    names = [path.split("/")[0] for path in hub.files(NAME)]
    assert {table: names.count(table) for table in ("runs", "samples", "itemsets", "outcomes", "generations")} == {
        "runs": 1, "samples": 1, "itemsets": 1, "outcomes": 2, "generations": 2}  # fmt: skip
    assert len(names) < size
    n = commits(hub)
    capfd.readouterr()
    assert main(["compact", "--repo", NAME]) == 0
    assert "nothing to do" in capfd.readouterr().err
    assert send(runs, "--with-text") == 0
    assert commits(hub) == n
    digests = [json.loads(pq.read_schema(p).metadata[DIGESTS.encode()]) for p in (tmp_path / "after").glob("runs/*")]
    assert max(len(d) for d in digests) == 8
    assert main(["compact", "--repo", "org/none"]) == 1
    assert main(["compact"]) == 1


