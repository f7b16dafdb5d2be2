"""Every other format, record by record, with the traps that real files hold."""

import io
import json
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from logs_by_hand import answers, corrects, load, refusal, write_lines

from catalog import connect
from collect.importers.inspect_ai import ZSTD, member_bytes
from collect.importers.names import model_id_of, task_id_of
from collect.importers.values import Metric

# ---- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, revision, model_id", [
    ("org/m", "abc", "org/m@abc"), ("org/m@abc", None, "org/m@abc"), ("org/m", None, "org/m@unknown"), ("gpt2", "f" * 40, "gpt2@" + "f" * 40),
    ("gemma3:12b-u1", None, "local/gemma3:12b-u1@unknown"),
    ("/home/someone/.cache/models--org--m/snapshots/" + "0" * 40, None, "org/m@" + "0" * 40),
])  # fmt: skip
def test_model_ids(name, revision, model_id):
    """org/name@revision; a cached snapshot is the Hub's model; a name without organisation is local."""
    assert model_id_of(name, revision) == model_id


def test_a_path_is_named_by_its_end_and_a_hash():
    """No path in the catalog; two checkpoints of one name stay apart; a generic last part brings the one before it."""
    one, two = model_id_of("/data/me/run1/checkpoint-100"), model_id_of("/data/me/run2/checkpoint-100/")
    assert one.startswith("local/run1-checkpoint-100@path-") and two.startswith("local/run2-checkpoint-100@path-")
    assert model_id_of("./a/m") != model_id_of("./b/m") and "/me" not in one
    assert model_id_of("C:\\models\\m").startswith("local/m@path-")


@pytest.mark.parametrize("name, task_id", [
    ("mmlu_anatomy", "mmlu/anatomy"), ("leaderboard|mmlu:anatomy|5", "mmlu/anatomy"), ("hendrycksTest-anatomy", "mmlu/anatomy"),
    ("mmlu_flan_n_shot_generative_anatomy", "mmlu/anatomy"), ("bbh_cot_fewshot_navigate", "bbh/navigate"), ("leaderboard_bbh_navigate", "bbh/navigate"),
    ("arc_challenge", "arc/challenge"), ("arc:easy|0", "arc/easy"), ("gsm8k_cot", "gsm8k/main"), ("hellaswag", "hellaswag/main"),
    ("gpqa_diamond_cot_zeroshot", "gpqa/diamond"), ("truthfulqa_mc1", "truthfulqa/mc1"), ("commonsenseqa", "commonsense_qa/main"),
    ("mmlu_pro_law", "mmlu_pro_law/main"), ("inspect_evals/popularity", "popularity/main"), ("tiny_text|0", "tiny_text/main"), ("piqa/main", "piqa/main"),
])  # fmt: skip
def test_task_ids(name, task_id):
    """Known benchmarks by the names harnesses give them; others keep their own."""
    assert task_id_of(name) == task_id


# ---- lm-eval v0.3 ---------------------------------------------------------------------------------------------------


def v03(folder, rows, name="quiz_write_out_info.json"):
    folder.mkdir(parents=True)
    (folder / name).write_text(json.dumps(rows))
    return folder / name


def test_v03_strings(tmp_path):
    """Every value is a string; the prompt with its gold is the item; the folder names the model, which is said."""
    rows = [{"doc_id": n, "prompt_0": f"p{n}", "logit_0": "No", "truth": "no", "acc": acc, "missing": "0", "f1": "('no', 'no')"}
            for n, acc in enumerate(("True", "0.0"))]  # fmt: skip
    (result,) = load(tmp_path / "out", v03(tmp_path / "llama2", rows))
    assert result.format == "lm-eval-v0.3" and result.notes == [
        "the log names no model; from its folder: local/llama2@unknown (--model says it better)", "left out: f1 (no numbers), missing"]  # fmt: skip
    assert [(a[0], a[2], a[5]) for a in answers(tmp_path / "out")] == [
        ("local/llama2@unknown", "acc", True),
        ("local/llama2@unknown", "acc", False),
    ]
    assert connect(tmp_path / "out").sql("SELECT DISTINCT split_part(sample_key, ':', 1) FROM samples").fetchall() == [("prompt",)]


