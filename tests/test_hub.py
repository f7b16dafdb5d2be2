"""The real clients against the test Hub: what they do when all is well, when it refuses, and when the line is bad."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from http.client import HTTPConnection, RemoteDisconnected
from pathlib import Path
from socket import SHUT_WR

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hub import READER, STRANGER, Hub
from huggingface_hub import (
    _CACHED_NO_EXIST,
    CommitOperationAdd,
    CommitOperationDelete,
    HfApi,
    HfFileSystem,
    hf_hub_download,
    snapshot_download,
    try_to_load_from_cache,
)
from huggingface_hub.errors import (
    BadRequestError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    LocalTokenNotFoundError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # huggingface_hub's own call of its HTTP client
NAME = "org/name"
README = b"---\nlicense: apache-2.0\nconfigs:\n- config_name: rows\n  data_files: rows/*.parquet\n---\n# Rows\n"
BLOB = bytes(range(256)) * 400  # 102,400 bytes


def add(path: str, data: bytes) -> CommitOperationAdd:
    return CommitOperationAdd(path, data)


@pytest.fixture
def api(hub: Hub) -> HfApi:
    """The owner's client, and an empty data set org/name."""
    api = HfApi()
    api.create_repo(NAME, repo_type="dataset")
    return api


@pytest.fixture
def commit(api: HfApi) -> Callable[..., str]:
    """Commit files to org/name through the client; returns the commit id."""

    def send(files: dict[str, bytes], **more: object) -> str:
        operations = [add(path, data) for path, data in files.items()]
        return str(api.create_commit(NAME, operations, commit_message="more", repo_type="dataset", **more).oid)  # type: ignore[arg-type]

    return send


# ---- all is well ----


def test_repositories_are_made_once_and_deleted(hub: Hub) -> None:
    api = HfApi()
    assert api.whoami()["name"] == "me"
    assert api.create_repo("mine", repo_type="dataset").repo_id == "me/mine"
    assert api.create_repo("me/mine", repo_type="dataset", exist_ok=True).repo_id == "me/mine"
    with pytest.raises(HfHubHTTPError, match="already created") as refused:
        api.create_repo("me/mine", repo_type="dataset")
    assert refused.value.response.status_code == 409
    assert api.list_repo_files("me/mine", repo_type="dataset") == [".gitattributes"]
    assert not api.repo_exists("me/mine")  # there is no such model
    api.delete_repo("me/mine", repo_type="dataset")
    assert hub.repos == {}
    with pytest.raises(RepositoryNotFoundError):
        api.delete_repo("me/mine", repo_type="dataset")


def test_upload_folder_sends_what_is_new_in_one_commit(hub: Hub, api: HfApi, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "rows").mkdir(parents=True)
    (folder / "README.md").write_bytes(README)
    (folder / "rows" / "a.parquet").write_bytes(BLOB)
    (folder / "empty.bin").touch()
    first = api.upload_folder(repo_id=NAME, repo_type="dataset", folder_path=folder)
    held = hub.files(NAME, first.oid)
    assert held == {".gitattributes": held[".gitattributes"], "README.md": README, "rows/a.parquet": BLOB, "empty.bin": b""}
    assert [put.received for put in hub.seen("PUT")] == [len(BLOB)]
    assert len(hub.seen("/commit/")) == 1
    again = api.upload_folder(repo_id=NAME, repo_type="dataset", folder_path=folder)
    assert again.oid == first.oid
    assert len(hub.seen("/commit/")) == 1


def test_large_storage_is_chosen_by_size_by_rule_or_for_binary(hub: Hub, commit: Callable[..., str]) -> None:
    hub.lfs_from = 1000
    commit({"a.txt": b"a" * 1000, "b.txt": b"b" * 1001, "c.txt": b"c\0c", "d.parquet": b"d"})
    files = hub.repos["dataset", NAME].at("main").files
    assert [path for path, file in files.items() if file.lfs] == ["b.txt", "c.txt", "d.parquet"]


def test_a_blob_that_is_there_is_not_sent_again(hub: Hub, commit: Callable[..., str]) -> None:
    commit({"a.parquet": BLOB})
    commit({"b.parquet": BLOB})
    assert len(hub.seen("PUT")) == 1
    assert hub.files(NAME)["b.parquet"] == BLOB


