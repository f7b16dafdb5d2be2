"""The plain-Python reference gives the printed numbers, by hand and by two roads, before the SQL is held to it."""

import math
import random
import statistics
from collections.abc import Callable
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import (
    SIMULATED_TRUTH,
    Cells,
    Estimate,
    Item,
    Outcome,
    Raw,
    Stratum,
    benjamini_hochberg,
    bracket,
    category,
    cells_of,
    cluster_se,
    counts,
    exch,
    exch_formula,
    exch_self,
    factor,
    format_loss,
    known,
    latent,
    latent_formula,
    mcnemar_exact,
    mcnemar_midp,
    mde80,
    newcombe,
    noise_floor,
    overall,
    paper,
    pool,
    raw,
    runs_of_cells,
    se_of_mean,
    seed_consistent,
    self_comparison,
    self_comparison_brute,
    simulate,
    wilson,
)

ROW1, ROW2 = (1, 1, 7, 12), (412, 38, 62, 88)
AWQ, GPTQ = cells_of(145, 37, 29, 189, d=28), cells_of(144, 38, 21, 197, d=29)
SETTINGS = settings(max_examples=100, deadline=None, derandomize=True)

near: Any = pytest.approx


def choice(k: int, *pairs: str) -> tuple[list[Item], dict[str, Outcome], dict[str, Outcome]]:
    """Items with k options and two runs, from one pair of letters (before, after) an item."""
    items = [Item(f"k{k}-{i}", "choice", k) for i in range(len(pairs))]
    before = {item.key: answer(pair[0]) for item, pair in zip(items, pairs, strict=True)}
    after = {item.key: answer(pair[1]) for item, pair in zip(items, pairs, strict=True)}
    return items, before, after


def answer(letter: str) -> Outcome:
    """R right (option 0), 1.. wrong with that option, ? wrong with no prediction, u and t unparsed, - an error."""
    if letter.isdigit():
        return Outcome(False, int(letter))
    return {
        "R": Outcome(True, 0),
        "?": Outcome(False),
        "u": Outcome(False, status="unparsed"),
        "t": Outcome(False, status="truncated"),
        "-": Outcome(None, status="error"),
    }[letter]


def replicate_runs(items: list[Item], *letters: str) -> list[dict[str, Outcome]]:
    """One run per word, one letter per item."""
    return [{item.key: answer(x) for item, x in zip(items, word, strict=True)} for word in letters]


# ---- raw -----------------------------------------------------------------------------------------


def test_counts_by_hand() -> None:
    """Every transition once, two unpaired each way, and strata kept apart."""
    items, before, after = choice(4, "RR", "R1", "Ru", "1R", "12", "11", "1t", "uR", "u1", "ut", "R-", "-1", "--", "1?")
    items += [Item("f1", "free"), Item("f2", "free"), Item("f3", "free"), Item("m", "multi")]
    before |= {"f1": Outcome(True), "f2": Outcome(False), "m": Outcome(True)}
    after |= {"f1": Outcome(False), "f3": Outcome(True), "m": Outcome(True, status="lenient")}
    found = counts(items, before, after)
    assert found[4] == Cells(1, 1, 1, 1, 3, 1, 1, 1, 1, d=1, d_unknown=1, n_unpaired_before=1, n_unpaired_after=1)
    assert (found[4].n11, found[4].n10, found[4].n01, found[4].n00, found[4].n) == (1, 2, 2, 6, 11)
    assert found["free"] == Cells(right_wrong=1, n_unpaired_before=1, n_unpaired_after=1)
    assert found["multi"] == Cells(right_right=1)
    assert pool(found.values()).n == 13


def test_unparsed_marked_right_is_wrong() -> None:
    """A grader's True on an answer that could not be read does not count."""
    item = Item("a", "choice", 4)
    assert counts([item], {"a": Outcome(True, 0)}, {"a": Outcome(True, 0, "unparsed")})[4].n10 == 1


def test_correct_none_is_left_out_whatever_its_status() -> None:
    """Not measured is not wrong; an error is not measured whatever a grader wrote beside it."""
    item = Item("a", "choice", 4)
    assert counts([item], {"a": Outcome(True, 0)}, {"a": Outcome(False, 1, "error")})[4] == Cells(n_unpaired_before=1)
    assert counts([item], {"a": Outcome(True, 0)}, {"a": Outcome(None)})[4] == Cells(n_unpaired_before=1)


def test_raw_row_2() -> None:
    """The printed figures of (412, 38, 62, 88)."""
    found = raw(cells_of(*ROW2, d=40))
    assert (found.n, found.a_pre, found.a_post) == (600, 0.75, 0.79)
    assert (found.f, found.bt) == (near(0.063333, abs=1e-5), near(0.103333, abs=1e-5))
    assert (found.f_cond, found.relative_nfr) == (near(0.084444, abs=1e-5), near(0.4021, abs=5e-5))
    assert (found.btc, found.bec) == (near(0.9156, abs=5e-5), near(0.6984, abs=5e-5))
    assert (found.flips, found.all_flips) == (near(100 / 600), near(140 / 600))
    assert (found.net, found.conventional_forgetting) == (near(0.04), 0.0)


