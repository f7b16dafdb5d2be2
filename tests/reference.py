"""Forgetting metrics in plain Python: slow, literal, and written without looking at the SQL.

The tests compare the SQL of the catalog with these functions. Definitions: docs/metrics.md; where a formula is a
paper's, the docstring names the paper. Rates are shares (0..1), never percent. A result that has no value (a zero
denominator, nothing measured, not identified) is None.
"""

import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import combinations, permutations, product, zip_longest
from typing import Literal

Z95 = statistics.NormalDist().inv_cdf(0.975)  # score intervals (Wilson, Newcombe)
Z_WALD = 1.96  # as printed in the definition of the Wald-type intervals

Kind = Literal["choice", "free", "multi"]
Status = Literal["ok", "lenient", "unparsed", "truncated", "error"]
Stratum = int | Literal["free", "multi"]
Interval = tuple[float, float]
Method = Literal["exchangeable", "latent", "free-form", "mixed"]
Pattern = Literal["11", "10", "01", "00"]
PATTERNS: tuple[Pattern, ...] = ("11", "10", "01", "00")


# ---- what is measured ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Item:
    """One question; k options when it is multiple-choice, else k is None."""

    key: str
    kind: Kind
    k: int | None = None

    def __post_init__(self) -> None:
        """Refuse an item whose k does not fit its kind."""
        if (self.kind == "choice") != (self.k is not None) or (self.k is not None and self.k < 2):
            raise ValueError(f"{self.key}: a choice item needs k >= 2 and no other kind has a k; got {self.k}")

    @property
    def stratum(self) -> Stratum:
        """The group within which the adjusted formulas hold: k, or the kind."""
        if self.kind == "choice":
            return self.options
        return self.kind

    @property
    def options(self) -> int:
        """k of a multiple-choice item."""
        if self.k is None:
            raise ValueError(f"{self.key} has no options")
        return self.k


@dataclass(frozen=True, slots=True)
class Outcome:
    """One answer. `predicted` is the option chosen, as content (not as the letter shown)."""

    correct: bool | None
    predicted: int | None = None
    status: Status = "ok"

    @property
    def measured(self) -> bool:
        """False for an error or correct = None: such an answer is left out, not counted wrong."""
        return self.correct is not None and self.status != "error"

    @property
    def parsed(self) -> bool:
        """Whether an answer could be read; an unparsed or truncated one is wrong and flagged."""
        return self.status not in ("unparsed", "truncated")

    @property
    def state(self) -> str:
        """R right, W wrong and parsed, U not parsed (wrong)."""
        if not self.parsed:
            return "U"
        return "R" if self.correct else "W"


Run = Mapping[str, Outcome]
Pair = tuple[Item, Outcome, Outcome]


def measured(run: Run, item: Item) -> Outcome | None:
    """The item's answer in a run, or None when it is missing or was not measured."""
    outcome = run.get(item.key)
    return outcome if outcome is not None and outcome.measured else None


def paired(items: Iterable[Item], before: Run, after: Run) -> Iterator[Pair]:
    """The items both runs measured."""
    for item in items:
        b, a = measured(before, item), measured(after, item)
        if b is not None and a is not None:
            yield item, b, a


# ---- cells ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cells:
    """Paired counts of one stratum; first word the answer before, second the answer after, wrong = wrong but parsed."""

    right_right: int = 0
    right_wrong: int = 0
    right_unparsed: int = 0
    wrong_right: int = 0
    wrong_wrong: int = 0
    wrong_unparsed: int = 0
    unparsed_right: int = 0
    unparsed_wrong: int = 0
    unparsed_unparsed: int = 0
    d: int = 0
    d_unknown: int = 0
    n_unpaired_before: int = 0
    n_unpaired_after: int = 0

    @property
    def n11(self) -> int:
        """Right before and after."""
        return self.right_right

    @property
    def n10(self) -> int:
        """Right before, wrong after, read or not: forgotten."""
        return self.right_wrong + self.right_unparsed

    @property
    def n01(self) -> int:
        """Wrong before, read or not, right after: gained."""
        return self.wrong_right + self.unparsed_right

    @property
    def n00(self) -> int:
        """Wrong both times, read or not."""
        return self.wrong_wrong + self.wrong_unparsed + self.unparsed_wrong + self.unparsed_unparsed

    @property
    def n(self) -> int:
        """Items both runs measured."""
        return self.n11 + self.n10 + self.n01 + self.n00


NAMES = {"R": "right", "W": "wrong", "U": "unparsed"}


def cells_of(n11: int, n10: int, n01: int, n00: int, d: int = 0) -> Cells:
    """Cells of a printed table in which every answer was parsed."""
    return Cells(right_right=n11, right_wrong=n10, wrong_right=n01, wrong_wrong=n00, d=d)


def disagree(before: Outcome, after: Outcome) -> bool | None:
    """Both wrong, both parsed, predictions differ (the d items); None when a prediction is missing."""
    if (before.state, after.state) != ("W", "W"):
        return False
    if before.predicted is None or after.predicted is None:
        return None
    return before.predicted != after.predicted