def test_parent_commit_holds_until_somebody_else_commits(hub: Hub, api: HfApi, commit: Callable[..., str]) -> None:
    first = api.repo_info(NAME, repo_type="dataset").sha
    second = commit({"a.txt": b"1"}, parent_commit=first)
    hub.meanwhile(NAME, {"theirs.txt": b"2"})
    with pytest.raises(HfHubHTTPError, match="A commit has happened since") as refused:
        commit({"b.txt": b"3"}, parent_commit=second)
    assert refused.value.response.status_code == 412
    assert sorted(hub.files(NAME)) == [".gitattributes", "a.txt", "theirs.txt"]
    commit({"b.txt": b"3"}, parent_commit=api.repo_info(NAME, repo_type="dataset").sha)
    assert [entry.authors for entry in api.list_repo_commits(NAME, repo_type="dataset")] == [["me"], ["other"], ["me"], ["me"]]


def test_a_pull_request_leaves_main_alone(hub: Hub, api: HfApi, commit: Callable[..., str]) -> None:
    base = commit({"a.txt": b"1"})
    commit({"a.txt": b"2", "later.txt": b"2"})
    offer = api.create_commit(
        NAME, [add("a.txt", b"3")], commit_message="offer", repo_type="dataset", create_pr=True, parent_commit=base, token=STRANGER
    )
    assert (offer.pr_revision, offer.pr_num) == ("refs/pr/1", 1)
    commit({"b.parquet": BLOB}, revision="refs/pr/1")
    assert hub.files(NAME)["a.txt"] == b"2"
    assert hub.files(NAME, "refs/pr/1") == hub.files(NAME, base) | {"a.txt": b"3", "b.parquet": BLOB}
    refs = api.list_repo_refs(NAME, repo_type="dataset", include_pull_requests=True)
    assert [ref.ref for ref in refs.pull_requests or []] == ["refs/pr/1"]


def test_branches_and_tags(api: HfApi, commit: Callable[..., str]) -> None:
    first = commit({"a.txt": b"1"})
    api.create_branch(NAME, branch="next/one", revision=first, repo_type="dataset")
    second = commit({"a.txt": b"2"}, revision="next/one")
    api.create_tag(NAME, tag="v1", revision="next/one", repo_type="dataset")
    refs = api.list_repo_refs(NAME, repo_type="dataset")
    assert {ref.name: ref.target_commit for ref in refs.branches} == {"main": first, "next/one": second}
    assert [(ref.name, ref.target_commit) for ref in refs.tags] == [("v1", second)]
    with pytest.raises(HfHubHTTPError, match="409"):
        api.create_tag(NAME, tag="v1", repo_type="dataset")
    api.delete_branch(NAME, branch="next/one", repo_type="dataset")
    api.delete_tag(NAME, tag="v1", repo_type="dataset")
    with pytest.raises(RevisionNotFoundError):
        commit({"a.txt": b"3"}, revision="next/one")


def test_listings_go_on_over_pages(hub: Hub, api: HfApi, commit: Callable[..., str]) -> None:
    hub.page = 2
    commit({"a/b/1.txt": b"1", "a/2.parquet": BLOB, "3.txt": b"3"})
    tree = list(api.list_repo_tree(NAME, repo_type="dataset", recursive=True))
    assert [entry.path for entry in tree] == [".gitattributes", "3.txt", "a", "a/2.parquet", "a/b", "a/b/1.txt"]
    assert len(hub.seen("/tree/")) == 3
    assert [entry.path for entry in api.list_repo_tree(NAME, "a", repo_type="dataset")] == ["a/2.parquet", "a/b"]
    known = api.get_paths_info(NAME, ["a", "a/2.parquet", "none"], repo_type="dataset")
    assert [entry.path for entry in known] == ["a", "a/2.parquet"]
    assert known[1].lfs.size == len(BLOB)
    for n in range(4):
        commit({"a.txt": b"%d" % n})
    assert len(api.list_repo_commits(NAME, repo_type="dataset")) == 6


def test_deleting_files_and_folders(hub: Hub, api: HfApi, commit: Callable[..., str]) -> None:
    commit({"a.txt": b"1", "b/1.txt": b"1", "b/2.txt": b"2"})
    gone = [CommitOperationDelete("a.txt"), CommitOperationDelete("b/")]
    api.create_commit(NAME, gone, commit_message="less", repo_type="dataset")
    assert list(hub.files(NAME)) == [".gitattributes"]
    with pytest.raises(RemoteEntryNotFoundError, match="doesn't exist"):
        api.delete_file("a.txt", NAME, repo_type="dataset")


