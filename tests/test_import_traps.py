"""What would give a wrong number, store what must not be stored, or break a catalog, if an importer were less careful."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from logs_by_hand import answers, corrects, lm_log, lm_row, load, refusal, write_lines
from test_import_formats import HEADER, doc, eval_log, instance, sample

from catalog import connect
from catalog.errors import CatalogError
from collect.__main__ import main
from collect.importers.inspect_ai import choice_gold
from collect.importers.names import is_path, source_name, task_id_of
from collect.importers.values import CORRECTNESS, Metric, listed, option_named, stored_gold, whole, without_secrets


def samples_of(out):
    """answer, n_options, gold of every item, by source id."""
    return connect(out).sql("SELECT answer, n_options, gold FROM samples ORDER BY source_id").fetchall()


# ---- one name for several ------------------------------------------------------------------------------------------


def test_one_model_name_for_several_models(tmp_path):
    """--model cannot name two systems of one file, nor --task two tasks; nothing is mixed and nothing stored."""
    row = {"question": "q", "ground_truth": "2", "small": {"is_correct": False}, "large": {"is_correct": True}}
    path = write_lines(tmp_path / "s.jsonl", [row])
    assert "s.jsonl holds 2 models (large, small): one --model cannot name them all" in refusal(tmp_path / "out", path, model="org/m@1")
    (tmp_path / "t.csv").write_text("task,question,gold,correct\na,q,1,1\nb,q,1,0\n")
    assert "holds 2 tasks (a, b)" in refusal(tmp_path / "out2", tmp_path / "t.csv", model="org/m@1", task="z")


@pytest.mark.parametrize("name", ["", "  "])
def test_no_task_and_no_model(tmp_path, name):
    """An empty name is none: it is asked for, and --model and --task help."""
    assert task_id_of(name) == ""
    log = eval_log(tmp_path / "a.eval", [sample(0)], HEADER | {"eval": HEADER["eval"] | {"task": name, "model": ""}})
    assert "does not name its model: give it with --model" in refusal(tmp_path / "out", log)
    assert "does not name its task: give it with --task" in refusal(tmp_path / "out", log, model="org/m")
    load(tmp_path / "out", log, model="org/m", task="quiz")
    assert answers(tmp_path / "out")[0][:2] == ("org/m@unknown", "quiz/main")


# ---- what says right -----------------------------------------------------------------------------------------------


def test_a_metric_of_another_meaning_is_not_taken(tmp_path):
    """pct_stereotype is 0 or 1 and says nothing of right and wrong; perplexity neither: no log of answers until asked for."""
    log = lm_log(tmp_path / "a", [lm_row(0, metrics=["pct_stereotype"], pct_stereotype=1.0)])
    (result,) = [r for r in load(tmp_path / "out", tmp_path / "a") if r.path == log]
    assert (result.state, result.runs) == ("skipped", []) and "no metric whose name says right or wrong (pct_stereotype)" in result.reason
    assert "choose one with --metric" in refusal(tmp_path / "out", log)
    load(tmp_path / "asked", log, metrics=(Metric("pct_stereotype"),))
    assert corrects(tmp_path / "asked") == [True]


def test_a_gold_column_is_no_grade(tmp_path):
    """correct_answer holds the gold, not a grade; correct does."""
    assert [name for name in ("correct_answer", "correct_option", "is_correct", "correct", "acc_norm", "incorrect", "match", "rematch", "f1") if CORRECTNESS.search(name)] == [
        "is_correct", "correct", "acc_norm", "match"]  # fmt: skip
    (tmp_path / "t.csv").write_text("question,choices,correct_answer,is_correct\nq1,\"['no', 'yes']\",1,1\nq2,\"['no', 'yes']\",0,0\n")
    load(tmp_path / "out", tmp_path / "t.csv", model="org/m", task="t")
    assert sorted(samples_of(tmp_path / "out")) == [("choice", 2, ["0"]), ("choice", 2, ["1"])]
    assert {a[2] for a in answers(tmp_path / "out")} == {"is_correct"}


def written_answer(target, answer):
    """A row of a generative task of lm-eval, answered right."""
    told = {"metrics": ["exact_match"], "exact_match": 1.0, "doc": {"q": 0}, "resps": [["x"]]}
    return lm_row(0, None, None, target=target, filtered_resps=[answer], **told)


def test_lists_as_python_text(tmp_path):
    """pandas writes lists as Python text: options and golds are lists all the same; text that is none is refused, not dropped."""
    assert (
        listed("['a', \"b's\"]") == ["a", "b's"]
        and listed('["a"]') == ["a"]
        and listed("[not a list") == "[not a list"
        and listed(None) is None
    )
    row = written_answer("['Paris', 'Paris, France']", "x")
    load(tmp_path / "out", lm_log(tmp_path / "a", [row]))
    assert samples_of(tmp_path / "out") == [("free", None, ["Paris", "Paris, France"])]
    (tmp_path / "t.csv").write_text("question,options,gold,correct\nq,yes or no,yes,1\n")
    assert "t.csv:2: options 'yes or no' are no list" in refusal(tmp_path / "none", tmp_path / "t.csv", model="org/m", task="t")
    rows = [
        {"full_prompt": "p", "choices": "['A', 'B']", "gold_index": "1", "gold": "['B']", "predictions": "['B']", "metrics": "{'acc': 1.0}"}
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "details_x|0_2026-01-02T03-04-05.000006.parquet")
    load(tmp_path / "flat", tmp_path / "details_x|0_2026-01-02T03-04-05.000006.parquet", model="org/m")
    assert samples_of(tmp_path / "flat") == [("choice", 2, ["1"])] and corrects(tmp_path / "flat") == [True]


def test_numbers_in_answers_are_no_index():
    """What a model wrote counts from anywhere; a mapped column counts from 0."""
    assert option_named("2", ["a", "b", "c"], index=False) is None and option_named("2", ["a", "b", "c"]) == 2
    assert option_named("b", ["x", "y"]) == 1 and option_named("1.0", ["x", "y"]) == 1 and whole("9" * 30) is None and whole(10**25) is None


def test_log_likelihoods_are_no_text(tmp_path):
    """A single log-likelihood (lambada), and a choice graded by another metric, leave no generated text; a filter keeps the options."""
    single = lm_row(0, resps=[[["-3.25", "True"]]], filtered_resps=[["-3.25", "True"]], doc={"text": "t"}, target=" word")
    filtered = lm_row(1, filter="custom")
    load(tmp_path / "out", lm_log(tmp_path / "a", [single], task="lambada"), lm_log(tmp_path / "b", [filtered]))
    con = connect(tmp_path / "out")
    assert con.sql("SELECT count(*) FROM generations").fetchall() == [(0,)]
    assert con.sql("SELECT setting, predicted, len(scores) FROM outcomes JOIN run_facts USING (run_id) LEFT JOIN option_scores USING (run_id, item) ORDER BY ALL").fetchall() == [
        ("acc", None, None), ("acc,custom", 0, 3)]  # fmt: skip


# ---- inspect -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "targets, gold",
    [(["A"], [0]), (["C"], [2]), (["AB"], [0, 1]), (["A", "C"], [0, 2]), (["two"], [1]), ([], None), (["D"], None), (["x"], None)],
)
def test_inspect_targets(targets, gold):
    """Letters, several letters, an option's text; nothing is no gold, never the first option."""
    assert choice_gold(targets, ["one", "two", "three"]) == gold


