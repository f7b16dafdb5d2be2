"""A synthetic catalog of any size in the project's own files, made in bulk by DuckDB and the same for the same seed.

    python speed/synthetic.py OUT [--outcomes 10_000_000] [--pairs 30] [--replicates 3] [--tasks 100] [--seed 0]

Items are known, half known or guessed, and keep their favourite wrong option; the model after loses and learns some.
Some answers are unread, cut off, or not measured; tasks are of 2 to 10 options, of mixed options, or free-form.
"""

import argparse
import hashlib
import time
from pathlib import Path

import duckdb

from catalog.open import blank, columns_of
from collect.store import write_stream

# A number in [0, 1) from one integer id, drawn anew for each purpose; hash() of one BIGINT mixes all its bits.
CREATE = """
CREATE MACRO draw(id, purpose) AS CAST(hash(CAST(id AS BIGINT) * 64 + purpose) >> 11 AS DOUBLE) / 9007199254740992e0;
CREATE TEMP TABLE task_list AS  -- sizes from a third to three times the mean
WITH size AS (SELECT t, pow(9e0, draw($seed * 1000003 + t, 0) - 0.5) AS weight FROM range($tasks) AS r (t))
SELECT t, format('synthetic{}/task{:03d}', t % 10, t) AS task_id,
       ['2', '4', '4', '4', '4', '5', '3', '10', 'mixed', 'free'][t % 10 + 1] AS shape,
       greatest(4, CAST(weight / sum(weight) OVER () * $items AS INTEGER)) AS n_items
FROM size;
CREATE TEMP TABLE item_list AS
WITH item AS (SELECT t, shape, task_id, unnest(range(n_items)) AS item FROM task_list)
SELECT t, CAST(item AS INTEGER) AS item, ($seed * 1000 + t) * 10000000 + item AS id, task_id,
       'qog:' || md5(concat_ws('|', $seed, task_id, item)) || '#0' AS sample_key, if(shape = 'free', 'free', 'choice') AS answer,
       CASE shape WHEN 'free' THEN NULL WHEN 'mixed' THEN 2 + CAST(floor(draw(id, 1) * 4) AS SMALLINT)
                  ELSE CAST(shape AS SMALLINT) END AS k,
       CAST(floor(draw(id, 2) * k) AS SMALLINT) AS gold, draw(id, 3) AS hardness,
       1 + CAST(floor(draw(id, 4) * (k - 1)) AS SMALLINT) AS favourite
FROM item;
"""

SMALL = {
    "tasks": "SELECT task_id, split_part(task_id, '/', 1) AS benchmark, split_part(task_id, '/', 2) AS subset, FALSE AS behavioural "
             "FROM task_list",
    "categories": "SELECT 'synthetic' AS map, task_id, 'category ' || t % 7 AS category FROM task_list",
    "protocols": "SELECT 'synthetic' AS protocol_id, 'sampled' AS setting, 'sampled' AS decoding, 0.6e0 AS temperature",
    "itemsets": "SELECT itemset_id_of(task_id, list(sample_key ORDER BY item)) AS itemset_id, task_id, count(*) AS n_items "
                "FROM item_list GROUP BY task_id",
    "samples": "SELECT itemset_id, item, sample_key, answer, k AS n_options, [coalesce(CAST(gold AS VARCHAR), 'text')] AS gold "
               "FROM item_list JOIN itemsets USING (task_id) ORDER BY ALL",
    "models": "SELECT format('synthetic/pair{:02d}-{}@{}', p, side, $seed) AS model_id, 'synthetic' AS family, 'instruct' AS kind "
              "FROM range($pairs) AS r (p), (VALUES ('after'), ('before')) AS s (side) ORDER BY ALL",
    "pairs": "SELECT format('pair {:02d}', p) AS pair_id, format('synthetic/pair{:02d}-before@{}', p, $seed) AS before_id, "
             "format('synthetic/pair{:02d}-after@{}', p, $seed) AS after_id FROM range($pairs) AS r (p)",
    "runs": "SELECT run_id_of(model_id, itemset_id, 'synthetic', replicate) AS run_id, model_id, itemset_id, "
            "'synthetic' AS protocol_id, CAST(replicate AS INTEGER) AS replicate, 'synthetic' AS engine "
            "FROM models, itemsets, range($replicates) AS r (replicate) ORDER BY ALL",
}  # fmt: skip

