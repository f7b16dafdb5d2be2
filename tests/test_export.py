"""`catalog export`, read back by `collect import`: the same catalog, in both formats; what a foreign reader sees."""

import json
import re
from functools import cache

import duckdb
import pytest
from models import DEMO

from catalog import CatalogError, connect
from catalog.__main__ import EXPORTS, main
from catalog.export import FORMATS, OWN, OWN_RUN, Wanted, chosen
from catalog.identity import itemset_id_of, protocol_id_of, run_id_of
from catalog.open import LARGE_TABLES, SHIPPED, SMALL_TABLES, load, schema_sql
from catalog.sources import Place
from collect.__main__ import main as collect
from collect.importers import Told, lm_eval
from collect.store import write_run

MODEL = "we|rd org/näme: 7b?@rév 1/x"
A, B, C, D = (f"{scheme}:{digit * 32}" for scheme, digit in (("qog", "f"), ("doc", "0"), ("prompt", "7"), ("qog", "3")))
ITEMS = [  # a limit kept the second of two equal items; equal items under one id; the order is not that of the keys
    (f"{A}#1", "choice", 4, ["2"], "id 1"), (f"{B}#0", "choice", 2, ["0"], "7"), (f"{B}#1", "choice", 2, ["0"], "7"),
    (f"{C}#0", "multi", 5, ["0", "2"], None), (f"{D}#0", "free", None, ["42", "forty\u2028two"], "q"), (f"{D}#4", "choice", 30, ["29"], "r"),
]  # fmt: skip
SCORED = [  # correct, predicted, status, reason, n_tokens, scores, text
    (False, 0, "ok", None, 8, [-0.1, -1 / 3, -2e-17, -1e300], None), (True, 0, "ok", None, 2, [-0.0, float("-inf")], None),
    (None, None, "error", "CUDA out of memory", None, None, None), (True, 2, "ok", None, 5, [-1.0, -2.0, -0.5, -4.0, -5.0], None),
    (False, None, "ok", None, None, None, None), (True, 29, "ok", None, 30, [-30.0 + n for n in range(30)], None),
]  # fmt: skip
GENERATED = [
    (True, 2, "lenient", "last-letter", 12, None, "so\u2028it is 🦊 C\n\x00"), (False, None, "truncated", "no answer", 99, None, "and so on"),
    (False, None, "unparsed", None, 0, None, ""), (False, None, "ok", "answer-is", 3, None, "A"), (None, None, "error", None, None, None, None),
    (None, None, "error", "timeout", None, None, "half a"),
]  # fmt: skip
PROTOCOLS = {
    "scored": {
        "setting": "text: norm",
        "decoding": "scored",
        "scoring": "per-byte",
        "shots": 0,
        "dtype": "float32",
        "option_order": "shuffled",
    },
    "same name": {"setting": "text norm", "decoding": "scored", "scoring": "sum", "option_order": "shuffled"},
    "generated": {"setting": "cot/é", "decoding": "sampled", "temperature": 1, "top_p": 0.95, "stop": ["\n\n"], "max_new_tokens": 64},
    "unknown": {"setting": "acc,none", "details": '{"harness": "x"}'},
}