def test_conventional_forgetting_hides_what_is_gained() -> None:
    """10 lost and 4 gained of 20 show as 6."""
    assert raw(cells_of(3, 10, 4, 3)).conventional_forgetting == near(0.3)


@pytest.mark.parametrize(
    ("cells", "none"),
    [
        ((0, 0, 0, 0), set(Raw.__dataclass_fields__) - {"n"}),
        ((0, 0, 2, 0), {"f_cond", "btc", "bec", "relative_nfr"}),
        ((0, 2, 2, 0), set()),
        ((2, 0, 0, 0), {"bec", "relative_nfr"}),
        ((0, 0, 0, 2), {"f_cond", "btc", "relative_nfr"}),
    ],
)
def test_zero_denominators_are_none(cells: tuple[int, int, int, int], none: set[str]) -> None:
    """Exactly the metrics that divide by zero have no value."""
    found = raw(cells_of(*cells))
    assert {name for name in Raw.__dataclass_fields__ if getattr(found, name) is None} == none


def test_format_loss_by_hand() -> None:
    """Of 5 items 2 were right and became unreadable, 1 right and wrong; 1 unreadable became right."""
    items, before, after = choice(4, "Ru", "Rt", "R1", "uR", "11")
    found = format_loss(counts(items, before, after)[4])
    assert (found.f_format, found.f_answer, found.bt_format, found.bt_answer) == (0.4, 0.2, 0.2, 0.0)


# ---- the paper -----------------------------------------------------------------------------------


def test_paper_worked_example() -> None:
    """80% -> 70% with nothing gained: .10 - .2 * .3 / 3 = .08, where the paper says about 6%."""
    found = paper({4: cells_of(70, 10, 0, 20)})
    assert found is not None
    assert (found.lucky, found.f_true) == (near(0.02), near(0.08))
    assert (found.bt_true, found.bt_true_unclipped) == (0.0, near(-0.02))
    assert (found.f_max, found.bt_max) == (near((4 * 0.8 - 1) / 3), near((4 * 0.7 - 1) / 3))


def test_f_true_can_exceed_f_max() -> None:
    """p11 = 0, F = BT = .5, k = 4: .417 > .333."""
    found = paper({4: cells_of(0, 50, 50, 0)})
    assert found is not None
    assert (found.f_true, found.f_max) == (near(0.41667, abs=1e-5), near(0.33333, abs=1e-5))


def test_paper_mixed_k_is_weighted_and_clipped_once() -> None:
    """Strata k = 2 (10 items), k = 5 (20), free (10): each lucky by its own k, maxima per item."""
    strata: dict[Stratum, Cells] = {2: cells_of(1, 2, 3, 4), 5: cells_of(0, 10, 1, 9), "free": cells_of(4, 3, 1, 2)}
    found = paper(strata)
    assert found is not None
    lucky = 10 / 40 * (0.7 * 0.6) + 20 / 40 * (0.5 * 0.95 / 4)
    wrong_before = 7 / 1 + 10 / 4
    wrong_after = 6 / 1 + 19 / 4
    assert found.lucky == near(lucky)
    assert (found.f_true, found.bt_true) == (near(15 / 40 - lucky), 0.0)
    assert found.bt_true_unclipped == near(5 / 40 - lucky)
    assert found.f_max == near(20 / 40 - wrong_before / 40)
    assert found.bt_max == 0.0
    assert found.bt_max_unclipped == near(10 / 40 - wrong_after / 40)


def test_paper_free_form_and_multi() -> None:
    """Free-form: nothing lucky, F_max = a_pre. A multi-gold item leaves the task without adjusted metrics."""
    found = paper({"free": cells_of(4, 3, 1, 2)})
    assert found is not None
    assert (found.lucky, found.f_true, found.bt_true) == (0.0, near(0.3), near(0.1))
    assert (found.f_max, found.bt_max) == (near(0.7), near(0.5))
    assert paper({4: cells_of(4, 3, 1, 2), "multi": cells_of(1, 0, 0, 0)}) is None
    assert paper({4: Cells(), "free": Cells()}) is None


