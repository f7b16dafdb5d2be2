"""The SQL against tests/reference.py, written from the definitions alone: random catalogs and simulated truth."""

import random

import numpy as np
import pyarrow as pa
import pytest
import reference as ref
from conftest import key

from catalog.identity import itemset_id_of, run_id_of

KINDS = [2, 3, 4, 4, 5, "free", "multi"]


def load(con, task_id, items, runs):
    """Insert reference items and runs (model -> list of replicates) in bulk; returns nothing."""
    keys = [key(i.key) for i in items]
    itemset_id = itemset_id_of(task_id, keys)
    con.execute("INSERT INTO tasks SELECT $1, split_part($1, '/', 1), split_part($1, '/', 2), FALSE", [task_id])
    con.execute("INSERT INTO itemsets (itemset_id, task_id, n_items) VALUES ($1, $2, $3)", [itemset_id, task_id, len(items)])
    samples = pa.table({
        "item": pa.array(range(len(items)), pa.int32()), "sample_key": keys, "answer": [i.kind for i in items],
        "n_options": pa.array([i.k or (4 if i.kind == "multi" else None) for i in items], pa.int16()),
        "gold": pa.array([["0"] if i.kind == "choice" else ["0", "1"] if i.kind == "multi" else ["x"] for i in items], pa.list_(pa.string())),
    })  # fmt: skip
    con.register("incoming", samples)
    con.execute("INSERT INTO samples BY NAME SELECT $1 AS itemset_id, * FROM incoming", [itemset_id])
    for model, replicates in runs.items():
        con.execute("INSERT INTO models (model_id, kind) SELECT $1, 'instruct' WHERE $1 NOT IN (SELECT model_id FROM models)", [model])
        for replicate, run in enumerate(replicates):
            run_id = run_id_of(model, itemset_id, "p", replicate)
            con.execute(
                "INSERT INTO runs (run_id, model_id, itemset_id, protocol_id, replicate) VALUES ($1, $2, $3, 'p', $4)",
                [run_id, model, itemset_id, replicate],
            )
            here = [(at, run[i.key]) for at, i in enumerate(items) if i.key in run]
            con.register("incoming", pa.table({
                "item": pa.array([at for at, _ in here], pa.int32()), "correct": pa.array([o.correct for _, o in here], pa.bool_()),
                "predicted": pa.array([o.predicted for _, o in here], pa.int16()), "status": [o.status for _, o in here],
            }))  # fmt: skip
            con.execute("INSERT INTO outcomes BY NAME SELECT $1 AS run_id, * FROM incoming", [run_id])
    con.unregister("incoming")


def random_answer(rng, item, skill):
    """One outcome: right with probability `skill`, sometimes unread, cut off or not measured."""
    kind = rng.choices(["ok", "unparsed", "truncated", "error", "lenient"], [80, 6, 3, 4, 7])[0]
    if kind == "error":
        return ref.Outcome(None, None, "error")
    if kind in ("unparsed", "truncated"):
        return ref.Outcome(False, None, kind)
    right = rng.random() < skill
    if item.kind != "choice":
        return ref.Outcome(right, None, kind)
    return ref.Outcome(right, 0 if right else rng.randrange(1, item.k), kind)


def random_task(rng, name, kinds, n, replicates):
    """Items of mixed kinds and two models' replicates, correlated over time; some items missing from a run."""
    items = [
        ref.Item(f"{name}/{i}", k if isinstance(k, str) else "choice", None if isinstance(k, str) else k)
        for i, k in enumerate(rng.choices(kinds, k=n))
    ]
    skills = {i.key: (rng.random(), rng.random()) for i in items}
    runs = {
        model: [{i.key: random_answer(rng, i, skills[i.key][side]) for i in items if rng.random() < 0.97} for _ in range(replicates)]
        for side, model in enumerate("AB")
    }  # fmt: skip
    return items, runs