def write(out, protocol, answers, replicate, items=ITEMS, task_id="odd|bench/sub task"):
    """One run in a catalog folder; returns its id."""
    keys = [key for key, *_ in items]
    itemset_id, protocol_id = itemset_id_of(task_id, keys), protocol_id_of(PROTOCOLS[protocol])
    run_id = run_id_of(MODEL, itemset_id, protocol_id, replicate)
    benchmark, subset = task_id.split("/")
    card = {
        "models": [{"model_id": MODEL, "kind": "base", "n_params": 7, "parents": ["a/b@1", "c/d@2"]}],
        "tasks": [{"task_id": task_id, "benchmark": benchmark, "subset": subset, "behavioural": False}],
        "itemsets": [{"itemset_id": itemset_id, "task_id": task_id, "n_items": len(items), "split": "test", "permutation_seed": 3}],
        "protocols": [{"protocol_id": protocol_id, **PROTOCOLS[protocol]}],
        "runs": [{"run_id": run_id, "model_id": MODEL, "itemset_id": itemset_id, "protocol_id": protocol_id, "replicate": replicate,
                  "rng_seed": 2**62, "engine": "x", "versions": "no json", "wall_s": 0.1, "contributor": "Zoë",
                  "collected_at": "2026-03-01 12:00:00.000001" if replicate else None}],
    }  # fmt: skip
    samples = [
        dict(zip(("sample_key", "answer", "n_options", "gold", "source_id"), row, strict=True)) | {"item": n, "itemset_id": itemset_id}
        for n, row in enumerate(items)
    ]
    names = ("correct", "predicted", "status", "reason", "n_tokens", "scores", "text")
    rows = [{"item": n} | dict(zip(names, row, strict=True)) for n, row in enumerate(answers)]
    tables = {"option_scores": [r for r in rows if r["scores"]], "generations": [r for r in rows if r["text"] is not None]}
    write_run(out, card, samples, {name: held for name, held in tables.items() if held} | {"outcomes": rows})
    return run_id


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A catalog folder with what is rare: see ITEMS, SCORED, GENERATED; names that fall together; a run of errors only."""
    out = tmp_path_factory.mktemp("odd")
    for replicate in (0, 1):
        write(out, "scored", SCORED, replicate)
        write(out, "generated", GENERATED, replicate)
    write(out, "same name", SCORED[:3], 1, ITEMS[:3])
    write(out, "scored", SCORED[1:3], 0, ITEMS[1:3])  # another list of the same task
    write(out, "unknown", [(None, None, "error", "no GPU", None, None, None)], 0, ITEMS[:1], "odd/errors")
    return out


@pytest.fixture(autouse=True)
def opened_once(monkeypatch):
    """`catalog` opens a catalog once for all tests here: opening is most of their time."""
    monkeypatch.setattr("catalog.open.connect", CONNECTED)


CONNECTED = cache(connect)


def export(*args, capsys=None):
    """`catalog export`; returns the exit status, or what it says."""
    status = main(["export", *map(str, args)])
    return status if capsys is None else (status, capsys.readouterr().err)


def tables_of(folder):
    """The stored tables of a catalog folder, without the views."""
    con = duckdb.connect()
    con.execute(schema_sql().split("-- ==== 2.")[0])
    load(con, [Place(folder.name, folder)])
    return con


def back(folder, out):
    """The tables that `collect import` makes of an export."""
    assert collect(["import", str(folder), "--out", str(out), "--jobs", "1"]) == 0
    return tables_of(out)


def differences(one, other, left_out=()):
    """Rows of every stored table that only one of two catalogs has; every value as its whole text."""
    found = []
    for table in (*SMALL_TABLES, *LARGE_TABLES):
        rows = f"SELECT COLUMNS(*)::VARCHAR FROM {table}"
        one.register("theirs", other.sql(rows).to_arrow_table())
        for query in (f"({rows}) EXCEPT ALL FROM theirs", f"FROM theirs EXCEPT ALL ({rows})"):
            found += [(table, row) for row in one.sql(query).fetchall() if table not in left_out]
        one.unregister("theirs")
    return found


def test_the_command_knows_the_formats():
    """The command line names them without importing the module."""
    assert EXPORTS == FORMATS


@pytest.mark.parametrize("kind", FORMATS)
def test_odd_catalog_and_back(odd, tmp_path, kind):
    """Everything stored comes back as it was: EXCEPT is empty both ways in every table."""
    assert export(MODEL, "--from", odd, "--format", kind, "--out", tmp_path / "logs") == 0
    again = back(tmp_path / "logs", tmp_path / "runs")
    assert differences(tables_of(odd), again) == []
    assert again.sql("SELECT count(*), count(DISTINCT run_id) FROM outcomes").fetchall() == [(4 * 6 + 3 + 2 + 1, 7)]
    assert kind == "lm-eval" or connect(tmp_path / "runs")  # sound


@pytest.mark.parametrize("kind", FORMATS)
def test_shipped_catalog_and_back(tmp_path, kind):
    """Scored and generated runs of the shipped catalog, with the text of its items; texts change no identity."""
    args = ("small-base", "--task", "world/diets", "--setting", "cot", "option-text-*", "--replicate", "0", "--format", kind)
    assert export(*args, "--items", DEMO / "items.jsonl", "--out", tmp_path / "logs") == 0
    again, shipped = back(tmp_path / "logs", tmp_path / "runs"), tables_of(SHIPPED)
    (run_ids,) = again.sql("SELECT list(run_id) FROM runs").fetchall()[0]
    for table in ("runs", "outcomes", "option_scores"):
        shipped.execute(f"DELETE FROM {table} WHERE run_id NOT IN (SELECT unnest($1::BIGINT[]))", [run_ids])
    for table, key in (("models", "model_id"), ("itemsets", "itemset_id"), ("protocols", "protocol_id")):
        shipped.execute(f"DELETE FROM {table} WHERE {key} NOT IN (SELECT {key} FROM runs)")
    shipped.execute("DELETE FROM samples WHERE itemset_id NOT IN (FROM (SELECT itemset_id FROM itemsets)); DELETE FROM pairs")
    shipped.execute("DELETE FROM tasks WHERE task_id NOT IN (SELECT task_id FROM itemsets)")
    shipped.execute("DELETE FROM categories WHERE task_id NOT IN (SELECT task_id FROM tasks) AND map <> 'paper'")
    assert differences(shipped, again) == []
    found = "SELECT decoding, count(*), count(*) FILTER (status = 'unparsed') > 0 FROM outcomes JOIN runs USING (run_id) JOIN protocols USING (protocol_id) GROUP BY ALL ORDER BY ALL"
    assert again.sql(found).fetchall() == [("sampled", 36, True), ("scored", 72, False)]


def lines(folder, pattern):
    """Every line of an export's files as an object, by file; JSON as others read it, without NaN or Infinity."""
    strict = {"parse_constant": lambda name: pytest.fail(f"{name} is no JSON")}
    return {path: [json.loads(line, **strict) for line in path.read_text("utf-8").splitlines()] for path in sorted(folder.rglob(pattern))}


