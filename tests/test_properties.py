"""Random catalogs, drawn by hypothesis, against the plain-Python reference; identities; and what must not matter.

Drawn: mixed kinds of items, unequal and permuted item lists, missing, unread and unmeasured answers, one to three
replicates, empty overlaps in some tasks. `make test` draws a few, `pytest -m slow tests/test_properties.py` many.
"""

import random

import pytest
import reference as ref
from conftest import key
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_against_reference import KINDS, check_replicate, random_answer, same

from catalog.identity import itemset_id_of, run_id_of
from catalog.open import blank
from catalog.pack import pack

KIND_SETS = [KINDS, [2, 3, 4, 5], [4], [3, 5], [2], ["free"], ["multi", 4], [2, "free"]]


def drawn_catalog(seed: int):
    """A catalog of three tasks and two models, as rows, and the same for the reference."""
    rng = random.Random(seed)
    tasks, tables = {}, {name: [] for name in ("itemsets", "samples", "runs", "outcomes")}
    replicates = rng.choice([1, 1, 2, 3])
    for number in range(3):
        task_id = f"x/t{number}"
        kinds = rng.choice(KIND_SETS)
        items = [ref.Item(f"{task_id}/{i}", k if isinstance(k, str) else "choice", None if isinstance(k, str) else k)
                 for i, k in enumerate(rng.choices(kinds, k=rng.choice([1, 5, 30])))]  # fmt: skip
        skills = {i.key: (rng.random(), rng.random()) for i in items}
        tasks[task_id] = (items, {})
        for side, model in enumerate("AB"):
            asked = [i for i in items if rng.random() < rng.choice([0.7, 1.0])]
            rng.shuffle(asked)
            runs = [{i.key: random_answer(rng, i, skills[i.key][side]) for i in asked if rng.random() < 0.95} for _ in range(replicates)]
            tasks[task_id][1][model] = runs
            add_rows(tables, task_id, model, asked, runs)
    return tasks, tables, replicates


def add_rows(tables, task_id, model, asked, runs):
    """The rows of one model on one task, its items in its own order."""
    itemset_id = itemset_id_of(task_id, [key(i.key) for i in asked])
    known = any(row[0] == itemset_id for row in tables["itemsets"])
    if not known:
        tables["itemsets"].append((itemset_id, task_id, len(asked)))
        for at, i in enumerate(asked):
            gold = ["0"] if i.kind == "choice" else ["0", "1"] if i.kind == "multi" else ["x"]
            tables["samples"].append((itemset_id, at, key(i.key), i.kind, i.k or (4 if i.kind == "multi" else None), gold))
    for replicate, run in enumerate(runs):
        run_id = run_id_of(model, itemset_id, "p", replicate)
        tables["runs"].append((run_id, model, itemset_id, "p", replicate))
        tables["outcomes"] += [
            (run_id, at, run[i.key].correct, run[i.key].predicted, run[i.key].status) for at, i in enumerate(asked) if i.key in run
        ]


def filled(tables, order=None, threads=None):
    """A connection with these rows, in the order given or another."""
    con = blank()
    if threads:
        con.execute(f"SET threads = {threads}")
    con.execute("INSERT INTO models (model_id, kind) VALUES ('A', 'instruct'), ('B', 'instruct')")
    con.execute("INSERT INTO protocols (protocol_id, setting, decoding) VALUES ('p', 's', 'sampled')")
    con.execute("INSERT INTO pairs (pair_id, before_id, after_id) VALUES ('p', 'A', 'B')")
    con.execute("INSERT INTO tasks SELECT 'x/t' || i, 'x', 't' || i, FALSE FROM range(3) AS r(i)")
    columns = {"itemsets": "itemset_id, task_id, n_items", "samples": "itemset_id, item, sample_key, answer, n_options, gold",
               "runs": "run_id, model_id, itemset_id, protocol_id, replicate", "outcomes": "run_id, item, correct, predicted, status"}  # fmt: skip
    for table, drawn in tables.items():
        rows = drawn if order is None else random.Random(order).sample(drawn, len(drawn))
        if rows:
            con.executemany(f"INSERT INTO {table} ({columns[table]}) VALUES ({', '.join('?' * len(rows[0]))})", rows)
    return con