@pytest.mark.parametrize(("n", "points"), [(50, 2.7), (100, 1.9), (200, 1.3)])
def test_clipping_biases_a_mean_over_tasks(n: int, points: float) -> None:
    """Pure guessing (truth 0), k = 4: the clipped column averages to the printed points, the unclipped one to 0."""
    rng = random.Random(7)
    clipped, unclipped = [], []
    for _ in range(2000):
        draw = rng.choices(("11", "10", "01", "00"), (1, 3, 3, 9), k=n)
        found = paper({4: cells_of(*(draw.count(pattern) for pattern in ("11", "10", "01", "00")))})
        assert found is not None
        clipped.append(100 * found.f_true)
        unclipped.append(100 * found.f_true_unclipped)
    assert statistics.fmean(clipped) == near(points, abs=0.25)
    assert statistics.fmean(unclipped) == near(0, abs=0.5)


# ---- know or guess -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "f", "f_true", "f_latent", "f_exch", "bt_exch"),
    [(AWQ, 0.0925, -0.010, -0.087, 0.077, 0.050), (GPTQ, 0.095, None, -0.092, 0.078, 0.022)],
)
def test_quantised_models(cells: Cells, f: float, f_true: float | None, f_latent: float, f_exch: float, bt_exch: float) -> None:
    """The real check: Qwen2.5-1.5B-Instruct fp16 -> AWQ and GPTQ on 400 MMLU items."""
    items, before, after = runs_of_cells(4, cells)
    assert counts(items, before, after) == {4: cells}
    adjusted, guess, swap = paper({4: cells}), latent(items, before, after), exch(items, before, after)
    assert adjusted is not None and guess is not None and swap is not None
    assert (raw(cells).f, adjusted.f_true) == (near(f), 0.0)
    if f_true is not None:
        assert adjusted.f_true_unclipped == near(f_true, abs=5e-4)
    assert guess.f_latent.value == near(f_latent, abs=5e-4)
    assert (swap.f_exch, swap.bt_exch) == (near(f_exch, abs=5e-4), near(bt_exch, abs=5e-4))
    assert swap.reliable


def test_awq_interval() -> None:
    """.077 +- .043, and the sum written out with its two pseudo-items 4/3 and -2/3, N = 402."""
    found = exch(*runs_of_cells(4, AWQ))
    assert found is not None
    low, high = found.f_interval
    assert (high - low) / 2 == near(0.043, abs=5e-4)
    mean = (37 * 4 / 3 - 28 * 2 / 3 + 4 / 3 - 2 / 3) / 402
    square = (37 * 16 / 9 + 28 * 4 / 9 + 16 / 9 + 4 / 9) / 402
    half = 1.96 * math.sqrt((square - mean**2) / 402)
    assert (low, high) == (near(mean - half), near(mean + half))


@pytest.mark.parametrize(("scale", "n", "points"), [(0.25, 100, 12), (1, 400, 6), (2.5, 1000, 4), (5, 2000, 2.7)])
def test_mde80_of_f_exch(scale: float, n: int, points: float) -> None:
    """The printed least changes, from AWQ's se at each n."""
    found = exch(*runs_of_cells(4, AWQ))
    assert found is not None
    assert n == 400 * scale
    assert 100 * mde80(found.f_se / math.sqrt(scale)) == near(points, abs=0.5)


@pytest.mark.parametrize("scenario", SIMULATED_TRUTH)
def test_simulated_truth(scenario: str) -> None:
    """The table of simulated truth, close enough to tell each scenario from the others."""
    strata = counts(*simulate(scenario, 40_000, seed=1))
    adjusted, guess, swap = paper(strata), latent_formula(strata), exch_formula(strata)
    assert adjusted is not None and guess is not None and swap is not None
    truth = SIMULATED_TRUTH[scenario]
    assert raw(strata[4]).f == near(truth.f, abs=0.006)
    assert adjusted.f_true == near(truth.f_true, abs=0.006)
    assert guess[0] == near(truth.f_latent, abs=0.006)
    assert swap[0] == near(truth.f_exch, abs=0.006)


@pytest.mark.parametrize("n", [50, 100])
def test_exch_interval_covers(n: int) -> None:
    """The interval with two pseudo-items holds the true .10 in .93 to .99 of small samples."""
    found = [exch(*simulate("independent", n, seed)) for seed in range(200)]
    intervals = [one.f_interval for one in found if one is not None]
    assert len(intervals) == 200
    assert 0.92 <= statistics.fmean(low <= 0.10 <= high for low, high in intervals) <= 0.995


def test_exch_scores_by_hand() -> None:
    """k = 4 and k = 3 mixed, each scoring transition once; the pair of like wrong options scores 0."""
    items, before, after = choice(4, "R1", "12", "11", "Ru", "1u", "RR")
    more = choice(3, "2R", "u1", "tR", "uu")
    items, before, after = items + more[0], before | more[1], after | more[2]
    found = exch(items, before, after)
    assert found is not None
    assert found.f_answer == near((4 / 3 - 4 / 3 / 2) / 10)
    assert found.f_format == near((1 - 1 / 3) / 10)
    assert found.bt_answer == near((3 / 2 - 4 / 3 / 2) / 10)
    assert found.bt_format == near((1 - 1 / 2) / 10)
    assert found.f_exch == near(found.f_answer + found.f_format)
    assert not found.reliable