def test_snapshot_is_downloaded_once_and_read_offline(hub: Hub, commit: Callable[..., str]) -> None:
    first = commit({"README.md": README, "rows/a.parquet": BLOB})
    folder = Path(snapshot_download(NAME, repo_type="dataset"))
    assert folder.name == first
    assert (folder / "rows" / "a.parquet").read_bytes() == BLOB
    assert not hub.seen("GET /lfs/")[0].headers["Authorization"]
    downloads = len(hub.seen("GET .*/(resolve|lfs)/"))
    second = commit({"b.txt": b"new"})
    offline = snapshot_download(NAME, repo_type="dataset", local_files_only=True)
    pinned = snapshot_download(NAME, repo_type="dataset", revision=first)
    assert offline == pinned == str(folder)
    fresh = snapshot_download(NAME, repo_type="dataset")
    assert (Path(fresh).name, len(hub.seen("GET .*/(resolve|lfs)/"))) == (second, downloads + 1)


def test_file_system_lists_and_reads_in_pieces(hub: Hub, commit: Callable[..., str]) -> None:
    commit({"rows/a.parquet": BLOB, "b.txt": b"text"})
    files = HfFileSystem()
    assert sorted(files.ls(f"datasets/{NAME}", detail=False)) == [f"datasets/{NAME}/{n}" for n in (".gitattributes", "b.txt", "rows")]
    with files.open(f"datasets/{NAME}/rows/a.parquet", block_size=1000) as file:
        file.seek(-10, os.SEEK_END)
        assert file.read() == BLOB[-10:]
    assert {(get.status, get.sent) for get in hub.seen("GET /lfs/")} == {(206, 10)}
    assert files.cat_file(f"datasets/{NAME}/b.txt") == b"text"


