"""Metrics by hand: rows in sight, arithmetic written out. Against the plain-Python reference: test_against_reference.py."""

import math

import pytest

TASK = "FROM task_metrics WHERE task_id = 'x/t'"


def close(row, **wanted):
    """Compare named columns; None means NULL."""
    for name, value in wanted.items():
        assert row[name] == (pytest.approx(value, abs=1e-9) if isinstance(value, float) else value), name


def test_task_k4(fill, one):
    """10 items of 4 options: 3 kept, 2 lost, 1 gained, 4 wrong twice of which 2 moved to another wrong option."""
    fill.task("x/t", [4] * 10)
    fill.answers("A", "x/t", "0000031123")
    fill.answers("B", "x/t", "0001201233")
    fill.pair()
    row = one("FROM task_replicates")
    close(row, n=10, n11=3, n10=2, n01=1, n00=4, d=2, method="exchangeable", sparse=True)
    close(row, a_pre=0.5, a_post=0.4, f=0.2, bt=0.1, net=-0.1, flips=0.3, all_flips=0.5, f_conventional=0.1)
    close(row, f_cond=2 / 5, btc=3 / 5, bec=4 / 6, f_relative=0.2 / (0.5 * 0.6))
    close(
        row,
        f_lucky=0.5 * 0.6 / 3,
        f_true=0.2 - 0.1,
        bt_true=0.0,
        bt_true_unclipped=0.1 - 0.1,
        f_max=(4 * 0.5 - 1) / 3,
        bt_max=(4 * 0.4 - 1) / 3,
    )
    close(row, f_latent=4 / 3 * (0.2 - 0.4 / 3), bt_latent=4 / 3 * (0.1 - 0.4 / 3), f_sticky=4 / 3 * 0.2)
    close(row, f_exch=4 / 3 * (0.2 - 0.2 / 2), bt_exch=0.0, f_known=4 / 3 * 0.1, f_known_max=4 / 3 * 0.1)
    # scores: 2 x 4/3, 2 x -2/3; pseudo-items +4/3 and -2/3; N = 12
    mean, square = (2 * 4 / 3 - 2 * 2 / 3 + 4 / 3 - 2 / 3) / 12, (3 * 16 / 9 + 3 * 4 / 9) / 12
    half = 1.959963984540054 * math.sqrt((square - mean**2) / 12)
    close(
        one(TASK),
        f_exch_lo=mean - half,
        f_exch_hi=mean + half,
        f_known_lo=mean - half,
        f_known_hi=mean + half,
        n_replicates=1,
        f_sd_seed=None,
    )


def test_task_k2(fill, one):
    """8 items of 2 options: not identified beyond luck, a bracket from latent to sticky."""
    fill.task("x/t", [2] * 8)
    fill.answers("A", "x/t", "00000111")
    fill.answers("B", "x/t", "00011011")
    fill.pair()
    row = one(TASK)
    close(row, f=0.25, bt=0.125, f_true=0.25 - 0.375 * 0.5, f_latent=2 * (0.25 - 0.25), bt_latent=2 * (0.125 - 0.25), f_sticky=0.5)
    close(row, f_exch=None, f_exch_lo=None, f_known=0.0, f_known_max=0.5, method="latent")
    # lower end: scores 2 x +2, 2 x -2 over 8; upper end: 2 x 2 over 8
    low, high = math.sqrt((16 / 8 - 0) / 8), math.sqrt((8 / 8 - 0.25) / 8)
    close(row, f_known_lo=0 - 1.959963984540054 * low, f_known_hi=0.5 + 1.959963984540054 * high)


def test_task_free(fill, one):
    """5 free-form items: nothing is luck, f_known is F with Wilson's interval."""
    fill.task("x/t", ["free"] * 5)
    fill.answers("A", "x/t", "11100")
    fill.answers("B", "x/t", "10010")
    fill.pair()
    row = one(TASK)
    close(
        row,
        f=0.4,
        bt=0.2,
        f_true=0.4,
        f_max=0.6,
        f_latent=0.4,
        f_known=0.4,
        f_known_max=0.4,
        method="free-form",
        f_exch=None,
        all_flips=None,
    )
    close(row, f_known_lo=row["f_lo"], f_known_hi=row["f_hi"])


