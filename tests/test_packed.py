"""Packed catalogs say what rows say, and are found again by content alone."""

import os
import random
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pyarrow.parquet as pq
import pytest
from runs_by_hand import write_runs
from test_against_reference import KINDS, load, random_task

from catalog import connect, pack
from catalog.errors import CatalogError
from catalog.open import SHIPPED, blank, part_of, template, template_file
from catalog.pack import digest, n_outcomes


def test_counts_are_those_of_the_transitions(con):
    """Counts from bits against a count over `transitions`: mixed kinds, 70 items a stratum and more, missing answers, replicates."""
    rng = random.Random(3)
    con.execute("INSERT INTO protocols (protocol_id, setting) VALUES ('p', 's')")
    for name in ("x/t", "x/u"):
        items, runs = random_task(rng, name, KINDS, 400, 2)
        load(con, name, items, runs)
    con.execute("INSERT INTO pairs (pair_id, before_id, after_id) VALUES ('p', 'A', 'B')")
    counted = con.sql("""
        SELECT before_run, after_run, answer, n_options, n11, n10, n01, n00, d, n10_unparsed, n_unpaired_before
        FROM transition_counts WHERE kind = 'pair' ORDER BY ALL""").fetchall()
    by_row = con.sql("""
        SELECT before_run, after_run, answer, n_options, count(*) FILTER (transition = '1->1'), count(*) FILTER (transition = '1->0'),
               count(*) FILTER (transition = '0->1'), count(*) FILTER (transition = '0->0'),
               count(*) FILTER (transition = '0->0' AND before_predicted <> after_predicted
                                AND before_status IN ('ok', 'lenient') AND after_status IN ('ok', 'lenient')),
               count(*) FILTER (transition = '1->0' AND after_status NOT IN ('ok', 'lenient')),
               count(*) FILTER (before_correct IS NOT NULL AND after_correct IS NULL)
        FROM transitions GROUP BY ALL ORDER BY ALL""").fetchall()
    assert counted == by_row and len(counted) > 20


def test_as_many_options_as_fit_into_the_table(con):
    """The last of 32,767 options has a code of its own."""
    codes = con.sql(
        "SELECT list(answer_code(FALSE, 'ok', p) ORDER BY p) FROM (SELECT unnest([0, 32765, 32766]::SMALLINT[]) AS p)"
    ).fetchall()
    assert codes == [([3, 32768, 32769],)]


def test_two_item_lists_of_a_task(fill, con):
    """Items keep their bit in every item list of a task: paired by key, whatever the order and length."""
    fill.task("x/t", [4] * 130)
    fill.answers("A", "x/t", "01" * 65)
    fill.task("x/t", [4] * 70, names=list(range(129, 59, -1)))
    fill.answers("B", "x/t", "0" * 70)
    fill.pair()
    found = con.sql(
        "SELECT n, n11, n10, n01, n00, n_unpaired_before, n_unpaired_after FROM transition_counts WHERE kind = 'pair'"
    ).fetchall()
    assert found == [(70, 35, 0, 35, 0, 60, 0)]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache folder of one's own, with nothing in it but the empty catalog."""
    made, own = template(), tmp_path / "cache" / "forgetting-catalog"
    own.mkdir(parents=True)
    shutil.copy(made, own)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return own


def metrics(con):
    """pair_metrics as rows of rounded numbers."""
    relation = con.sql("FROM pair_metrics ORDER BY pair_id, setting, map")
    return [[round(x, 9) if isinstance(x, float) else x for x in row] for row in relation.fetchall()]


def test_packed_file_of_the_shipped_catalog(cache):
    """The same metrics from the packed file, also of an undeclared pair; opened again without packing; read-only."""
    rows, packed = connect(packed=False), connect(packed=True)
    assert metrics(packed) == metrics(rows) and len(metrics(rows)) == 72
    pair = "SELECT f, f_exch_x, f_se FROM task_metrics_of(x, y) ORDER BY task_id, setting"
    models = sorted(m for (m,) in rows.sql("SELECT model_id FROM models").fetchall())[:2]
    asked = pair.replace("x, y", f"'{models[0]}', '{models[1]}'")
    assert packed.sql(asked).fetchall() == [pytest.approx(row) for row in rows.sql(asked).fetchall()]
    files = list(cache.glob("packed-*"))
    connect(packed=True)
    assert list(cache.glob("packed-*")) == files and len(files) == 1
    assert not list(cache.glob("*.part*"))


def test_content_decides_never_time(tmp_path, monkeypatch):
    """A touched file is the same catalog; one flipped answer is another, and so is one with a newer map of the package."""
    (tmp_path / "outcomes").mkdir()
    path = tmp_path / "outcomes" / "a.parquet"
    con = connect()
    table = con.sql("SELECT run_id, item, correct FROM outcomes LIMIT 100").to_arrow_table()
    pq.write_table(table, path)
    first = digest([tmp_path])
    os.utime(path, (1, 1))
    assert digest([tmp_path]) == first and n_outcomes([tmp_path]) == 100
    with monkeypatch.context() as patch:
        patch.setattr("catalog.pack.BROUGHT", (path,))
        assert digest([tmp_path]) != first
    pq.write_table(con.sql("SELECT run_id, item, NOT correct AS correct FROM outcomes LIMIT 100").to_arrow_table(), path)
    assert digest([tmp_path]) != first