def test_every_eval_ever_as_others_read_it(odd, tmp_path):
    """Fields of the format and their types; metadata is text; aggregate and instances are joined by ids and checksum."""
    assert export(MODEL, "--from", odd, "--out", tmp_path) == 0
    files = lines(tmp_path, "*_samples.jsonl")
    assert len(files) == 7
    for path, rows in files.items():
        aggregate = json.loads(path.with_name(path.name.replace("_samples.jsonl", ".json")).read_text())
        assert aggregate["detailed_evaluation_results"]["file_path"] == f"data/{path.relative_to(tmp_path).as_posix()}"
        assert aggregate["detailed_evaluation_results"]["total_rows"] == len(rows) and "no benchmark text" in json.dumps(aggregate)
        assert path.parent.relative_to(tmp_path).parts[1:] == ("we-rd-org", "näme-7b-")
        for n, row in enumerate(rows):
            assert set(row) == {
                "schema_version", "evaluation_id", "model_id", "evaluation_name", "evaluation_result_id", "sample_id", "sample_hash", "interaction_type",
                "input", "output", "messages", "answer_attribution", "evaluation", "token_usage", "performance", "error", "metadata",
            }  # fmt: skip
            assert (
                row["evaluation_id"] == aggregate["evaluation_id"]
                and row["model_id"] == aggregate["model_info"]["id"] == "we|rd org/näme: 7b?"
            )
            assert isinstance(row["evaluation"]["is_correct"], bool) and isinstance(row["evaluation"]["score"], float)
            assert all(isinstance(value, str) for value in row["metadata"].values()) and (OWN_RUN in row["metadata"]) == (n == 0)
            assert all(isinstance(text, str) for text in row["output"]["raw"] + row["input"]["reference"] + (row["input"]["choices"] or []))
            own = json.loads(row["metadata"][OWN])
            assert row["input"]["raw"] == own["sample_key"] and (row["error"] is None) == (own["status"] != "error")
    by_metric = {rows[0]["evaluation_result_id"] for rows in files.values()}
    assert by_metric == {"acc", "acc_norm", "exact_match"}