def tally(items: Iterable[Item], before: Run, after: Run) -> Cells:
    """Cells over the items given, whatever their k."""
    found: Counter[str] = Counter()
    for item in items:
        b, a = measured(before, item), measured(after, item)
        if b is None or a is None:
            found["n_unpaired_before"] += b is not None
            found["n_unpaired_after"] += a is not None
            continue
        found[f"{NAMES[b.state]}_{NAMES[a.state]}"] += 1
        differ = disagree(b, a)
        found["d"] += differ is True
        found["d_unknown"] += differ is None
    return Cells(**found)


def counts(items: Sequence[Item], before: Run, after: Run) -> dict[Stratum, Cells]:
    """Cells per stratum (k, 'free' or 'multi'); a stratum nobody measured has zeros."""
    strata: dict[Stratum, list[Item]] = {}
    for item in items:
        strata.setdefault(item.stratum, []).append(item)
    return {stratum: tally(members, before, after) for stratum, members in strata.items()}


def pool(strata: Iterable[Cells]) -> Cells:
    """The sum of several cells: a task with items of mixed k."""
    listed = list(strata)
    return Cells(**{field.name: sum(getattr(cells, field.name) for cells in listed) for field in fields(Cells)})


# ---- raw metrics ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Raw:
    """Metrics without any model of guessing; None where the denominator is zero."""

    n: int
    a_pre: float | None
    a_post: float | None
    f: float | None
    bt: float | None
    f_cond: float | None
    btc: float | None
    bec: float | None
    relative_nfr: float | None
    flips: float | None
    all_flips: float | None
    net: float | None
    conventional_forgetting: float | None


@dataclass(frozen=True, slots=True)
class FormatLoss:
    """F and BT split by whether the wrong answer could be read; None when n = 0."""

    f_format: float | None
    f_answer: float | None
    bt_format: float | None
    bt_answer: float | None


def ratio(numerator: float, denominator: float) -> float | None:
    """A quotient, or None over zero."""
    return numerator / denominator if denominator else None


def raw(cells: Cells) -> Raw:
    """F = n10/n, BT = n01/n and what else the four cells and d give.

    F_cond is F among the items right before and BTC its complement; BEC is the share of the items wrong after that
    were wrong before; relative NFR divides F by a_pre times the after error rate; all flips add the d items; net is
    BT - F; conventional forgetting is the accuracy drop, floored at 0.
    """
    n, n10, n01 = cells.n, cells.n10, cells.n01
    right_before, right_after = cells.n11 + n10, cells.n11 + n01
    f_cond = ratio(n10, right_before)
    return Raw(
        n=n,
        a_pre=ratio(right_before, n),
        a_post=ratio(right_after, n),
        f=ratio(n10, n),
        bt=ratio(n01, n),
        f_cond=f_cond,
        btc=None if f_cond is None else 1 - f_cond,
        bec=ratio(cells.n00, cells.n00 + n10),
        relative_nfr=ratio(n10 * n, right_before * (n - right_after)),
        flips=ratio(n10 + n01, n),
        all_flips=ratio(n10 + n01 + cells.d, n),
        net=ratio(n01 - n10, n),
        conventional_forgetting=ratio(max(n10 - n01, 0), n),
    )


def format_loss(cells: Cells) -> FormatLoss:
    """F = F_format (the after answer unparsed or truncated) + F_answer; BT by the before answer."""
    return FormatLoss(
        f_format=ratio(cells.right_unparsed, cells.n),
        f_answer=ratio(cells.right_wrong, cells.n),
        bt_format=ratio(cells.unparsed_right, cells.n),
        bt_answer=ratio(cells.wrong_right, cells.n),
    )


# ---- the paper's chance-adjusted metrics (arXiv 2510.17776, section 2) ---------------------------


@dataclass(frozen=True, slots=True)
class Paper:
    """One task; `_unclipped` before the maximum with 0, which is taken once, at the task."""

    n: int
    lucky: float
    f_true: float
    f_true_unclipped: float
    bt_true: float
    bt_true_unclipped: float
    f_max: float
    f_max_unclipped: float
    bt_max: float
    bt_max_unclipped: float


def lucky_paper(stratum: Stratum, cells: Cells) -> float:
    """The two error rates multiplied, over k - 1; nothing is lucky in free-form."""
    if not isinstance(stratum, int):
        return 0.0
    wrong_before, wrong_after = cells.n01 + cells.n00, cells.n10 + cells.n00
    return wrong_before * wrong_after / cells.n**2 / (stratum - 1)


def true_accuracy(stratum: Stratum, right: int, n: int) -> float:
    """Accuracy less what guessing gives, (k a - 1)/(k - 1), which is a - (1 - a)/(k - 1); free-form as it is."""
    accuracy = right / n
    return (stratum * accuracy - 1) / (stratum - 1) if isinstance(stratum, int) else accuracy