def test_exch_needs_predictions_and_three_options() -> None:
    """d is unknown without a prediction only where both are wrong; k = 2 is not identified."""
    assert exch(*choice(4, "R?", "RR")) is not None
    assert exch(*choice(4, "R?", "1?")) is None
    assert known(*choice(4, "R?", "1?")) is None
    assert exch(*choice(2, "R1", "11")) is None
    assert exch([], {}, {}) is None


@pytest.mark.parametrize(("n", "moves", "reliable"), [(30, 5, True), (29, 5, False), (30, 4, False)])
def test_exch_is_flagged_when_small(n: int, moves: int, reliable: bool) -> None:
    """n < 30 or n10 + n01 + d < 5."""
    found = exch(*choice(4, "12", "1R", *["R1"] * (moves - 2), *["11"] * (n - moves)))
    assert found is not None
    assert found.reliable is reliable


def test_k2_bracket_by_hand() -> None:
    """10 items, 3 lost, 2 still wrong: from 2 (.3 - .2) to 2 (.3), each end widened by its own se."""
    items, before, after = choice(2, *["R1"] * 3, *["11"] * 2, *["RR"] * 4, "1R")
    found = bracket(items, before, after)
    assert found is not None
    f, bt = found
    assert (f.lower, f.upper, f.n) == (near(0.2), near(0.6), 10)
    assert (bt.lower, bt.upper) == (near(-0.2), near(0.2))
    low_se, high_se = math.sqrt((5 * 4 / 10 - 0.2**2) / 10), math.sqrt((3 * 4 / 10 - 0.6**2) / 10)
    assert f.interval == (near(0.2 - 1.96 * low_se), near(0.6 + 1.96 * high_se))


def test_known_mixes_methods_by_items() -> None:
    """k = 4 by exchangeability, k = 2 by latent or sticky, free-form by p10; one mean over the 8 items."""
    items, before, after = choice(4, "R1", "12")
    two = choice(2, "R1", "11", "RR")
    items, before, after = items + two[0], before | two[1], after | two[2]
    items += [Item(f"f{i}", "free") for i in range(3)]
    before |= {"f0": Outcome(True), "f1": Outcome(True), "f2": Outcome(False)}
    after |= {"f0": Outcome(False), "f1": Outcome(True), "f2": Outcome(False)}
    found = known(items, before, after)
    assert found is not None
    assert (found.method, found.n) == ("mixed", 8)
    assert found.f_known.value == near((4 / 3 - 2 / 3 + 2 - 2 + 1) / 8)
    assert found.f_known_max.value == near((4 / 3 - 2 / 3 + 2 + 1) / 8)
    assert found.bt_known.value == near((-2 / 3 - 2) / 8)
    assert found.bt_known_max.value == near(-2 / 3 / 8)


def test_known_names_its_method() -> None:
    """One method where all items share it; no value with a multi-gold item."""
    for k, method in ((2, "latent"), (3, "exchangeable"), (5, "exchangeable")):
        found = known(*choice(k, "R1"))
        assert found is not None
        assert found.method == method
    found = known([Item("f", "free")], {"f": Outcome(True)}, {"f": Outcome(True)})
    assert found is not None
    assert found.method == "free-form"
    mixed_k = [Item("a", "choice", 3), Item("b", "choice", 4)]
    right = {key: Outcome(True, 0) for key in "abm"}
    found = known(mixed_k, right, right)
    assert found is not None
    assert found.method == "exchangeable"
    assert known([*mixed_k, Item("m", "multi")], right, right) is None


# ---- identities, on random runs ------------------------------------------------------------------

KINDS = st.sampled_from(["free", 2, 3, 4, 5])
SEEDS = st.integers(0, 2**32)


def random_items(kinds: list[int | str]) -> list[Item]:
    """One item per k or 'free'."""
    return [Item(f"i{i}", "choice", kind) if isinstance(kind, int) else Item(f"i{i}", "free") for i, kind in enumerate(kinds)]


def random_run(items: list[Item], rng: random.Random, *, parsed: bool, complete: bool) -> dict[str, Outcome]:
    """Answers at random; option 0 is gold; some unparsed, some missing or in error, when allowed."""
    run: dict[str, Outcome] = {}
    for item in items:
        luck = rng.random()
        option = rng.randrange(item.k or 2)
        run[item.key] = Outcome(option == 0, option if item.k else None, rng.choice(("ok", "lenient")))
        if luck < 0.2 and not parsed:
            run[item.key] = Outcome(False, None, rng.choice(("unparsed", "truncated")))
        elif luck > 0.9 and not complete:
            run[item.key] = Outcome(None, None, "error")
        elif luck > 0.85 and not complete:
            del run[item.key]
    return run