# Right with .95, .55 or 1 in k as the item is known, half known or not; after: one in ten known is lost, one in ten others learnt.
OUTCOMES = """
WITH asked AS (
    SELECT r.run_id, i.item, i.k, i.gold, i.favourite, ($model * 64 + r.replicate) * 100000000000 + i.id AS id, i.hardness < 0.45 AS known,
           $after AND draw($model * 100000000000 + i.id, 5) < 0.1 AS changed, i.hardness >= 0.45 AND i.hardness < 0.7 AS half
    FROM runs AS r JOIN itemsets AS s USING (itemset_id) JOIN item_list AS i USING (task_id) WHERE r.model_id = $model_id),
answered AS (
    SELECT *, draw(id, 6) < CASE WHEN known <> changed THEN 0.95 WHEN half THEN 0.55 ELSE coalesce(1e0 / k, 0.02) END AS got,
           draw(id, 7) AS mishap, if(draw(id, 8) < 0.5, favourite, 1 + CAST(floor(draw(id, 9) * (k - 1)) AS SMALLINT)) AS wrong
    FROM asked)
SELECT run_id, item, CASE WHEN mishap < 0.003 THEN NULL WHEN mishap < 0.04 THEN FALSE ELSE got END AS correct,
       CASE WHEN mishap >= 0.04 THEN CAST((gold + if(got, 0, wrong)) % k AS SMALLINT) END AS predicted,
       CASE WHEN mishap < 0.003 THEN 'error' WHEN mishap < 0.01 THEN 'truncated' WHEN mishap < 0.04 THEN 'unparsed'
            WHEN mishap < 0.1 THEN 'lenient' ELSE 'ok' END AS status,
       CASE WHEN mishap < 0.003 THEN 'timeout' WHEN mishap < 0.04 THEN 'no rule' ELSE 'last letter' END AS reason,
       CAST(20 + floor(draw(id, 10) * 200) AS INTEGER) AS n_tokens
FROM answered ORDER BY run_id, item
"""


def copy(con: duckdb.DuckDBPyConnection, table: str, query: str, path: Path) -> None:
    """One Parquet file of a table, as `collect` writes it."""
    con.execute(f"CREATE OR REPLACE TEMP TABLE wanted AS FROM {table} LIMIT 0; INSERT INTO wanted BY NAME {query}")
    write_stream(path, table, con.sql(f"SELECT {columns_of(table)} FROM wanted").to_arrow_reader(122_880))


def write_small(con: duckdb.DuckDBPyConnection, out: Path, numbers: dict[str, int]) -> None:
    """Every table but outcomes, also left in `con`."""
    for statement in CREATE.split(";\n"):
        used = {name: value for name, value in numbers.items() if f"${name}" in statement}
        con.execute(statement, used)
    for table, query in SMALL.items():
        con.execute(f"INSERT INTO {table} BY NAME {query}", {name: value for name, value in numbers.items() if f"${name}" in query})
        copy(con, table, f"FROM {table}", out / table / f"{table}.parquet")


def generate(out: Path, outcomes: int, *, pairs: int = 30, replicates: int = 3, tasks: int = 100, seed: int = 0) -> int:
    """Write a catalog of about that many outcomes; returns how many there are.

    Args:
        out: Catalog folder to make.
        outcomes: Wanted number; items are spread over the tasks to reach it.
        pairs: Pairs of two models each.
        replicates: Replicates of every model on every task.
        tasks: Tasks, every model answers all.
        seed: Another seed is another catalog with other ids.
    """
    items = max(tasks * 4, outcomes // (2 * pairs * replicates))
    con = blank()
    write_small(con, out, {"seed": seed, "items": items, "tasks": tasks, "pairs": pairs, "replicates": replicates})
    models = [name for (name,) in con.sql("SELECT model_id FROM models ORDER BY ALL").fetchall()]
    for number, model in enumerate(models):
        values = {"$model_id": f"'{model}'", "$model": str(seed * 1000 + number), "$after": str("-after" in model)}
        query = OUTCOMES
        for name, value in values.items():
            query = query.replace(name, value)
        copy(con, "outcomes", query, out / "outcomes" / hashlib.sha256(model.encode()).hexdigest()[:12] / "part-0.parquet")
    return int(con.sql(f"SELECT count(*) FROM read_parquet('{out}/outcomes/*/*.parquet')").fetchall()[0][0])


def main() -> None:
    """Write one and say how large it is."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--outcomes", type=int, default=10_000_000)
    for name, value in {"pairs": 30, "replicates": 3, "tasks": 100, "seed": 0}.items():
        options.add_argument(f"--{name}", type=int, default=value)
    start = time.perf_counter()
    args = vars(options.parse_args())
    n = generate(**args)
    size = sum(f.stat().st_size for f in args["out"].glob("outcomes/*/*.parquet"))
    print(f"{n:,} outcomes in {time.perf_counter() - start:.1f} s, {size / n:.2f} bytes each")


if __name__ == "__main__":
    main()