def test_inspect_without_target(tmp_path):
    """No target: the item keeps its number of options, its gold is unknown."""
    load(tmp_path / "out", eval_log(tmp_path / "a.eval", [sample(0, target="")]))
    assert samples_of(tmp_path / "out") == [("choice", 3, None)]


def test_inspect_unread_by_one_scorer_only(tmp_path):
    """One scorer found no answer, the other graded one: only the first is unparsed."""
    scores = {"match": {"value": "N", "answer": None}, "judge": {"value": "I", "answer": "5"}}
    load(tmp_path / "out", eval_log(tmp_path / "a.eval", [sample(0, choices=None, target="4", scores=scores)]))
    assert [(a[2], a[7]) for a in answers(tmp_path / "out")] == [("judge", "ok"), ("match", "unparsed")]


def test_inspect_images_tell_items_apart(tmp_path):
    """Two pictures under one question are two items: a log of the second only does not pair with the first."""

    def asked(n, image):
        return sample(
            n,
            choices=None,
            target="a cat",
            input=[{"role": "user", "content": [{"type": "text", "text": "what?"}, {"type": "image", "image": image}]}],
        )

    load(tmp_path / "out", eval_log(tmp_path / "a.eval", [asked(0, "data:1"), asked(1, "data:2")]))
    load(
        tmp_path / "out", eval_log(tmp_path / "b.eval", [asked(1, "data:2")], HEADER | {"eval": HEADER["eval"] | {"model": "openai/gpt-y"}})
    )
    con = connect(tmp_path / "out")
    assert con.sql("SELECT DISTINCT source_id FROM samples GROUP BY sample_key, source_id HAVING count(*) = 2").fetchall() == [("1",)]