def test_unsound_is_not_packed(cache, tmp_path):
    """What fails integrity is refused and leaves nothing in the cache."""
    (tmp_path / "runs" / "outcomes").mkdir(parents=True)
    con = connect()
    con.execute(f"""COPY (SELECT * REPLACE (CAST(status AS VARCHAR) AS status) FROM outcomes LIMIT 5)
                    TO '{tmp_path}/runs/outcomes/a.parquet' (KV_METADATA {{schema_version: '1.0'}})""")
    with pytest.raises(CatalogError, match="fails integrity"):
        connect(tmp_path / "runs", packed=True)
    assert not list(cache.glob("packed*"))


def test_packed_in_many_batches_equals_rows(cache, monkeypatch):
    """Model by model and pair by pair, as a catalog of 100 million outcomes is packed: every metric of every level is that of the rows."""
    monkeypatch.setattr("catalog.pack.BATCH", 5000)  # two models or so
    rows, packed = connect(packed=False), connect(packed=True)
    assert packed.sql("SELECT count(*) FROM packed_models").fetchall() == rows.sql("SELECT count(*) FROM models").fetchall()
    for view in (
        "transition_counts",
        "task_replicates",
        "task_metrics",
        "category_metrics",
        "pair_metrics",
        "noise_floor",
        "seed_consistent",
    ):
        columns = rows.sql(f"FROM {view} LIMIT 0").columns
        order = ", ".join(c for c in ("kind", "before_run", "after_run", "answer", "n_options", "pair_id", "model_id", "setting", "map", "category",
                                      "task_id", "replicate", "set_size") if c in columns)  # fmt: skip
        found, wanted = (con.sql(f"FROM {view} ORDER BY {order}").fetchall() for con in (packed, rows))
        assert len(found) == len(wanted) > 0
        for one, other in zip(found, wanted, strict=True):
            for name, a, b in zip(columns, one, other, strict=True):
                assert a == (pytest.approx(b, abs=1e-9) if isinstance(b, float) else b), (view, name)


def test_old_packed_files_go(cache):
    """A packed file that nobody opened for a month makes room when another is written; so does what a killed process left."""
    ages = {"packed-0000.duckdb": 31, "packed-1111.duckdb": 29, "packed-2222.duckdb.7-7.part": 2, "packed-2222.duckdb.7-7.part.wal": 2,
            "packed-2222.duckdb.7-7.tmp": 2, "schema-3333.duckdb.7-7.part": 2, "packed-4444.duckdb.8-8.part": 0.5}  # fmt: skip
    for name, days in ages.items():
        (cache / name).mkdir() if name.endswith(".tmp") else (cache / name).touch()
        os.utime(cache / name, (time.time() - days * 86_400,) * 2)
    pack.remove_old(cache / "packed-2222.duckdb")
    assert {path.name for path in cache.iterdir()} & ages.keys() == {"packed-1111.duckdb", "packed-4444.duckdb.8-8.part"}


@pytest.fixture
def quick(tmp_path, monkeypatch):
    """A small runs folder, of which nothing is computed when it is packed: what follows is about files."""
    monkeypatch.setattr("catalog.pack.pack", lambda con, step: None)
    return write_runs(tmp_path / "runs")


def test_damaged_files_of_the_cache_are_made_again(cache, quick, monkeypatch):
    """A packed file or an empty catalog that a full disk cut short: made anew, not an error for ever."""
    asked = "SELECT count(*) FROM outcomes"
    connect(quick, packed=True).close()
    (packed,) = cache.glob("packed-*")
    packed.write_bytes(packed.read_bytes()[:5000])
    assert connect(quick, packed=True).sql(asked).fetchall() == [(10,)]
    assert packed.stat().st_size > 5000
    template().write_bytes(b"no database")
    monkeypatch.setattr("catalog.open.fill", lambda con: None)
    blank(cache / "new")
    assert not template_file().exists()


def test_cache_that_cannot_be_written(quick, tmp_path, monkeypatch, capsys):
    """What is packed for speed is opened unpacked there, with a note; what the user asks to be packed is an error that says what to do."""
    (tmp_path / "file").touch()
    monkeypatch.setattr("catalog.pack.cache_folder", lambda: tmp_path / "file" / "below")
    monkeypatch.setattr("catalog.pack.PACK_FROM", 1)
    assert connect(quick).sql("SELECT count(*) FROM outcomes").fetchall() == [(10,)]
    assert "it is opened unpacked" in capsys.readouterr().err
    with pytest.raises(CatalogError, match="set XDG_CACHE_HOME to another folder"):
        connect(quick, packed=True)


def test_threads_pack_at_once(cache, quick):
    """Two threads of one process have the same process id and yet each their own half-written file."""
    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(lambda barrier: (barrier.wait(), part_of(cache / "a"))[1], [Barrier(2)] * 2))
        assert len(set(parts)) == 2
        opened = pool.map(lambda _: connect(quick, packed=True).sql("SELECT count(*) FROM outcomes").fetchall(), range(2))
        assert list(opened) == [[(10,)]] * 2


def test_macros_keep_their_comments_when_packed(cache):
    """What the views read after packing is explained as before."""
    asked = "SELECT function_name, comment FROM duckdb_functions() WHERE NOT internal ORDER BY ALL"
    assert connect(packed=True).sql(asked).fetchall() == connect(packed=False).sql(asked).fetchall()


def test_two_folders_packed_together(cache, tmp_path):
    """Models of a pair that lie in two folders: packed together they say what one folder says."""
    for folder in ("base", "tuned"):
        shutil.copytree(SHIPPED, tmp_path / folder)
        for file in [*(tmp_path / folder).glob("outcomes/*/*"), *(tmp_path / folder).glob("option_scores/*/*")]:
            if ("-base@" in file.parent.name) != (folder == "base"):
                file.unlink()
    packed = connect(tmp_path / "base", tmp_path / "tuned", packed=True)
    assert metrics(packed) == metrics(connect(packed=False))
