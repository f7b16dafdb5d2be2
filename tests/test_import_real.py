"""Logs of other people's runs, not part of the project: checked where they lie beside it, in ../shared/logs."""

from pathlib import Path

import pytest
from logs_by_hand import load

from catalog import connect
from catalog.compare import reason_unpaired
from catalog.names import model_named

LOGS = Path(__file__).parents[2] / "shared" / "logs"
pytestmark = pytest.mark.skipif(not LOGS.is_dir(), reason="the logs of others are not here")


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Everything but the tiny logs in one catalog; what was refused and skipped."""
    out = tmp_path_factory.mktemp("real")
    results = load(out, *(p for p in sorted(LOGS.iterdir()) if p.is_dir() and p.name != "tiny"), trust_ids=True)
    return connect(out), results, out


# before, after, setting, task: n11, n10, n01, n00, both wrong with other options
EXPECTED = [
    ("Llama-3.1-8B", "Llama-3.1-8B-Instruct", "bleu_acc", "truthfulqa-multi_gen_en/main", (189, 102, 179, 347, 0)),
    ("Meta-Llama-3-8B", "Meta-Llama-3-8B-Instruct", "bleu_acc", "truthfulqa-multi_gen_en/main", (212, 123, 168, 314, 0)),
    ("llama2-chat", "our", "acc", "flare_customs2_desc/main", (352, 227, 254, 1167, 0)),
    ("Qwen2.5-1.5B-Instruct", "Qwen2.5-1.5B-Instruct-AWQ", "correct", "gsm8k/main", (69, 21, 23, 87, 0)),
    ("Qwen2.5-1.5B-Instruct", "Qwen2.5-1.5B-Instruct-AWQ", "correct", "mmlu/main", (145, 37, 29, 189, 28)),
    ("Qwen2.5-1.5B-Instruct", "Qwen2.5-1.5B-Instruct-GPTQ-Int4", "correct", "gsm8k/main", (67, 23, 27, 83, 0)),
    ("Qwen2.5-1.5B-Instruct", "Qwen2.5-1.5B-Instruct-GPTQ-Int4", "correct", "mmlu/main", (144, 38, 21, 197, 29)),
    ("gpt-4o-mini", "gpt-5", "match", "popularity/main", (50, 13, 2, 35, 0)),
]


@pytest.mark.parametrize("before, after, setting, task, counts", EXPECTED, ids=[f"{e[0]} {e[1]} {e[3]}" for e in EXPECTED])
def test_counts(real, before, after, setting, task, counts):
    """Transition counts that were found beforehand by hand, file by file."""
    con = real[0]
    found = con.execute(
        "SELECT sum(n11), sum(n10), sum(n01), sum(n00), sum(d) FROM transition_counts_of($1, $2, ['pair']) WHERE setting = $3 AND task_id = $4 AND replicate = 0",
        [model_named(con, before), model_named(con, after), setting, task]).fetchall()  # fmt: skip
    assert found == [counts]


def test_gold_comes_second(real):
    """Of the wrong MMLU answers at fp16, gold is second-ranked on 45% (33% if a wrong choice said nothing of it)."""
    found = real[0].sql("""SELECT n_wrong, round(gold_second, 2), round(gold_second_expected, 2) FROM gold_rank
                           WHERE model_id LIKE 'Qwen/Qwen2.5-1.5B-Instruct@%' AND task_id = 'mmlu/main'""").fetchall()  # fmt: skip
    assert found == [(218, 0.45, 0.33)]


def test_real_metrics(real):
    """fp16 -> AWQ, MMLU (METRICS, real check): F .0925, F_true 0 (-.010 unclipped), f_latent -.087, f_exch .077, bt_exch .050; GPTQ likewise."""
    con, wanted = real[0], {"AWQ": (0.0925, 0, -0.010, -0.087, 0.077, 0.050), "GPTQ-Int4": (0.095, 0, None, -0.092, 0.078, 0.022)}
    for name, figures in wanted.items():
        found = con.execute("""SELECT f, f_true, f_true_unclipped, f_latent, f_exch, bt_exch FROM task_metrics_of($1, $2) WHERE task_id = 'mmlu/main'""",
                            [model_named(con, "Qwen2.5-1.5B-Instruct"), model_named(con, f"Qwen2.5-1.5B-Instruct-{name}")]).fetchall()[0]  # fmt: skip
        assert [f for f, w in zip(found, figures, strict=True) if w is not None] == pytest.approx(
            [w for w in figures if w is not None], abs=6e-4
        )


def test_other_prompts_do_not_pair(real):
    """gpt4 was asked 200 other prompts under the file name and ids of the 2,000."""
    con = real[0]
    assert "flare_customs2_desc/main (acc): 0 items in common of 2000 and 200: 200 ids are the same, but the prompts differ" in reason_unpaired(
        con, model_named(con, "llama2-chat"), model_named(con, "gpt4"))  # fmt: skip


def test_five_epochs_are_five_replicates(real):
    """Three models, ten items, five epochs."""
    assert real[0].sql("""SELECT count(DISTINCT model_id), min(n), max(n) FROM (
        SELECT model_id, count(*) AS n FROM run_facts WHERE task_id = 'popularity/main' AND n_items = 10 GROUP BY ALL)""").fetchall() == [(3, 5, 5)]  # fmt: skip


def test_what_was_refused(real):
    """One second sampling of the same run, by name; nothing else."""
    refused = [r for r in real[1] if r.state == "refused"]
    assert len(refused) == 1 and "match, replicate 0: 8 of 100 outcomes differ" in refused[0].reason
    assert "number it: --replicate 1" in refused[0].reason


def test_no_text_and_no_path(real):
    """No path of somebody's machine in a model's id."""
    ids = [m for (m,) in real[0].sql("SELECT model_id FROM models").fetchall()]
    assert ids and not [m for m in ids if m.startswith("/") or "workspace" in m or m.count("/") > 1]


def test_every_file_of_the_small_logs(tmp_path):
    """One of each harness, 20 items each: all taken, item 7 is item 3 again, base and chat pair where they can."""
    results = load(tmp_path, LOGS / "tiny")
    assert [r.reason for r in results if r.state == "refused"] == []
    con = connect(tmp_path)
    matches = con.sql("""SELECT scheme, min(n_common), max(n_common) FROM item_matches('models/tiny-base@main', 'models/tiny-chat@main')
                         WHERE task_id IN ('tiny_letters/main', 'tiny_text/main') GROUP BY ALL ORDER BY ALL""").fetchall()  # fmt: skip
    assert matches == [("doc", 20, 20), ("prompt", 0, 0)]
