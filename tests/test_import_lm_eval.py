"""lm-eval logs, record by record: what is read, what identifies an item, what is refused. Traps were seen in real files."""

import json
import math

import pytest
from logs_by_hand import answers, corrects, lm_log, lm_row, load, refusal, write_lines

from catalog import connect
from collect.importers.lm_eval import continuations, target_gold
from collect.importers.values import Mark, Metric, gold_indices, mark_of, option_named


def test_a_choice(tmp_path):
    """Model, task, setting, protocol, options, gold, prediction and scores of two scored items."""
    (result,) = load(tmp_path / "out", lm_log(tmp_path / "a", [lm_row(0), lm_row(1, 0.0, (-3.0, -1.0, -2.0))]))
    assert (result.format, result.state, result.notes) == ("lm-eval", "imported", [])
    model = "org/model@" + "a" * 40
    assert answers(tmp_path / "out") == [
        (model, "quiz/main", "acc", 0, "0", True, 0, "ok"), (model, "quiz/main", "acc", 0, "1", False, 1, "ok")]  # fmt: skip
    con = connect(tmp_path / "out")
    assert con.sql("SELECT DISTINCT answer, n_options, gold, split_part(sample_key, ':', 1) FROM samples").fetchall() == [
        ("choice", 3, ["0"], "doc")
    ]
    assert con.sql("SELECT scores FROM option_scores JOIN outcomes USING (run_id, item) WHERE predicted = 1").fetchall() == [
        ([-3.0, -1.0, -2.0],)
    ]
    assert con.sql("SELECT setting, prompt_style, shots, decoding, scoring, dtype, template FROM protocols").fetchall() == [
        ("acc", "quiz", 0, "scored", "acc", "float32", "none")]  # fmt: skip
    assert con.sql("SELECT engine, source, collected_at::VARCHAR FROM runs").fetchall() == [
        ("lm-eval hf", "lm-eval: samples_quiz_2026-01-02T03-04-05.000006.jsonl", "2026-01-02 03:04:05")]  # fmt: skip


def test_two_metrics_are_two_settings(tmp_path):
    """acc and acc_norm are never averaged: -4/3 a character is worse than -6/6, so they predict different options."""
    row = lm_row(0, 1.0, (-4.0, -6.0, -9.0), metrics=["acc", "acc_norm"], acc_norm=0.0)
    load(tmp_path / "out", lm_log(tmp_path / "a", [row]))
    assert [(a[2], a[5], a[6]) for a in answers(tmp_path / "out")] == [("acc", True, 0), ("acc_norm", False, 1)]


def test_key_order_and_order_of_rows_do_not_matter(tmp_path):
    """Equal documents logged with other key orders, other rows' order (8 ranks) and other stored hashes are the same items."""
    rows = [lm_row(n) for n in range(6)]
    turned = [lm_row(n, 0.0, (-3.0, -1.0, -2.0), doc_hash="other", doc=dict(reversed(rows[n]["doc"].items()))) for n in (0, 2, 4, 1, 3, 5)]
    load(tmp_path / "out", lm_log(tmp_path / "a", rows), lm_log(tmp_path / "b", turned, model="org/tuned"))
    con = connect(tmp_path / "out")
    assert con.sql("SELECT count(*) FROM itemsets").fetchall() == [(1,)]
    a, b = (row[0] for row in con.sql("SELECT model_id FROM models ORDER BY ALL").fetchall())
    assert con.execute("SELECT sum(n10), sum(n) FROM transition_counts_of($1, $2, ['pair'])", [a, b]).fetchall() == [(6, 6)]


