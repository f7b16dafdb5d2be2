"""Standing tests of schema.sql: comments, grains, integrity, what pairs with what."""

import pytest

from catalog import CatalogError, connect
from catalog.identity import itemset_id_of, protocol_id_of, run_id_of
from catalog.open import comment_columns


def test_everything_has_a_comment(con):
    """Every table, view, macro and column says what it is."""
    comment_columns(con)
    silent = con.sql("""
        SELECT table_name FROM duckdb_tables() WHERE NOT internal AND comment IS NULL
        UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal AND comment IS NULL
        UNION ALL SELECT function_name FROM duckdb_functions() WHERE NOT internal AND comment IS NULL
        UNION ALL SELECT table_name || '.' || column_name FROM duckdb_columns() WHERE NOT internal AND comment IS NULL""").fetchall()
    assert silent == []
    assert con.sql("SELECT count(*) FROM duckdb_columns() WHERE NOT internal").fetchall()[0][0] > 500


def test_ids_are_the_same_in_python_and_sql(con):
    """Identity stands twice, in Python and SQL: the same values, and a pinned one."""
    found = con.execute("SELECT run_id_of('local/a@1', 'i', 'p', 2), itemset_id_of('a/b', ['k1', 'k2'])").fetchall()[0]
    assert found == (run_id_of("local/a@1", "i", "p", 2), itemset_id_of("a/b", ["k1", "k2"]))
    assert found == (3666220078757074, "8c3142348a418def")  # sha256sum on the command line
    assert found[0] < 2**53


def test_one_protocol_in_every_notation():
    """1 and 1.0 are one temperature; the setting and empty fields are no part of the id."""
    one = protocol_id_of({"setting": "a", "temperature": 1, "top_p": None})
    assert one == protocol_id_of({"setting": "b", "temperature": 1.0}) != protocol_id_of({"temperature": 0.5})


GRAINS = {
    "run_pairs": "kind, before_run, after_run", "transitions": "before_run, after_run, sample_key",
    "transition_counts": "kind, before_run, after_run, answer, n_options", "task_replicates": "before_run, after_run",
    "task_metrics": "pair_id, setting, task_id", "category_metrics": "pair_id, setting, map, category", "pair_metrics": "pair_id, setting, map",
    "noise_floor": "model_id, setting, task_id, itemset_id, protocol_id", "seed_consistent": "pair_id, setting, task_id, set_size",
    "run_facts": "run_id", "run_outcomes": "run_id, item", "itemset_overlap": "before_itemset, after_itemset", "task_categories": "map, task_id",
    "strata": "stratum", "item_places": "itemset_id, item", "columns_explained": "table_name, column_name", "gold_rank": "run_id, n_options",
    "task_tests": "pair_id, setting, task_id", "detectable": "level, pair_id, setting, map, category, task_id",
    "scaling_points": "pair_id, setting, map, category, scaled_by, metric", "published_points": "source, pair_id, regime, category, metric",
    "scaling": "source, setting, map, regime, category, scaled_by, metric, family", "published_scaling": "source, setting, map, regime, category, scaled_by, metric, family",
    "regimes": "regime", "published_totals": "paper, table_no, regime, before_model, after_model, metric",
}  # fmt: skip
TESTED_ELSEWHERE = {  # empty in the shipped catalog: grain tested on rows by hand, in test_published.py and test_sequences.py
    "published_beside_ours", "lineage_runs", "item_histories", "temporal_forgetting", "checkpoint_accuracy", "luo_forgetting",
    "luo_forgetting_categories", "stage_transfer",
}  # fmt: skip


@pytest.fixture(scope="module")
def shipped():
    """The shipped catalog."""
    return connect()


SLOW = ("detectable", "scaling", "scaling_points")  # seconds each over the shipped catalog


@pytest.mark.parametrize("view", [pytest.param(view, marks=[pytest.mark.slow] * (view in SLOW)) for view in GRAINS])
def test_grain(shipped, view):
    """The grain in a view's header holds on the shipped catalog, which is not empty."""
    assert shipped.sql(f"SELECT 1 FROM {view} LIMIT 1").fetchall()
    assert shipped.sql(f"SELECT {GRAINS[view]} FROM {view} GROUP BY ALL HAVING count(*) > 1").fetchall() == []