def paper(strata: Mapping[Stratum, Cells]) -> Paper | None:
    """Chance-adjusted metrics of a task: strata weighted by their share of the items, clipped once.

    None without paired items, and None as soon as one paired item has several gold answers.
    """
    filled = {stratum: cells for stratum, cells in strata.items() if cells.n}
    n = sum(cells.n for cells in filled.values())
    if n == 0 or "multi" in filled:
        return None

    def weighted(value: Callable[[Stratum, Cells], float]) -> float:
        return sum(cells.n / n * value(stratum, cells) for stratum, cells in filled.items())

    lucky = weighted(lucky_paper)
    f, bt = weighted(lambda _, c: c.n10 / c.n) - lucky, weighted(lambda _, c: c.n01 / c.n) - lucky
    f_max = weighted(lambda stratum, c: true_accuracy(stratum, c.n11 + c.n10, c.n))
    bt_max = weighted(lambda stratum, c: true_accuracy(stratum, c.n11 + c.n01, c.n))
    return Paper(n, lucky, max(f, 0.0), f, max(bt, 0.0), bt, max(f_max, 0.0), f_max, max(bt_max, 0.0), bt_max)


# ---- estimates from item scores ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean of item scores; variance = var of the scores (divided by n, not n - 1) / n."""

    value: float
    variance: float
    n: int

    @property
    def se(self) -> float:
        """Sampling error of items."""
        return math.sqrt(self.variance)


def variance_of(scores: Sequence[float]) -> float:
    """Mean squared deviation from the mean (divided by n)."""
    mean = math.fsum(scores) / len(scores)
    return math.fsum((s - mean) ** 2 for s in scores) / len(scores)


def estimate(scores: Sequence[float]) -> Estimate | None:
    """Mean of item scores with its plain Wald variance, None of no score."""
    if not scores:
        return None
    n = len(scores)
    return Estimate(math.fsum(scores) / n, variance_of(scores) / n, n)


def factor(k: int) -> float:
    """C = k/(k - 1): one over the chance that a guess is wrong."""
    return k / (k - 1)


def latent_score(k: int, before: Outcome, after: Outcome) -> float:
    """C if forgotten, -C/(k - 1) if wrong both times: the mean is C (p10 - p00/(k - 1))."""
    right_before, right_after = before.state == "R", after.state == "R"
    if right_before:
        return 0.0 if right_after else factor(k)
    return 0.0 if right_after else -factor(k) / (k - 1)


def sticky_score(k: int, before: Outcome, after: Outcome) -> float:
    """C if forgotten: the mean is C p10."""
    return factor(k) if before.state == "R" and after.state != "R" else 0.0


@dataclass(frozen=True, slots=True)
class Latent:
    """Know-or-guess with uniform guesses: independent over time (latent), always repeated or worse (sticky)."""

    f_latent: Estimate
    bt_latent: Estimate
    f_sticky: Estimate
    bt_sticky: Estimate


def latent(items: Sequence[Item], before: Run, after: Run) -> Latent | None:
    """Latent and sticky estimates over the paired multiple-choice items, any mix of k; se is plain Wald.

    f_latent = C (p10 - p00/(k - 1)), f_sticky = C p10; bt by exchanging before and after.
    """
    pairs = [(item.options, b, a) for item, b, a in paired(items, before, after) if item.kind == "choice"]
    found = [
        estimate([latent_score(k, b, a) for k, b, a in pairs]),
        estimate([latent_score(k, a, b) for k, b, a in pairs]),
        estimate([sticky_score(k, b, a) for k, b, a in pairs]),
        estimate([sticky_score(k, a, b) for k, b, a in pairs]),
    ]
    known_ones = [one for one in found if one is not None]
    return Latent(*known_ones) if known_ones else None


def latent_formula(strata: Mapping[Stratum, Cells]) -> tuple[float, float] | None:
    """(f_latent, bt_latent) from cells, strata weighted by items: a second way to the same figures."""
    choice = [(k, cells) for k, cells in strata.items() if isinstance(k, int) and cells.n]
    n = sum(cells.n for _, cells in choice)
    if n == 0:
        return None
    f = sum(factor(k) * (c.n10 - c.n00 / (k - 1)) for k, c in choice) / n
    bt = sum(factor(k) * (c.n01 - c.n00 / (k - 1)) for k, c in choice) / n
    return f, bt


@dataclass(frozen=True, slots=True)
class Bracket:
    """Two bounds and the interval that covers both: lower - 1.96 se(lower) to upper + 1.96 se(upper)."""

    lower: float
    upper: float
    interval: Interval
    n: int


def bracket(items: Sequence[Item], before: Run, after: Run) -> tuple[Bracket, Bracket] | None:
    """(f, bt) between latent and sticky over the paired k = 2 items, where exchangeability is not identified."""
    both = latent([item for item in items if item.k == 2], before, after)
    if both is None:
        return None

    def between(low: Estimate, high: Estimate) -> Bracket:
        return Bracket(low.value, high.value, (low.value - Z_WALD * low.se, high.value + Z_WALD * high.se), low.n)

    return between(both.f_latent, both.f_sticky), between(both.bt_latent, both.bt_sticky)


# ---- exchangeable options ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exch:
    """Flips that exchangeable guessing does not explain, over the paired items with k >= 3."""

    n: int
    f_answer: float
    f_format: float
    f_exch: float
    bt_answer: float
    bt_format: float
    bt_exch: float
    f_se: float
    bt_se: float
    f_interval: Interval
    bt_interval: Interval
    reliable: bool


