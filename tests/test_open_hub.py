"""Catalogs opened from the Hub: pinned, whole, in part, offline, without a download; and data sets that are not to be trusted."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from conftest import Filler
from dataset_by_hand import footer_says, parquet, rows_of, small, varint
from hub import READER, STRANGER, Hub

from catalog import CatalogError, connect, download, guard
from catalog import hub as from_hub
from catalog.__main__ import main
from catalog.hub_cache import remember, remembered
from catalog.open import arrow_schema

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # huggingface_hub's own call of its HTTP client
NAME = "org/name"
A, B = "outcomes/org--A@1/", "outcomes/org--B@1/"
COUNTS = "SELECT count(*), count(correct), sum(CAST(correct AS INTEGER)) FROM outcomes"


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """The small data set."""
    return small()


@pytest.fixture
def there(hub: Hub, files: dict[str, bytes]) -> str:
    """The small data set on the Hub; its commit."""
    return hub.commit(NAME, files)


def of(files: dict[str, bytes], start: str) -> str:
    """The one path that begins so."""
    (path,) = (path for path in files if path.startswith(start))
    return path


def answers(con: duckdb.DuckDBPyConnection) -> list[tuple[object, ...]]:
    """What a catalog says of its pairs, and how many outcomes it has."""
    counts = (
        "SELECT before_run, after_run, answer, n_options, n11, n10, n01, n00, n_unpaired_after FROM transition_counts WHERE kind = 'pair'"
    )
    return con.sql(f"{counts} ORDER BY ALL").fetchall() + con.sql(COUNTS).fetchall()


def downloads(hub: Hub) -> int:
    """Files fetched so far."""
    return len(hub.seen("GET .*/(resolve|lfs)/"))


# ---- all is well ----


def test_opened_once_then_from_the_cache_and_pinned(
    hub: Hub, there: str, files: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    con = connect(NAME)
    assert con.sql(COUNTS).fetchall() == [(36, 33, 24)]
    assert con.sql("FROM opened_from").fetchall() == [(NAME, there)]
    assert f"{NAME} at {there[:12]}: {len(files) - 1} of {len(files) - 1} files to download" in capsys.readouterr().err
    fetched = downloads(hub)
    assert not hub.seen("README")
    newer = hub.commit(NAME, {"pairs/pairs.parquet": parquet(rows_of(con, "pairs", "FALSE"))})
    asked = len(hub.log)
    pinned = connect(f"{NAME}@{there}")
    assert len(hub.log) == asked  # a commit never changes: nobody is asked
    assert answers(pinned) == answers(con)
    head = connect(NAME)
    assert (head.sql("FROM pairs").fetchall(), head.sql("SELECT revision FROM opened_from").fetchall()) == ([], [(newer,)])
    assert downloads(hub) <= fetched + 2  # one file; large ones are sent on to their storage


def test_revisions(hub: Hub, there: str, files: dict[str, bytes]) -> None:
    hub.repos["dataset", NAME].refs |= {"refs/tags/v1": there, "refs/pr/1": there}
    hub.commit(NAME, {of(files, A): b"broken since"})
    for opened in (connect(NAME, revision="v1"), connect(f"{NAME}@refs/pr/1")):
        assert opened.sql("FROM opened_from").fetchall() == [(NAME, there)]
    with pytest.raises(CatalogError, match="org/name has no revision v9: give a branch, tag or commit of http"):
        connect(NAME, revision="v9")
    with pytest.raises(CatalogError, match="a revision goes with one data set on the Hub, 2 are given"):
        connect(NAME, "org/other", revision="v1")


def test_a_folder_of_that_name_wins(hub: Hub, there: str, files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / NAME, files)
    assert connect(NAME).sql("FROM opened_from").fetchall() == [(NAME, None)]
    assert hub.log == []


def written(folder: Path, files: dict[str, bytes]) -> Path:
    """Files in a folder."""
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def test_a_newer_minor_version_opens_a_newer_major_one_does_not(hub: Hub, files: dict[str, bytes]) -> None:
    """Columns of a newer minor version are left aside, here and without a download."""
    path, con = of(files, A), connect_files(files)
    rows = rows_of(con, "outcomes", "run_id IN (SELECT run_id FROM runs WHERE model_id = 'org/A@1')")
    newer = rows.append_column("confidence", pa.array([0.5] * rows.num_rows))
    hub.commit(NAME, files | {path: parquet(newer, "1.7")})
    assert answers(connect(NAME)) == answers(connect(NAME, download=False)) == answers(con)
    hub.commit(NAME, {path: parquet(rows, "2.0")})
    for download_it in (True, False):
        with pytest.raises(CatalogError, match=r"has schema_version 2.0, this package reads 1.x. For a newer one: pip install --upgrade"):
            connect(NAME, download=download_it)


def connect_files(files: dict[str, bytes]) -> duckdb.DuckDBPyConnection:
    """The files opened as a folder."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return connect(written(Path(folder), files))