@pytest.mark.parametrize("name, model_args, model_id", [
    ("hf/meta-llama/Llama-3.1-8B", {}, "meta-llama/Llama-3.1-8B@unknown"), ("openrouter/openai/gpt-4o", {}, "openai/gpt-4o@unknown"), ("openai/gpt-4o", {}, "openai/gpt-4o@unknown"),
    ("hf/org/m", {"load_in_4bit": True}, "org/m@unknown+load_in_4bit=True"),
])  # fmt: skip
def test_inspect_providers(tmp_path, name, model_args, model_id):
    """The provider before org/name is the engine, not a folder; a quantised load is another model."""
    header = HEADER | {"eval": HEADER["eval"] | {"model": name, "model_args": model_args}}
    load(tmp_path / "out", eval_log(tmp_path / "a.eval", [sample(0, output={"completion": "x"})], header))
    assert answers(tmp_path / "out")[0][0] == model_id


# ---- lm-eval's models ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model_args, model_id", [
    ("pretrained=org/m,load_in_4bit=False,peft=None", "org/m@s"), ("pretrained=org/m,lora_local_path=/x/adapter", "local/adapter@path-"), ("pretrained=org/m,gptqmodel=True", "org/m@s+gptqmodel=True"),
    ("pretrained=alice@host:/home/alice/m", "local/m@path-"), ("pretrained=accounts/fireworks/m", "local/m@path-"),
])  # fmt: skip
def test_what_was_loaded(tmp_path, model_args, model_id):
    """What is set to nothing changes no model; an adapter and a quantisation do; a host's path is not stored."""
    load(tmp_path / "out", lm_log(tmp_path / "a", [lm_row(0)], results={"config": {"model_args": model_args, "model_sha": "s"}}))
    found = answers(tmp_path / "out")[0][0]
    assert found.startswith(model_id) and (found == model_id or model_id.endswith("path-")) and "alice" not in found


def test_thinking_is_another_protocol(tmp_path):
    """enable_thinking on and off are two protocols of one model, not one run with two outcomes."""
    for at, thinking in enumerate((True, False)):
        results = {"config": {"model_args": {"pretrained": "org/m", "enable_thinking": thinking or None}, "model_sha": "s"}}
        load(tmp_path / "out", lm_log(tmp_path / str(at), [lm_row(0, float(at), None)], results=results))
    assert connect(tmp_path / "out").sql("SELECT count(DISTINCT protocol_id), count(*) FROM runs").fetchall() == [(2, 2)]


def test_scored_by_any_row(tmp_path):
    """One row without log-probabilities makes no sampled run of a scored one."""
    rows = [
        {
            "doc": doc(n),
            "metric": {"acc": 1 - n},
            "model_response": {"text": [], "text_post_processed": [], "logprobs": lls, "output_tokens": [[1]]},
        }
        for n, lls in ((0, [-3.0, -1.0, -2.0]), (1, []))
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "details_x|0_2026-01-02T03-04-05.000006.parquet")
    load(tmp_path / "out", tmp_path / "details_x|0_2026-01-02T03-04-05.000006.parquet", model="org/m")
    assert connect(tmp_path / "out").sql("SELECT DISTINCT decoding FROM protocols").fetchall() == [("scored",)]


def test_multi_gold_is_no_contradiction(tmp_path):
    """Two golds, the first predicted and right: nothing is said of a contradiction."""
    (result,) = load(tmp_path / "out", lm_log(tmp_path / "a", [lm_row(0, 1.0, target="[0, 2]")]))
    assert result.notes == [] and samples_of(tmp_path / "out") == [("multi", 3, ["0", "2"])]


def test_repeated_questions_of_a_table_are_said(tmp_path):
    """Without id or replicate a repeated question counts as an item of its own, which is said with the way out."""
    (tmp_path / "t.csv").write_text("question,gold,correct\nq1,a,1\nq1,a,0\n")
    (result,) = load(tmp_path / "out", tmp_path / "t.csv", model="org/m", task="t")
    assert "1 rows repeat an item: counted as items of their own; --column replicate=NAME numbers repeats" in result.notes