def test_filters_are_settings(tmp_path):
    """Two rows per item with two filters: two settings of one item list; '[invalid]' is an answer that could not be read."""
    rows = []
    for n, strict in ((0, "[invalid]"), (1, "7")):
        for name, answer in (("strict-match", strict), ("flexible-extract", "7")):
            rows.append(lm_row(n, None, None, target="7", filter=name, metrics=["exact_match"], resps=[["... 7"]], filtered_resps=[answer],
                               doc={"question": f"q{n}", "answer": "7"}, exact_match=float(answer == "7")))  # fmt: skip
    load(tmp_path / "out", lm_log(tmp_path / "a", rows))
    assert [(a[2], a[4], a[5], a[7]) for a in answers(tmp_path / "out")] == [
        ("exact_match,flexible-extract", "0", True, "ok"), ("exact_match,flexible-extract", "1", True, "ok"),
        ("exact_match,strict-match", "0", False, "unparsed"), ("exact_match,strict-match", "1", True, "ok")]  # fmt: skip
    con = connect(tmp_path / "out")
    assert con.sql("SELECT count(*) FROM itemsets").fetchall() == [(1,)]
    assert con.sql("SELECT DISTINCT text FROM generations").fetchall() == [("... 7",)]
    load(tmp_path / "one", lm_log(tmp_path / "a", rows), metrics=(Metric.parse("exact_match,strict-match"),))
    assert corrects(tmp_path / "one") == [False, True]


def test_generated_letters_are_a_choice(tmp_path):
    """A generated letter whose doc lists the options keeps its number of options, gold and prediction."""
    row = lm_row(0, None, None, target="B", metrics=["exact_match"], exact_match=0.0, resps=[["so (C)"]], filtered_resps=["(C)"])
    load(tmp_path / "out", lm_log(tmp_path / "a", [row]))
    assert connect(tmp_path / "out").sql("SELECT answer, n_options, gold, predicted FROM samples JOIN outcomes USING (item)").fetchall() == [
        ("choice", 3, ["1"], 2)]  # fmt: skip


def test_values_are_read_as_what_they_are(tmp_path):
    """'True', '0.0', 1, False are right or wrong; NaN, Infinity, null and '' are not measured, never wrong."""
    values = ["True", "0.0", 1, False, math.nan, math.inf, None, ""]
    (result,) = load(tmp_path / "out", lm_log(tmp_path / "a", [lm_row(n, value, None) for n, value in enumerate(values)]))
    assert result.runs[0].n_measured == 4
    assert corrects(tmp_path / "out") == [True, False, True, False, None, None, None, None]
    reasons = connect(tmp_path / "out").sql("SELECT status, reason, count(*) FROM outcomes GROUP BY ALL ORDER BY ALL").fetchall()
    assert reasons == [("ok", None, 4), ("error", "not measured: empty", 1), ("error", "not measured: inf", 1),
                       ("error", "not measured: nan", 1), ("error", "not measured: null", 1)]  # fmt: skip


@pytest.mark.parametrize("value, number", [(True, 1.0), ("true", 1.0), ("False", 0.0), ("1", 1.0), ("0.25", 0.25), (0, 0.0)])
def test_numbers(value, number):
    """Booleans, numbers and their strings."""
    assert mark_of(value) == Mark(number)


def test_what_is_no_number():
    """A pair of texts, a list or a word is neither right, wrong nor missing."""
    assert mark_of("('no', 'no')").odd and mark_of([1, 0]).odd and mark_of("maybe").odd
    assert mark_of("NaN").missing == "NaN" and mark_of("None").number is None and mark_of("None").odd is None


def test_a_score_needs_a_threshold(tmp_path):
    """bleu_max is neither right nor wrong: left out with a note, refused when asked for, taken with a threshold."""
    rows = [lm_row(n, None, None, metrics=["bleu_acc", "bleu_max", "f1"], bleu_acc=n % 2, bleu_max=10.0 * n, f1=[0.5]) for n in range(3)]
    log = lm_log(tmp_path / "a", rows)
    (result,) = load(tmp_path / "out", log)
    assert result.notes == ["left out: bleu_max (not 0 or 1), f1 (no numbers)"]
    assert corrects(tmp_path / "out") == [False, True, False]
    reason = refusal(tmp_path / "asked", log, metrics=(Metric.parse("bleu_max"),))
    assert "bleu_max (values such as 10) is neither right nor wrong: give a threshold, as in --metric 'bleu_max>=0.5'" in reason
    load(tmp_path / "bound", log, metrics=(Metric.parse("bleu_max>=10"),))
    assert [(a[2], a[5]) for a in answers(tmp_path / "bound")] == [("bleu_max>=10", False), ("bleu_max>=10", True), ("bleu_max>=10", True)]
    assert "has no metric rouge; it has bleu_acc, bleu_max, f1" in refusal(tmp_path / "none", log, metrics=(Metric.parse("rouge"),))


