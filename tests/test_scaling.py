"""Slopes per decade: by hand, against numpy's matrices, on data whose slope is known, and from answers to trend."""

import random

import numpy as np
import pytest

from catalog import connect

POINT = "CREATE TABLE points (source VARCHAR, setting VARCHAR, map VARCHAR, regime VARCHAR, category VARCHAR, scaled_by VARCHAR, " \
        "metric VARCHAR, family VARCHAR, x DOUBLE, y DOUBLE, y_se DOUBLE)"  # fmt: skip


@pytest.fixture
def points(con):
    """Fills a table of points: (category, family, x, y, y_se)."""
    con.execute(POINT)

    def add(rows):
        con.executemany("INSERT INTO points VALUES ('test', 's', NULL, 'r', $1, 'n_params', 'f', $2, $3, $4, $5)", rows)

    return add


def test_three_points_by_hand(points, one):
    """x 8, 9, 10 and y .30, .26, .16: slope -.14/2; residuals -.01, .02, -.01."""
    points([("c", f, 10.0**x, y, 0.01) for f, x, y in (("A", 8, 0.30), ("B", 9, 0.26), ("C", 10, 0.16))])
    row = one("FROM trends_of('points') WHERE family = 'all'")
    assert (row["n_pairs"], row["n_sizes"], row["n_families"], row["reason"]) == (3, 3, 3, None)
    assert row["slope"] == pytest.approx(-0.07) and row["intercept"] == pytest.approx(0.24 + 0.07 * 9)
    assert row["slope_se"] == pytest.approx((0.0006 / 1 / 2) ** 0.5) and row["r2"] == pytest.approx(1 - 0.0006 / 0.0104)
    # leverages 5/6, 1/3, 5/6: the items' errors explain (1/6 + 2/3 + 1/6) x .0001 of the .0006, one degree of freedom
    assert row["between_var"] == pytest.approx(0.0005)
    assert row["slope_weighted"] == pytest.approx(-0.07) and row["slope_weighted_se"] == pytest.approx((0.0006 / 2) ** 0.5)
    # clusters: (-1 x -.01)^2 + 0 + (1 x -.01)^2, times 3/2 x 2/1
    assert [row["slope_family_se"], row["slope_weighted_family_se"]] == pytest.approx([(3 * 0.0002) ** 0.5 / 2] * 2)


def test_large_item_errors_leave_no_between_variance(points, one):
    """With y_se .03 the items explain more than there is: between_var is 0, se sqrt(.0009/2)."""
    points([("c", None, 10.0**x, y, 0.03) for x, y in ((8, 0.30), (9, 0.26), (10, 0.16))])
    row = one("FROM trends_of('points')")
    assert row["between_var"] == 0 and row["slope_weighted_se"] == pytest.approx((0.0009 / 2) ** 0.5)
    assert row["slope_family_se"] is None  # families not known


