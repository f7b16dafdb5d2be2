"""Sequences of checkpoints by hand: events, temporal forgetting beside its luck, transfer, Luo's FG, Pass@k|t, relative change."""

import random

import duckdb
import pytest


@pytest.fixture
def lineage(fill, con):
    """Answers of checkpoints 1, 2, ... of one lineage at steps 10, 20, ..., one string each."""

    def add(task_id, answers, replicate=0, stages=()):
        for i, text in enumerate(answers, 1):
            fill.answers(f"M{i}", task_id, text, replicate)
            con.execute(f"UPDATE models SET lineage = 'l', step = {10 * i} WHERE model_id = 'M{i}'")
        for i, stage in enumerate(stages, 1):
            con.execute(f"UPDATE models SET stage_task = $1 WHERE model_id = 'M{i}'", [stage])

    return add


def test_events_by_hand(fill, con, lineage):
    """RRRR unforgettable; RWRW two events; WWRR learned at step 30; WWWW never learned. Two final errors, one of them once right."""
    fill.task("x/t", [4] * 4, names="abcd")
    lineage("x/t", ["0011", "0112", "0001", "0101"])
    rows = con.sql("SELECT answers, n_forgotten, first_learned, history FROM item_histories ORDER BY answers DESC").fetchall()
    assert rows == [
        ([True, True, True, True], 0, 10, "unforgettable"),
        ([True, False, True, False], 2, 10, "forgotten"),
        ([False, False, True, True], 0, 30, "unforgettable"),
        ([False, False, False, False], 0, None, "never learned"),
    ]
    row = con.sql("SELECT n_checkpoints, n_items, a_first, a_final, ever, tfs, lost_of_final_errors, events_per_item, unforgettable, never_learned, "
                  "tfs_luck, lost_of_final_errors_luck, events_per_item_luck FROM temporal_forgetting").fetchall()  # fmt: skip
    right_elsewhere = 1 - (3 / 4) ** 3
    assert row == [(4, 4, 0.5, 0.5, 0.75, 0.25, 0.5, 0.5, 0.5, 0.25, *(pytest.approx(x) for x in (2 / 4 * right_elsewhere, right_elsewhere, 2 / 4 * 3 / 4)))]  # fmt: skip


def test_only_items_measured_at_every_checkpoint(fill, con, lineage):
    """An item one checkpoint did not measure is left out, and so is one its item list lacks; free-form items have no luck."""
    fill.task("x/t", ["free"] * 4, names="abcd")
    lineage("x/t", ["1-11"])
    fill.task("x/t", ["free"] * 3, names="cba")
    fill.answers("M2", "x/t", "011")
    con.execute("UPDATE models SET lineage = 'l', step = 20 WHERE model_id = 'M2'")
    assert con.sql("SELECT answers FROM item_histories ORDER BY ALL").fetchall() == [([True, False],), ([True, True],)]
    assert con.sql("SELECT n_items, tfs, lost_of_final_errors, tfs_luck, events_per_item_luck FROM temporal_forgetting").fetchall() == [
        (2, 0.5, 1, 0, 0)
    ]


@pytest.mark.parametrize(
    ("t", "tfs", "lost", "events"), [(2, 0.09, 0.25, 0.09), (4, 0.22, 0.58, 0.28), (8, 0.33, 0.87, 0.66), (16, 0.37, 0.99, 1.41)]
)
def test_luck_in_closed_form(con, t, tfs, lost, events):
    """Half known, k = 4, nothing changed: accuracy .625; the same by the chances of each answer, 1 - (3/4)^T ever right of the other half."""
    ever = 0.5 + 0.5 * (1 - 0.75**t)
    row = con.sql(f"SELECT .375 * luck_lost(4, {t}), luck_lost(4, {t}), ({t} - 1) * .375 / 4").fetchall()[0]
    assert row == pytest.approx((ever - 0.625, (ever - 0.625) / 0.375, (t - 1) * 0.5 * 0.25 * 0.75))
    assert row == pytest.approx((tfs, lost, events), abs=0.0055)


@pytest.mark.slow
def test_luck_simulated(fill, con, lineage):
    """300 items of 4 options, half known, half guessed anew by each of 16 checkpoints: what is seen is what luck gives."""
    draw = random.Random(3)
    fill.task("x/t", [4] * 300)
    lineage("x/t", ["0" * 150 + "".join(str(draw.randrange(4)) for _ in range(150)) for _ in range(16)])
    for t, tfs, lost, events in ((16, 0.37, 0.99, 1.41), (8, 0.33, 0.87, 0.66), (4, 0.22, 0.58, 0.28), (2, 0.09, 0.25, 0.09)):
        con.execute(f"UPDATE models SET lineage = if(step <= {10 * t}, 'l', NULL)")
        row = con.sql("SELECT n_checkpoints, tfs, lost_of_final_errors, events_per_item, tfs_luck, lost_of_final_errors_luck, events_per_item_luck "
                      "FROM temporal_forgetting").fetchall()[0]  # fmt: skip
        assert row[0] == t
        assert row[1:4] == pytest.approx((tfs, lost, events), abs=0.08)
        assert row[4:] == pytest.approx((tfs, lost, events), abs=0.05)