@pytest.mark.slow
def test_datasets_loads_and_streams(hub: Hub, tmp_path: Path, commit: Callable[..., str]) -> None:
    """In a process of its own, which knows the Hub by its environment alone."""
    pq.write_table(pa.table({"n": range(1000)}), tmp_path / "a.parquet")
    commit({"README.md": README, "rows/a.parquet": (tmp_path / "a.parquet").read_bytes()})
    script = (
        "import datasets, json; name = 'org/name'\n"
        "whole = datasets.load_dataset(name, 'rows', split='train')\n"
        "stream = datasets.load_dataset(name, 'rows', split='train', streaming=True)\n"
        "print(json.dumps([datasets.get_dataset_config_names(name), sum(whole['n']), sum(row['n'] for row in stream)]))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | hub.environment(tmp_path / "hf"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [["rows"], 499500, 499500]
    assert not [request for request in hub.log if request.status in (0, 501)]


# ---- the Hub refuses ----


def test_wrong_sha256_is_refused(api: HfApi) -> None:
    """As when a file changes between its hash and its upload."""
    changed = add("a.parquet", BLOB)
    changed.upload_info.sha256 = bytes(32)
    with pytest.raises(RuntimeError, match="uploading") as refused:
        api.create_commit(NAME, [changed], commit_message="a", repo_type="dataset")
    assert isinstance(refused.value.__cause__, BadRequestError)
    assert "SHA256Mismatch" in str(refused.value.__cause__)


def test_wrong_size_is_refused(api: HfApi) -> None:
    grown = add("a.parquet", BLOB)
    grown.upload_info.size -= 1
    with pytest.raises(RuntimeError, match="uploading") as refused:
        api.create_commit(NAME, [grown], commit_message="a", repo_type="dataset")
    assert "102400 bytes came, 102399 were announced" in str(refused.value.__cause__)


def test_blob_never_uploaded_is_refused(api: HfApi) -> None:
    never = add("a.parquet", BLOB)
    never._upload_mode, never._is_uploaded, never._remote_oid = "lfs", True, None
    never._should_ignore = False
    with pytest.raises(BadRequestError, match="does not exist"):
        api.create_commit(NAME, [never], commit_message="a", repo_type="dataset")


@pytest.mark.parametrize("path", ["", "/a", "a//b", "../a", "a/../b", ".git/config", "a/.GIT/b", "a\nb", "a\x7f", ".gitattributes/a"])
def test_bad_path_is_refused(hub: Hub, api: HfApi, path: str) -> None:
    """Past the client's own check, which knows only some of these."""
    odd = add("good", b"1")
    odd.path_in_repo = path
    with pytest.raises(BadRequestError):
        api.create_commit(NAME, [odd], commit_message="a", repo_type="dataset")
    assert list(hub.files(NAME)) == [".gitattributes"]


@pytest.mark.parametrize(
    ("front", "reason"),
    [("a: [", "YAML"), ("- a", "not a mapping"), ("a: 1\na: 2", "duplicated"), ("configs:\n  config_name: a", "configs")],
)
def test_bad_yaml_is_refused(hub: Hub, api: HfApi, front: str, reason: str) -> None:
    """First where the client asks, before anything is uploaded; then by the commit itself."""
    with pytest.raises(ValueError, match=f"(?s)Invalid metadata in README.md.*{reason}"):
        api.upload_file(path_or_fileobj=f"---\n{front}\n---\n".encode(), path_in_repo="README.md", repo_id=NAME, repo_type="dataset")
    assert not hub.seen("/preupload/")
    hidden = add("other.md", f"---\n{front}\n---\n".encode())
    hidden.path_in_repo = "README.md"
    hub.fault("validate-yaml", status=200)
    with pytest.raises(BadRequestError, match="Invalid metadata"):
        api.create_commit(NAME, [hidden], commit_message="a", repo_type="dataset")


def test_no_token_or_a_wrong_one(hub: Hub, api: HfApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clients call a 401 "repository not found", except where no repository is in the address or the token is wrong."""
    with pytest.raises(HfHubHTTPError, match="Invalid credentials") as wrong:
        HfApi(token="hf_wrong").repo_info(NAME, repo_type="dataset")
    assert wrong.value.response.status_code == 401
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(LocalTokenNotFoundError):
        HfApi().whoami()
    with pytest.raises(HfHubHTTPError) as refused:
        HfApi().create_repo("org/new", repo_type="dataset")
    assert refused.value.response.status_code == 401
    with pytest.raises(RepositoryNotFoundError) as missing:
        HfApi().create_commit(NAME, [add("a.txt", b"1")], commit_message="a", repo_type="dataset")
    assert missing.value.response.status_code == 401


@pytest.mark.parametrize("token", [READER, STRANGER])
def test_who_may_not_write(hub: Hub, api: HfApi, token: str) -> None:
    other = HfApi(token=token)
    other.auth_check(NAME, repo_type="dataset")
    for attempt in (
        lambda: other.create_repo("org/new", repo_type="dataset"),
        lambda: other.create_commit(NAME, [add("a.txt", b"1")], commit_message="a", repo_type="dataset"),
        lambda: other.create_tag(NAME, tag="v1", repo_type="dataset"),
        lambda: other.delete_repo(NAME, repo_type="dataset"),
        lambda: other.auth_check(NAME, repo_type="dataset", write=True),
    ):
        with pytest.raises(HfHubHTTPError) as refused:
            attempt()
        assert refused.value.response.status_code == 403
    assert list(hub.files(NAME)) == [".gitattributes"]


def test_a_private_repository_does_not_exist_for_others(hub: Hub) -> None:
    HfApi().create_repo("org/private", repo_type="dataset", private=True)
    assert HfApi(token=READER).repo_info("org/private", repo_type="dataset").private
    for token in (False, STRANGER):
        with pytest.raises(RepositoryNotFoundError):
            HfApi().repo_info("org/private", repo_type="dataset", token=token)
        with pytest.raises(RepositoryNotFoundError):
            snapshot_download("org/private", repo_type="dataset", token=token)


def test_unknown_repository_revision_and_entry(hub: Hub, commit: Callable[..., str]) -> None:
    commit({"a.txt": b"1"})
    with pytest.raises(RepositoryNotFoundError):
        hf_hub_download("org/none", "a.txt", repo_type="dataset")
    with pytest.raises(RevisionNotFoundError):
        hf_hub_download(NAME, "a.txt", repo_type="dataset", revision="v9")
    with pytest.raises(RevisionNotFoundError):
        snapshot_download(NAME, repo_type="dataset", revision="v9")
    with pytest.raises(RemoteEntryNotFoundError):
        hf_hub_download(NAME, "none.txt", repo_type="dataset")
    assert try_to_load_from_cache(NAME, "none.txt", repo_type="dataset") is _CACHED_NO_EXIST
    with pytest.raises(RemoteEntryNotFoundError):
        list(HfApi().list_repo_tree(NAME, "none", repo_type="dataset"))
    with pytest.raises(LocalEntryNotFoundError):
        snapshot_download(NAME, repo_type="dataset", local_files_only=True)


# ---- the line is bad ----


def test_a_cut_download_goes_on_where_it_was_cut(
    hub: Hub, commit: Callable[..., str], waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client keeps whole chunks only; they are of 10 MB unless told, so a smaller file begins anew."""
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 10_000)
    commit({"a.parquet": BLOB})
    hub.fault("GET /lfs/", cut=60_000)
    assert Path(hf_hub_download(NAME, "a.parquet", repo_type="dataset")).read_bytes() == BLOB
    assert [(get.status, get.sent) for get in hub.seen("GET /lfs/")] == [(200, 60_000), (206, 42_400)]
    assert waits == [1]


def test_a_slow_download_goes_on_after_the_timeout(
    hub: Hub, commit: Callable[..., str], waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit({"a.parquet": BLOB})
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.3)
    slow = hub.fault("GET /lfs/", delay=60)
    assert Path(hf_hub_download(NAME, "a.parquet", repo_type="dataset")).read_bytes() == BLOB
    assert (slow.times, waits[0]) == (0, 1)


def test_a_download_that_stays_cut_leaves_nothing_behind(hub: Hub, commit: Callable[..., str], waits: list[float], tmp_path: Path) -> None:
    commit({"a.parquet": BLOB})
    hub.fault("GET /lfs/", cut=0, times=99)
    with pytest.raises(Exception, match="disconnected"):
        hf_hub_download(NAME, "a.parquet", repo_type="dataset")
    assert len(hub.seen("GET /lfs/")) == 6
    assert not list((tmp_path / "hf").rglob("blobs/*"))


def test_a_cut_upload_is_sent_again_whole(hub: Hub, commit: Callable[..., str], waits: list[float]) -> None:
    hub.fault("PUT /lfs/", cut=50_000, times=2)
    commit({"a.parquet": BLOB})
    assert [(put.status, put.received) for put in hub.seen("PUT")] == [(0, 50_000), (0, 50_000), (200, 102_400)]
    assert hub.files(NAME)["a.parquet"] == BLOB


@pytest.mark.parametrize("status", [500, 502, 503])
def test_the_clients_try_again_before_the_commit_but_not_the_commit(
    hub: Hub, commit: Callable[..., str], waits: list[float], status: int
) -> None:
    for place in ("/preupload/", "/objects/batch", "PUT /lfs/"):
        hub.fault(place, status=status, times=2)
    hub.fault("/commit/", status=status)
    with pytest.raises(HfHubHTTPError, match=f"{status}"):
        commit({"a.parquet": BLOB})
    assert waits == [1, 2] * 3
    assert len(hub.seen("/commit/")) == 1
    assert list(hub.files(NAME)) == [".gitattributes"]


def test_too_many_requests_wait_as_long_as_told(hub: Hub, commit: Callable[..., str], waits: list[float]) -> None:
    hub.fault("/preupload/", status=429, headers={"Retry-After": "7"})
    commit({"a.txt": b"1"})
    hub.fault("GET .*/tree/", status=429, headers={"RateLimit": '"api";r=0;t=20'})
    snapshot_download(NAME, repo_type="dataset")
    assert waits == [8, 21]  # and one second more


def test_a_lost_answer_is_a_commit_all_the_same(hub: Hub, commit: Callable[..., str]) -> None:
    """The client cannot tell it from a commit that failed; whoever tries again must look first."""
    hub.fault("/commit/", status=500, done=True)
    with pytest.raises(HfHubHTTPError, match="500"):
        commit({"a.txt": b"1"})
    hub.fault("/commit/", cut=0, done=True)
    with pytest.raises(Exception, match="disconnected"):
        commit({"b.txt": b"2"})
    assert sorted(hub.files(NAME)) == [".gitattributes", "a.txt", "b.txt"]


def test_rights_that_are_lost_on_the_way(hub: Hub, commit: Callable[..., str]) -> None:
    for status in (401, 403):
        hub.fault("/commit/", status=status)
        with pytest.raises(HfHubHTTPError) as refused:
            commit({"a.txt": b"1"})
        assert refused.value.response.status_code == status


def test_a_hub_that_is_down_leaves_the_cache(hub: Hub, commit: Callable[..., str], waits: list[float]) -> None:
    commit({"a.txt": b"1"})
    folder = snapshot_download(NAME, repo_type="dataset")
    hub.fault("GET /api/", status=503, times=99)
    assert snapshot_download(NAME, repo_type="dataset") == folder
    with pytest.raises(LocalEntryNotFoundError):
        snapshot_download("org/other", repo_type="dataset")


def test_a_client_that_is_gone_in_the_middle_changed_nothing(hub: Hub, api: HfApi) -> None:
    """A commit whose last lines never came is none, though what came of it reads well."""
    lines = [{"key": "header", "value": {"summary": "half"}}, {"key": "file", "value": {"path": "a.txt", "content": "MQ=="}}]
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()
    line = HTTPConnection(hub.url.removeprefix("http://"))
    line.putrequest("POST", f"/api/datasets/{NAME}/commit/main")
    line.putheader("Authorization", f"Bearer {os.environ['HF_TOKEN']}")
    line.putheader("Content-Length", str(len(body) + 10))
    line.endheaders(body)
    line.sock.shutdown(SHUT_WR)
    with pytest.raises(RemoteDisconnected):
        line.getresponse()
    assert list(hub.files(NAME)) == [".gitattributes"]