def test_task_mixed_k(fill, one):
    """4 items of 2 options (1 1 0 2), 4 of 4 options (1 1 1 1, d = 1): luck per number of options, clipped once."""
    fill.task("x/t", [2] * 4 + [4] * 4)
    fill.answers("A", "x/t", "0011" + "0011")
    fill.answers("B", "x/t", "0111" + "0102")
    fill.pair()
    row = one(TASK)
    luck = 4 * (0.5 * 0.75 / 1) + 4 * (0.5 * 0.5 / 3)
    close(row, f=2 / 8, f_true_unclipped=(2 - luck) / 8, f_true=(2 - luck) / 8, f_max=0.5 - (2 * 1 + 2 / 3) / 8, n_exch=4)
    exchangeable, latent, sticky = 4 / 3 * (1 - 1 / 2), 2 * (1 - 2), 2 * 1
    close(row, f_exch=exchangeable / 4, f_known=(exchangeable + latent) / 8, f_known_max=(exchangeable + sticky) / 8, method="mixed")


def test_task_multi(fill, one):
    """Several golds: raw metrics only."""
    fill.task("x/t", ["multi"] * 4)
    fill.answers("A", "x/t", "1100")
    fill.answers("B", "x/t", "1010")
    fill.pair()
    close(
        one(TASK),
        f=0.25,
        bt=0.25,
        f_true=None,
        f_true_unclipped=None,
        f_max=None,
        f_latent=None,
        f_exch=None,
        f_known=None,
        f_known_lo=None,
        f_known_hi=None,
    )
    close(one("FROM category_metrics WHERE map = 'benchmark'"), n_tasks=1, n_tasks_adjusted=0, f=0.25, f_true=None, f_known=None)


def test_unparsed_and_not_measured(fill, one):
    """An unread answer is wrong and flagged; one not measured is left out on both sides, with its direction."""
    fill.task("x/t", [4] * 8)
    fill.answers("A", "x/t", "000u12-0")
    fill.answers("B", "x/t", "0u1001u-")
    fill.pair()
    close(
        one("FROM task_replicates"),
        n=6,
        n11=1,
        n10=2,
        n01=2,
        n00=1,
        d=1,
        n10_unparsed=1,
        n01_unparsed=1,
        n_unpaired_before=1,
        n_unpaired_after=1,
    )
    row = one(TASK)
    close(row, f_unparsed=1 / 6, f_wrong=1 / 6, f_answer=4 / 3 * (1 - 1 / 2) / 6, f_format=(1 - 0) / 6, f_exch=(4 / 3 * 0.5 + 1) / 6)
    close(row, bt_answer=4 / 3 * (1 - 1 / 2) / 6, bt_format=1 / 6)


def test_wrong_to_unparsed(fill, one):
    """A wrong answer that becomes unreadable shows how often a right one would by format alone: -1/(k-1) each."""
    fill.task("x/t", [4] * 4)
    fill.answers("A", "x/t", "01u0")
    fill.answers("B", "x/t", "uu10")
    fill.pair()
    close(one(TASK), f_format=(1 - 1 / 3) / 4, bt_format=(0 - 1 / 3) / 4, f_answer=0.0)


def test_unknown_predictions_fall_back(fill, con, one):
    """Both wrong and an option not recorded: f_exch is not identified, f_known is latent and says so."""
    fill.task("x/t", [4] * 4)
    fill.answers("A", "x/t", "0011")
    fill.answers("B", "x/t", "0122")
    con.execute("UPDATE outcomes SET predicted = NULL")
    fill.pair()
    close(one(TASK), f_exch=None, f_exch_lo=None, all_flips=None, method="latent", f_known=4 / 3 * (1 - 2 / 3) / 4, f_known_max=4 / 3 / 4)