def test_every_view_has_a_grain_test(con):
    """No view is forgotten above; integrity is empty by promise."""
    views = {name for (name,) in con.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()}
    assert views - set(GRAINS) == {"integrity", "unsorted_maps", *TESTED_ELSEWHERE}


def test_pairs_by_key_not_by_position(fill, con):
    """Two item lists in another order and of other length: items pair by sample_key; the rest is counted."""
    fill.task("x/t", [4] * 4, names=["a", "b", "c", "d"])
    fill.answers("A", "x/t", "0012")
    fill.task("x/t", [4] * 3, names=["d", "a", "e"])
    fill.answers("B", "x/t", "010")
    fill.pair()
    rows = con.sql("SELECT before_item, transition FROM (SELECT s.item AS before_item, t.transition FROM transitions AS t "
                   "JOIN samples AS s ON s.sample_key = t.sample_key AND s.n_options = 4 WHERE s.itemset_id = (SELECT itemset_id FROM runs WHERE model_id = 'A')) "
                   "ORDER BY ALL").fetchall()  # fmt: skip
    assert rows == [(0, "1->0"), (1, None), (2, None), (3, "0->1")]
    counts = con.sql("SELECT n, n10, n01, n_unpaired_before, n_unpaired_after FROM transition_counts WHERE kind = 'pair'").fetchall()
    assert counts == [(2, 1, 1, 2, 1)]


def test_largest_overlap_wins(fill, con):
    """Of two item lists of a task the one with more common items is compared; nothing in common gives no pair."""
    fill.task("x/t", [4] * 2, names=["a", "b"])
    fill.answers("A", "x/t", "00")
    fill.task("x/t", [4] * 5, names=list("abcde"))
    big = fill.answers("A", "x/t", "00000")
    fill.task("x/t", [4] * 4, names=list("bcde"))
    after = fill.answers("B", "x/t", "0000")
    fill.task("x/t", [4] * 2, names=["y", "z"])
    fill.answers("C", "x/t", "00")
    fill.pair()
    fill.pair("A", "C")
    assert con.sql("SELECT before_run, after_run, n_common, n_before, n_after FROM run_pairs WHERE kind = 'pair'").fetchall() == [
        (big, after, 4, 5, 4)
    ]


def test_same_key_in_two_tasks_does_not_pair(fill, con):
    """A question that stands in two tasks is two items."""
    fill.task("x/t", [4], names=["a"])
    fill.answers("A", "x/t", "0")
    con.execute("INSERT INTO tasks VALUES ('x/u', 'x', 'u', FALSE)")
    keys = [k for (k,) in con.sql("SELECT sample_key FROM samples").fetchall()]
    fill.itemsets["x/u"] = ("other", [4])
    con.execute("INSERT INTO itemsets (itemset_id, task_id, n_items) VALUES ('other', 'x/u', 1)")
    con.execute("INSERT INTO samples SELECT 'other', 0, $1, 'choice', 4, ['0'], NULL", keys)
    fill.answers("B", "x/u", "0")
    fill.pair()
    assert con.sql("FROM run_pairs").fetchall() == []


def test_kinds_of_run_pairs(fill, con):
    """2 replicates of two checkpoints of a lineage: pair, cross, self in both orders, consecutive."""
    fill.task("x/t", [4])
    for replicate in (0, 1):
        fill.answers("A", "x/t", "0", replicate)
        fill.answers("B", "x/t", "0", replicate)
    con.execute("UPDATE models SET lineage = 'l', step = CASE model_id WHEN 'A' THEN 1 ELSE 2 END")
    fill.pair()
    kinds = dict(con.sql("SELECT kind, count(*) FROM run_pairs GROUP BY ALL").fetchall())
    assert kinds == {"pair": 2, "cross": 2, "self": 4, "consecutive": 2}


def test_behavioural_task_and_base_model(fill, con):
    """A task that asks for behaviour is compared between two tuned models only."""
    fill.task("x/t", [4])
    for model, kind in (("A", "base"), ("B", "instruct"), ("C", "instruct")):
        fill.answers(model, "x/t", "0", kind=kind)
    con.execute("UPDATE tasks SET behavioural = TRUE")
    fill.pair("A", "B")
    fill.pair("B", "C")
    assert con.sql("SELECT before_id, after_id FROM run_pairs").fetchall() == [("B", "C")]