def test_a_share_is_not_rounded(tmp_path):
    """acc = 0.5 (a mean over repeats) is refused, not rounded to right or wrong."""
    assert "acc (values such as 0.5)" in refusal(tmp_path / "out", lm_log(tmp_path / "a", [lm_row(0), lm_row(1, 0.5)]))


def test_repeats_are_replicates_where_answers_were_sampled(tmp_path):
    """Rows of one id and document again: replicates when sampled and equally often; the same words twice are one answer."""
    sampled = {"gen_args_0": {"arg_0": "p", "arg_1": {"do_sample": True, "temperature": 1.0}}}

    def row(n, right, arguments=sampled):
        return lm_row(n, None, None, metrics=["exact_match"], exact_match=right, resps=[["x"]], filtered_resps=["x"], arguments=arguments,
                      doc={"question": n}, target="x")  # fmt: skip

    load(tmp_path / "out", lm_log(tmp_path / "a", [row(0, 1.0), row(1, 0.0), row(1, 1.0), row(0, 1.0)]))
    assert [(a[3], a[4], a[5]) for a in answers(tmp_path / "out")] == [(0, "0", True), (0, "1", False), (1, "0", True), (1, "1", True)]
    greedy = {"gen_args_0": {"arg_0": "p", "arg_1": {"do_sample": False}}}
    twice = lm_log(tmp_path / "b", [row(0, 1.0, greedy), row(0, 1.0, greedy)])
    (result,) = load(tmp_path / "greedy", twice)
    assert result.notes == ["exact_match: 1 rows repeat an answer and were left out"]
    reason = refusal(tmp_path / "differ", lm_log(tmp_path / "c", [row(0, 1.0, greedy), row(0, 0.0, greedy)]))
    assert "1 items occur several times with different results (first: id 0)" in reason
    assert "--replicate 1: nothing was sampled (greedy)" in refusal(tmp_path / "told", twice, replicate=1)


def test_repeated_items_are_numbered_by_their_place(tmp_path):
    """Two ids with one document are two items, #0 and #1 by doc_id, whatever the order of the rows."""
    same = {"doc": {"question": "again", "choices": ["one", "three3", "two"], "answer": 0}}
    load(tmp_path / "out", lm_log(tmp_path / "a", [lm_row(5, 0.0, (-9.0, -1.0, -2.0), **same), lm_row(3, 1.0, **same)]))
    con = connect(tmp_path / "out")
    assert con.sql("SELECT sample_key[-2:], source_id, correct FROM samples JOIN outcomes USING (item) ORDER BY ALL").fetchall() == [
        ("#0", "3", True), ("#1", "5", False)]  # fmt: skip


def test_other_shapes_of_0_4(tmp_path):
    """Older files: arguments a list of lists, numbers instead of strings, no metrics column, no hashes, no results beside."""
    rows = [{"doc_id": 0, "doc": {"q": 0}, "target": 1, "arguments": [["p", " no"], ["p", " yes"]], "resps": [[[-2.0, False]], [[-1.0, True]]],
             "filtered_resps": [[-2.0, False], [-1.0, True]], "acc": 1.0}]  # fmt: skip
    path = write_lines(tmp_path / "org__model" / "samples_boolq_2026-01-02T03-04-05.000006.jsonl", rows)
    (result,) = load(tmp_path / "out", path)
    assert result.notes == ["the log names no model; from its folder: org/model@unknown (--model says it better)"]
    assert answers(tmp_path / "out") == [("org/model@unknown", "boolq/main", "acc", 0, "0", True, 1, "ok")]