def test_v03_other_prompts_do_not_pair(tmp_path):
    """Same file name, same ids, other prompts: 0 in common, and the refusal says so and how to insist."""
    from catalog.errors import CatalogError
    from collect.pair import declare

    for model, prompt in (("a", "p"), ("b", "other p")):
        load(
            tmp_path / "out",
            v03(
                tmp_path / model, [{"doc_id": n, "prompt_0": f"{prompt}{n}", "logit_0": "x", "truth": "x", "acc": "1.0"} for n in range(3)]
            ),
        )
    with pytest.raises(CatalogError) as error:
        declare(tmp_path / "out", "a", "b", {})
    assert "quiz/main (acc): 0 items in common of 3 and 3: 3 ids are the same, but the prompts differ" in str(error.value)
    assert not (tmp_path / "out" / "pairs").exists()


# ---- lighteval ------------------------------------------------------------------------------------------------------


def doc(n, query="q", choices=(" A", " B", " C"), gold=1):
    return {"id": str(n), "query": f"{query}{n}", "choices": list(choices), "gold_index": gold, "sampling_methods": ["LOGPROBS"]}


def test_lighteval_structs(tmp_path):
    """Structs; ids of two splits start at 0 again; null columns and lists of null; '|' and ':' in names."""
    rows = [{"doc": doc(n, query), "metric": {"acc": acc, "acc_norm": acc, "f1": None},
             "model_response": {"text": [], "text_post_processed": [], "logprobs": lls, "output_tokens": [[1]]}}
            for query, n, acc, lls in (("a", 0, 1, [-3.0, -1.0, -2.0]), ("a", 1, 0, [-1.0, -3.0, -2.0]), ("b", 0, 0, [-1.0, -3.0, -2.0]))]  # fmt: skip
    folder = tmp_path / "details" / "org" / "model" / "2026-01-02T03-04-05.000006"
    folder.mkdir(parents=True)
    table = pa.Table.from_pylist(rows)
    assert pa.types.is_null(table.schema.field("metric").type.field("f1").type)
    pq.write_table(table, folder / "details_suite|mmlu:anatomy|5_2026-01-02T03-04-05.000006.parquet")
    (result,) = load(tmp_path / "out", tmp_path / "details")
    assert result.format == "lighteval" and result.runs[0].n_items == 3
    assert sorted((a[0], a[1], a[4], a[5], a[6]) for a in answers(tmp_path / "out", "acc")) == [  # two items have id 0
        ("org/model@unknown", "mmlu/anatomy", "0", False, 0), ("org/model@unknown", "mmlu/anatomy", "0", True, 1),
        ("org/model@unknown", "mmlu/anatomy", "1", False, 0)]  # fmt: skip
    con = connect(tmp_path / "out")
    assert con.sql("SELECT n_options, gold, count(*) FROM samples GROUP BY ALL").fetchall() == [(3, ["1"], 3)]
    assert con.sql("SELECT DISTINCT shots, setting FROM protocols ORDER BY ALL").fetchall() == [(5, "acc"), (5, "acc_norm")]


def test_lighteval_generated(tmp_path):
    """A generated answer: the accepted text of a free item; a letter among several choices is an option."""
    rows = [{"doc": doc(0, choices=[" Rome"], gold=0), "metric": {"em": 0}, "model_response": {"text": ["x"], "text_post_processed": ["x"], "logprobs": [], "output_tokens": [[1, 2]]}},
            {"doc": doc(1, choices=["A", "B", "C"], gold=1), "metric": {"em": 0}, "model_response": {"text": [" C"], "text_post_processed": ["C"], "logprobs": [], "output_tokens": [[1]]}}]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "details_x|0_2026-01-02T03-04-05.000006.parquet")
    load(tmp_path / "out", tmp_path / "details_x|0_2026-01-02T03-04-05.000006.parquet", model="org/m")
    found = (
        connect(tmp_path / "out")
        .sql("SELECT source_id, answer, n_options, gold, predicted, n_tokens FROM samples JOIN outcomes USING (item) ORDER BY 1")
        .fetchall()
    )
    assert found == [("0", "free", None, ["Rome"], None, 2), ("1", "choice", 3, ["1"], 2, 1)]