# ---- what must not be stored ---------------------------------------------------------------------------------------


def test_no_worked_solution_is_stored(tmp_path):
    """The final answer of a worked solution is kept; of a long gold only a hash; a short one as it is."""
    assert stored_gold("First add ...\n#### 42") == "42" and stored_gold("Paris") == "Paris"
    assert stored_gold("a long rubric " * 20).startswith("sha256:") and len(stored_gold("a long rubric " * 20)) == 19
    row = written_answer("Think hard.\n#### 7", "7")
    load(tmp_path / "out", lm_log(tmp_path / "a", [row]))
    assert samples_of(tmp_path / "out") == [("free", None, ["7"])]


@pytest.mark.parametrize("text, kept", [
    ("Incorrect API key provided: sk-abc123; see more", "Incorrect API key provided: <key>; see more"), ("Bearer abc.def failed", "Bearer <key> failed"),
    ("no file /home/alice/x/y.txt here", "no file <path> here"), ("mail alice@example.org now", "mail <address> now"), ("rate 3/4 failed\nsecond line", "rate 3/4 failed"), ("", ""),
])  # fmt: skip
def test_reasons_without_secrets(text, kept):
    """An error's first line, without keys, addresses and paths."""
    assert without_secrets(text) == kept


def test_nothing_private_in_the_catalog(tmp_path):
    """Arguments, prompts, data files and errors of somebody's machine: hashed, cut to a name, or masked."""
    header = HEADER | {
        "eval": HEADER["eval"]
        | {"task_args": {"api_key": "sk-secret123", "path": "/home/alice/x"}, "dataset": {"name": "/home/alice/secret/d.csv"}}
    }
    load(
        tmp_path / "out",
        eval_log(tmp_path / "a.eval", [sample(0), sample(1, scores=None, error={"message": "key sk-secret123 in /home/alice/x"})], header),
    )
    results = {
        "configs": {"quiz": {"dataset_path": "/home/alice/secret"}},
        "config": {"model_args": "pretrained=/home/alice/m"},
        "system_instruction": "of alice",
    }
    load(tmp_path / "out", lm_log(tmp_path / "b", [lm_row(0)], results=results))
    con = connect(tmp_path / "out")
    for table in ("models", "tasks", "itemsets", "samples", "protocols", "runs", "outcomes"):
        text = json.dumps(con.sql(f"FROM {table}").fetchall(), default=str)
        assert "alice" not in text and "sk-secret" not in text, table
    assert con.sql("SELECT DISTINCT source FROM itemsets ORDER BY ALL").fetchall() == [("d.csv",), ("secret",)]
    assert source_name("cais/mmlu") == "cais/mmlu" and not is_path("cais/mmlu@main") and is_path("C:\\x")


# ---- files that would break ----------------------------------------------------------------------------------------


def test_ids_and_replicates_out_of_range(tmp_path, capsys):
    """An id beyond any integer is text; a replicate beyond reason is refused before anything is written."""
    load(tmp_path / "out", lm_log(tmp_path / "a", [lm_row(10**25)]), eval_log(tmp_path / "b.eval", [sample("9" * 25)]))
    assert len(answers(tmp_path / "out")) == 2
    assert main(["import", str(tmp_path / "b.eval"), "--out", str(tmp_path / "none"), "--replicate", "3000000000"]) == 1
    assert "--replicate 3000000000: wanted 0, 1, ..." in capsys.readouterr().err and not (tmp_path / "none").exists()
    for path in ("/proc/nowhere", "/dev/null/x"):
        assert main(["import", str(tmp_path / "b.eval"), "--out", path]) == 1
    assert "cannot write into /dev/null/x" in capsys.readouterr().err


def test_an_encrypted_member_stops_only_its_file(tmp_path):
    """A zip member this Python cannot open refuses its file; the others go on."""
    path = eval_log(tmp_path / "a.eval", [sample(0)])
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\x01\x02")
    while at >= 0:
        content[at + 8] |= 1  # the flag of an encrypted member
        at = content.rfind(b"PK\x01\x02", 0, at)
    path.write_bytes(content)
    bad, good = load(tmp_path / "out", path, eval_log(tmp_path / "b.eval", [sample(0)]))
    assert bad.state == "refused" and "a.eval" in bad.reason and good.state == "imported"


