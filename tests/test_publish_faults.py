"""`collect publish` on a bad line, with a Hub that refuses, and killed: nothing half there, and the same command goes on."""

import io
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hub import READER, Hub
from huggingface_hub import HfApi, close_session
from runs_by_hand import NAME, declare, held, n_commits, rows_of, sizes, write_runs

from catalog.errors import CatalogError
from collect.publish import Publisher, Told
from collect.publishing.local import Local
from collect.publishing.remote import DIGESTS, Dataset, digests_of
from collect.publishing.settling import Sent, settle

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # huggingface_hub's own call of its HTTP client


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Local:
    """A folder of two models, opened and checked once."""
    return Local(declare(write_runs(tmp_path_factory.mktemp("runs"))))


def go(local: Local, folder: Path, pull: bool = False) -> Sent:
    """What `publish` does once a folder is checked."""
    dataset = Dataset(NAME, pull=pull)
    return settle(dataset, Publisher(local, dataset, folder / "files", Told()).next_change)


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


QUICK = ("429 with Retry-After on commit", "cut in mid-upload of a large file", "answer lost after the commit")


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in FAULTS])
def test_faults_that_pass(hub: Hub, prepared: Local, waits: list[float], name: str, tmp_path: Path) -> None:
    """All of it arrives in one commit, and is counted."""
    on, what, tries = FAULTS[name]
    fault = hub.fault(on, **what)
    sent = go(prepared, tmp_path)
    assert fault.times == 0
    assert len(hub.seen("/commit/main")) == tries
    assert n_commits(hub) == 1
    assert sent.urls == [f"{hub.url}/datasets/{NAME}/commit/{hub.repos['dataset', NAME].at('main').oid}"]
    assert sent.sizes == sizes(hub)
    assert sum(wait >= 7 for wait in waits) == ("Retry-After" in name)


def test_a_pull_request_whose_answer_was_lost_is_the_one(hub: Hub, prepared: Local, waits: list[float], tmp_path: Path) -> None:
    HfApi().create_repo(NAME, repo_type="dataset")
    hub.fault("/commit/", status=502, done=True)
    go(prepared, tmp_path, pull=True)
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


FREQUENT = ("403 on commit", "stale on every commit", "everything is down")


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FREQUENT else pytest.mark.slow) for name in STAY])
def test_faults_that_stay(hub: Hub, prepared: Local, waits: list[float], name: str, tmp_path: Path) -> None:
    """Nothing is half there, the message says what to do, and the same command does it afterwards."""
    HfApi().create_repo(NAME, repo_type="dataset")
    on, what, said = STAY[name]
    fault = hub.fault(on, times=999, **what)
    with pytest.raises(CatalogError, match=said):
        go(prepared, tmp_path)
    assert n_commits(hub) == 0
    fault.times = 0
    go(prepared, tmp_path)
    assert n_commits(hub) == 1