def test_what_is_missing_is_null_with_a_reason(points, con):
    """Two sizes, however many pairs: no slope. An error not known, or 0 as where nothing flipped: no weighted slope."""
    points([("two", "A", x, y, 0.01) for x, y in ((1e8, 0.1), (1e8, 0.2), (1e9, 0.3))])
    points([("unknown", "A", 10.0**x, 0.1 * x**2, None if x == 2 else 0.01) for x in (1, 2, 3)])
    points([("exact", "A", 10.0**x, 0.1 * x, 0.01 * x - 0.01) for x in (1, 2, 3)])
    rows = con.sql("SELECT category, n_pairs, n_sizes, slope, slope_weighted, reason FROM trends_of('points') ORDER BY ALL").fetchall()
    assert rows == [
        ("exact", 3, 3, pytest.approx(0.1), None, None),
        ("two", 3, 2, None, None, "needs 3 distinct sizes, has 2"),
        ("unknown", 3, 3, pytest.approx(0.4), None, None),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_against_numpy(points, one, seed):
    """Nine pairs of four families with unlike errors: ordinary and weighted least squares and both sandwiches as matrices."""
    draw = np.random.default_rng(seed)
    n, families = 9, np.array(list("AABBBCCDD"))
    x, y, se = draw.uniform(7, 11, n), draw.uniform(0, 0.3, n), draw.uniform(0.005, 0.08, n)
    points([("c", f, 10**a, b, s) for f, a, b, s in zip(families.tolist(), x.tolist(), y.tolist(), se.tolist(), strict=True)])
    design = np.column_stack([np.ones(n), x])

    def fit(w):
        bread = np.linalg.inv(design.T @ (w[:, None] * design))
        beta = bread @ design.T @ (w * y)
        e = y - design @ beta
        scores = [design[families == f].T @ (w * e)[families == f] for f in "ABCD"]
        meat = sum(np.outer(s, s) for s in scores) * 4 / 3 * (n - 1) / (n - 2)
        return beta, e, bread, (bread @ meat @ bread)[1, 1] ** 0.5

    beta, e, bread, clustered = fit(np.ones(n))
    hat = design @ bread @ design.T
    between = max(0.0, (e @ e - (1 - np.diag(hat)) @ se**2) / (n - 2))
    weighted, _, bread_w, clustered_w = fit(1 / (se**2 + between))
    row = one("FROM trends_of('points') WHERE family = 'all'")
    found = [row[name] for name in ("slope", "intercept", "slope_se", "between_var", "slope_weighted", "slope_weighted_se",
                                    "slope_family_se", "slope_weighted_family_se")]  # fmt: skip
    assert found == pytest.approx(
        [beta[1], beta[0], (e @ e / (n - 2) * bread[1, 1]) ** 0.5, between, weighted[1], bread_w[1, 1] ** 0.5, clustered, clustered_w]
    )
    assert row["r2"] == pytest.approx(np.corrcoef(x, y)[0, 1] ** 2)


def test_known_slope_is_recovered(points, con):
    """y = .4 - .05 log10 N, 12 sizes, model noise .03 and item errors of .01 to .04: 2 se hold it in nine of ten of 300 data sets."""
    draw = random.Random(7)
    rows = []
    for trial in range(300):
        for i in range(12):
            x, se = 8 + i / 4, draw.uniform(0.01, 0.04)
            rows.append((str(trial), "A", 10**x, 0.4 - 0.05 * x + draw.gauss(0, 0.03) + draw.gauss(0, se), se))
    points(rows)
    plain, weighted, mean, between = con.sql("""SELECT avg(CAST(abs(slope + .05) < 2 * slope_se AS INT)), avg(CAST(abs(slope_weighted + .05) < 2 * slope_weighted_se AS INT)),
        avg(slope_weighted), avg(between_var) FROM trends_of('points')""").fetchall()[0]  # fmt: skip
    assert 0.88 < plain < 0.97 and 0.88 < weighted < 0.99
    assert mean == pytest.approx(-0.05, abs=0.003) and between == pytest.approx(0.03**2, rel=0.2)


def test_from_answers_to_trend(fill, con):
    """F .1, .2, .3 at 1e8, 1e9, 1e10 parameters: .1 a decade, in the category and over all; tokens known of two pairs only; letter case makes no regime."""
    fill.task("x/t", ["free"] * 10)
    fill.insert("categories", map="m", task_id="x/t", category="X")
    for i, tokens in ((1, 1000), (2, 10000), (3, None)):
        fill.answers(f"A{i}", "x/t", "1" * 10)
        fill.answers(f"B{i}", "x/t", "0" * i + "1" * (10 - i))
        con.execute(f"UPDATE models SET n_params = {10 ** (7 + i)}, family = 'F' WHERE model_id = 'B{i}'")
        fill.insert(
            "pairs",
            pair_id=str(i),
            before_id=f"A{i}",
            after_id=f"B{i}",
            regime=("Instruction Tuning", "instruction tuning")[i % 2],
            data_tokens=tokens,
        )
    rows = con.sql(
        "SELECT category, scaled_by, n_pairs, slope, reason FROM scaling WHERE metric = 'f' AND map = 'm' AND regime = 'Instruction Tuning' ORDER BY ALL"
    ).fetchall()
    assert rows == [(category, *rest) for category in ("Total", "X")
                    for rest in (("data_tokens", 2, None, "needs 3 distinct sizes, has 2"), ("n_params", 3, pytest.approx(0.1), None))]  # fmt: skip


def test_published_trend_against_numpy():
    """arXiv 2510.17776, instruction tuning, printed totals of forgetting over 9 models of 5 sizes."""
    con = connect()
    points = con.sql("SELECT log10(size_b * 1e9), value FROM published_results WHERE regime = 'Instruction Tuning' AND category = 'Total' AND metric = 'forgetting'").fetchall()  # fmt: skip
    x, y = zip(*points, strict=True)
    slope, intercept = np.polyfit(x, y, 1)
    rows = con.sql("SELECT family, n_pairs, n_sizes, n_families, slope, intercept, slope_weighted, slope_family_se, reason FROM published_scaling WHERE regime = "
                   "'Instruction Tuning' AND category = 'Total' AND metric = 'forgetting' ORDER BY family").fetchall()  # fmt: skip
    assert rows[2] == ("all", 9, 5, 2, pytest.approx(slope), pytest.approx(intercept), None, None, None)
    assert rows[0] == ("Llama-3.1", 1, 1, 1, None, None, None, None, "needs 3 distinct sizes, has 1")
    assert rows[1][0] == "Qwen2.5" and rows[1][1:4] == (8, 4, 1)
    merging = con.sql("SELECT DISTINCT slope, reason FROM published_scaling WHERE regime = 'Model Merging'").fetchall()
    assert merging == [(None, "needs 3 distinct sizes, has 1")]  # every merge is of 7B models
