"""False discovery over the tasks of a pair, and the smallest effect that could have been seen."""

import random

import pytest


def benjamini_hochberg(values):
    """The textbook's way: sort, p_(i) m / i, running minimum from the largest down; None stays out of the family."""
    order = sorted((i for i, p in enumerate(values) if p is not None), key=lambda i: values[i])
    found, smallest = [None] * len(values), 1.0
    for rank in range(len(order), 0, -1):
        smallest = min(smallest, values[order[rank - 1]] * len(order) / rank)
        found[order[rank - 1]] = smallest
    return found


def test_q_by_hand(con):
    """m = 5: .01 x 5/1 = .05; .02 x 5/2 = .05; .03 x 5/4 = .0375 for both (ties), which the two before inherit; .9 stays."""
    rows = con.sql("SELECT bh_q(p, list(p) OVER ()) FROM (VALUES (1, .01e0), (2, .02e0), (3, .03e0), (4, .03e0), (5, .9e0), (6, NULL)) AS v(i, p) "
                   "ORDER BY i").fetchall()  # fmt: skip
    assert [q for (q,) in rows] == [pytest.approx(q) if q else None for q in (0.0375, 0.0375, 0.0375, 0.0375, 0.9, None)]


@pytest.mark.parametrize("seed", range(20))
def test_q_against_plain_python(con, seed):
    """Random p values, rounded so that some tie, some NULL; in any order; a family of none and of one."""
    draw = random.Random(seed)
    values = [None if draw.random() < 0.1 else round(draw.random() ** 3, draw.choice((1, 2, 6))) for _ in range((0, 1, 2, 7, 60)[seed % 5])]
    found = con.execute("SELECT list_transform(x, lambda p: bh_q(p, x)) FROM (SELECT CAST($1 AS DOUBLE[]) AS x)", [values]).fetchall()[0][0]
    assert found == [None if q is None else pytest.approx(q, abs=1e-12) for q in benjamini_hochberg(values)]


def test_tasks_of_a_pair(fill, con):
    """Lost 6 of 6: p = 2/64; 5 of 5: 2/32; nothing flipped: 1. q over 3: .09375 (6/64 and 3/2 x 2/32 = 6/64), and 1; per setting."""
    for task, after in (("x/a", "111111"), ("x/b", "011111"), ("x/c", "000000")):
        fill.task(task, [4] * 6)
        for replicate in (0, 1):
            fill.answers("A", task, "000000", replicate)
            fill.answers("B", task, after if replicate == 0 else "111111", replicate)
    fill.insert("protocols", protocol_id="q", setting="t", decoding="sampled")
    for model, answers in (("A", "000000"), ("B", "111111")):
        fill.answers(model, "x/c", answers, protocol="q")
    fill.pair()
    rows = con.sql("SELECT setting, task_id, n10, mcnemar_p, mcnemar_q, n_tests, test_family FROM task_tests ORDER BY ALL").fetchall()
    assert rows == [
        ("s", "x/a", 6, pytest.approx(2 / 64), pytest.approx(6 / 64), 3, "tasks of A>B, s"),
        ("s", "x/b", 5, pytest.approx(2 / 32), pytest.approx(6 / 64), 3, "tasks of A>B, s"),
        ("s", "x/c", 0, 1.0, 1.0, 3, "tasks of A>B, s"),
        ("t", "x/c", 6, pytest.approx(2 / 64), pytest.approx(2 / 64), 1, "tasks of A>B, t"),
    ]
    # mid-p of 6 and 0: 2/64 - 1/64 = 1/64, x 3/1 = 3/64; of 5 and 0: 1/32, x 3/2 = 3/64
    assert con.sql("SELECT DISTINCT mcnemar_mid_q FROM task_tests WHERE setting = 's' AND n10 > 0").fetchall() == [(pytest.approx(3 / 64),)]
    assert con.sql("SELECT count(*) FROM task_tests_of('A', 'B')").fetchall() == [(4,)]


def test_detectable_by_hand(fill, one):
    """10 items, F .2: se = sqrt(.2 x .8/10), 2.8 times that in the task; two tasks and no flips in the other: half of it above."""
    fill.task("x/t", [4] * 10)
    fill.answers("A", "x/t", "0000031123")
    fill.answers("B", "x/t", "0001201233")
    fill.task("x/u", [4] * 4)
    fill.answers("A", "x/u", "0011")
    fill.answers("B", "x/u", "0011")
    fill.pair()
    fill.insert("categories", map="m", task_id="x/t", category="X")
    fill.insert("categories", map="m", task_id="x/u", category="X")
    mde = 2.8 * (0.2 * 0.8 / 10) ** 0.5
    # net: 1 gained, 2 lost of 10: variance .3 - .01
    row = one("FROM detectable WHERE task_id = 'x/t'")
    assert (row["level"], row["n_items"], row["map"], row["category"]) == ("task", 10, None, None)
    assert row["f_mde80"] == pytest.approx(mde) and row["net_mde80"] == pytest.approx(2.8 * (0.29 / 10) ** 0.5)
    # f_exch: 2 x 4/3, 2 x -2/3, pseudo-items +4/3 and -2/3, N = 12
    mean, square = (3 * 4 / 3 - 3 * 2 / 3) / 12, (3 * 16 / 9 + 3 * 4 / 9) / 12
    assert row["f_exch_mde80"] == pytest.approx(2.8 * ((square - mean**2) / 12) ** 0.5) and row["f_exch_x_mde80"] is None
    assert one("FROM detectable WHERE task_id = 'x/u'")["f_mde80"] is None  # nothing flipped: no error to multiply
    assert one("FROM detectable WHERE level = 'category' AND map = 'm'")["f_mde80"] == pytest.approx(mde / 2)
    assert one("FROM detectable WHERE level = 'pair' AND map = 'm'")["f_mde80"] == pytest.approx(mde / 2)


@pytest.mark.parametrize(("n", "points"), [(100, 12), (400, 6), (1000, 4), (2000, 2.7), (14042, 1.0)])
def test_detectable_by_number_of_items(con, n, points):
    """f_exch with the flips of a real quantisation (37 lost, 28 moved of 400, k = 4): 12 points need 100 items, 1 point 14,042."""
    query = f"SELECT 100 * mde80(padded_se({n}, {n} / 400e0 * (37 * 4/3e0 - 28 * 2/3e0), {n} / 400e0 * (37 * 16/9e0 + 28 * 4/9e0), 4/3e0, 2/3e0))"
    assert con.sql(query).fetchall()[0][0] == pytest.approx(points, rel=0.06)