def same(found, wanted, name):
    """Equal to 1e-9, NULL where the reference has no value."""
    assert (found is None) == (wanted is None), (name, found, wanted)
    if wanted is not None:
        assert found == pytest.approx(wanted, abs=1e-9), name


@pytest.mark.parametrize("seed", range(6))
def test_task_replicates(con, seed):
    """Every metric of every replicate of random tasks, with multi-gold, missing and unread answers."""
    rng = random.Random(seed)
    con.execute("INSERT INTO protocols (protocol_id, setting) VALUES ('p', 's')")
    tasks = {f"x/{name}": random_task(rng, name, kinds, rng.choice([8, 60]), 2)
             for name, kinds in {"all": KINDS, "choice": [2, 3, 4, 5], "wide": [3, 5], "two": [2], "free": ["free"]}.items()}  # fmt: skip
    for task_id, (items, runs) in tasks.items():
        load(con, task_id, items, runs)
    con.execute("INSERT INTO pairs (pair_id, before_id, after_id) VALUES ('p', 'A', 'B')")
    relation = con.sql("FROM task_replicates")
    rows = {(r["task_id"], r["replicate"]): r for r in (dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall())}
    assert len(rows) == 10
    for (task_id, replicate), row in rows.items():
        items, runs = tasks[task_id]
        check_replicate(row, items, runs["A"][replicate], runs["B"][replicate])


def check_replicate(row, items, before, after, multi=False):
    """One row of task_replicates against the reference. multi: another replicate of the task compares a multi-gold item."""
    cells, strata = ref.tally(items, before, after), ref.counts(items, before, after)
    raw = ref.raw(cells)
    names = {"a_pre": "a_pre", "a_post": "a_post", "f": "f", "bt": "bt", "f_cond": "f_cond", "btc": "btc", "bec": "bec", "f_relative": "relative_nfr",
             "flips": "flips", "net": "net", "f_conventional": "conventional_forgetting"}  # fmt: skip
    for mine, theirs in names.items():
        same(row[mine], getattr(raw, theirs), mine)
    assert (row["n_unpaired_before"], row["n_unpaired_after"]) == (cells.n_unpaired_before, cells.n_unpaired_after)
    same(row["f_unparsed"], ref.format_loss(cells).f_format, "f_unparsed")
    multi = multi or ("multi" in strata and strata["multi"].n > 0)
    paper = None if multi else ref.paper(strata)
    for mine, theirs in {
        "f_lucky": "lucky",
        **{n: n for n in ("f_true", "f_true_unclipped", "bt_true", "bt_true_unclipped", "f_max", "bt_max")},
    }.items():
        same(row[mine], paper and getattr(paper, theirs), mine)
    known = None if multi else ref.known(items, before, after)
    assert row["method"] == (known and known.method)
    for name in ("f_known", "f_known_max", "bt_known", "bt_known_max"):
        same(row[name], known and getattr(known, name).value, name)
    exch = None if multi else ref.exch(items, before, after)
    for name in ("f_exch", "bt_exch", "f_answer", "f_format", "bt_answer", "bt_format"):
        same(row[name], exch and getattr(exch, name), name)
    same(row["mcnemar_p"], ref.mcnemar_exact(cells.n10, cells.n01), "exact")
    same(row["mcnemar_mid_p"], ref.mcnemar_midp(cells.n10, cells.n01), "mid-p")
    low, high = ref.newcombe(cells.n11, cells.n10, cells.n01, cells.n00)
    same(row["net_lo"], -high, "net_lo")
    same(row["net_hi"], -low, "net_hi")