def test_lighteval_flat(tmp_path):
    """Before 0.11: flat columns, a dict of metrics, results that hold the text of Python objects."""
    rows = [{"full_prompt": f"p{n}", "choices": ["A", "B", "C", "D"], "gold_index": 2, "gold": ["C"], "predictions": ["C"] if n else ["no idea"],
             "metrics": {"extractive_match": float(n), "extractive_match_stderr": None}} for n in range(2)]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "details_lighteval|gpqa:diamond|0_2025-02-05T10-01-31.876443.parquet")
    (tmp_path / "results_2025-02-05T10-01-31.876443.json").write_text(json.dumps({
        "config_general": {"model_name": "org/m", "model_sha": "c" * 40, "model_config": None}, "config_tasks": {"lighteval|gpqa:diamond": "LightevalTaskConfig(...)"},
        "results": {"lighteval|gpqa:diamond|0": {"extractive_match": 0.5, "extractive_match_stderr": 0.1}}}))  # fmt: skip
    (result, beside) = load(tmp_path / "out", tmp_path)
    assert result.notes == [] and (beside.state, beside.reason) == ("beside", "a results file of lighteval")
    assert sorted((a[0], a[1], a[2], a[5], a[6]) for a in answers(tmp_path / "out")) == [
        ("org/m@" + "c" * 40, "gpqa/diamond", "extractive_match", False, None), ("org/m@" + "c" * 40, "gpqa/diamond", "extractive_match", True, 2)]  # fmt: skip


# ---- inspect --------------------------------------------------------------------------------------------------------

HEADER = {"version": 2, "status": "success", "plan": {"steps": [], "config": {}},
          "eval": {"task": "quiz", "model": "openai/gpt-x", "created": "2026-01-02T03:04:05+00:00", "dataset": {"name": "d"}, "config": {}}}  # fmt: skip


def sample(n, epoch=1, value="C", **changed):
    row = {"id": n, "epoch": epoch, "input": f"question {n}", "choices": ["one", "two", "three"], "target": "A",
           "scores": {"choice": {"value": value, "answer": {"C": "A", "I": "B", "N": ""}.get(value)}}, "output": {"model": "gpt-x-2026", "completion": "ANSWER"}}  # fmt: skip
    return row | changed


def eval_log(path, samples, header=HEADER, method=zipfile.ZIP_DEFLATED):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("_journal/start.json", json.dumps({k: header[k] for k in ("version", "eval", "plan")}))
        for s in samples:
            archive.writestr(f"samples/{s['id']}_epoch_{s['epoch']}.json", json.dumps(s))
        if "status" in header:
            archive.writestr("header.json", json.dumps(header))
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_inspect_epochs(tmp_path, method):
    """Epochs are replicates of one item list; members stored or deflated; the snapshot that answered is the revision."""
    samples = [sample(n, epoch, value) for epoch, values in ((2, "CI"), (1, "IC")) for n, value in enumerate(values)]
    (result,) = load(tmp_path / "out", eval_log(tmp_path / "a.eval", samples, method=method))
    assert (result.format, result.notes) == ("inspect", [])
    assert [(a[0], a[3], a[4], a[5], a[6]) for a in answers(tmp_path / "out")] == [
        ("openai/gpt-x@gpt-x-2026", 0, "0", False, 1), ("openai/gpt-x@gpt-x-2026", 0, "1", True, 0),
        ("openai/gpt-x@gpt-x-2026", 1, "0", True, 0), ("openai/gpt-x@gpt-x-2026", 1, "1", False, 1)]  # fmt: skip


def test_zstd_members():
    """A member compressed with zstd, which zipfile of this Python may not know, is read all the same."""
    content = json.dumps(HEADER).encode()
    packed = pa.Codec("zstd").compress(content, asbytes=True)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("header.json", packed)
    with zipfile.ZipFile(buffer) as archive:
        (member,) = archive.infolist()
        member.compress_type = ZSTD  # what the directory of such a file says
        assert member_bytes(archive, buffer, member) == content


def test_inspect_grades(tmp_path):
    """C and I are right and wrong, N is an answer that is none, an unscored sample and one that failed are not measured."""
    samples = [
        sample(0, value="C"),
        sample(1, value="I"),
        sample(2, value="N"),
        sample(3, scores={}),
        sample(4, scores=None, error={"message": "boom\nmore"}),
    ]
    load(tmp_path / "out", eval_log(tmp_path / "a.eval", samples))
    found = (
        connect(tmp_path / "out")
        .sql("SELECT correct, status, reason FROM samples JOIN outcomes USING (item) ORDER BY source_id")
        .fetchall()
    )
    assert found == [
        (True, "ok", None),
        (False, "ok", None),
        (False, "unparsed", None),
        (None, "error", "unscored"),
        (None, "error", "error: boom"),
    ]


def test_inspect_partial_needs_a_threshold(tmp_path):
    """P (partly right) is neither right nor wrong until the user says which."""
    log = eval_log(tmp_path / "a.eval", [sample(0, value="C"), sample(1, value="P")])
    assert "choice (values such as 0.5)" in refusal(tmp_path / "out", log)
    load(tmp_path / "bound", log, metrics=(Metric.parse("choice>=0.5"),))
    assert corrects(tmp_path / "bound") == [True, True]