@SETTINGS
@given(kinds=st.lists(KINDS, min_size=1, max_size=30), seed=SEEDS)
def test_identity_of_the_adjusted_differences(kinds: list[int | str], seed: int) -> None:
    """All parsed, per stratum and summed: f - bt = C (a_pre - a_post) = F_max - BT_max unclipped, by both methods."""
    items, rng = random_items(kinds), random.Random(seed)
    before, after = (random_run(items, rng, parsed=True, complete=False) for _ in range(2))
    strata = counts(items, before, after)
    for k in (3, 4, 5):
        some = [item for item in items if item.k == k]
        guess, swap, adjusted = (
            latent(some, before, after),
            exch(some, before, after),
            paper({k: strata.get(k, Cells())}),
        )
        if guess is None or swap is None or adjusted is None:
            assert strata.get(k, Cells()).n == 0
            continue
        drop = factor(k) * -(raw(strata[k]).net or 0.0)
        assert guess.f_latent.value - guess.bt_latent.value == near(drop, abs=1e-12)
        assert swap.f_exch - swap.bt_exch == near(drop, abs=1e-12)
        assert adjusted.f_max_unclipped - adjusted.bt_max_unclipped == near(drop, abs=1e-12)
    whole, all_adjusted = known(items, before, after), paper(strata)
    if whole is not None and all_adjusted is not None:
        change = all_adjusted.f_max_unclipped - all_adjusted.bt_max_unclipped
        assert whole.f_known.value - whole.bt_known.value == near(change, abs=1e-12)
        assert whole.f_known_max.value - whole.bt_known_max.value == near(change, abs=1e-12)


@SETTINGS
@given(kinds=st.lists(KINDS, min_size=1, max_size=30), seed=SEEDS)
def test_item_scores_agree_with_cell_formulas(kinds: list[int | str], seed: int) -> None:
    """With unparsed answers and mixed k: mean of item scores = strata formulas weighted by items."""
    items, rng = random_items(kinds), random.Random(seed)
    before, after = (random_run(items, rng, parsed=False, complete=False) for _ in range(2))
    strata = counts(items, before, after)
    guess, swap = latent(items, before, after), exch(items, before, after)
    if guess is not None:
        assert (guess.f_latent.value, guess.bt_latent.value) == near(latent_formula(strata), abs=1e-12)
    if swap is not None:
        assert (swap.f_exch, swap.bt_exch) == near(exch_formula(strata), abs=1e-12)
    assert (guess is None, swap is None) == (latent_formula(strata) is None, exch_formula(strata) is None)


@SETTINGS
@given(kinds=st.lists(KINDS, min_size=1, max_size=30), seed=SEEDS)
def test_exchanging_the_runs_exchanges_f_and_bt(kinds: list[int | str], seed: int) -> None:
    """Every bt is the f of the pair read backwards, interval and se too."""
    items, rng = random_items(kinds), random.Random(seed)
    before, after = (random_run(items, rng, parsed=False, complete=False) for _ in range(2))
    there, back = exch(items, before, after), exch(items, after, before)
    if there is not None and back is not None:
        assert (there.bt_answer, there.bt_format, there.bt_exch) == near((back.f_answer, back.f_format, back.f_exch))
        assert (*there.bt_interval, there.bt_se) == near((*back.f_interval, back.f_se))
    one, two = paper(counts(items, before, after)), paper(counts(items, after, before))
    if one is not None and two is not None:
        assert (one.bt_true_unclipped, one.bt_max) == near((two.f_true_unclipped, two.f_max))


@SETTINGS
@given(kinds=st.lists(KINDS, min_size=1, max_size=30), seed=SEEDS)
def test_format_loss_adds_up(kinds: list[int | str], seed: int) -> None:
    """F = F_format + F_answer, BT alike."""
    items, rng = random_items(kinds), random.Random(seed)
    before, after = (random_run(items, rng, parsed=False, complete=False) for _ in range(2))
    cells = pool(counts(items, before, after).values())
    parts, whole = format_loss(cells), raw(cells)
    if cells.n:
        assert (parts.f_format or 0.0) + (parts.f_answer or 0.0) == near(whole.f)
        assert (parts.bt_format or 0.0) + (parts.bt_answer or 0.0) == near(whole.bt)
        assert whole.net == near((whole.a_post or 0.0) - (whole.a_pre or 0.0), abs=1e-12)


# ---- replicates ----------------------------------------------------------------------------------


def value(found: Estimate | None) -> float:
    """The value of an estimate that must exist."""
    assert found is not None
    return found.value