def test_times_in_other_notations(tmp_path):
    """An ISO time, or none at all, does not refuse a file."""
    for at, (time, stored) in enumerate(
        (("2026-01-02T03:04:05Z", "2026-01-02 03:04:05"), ("soon", "None"), ("1767323045", "2026-01-02 03:04:05"))
    ):
        aggregate = {"schema_version": "0.3.0", "evaluation_timestamp": time, "model_info": {"id": "org/m"}, "evaluation_results": []}
        (tmp_path / f"{at}.json").write_text(json.dumps(aggregate))
        load(tmp_path / f"out{at}", write_lines(tmp_path / f"{at}_samples.jsonl", [instance(0, True)]))
        assert connect(tmp_path / f"out{at}").sql("SELECT collected_at::VARCHAR FROM runs").fetchall() == [
            (None if stored == "None" else stored,)
        ]


def test_conflicts_have_a_way_out_and_do_not_look_imported(tmp_path):
    """A scored run with other outcomes: no advice that leads in a circle, no row in the table; the rest of the file is in."""
    load(
        tmp_path / "out",
        lm_log(tmp_path / "a", [lm_row(0, 1.0, None), lm_row(1, 1.0, None)], results={"config": {"model_args": "pretrained=org/m"}}),
    )
    rows = [lm_row(n, lls=(-1.0, -2.0, -3.0), acc=1.0, metrics=["acc", "acc_norm"], acc_norm=1.0) for n in range(2)]
    load(tmp_path / "two", lm_log(tmp_path / "b", rows))
    rows[0] |= {"acc": 0.0}
    (result,) = load(tmp_path / "two", lm_log(tmp_path / "c", rows))
    assert result.state == "refused" and [r.setting for r in result.runs] == ["acc_norm"]
    assert "Nothing was sampled" in result.reason and "--replicate" not in result.reason


def test_pairs_keep_what_is_not_said_again(tmp_path):
    """Declaring a pair again without its regime does not take the regime away."""
    from collect.pair import declare

    load(tmp_path / "out", lm_log(tmp_path / "a", [lm_row(0)], model="org/a"), lm_log(tmp_path / "b", [lm_row(0)], model="org/b"))
    declare(tmp_path / "out", "a", "b", {"regime": "Instruction Tuning", "data_tokens": None})
    pair, _ = declare(tmp_path / "out", "a", "b", {"regime": None, "data_tokens": 5})
    assert (pair["regime"], pair["data_tokens"]) == ("Instruction Tuning", 5)


@pytest.mark.parametrize("name, content, message", [
    ("t.csv", "question,gold,gold,correct\nq,1,1,1\n", "t.csv:1: column gold occurs twice: rename one"),
    ("t.jsonl.gz", b"\x1f\x8b", ".gz: decompress it first"),
    ("t.csv", "question,correct\n".encode("utf-16"), "t.csv is UTF-16: save it as UTF-8"),
])  # fmt: skip
def test_other_files(tmp_path, name, content, message):
    """What else lies about: said in a line that helps."""
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (result,) = load(tmp_path / "out", tmp_path / name, model="org/m", task="t")
    assert message in result.reason


def test_semicolons_capitals_and_blank_lines(tmp_path):
    """A CSV of another locale, a suffix in capitals, a blank first line, a format told for a whole folder."""
    (tmp_path / "T.CSV").write_text("question;gold;correct\nq1;a;1\n")
    load(tmp_path / "out", tmp_path / "T.CSV", model="org/m", task="t")
    assert corrects(tmp_path / "out") == [True]
    log = lm_log(tmp_path / "a", [lm_row(0)])
    log.write_text("\n" + log.read_text())
    states = [r.state for r in load(tmp_path / "out2", tmp_path / "a", format="lm-eval")]
    assert sorted(states) == ["beside", "imported"]


def test_a_replicate_beyond_reason_in_a_table(tmp_path):
    """Of a column too."""
    (tmp_path / "t.csv").write_text("question,gold,correct,replicate\nq,a,1,4000000000\n")
    assert "replicate '4000000000': wanted 0, 1, ..." in refusal(tmp_path / "out", tmp_path / "t.csv", model="org/m", task="t")
    with pytest.raises(CatalogError):
        Metric.parse("f1>=x")