@pytest.mark.parametrize("seed", range(4))
def test_against_itself(con, seed):
    """f_exch_x, F_sym, BT_sym, V, F_self with their errors, where items have different numbers of replicates."""
    rng = random.Random(100 + seed)
    con.execute("INSERT INTO protocols (protocol_id, setting) VALUES ('p', 's')")
    items, runs = random_task(rng, "t", [2, 3, 4, 5, "free"] if seed % 2 else [3, 4, 5], 80, 3)
    load(con, "x/t", items, runs)
    con.execute("INSERT INTO pairs (pair_id, before_id, after_id) VALUES ('p', 'A', 'B')")
    relation = con.sql("FROM task_metrics")
    row = dict(zip(relation.columns, relation.fetchall()[0], strict=True))
    wanted = ref.self_comparison(items, runs["A"], runs["B"])
    for name in ("f_sym", "bt_sym", "v", "f_exch_x", "bt_exch_x"):
        estimate = getattr(wanted, name)
        same(row[name], estimate.value, name)
        same(row[f"{name}_se"], estimate.se, f"{name}_se")
    for model in "AB":
        floor = con.execute("SELECT f_self, f_self_se FROM noise_floor WHERE model_id = $1", [model]).fetchall()[0]
        estimate = ref.noise_floor(items, runs[model])
        assert floor == pytest.approx((estimate.value, estimate.se), abs=1e-9)


def test_item_numbers_with_gaps_and_beyond(con):
    """Items may be numbered far apart; an outcome of an item that the item list lacks counts nowhere, not as the next list's item."""
    con.execute(
        "INSERT INTO protocols (protocol_id, setting) VALUES ('p', 's'); INSERT INTO pairs (pair_id, before_id, after_id) VALUES ('p', 'A', 'B')"
    )
    rng = random.Random(9)
    for name in ("x/a", "x/b"):
        load(con, name, *random_task(rng, name, [4], 30, 2))
    counts = "SELECT * FROM transition_counts ORDER BY ALL"
    wanted = con.sql(counts).fetchall()
    con.execute("UPDATE samples SET item = 1500000000 WHERE item = 29; UPDATE outcomes SET item = 1500000000 WHERE item = 29")
    assert con.sql(counts).fetchall() == wanted and len(wanted) > 0
    con.execute(
        "INSERT INTO outcomes BY NAME SELECT run_id, unnest([-1, 40, 1500000001]) AS item, TRUE AS correct, 'ok' AS status FROM runs"
    )
    assert con.sql(counts).fetchall() == wanted


def test_one_replicate_interval(con):
    """The interval of f_exch with its two pseudo-items, and the bracket of k = 2."""
    rng = random.Random(7)
    con.execute("INSERT INTO protocols (protocol_id, setting) VALUES ('p', 's')")
    con.execute("INSERT INTO pairs (pair_id, before_id, after_id) VALUES ('p', 'A', 'B')")
    for task_id, kinds in (("x/wide", [3, 4, 5]), ("x/two", [2])):
        items, runs = random_task(rng, task_id, kinds, 50, 1)
        load(con, task_id, items, runs)
        row = con.execute(
            "SELECT f_known_lo, f_known_hi, bt_known_lo, bt_known_hi FROM task_metrics WHERE task_id = $1", [task_id]
        ).fetchall()[0]
        if kinds == [2]:
            f, bt = ref.bracket(items, runs["A"][0], runs["B"][0])
            assert row == pytest.approx((*f.interval, *bt.interval), abs=1e-4)  # 1.96 there, 1.959964 here
        else:
            exch = ref.exch(items, runs["A"][0], runs["B"][0])
            assert row == pytest.approx((*exch.f_interval, *exch.bt_interval), abs=1e-4)


def test_seed_consistent(con):
    """Counts over all sets of 2 and of 3 replicates."""
    rng = random.Random(5)
    con.execute("INSERT INTO protocols (protocol_id, setting) VALUES ('p', 's')")
    items, runs = random_task(rng, "t", [4], 60, 4)
    load(con, "x/t", items, runs)
    con.execute("INSERT INTO pairs (pair_id, before_id, after_id) VALUES ('p', 'A', 'B')")
    for m in (2, 3):
        wanted = ref.seed_consistent(items, runs["A"], runs["B"], m)
        found = con.execute(
            "SELECT n_sets, n11_mean, n10_mean, n01_mean, n00_mean, n10_var, f_consistent FROM seed_consistent WHERE set_size = $1", [m]
        ).fetchall()[0]
        assert found == pytest.approx(
            (wanted.n_sets, *(wanted.mean[s] for s in ("11", "10", "01", "00")), wanted.variance["10"], wanted.rate)
        )