def test_self_comparison_by_hand() -> None:
    """One k = 4 item, before right, wrong 1, wrong 2; after right, wrong 1: every rate counted out."""
    items = [Item("a", "choice", 4)]
    found = self_comparison(items, replicate_runs(items, "R", "1", "2"), replicate_runs(items, "R", "1"))
    assert value(found.f_self_before) == near(1 * 2 / 6)
    assert value(found.f_self_after) == near(1 / 2)
    assert value(found.f_sym) == near(1 * 1 / 6 - (1 / 3 + 1 / 2) / 2)
    assert value(found.bt_sym) == near(2 * 1 / 6 - (1 / 3 + 1 / 2) / 2)
    assert value(found.v) == near(0 + 0 - 2 * 1 * 1 / 6)
    assert value(found.net) == near(1 / 2 - 1 / 3)
    own_before = 4 / 3 * (2 / 6 - 2 / 6 / 2)
    own_after = 4 / 3 * (1 / 2 - 0)
    assert value(found.f_exch_self_before) == near(own_before)
    assert value(found.f_exch_self_after) == near(own_after)
    between = 4 / 3 * (1 / 6 - 1 / 6 / 2)
    assert value(found.f_exch_x) == near(between - (own_before + own_after) / 2)
    assert value(found.bt_exch_x) == near(4 / 3 * (2 / 6 - 1 / 6 / 2) - (own_before + own_after) / 2)
    assert value(noise_floor(items, replicate_runs(items, "R", "1", "2"))) == near(1 / 3)
    assert value(exch_self(items, replicate_runs(items, "R", "1", "2"))) == near(own_before)


def test_self_comparison_with_unparsed_by_hand() -> None:
    """Before right, wrong 1, unparsed; after right, unparsed: format terms 1/(ml) and 1/(k - 1)."""
    items = [Item("a", "choice", 4)]
    found = self_comparison(items, replicate_runs(items, "R", "1", "u"), replicate_runs(items, "R", "u"))
    own_before = 4 / 3 * (1 / 6) + 1 / 6 - 1 / 6 / 3
    own_after = 1 / 2
    assert value(found.f_exch) == near(1 / 6 - 1 / 6 / 3)
    assert value(found.bt_exch) == near(4 / 3 * (1 / 6) + 1 / 6)
    assert value(found.f_exch_x) == near(1 / 6 - 1 / 6 / 3 - (own_before + own_after) / 2)


def test_variance_is_of_item_scores() -> None:
    """V scores 1 and 0 on two items: mean .5, variance .25 / 2."""
    items = [Item("a", "free"), Item("b", "free")]
    found = self_comparison(items, replicate_runs(items, "RR", "RR"), replicate_runs(items, "?R", "?R"))
    assert found.v == Estimate(0.5, 0.125, 2)
    assert found.f_exch_x is None


def test_one_replicate_compares_with_nothing() -> None:
    """Self comparison needs two of each; an item measured once drops out."""
    items, before, after = choice(4, "R1", "1R")
    assert self_comparison(items, [before], [after, after]).v is None
    assert noise_floor(items, [before]) is None
    gap = {items[0].key: before[items[0].key]}
    found = self_comparison(items, [before, gap], [after, after])
    assert found.v is not None
    assert found.v.n == 1


def test_self_comparison_needs_predictions() -> None:
    """A missing prediction matters only where another wrong answer is there to differ from."""
    items = [Item("a", "choice", 4)]
    right = replicate_runs(items, "R", "R")
    assert self_comparison(items, right, replicate_runs(items, "R", "?")).f_exch_x is not None
    lacking = replicate_runs(items, "1", "?")
    assert self_comparison(items, right, lacking).f_exch_x is None
    assert self_comparison(items, right, lacking).v is not None
    assert self_comparison_brute(items, right, lacking)["f_exch_x"] is None


@SETTINGS
@given(kinds=st.lists(KINDS, min_size=1, max_size=15), sizes=st.tuples(*[st.integers(2, 4)] * 2), seed=SEEDS)
def test_self_comparison_both_ways(kinds: list[int | str], sizes: tuple[int, int], seed: int) -> None:
    """Counts per item and every ordered pair of replicates agree, values and variances, gaps and unparsed included."""
    items, rng = random_items(kinds), random.Random(seed)
    before, after = ([random_run(items, rng, parsed=False, complete=False) for _ in range(size)] for size in sizes)
    quick = self_comparison(items, before, after)
    for name, slow in self_comparison_brute(items, before, after).items():
        fast = getattr(quick, name)
        assert (fast is None) == (slow is None)
        if fast is not None and slow is not None:
            assert (fast.value, fast.variance, fast.n) == near((slow.value, slow.variance, slow.n), abs=1e-12)