def exch_score(k: int, before: Outcome, after: Outcome) -> tuple[float, float] | None:
    """(answer, format) score of an item; the bt score is this with before and after exchanged.

    Answer: C if right, then parsed wrong; -C/(k - 2) if both parsed, wrong and different. Format: 1 if right, then
    unparsed; -1/(k - 1) if parsed wrong, then unparsed. None when both are wrong and a prediction is missing.
    """
    match (before.state, after.state):
        case ("R", "W"):
            return factor(k), 0.0
        case ("R", "U"):
            return 0.0, 1.0
        case ("W", "U"):
            return 0.0, -1 / (k - 1)
        case ("W", "W"):
            differ = disagree(before, after)
            if differ is None:
                return None
            return (-factor(k) / (k - 2) if differ else 0.0), 0.0
        case _:
            return 0.0, 0.0


def exch_interval(scores: Sequence[float], options: Sequence[int]) -> Interval:
    """Wald interval after adding two pseudo-items, one that scores +mean(C), one -mean(C/(k - 2)); N = n + 2."""
    plus = statistics.fmean(factor(k) for k in options)
    minus = statistics.fmean(factor(k) / (k - 2) for k in options)
    padded = [*scores, plus, -minus]
    mean = math.fsum(padded) / len(padded)
    half = Z_WALD * math.sqrt(variance_of(padded) / len(padded))
    return mean - half, mean + half


def exch_items(items: Iterable[Item]) -> list[Item]:
    """The items on which exchangeability identifies anything: multiple choice, k >= 3."""
    return [item for item in items if item.k is not None and item.k >= 3]


def exch(items: Sequence[Item], before: Run, after: Run) -> Exch | None:
    """f_exch = f_answer + f_format and its mirror, as means of item scores over any mix of k >= 3.

    f_answer = C (p[right, then parsed wrong] - p_d/(k - 2)); f_format = p[right, then unparsed]
    - p[parsed wrong, then unparsed]/(k - 1). None without such items, or when a prediction it needs is missing.
    `reliable` is False when n < 30 or n10 + n01 + d < 5: show, do not rank or test.
    """
    pairs = list(paired(exch_items(items), before, after))
    options = [item.options for item, _, _ in pairs]
    f = [exch_score(item.options, b, a) for item, b, a in pairs]
    bt = [exch_score(item.options, a, b) for item, b, a in pairs]
    f_scores, bt_scores = [s for s in f if s is not None], [s for s in bt if s is not None]
    if not pairs or len(f_scores) < len(pairs):
        return None
    n = len(pairs)
    f_sums, bt_sums = [sum(s) for s in f_scores], [sum(s) for s in bt_scores]
    moved = sum((b.state == "R") != (a.state == "R") or disagree(b, a) is True for _, b, a in pairs)
    return Exch(
        n=n,
        f_answer=math.fsum(s[0] for s in f_scores) / n,
        f_format=math.fsum(s[1] for s in f_scores) / n,
        f_exch=math.fsum(f_sums) / n,
        bt_answer=math.fsum(s[0] for s in bt_scores) / n,
        bt_format=math.fsum(s[1] for s in bt_scores) / n,
        bt_exch=math.fsum(bt_sums) / n,
        f_se=math.sqrt(variance_of(f_sums) / n),
        bt_se=math.sqrt(variance_of(bt_sums) / n),
        f_interval=exch_interval(f_sums, options),
        bt_interval=exch_interval(bt_sums, options),
        reliable=n >= 30 and moved >= 5,
    )


def exch_formula(strata: Mapping[Stratum, Cells]) -> tuple[float, float] | None:
    """(f_exch, bt_exch) from cells, strata weighted by items: a second way to the same figures."""
    choice = [(k, cells) for k, cells in strata.items() if isinstance(k, int) and k >= 3 and cells.n]
    n = sum(cells.n for _, cells in choice)
    if n == 0 or any(cells.d_unknown for _, cells in choice):
        return None
    f = bt = 0.0
    for k, c in choice:
        lucky = c.d / (k - 2)
        f += factor(k) * (c.right_wrong - lucky) + c.right_unparsed - c.wrong_unparsed / (k - 1)
        bt += factor(k) * (c.wrong_right - lucky) + c.unparsed_right - c.unparsed_wrong / (k - 1)
    return f / n, bt / n


# ---- the headline where there are no replicates --------------------------------------------------


@dataclass(frozen=True, slots=True)
class Known:
    """One task or mix; `_max` takes sticky instead of latent where k = 2. Never clipped."""

    method: Method
    n: int
    f_known: Estimate
    f_known_max: Estimate
    bt_known: Estimate
    bt_known_max: Estimate


def known_score(item: Item, before: Outcome, after: Outcome, *, upper: bool) -> float | None:
    """k >= 3 by exchangeability, k = 2 by latent (upper: sticky), free-form by whether it was forgotten."""
    if item.kind == "free":
        return float(before.state == "R" and after.state != "R")
    if item.options == 2:
        return (sticky_score if upper else latent_score)(2, before, after)
    score = exch_score(item.options, before, after)
    return None if score is None else sum(score)


def known_method(items: Iterable[Item]) -> Method:
    """The one method that serves all items, else mixed."""
    methods: set[Method] = set()
    for item in items:
        methods.add("free-form" if item.kind == "free" else "latent" if item.k == 2 else "exchangeable")
    return methods.pop() if len(methods) == 1 else "mixed"