@pytest.mark.parametrize("target, texts, gold", [
    ("2", ["7", "8", "2"], [2]), ("2", ["2", "8", "9"], [2]), (1, ["a", "b"], [1]), ("[0, 2]", ["a", "b", "c"], [0, 2]),
    ("['c', 'a']", ["a", "b", "c"], [0, 2]), ("yes", ["no", "yes"], [1]), ("a text that is no option", ["same", "same"], None), ("9", ["a", "b"], None),
])  # fmt: skip
def test_gold_of_a_target(target, texts, gold):
    """Digits are an index, as the harness reads them; a list is one as JSON or Python text; else the option's text. Never by the answer."""
    assert target_gold(target, texts) == gold


def test_gold_that_only_the_grade_tells(tmp_path):
    """winogrande logs a text that is no option: of two options the gold follows, and is no part of the item's identity."""
    for model, lls, acc in (("a", (-1.0, -2.0), 1.0), ("b", (-1.0, -2.0), None)):
        raw = lm_row(
            0,
            acc,
            lls,
            target="a rest of the sentence",
            arguments={"gen_args_0": {"arg_0": "p", "arg_1": " x"}, "gen_args_1": {"arg_0": "q", "arg_1": " x"}},
        )
        load(tmp_path / "out", lm_log(tmp_path / model, [raw, lm_row(1)], model=f"org/{model}"))
    con = connect(tmp_path / "out")
    assert con.sql("SELECT count(DISTINCT sample_key) FROM samples").fetchall() == [(2,)]
    assert con.sql("SELECT gold FROM samples WHERE source_id = '0'").fetchall() == [(["0"],)]


def test_continuations_without_the_delimiter():
    """Lengths are of the option, not of the space before it."""
    raw = {"arguments": {"gen_args_0": {"arg_0": "p", "arg_1": " one"}, "gen_args_1": {"arg_0": "p", "arg_1": "  two"}}}
    assert continuations(raw, {}) == ["one", " two"] and continuations(raw, {"target_delimiter": ""}) == [" one", "  two"]


def test_a_prediction_that_contradicts_the_grade_stays_unknown(tmp_path):
    """Where the harness graded by something else than the highest score, no option is claimed."""
    (result,) = load(tmp_path / "out", lm_log(tmp_path / "a", [lm_row(0, 0.0), lm_row(1)]))
    assert result.notes == ["acc: on 1 items the predicted option contradicts the grade; it is left unknown there"]
    assert [(a[5], a[6]) for a in answers(tmp_path / "out")] == [(False, None), (True, 0)]


def test_an_adapter_and_a_quantised_load_are_other_models(tmp_path):
    """pretrained names the base in all three logs; what was loaded beside it makes another model."""
    for name, model_args in (
        ("base", "pretrained=org/base"),
        ("tuned", "pretrained=org/base,peft=org/adapter"),
        ("small", "pretrained=org/base,load_in_4bit=True"),
    ):
        lm_log(tmp_path / name, [lm_row(0)], results={"config": {"model_args": model_args, "model_sha": "b" * 40}})
    load(tmp_path / "out", tmp_path / "base", tmp_path / "tuned", tmp_path / "small")
    models = connect(tmp_path / "out").sql("SELECT model_id, parents, quantisation FROM models ORDER BY ALL").fetchall()
    assert models == [("org/adapter@unknown", ["org/base@" + "b" * 40], None), ("org/base@" + "b" * 40, None, None),
                      ("org/base@" + "b" * 40 + "+load_in_4bit=True", None, "load_in_4bit=True")]  # fmt: skip


def test_results_that_claim_more_or_other(tmp_path):
    """A trimmed file, and one whose rows were edited, are said."""
    results = {
        "results": {"quiz": {"acc,none": 0.5}},
        "n-samples": {"quiz": {"original": 1319, "effective": 100}},
        "config": {"model_args": "pretrained=o/m"},
    }
    (result,) = load(tmp_path / "out", lm_log(tmp_path / "a", [lm_row(0), lm_row(1)], results=results))
    assert result.notes == ["acc: the results file speaks of 100 items, the log holds 2"]
    results["n-samples"]["quiz"]["effective"] = 2
    (result,) = load(tmp_path / "out2", lm_log(tmp_path / "b", [lm_row(0), lm_row(1)], results=results))
    assert result.notes == ["acc: the results file says 0.5000, the rows give 1.0000"]