def test_inspect_several_scorers(tmp_path):
    """One setting a scorer; a dict is one a key; a score in between is left out and said."""
    scores = {"match": {"value": "C", "answer": "A"}, "judge": {"value": 0.3}, "parts": {"value": {"right": 1, "polite": 0.0}}}
    (result,) = load(tmp_path / "out", eval_log(tmp_path / "a.eval", [sample(0, scores=scores)]))
    assert result.notes == ["left out: judge (not 0 or 1)"]
    assert [(a[2], a[5]) for a in answers(tmp_path / "out")] == [("match", True), ("parts/polite", False), ("parts/right", True)]


def test_inspect_free_form(tmp_path):
    """Without choices the target is the accepted text; messages and attachments are the question; a list of targets is kept."""
    one = sample(0, choices=None, target=["4", "four"], input="attachment://abc", attachments={"abc": "2 + 2?"})
    two = sample(
        1,
        choices=None,
        target="4",
        input=[{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "2 + 2?"}]}],
    )
    load(tmp_path / "out", eval_log(tmp_path / "a.eval", [one, two]))
    assert connect(tmp_path / "out").sql("SELECT answer, n_options, gold FROM samples ORDER BY source_id").fetchall() == [
        ("free", None, ["4", "four"]),
        ("free", None, ["4"]),
    ]
    again = sample(9, choices=None, target=["four", "4"], input="2 + 2?")
    load(tmp_path / "out", eval_log(tmp_path / "b.eval", [again], HEADER | {"eval": HEADER["eval"] | {"model": "openai/gpt-y"}}))
    assert connect(tmp_path / "out").sql("SELECT count(DISTINCT sample_key) FROM samples").fetchall() == [
        (2,)
    ]  # the same question and golds


def test_inspect_shuffled_choices_do_not_pair(tmp_path):
    """Shuffled options keep the id; they are another item all the same."""
    load(tmp_path / "out", eval_log(tmp_path / "a.eval", [sample(0)]))
    turned = sample(0, choices=["two", "one", "three"], target="B")
    load(tmp_path / "out", eval_log(tmp_path / "b.eval", [turned], HEADER | {"eval": HEADER["eval"] | {"model": "openai/gpt-y"}}))
    con = connect(tmp_path / "out")
    assert con.sql(
        "SELECT scheme, n_common, n_same_id FROM item_matches('openai/gpt-x@gpt-x-2026', 'openai/gpt-y@gpt-x-2026')"
    ).fetchall() == [("qog", 0, 1)]


@pytest.mark.parametrize("status", ["error", "cancelled", None])
def test_inspect_unfinished(tmp_path, status):
    """A run that failed, was cancelled, or was killed before its header: what it finished is taken, and that is said."""
    header = {k: v for k, v in (HEADER | {"status": status}).items() if v is not None}
    (result,) = load(tmp_path / "out", eval_log(tmp_path / "a.eval", [sample(0, 1), sample(1, 1), sample(0, 2)], header))
    assert result.notes == [f"the run ended as {status or 'started'}: only the samples it had finished are in it",
                            "choice: of 2 items, replicate 1 has 1; the others are not measured"]  # fmt: skip
    assert corrects(tmp_path / "out") == [True, True, True, None]


def test_inspect_json(tmp_path):
    """The same log as one JSON file, on one line or many."""
    for indent in (None, 2):
        (tmp_path / f"log{indent}.json").write_text(json.dumps(HEADER | {"samples": [sample(0)]}, indent=indent))
        (result,) = load(tmp_path / f"out{indent}", tmp_path / f"log{indent}.json")
        assert result.format == "inspect" and corrects(tmp_path / f"out{indent}") == [True]


def test_inspect_damaged(tmp_path):
    """An LFS pointer, half a zip, no sample: refused by name, with what to do."""
    path = tmp_path / "a.eval"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    assert refusal(tmp_path / "out", path) == "a.eval is a Git LFS pointer, not the log: fetch it with `git lfs pull`"
    eval_log(path, [sample(0)])
    path.write_bytes(path.read_bytes()[:-30])
    assert "a.eval is a damaged zip" in refusal(tmp_path / "out", path)
    eval_log(path, [])
    assert "it holds no sample (status success)" in refusal(tmp_path / "out", path)


# ---- Every Eval Ever ------------------------------------------------------------------------------------------------