def test_undeclared_pair_equals_declared(fill, con):
    """What the macros say of two models is what the views say of the declared pair."""
    fill.task("x/t", [4] * 40)
    for replicate in (0, 1):
        fill.answers("A", "x/t", "0011" * 10, replicate)
        fill.answers("B", "x/t", "0102" * 10, replicate)
    undeclared = con.sql("SELECT * EXCLUDE (pair_id) FROM category_metrics_of('A', 'B')").fetchall()
    fill.pair()
    declared = con.sql("SELECT * EXCLUDE (pair_id) FROM category_metrics").fetchall()
    assert [[pytest.approx(x) if isinstance(x, float) else x for x in row] for row in declared] == [list(row) for row in undeclared]
    assert len(con.sql("FROM transitions('A', 'B')").fetchall()) == 80


BROKEN = {
    "more than one row": "INSERT INTO outcomes SELECT * FROM outcomes",
    "run of an unknown model": "DELETE FROM models",
    "run of an unknown itemset": "DELETE FROM itemsets",
    "run of an unknown protocol": "DELETE FROM protocols",
    "itemset of an unknown task": "DELETE FROM tasks",
    "pair of an unknown model": "INSERT INTO pairs (pair_id, before_id, after_id) VALUES ('q', 'A', 'nobody')",
    "pair of a model with itself": "INSERT INTO pairs (pair_id, before_id, after_id) VALUES ('q', 'A', 'A')",
    "outcomes of an unknown run": "INSERT INTO outcomes VALUES (1, 0, TRUE, 0, 'ok', NULL, NULL)",
    "run without outcomes": "DELETE FROM outcomes",
    "outcome of an item its itemset lacks": "UPDATE outcomes SET item = 99 WHERE item = 0",
    "run_id is not the hash of its parts": "UPDATE runs SET replicate = 5",
    "itemset_id or n_items is not that of its samples": "UPDATE itemsets SET n_items = 7",
    "sample_key is not scheme:hash#occurrence": "UPDATE samples SET sample_key = 'row 7' WHERE item = 0",
    "choice item with fewer than 2 options": "UPDATE samples SET n_options = 1 WHERE item = 0",
    "free-form item with options": "UPDATE samples SET answer = 'free' WHERE item = 0",
    "gold is not one of the options": "UPDATE samples SET gold = ['4'] WHERE item = 0",
    "one item with two numbers of options": "INSERT INTO samples SELECT 'i2', item, sample_key, answer, 5, gold, NULL FROM samples; "
                                            "INSERT INTO itemsets SELECT 'i2', task_id, NULL, NULL, NULL, NULL, 2 FROM itemsets",
    "predicted is not one of the options": "UPDATE outcomes SET predicted = 4, correct = FALSE",
    "correct contradicts predicted and gold": "UPDATE outcomes SET correct = NOT correct",
    "correct contradicts status": "UPDATE outcomes SET correct = NULL",
    "not as many scores as options": "INSERT INTO option_scores SELECT run_id, item, [0.1] FROM outcomes",
    "replicates of a protocol that cannot vary": "UPDATE protocols SET decoding = 'greedy'",
}  # fmt: skip


@pytest.mark.parametrize("problem", BROKEN)
def test_integrity_sees(fill, con, problem):
    """A sound catalog is silent; each fault is named by its rule."""
    fill.task("x/t", [4] * 2)
    for replicate in (0, 1):
        fill.answers("A", "x/t", "01", replicate)
    assert con.sql("FROM integrity").fetchall() == []
    con.execute(BROKEN[problem])
    assert problem in {row[0] for row in con.sql("FROM integrity").fetchall()}


def test_every_integrity_rule_is_broken_once(con):
    """No rule of the view stands untested."""
    sql = con.sql("SELECT sql FROM duckdb_views() WHERE view_name = 'integrity'").fetchall()[0][0]
    rules = [part for part in sql.split("'") if part in BROKEN]
    assert set(rules) == set(BROKEN)
    assert sql.count("UNION ALL (SELECT '") + sql.count("UNION ALL SELECT '") >= len(BROKEN) - 1


def test_connect_refuses_unsound(tmp_path):
    """A folder without outcomes is no catalog."""
    with pytest.raises(CatalogError, match="no catalog at"):
        connect(tmp_path / "nothing")
    with pytest.raises(CatalogError, match=r"holds no outcomes"):
        connect(tmp_path)