@SETTINGS
@given(k=st.lists(st.integers(3, 5), min_size=1, max_size=15), sizes=st.tuples(*[st.integers(2, 4)] * 2), seed=SEEDS)
def test_self_comparison_is_exch_over_replicate_pairs(k: list[int], sizes: tuple[int, int], seed: int) -> None:
    """With nothing missing: f_exch averaged over whole runs, between less half of both selves."""
    items, rng = random_items([*k]), random.Random(seed)
    before, after = ([random_run(items, rng, parsed=False, complete=True) for _ in range(size)] for size in sizes)

    def average(pairs: list[tuple[dict[str, Outcome], dict[str, Outcome]]], field: str) -> float:
        return statistics.fmean(getattr(exch(items, first, second), field) for first, second in pairs)

    between = list(product(before, after))
    own = [average(list(permutations(runs, 2)), "f_exch") for runs in (before, after)]
    found = self_comparison(items, before, after)
    assert value(found.f_exch_x) == near(average(between, "f_exch") - sum(own) / 2, abs=1e-12)
    assert value(found.bt_exch_x) == near(average(between, "bt_exch") - sum(own) / 2, abs=1e-12)
    assert value(exch_self(items, before)) == near(own[0], abs=1e-12)


@SETTINGS
@given(kinds=st.lists(KINDS, min_size=1, max_size=15), sizes=st.tuples(*[st.integers(2, 4)] * 2), seed=SEEDS)
def test_symmetric_identities(kinds: list[int | str], sizes: tuple[int, int], seed: int) -> None:
    """F_sym + BT_sym = V and BT_sym - F_sym = net."""
    items, rng = random_items(kinds), random.Random(seed)
    before, after = ([random_run(items, rng, parsed=False, complete=False) for _ in range(size)] for size in sizes)
    found = self_comparison(items, before, after)
    if found.v is not None:
        assert value(found.f_sym) + value(found.bt_sym) == near(value(found.v), abs=1e-12)
        assert value(found.bt_sym) - value(found.f_sym) == near(value(found.net), abs=1e-12)


def partly_known(items: list[Item], rng: random.Random, forgotten: float) -> dict[str, Outcome]:
    """Half the items known but for `forgotten` of all; on the rest one wrong option attracts and one is ruled out."""
    run = {}
    for i, item in enumerate(items):
        place = i / len(items)
        if place < 0.5 - forgotten:
            option = 0
        elif place < 0.5:
            option = rng.randrange(4)
        else:
            option = rng.choice((0, 1, 1, 2))
        run[item.key] = Outcome(option == 0, option)
    return run


def test_self_comparison_cancels_partial_knowledge() -> None:
    """f_exch alone is off where nothing changed; f_exch_x is 0 there and .1 where a tenth was forgotten."""
    items, rng = [Item(f"i{i}", "choice", 4) for i in range(6000)], random.Random(3)
    base, same, worse = ([partly_known(items, rng, lost) for _ in range(3)] for lost in (0.0, 0.0, 0.1))
    unchanged, changed = self_comparison(items, base, same), self_comparison(items, base, worse)
    assert abs(value(unchanged.f_exch)) > 0.015
    assert value(unchanged.f_exch_x) == near(0, abs=0.01)
    assert value(unchanged.v) == near(0, abs=0.01)
    assert value(changed.f_exch_x) == near(0.1, abs=0.012)
    assert value(changed.bt_exch_x) == near(0, abs=0.01)


def test_seed_consistent_by_hand() -> None:
    """Three replicates of four items; the second item flips in replicate 2, the fourth is missing in replicate 3."""
    items = [Item(key, "free") for key in "abcd"]
    before, after = replicate_runs(items, "RR?R", "RR?R", "RR?-"), replicate_runs(items, "?R?R", "??RR", "?R?R")
    pairs = seed_consistent(items, before, after, 2)
    assert pairs is not None
    assert pairs.n_sets == 3
    assert pairs.mean == {"11": near(2 / 3), "10": 1.0, "01": 0.0, "00": near(1 / 3)}
    assert pairs.variance == {"11": near(1 / 3), "10": 0.0, "01": 0.0, "00": near(1 / 3)}
    assert pairs.rate == near(3 / 6)
    triples = seed_consistent(items, before, after, 3)
    assert triples is not None
    assert (triples.n_sets, triples.mean) == (1, {"11": 0, "10": 1, "01": 0, "00": 0})
    assert triples.variance == dict.fromkeys(("11", "10", "01", "00"))
    assert triples.rate == 1.0
    assert seed_consistent(items, before[:2], after, 3) is None


# ---- above a task --------------------------------------------------------------------------------


def test_category_and_overall() -> None:
    """Mean over tasks per replicate, then mean and ddof-1 sd over replicates; a task of None is left out."""
    knowledge = category([{"a": 0.1, "b": 0.3, "c": None}, {"a": 0.3, "b": 0.5, "c": None}])
    assert (knowledge.per_replicate, knowledge.mean) == ([near(0.2), near(0.4)], near(0.3))
    assert knowledge.sd == near(math.sqrt(0.02))
    reasoning = category([{"d": 0.0}, {"d": 0.2}])
    both = overall({"knowledge": knowledge, "reasoning": reasoning})
    assert (both.per_replicate, both.mean) == ([near(0.1), near(0.3)], near(0.2))
    assert both.sd == near(math.sqrt(0.02))
    assert category([{"a": 0.1, "b": 0.3}]).sd is None
    assert category([{"a": None}]).mean is None