def instance(n, correct, score=None, metric="acc", raw="question", model="org/m", **changed):
    row = {"schema_version": "0.3.0", "evaluation_id": "e", "model_id": model, "evaluation_name": "quiz", "evaluation_result_id": metric, "sample_id": str(n),
           "sample_hash": "h", "input": {"raw": f"{raw} {n}", "reference": ["B"], "choices": ["one", "two"]}, "output": {"raw": ["x"]},
           "answer_attribution": [{"extracted_value": "B"}], "evaluation": {"score": float(correct or 0) if score is None else score, "is_correct": correct},
           "metadata": {}, "error": None}  # fmt: skip
    return row | changed


def test_every_eval_ever(tmp_path):
    """One row a metric; the aggregate names revision and dtype; epochs stand only in the metadata."""
    rows = [
        instance(0, True, metadata={"epoch": "1"}),
        instance(0, False, metadata={"epoch": "2"}, answer_attribution=[{"extracted_value": "A"}]),
    ]
    (tmp_path / "x.json").write_text(json.dumps({"schema_version": "0.3.0", "model_info": {"id": "org/m", "additional_details": {"revision": "r", "dtype": "torch.float32"}},
                                                 "evaluation_results": [], "eval_library": {"name": "inspect", "version": "1"}}))  # fmt: skip
    (result, _skipped) = load(tmp_path / "out", write_lines(tmp_path / "x_samples.jsonl", rows), tmp_path)
    assert result.format == "every-eval-ever"
    assert [(a[0], a[1], a[2], a[3], a[5], a[6]) for a in answers(tmp_path / "out")] == [
        ("org/m@r", "quiz/main", "acc", 0, True, 1), ("org/m@r", "quiz/main", "acc", 1, False, 0)]  # fmt: skip


def test_every_eval_ever_scores(tmp_path):
    """is_correct may be null: then the score decides, if it is 0 or 1. A score in between is no grade, whatever is_correct says of it."""
    load(tmp_path / "out", write_lines(tmp_path / "a_samples.jsonl", [instance(0, None, 1.0), instance(1, None, 0.0)]))
    assert corrects(tmp_path / "out") == [True, False]
    log = write_lines(tmp_path / "b_samples.jsonl", [instance(0, True, 0.3), instance(1, False, 0.0)])
    assert "acc (values such as 0.3)" in refusal(tmp_path / "none", log)
    load(tmp_path / "bound", log, metrics=(Metric.parse("acc>=0.2"),))
    assert corrects(tmp_path / "bound") == [True, False]


def test_every_eval_ever_epochs_reduced(tmp_path):
    """Converted inspect logs carry the score reduced over epochs in every epoch's row: one replicate, not two that agree."""
    rows = [instance(n, True, metadata={"epoch": str(e)}) for e in (1, 2) for n in range(3)]
    (result,) = load(tmp_path / "out", write_lines(tmp_path / "x_samples.jsonl", rows))
    assert result.notes == ["acc: all 2 epochs carry one score an item (reduced by the converter): taken once"] and len(result.runs) == 1


def test_every_eval_ever_of_two_prompts(tmp_path):
    """Converted lm-eval logs hold the prompt: base and chat pair only by the source's doc_hash, when the user trusts it."""
    logs = [write_lines(tmp_path / f"{m}_samples.jsonl", [instance(n, True, raw=m, model=f"org/{m}", metadata={"prompt_hash": f"{m}{n}", "doc_hash": f"d{n}"})
            for n in range(3)]) for m in ("base", "chat")]  # fmt: skip
    for trust, common in ((False, 0), (True, 3)):
        load(tmp_path / f"out{trust}", *logs, trust_ids=trust)
        matches = (
            connect(tmp_path / f"out{trust}")
            .sql("SELECT scheme, n_common FROM item_matches('org/base@unknown', 'org/chat@unknown')")
            .fetchall()
        )
        assert matches == [("src" if trust else "prompt", common)]


# ---- OpenAI's solutions, tables -------------------------------------------------------------------------------------


def test_several_systems_in_a_row(tmp_path):
    """Each column with is_correct is a model; the answer behind '####' is the gold."""
    row = {
        "question": "q",
        "ground_truth": "1 + 1 = 2 #### 2",
        "small": {"is_correct": False, "solution": "3"},
        "large": {"is_correct": True, "solution": "2"},
    }
    (result,) = load(tmp_path / "out", write_lines(tmp_path / "solutions.jsonl", [row]))
    assert result.format == "openai-jsonl"
    assert [(a[0], a[2], a[5]) for a in answers(tmp_path / "out")] == [
        ("local/large@unknown", "is_correct", True),
        ("local/small@unknown", "is_correct", False),
    ]
    assert connect(tmp_path / "out").sql("SELECT gold FROM samples").fetchall() == [(["2"],)]