def test_nobody_is_logged_in(hub: Hub, prepared: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for token, said in (("", "hf auth login"), ("hf_wrong_token", "hf auth login"), (READER, "may not make one")):
        monkeypatch.setenv("HF_TOKEN", token)
        with pytest.raises(CatalogError, match=said):
            go(prepared, tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    close_session()
    with pytest.raises(CatalogError, match="HF_HUB_OFFLINE is set"):
        go(prepared, tmp_path)
    for name in ("no-slash", "a/b/c", "org/na me"):
        with pytest.raises(CatalogError, match="--repo wants ORG/NAME"):
            Dataset(name)


def test_a_changed_file_is_noticed(hub: Hub, prepared: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables are read back; here something between changes the card."""
    fetch = Dataset.fetch

    def garbled(self: Dataset, oid: str, paths: list[str]) -> dict[str, Path]:
        found = fetch(self, oid, paths)
        if "README.md" in found:
            found["README.md"].write_text("other")
        return found

    monkeypatch.setattr(Dataset, "fetch", garbled)
    with pytest.raises(CatalogError, match=r"README.md of org/name came back other than it was sent"):
        go(prepared, tmp_path)


def test_something_that_is_no_table_is_named(hub: Hub, prepared: Local, tmp_path: Path) -> None:
    """An error page saved as Parquet on the Hub: named, and nothing is sent."""
    hub.commit(NAME, {"runs/0123456789abcdef.parquet": b"<html>502</html>"})
    with pytest.raises(CatalogError, match=r"0123456789abcdef.parquet is a web page, not Parquet"):
        go(prepared, tmp_path)
    assert n_commits(hub) == 1


def test_a_card_that_is_no_text(hub: Hub, prepared: Local, tmp_path: Path) -> None:
    """Nobody's words are thrown away: it is named, and nothing is sent."""
    hub.commit(NAME, {"README.md": b"\xff\xfe"})
    with pytest.raises(CatalogError, match=r"README.md of org/name is not UTF-8: mend it on the Hub"):
        go(prepared, tmp_path)
    assert n_commits(hub) == 1


@pytest.mark.parametrize("told", ["{", "[1]", "null", '"x"', "[" * 100_000])
def test_digests_of_nonsense_are_none(told: str) -> None:
    """Then the rows themselves are compared."""
    out = io.BytesIO()
    pq.write_table(pa.table({"run_id": [1]}).replace_schema_metadata({DIGESTS: told}), out)
    assert digests_of(io.BytesIO(out.getvalue())) == {}


def test_names_to_which_nothing_can_be_published(hub: Hub, prepared: Local, tmp_path: Path) -> None:
    """A commit is no branch; where no dataset may be made a pull request is no way out."""
    with pytest.raises(CatalogError, match="--revision wants a branch, found the commit 0000"):
        Dataset(NAME, "0" * 40)
    with pytest.raises(
        CatalogError, match=r"there is no dataset other/name, and your token may not make one .*: give --repo a name"
    ) as refused:
        settle(Dataset("other/name"), lambda state: None)
    assert "--pr" not in str(refused.value)


# ---- killed ----


# imports before it is told to begin, so that the next one gets ready while one runs; commits of few files
PUBLISHER = """
import sys, huggingface_hub.hf_api, rich.progress, yaml
from collect import publish
from collect.__main__ import main
publish.FILES_PER_COMMIT = 2
sys.stdin.readline()
sys.exit(main(sys.argv[1:]))
"""


def publisher(runs: Path, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    """A process that does what `python -m collect publish` does, once its standard input says so."""
    command = [sys.executable, "-c", PUBLISHER, "publish", str(runs), "--repo", NAME]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def begin(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin
    process.stdin.write(b"\n")
    process.stdin.flush()


@pytest.mark.slow
def test_killed_at_any_moment_leaves_a_valid_dataset_and_goes_on(hub: Hub, tmp_path: Path) -> None:
    """kill -9 at 20 random moments of four commits; every commit there ever was opens, and the files at the end are those of one go."""
    runs = declare(write_runs(tmp_path / "runs", models=[f"org/m{n}@1" for n in range(6)]), "org/m0@1", "org/m1@1")
    environment = os.environ | hub.environment(tmp_path / "hf")
    process, following = publisher(runs, environment), publisher(runs, environment)
    time.sleep(2)  # imports
    start = time.monotonic()
    assert process.communicate(b"\n")[0] is None and process.returncode == 0
    whole_s, wanted = time.monotonic() - start, hub.files(NAME)
    assert n_commits(hub) > 2
    killed, seen, left_at, draw = 0, set[str](), set[int](), random.Random(0)
    for _ in range(20):
        if ("dataset", NAME) in hub.repos and hub.files(NAME) == wanted:
            del hub.repos["dataset", NAME]  # it had come to the end: begin anew
        process, following = following, publisher(runs, environment)
        begin(process)
        time.sleep(draw.uniform(0.1, 1.0) * whole_s)
        process.kill()
        killed += process.wait() == -signal.SIGKILL
        repo = hub.repos.get(("dataset", NAME))
        for oid, commit in repo.commits.items() if repo else ():
            if oid not in seen and "README.md" in commit.files:
                rows_of(held(hub, tmp_path / oid, oid))
            seen.add(oid)
        left_at.add(n_commits(hub) if repo else 0)
    _, said = following.communicate(b"\n")
    assert following.returncode == 0, said.decode()
    assert hub.files(NAME) == wanted
    assert killed > 10 and len(left_at) > 2  # numbers of commits that it stopped at
