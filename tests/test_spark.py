"""The views on Spark: turned by sqlglot, over the same Parquet, with the results of DuckDB."""

import sys
from pathlib import Path

import pytest

from catalog import connect
from catalog.spark import Turner, main

glot = pytest.importorskip("sqlglot")


def test_what_turns_is_spelt_out():
    """Macros, stars with exceptions and COLUMNS are gone; a table macro is a view of its own; Spark's grammar reads the text."""
    with connect() as con:
        turner = Turner(con)
        assert turner.view("run_pairs") == "run_pairs" and list(turner.done)[-1] == "run_pairs"
        assert {"run_facts", "itemset_overlap", "run_pairs_of_all", "matched_series_all"} < set(turner.done)
        turner.make("mine", "SELECT COLUMNS('^(kind|size)') AS 'my_\\0', ratio(n, 2) AS r FROM (SELECT 'a' AS kind, 1 AS size, 3 AS n)", {})
    text = " ".join(turner.done.values())
    assert "COLUMNS" not in text and "EXCLUDE" not in text and "RATIO(" not in text.upper()
    assert "kind AS my_kind" in turner.done["mine"] and "size AS my_size" in turner.done["mine"]
    for sql in turner.done.values():
        glot.parse_one(sql, read="spark")


def test_without_sqlglot(monkeypatch, tmp_path, capsys):
    """Says what to install, and writes nothing."""
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    assert main(["--out", str(tmp_path / "spark")]) == 1
    assert "pip install 'forgetting-catalog[spark]'" in capsys.readouterr().err and not list(tmp_path.iterdir())


@pytest.mark.slow
def test_spark_says_the_same(tmp_path, monkeypatch):
    """Three pairs of the shipped catalog: every view that turns has the rows of DuckDB, numbers equal but for rounding."""
    pytest.importorskip("pyspark")
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "speed")
    from spark import compared, made, session

    con = connect()
    con.execute("DELETE FROM pairs WHERE pair_id NOT LIKE 'large-base%'; UPDATE models SET lineage = NULL")
    spark = session()
    try:
        views = ("run_pairs", "transition_counts", "task_replicates", "pair_metrics")
        for view in made(spark, con, tmp_path, views):
            if view not in views:
                continue
            ours, theirs, largest, wrong = compared(spark, con, view)
            assert ours == theirs > 0 and largest < 1e-9 and not wrong, view
    finally:
        spark.stop()