def test_category_and_pair(fill, con, one):
    """Two replicates, two categories: means over tasks, then categories, sd over replicates; Other stays outside the pair."""
    for task, category in (("x/a", "P"), ("x/b", "P"), ("y/c", "Q"), ("z/d", None)):
        fill.task(task, [4] * 4)
        if category:
            fill.insert("categories", map="m", task_id=task, category=category)
        for replicate, after in enumerate(("0111", "0011")):
            fill.answers("A", task, "0011", replicate)
            fill.answers("B", task, after if task == "x/a" else "0011", replicate)
    fill.pair()
    # x/a loses 1 of 4 in replicate 0, 0 in replicate 1; the other tasks lose nothing
    close(one("FROM task_metrics WHERE task_id = 'x/a'"), f=0.125, f_sd_seed=math.sqrt(2 * 0.125**2), n_replicates=2)
    row = one("FROM category_metrics WHERE map = 'm' AND category = 'P'")
    close(row, n_tasks=2, n_items=8, f=0.0625, f_sd_seed=math.sqrt(2 * 0.0625**2), n10_pooled=1, n01_pooled=0, mcnemar_p_pooled=1.0)
    # F_true of x/a: replicate 0 .25 - (.5)(.75)/3 = .125, replicate 1 0 - .25/3 clipped to 0; x/b 0 twice
    close(row, f_true=(0.125 + 0) / 2 / 2, f_true_unclipped=((0.125 - 0.25 / 3) / 2 + (-0.25 / 3)) / 2)
    # se: the item that is lost in one of two replicates has score .5: variance over 4 items / 4
    se = math.sqrt((0.25 / 4 - 0.125**2) / 4)
    close(one("FROM task_metrics WHERE task_id = 'x/a'"), f_se=se)
    close(row, f_se=math.sqrt(se**2 + 0) / 2)
    close(
        one("FROM pair_metrics WHERE map = 'm'"),
        n_categories=2,
        n_tasks=3,
        f=0.03125,
        f_sd_seed=math.sqrt(2 * 0.03125**2),
        f_se=math.sqrt((se / 2) ** 2) / 2,
    )
    close(one("FROM category_metrics WHERE map = 'm' AND category = 'Other'"), n_tasks=1)


def test_interval_of_f_true_by_hand(fill, one):
    """Mean of the items' influences and of two pseudo-items, one lost for sure and one wrong both times; then 1.96 standard errors."""
    fill.task("x/t", [4] * 10)
    fill.answers("A", "x/t", "0000031123")
    fill.answers("B", "x/t", "0001201233")
    fill.pair()
    # before right 5, after right 4: lost 2, gained 1, wrong both times 4
    x, y = 0.6 / 3, 0.5 / 3  # an error before, and one after, as far as luck pays for it
    influence = [0] * 3 + [1 - y] * 2 + [-x] * 1 + [-x - y] * 4
    padded = [*influence, 1, -x - y]
    mean = sum(padded) / 12
    se = math.sqrt(sum(v * v for v in padded) / 12 - mean**2) / math.sqrt(12)
    middle = 0.2 - 0.5 * 0.6 / 3 + mean - sum(influence) / 10
    row = one(TASK)
    assert row["f_true_unclipped"] == pytest.approx(0.1)
    assert (row["f_true_lo"], row["f_true_hi"]) == pytest.approx((middle - 1.959963984540054 * se, middle + 1.959963984540054 * se))


def test_one_task_category_keeps_the_task_interval(fill, one):
    """Square-and-add over one task gives the task's own interval back."""
    fill.task("x/t", [4] * 10)
    fill.answers("A", "x/t", "0000031123")
    fill.answers("B", "x/t", "0001201233")
    fill.pair()
    task, category = one(TASK), one("FROM category_metrics WHERE map = 'benchmark'")
    for end in ("f_lo", "f_hi", "bt_lo", "bt_hi", "f_known_lo", "f_known_hi", "f_exch_lo", "f_true_hi"):
        assert category[end] == pytest.approx(task[end]), end


def test_against_itself_by_hand(fill, con, one):
    """3 items of 4 options, 2 replicates each; every ordered pair counted by hand."""
    fill.task("x/t", [4] * 3)
    for replicate, (before, after) in enumerate((("001", "012"), ("021", "021"))):
        fill.answers("A", "x/t", before, replicate)
        fill.answers("B", "x/t", after, replicate)
    fill.pair()
    # F: item 0 right always: 0. item 1: before right 1 of 2, after 0 of 2: 1/2. item 2: 0
    # F_self before: item 1: right then wrong in one of the two orders: 1/2; after: 0
    close(one("FROM noise_floor WHERE model_id = 'A'"), f_self=0.5 / 3, n_items=3)
    close(one("FROM noise_floor WHERE model_id = 'B'"), f_self=0.0)
    row = one(TASK)
    close(row, f_sym=(0.5 - 0.25) / 3, bt_sym=(0 - 0.25) / 3, v=(0.5 - 0.5) / 3 + 0.0, n_replicated=3)
    # exchangeable score of item 1: cross: 1/2 C for right->wrong; d: before wrong (option 2) once, after 1 and 2: 1 of 4 differ
    # self before: one of two orders right->wrong: C/2; self after: options 1, 2: differ in both orders: -C/2 each
    # item 2: before 1, 1, after 2, 1: half of the pairs differ: -C/4; self before 0; self after: differ always: -C/2
    c = 4 / 3
    item1 = c * (0.5 - 0.25 / 2) - (c * 0.5 + c * (0 - 1 / 2)) / 2
    item2 = c * (0 - 0.5 / 2) - (0 + c * (0 - 1 / 2)) / 2
    close(row, f_exch_x=(item1 + item2) / 3, n_exch_x=3)
    assert row["bt_sym"] - row["f_sym"] == pytest.approx(row["net"])