def known(items: Sequence[Item], before: Run, after: Run) -> Known | None:
    """f_known and its mirror over a task or a mix, weighted by items.

    None without paired items, with a paired multi-gold item, or when a prediction it needs is missing.
    """
    pairs = list(paired(items, before, after))
    if any(item.kind == "multi" for item, _, _ in pairs):
        return None
    mirror = [(item, a, b) for item, b, a in pairs]
    found: list[Estimate] = []
    for side, upper in product((pairs, mirror), (False, True)):
        scores = [known_score(item, b, a, upper=upper) for item, b, a in side]
        one = estimate([s for s in scores if s is not None])
        if one is None or one.n < len(pairs):
            return None
        found.append(one)
    return Known(known_method(item for item, _, _ in pairs), len(pairs), *found)


# ---- against oneself: replicates -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tally:
    """One item over the replicates of one model: m measured, `right`, `unparsed`, and parsed wrong per option."""

    m: int
    right: int
    unparsed: int
    wrong: Counter[int | None]

    @property
    def parsed_wrong(self) -> int:
        """Replicates whose answer was read and wrong."""
        return self.wrong.total()


def tally_replicates(item: Item, replicates: Sequence[Run]) -> Tally:
    """Counts of one item over those replicates that measured it."""
    found = [outcome for run in replicates if (outcome := measured(run, item)) is not None]
    states = Counter(outcome.state for outcome in found)
    wrong = Counter(outcome.predicted for outcome in found if outcome.state == "W")
    return Tally(len(found), states["R"], states["U"], wrong)


def between_score(k: int, b: Tally, a: Tally) -> float:
    """Mean exchangeable item score over the m l pairs (before, after).

    C (x W_y - (W_x W_y - sum_w x_w y_w)/(k - 2)) + x u_y - W_x u_y/(k - 1), all over m l.
    """
    d = b.parsed_wrong * a.parsed_wrong - sum(n * a.wrong[option] for option, n in b.wrong.items())
    answer = factor(k) * (b.right * a.parsed_wrong - d / (k - 2))
    return (answer + b.right * a.unparsed - b.parsed_wrong * a.unparsed / (k - 1)) / (b.m * a.m)


def self_score(k: int, t: Tally) -> float:
    """Mean exchangeable item score over the m (m - 1) ordered pairs of distinct replicates of one model.

    As between two models, with d = W (W - 1) - sum_w x_w (x_w - 1).
    """
    d = t.parsed_wrong * (t.parsed_wrong - 1) - sum(n * (n - 1) for n in t.wrong.values())
    answer = factor(k) * (t.right * t.parsed_wrong - d / (k - 2))
    return (answer + t.right * t.unparsed - t.parsed_wrong * t.unparsed / (k - 1)) / (t.m * (t.m - 1))


def identified(b: Tally, a: Tally) -> bool:
    """False when a pair of parsed wrong answers lacks a prediction, so that d is unknown."""
    return not (b.wrong[None] + a.wrong[None] and b.parsed_wrong + a.parsed_wrong >= 2)


def self_f(t: Tally) -> float:
    """F of a model against itself on one item, x (m - x)/(m (m - 1)); BT is the same."""
    return t.right * (t.m - t.right) / (t.m * (t.m - 1))


def v_score(b: Tally, a: Tally) -> float:
    """x(x - 1)/(m(m - 1)) + y(y - 1)/(l(l - 1)) - 2xy/(ml): unbiased for (p - q)^2 of the item."""
    x, m, y, l_ = b.right, b.m, a.right, a.m
    return x * (x - 1) / (m * (m - 1)) + y * (y - 1) / (l_ * (l_ - 1)) - 2 * x * y / (m * l_)


@dataclass(frozen=True, slots=True)
class SelfComparison:
    """Estimates over the items that each model measured in at least two replicates; exch ones over k >= 3 of them."""

    f_self_before: Estimate | None
    f_self_after: Estimate | None
    f_sym: Estimate | None
    bt_sym: Estimate | None
    v: Estimate | None
    net: Estimate | None
    f_exch_self_before: Estimate | None
    f_exch_self_after: Estimate | None
    f_exch: Estimate | None
    bt_exch: Estimate | None
    f_exch_x: Estimate | None
    bt_exch_x: Estimate | None


Tallied = tuple[Item, Tally, Tally]


def replicated(items: Iterable[Item], before_reps: Sequence[Run], after_reps: Sequence[Run]) -> list[Tallied]:
    """The items each model measured at least twice, with their counts."""
    found = [(item, tally_replicates(item, before_reps), tally_replicates(item, after_reps)) for item in items]
    return [(item, b, a) for item, b, a in found if b.m >= 2 and a.m >= 2]