def test_lm_eval_as_others_read_it(odd, tmp_path):
    """Fields of the harness; option scores as strings; one results file a folder that knows every samples file."""
    assert export(MODEL, "--from", odd, "--format", "lm-eval", "--out", tmp_path) == 0
    files = lines(tmp_path, "samples_*.jsonl")
    scored, same = (protocol_id_of(PROTOCOLS[name])[:8] for name in ("scored", "same name"))
    folders = ["acc,none-r0", "cot_é-r0", "cot_é-r1", f"text-norm-{scored}-r0", f"text-norm-{scored}-r1", f"text-norm-{same}-r1"]
    assert sorted(path.name for path in tmp_path.glob("we-rd-org__näme-7b-/*")) == sorted(folders)
    for path, rows in files.items():
        time = path.stem.rpartition("_")[2]
        results = json.loads(path.with_name(f"results_{time}.json").read_text())
        task = path.stem.removeprefix("samples_").removesuffix(f"_{time}")
        assert (
            results["n-samples"][task]["effective"] == len(rows) and task in results["configs"] and "no benchmark text" in results["note"]
        )
        metric = rows[0]["metrics"][0]
        graded = [row[metric] for row in rows if row[metric] is not None]
        assert results["results"][task][f"{metric},none"] == (pytest.approx(sum(graded) / len(graded)) if graded else None)
        for n, row in enumerate(rows):
            assert set(row) == {
                "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash", "prompt_hash", "target_hash", metric,
            }  # fmt: skip
            assert row["doc_id"] == n and row[metric] in (0.0, 1.0, None) and OWN in row["doc"] and (OWN_RUN in row["doc"]) == (n == 0)
    pairs = [pair for rows in files.values() for row in rows if row["metrics"] == ["acc_norm"] for pair in row["filtered_resps"]]
    assert ["-inf", "False"] in pairs and ["-0.3333333333333333", "False"] in pairs


@pytest.mark.parametrize("kind", FORMATS)
def test_twice_changes_nothing(odd, tmp_path, capsys, kind):
    """The second export leaves every file; a file that differs is not overwritten; no part stays."""
    args = (MODEL, "--from", odd, "--format", kind, "--out", tmp_path / "logs")
    assert export(*args) == 0
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "logs").rglob("*") if path.is_file()}
    capsys.readouterr()
    status, said = export(*args, capsys=capsys)
    assert (
        status == 0
        and f"exported 7 runs, 30 answers, into {len(before)} files" in said
        and f"{len(before)} of them were there already" in said
    )
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "logs").rglob("*") if path.is_file()} == before
    changed = min(before)
    changed.write_bytes(b"mine")
    status, said = export(*args, capsys=capsys)
    assert status == 1 and "is there with other content: choose another --out" in said
    assert changed.read_bytes() == b"mine" and not list(tmp_path.rglob("*.part"))


def edit_card(table, **values):
    """Change a row of the run's card."""

    def change(rows):
        rows[0]["doc"][OWN_RUN][table][0] |= values
        return rows

    return change


def edit_row(n, **values):
    """Change what an item says under OWN."""

    def change(rows):
        rows[n]["doc"][OWN] |= values
        return rows

    return change


def regrade(rows):
    """Turn the grade of an unparsed answer."""
    return [row | {"exact_match": 1.0} if row["doc"][OWN]["status"] == "unparsed" else row for row in rows]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (edit_card("protocols", temperature=0.5), "wanted protocol_id"),
        (edit_card("runs", replicate=3), "wanted run_id"),
        (edit_card("models", model_id="local/other@1"), "wanted run_id"),
        (edit_card("itemsets", task_id="odd/other"), "wanted itemset_id "),
        (edit_card("itemsets", task_id=7), "damaged"),
        (lambda rows: rows[:-1], " of 6 items, as the card of its run says, found "),
        (lambda rows: rows[1:], "wanted the card of the run with its first item"),
        (lambda rows: rows + rows[-1:], " of 7: the file was changed"),
        (edit_row(1, sample_key=f"{A}#0"), "wanted itemset_id"),
        (edit_row(1, status="ok", predicted=0), "contradicts"),
        (edit_row(1, gold=7, predicted="x"), "damaged"),
        (regrade, "contradicts status unparsed"),
        (lambda rows: [rows[0], rows[1] | {"doc": {"id": "7"}}], "wanted an item of the export"),
        (lambda rows: [rows[0] | {"doc": {**rows[0]["doc"], OWN_RUN: {"schema_version": "9.0"}}}, *rows[1:]], "schema_version 9.0"),
    ],
)  # fmt: skip
def test_a_changed_export_is_refused(odd, tmp_path, change, message):
    """Ids are computed again: a card, an item or a grade that was changed is refused, naming the file."""
    assert export(MODEL, "--from", odd, "--format", "lm-eval", "--setting", "cot*", "--replicate", "0", "--out", tmp_path / "logs") == 0
    path = next((tmp_path / "logs").rglob("samples_*.jsonl"))
    path.write_text("".join(json.dumps(row) + "\n" for row in change([json.loads(line) for line in path.read_text().splitlines()])))
    log = lm_eval.open_log(path, Told(), lambda _: None)
    with pytest.raises(CatalogError, match=re.escape(message)) as error:
        assert list(log.rows) and log.about("", "")
    assert path.name in str(error.value)