def test_seed_consistent(fill, one):
    """3 replicates of 3 items: kept always; lost in 2 of 3; never right."""
    fill.task("x/t", [4] * 3)
    for replicate, after in enumerate(("011", "012", "001")):
        fill.answers("A", "x/t", "001", replicate)
        fill.answers("B", "x/t", after, replicate)
    fill.pair()
    pairs = one("FROM seed_consistent WHERE set_size = 2")
    # sets {0,1}: n 3, n10 1; {0,2}: n 2, n10 0; {1,2}: n 2, n10 0
    close(pairs, n_sets=3, n10_mean=1 / 3, n10_var=1 / 3, n_mean=7 / 3, f_consistent=1 / 7)
    close(one("FROM seed_consistent WHERE set_size = 3"), n_sets=1, n10_mean=0.0, n_mean=2.0, n10_var=None, f_consistent=0.0)


@pytest.mark.parametrize(
    ("counts", "exact", "mid", "low", "high"),
    [((1, 1, 7, 12), 0.070312, 0.039062, -0.506920, -0.025559), ((412, 38, 62, 88), 0.020979, 0.016506, -0.072790, -0.007291)],
)
def test_paired_tests(con, counts, exact, mid, low, high):
    """McNemar and Newcombe's interval of a_pre - a_post; ours is of a_post - a_pre, so its ends change sign and side."""
    _, n10, n01, _ = counts
    found = con.execute(f"SELECT mcnemar_exact({n10}, {n01}), mcnemar_midp({n10}, {n01}), -net_hi{counts}, -net_lo{counts}").fetchall()[0]
    assert found == pytest.approx((exact, mid, low, high), abs=1e-5)


def test_wilson_and_empty(con):
    """Wilson of 38 and 62 in 600; nothing flipped gives p = 1."""
    found = con.execute("SELECT wilson_lo(38, 600), wilson_hi(38, 600), wilson_lo(62, 600), wilson_hi(62, 600)").fetchall()[0]
    assert found == pytest.approx((0.046487, 0.085735, 0.081447, 0.130266), abs=1e-5)
    assert con.execute("SELECT mcnemar_exact(0, 0), mcnemar_midp(0, 0), mcnemar_exact(3, 3), mcnemar_midp(1, 1)").fetchall()[
        0
    ] == pytest.approx((1, 1, 1, 0.75))


def test_real_quantisation_counts(con):
    """Qwen2.5-1.5B-Instruct on 400 MMLU items, fp16 to AWQ: 145 37 29 189, d = 28."""
    found = con.execute("""
        SELECT exchange_answer(4, 37, 28) / 400, exchange_answer(4, 29, 28) / 400, latent_score(4, 37, 189) / 400,
               37 / 400 - lucky_paper(182 / 400, 174 / 400, 4),
               padded_se(400, 37 * 4/3 - 28 * 2/3, 37 * 16/9 + 28 * 4/9, 4/3, 2/3) * 1.96""").fetchall()[0]  # fmt: skip
    assert found == pytest.approx((0.077, 0.050, -0.087, -0.010, 0.043), abs=6e-4)


def test_headline_needs_every_item(fill, one):
    """8 items of 2 options lost, 2 of 4 options kept, two replicates: the self comparison covers 2 of 10 items and is no headline."""
    fill.task("x/t", [2] * 8 + [4] * 2)
    for replicate in (0, 1):
        fill.answers("A", "x/t", "0000000000", replicate)
        fill.answers("B", "x/t", "1111111100", replicate)
    row = one("FROM forgetting('A', 'B')")
    close(row, f=0.8, knowledge_method="mixed, unchecked", f_knowledge=2 * 8 / 10)
    close(one("FROM task_metrics_of('A', 'B')"), n_exch_x=2, f_exch_x=0.0)