def rows_of(con, query):
    """Rows by column name."""
    relation = con.sql(query)
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def agrees(seed: int) -> int:
    """Every row of task_replicates and of the self comparison equals the reference, from rows or packed; how many were compared."""
    tasks, tables, replicates = drawn_catalog(seed)
    con = filled(tables)
    if seed % 2:
        pack(con)
    rows = {(r["task_id"], r["replicate"]): r for r in rows_of(con, "FROM task_replicates")}
    for task_id, (items, runs) in tasks.items():
        pairs = list(zip(runs["A"], runs["B"], strict=True))
        multi = any(i.kind == "multi" for before, after in pairs for i, _, _ in ref.paired(items, before, after))
        for replicate, (before, after) in enumerate(pairs):
            if any(ref.paired(items, before, after)):
                check_replicate(rows.pop((task_id, replicate)), items, before, after, multi)
    assert rows == {}  # no row without an item on both sides
    compared = 0
    for row in rows_of(con, "FROM task_metrics"):
        identities(row)
        compared += 1
        items, runs = tasks[row["task_id"]]
        if replicates > 1 and not any(i.kind == "multi" for i in items):
            wanted = ref.self_comparison(items, runs["A"], runs["B"])
            for name in ("f_sym", "bt_sym", "v", "f_exch_x", "bt_exch_x"):
                estimate = getattr(wanted, name)
                same(row[name], estimate and estimate.value, name)
    return compared


def identities(row):
    """BT - F = net; BT_sym - F_sym and F_sym + BT_sym = V; the brackets are in order."""
    assert row["bt"] - row["f"] == pytest.approx(row["net"], abs=1e-12)
    if row["f_sym"] is not None:
        assert row["f_sym"] + row["bt_sym"] == pytest.approx(row["v"], abs=1e-9)
    if row["f_known"] is not None:
        assert row["f_known"] <= row["f_known_max"] + 1e-12 and row["f_known_lo"] <= row["f_known_hi"]
    assert row["f_lo"] <= row["f"] + 1e-12 and row["f"] <= row["f_hi"] + 1e-12


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10**6))
def test_random_catalogs(seed):
    """A few random catalogs."""
    agrees(seed)


@pytest.mark.slow
def test_many_random_catalogs():
    """A hundred random catalogs."""
    compared = sum(agrees(seed) for seed in range(100))
    print(f"100 random catalogs agree, {compared} rows of task_metrics")
    assert compared > 200


@pytest.mark.slow
@settings(max_examples=2, deadline=None)
@given(st.integers(0, 10**6))
def test_order_and_threads_do_not_matter(seed):
    """The same rows in another order, by one thread or two: the same metrics at every level, to rounding."""
    _, tables, _ = drawn_catalog(seed)
    one, other = filled(tables, threads=1), filled(tables, order=seed, threads=2)
    for view in ("task_replicates", "task_metrics", "category_metrics", "pair_metrics", "noise_floor", "transition_counts"):
        grain = {"transition_counts": "kind, before_run, after_run, answer, n_options", "noise_floor": "model_id, task_id, itemset_id"}.get(
            view, "ALL"
        )
        found, wanted = (rows_of(con, f"FROM {view} ORDER BY {grain}") for con in (one, other))
        if grain == "ALL":
            found, wanted = (
                sorted(rows, key=lambda r: str([r.get(c) for c in ("map", "category", "task_id", "replicate")])) for rows in (found, wanted)
            )
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            for name, value in a.items():
                assert (value == pytest.approx(b[name], abs=1e-9)) if isinstance(value, float) else value == b[name], (view, name)