def self_comparison(items: Sequence[Item], before_reps: Sequence[Run], after_reps: Sequence[Run]) -> SelfComparison:
    """Forgetting beyond what each model shows against itself, from counts per item.

    f_exch_x = f_exch(before, after) - half of f_exch_self(before) + f_exch_self(after); F_sym and BT_sym likewise
    from F; V = F_sym + BT_sym. Every estimate is a mean of item scores, each averaged over the item's replicates
    first, so that its variance is var(item scores)/n.
    """
    rows = replicated(items, before_reps, after_reps)
    many = [(item.options, b, a) for item, b, a in rows if item.k is not None and item.k >= 3]
    if not all(identified(b, a) for _, b, a in many):
        many = []

    def over_all(score: Callable[[Tally, Tally], float]) -> Estimate | None:
        return estimate([score(b, a) for _, b, a in rows])

    def over_many(score: Callable[[int, Tally, Tally], float]) -> Estimate | None:
        return estimate([score(k, b, a) for k, b, a in many])

    def half_self(b: Tally, a: Tally) -> float:
        return (self_f(b) + self_f(a)) / 2

    def half_exch(k: int, b: Tally, a: Tally) -> float:
        return (self_score(k, b) + self_score(k, a)) / 2

    return SelfComparison(
        f_self_before=over_all(lambda b, _: self_f(b)),
        f_self_after=over_all(lambda _, a: self_f(a)),
        f_sym=over_all(lambda b, a: b.right * (a.m - a.right) / (b.m * a.m) - half_self(b, a)),
        bt_sym=over_all(lambda b, a: (b.m - b.right) * a.right / (b.m * a.m) - half_self(b, a)),
        v=over_all(v_score),
        net=over_all(lambda b, a: a.right / a.m - b.right / b.m),
        f_exch_self_before=over_many(lambda k, b, _: self_score(k, b)),
        f_exch_self_after=over_many(lambda k, _, a: self_score(k, a)),
        f_exch=over_many(between_score),
        bt_exch=over_many(lambda k, b, a: between_score(k, a, b)),
        f_exch_x=over_many(lambda k, b, a: between_score(k, b, a) - half_exch(k, b, a)),
        bt_exch_x=over_many(lambda k, b, a: between_score(k, a, b) - half_exch(k, b, a)),
    )


def noise_floor(items: Sequence[Item], replicates: Sequence[Run]) -> Estimate | None:
    """F_self (= BT_self) of one model, over the items it measured in at least two replicates."""
    found = [tally_replicates(item, replicates) for item in items]
    return estimate([self_f(t) for t in found if t.m >= 2])


def exch_self(items: Sequence[Item], replicates: Sequence[Run]) -> Estimate | None:
    """f_exch of one model against itself, over the k >= 3 items it measured in at least two replicates."""
    found = [(item.options, tally_replicates(item, replicates)) for item in exch_items(items)]
    twice = [(k, t) for k, t in found if t.m >= 2]
    if any(t.wrong[None] and t.parsed_wrong >= 2 for _, t in twice):
        return None
    return estimate([self_score(k, t) for k, t in twice])


# ---- the same by brute force, over ordered pairs of replicates -----------------------------------

PairScore = Callable[[Item, Outcome, Outcome], float | None]


def right_then_wrong(_: Item, before: Outcome, after: Outcome) -> float:
    """1 if forgotten."""
    return float(before.state == "R" and after.state != "R")


def exch_total(item: Item, before: Outcome, after: Outcome) -> float | None:
    """Answer and format score together."""
    score = exch_score(item.options, before, after)
    return None if score is None else sum(score)


def mean_of_pairs(item: Item, pairs: Iterable[tuple[Outcome, Outcome]], score: PairScore) -> float:
    """Mean score over pairs of answers; NaN when one is not identified."""
    found = [score(item, first, second) for first, second in pairs]
    return math.nan if None in found else math.fsum(s for s in found if s is not None) / len(found)


def less_self(item: Item, first: list[Outcome], second: list[Outcome], score: PairScore) -> float:
    """The score between two models less the mean of both scores against themselves."""
    own = [mean_of_pairs(item, permutations(outcomes, 2), score) for outcomes in (first, second)]
    return mean_of_pairs(item, product(first, second), score) - sum(own) / 2


def self_comparison_brute(items: Sequence[Item], before_reps: Sequence[Run], after_reps: Sequence[Run]) -> dict[str, Estimate | None]:
    """f_sym, bt_sym, v, f_exch_x and bt_exch_x from every ordered pair of replicates, without count formulas."""
    scores: dict[str, list[float]] = {name: [] for name in ("f_sym", "bt_sym", "v", "f_exch_x", "bt_exch_x")}
    for item in items:
        b = [outcome for run in before_reps if (outcome := measured(run, item)) is not None]
        a = [outcome for run in after_reps if (outcome := measured(run, item)) is not None]
        if len(b) < 2 or len(a) < 2:
            continue
        f, bt = less_self(item, b, a, right_then_wrong), less_self(item, a, b, right_then_wrong)
        for name, score in (("f_sym", f), ("bt_sym", bt), ("v", f + bt)):
            scores[name].append(score)
        if item.k is not None and item.k >= 3:
            scores["f_exch_x"].append(less_self(item, b, a, exch_total))
            scores["bt_exch_x"].append(less_self(item, a, b, exch_total))
    return {name: None if any(map(math.isnan, found)) else estimate(found) for name, found in scores.items()}