def test_headline_free_form_needs_replicates_of_every_task(fill, one):
    """Two free-form tasks, replicates of one only: F as it is, unchecked; with both, F less the noise."""
    for task in ("x/t", "x/u"):
        fill.task(task, ["free"] * 2)
        fill.answers("A", task, "11")
        fill.answers("B", task, "10")
    fill.answers("A", "x/t", "11", 1)
    fill.answers("B", "x/t", "11", 1)
    close(one("FROM forgetting('A', 'B')"), knowledge_method="free-form, unchecked")
    fill.answers("A", "x/u", "11", 1)
    fill.answers("B", "x/u", "11", 1)
    row = one("FROM forgetting('A', 'B')")
    # x/t and x/u alike: item 1 right before always, after in one of two: F across .5, self of B .5, so F_sym .5 - .25 over 2 items
    close(row, knowledge_method="free-form, against itself", f_knowledge=(0.5 - 0.25) / 2)


def test_replicate_that_lacks_a_task_is_left_out_of_the_category(fill, one):
    """Task t forgets all in replicates 0 and 1, task u nothing and has replicate 1 only: the mean of both is .5, without a spread."""
    fill.task("x/t", [4] * 2)
    for replicate in (0, 1):
        fill.answers("A", "x/t", "00", replicate)
        fill.answers("B", "x/t", "11", replicate)
    fill.task("x/u", [4] * 2)
    fill.answers("A", "x/u", "00", 1)
    fill.answers("B", "x/u", "00", 1)
    fill.pair()
    close(one("FROM category_metrics WHERE map = 'benchmark'"), f=0.5, f_sd_seed=None, n_replicates=1, n_tasks=2, mcnemar_p_pooled=None)


def test_multi_gold_has_no_exchangeable_self(fill, one):
    """What is not identified is NULL in the noise floor, too."""
    fill.task("x/t", ["multi"] * 2)
    fill.answers("A", "x/t", "10", 0)
    fill.answers("A", "x/t", "01", 1)
    close(one("FROM noise_floor"), f_self=0.5, f_exch_self=None)


def test_macros_take_plain_large_numbers(con):
    """A person's integers do not overflow; NULL counts give NULL, not p = 1."""
    found = con.execute(
        "SELECT wilson_lo(60000, 100000), net_lo(30000, 40000, 35000, 60000), mcnemar_exact(NULL, NULL), mcnemar_midp(NULL, NULL)"
    ).fetchall()[0]
    assert (
        found[0] == pytest.approx(0.59696, abs=1e-4)
        and found[1] == pytest.approx(-5000 / 165000 - 0.0033, abs=1e-3)
        and found[2:] == (None, None)
    )


def test_gold_rank_by_hand(fill, con):
    """Four items of 3 options, gold 0: right; wrong with gold second; wrong with gold last; wrong in a tie (2nd): 2 of 3, 1/2 expected."""
    fill.task("x/t", [3, 3, 3, 3])
    run = fill.answers("A", "x/t", "0121")
    for item, scores in enumerate(([-1, -2, -3], [-2, -1, -3], [-3, -2, -1], [-1, -1, -5])):
        con.execute("INSERT INTO option_scores VALUES ($1, $2, $3)", [run, item, [float(x) for x in scores]])
    found = con.sql(
        "SELECT n_wrong, gold_second, gold_second_expected, gold_second_lo < 2 / 3 AND gold_second_hi > 2 / 3 FROM gold_rank"
    ).fetchall()
    assert found == [(3, 2 / 3, 0.5, True)]


def test_multi_gold_items_of_one_side_do_not_count(fill, con):
    """A multi-gold item measured before only is unpaired: the adjusted metrics are of the two choice items, 1 of 2 lost."""
    fill.task("x/t", [4, 4, "multi"])
    fill.answers("A", "x/t", "001")
    fill.answers("B", "x/t", "01-")
    fill.insert("pairs", pair_id="p", before_id="A", after_id="B")
    assert con.sql("SELECT n, n_unpaired_before, f, f_exch, f_true_unclipped IS NULL FROM task_replicates").fetchall() == [
        (2, 1, 0.5, 4 / 3 / 2, False)
    ]


@pytest.mark.parametrize("x, m", [(0, 5), (3, 50), (80, 700), (347, 700), (1400, 3000), (1500, 3000)])
def test_mcnemar_tail_is_whole(con, x, m):
    """The terms left out far below the tail change nothing: against exact fractions, to 1e-9 of the value."""
    from fractions import Fraction
    from math import comb

    exact = min(Fraction(1), 2 * sum(Fraction(comb(m, i), 2**m) for i in range(x + 1)))
    assert con.execute("SELECT mcnemar_exact($1, $2)", [x, m - x]).fetchall()[0][0] == pytest.approx(float(exact), rel=1e-9)
