"""What `datasets` reads from a data set on the Hub: for every config the types as written here, and the rows that DuckDB reads."""

import hashlib
import json
import os
import subprocess
import sys
from typing import Any

import duckdb
import pytest
from conftest import Filler
from dataset_by_hand import small
from hub import Hub

from catalog import connect

TEXT, WHOLE, REAL, YES, WHEN = "Value('string')", "Value('int64')", "Value('float64')", "Value('bool')", "Value('timestamp[us]')"
SHORT, INT, TEXTS, REALS = "Value('int16')", "Value('int32')", "List(Value('string'))", "List(Value('float64'))"
FEATURES = {
    "models": {"model_id": TEXT, "family": TEXT, "n_params": WHOLE, "kind": TEXT, "parents": TEXTS, "lineage": TEXT, "step": WHOLE,
               "stage_task": TEXT, "recipe": TEXT, "quantisation": TEXT},
    "tasks": {"task_id": TEXT, "benchmark": TEXT, "subset": TEXT, "behavioural": YES},
    "categories": {"map": TEXT, "task_id": TEXT, "category": TEXT},
    "itemsets": {"itemset_id": TEXT, "task_id": TEXT, "source": TEXT, "source_revision": TEXT, "split": TEXT, "permutation_seed": WHOLE,
                 "n_items": INT},
    "protocols": {"protocol_id": TEXT, "setting": TEXT, "prompt_style": TEXT, "shots": SHORT, "template": TEXT, "decoding": TEXT,
                  "temperature": REAL, "top_p": REAL, "max_new_tokens": INT, "stop": TEXTS, "scoring": TEXT, "option_order": TEXT,
                  "extraction": TEXT, "dtype": TEXT, "details": TEXT},
    "runs": {"run_id": WHOLE, "model_id": TEXT, "itemset_id": TEXT, "protocol_id": TEXT, "replicate": INT, "rng_seed": WHOLE, "engine": TEXT,
             "versions": TEXT, "hardware": TEXT, "chat_template_sha256": TEXT, "contributor": TEXT, "collected_at": WHEN, "source": TEXT,
             "wall_s": REAL},
    "pairs": {"pair_id": TEXT, "before_id": TEXT, "after_id": TEXT, "regime": TEXT, "data_examples": WHOLE, "data_tokens": WHOLE, "source": TEXT},
    "samples": {"itemset_id": TEXT, "item": INT, "sample_key": TEXT, "answer": TEXT, "n_options": SHORT, "gold": TEXTS, "source_id": TEXT},
    "outcomes": {"run_id": WHOLE, "item": INT, "correct": YES, "predicted": SHORT, "status": TEXT, "reason": TEXT, "n_tokens": INT},
    "option_scores": {"run_id": WHOLE, "item": INT, "scores": REALS},
    "generations": {"run_id": WHOLE, "item": INT, "text": TEXT},
}  # fmt: skip


def digest(rows: Any) -> tuple[int, str]:
    """How many rows, and a hash that does not see their order."""
    n = total = 0
    for row in rows:
        n += 1
        total += int.from_bytes(hashlib.sha256(json.dumps(row, default=str, sort_keys=True).encode()).digest())
    return n, hex(total % 2**256)


READ = """
import json, sys
import datasets
from test_datasets import digest
told = {}
for config in datasets.get_dataset_config_names("org/name"):
    whole = datasets.load_dataset("org/name", config, split="train")
    stream = datasets.load_dataset("org/name", config, split="train", streaming=True)
    features = [{name: str(kind) for name, kind in data.features.items()} for data in (whole, stream)]
    told[config] = [*features, digest(whole), digest(stream), sum(row.get("correct", 0) is None for row in stream)]
default = datasets.load_dataset("org/name", split="train").column_names
print(json.dumps([told, default]))
"""


def everything(fill: Filler) -> None:
    """A value in every kind of column."""
    fill.con.execute("""
        INSERT INTO option_scores SELECT run_id, item, list_transform(range(n_options), lambda x: -x / 3)
        FROM outcomes JOIN runs USING (run_id) JOIN samples USING (itemset_id, item) WHERE answer = 'choice';
        INSERT INTO generations SELECT run_id, item, 'Answer: é\n' || item FROM outcomes;
        UPDATE models SET parents = ['org/base', 'org/other'], n_params = 7_000_000_000 WHERE kind = 'instruct';
        UPDATE protocols SET stop = ['\n\n', 'Q:'], temperature = .6, shots = 5;
        UPDATE runs SET collected_at = TIMESTAMP '2026-01-02 03:04:05.678901', wall_s = 1.5 WHERE replicate = 1""")


def rows_of(con: duckdb.DuckDBPyConnection, table: str) -> list[dict[str, Any]]:
    """A table as Python sees it; the paper's map is the package's."""
    found = con.sql(f"FROM {table} {'WHERE map <> $$paper$$' if table == 'categories' else ''}")
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


@pytest.mark.slow
def test_every_config_has_its_types_and_rows(hub: Hub, tmp_path: Any) -> None:
    """In a process of its own, which knows the Hub by its environment alone; loaded and streamed."""
    files = small(everything)
    with_texts = b"- config_name: generations\n  data_files: generations/**/*.parquet\n---\n"
    hub.commit("org/name", files | {"README.md": files["README.md"].removesuffix(b"---\n") + with_texts})
    con = connect("org/name")
    env = os.environ | hub.environment(tmp_path / "hf") | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", READ], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told, default = json.loads(done.stdout)
    assert list(told) == list(FEATURES)
    assert default == list(FEATURES["outcomes"])
    for table, (whole_types, stream_types, whole, stream, n_null) in told.items():
        assert whole[0] > 0
        assert whole_types == stream_types == FEATURES[table], table
        assert tuple(whole) == tuple(stream) == digest(rows_of(con, table)), table
        assert n_null == (3 if table == "outcomes" else 0)  # not measured is neither right nor wrong