@pytest.fixture
def stages(fill, lineage):
    """Trained on a, b, c in turn. Right of 4 before: 1 1 0; after a: 4 2 1; after b: 3 4 2; after c: 1 3 4."""
    for task, right in (("x/a", (1, 4, 3, 1)), ("x/b", (1, 2, 4, 3)), ("x/c", (0, 1, 2, 4))):
        fill.task(task, ["free"] * 4)
        lineage(task, ["1" * n + "0" * (4 - n) for n in right], stages=(None, "x/a", "x/b", "x/c"))


def test_transfer_by_hand(con, stages):
    """BWT ((1/4 - 1) + (3/4 - 1))/2; FWT ((2/4 - 1/4) + (2/4 - 0))/2; Chaudhry ((1 - 1/4) + (1 - 3/4))/2; after two stages likewise."""
    rows = con.sql("SELECT n_stages, bwt, fwt, chaudhry_f FROM stage_transfer ORDER BY ALL").fetchall()
    assert rows == [(1, None, None, None), (2, -0.25, 0.25, 0.25), (3, -0.5, 0.375, 0.5)]


def test_best_earlier_accuracy_not_the_own_one(con, stages):
    """Were b best before its own stage (all 4 right after a), Chaudhry's drop is from there, BWT's from its own stage (2 of 4)."""
    for model, right in (("M2", 4), ("M3", 2)):
        con.execute(f"UPDATE outcomes SET correct = item < {right} FROM runs JOIN itemsets USING (itemset_id) "
                    f"WHERE runs.run_id = outcomes.run_id AND model_id = '{model}' AND task_id = 'x/b'")  # fmt: skip
    row = con.sql("SELECT bwt, chaudhry_f FROM stage_transfer WHERE n_stages = 3").fetchall()
    assert row == [((0.25 - 1 + 0.75 - 0.5) / 2, (1 - 0.25 + 1 - 0.75) / 2)]


def test_transfer_needs_what_it_names(con, stages):
    """No untrained checkpoint: no FWT. A task not asked after the last stage: no measure for three stages."""
    con.execute("UPDATE models SET lineage = NULL WHERE model_id = 'M1'")
    assert con.sql("SELECT bwt, fwt, chaudhry_f FROM stage_transfer WHERE n_stages = 3").fetchall() == [(-0.5, None, 0.5)]
    con.execute("DELETE FROM runs WHERE model_id = 'M4' AND itemset_id = (SELECT itemset_id FROM itemsets WHERE task_id = 'x/a')")
    assert con.sql("SELECT bwt, chaudhry_f FROM stage_transfer ORDER BY n_stages").fetchall() == [(None, None), (-0.25, 0.25), (None, None)]


def test_checkpoints_within_a_stage(con, stages):
    """Two checkpoints with one stage_task are one stage, which ends with the later one."""
    con.execute("UPDATE models SET stage_task = 'x/b' WHERE model_id = 'M2'")
    # b then c: BWT = 3/4 - 4/4; FWT = R[1, c] - before = 2/4 - 0
    assert con.sql("SELECT n_stages, bwt, fwt FROM stage_transfer ORDER BY ALL").fetchall() == [(1, None, None), (2, -0.25, 0.5)]


