"""Published figures: in every catalog once, printed totals beside recomputed ones, ours beside theirs, regimes."""

import csv
import shutil

import pytest

from catalog import CatalogError, connect
from catalog.open import PUBLISHED, SHIPPED
from collect.compact import compact
from collect.recipes.published import SOURCE, published_rows
from collect.store import write_table

KEY = "paper, table_no, regime, before_model, after_model, category, metric"


@pytest.fixture(scope="module")
def shipped():
    """The shipped catalog."""
    return connect()


def test_grain_and_counts(shipped):
    """854 figures of tables 2 to 35 of arXiv 2510.17776 and 147 of three other papers, one row each."""
    assert shipped.sql(f"SELECT {KEY} FROM published_results GROUP BY ALL HAVING count(*) > 1").fetchall() == []
    assert dict(shipped.sql("SELECT paper, count(*) FROM published_results GROUP BY ALL").fetchall()) == {
        "arXiv 2510.17776": 854, "arXiv 2308.08747": 99, "arXiv 2407.09435": 36, "arXiv 2505.20196": 12}  # fmt: skip
    tables = shipped.sql("SELECT DISTINCT CAST(table_no AS INTEGER) FROM published_results WHERE paper = 'arXiv 2510.17776'").fetchall()
    assert {number for (number,) in tables} == set(range(2, 36))


def test_printed_figures(shipped):
    """arXiv 2510.17776, table 2: Qwen2.5-3B, instruction tuning, common sense: 7.0 +- 0.3 of 64.2. arXiv 2407.09435: Phi 1.5 -> 2."""
    assert shipped.sql("SELECT value, std, ceiling, unit, confidence, family FROM published_results WHERE table_no = '2' AND category = 'Common Sense' "
                       "AND before_model = 'Qwen/Qwen2.5-3B'").fetchall() == [(7.0, 0.3, 64.2, "%", None, "Qwen2.5")]  # fmt: skip
    assert shipped.sql("SELECT value, after_model, confidence FROM published_results WHERE before_model = 'Phi 1.5' AND category = 'PIQA' "
                       "AND metric = 'NFR_pct'").fetchall() == [(6.2, "Phi 2", "full text read")]  # fmt: skip


def test_file_holds_the_source():
    """The Parquet file is what the recipe makes of the CSV today."""
    found = connect().read_parquet(str(PUBLISHED)).fetchall()
    assert found == [tuple(row.values()) for row in published_rows()]
    with SOURCE.open(encoding="utf-8", newline="") as file:
        assert len(list(csv.reader(file))) == 1 + 1001


def test_every_catalog_has_them_once(tmp_path):
    """A user's folder, two folders, a folder with a copy of the figures: 1,001 rows each."""
    compact([SHIPPED], tmp_path / "own")
    assert not (tmp_path / "own" / "published_results").exists()
    shutil.copytree(SHIPPED, tmp_path / "copy")
    for folders in (["own"], ["copy"], ["own", "copy"]):
        con = connect(*(tmp_path / folder for folder in folders))
        assert con.sql("SELECT count(*) FROM published_results").fetchall() == [(1001,)]


def test_own_figures_are_added_and_kept(tmp_path):
    """A user's own figure stands beside ours and survives compacting; one that contradicts ours is named."""
    shutil.copytree(SHIPPED, tmp_path / "a")
    own = {"paper": "mine", "metric": "forgetting", "value": 1.0}
    write_table(tmp_path / "a" / "published_results" / "mine.parquet", "published_results", [own])
    compact([tmp_path / "a"], tmp_path / "b")
    assert connect(tmp_path / "b").sql("SELECT count(*), count(*) FILTER (paper = 'mine') FROM published_results").fetchall() == [(1002, 1)]
    write_table(tmp_path / "a" / "published_results" / "mine.parquet", "published_results", [published_rows()[0] | {"value": 99.0}])
    with pytest.raises(CatalogError, match=r"more than one row: published_results: arXiv 2510\.17776, 2, Instruction Tuning"):
        connect(tmp_path / "a")