def test_a_changed_card_of_every_eval_ever_is_refused(tmp_path, capsys):
    """The same in the other format, where the card is text."""
    assert export("small-base", "--task", "world/seas", "--setting", "cot", "--replicate", "1", "--out", tmp_path / "logs") == 0
    path = next((tmp_path / "logs").rglob("*_samples.jsonl"))
    path.write_text(path.read_text().replace('\\"shots\\": 2', '\\"shots\\": 3'))
    assert collect(["import", str(path), "--out", str(tmp_path / "runs"), "--jobs", "1"]) == 1
    assert "wanted protocol_id a3d025687debd34d of 36 items, as the card of its run says, found " in capsys.readouterr().err
    assert not list((tmp_path / "runs").rglob("*.parquet"))


def test_what_was_asked_for_is_not_there(odd, tmp_path, capsys):
    """A model, a task or a setting that is not there: what there is is listed; --out is a file."""
    out = ("--out", tmp_path / "x")
    assert "no model smal-base in the catalog" in export("smal-base", *out, capsys=capsys)[1]
    status, said = export("small-base", "--task", "world/seas", "world/sees", *out, capsys=capsys)
    assert (
        status == 1
        and "fits world/sees. It has\n  cot, replicate 0, 1, 2: world/beds, " in said
        and "option-text-sum, replicate 0:" in said
    )
    assert "fits all that was asked for" in export("small-base", "--replicate", "7", *out, capsys=capsys)[1]
    (tmp_path / "x").write_text("")
    assert "is a file: --out wants a folder" in export("small-base", *out, capsys=capsys)[1]
    assert "cannot write" in export("small-base", "--out", tmp_path / "x" / "y", capsys=capsys)[1]


def test_patterns_choose_runs():
    """A benchmark, a task, a pattern; tasks and settings both have to fit."""
    con = CONNECTED()
    model = con.sql("SELECT model_id FROM models WHERE model_id LIKE 'local/small-base@%'").fetchall()[0][0]
    for wanted, n in (
        (Wanted(), 53), (Wanted(["world"]), 53), (Wanted(["world/s*"], ["cot"], 1), 3), (Wanted(["world/seas", "world/beds"], ["option*"]), 4),
    ):  # fmt: skip
        assert len(chosen(con, model, wanted)) == n


def test_text_comes_from_the_users_items(tmp_path, capsys):
    """Question and options are filled in where key and task agree; what is missing is said."""
    items = (DEMO / "items.jsonl").read_text().splitlines()
    (tmp_path / "some.jsonl").write_text("\n".join(line for line in items if '"diets"' in line) + "\n")
    args = ("small-base", "--task", "world/diets", "world/seas", "--setting", "option-text-sum", "--items", tmp_path / "some.jsonl")
    assert "text of 36 of 72 items filled in" in export(*args, "--out", tmp_path / "eee", capsys=capsys)[1]
    assert export(*args, "--format", "lm-eval", "--out", tmp_path / "lm") == 0
    first = json.loads(next(line for line in items if '"diets"' in line))
    row = next(iter(lines(tmp_path / "eee" / "world_diets", "*.jsonl").values()))[0]
    assert row["input"]["raw"] == first["question"] and row["input"]["choices"] == first["choices"]
    assert row["input"]["reference"] == [first["answer"]]
    row = next(iter(lines(tmp_path / "lm", "samples_world_diets_*.jsonl").values()))[0]
    assert row["doc"]["question"] == first["question"] and row["arguments"]["gen_args_1"]["arg_1"] == f" {first['choices'][1]}"
    assert row["target"] == str(first["answer_index"])