# ---- seed-consistent transitions -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SeedConsistent:
    """Counts of items with one transition in all m replicates: mean and sample variance over the sets of m."""

    n_sets: int
    mean: dict[Pattern, float]
    variance: dict[Pattern, float | None]
    rate: float | None


def consistent_counts(items: Sequence[Item], pairs: Sequence[tuple[Run, Run]]) -> Counter[Pattern]:
    """Items per transition, over the items whose transition is the same in every pair of runs."""
    found: Counter[Pattern] = Counter()
    for item in items:
        seen: set[Pattern | None] = set()
        for before, after in pairs:
            b, a = measured(before, item), measured(after, item)
            seen.add(None if b is None or a is None else PATTERNS[2 * (b.state != "R") + (a.state != "R")])
        first = seen.pop()
        if not seen and first is not None:
            found[first] += 1
    return found


def seed_consistent(items: Sequence[Item], before_reps: Sequence[Run], after_reps: Sequence[Run], m: int) -> SeedConsistent | None:
    """Counts over every set of m replicates, replicate r before going with replicate r after.

    rate = consistent n10/consistent n, both summed over the sets. It conditions on determinism: no estimate of F.
    """
    sets = list(combinations(list(zip(before_reps, after_reps, strict=False)), m))
    if not sets:
        return None
    found = [consistent_counts(items, pairs) for pairs in sets]
    total = sum(one.total() for one in found)
    return SeedConsistent(
        n_sets=len(sets),
        mean={p: statistics.fmean(one[p] for one in found) for p in PATTERNS},
        variance={p: statistics.variance([one[p] for one in found]) if len(sets) > 1 else None for p in PATTERNS},
        rate=ratio(sum(one["10"] for one in found), total),
    )


# ---- above a task --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spread:
    """Values per replicate, their mean, and sd_seed: their sample sd (ddof 1), None of fewer than two."""

    per_replicate: list[float | None]
    mean: float | None
    sd: float | None


def mean_known(values: Iterable[float | None]) -> float | None:
    """Unweighted mean of what has a value."""
    found = [value for value in values if value is not None]
    return math.fsum(found) / len(found) if found else None


def spread(per_replicate: Sequence[float | None]) -> Spread:
    """Mean and sample sd over replicates."""
    found = [value for value in per_replicate if value is not None]
    sd = statistics.stdev(found) if len(found) > 1 else None
    return Spread(list(per_replicate), mean_known(found), sd)


def category(task_values_per_replicate: Sequence[Mapping[str, float | None]]) -> Spread:
    """Unweighted mean over tasks in each replicate; a task without a value is left out."""
    return spread([mean_known(tasks.values()) for tasks in task_values_per_replicate])


def overall(categories: Mapping[str, Spread]) -> Spread:
    """Unweighted mean over categories in each replicate, then mean and sd over replicates."""
    return spread([mean_known(row) for row in zip_longest(*(one.per_replicate for one in categories.values()))])


def se_of_mean(variances: Sequence[float]) -> float | None:
    """Sampling error of an unweighted mean of T independent estimates: the root of sum(var)/T^2."""
    return math.sqrt(math.fsum(variances)) / len(variances) if variances else None