def test_se_above_a_task() -> None:
    """Variances .04 and .05 of two tasks: sqrt(.09) / 2."""
    assert se_of_mean([0.04, 0.05]) == near(0.15)
    assert se_of_mean([]) is None


def test_cluster_se() -> None:
    """20 clusters of two like scores: sqrt(20 * (2 * .5)^2) / 40; with 19 none."""
    scores = [float(i % 2) for i in range(20) for _ in range(2)]
    clusters = [f"c{i}" for i in range(20) for _ in range(2)]
    assert cluster_se(scores, clusters) == near(math.sqrt(20) / 40)
    assert cluster_se(scores[2:], clusters[2:]) is None


# ---- tests and intervals -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "exact", "midp", "interval"),
    [(ROW1, 0.070312, 0.039062, (-0.506920, -0.025559)), (ROW2, 0.020979, 0.016506, (-0.072790, -0.007291))],
)
def test_paired_vectors(cells: tuple[int, int, int, int], exact: float, midp: float, interval: tuple[float, float]) -> None:
    """The printed McNemar and Newcombe figures."""
    assert mcnemar_exact(cells[1], cells[2]) == near(exact, abs=1e-5)
    assert mcnemar_midp(cells[1], cells[2]) == near(midp, abs=1e-5)
    assert newcombe(*cells) == near(interval, abs=1e-5)


def test_wilson_row_2() -> None:
    """The printed intervals of F = 38/600 and BT = 62/600."""
    assert wilson(38, 600) == near((0.046487, 0.085735), abs=1e-5)
    assert wilson(62, 600) == near((0.081447, 0.130266), abs=1e-5)
    assert wilson(0, 0) is None


@pytest.mark.parametrize("test", [mcnemar_exact, mcnemar_midp])
def test_mcnemar_is_symmetric_and_one_without_flips(test: Callable[[int, int], float]) -> None:
    """m = 0 gives 1, and the order of the two counts does not matter."""
    assert test(0, 0) == 1.0
    assert all(test(a, b) == test(b, a) <= 1 for a in range(12) for b in range(12))


def test_mcnemar_equal_counts() -> None:
    """3 and 3: exact 1, mid-p 1 - C(6,3)/2^7."""
    assert (mcnemar_exact(3, 3), mcnemar_midp(3, 3)) == (1.0, 1 - 20 / 128)


def test_mcnemar_large_counts_do_not_overflow() -> None:
    """Counts of a big benchmark, where 2^-m underflows."""
    assert mcnemar_exact(600, 600) == 1.0
    assert 0 < mcnemar_midp(550, 650) < mcnemar_exact(550, 650) < 0.01


def test_newcombe_edges() -> None:
    """A zero margin leaves phi at 0, negative association is not corrected, exchanging the runs mirrors it."""
    assert newcombe(0, 0, 0, 0) is None
    l1, u1 = wilson(5, 5) or (0, 0)
    l2, u2 = wilson(3, 5) or (0, 0)
    assert newcombe(3, 2, 0, 0) == (
        near(0.4 - math.hypot(1 - l1, u2 - 0.6)),
        near(0.4 + math.hypot(u1 - 1, 0.6 - l2)),
    )
    there, back = newcombe(2, 9, 7, 2), newcombe(2, 7, 9, 2)
    assert there is not None and back is not None
    assert there == near((-back[1], -back[0]))
    low, high = (wilson(11, 20) or (0, 0))[0], (wilson(9, 20) or (0, 0))[1]
    phi = (2 * 2 - 9 * 7) / math.sqrt(11 * 9 * 9 * 11)
    first, second = 0.55 - low, high - 0.45
    assert there[0] == near(0.1 - math.sqrt(first**2 - 2 * phi * first * second + second**2))


def test_benjamini_hochberg_by_hand() -> None:
    """p .01 .04 .03 .005 of m = 4: .02 .04 .04 .02; a task without a test is no member of the family."""
    assert benjamini_hochberg([0.01, 0.04, None, 0.03, 0.005]) == [near(0.02), near(0.04), None, near(0.04), near(0.02)]
    assert benjamini_hochberg([0.9, 0.8]) == [near(0.9), near(0.9)]
    assert benjamini_hochberg([]) == []


def test_items_and_scenarios_are_checked() -> None:
    """A choice item without k, a free one with k and an unknown scenario are refused."""
    for kind, k in (("choice", None), ("choice", 1), ("free", 4)):
        with pytest.raises(ValueError, match="needs k >= 2"):
            Item("a", kind, k)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown scenario"):
        simulate("nothing", 1, 0)
