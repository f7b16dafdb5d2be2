"""`collect publish` against the test Hub: what arrives, what merges, what contradicts, two at once, few files again."""

import io
import json
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import runs_by_hand
from hub import OWNER, STRANGER, Hub
from huggingface_hub import HfApi
from runs_by_hand import NAME, declare, held, n_commits, rows_of, send, sizes, write_runs

from catalog.errors import CatalogError
from catalog.open import connect
from collect import publish as publishing
from collect.__main__ import main
from collect.publish import Told, plan, publish
from collect.publishing import local, settling
from collect.publishing.compacting import compact_dataset, groups
from collect.publishing.merging import merge
from collect.publishing.remote import DIGESTS, Dataset, State

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # huggingface_hub's own call of its HTTP client
A, B = "org/a@1", "org/b@1"


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
    assert n_commits(hub) == 1
    folder = held(hub, tmp_path / "copy")
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
    assert n_commits(hub) == 1
    assert "nothing to do: org/name has it all" in capfd.readouterr().err
    # new runs come in new files; of the others only tables that changed are sent again
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


@pytest.mark.slow
def test_texts_come_when_asked_for_also_later(hub: Hub, runs: Path, tmp_path: Path) -> None:
    assert send(runs) == 0
    assert send(runs, "--with-text") == 0
    assert rows_of(held(hub, tmp_path / "copy"), True) == rows_of(runs, True)
    n = n_commits(hub)
    assert send(runs, "--with-text") == 0
    assert n_commits(hub) == n
    write_runs(runs, models=("org/c@1",))
    assert send(runs, "--with-text") == 0
    assert rows_of(held(hub, tmp_path / "copy"), True) == rows_of(runs, True)


@pytest.mark.slow
def test_large_sets_go_in_commits_that_are_each_sound(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "FILES_PER_COMMIT", 3)
    monkeypatch.setattr(local, "ROWS_AT_ONCE", 20)  # two runs a file
    runs = write_runs(tmp_path / "runs", models=(A, B, "org/c@1"), replicates=3, n_items=10)
    declare(runs)
    _, counted = plan(runs, Dataset(NAME, may_create=False), Told())
    sent = publish(runs, Dataset(NAME), Told())
    chain = list(hub.repos["dataset", NAME].commits)[1:]
    assert len(chain) == len(sent.urls) > 2
    assert counted == len(chain)
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


@pytest.mark.slow
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
    monkeypatch.setattr(publishing, "FILES_PER_COMMIT", 1)
    assert send(runs, "--pr") == 0
    assert hub.files(NAME) == main_before
    assert [ref for ref in hub.repos["dataset", NAME].refs if "pr" in ref] == ["refs/pr/1"]
    assert rows_of(held(hub, tmp_path / "copy", "refs/pr/1")) == rows_of(runs)
    assert f"{hub.url}/datasets/{NAME}/discussions/1" in capfd.readouterr().out


# ---- what is there and what comes ----


def test_rows_merge_by_key() -> None:
    """Ours fills what is empty, replaces what differs and says so, and replaces nothing by a guess or by nothing."""
    there = [{"model_id": "a", "family": "x", "kind": "base", "step": None}, {"model_id": "z", "family": None, "kind": None, "step": 1}]
    ours = [
        {"model_id": "a", "family": "y", "kind": "instruct", "step": 5},
        {"model_id": "b", "family": None, "kind": "base", "step": None},
    ]
    rows, notes = merge("models", there, ours, {("a", "kind"), ("b", "kind")})
    assert rows == [
        {"model_id": "a", "family": "y", "kind": "base", "step": 5},
        {"model_id": "b", "family": None, "kind": "base", "step": None},
        {"model_id": "z", "family": None, "kind": None, "step": 1},
    ]
    assert notes == ["models a: family was 'x', is now 'y'"]