def test_command_line(hub: Hub, there: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command takes the name; the commit is told beside the result, never in it."""
    assert main(["query", COUNTS, "--from", f"{NAME}@main", "--format", "csv"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[1] == "36,33,24"
    assert f"{NAME} at {there}\n" in said.err
    assert main(["check", "--from", NAME, "--no-download"]) == 0
    assert main(["download", NAME, "--to", str(tmp_path / "copy")]) == 0
    said = capsys.readouterr()
    assert said.out == f"{tmp_path / 'copy'}\n"
    assert main(["check", "--from", str(tmp_path / "copy")]) == 0
    assert there in capsys.readouterr().err  # a copy knows where it came from
    assert main(["download", NAME, "--to", str(tmp_path / "copy")]) == 1
    assert "is not empty: give --to a new folder" in capsys.readouterr().err


# ---- who may ----


def test_private_missing_and_wrong_token(hub: Hub, there: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Said with what to type; no token is ever shown."""
    hub.repos["dataset", NAME].private = True
    monkeypatch.setenv("HF_TOKEN", READER)
    connect(NAME)
    for token, told in ((STRANGER, "that you may see"), ("", "that you may see"), ("hf_wrong_one", "(that you may see|refuses org/name)")):
        monkeypatch.setenv("HF_TOKEN", token)
        with pytest.raises(CatalogError, match=f"{told}.*hf auth login, or set HF_TOKEN") as refused:
            connect(NAME)
        assert not token or token not in str(refused.value)
    monkeypatch.setenv("HF_TOKEN", READER)
    with pytest.raises(CatalogError, match=r"no folder no/where here, and no data set http.*/no/where"):
        connect("no/where")
    hub.fault("GET /api", status=403, headers={"X-Error-Code": "GatedRepo"})
    with pytest.raises(CatalogError, match="is gated: ask for access at http"):
        connect(NAME)
    said = capsys.readouterr()
    assert "hf_" not in said.out + said.err


# ---- no Hub ----


def test_a_cache_that_cannot_be_written_only_forgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a folder can be made there."""
    (tmp_path / "file").touch()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "file" / "below"))
    remember(NAME, "main", "a" * 40)
    assert remembered(NAME, "a" * 40) is None


def test_offline_from_the_cache(hub: Hub, there: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A page stands in the way, the Hub is down, does not answer at all, or is not to be asked: the cache, with its commit and age, or what to type."""
    online = answers(connect(NAME))
    old = from_hub.memory_of(NAME) / "main"
    os.utime(old, (0, old.stat().st_mtime - 3 * 86400))
    down = hub.fault("GET /", status=503, times=99)
    portal = hub.fault("GET /", body=b"<html>Sign in to this network</html>")
    hub.faults.reverse()
    for why in ("http://127.0.0.1:", "Server error '503", "http://127.0.0.1:9: ", "HF_HUB_OFFLINE is set"):
        if why.endswith(":9: "):
            monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", "http://127.0.0.1:9")
            monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
        elif why.startswith("HF"):
            monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        capsys.readouterr()
        con = connect(NAME)
        told = capsys.readouterr().err
        assert f"note: the Hub is out of reach ({why}" in told and f"from the cache at {there}, as it was 3 days ago" in told
        assert con.sql("SELECT revision FROM opened_from").fetchall() == [(there,)]
        with pytest.raises(
            CatalogError, match=r"the cache has nothing of org/other@v1; .*Online, run: catalog download org/other --revision v1"
        ):
            connect("org/other@v1")
    assert answers(con) == online
    assert (portal.times, down.times < 99) == (0, True)


def test_offline_with_a_part_in_the_cache(hub: Hub, there: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is missing is counted, not left out in silence; the part itself opens."""
    part = download(NAME, models=["A"], to=tmp_path / "part")
    hub.fault("GET /", status=503, times=99)
    with pytest.raises(CatalogError, match=f"the cache lacks 1 of 10 files of .*Online, run: catalog download org/name --revision {there}"):
        connect(NAME)
    assert connect(part).sql("SELECT revision FROM opened_from").fetchall() == [(there,)]


def test_what_another_program_downloaded_opens_offline(hub: Hub, there: str) -> None:
    from huggingface_hub import snapshot_download

    snapshot_download(NAME, repo_type="dataset")
    hub.fault("GET /", status=503, times=99)
    assert connect(NAME).sql("FROM opened_from").fetchall() == [(NAME, there)]


def test_a_download_that_was_cut_goes_on(hub: Hub, there: str, files: dict[str, bytes], waits: list[float]) -> None:
    hub.fault("GET /lfs/", cut=10, times=99)
    with pytest.raises(CatalogError, match=r"did not arrive whole .*run the same command again, it goes on"):
        connect(NAME)
    hub.faults.clear()
    assert connect(NAME).sql(COUNTS).fetchall() == [(36, 33, 24)]


# ---- a part ----


def test_a_part_is_a_sound_catalog(hub: Hub, there: str, files: dict[str, bytes], tmp_path: Path) -> None:
    """Only the files of the models asked for are fetched; runs without outcomes are left out, and pairs that lost a side."""
    a, b = "org/A@1", "org/B@1"
    cached = from_hub.cache_of(NAME) / "snapshots" / there
    for at, (asked, n_runs, models, n_outcomes) in enumerate([
        ({"models": ["org/A"]}, 6, [a], 18), ({"models": ["B"], "tasks": ["y"]}, 3, [b], 6),
        ({"tasks": ["x/o*"]}, 6, [a, b], 24), ({"models": ["org/*"]}, 12, [a, b], 36),
    ]):  # fmt: skip
        part = download(NAME, to=tmp_path / str(at), **asked)
        con = connect(part)  # refuses what is not sound
        assert con.sql("SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM outcomes), (SELECT count(*) FROM pairs)").fetchall() == [
            (n_runs, n_outcomes, len(models) - 1)
        ]
        assert con.sql("SELECT list(model_id ORDER BY model_id) FROM models").fetchall() == [(models,)]
        if at == 0:
            assert [str(path.relative_to(cached)) for path in cached.glob("outcomes/**/*.parquet")] == [of(files, A)]
        copied = {path.name for path in part.glob("outcomes/*/*")} & {Path(path).name for path in files}
        assert len(copied) == (0 if "tasks" in asked else len(models))  # a file whose rows all stay keeps its name and bytes


def test_a_part_of_a_data_set_laid_out_otherwise(hub: Hub, files: dict[str, bytes], tmp_path: Path) -> None:
    """Outcomes that lie in no folder of a model may be anybody's: they are looked through; those of other models are not fetched."""
    moved = {path.replace(A, "outcomes/2026/"): data for path, data in files.items()}
    commit = hub.commit(NAME, moved)
    assert connect(download(NAME, models=["A"], to=tmp_path / "part")).sql("SELECT count(*) FROM outcomes").fetchall() == [(18,)]
    fetched = (from_hub.cache_of(NAME) / "snapshots" / commit).glob("outcomes/**/*.parquet")
    assert [path.parent.name for path in fetched] == ["2026"]


def test_a_part_that_is_nothing(hub: Hub, there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catalog.partial.cache_folder", lambda: tmp_path)
    with pytest.raises(CatalogError, match=r"no run of .* fits model C. There are\n  org/A@1\n  org/B@1"):
        download(NAME, models=["A", "C"])
    with pytest.raises(CatalogError, match="fits task z"):
        download(NAME, tasks=["z"])
    with pytest.raises(CatalogError, match="name of a data set"):
        download("just-a-name")
    assert not list(tmp_path.glob("parts/*"))
    assert download(NAME, models=["A"]) == download(NAME, models=["A"])


# ---- without a download ----


def test_without_a_download_the_same_answers(hub: Hub, there: str, files: dict[str, bytes], tmp_path: Path) -> None:
    far = connect(NAME, download=False)
    assert not hub.seen("/resolve/.*/outcomes/.*") or all(r.headers.get("Range") for r in hub.seen("GET /.*/outcomes/"))
    whole = connect(NAME)
    assert answers(far) == answers(whole)
    assert far.sql("FROM opened_from").fetchall() == [(NAME, there)]
    hub.commit(NAME, {of(files, A): b"somebody went on"})
    assert far.sql(COUNTS).fetchall() == whole.sql(COUNTS).fetchall()  # at its commit
    comment = "SELECT comment FROM duckdb_columns() WHERE table_name = 'outcomes' AND column_name = 'correct'"
    assert far.sql(comment).fetchall() == whole.sql(comment).fetchall()
    near = connect(
        written(tmp_path / "near", small(lambda fill: fill.answers("org/C@1", "x/one", "0000"))), f"{NAME}@{there}", download=False
    )
    assert near.sql("SELECT count(*) FROM outcomes").fetchall() == [(40,)]  # runs that stand in both are counted once


def test_only_the_columns_that_are_read_are_fetched(hub: Hub, files: dict[str, bytes]) -> None:
    """Two megabytes of text stay where they are while their lines are counted."""
    con = connect_files(files)
    (run,) = con.sql("SELECT min(run_id) FROM runs").fetchall()[0]
    texts = [os.urandom(1_000_000).hex() for _ in range(2)]
    rows = pa.table({"run_id": [run] * 2, "item": [0, 1], "text": texts}, arrow_schema("generations"))
    hub.commit(NAME, files | {"generations/org--A@1/a.parquet": parquet(rows, use_dictionary=False)})
    far = connect(NAME, download=False)
    before = sum(request.sent for request in hub.log)
    assert far.sql("SELECT count(item), min(item) FROM generations").fetchall() == [(2, 0)]
    assert sum(request.sent for request in hub.log) - before < 700_000
    assert far.sql("SELECT sum(len(text)) FROM generations").fetchall() == [(4_000_000,)]


# ---- several ----


def test_several_are_compared_in_one_query(hub: Hub, there: str, tmp_path: Path) -> None:
    def other(fill: Filler) -> None:
        fill.answers("org/C@1", "x/one", "0011", kind="instruct")
        fill.pair("org/A@1", "org/C@1")

    second = hub.commit("org/second", small(other))
    con = connect(NAME, "org/second", written(tmp_path / "folder", small()))
    assert con.sql("FROM opened_from").fetchall() == [(NAME, there), ("org/second", second), (str(tmp_path / "folder"), None)]
    assert con.sql("SELECT after_id, count(*) FROM run_pairs WHERE kind = 'pair' GROUP BY ALL ORDER BY ALL").fetchall() == [
        ("org/B@1", 6),
        ("org/C@1", 1),
    ]


def test_conflicts_name_both_sources(hub: Hub, there: str, tmp_path: Path) -> None:
    def change(fill: Filler) -> None:
        fill.con.execute("UPDATE outcomes SET correct = NOT correct, predicted = 1 - predicted WHERE item = 2 AND n_tokens = 5")
        fill.con.execute("UPDATE protocols SET setting = 'cot'")

    other = written(tmp_path / "other", small(change))
    with pytest.raises(CatalogError, match=f"org/name and {other} fails integrity:\n") as refused:
        connect(NAME, other)
    told = str(refused.value)
    assert re.search(rf"\n  run \d+ differs: outcomes in org/name, other outcomes in {other}\n", told)
    assert f"\n  protocol p differs: setting s in org/name, other setting cot in {other}\n" in told


# ---- not to be trusted ----


OUTSIDE = [
    "outcomes/../../evil.parquet",
    "/outcomes/a.parquet",
    "outcomes\\..\\a.parquet",
    "C:/a.parquet",
    "runs/a\nb.parquet",
    "outcomes//a.parquet",
    "./a",
]


def test_paths_that_lead_out() -> None:
    for path in OUTSIDE:
        with pytest.raises(CatalogError, match="may lie outside"):
            guard.refuse_paths("org/name", ["outcomes/a.parquet", path])
    with pytest.raises(CatalogError, match="whose name is a pattern"):
        guard.refuse_patterns("org/name", ["outcomes/*/a.parquet"])
    guard.refuse_paths("org/name", ["outcomes/org--a..b@1/a.parquet", ".gitattributes", "a b.txt"])


@pytest.mark.parametrize("download_it", [True, False])
def test_a_path_that_leads_out_is_refused(hub: Hub, there: str, tmp_path: Path, download_it: bool) -> None:
    """With a file that is beside the question, even: before anything is fetched, and nothing of it is remembered."""
    entries = [{"type": "file", "path": path, "size": 1, "oid": "0" * 40} for path in ("outcomes/a.parquet", "../evil.txt")]
    hub.fault("GET .*/tree/", body=json.dumps(entries).encode())
    with pytest.raises(CatalogError, match=r"lists a file '../evil.txt', which may lie outside its folder: nothing was downloaded"):
        connect(NAME, download=download_it)
    assert downloads(hub) == 0
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith("evil") or path.name == f"{there}.json"]
    assert connect(NAME).sql(COUNTS).fetchall()  # the Hub thought better of it


def test_a_commit_that_is_none(hub: Hub, there: str) -> None:
    """Its name would become a folder of the cache."""
    hub.fault("GET /api/", body=json.dumps({"id": NAME, "sha": "../../../evil", "siblings": []}).encode())
    with pytest.raises(CatalogError, match=r"names a commit '../../../evil', which is none"):
        connect(NAME)


@pytest.mark.parametrize(
    "listing", ["<html>", "[1]", '[{"type": "file", "path": 5}]', '[{"type": "file", "path": "a", "oid": "1", "size": "big"}]']
)
def test_a_listing_that_is_none(hub: Hub, there: str, listing: str) -> None:
    hub.fault("GET .*/tree/", body=listing.encode())
    with pytest.raises(CatalogError, match="answers what the Hub would not"):
        connect(NAME)


def test_more_than_there_is_room_for(hub: Hub, there: str, files: dict[str, bytes]) -> None:
    entries = [{"type": "file", "path": path, "size": 10**17, "oid": "0" * 40} for path in files if path != "README.md"]
    hub.fault("GET .*/tree/", body=json.dumps(entries).encode())
    with pytest.raises(CatalogError, match=r"needs 1000000.0 TB, .* free: nothing was downloaded. Make room, set HF_HOME"):
        connect(NAME)
    assert downloads(hub) == 0


@pytest.mark.parametrize("where", ["on the way", "on disk"])
def test_a_flipped_bit_is_found_and_mended(hub: Hub, there: str, files: dict[str, bytes], where: str) -> None:
    path = of(files, B)
    sha256 = next(f.sha256 for p, f in hub.repos["dataset", NAME].at("main").files.items() if p == path)
    flipped = bytearray(files[path])
    flipped[40] ^= 1
    if where == "on the way":
        hub.repos["dataset", NAME].lfs[sha256] = bytes(flipped)
    else:
        connect(NAME)
        (from_hub.cache_of(NAME) / "snapshots" / there / path).resolve().write_bytes(flipped)
    with pytest.raises(CatalogError, match=f"{path} has another sha256, which is not the file .* that the Hub lists"):
        connect(NAME)
    hub.repos["dataset", NAME].lfs[sha256] = files[path]
    assert connect(NAME).sql(COUNTS).fetchall() == [(36, 33, 24)]


def no_zstd(data: bytes) -> bytes:
    """The first page is no zstd any more."""
    at = data.index(b"\x28\xb5\x2f\xfd")
    return data[:at] + b"\0\0\0\0" + data[at + 4 :]


def long_page(data: bytes) -> bytes:
    """The last page says that it unpacks to 2 GB."""
    at = data.rindex(b"\x15\x00\x15", 0, -8 - int.from_bytes(data[-8:-4], "little")) + 3
    end = next(i for i in range(at, at + 5) if data[i] < 0x80) + 1
    return data[:at] + varint(2**31 - 1) + data[end:]


HOSTILE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "truncated": (lambda data: data[:-20], "cannot be read as Parquet"),
    "empty": (lambda data: b"", "cannot be read as Parquet"),
    "a web page": (lambda data: b"\n<!DOCTYPE html><html>Sign in</html>", "is a web page, not Parquet"),
    "a damaged page": (no_zstd, "cannot be read as outcomes"),
    "2 GB page": (long_page, "cannot be read as outcomes"),
    "10^15 rows": (lambda data: footer_says(data, 18, 10**15), "more than its size can hold"),
    "less than no rows": (lambda data: footer_says(data, 18, -5), "contradicts itself on how many rows"),
    "a footer of 4 GB": (lambda data: data[:-8] + b"\xff\xff\xff\xffPAR1", "has a footer of 4294967295 bytes"),
    "other columns": (lambda data: parquet(pa.table({"run_id": [1]})), "is not a file of outcomes: no column item"),
    "no version": (lambda data: data.replace(b"schema_version", b"schema_variant"), "no schema_version in its metadata"),
    "a card of nonsense": (lambda data: with_card(data, b"[[[["), "carries a run card that cannot be read"),
    "a card of other types": (lambda data: with_card(data, b'{"runs": [{"run_id": "x"}]}'), "carries a run card that cannot be read"),
}  # fmt: skip


FAR_TOO = ("a web page", "10^15 rows", "other columns")  # without a download, footers are looked at in the same way


def with_card(data: bytes, card: bytes) -> bytes:
    """The same rows with another card."""
    import io

    import pyarrow.parquet as pq

    out = io.BytesIO()
    rows = pq.read_table(io.BytesIO(data))
    with pq.ParquetWriter(out, rows.schema, store_schema=False) as writer:
        writer.write(rows)
        writer.add_key_value_metadata({"schema_version": "1.0", "forgetting_catalog_run": card.decode()})
    return out.getvalue()


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_is_named_and_refused(hub: Hub, files: dict[str, bytes], what: str) -> None:
    """As it was published: its sha256 is right."""
    path = of(files, A)
    change, told = HOSTILE[what]
    hub.commit(NAME, files | {path: change(files[path])})
    for more in ({}, {"download": False}) if what in FAR_TOO else ({},):
        with pytest.raises(CatalogError, match=told) as refused:
            connect(NAME, **more)
        assert path in str(refused.value)


def test_a_bomb_is_refused_by_its_footer(hub: Hub, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """10 MB of one letter in 1 kB, where a file may hold 1 MB before its size is looked at."""
    rows = pa.table({"run_id": [1], "item": [0], "text": ["a" * 10_000_000]}, arrow_schema("generations"))
    data = parquet(rows, use_dictionary=False, write_statistics=False)
    assert len(data) < 10_000
    hub.commit(NAME, files | {"generations/org--A@1/a.parquet": data})
    monkeypatch.setattr(guard, "FREE_BYTES", 1_000_000)
    with pytest.raises(
        CatalogError, match=r"generations/org--A@1/a.parquet has \d+ bytes and says it holds 1 rows and 10\d+ bytes unpacked"
    ):
        connect(NAME)


BOMBS = """
import resource, sys
import pyarrow as pa
from catalog import CatalogError, connect, open
open.LOADING = 0.4
try:
    connect(sys.argv[1])
    told = "opened"
except CatalogError as error:
    told = str(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, told)
"""


@pytest.mark.slow
@pytest.mark.parametrize("bomb", ["a long text a million times", "a page that says 2 GB", "nothing"])
def test_memory_stays_bounded(tmp_path: Path, files: dict[str, bytes], bomb: str) -> None:
    """Footers say little, contents are much: 4 GB of text in 200 kB. What DuckDB may take is all that is taken."""
    run = connect_files(files).sql("SELECT min(run_id) FROM runs").fetchall()[0][0]
    n = 400_000
    rows = pa.table(
        {
            "run_id": [run] * n,
            "item": pa.array(range(n), pa.int32()),
            "text": pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), ["b" * 10_000]),
        }
    )
    more = {
        "a long text a million times": lambda: {"generations/a.parquet": parquet(rows)},
        "a page that says 2 GB": lambda: {of(files, A): long_page(files[of(files, A)])},
        "nothing": dict,
    }[bomb]()
    written(tmp_path / "runs", files | more)
    env = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    (tmp_path / "bombs.py").write_text(BOMBS)  # DuckDB takes `-c` for a terminal and draws a bar
    run_it = [sys.executable, tmp_path / "bombs.py", tmp_path / "runs"]
    done = subprocess.run(run_it, env=env, capture_output=True, text=True, check=True)
    peak = int(done.stdout.split()[0])
    assert peak < 1_500, done.stdout
    assert ("opened" in done.stdout) == (bomb != "a page that says 2 GB"), done.stdout  # the text went to the temporary folder


def test_the_card_is_never_read(hub: Hub, files: dict[str, bytes]) -> None:
    """Whatever README.md holds, it is not even fetched."""
    hub.commit(NAME, files | {"README.md": b"---\n!!python/object/apply:os.system ['true']\n---\n"})
    hub.fault(
        "GET /api/datasets/org/name(/revision/.*)?$",
        body=json.dumps({"id": NAME, "sha": hub.repos["dataset", NAME].refs["refs/heads/main"]}).encode(),
    )
    connect(NAME)
    assert not hub.seen("README")