def test_luo_by_hand(fill, con, lineage):
    """8, 6, 4 of 10 right: FG 100 x (2/8 + 4/8)/2 = 37.5; above chance (k = 4) .7333, .4667, .2: 54.5. 3 of 10 is within 2 se of chance."""
    fill.task("x/t", [4] * 10)
    lineage("x/t", ["0" * 8 + "1" * 2, "0" * 6 + "1" * 4, "0" * 4 + "1" * 6])
    fill.task("x/u", [4] * 10)
    lineage("x/u", ["0" * 3 + "1" * 7, "0" * 3 + "1" * 7, "0" * 6 + "1" * 4])
    fill.task("x/z", [4] * 10)
    lineage("x/z", ["1" * 10, "1" * 10, "0" * 10])
    above = [(4 * a - 1) / 3 for a in (0.8, 0.6, 0.4)]
    twin = 100 * (2 - above[1] / above[0] - above[2] / above[0]) / 2
    rows = con.sql("SELECT task_id, n_stages, fg_pct, fg_above_pct FROM luo_forgetting ORDER BY ALL").fetchall()
    assert rows == [
        ("x/t", 2, pytest.approx(37.5), pytest.approx(twin)),
        ("x/u", 2, pytest.approx(-50), None),
        ("x/z", 2, None, None),
    ]
    assert twin == pytest.approx(54.5454, abs=1e-3)
    row = con.sql(
        "SELECT n_tasks, n_tasks_adjusted, fg_pct, fg_above_pct FROM luo_forgetting_categories WHERE map = 'benchmark'"
    ).fetchall()
    assert row == [(3, 1, pytest.approx((37.5 - 50) / 2), pytest.approx(twin))]


def test_accuracy_of_checkpoints(fill, con, lineage):
    """Two replicates are averaged by item first: scores 1, .5, 0, 0; a replicate with fewer checkpoints is left out."""
    fill.task("x/t", [4] * 4)
    lineage("x/t", ["0011", "0000", "0000"])
    lineage("x/t", ["0111", "0000", "0000"], replicate=1)
    lineage("x/t", ["1111", "1111"], replicate=2)
    row = con.sql("SELECT n_items, n_replicates, a, a_se, a_above FROM checkpoint_accuracy WHERE checkpoint = 1").fetchall()
    assert row == [(4, 2, 1.5 / 4, pytest.approx(((1 + 0.25) / 4 - 0.375**2) ** 0.5 / 2), pytest.approx((4 * 0.375 - 1) / 3))]


def test_pass_by_hand(fill, con, lineage):
    """3 answers each of 2 checkpoints. Item 1: 1 right of the newer; item 2: 2 right of the older, 0 of the newer."""
    fill.task("x/t", ["free"] * 2)
    for replicate, answers in enumerate((("00", "10"), ("01", "00"), ("01", "00"))):
        lineage("x/t", answers, replicate)

    def passed(k, t):
        return con.sql(f"SELECT pass FROM pass_at({k}, {t})").fetchall()[0][0]

    assert passed(1, 2) == pytest.approx((1 / 3 + 0) / 2)  # the one answer is the newer's
    assert passed(3, 2) == pytest.approx((2 / 3 + 1 - 1 / 3) / 2)  # 2 of the newer: C(2,2)/C(3,2); 1 of the older: C(1,1)/C(3,1)
    assert passed(3, 1) == pytest.approx((1 + 0) / 2)
    assert passed(6, 2) == pytest.approx(1)
    assert passed(4, 1) is None and passed(3, 3) is None  # more than 3 replicates, more than 2 checkpoints


def test_relative_change(con):
    """Positive is better: 50 -> 40 is -20%, or +20% where less is better; 60 -> 45 comes from 10 to 5 off the target 50; 0 has none."""
    row = con.sql("SELECT relative_change_pct(50, 40), relative_change_pct(50, 40, direction := 'lower'), relative_change_pct(60, 45, direction := 'target'), "
                  "relative_change_pct(30, 20, direction := 'target', target := 10), relative_change_pct(0, 40), relative_change_pct(50, 40, direction := 'target')"
                  ).fetchall()[0]  # fmt: skip
    assert row == (-20, 20, 50, 50, None, None)
    with pytest.raises(duckdb.Error, match="direction is higher, lower or target, not up"):
        con.sql("SELECT relative_change_pct(50, 40, direction := 'up')").fetchall()


GRAINS = {
    "lineage_runs": "lineage, setting, task_id, replicate, model_id", "item_histories": "lineage, setting, task_id, replicate, sample_key",
    "temporal_forgetting": "lineage, setting, task_id", "checkpoint_accuracy": "lineage, setting, task_id, model_id",
    "luo_forgetting": "lineage, setting, task_id", "luo_forgetting_categories": "lineage, setting, map, category",
    "stage_transfer": "lineage, setting, n_stages",
}  # fmt: skip


@pytest.mark.parametrize("view", GRAINS)
def test_grain(fill, con, stages, view):
    """One row per grain with two replicates and two item lists of a checkpoint."""
    for i in (1, 2, 3, 4):
        fill.answers(f"M{i}", "x/c", "1010", 1)
    fill.task("x/c", ["free"] * 3)
    fill.answers("M2", "x/c", "111")
    assert con.sql(f"FROM {view}").fetchall()
    assert con.sql(f"SELECT {GRAINS[view]} FROM {view} GROUP BY ALL HAVING count(*) > 1").fetchall() == []