def test_printed_totals(shipped):
    """Of 94 printed totals 70, of their 94 ceilings 79 are not the mean of the printed categories within .1: 149 of 188."""
    assert shipped.sql("SELECT count(*), count_if(value_differs), count_if(ceiling_differs) FROM published_totals").fetchall() == [
        (94, 70, 79)
    ]


def test_totals_by_hand(fill, con):
    """Categories 1.0 and 2.0: a total of 1.6 is within .1 of 1.5, of 1.7 not; a group without a total has no row."""
    for model, total, ceiling in (("A", 1.6, 10.0), ("B", 1.7, 12.0)):
        for category, value, top in (("X", 1.0, 8.0), ("Y", 2.0, 12.0), ("Total", total, ceiling)):
            fill.insert("published_results", paper="p", before_model=model, category=category, metric="m", value=value, ceiling=top)
    fill.insert("published_results", paper="p", before_model="C", category="X", metric="m", value=1.0)
    query = "SELECT before_model, n_categories, value_recomputed, value_differs, ceiling_recomputed, ceiling_differs FROM published_totals ORDER BY ALL"
    assert con.sql(query).fetchall() == [("A", 2, 1.5, False, 10.0, False), ("B", 2, 1.5, True, 10.0, True)]


def test_beside_ours(fill, con):
    """Names match whatever the revision. 10 items of 4 options, 5 right before: F .2, luck .5 x .6/3, F_max (4 x .5 - 1)/3."""
    fill.task("x/t", [4] * 10)
    fill.answers("org/A@1", "x/t", "0000031123")
    fill.answers("org/B@2", "x/t", "0001201233")
    fill.pair("org/A@1", "org/B@2")
    fill.insert("categories", map="paper", task_id="x/t", category="X")
    for category in ("X", "Total", "Z"):
        fill.insert("published_results", paper="p", before_model="org/A", after_model="org/B", category=category, metric="forgetting",
                    value=9.0, std=0.5, ceiling=30.0)  # fmt: skip
    fill.insert("published_results", paper="p", before_model="org/A", after_model="org/C", category="X", metric="forgetting", value=9.0)
    rows = con.sql(
        "SELECT category, value, std, ceiling, ours_pct, ours_ceiling_pct FROM published_beside_ours ORDER BY category"
    ).fetchall()
    assert rows == [(name, 9.0, 0.5, 30.0, pytest.approx(100 * (0.2 - 0.1)), pytest.approx(100 / 3)) for name in ("Total", "X")]
    grain = "pair_id, setting, paper, table_no, regime, category, metric"
    assert con.sql(f"SELECT {grain} FROM published_beside_ours GROUP BY ALL HAVING count(*) > 1").fetchall() == []


def test_regimes(fill, con):
    """The paper's six in its order; a user's own is listed, not refused; letter case is no difference."""
    for name, regime in (("a", "instruction tuning"), ("b", "Instruction Tuning"), ("c", "my own"), ("d", None)):
        fill.insert("models", model_id=name)
        fill.insert("models", model_id=name + "2")
        fill.insert("pairs", pair_id=name, before_id=name, after_id=name + "2", regime=regime)
    rows = con.sql("SELECT position, regime, meaning IS NOT NULL, n_pairs FROM regimes ORDER BY position NULLS LAST").fetchall()
    assert [row[0] for row in rows] == [1, 2, 3, 4, 5, 6, None]
    assert rows[1] == (2, "Instruction Tuning", True, 2) and rows[6] == (None, "my own", False, 1)
    assert con.sql("FROM integrity").fetchall() == []


def test_regimes_are_those_printed(shipped):
    """Every regime of arXiv 2510.17776 is known by its printed name."""
    query = (
        "SELECT DISTINCT regime FROM published_results WHERE regime IS NOT NULL EXCEPT SELECT regime FROM regimes WHERE meaning IS NOT NULL"
    )
    assert shipped.sql(query).fetchall() == []
