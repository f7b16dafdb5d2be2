"""How often the 95% intervals of the SQL cover what they estimate, on simulated models whose truth is known.

    python speed/coverage.py [--sims 300]

Every simulated pair is a task of n items of 4 options; the views compute all of them at once. Estimated is the metric's
expectation under the scenario (its mean over all simulated tasks): an interval says how far chance carries a metric from
it, not whether the metric's assumption holds there.
"""

import argparse
import sys
from pathlib import Path

import duckdb
import pyarrow as pa

from catalog.identity import itemset_id_of, run_id_of
from catalog.open import blank

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import reference as ref

METRICS = ("f", "f_true", "f_exch", "bt_exch", "f_known")
SIZES = (50, 200, 1000)


def simulated(scenario: str, n: int, sims: int) -> duckdb.DuckDBPyConnection:
    """A catalog of `sims` tasks of n items, answered once by models A and B."""
    items, before, after = ref.simulate(scenario, n * sims, seed=n)
    con = blank()
    con.execute("INSERT INTO models (model_id) VALUES ('A'), ('B')")
    con.execute("INSERT INTO protocols (protocol_id, setting) VALUES ('p', 's')")
    for task in range(sims):
        mine = items[task * n : (task + 1) * n]
        task_id, keys = f"sim/{task}", [f"qog:{task:016x}#{at}" for at in range(n)]
        itemset_id = itemset_id_of(task_id, keys)
        con.execute("INSERT INTO tasks VALUES ($1, 'sim', $2, FALSE)", [task_id, str(task)])
        con.execute("INSERT INTO itemsets (itemset_id, task_id, n_items) VALUES ($1, $2, $3)", [itemset_id, task_id, n])
        con.register("keys", pa.table({"item": pa.array(range(n), pa.int32()), "sample_key": keys}))
        con.execute("INSERT INTO samples SELECT $1, item, sample_key, 'choice', 4, ['0'], NULL FROM keys", [itemset_id])
        for model, answers in (("A", before), ("B", after)):
            run_id = run_id_of(model, itemset_id, "p", 0)
            con.execute(
                "INSERT INTO runs (run_id, model_id, itemset_id, protocol_id, replicate) VALUES ($1, $2, $3, 'p', 0)",
                [run_id, model, itemset_id],
            )
            outcomes = [answers[item.key] for item in mine]
            con.register("answers", pa.table({"item": pa.array(range(n), pa.int32()), "correct": [o.correct for o in outcomes],
                                              "predicted": pa.array([o.predicted for o in outcomes], pa.int16())}))  # fmt: skip
            con.execute("INSERT INTO outcomes SELECT $1, item, correct, predicted, 'ok', NULL, NULL FROM answers", [run_id])
    return con


def coverage(con: duckdb.DuckDBPyConnection) -> list[float]:
    """Share of tasks whose interval of each metric holds the metric's mean over tasks."""
    unclipped = {"f_true": "f_true_unclipped"}
    shares = ", ".join(f"avg(CAST((SELECT avg({unclipped.get(m, m)}) FROM t) BETWEEN {m}_lo AND {m}_hi AS INT))" for m in METRICS)
    found = con.sql(f"WITH t AS MATERIALIZED (FROM task_metrics_of('A', 'B')) SELECT {shares} FROM t").fetchall()[0]
    return [float(share) for share in found]


def main() -> None:
    """Print the table of docs/metrics.md."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sims", type=int, default=300)
    args = options.parse_args()
    print(f"| items not known | n | {' | '.join(METRICS)} |\n|---|---|{'---|' * len(METRICS)}")
    for scenario in ref.SIMULATED_TRUTH:
        for n in SIZES:
            shares = coverage(simulated(scenario, n, args.sims))
            print(f"| {scenario} | {n} | {' | '.join(f'{share:.3f}' for share in shares)} |", flush=True)


if __name__ == "__main__":
    main()