@pytest.mark.slow
def test_merging_is_said_and_guesses_replace_nothing(hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first = write_runs(tmp_path / "1", models=(A,), model={"kind": "domain", "family": "old"})
    assert send(first) == 0
    second = write_runs(
        tmp_path / "2", models=(A,), tasks=("quiz/hills",), model={"kind": "base", "guessed": ["kind"], "n_params": 7, "family": "new"}
    )
    assert send(second) == 0
    err = capfd.readouterr().err
    assert err.count("replaced: models org/a@1: family was 'old', is now 'new'") == 1
    assert "kind was" not in err
    con = connect(held(hub, tmp_path / "copy"))
    assert con.sql("SELECT family, kind, n_params FROM models").fetchall() == [("new", "domain", 7)]


def test_other_outcomes_of_a_run_are_a_conflict(hub: Hub, runs: Path, tmp_path: Path) -> None:
    """Known by digests, without a download of outcomes; what is new beside it is not sent either."""
    publish(runs, Dataset(NAME), Told())
    before = hub.files(NAME)
    other = write_runs(tmp_path / "other", models=(A, B, "org/new@1"), seed=1)
    with pytest.raises(CatalogError, match=r"nothing was sent: 2 runs have other outcomes in org/name than here:\n  run \d+ of org/"):
        publish(other, Dataset(NAME), Told())
    assert not hub.seen("resolve/.*/outcomes/")
    assert hub.files(NAME) == before


@pytest.mark.slow
def test_where_there_are_no_digests_outcomes_are_compared(hub: Hub, runs: Path, tmp_path: Path) -> None:
    """Another program wrote the table of runs."""
    publish(runs, Dataset(NAME), Told())
    [path] = [path for path in hub.files(NAME) if path.startswith("runs/")]
    bare = tmp_path / "bare.parquet"
    bare.write_bytes(hub.files(NAME)[path])
    pq.write_table(pq.read_table(bare).replace_schema_metadata({"schema_version": "1.0"}), bare)
    hub.commit(NAME, {path: bare.read_bytes()})
    with pytest.raises(CatalogError, match="2 runs have other outcomes"):
        publish(write_runs(tmp_path / "other", seed=1), Dataset(NAME), Told())
    assert hub.seen("resolve/.*/outcomes/")
    before = hub.files(NAME)
    publish(runs, Dataset(NAME), Told())
    assert {path for path, data in hub.files(NAME).items() if data != before[path]} == {"README.md"}  # it tells sizes


@pytest.mark.slow
def test_a_runs_folder_uploaded_by_hand_is_gone_on_with(hub: Hub, runs: Path, tmp_path: Path) -> None:
    """Runs whose rows are in their own files' cards are there too; compacting keeps those rows."""
    hub.commit(NAME, {str(p.relative_to(runs)): p.read_bytes() for p in runs.rglob("*.parquet") if "generations" not in p.parts})
    write_runs(runs, models=("org/c@1",))
    assert send(runs) == 0
    assert rows_of(held(hub, tmp_path / "copy")) == rows_of(runs)
    compact_dataset(Dataset(NAME))
    assert rows_of(held(hub, tmp_path / "after")) == rows_of(runs)
    assert not [path for path in hub.files(NAME) if path.startswith("outcomes/") and Path(path).stem.isdigit()]


def test_contradictions_are_named_and_nothing_is_sent(hub: Hub, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert send(runs) == 0
    before = hub.files(NAME)
    new = ("org/c@1", "org/d@1")
    pair = declare(write_runs(tmp_path / "pair", models=new), *new, pair_id="pair org/a@1")
    gold = write_runs(tmp_path / "gold", models=new)
    [path] = (gold / "samples").glob("*.parquet")
    table = pq.read_table(path)
    pq.write_table(pa.Table.from_pylist([row | {"gold": ["0", "1"], "answer": "multi"} for row in table.to_pylist()], table.schema), path)
    monkeypatch.setitem(runs_by_hand.SAMPLED, "setting", "other")
    setting = write_runs(tmp_path / "setting", models=new)
    for folder, said in (
        (pair, "nothing was sent: pair 'pair org/a@1' is of other models in org/name"),
        (gold, "nothing was sent: itemset .* has other options or golds in org/name than here"),
        (setting, "nothing was sent: protocol .* is setting 'cot' in org/name and 'other' here"),
    ):
        with pytest.raises(CatalogError, match=said):
            publish(folder, Dataset(NAME), Told())
    assert hub.files(NAME) == before


@pytest.mark.slow
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


# ---- two at once ----


def test_somebody_else_commits_meanwhile(hub: Hub, runs: Path, tmp_path: Path, waits: list[float]) -> None:
    """412: their rows stay, ours come on top; also where both add the same model and one empty field each."""
    theirs = write_runs(tmp_path / "theirs", models=(A, "org/t@1"), tasks=("quiz/hills",), model={"n_params": 5})
    HfApi().create_repo(NAME, repo_type="dataset")
    hub.meanwhile(NAME, {str(p.relative_to(theirs)): p.read_bytes() for p in theirs.rglob("*.parquet") if "generations" not in p.parts})
    publish(runs, Dataset(NAME), Told())
    assert len(hub.seen("/commit/")) == 2
    ours = held(hub, tmp_path / "copy")
    con = connect(ours)
    assert con.sql("SELECT model_id, n_params FROM models ORDER BY ALL").fetchall() == [(A, 5), (B, None), ("org/t@1", 5)]
    assert con.sql("SELECT count(*) FROM runs").fetchall() == [(4,)]


@pytest.mark.slow
def test_two_publishers_at_once_both_end_up_in(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with runs of a model of its own and of one they share."""
    monkeypatch.setattr(settling.random, "uniform", lambda low, high: low / 10)  # type: ignore[attr-defined]
    folders = [write_runs(tmp_path / name, models=(f"org/{name}@1",), tasks=(f"quiz/{name}",)) for name in ("x", "y")]
    for folder in folders:
        write_runs(folder, models=(A,))
    barrier = threading.Barrier(2)
    failed: list[CatalogError] = []

    def go(folder: Path) -> None:
        try:
            barrier.wait()
            publish(folder, Dataset(NAME), Told())
        except CatalogError as error:
            failed.append(error)

    threads = [threading.Thread(target=go, args=(folder,)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    con = connect(held(hub, tmp_path / "copy"))
    assert con.sql("SELECT model_id FROM runs ORDER BY ALL").fetchall() == [(A,), ("org/x@1",), ("org/y@1",)]


# ---- what a newer version of the package wrote ----


def newer(data: bytes) -> bytes:
    """The same file with a column that this version does not know."""
    table, out = pq.read_table(io.BytesIO(data)), io.BytesIO()
    table = table.append_column("more", pa.array(["said"] * table.num_rows))
    pq.write_table(table.replace_schema_metadata({"schema_version": "1.1"}), out)
    return out.getvalue()


def test_what_a_newer_version_wrote_is_not_written_again(hub: Hub, runs: Path) -> None:
    """New runs go beside it; what would have to be replaced and would lose a column is refused."""
    publish(runs, Dataset(NAME), Told())
    first = hub.files(NAME)
    hub.commit(NAME, {path: newer(data) for path, data in first.items() if path.startswith(("outcomes/", "pairs/"))})
    publish(write_runs(runs, replicates=2), Dataset(NAME), Told())
    with pytest.raises(CatalogError, match=r"outcomes/.*parquet of org/name was written by a newer version.*pip install --upgrade"):
        compact_dataset(Dataset(NAME))
    hub.commit(NAME, {path: newer(data) for path, data in first.items() if path.startswith("runs/")})
    with pytest.raises(CatalogError, match=r"runs/.*parquet of org/name was written by a newer version"):
        compact_dataset(Dataset(NAME))
    declare(runs, regime="other")
    with pytest.raises(CatalogError, match=r"pairs/pairs.parquet of org/name was written by a newer version"):
        publish(runs, Dataset(NAME), Told())


# ---- few files again ----


def test_compacting_gathers_no_more_than_fits_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones first; what is large enough already stays."""
    monkeypatch.setattr("collect.publishing.compacting.BIG", 100)
    sizes = {"generations/m/a.parquet": 99, "generations/m/b.parquet": 60, "generations/m/c.parquet": 30, "generations/m/d.parquet": 30,
             "generations/n/e.parquet": 300, "generations/n/f.parquet": 1}  # fmt: skip
    assert list(groups(State("0", sizes))) == [("generations", "m", ["generations/m/c.parquet", "generations/m/d.parquet"])]


def test_compact_makes_few_files_of_the_same_rows(hub: Hub, runs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One commit; nothing is to be done after it, neither for compacting nor for publishing."""
    publish(runs, Dataset(NAME), Told(with_text=True))
    write_runs(runs, tasks=("quiz/hills",))
    publish(runs, Dataset(NAME), Told(with_text=True))
    n, before = n_commits(hub), len(hub.files(NAME))
    assert main(["compact", "--repo", NAME]) == 0
    assert "1 commits to org/name" in capfd.readouterr().err
    assert rows_of(held(hub, tmp_path / "after"), True) == rows_of(runs, True)
    names = [path.split("/")[0] for path in hub.files(NAME)]
    assert {table: names.count(table) for table in ("runs", "samples", "itemsets", "protocols", "outcomes", "generations")} == {
        "runs": 1, "samples": 1, "itemsets": 1, "protocols": 1, "outcomes": 2, "generations": 2}  # fmt: skip
    assert len(names) == before - 7
    [path] = (tmp_path / "after").glob("runs/*")
    assert len(json.loads(pq.read_schema(path).metadata[DIGESTS.encode()])) == 4
    assert not compact_dataset(Dataset(NAME)).urls
    assert not publish(runs, Dataset(NAME), Told(with_text=True)).urls
    assert n_commits(hub) == n + 1
    assert main(["compact", "--repo", "org/none"]) == 1
    assert main(["compact"]) == 1
    assert list(hub.repos) == [("dataset", NAME)]