@pytest.mark.parametrize("scenario", list(ref.SIMULATED_TRUTH))
def test_simulated_truth(con, scenario):
    """Known truth, 40,000 items of 4 options: raw F, F_true, f_latent and f_exch within .01 of the exact figures."""
    items, before, after = ref.simulate(scenario, 40_000, seed=11)
    con.execute("INSERT INTO protocols (protocol_id, setting) VALUES ('p', 's')")
    load(con, "x/t", items, {"A": [before], "B": [after]})
    con.execute("INSERT INTO pairs (pair_id, before_id, after_id) VALUES ('p', 'A', 'B')")
    found = con.execute("SELECT f, f_true, f_latent, f_exch FROM task_replicates").fetchall()[0]
    truth = ref.SIMULATED_TRUTH[scenario]
    print(f"{scenario:20} {' '.join(f'{x:.4f}' for x in found)}")
    assert found == pytest.approx((truth.f, truth.f_true, truth.f_latent, truth.f_exch), abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("changed", [0.0, 0.25])
@pytest.mark.parametrize("n", [30, 70, 200])
def test_coverage_of_f_exch_x(con, n, changed):
    """The padded 95% interval of f_exch_x covers its expectation in 95% or more of simulated catalogs; Wald's does not.

    4 options, 3 replicates of both models; 40% of items known, the others answered by an item's own random preferences.
    """
    rng = np.random.default_rng(n)
    truth = np.mean([self_scores(rng, 20_000, changed).mean() for _ in range(3)])
    sums = [(n, u.sum(), (u**2).sum()) for u in (self_scores(rng, n, changed) for _ in range(1500))]
    con.register("sims", pa.table({name: [row[i] for row in sums] for i, name in enumerate(("n", "total", "squares"))}))
    padded, wald = con.execute("""
        SELECT avg(CAST(abs(padded_mean(n, total, 4/3e0, 2/3e0) - $1) <= z95() * padded_se(n, total, squares, 4/3e0, 2/3e0) AS INT)),
               avg(CAST(abs(total / n - $1) <= z95() * padded_se(n, total, squares, NULL, NULL) AS INT)) FROM sims""", [float(truth)]).fetchall()[0]  # fmt: skip
    print(f"n = {n}, changed {changed}: padded {padded:.3f}, Wald {wald:.3f}")
    assert padded >= 0.945 and wald < padded


def self_scores(rng, n, changed, k=4, m=3):
    """Item scores of f_exch_x for n simulated items, computed from counts per option."""
    c = k / (k - 1)
    known = rng.random(n) < 0.4
    before = rng.dirichlet([0.5] * k, size=n)
    before[known] = [0.96] + [0.04 / (k - 1)] * (k - 1)
    after = before.copy()
    lost = known & (rng.random(n) < changed)
    after[lost] = rng.dirichlet([0.5] * k, size=int(lost.sum()))
    x, y = ((rng.random((n, m, 1)) > p.cumsum(1)[:, None, :-1]).sum(2)[:, :, None] == np.arange(k) for p in (before, after))
    x, y = x.sum(1), y.sum(1)
    right, wrong_after = x[:, 0], m - y[:, 0]
    across = c * (right * wrong_after - ((m - right) * wrong_after - (x[:, 1:] * y[:, 1:]).sum(1)) / (k - 2)) / m**2

    def own(counts):
        right, wrong = counts[:, 0], m - counts[:, 0]
        return c * (right * wrong - (wrong * (wrong - 1) - (counts[:, 1:] * (counts[:, 1:] - 1)).sum(1)) / (k - 2)) / (m * (m - 1))

    return across - (own(x) + own(y)) / 2