def test_a_table_with_a_mapping(tmp_path):
    """CSV with columns of any name: mapped on the command line; letters, empty cells and quoted newlines are read."""
    path = tmp_path / "t.csv"
    path.write_text('ask,a,b,right answer,said,ok\n"two\nlines",yes,no,A,B,False\nq2,yes,no,B,B,1\nq3,yes,no,A,,\n', encoding="utf-8")
    told = {"columns": {"question": "ask", "options": ["a", "b"], "gold": "right answer", "prediction": "said", "correct": "ok"}}
    (result,) = load(tmp_path / "out", path, model="org/m", task="quiz", **told)
    assert result.format == "table" and "columns: question=ask, options=a+b" in result.notes[0]
    found = (
        connect(tmp_path / "out")
        .sql("SELECT n_options, gold, predicted, correct, status FROM samples JOIN outcomes USING (item) ORDER BY correct NULLS LAST")
        .fetchall()
    )
    assert found == [(2, ["0"], 1, False, "ok"), (2, ["1"], 1, True, "ok"), (2, ["0"], None, None, "error")]
    assert connect(tmp_path / "out").sql("SELECT DISTINCT split_part(sample_key, ':', 1) FROM samples").fetchall() == [("qog",)]


def test_a_table_that_names_itself(tmp_path):
    """JSON Lines with the usual names: model, task, id, gold, prediction, correct, scores by letter; ids must be trusted."""
    rows = [{"item_id": f"i{n}", "task": "mmlu", "model_id": m, "gold": "B", "prediction": p, "correct": p == "B", "scores": {"A": -1.0, "B": -2.0, "C": -3.0}}
            for m, p in (("org/a", "A"), ("org/b", "C")) for n in range(2)]  # fmt: skip
    path = write_lines(tmp_path / "t.jsonl", rows)
    reason = refusal(tmp_path / "none", path)
    assert reason.startswith("t.jsonl:1: only ids to tell items apart by") and reason.endswith("--trust-ids")
    load(tmp_path / "out", path, trust_ids=True)
    con = connect(tmp_path / "out")
    assert con.sql("SELECT n00, d FROM transition_counts_of('org/a@unknown', 'org/b@unknown', ['pair'])").fetchall() == [(2, 2)]
    assert con.sql("SELECT DISTINCT n_options, gold FROM samples").fetchall() == [(3, ["1"])]


def test_a_parquet_table(tmp_path):
    """Parquet, with a dotted path into a struct and a replicate column."""
    rows = [
        {"model": "org/m", "task": "t", "prompt": f"p{n}", "meta": {"ok": right}, "replicate": r}
        for r, n, right in ((0, 0, True), (0, 1, False), (1, 0, False), (1, 1, False))
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    load(tmp_path / "out", tmp_path / "t.parquet", columns={"correct": "meta.ok"})
    assert [(a[2], a[3], a[5]) for a in sorted(answers(tmp_path / "out"), key=lambda a: a[3])].count(("meta.ok", 1, False)) == 2


@pytest.mark.parametrize("text, told, message", [
    ("question,gold,correct\nq,1,yes\n", {}, "t.csv: nothing says right or wrong: correct (values such as 'yes')"),
    ("question,gold,correct\nq,1,1\n", {"columns": {"gold": "truth"}}, "no column truth; there are question, gold, correct"),
    ("question,gold,correct\nq,1,1\n", {"columns": {"golds": "gold"}}, "no field golds; there are model"),
    ("question,gold,correct\nq,1,1,9\n", {}, "t.csv:2: wanted 3 cells as in the header"),
    ("question,options,gold,correct\nq,\"[\"\"a\"\",\"\"b\"\"]\",z,1\n", {}, "t.csv:2: gold 'z' is none of its 2 options"),
    ("x,correct\n1,1\n", {"columns": {"correct": "correct"}}, "a table without a column that says right or wrong, or that tells items apart"),
])  # fmt: skip
def test_bad_tables(tmp_path, text, told, message):
    """What was wanted, what was found, and where."""
    (tmp_path / "t.csv").write_text(text)
    assert message in refusal(tmp_path / "out", tmp_path / "t.csv", model="org/m", task="t", **told)