def cluster_se(scores: Sequence[float], clusters: Sequence[str]) -> float | None:
    """Sampling error of a mean of item scores when items come in clusters; None below 20 clusters.

    The root of the sum over clusters of (summed deviations from the mean)^2, over n.
    """
    mean = statistics.fmean(scores) if scores else 0.0
    sums: dict[str, float] = {}
    for score, cluster in zip(scores, clusters, strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + score - mean
    return math.sqrt(math.fsum(s * s for s in sums.values())) / len(scores) if len(sums) >= 20 else None


# ---- tests and intervals for paired outcomes -----------------------------------------------------


def wilson(x: int, n: int) -> Interval | None:
    """Wilson's 95% score interval of x/n."""
    if n == 0:
        return None
    p, z2 = x / n, Z95**2
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return centre - half, centre + half


def binomial(x: int, m: int) -> Fraction:
    """Chance of exactly x in m fair coin tosses."""
    return Fraction(math.comb(m, x), 2**m)


def mcnemar_exact(n10: int, n01: int) -> float:
    """min(1, 2 BinCDF(min(n10, n01); m, 1/2)) with m = n10 + n01; 1 when m = 0. Tests net change only."""
    m = n10 + n01
    tail = Fraction(sum(math.comb(m, x) for x in range(min(n10, n01) + 1)), 2**m)
    return float(min(Fraction(1), 2 * tail))


def mcnemar_midp(n10: int, n01: int) -> float:
    """The exact p less Bin(n10; m, 1/2); where n10 = n01, 1 less half of it; 1 when m = 0."""
    m = n10 + n01
    if m == 0:
        return 1.0
    at = binomial(n10, m)
    if n10 == n01:
        return float(1 - at / 2)
    tail = Fraction(sum(math.comb(m, x) for x in range(min(n10, n01) + 1)), 2**m)
    return float(2 * tail - at)


def phi_corrected(n11: int, n10: int, n01: int, n00: int) -> float:
    """Newcombe's correlation of the paired answers: n11 n00 - n10 n01, less n/2 down to 0 if positive."""
    n = n11 + n10 + n01 + n00
    margins = (n11 + n10) * (n01 + n00) * (n11 + n01) * (n10 + n00)
    if margins == 0:
        return 0.0
    cross = float(n11 * n00 - n10 * n01)
    if cross > 0:
        cross = max(cross - n / 2, 0.0)
    return cross / math.sqrt(margins)


def newcombe(n11: int, n10: int, n01: int, n00: int) -> Interval | None:
    """Newcombe's 95% square-and-add interval of a_pre - a_post (method 10 of Newcombe 1998, paired)."""
    n = n11 + n10 + n01 + n00
    pre, post = wilson(n11 + n10, n), wilson(n11 + n01, n)
    if pre is None or post is None:
        return None
    p, q, difference = (n11 + n10) / n, (n11 + n01) / n, (n10 - n01) / n
    phi = phi_corrected(n11, n10, n01, n00)

    def reach(first: float, second: float) -> float:
        return math.sqrt(max(first**2 - 2 * phi * first * second + second**2, 0.0))

    return difference - reach(p - pre[0], post[1] - q), difference + reach(pre[1] - p, q - post[0])


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted p values in the order given: min over larger ranks j of p_(j) m/j, at most 1; None stays out of m."""
    ranked = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    smallest = 1.0
    for rank in range(len(ranked), 0, -1):
        p, i = ranked[rank - 1]
        smallest = min(smallest, p * len(ranked) / rank)
        adjusted[i] = smallest
    return adjusted


def mde80(se: float) -> float:
    """Least change found in 80% of tries at the 5% level: 2.8 se."""
    return 2.8 * se


# ---- simulated truth -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Truth:
    """Expected figures of a scenario, as printed (three decimals)."""

    f: float
    f_true: float
    f_latent: float
    f_exch: float


SIMULATED_TRUTH = {
    "independent": Truth(0.159, 0.108, 0.100, 0.100),
    "position_preferred": Truth(0.144, 0.092, 0.072, 0.100),
    "repeat_half": Truth(0.117, 0.066, 0.025, 0.100),
    "repeat_90": Truth(0.083, 0.032, -0.035, 0.100),
    "rule_out_one": Truth(0.167, 0.126, 0.133, 0.156),
    "nothing_changed": Truth(0.094, 0.047, 0.0, 0.0),
}

REPEAT = {"repeat_half": 0.5, "repeat_90": 0.9}
CHANGED = {"11": 0.40, "10": 0.10, "01": 0.05, "00": 0.45}
UNCHANGED = {"11": 0.5, "00": 0.5}


def guess_weights(scenario: str, gold: int) -> list[int]:
    """How likely a guess takes each of four options: all alike, the first one 4:1, or never the one ruled out."""
    if scenario == "position_preferred":
        return [4, 1, 1, 1]
    if scenario == "rule_out_one":
        return [int(option != (gold + 1) % 4) for option in range(4)]
    return [1, 1, 1, 1]


def simulate(scenario: str, n: int, seed: int) -> tuple[list[Item], dict[str, Outcome], dict[str, Outcome]]:
    """n items with k = 4, known both, forgotten, acquired or never known; gold positions spread evenly.

    Shares .4, .10, .05, .45 (nothing_changed: .5 and .5 known both and never). Who knows answers right, who does not
    guesses. A repeat scenario gives the earlier guess again with that chance on items never known, else a new one.
    """
    if scenario not in SIMULATED_TRUTH:
        raise ValueError(f"unknown scenario {scenario!r}; one of {', '.join(SIMULATED_TRUTH)}")
    rng = random.Random(seed)
    shares = UNCHANGED if scenario == "nothing_changed" else CHANGED
    classes = rng.choices(list(shares), list(shares.values()), k=n)
    items = [Item(f"i{i}", "choice", 4) for i in range(n)]
    before: dict[str, Outcome] = {}
    after: dict[str, Outcome] = {}
    for item, knowledge in zip(items, classes, strict=True):
        gold = rng.randrange(4)
        first, second = rng.choices(range(4), guess_weights(scenario, gold), k=2)
        if rng.random() < REPEAT.get(scenario, 0.0):
            second = first
        b = gold if knowledge[0] == "1" else first
        a = gold if knowledge[1] == "1" else second
        before[item.key], after[item.key] = Outcome(b == gold, b), Outcome(a == gold, a)
    return items, before, after


def runs_of_cells(k: int, cells: Cells) -> tuple[list[Item], dict[str, Outcome], dict[str, Outcome]]:
    """Items and two runs with the counts of an all-parsed table; gold is option 0."""
    kinds: list[tuple[int, int, int]] = [
        (cells.n11, 0, 0), (cells.n10, 0, 1), (cells.n01, 1, 0), (cells.d, 1, 2), (cells.n00 - cells.d, 1, 1)
    ]  # fmt: skip
    answers = [(b, a) for times, b, a in kinds for _ in range(times)]
    items = [Item(f"i{i}", "choice", k) for i in range(len(answers))]
    before = {item.key: Outcome(b == 0, b) for item, (b, _) in zip(items, answers, strict=True)}
    after = {item.key: Outcome(a == 0, a) for item, (_, a) in zip(items, answers, strict=True)}
    return items, before, after