def test_text_of_any_kind(tmp_path):
    """U+2028 ends no line; half a character is stored as a replacement; a BOM and a missing last newline do no harm."""
    row = lm_row(
        0,
        None,
        None,
        metrics=["exact_match"],
        exact_match=1.0,
        resps=[["a\u2028b \ud83d"]],
        filtered_resps=["x"],
        doc={"q": "\ud83d\u2028"},
        target="x",
    )
    path = lm_log(tmp_path / "a", [])
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(row, ensure_ascii=True).replace("\\u2028", "\u2028").encode())
    load(tmp_path / "out", path)
    assert connect(tmp_path / "out").sql("SELECT text FROM generations").fetchall() == [("a\u2028b ?",)]


def test_a_json_list_named_jsonl(tmp_path):
    """One JSON list is read element by element, whatever its name and layout."""
    path = lm_log(tmp_path / "a", [])
    for indent in (None, 1):
        path.write_text(json.dumps([lm_row(n) for n in range(3)], indent=indent))
        load(tmp_path / f"out{indent}", path)
        assert corrects(tmp_path / f"out{indent}") == [True] * 3
    path.write_text(json.dumps([lm_row(n) for n in range(3)])[:-40])
    assert "the JSON list is cut off or damaged after record 2" in refusal(tmp_path / "cut", path)


def test_long_lists_are_read_in_pieces(tmp_path, monkeypatch):
    """Elements that lie across two reads are whole."""
    monkeypatch.setattr("collect.importers.reading.CHUNK", 100)
    path = lm_log(tmp_path / "a", [])
    path.write_text(json.dumps([lm_row(n) | {"note": "é]},{[" * n} for n in range(20)], ensure_ascii=False), encoding="utf-8")
    load(tmp_path / "out", path)
    assert corrects(tmp_path / "out") == [True] * 20


def test_bad_records(tmp_path):
    """Refused with file and line, and a way on; --skip-bad leaves them out and counts them."""
    path = lm_log(tmp_path / "a", [lm_row(0), lm_row(1)])
    whole = path.read_text()
    path.write_text(whole + '{"doc_id": 2, "doc"')
    reason = refusal(tmp_path / "out", path)
    assert reason.startswith(f"{path.name}:3: cut off in the middle (a killed run?)") and reason.endswith("--skip-bad")
    (result,) = load(tmp_path / "skip", path, skip_bad=True)
    assert result.notes == ["1 records that are no JSON object were left out"] and result.runs[0].n_items == 2
    path.write_text(whole + json.dumps({"doc_id": 2, "resps": []}) + "\n" + "[1]\n")
    assert f"{path.name}:4: wanted a JSON object, found a list" in refusal(tmp_path / "out", path)
    path.write_text(whole + '{"resps": [], "doc": {}, "acc": 1.0}\n')
    assert "a record is not of the shape of lm-eval (KeyError: 'doc_id')" in refusal(tmp_path / "out", path)
    path.write_text("")
    assert refusal(tmp_path / "out", path) == f"{path.name} is empty"


def test_options():
    """A gold or an answer names an option by index, text or letter; where two readings differ, none."""
    options = ["Paris", "B", "Rome"]
    assert [option_named(v, options) for v in (2, "Rome", " (A) ", "C.", "1", 3, True, None, "x")] == [
        2,
        2,
        0,
        2,
        1,
        None,
        None,
        None,
        None,
    ]
    assert option_named("B", ["B", "A", "C"]) is None and option_named("B", options) == 1
    assert gold_indices([2, 0, 2], options) == [0, 2] and gold_indices([2, 9], options) is None and gold_indices([], options) is None


@pytest.mark.parametrize("text, metric", [("acc", Metric("acc")), (" f1 >= 0.5", Metric("f1", ">=", 0.5)), ("wer<=0.1", Metric("wer", "<=", 0.1)),
                                          ("exact_match,strict-match", Metric("exact_match,strict-match"))])  # fmt: skip
def test_metrics_told(text, metric):
    """A name, or a name with a threshold in either direction."""
    assert Metric.parse(text) == metric
