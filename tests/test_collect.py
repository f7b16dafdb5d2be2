"""`collect run` end to end on shipped checkpoints: files, resume, and what bad input says. Nothing half-written."""

import errno
import json
import re
import shutil

import pyarrow.parquet as pq
import pytest
from models import DEMO

from catalog import CatalogError, connect
from collect import store
from collect.__main__ import main
from collect.models import ModelSpec, locate

SMALL, CHAT = DEMO / "models" / "small-base", DEMO / "models" / "small-instruct"
TASKS = ["--tasks", "world/provinces", "world/sums"]


def run(out, *more, models=(SMALL,)):
    """`collect run` with few items; returns the exit status."""
    return main(["run", "--models", *map(str, models), "--limit", "6", "--out", str(out), *more])


def parts(out):
    """Files left over from an unfinished write."""
    return [p for p in out.rglob("*") if p.name.endswith(".part")]


def test_run_then_again(tmp_path, capfd):
    """Two ways of scoring, three replicates of generation; a sound catalog; a second call does nothing and says so."""
    out = tmp_path / "runs"
    args = ["--protocol", "option-text", "cot", "--answer-with", "texts", "--max-new-tokens", "12", "--replicates", "3", *TASKS]
    assert run(out, *args, models=(SMALL, CHAT)) == 0
    con = connect(out)
    found = con.sql("SELECT setting, task_id, count(*), count(DISTINCT replicate) FROM run_facts GROUP BY ALL ORDER BY ALL").fetchall()
    assert found == [
        ("cot", "world/provinces", 6, 3),
        ("cot", "world/sums", 6, 3),
        ("option-text-norm", "world/provinces", 2, 1),
        ("option-text-sum", "world/provinces", 2, 1),
    ]
    assert con.sql("SELECT count(*) FROM outcomes").fetchall()[0][0] == 16 * 6
    assert con.sql(
        "SELECT kind, n_params > 0, regexp_full_match(model_id, 'local/small-(base|instruct)@[0-9a-f]{12}') FROM models ORDER BY ALL"
    ).fetchall() == [("base", True, True), ("instruct", True, True)]
    assert con.sql("SELECT count(*), count(DISTINCT sample_key) FROM samples").fetchall()[0] == (12, 12)
    before = {p: p.stat().st_mtime_ns for p in out.rglob("*.parquet")}
    capfd.readouterr()
    assert run(out, *args, models=(SMALL, CHAT)) == 0
    assert "nothing to do: all 16 runs are in" in capfd.readouterr().err
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*.parquet")} == before and not parts(out)
    assert not any(str(tmp_path).encode() in p.read_bytes() or b"/collect/demo" in p.read_bytes() for p in out.rglob("*.parquet"))


def test_predictions_go_back_to_published_order(tmp_path):
    """With options shuffled by replicate, scores are stored in published order: letters of the same content."""
    for order in ("published", "shuffled"):
        assert (
            run(tmp_path / order, "--protocol", "option-letter", "--option-order", order, "--replicates", "2", "--tasks", "world/provinces")
            == 0
        )
    con = connect(tmp_path / "published", tmp_path / "shuffled")
    assert con.sql("SELECT option_order, count(*) FROM runs JOIN protocols USING (protocol_id) GROUP BY ALL ORDER BY ALL").fetchall() == [
        ("published", 1),
        ("shuffled", 2),
    ]
    wrong = con.sql(
        "SELECT count(*) FROM option_scores JOIN outcomes USING (run_id, item) WHERE predicted <> list_position(scores, list_max(scores)) - 1"
    ).fetchall()
    assert wrong == [(0,)]
    assert con.sql("SELECT count(DISTINCT scores) FROM option_scores WHERE item = 0").fetchall()[0][0] == 3


def test_gold_always_first_is_shuffled(tmp_path):
    """A task whose gold always stands first is never shown in that order."""
    rows = [
        {"task": "t", "item_id": str(i), "question": f"Which province is {i}?", "choices": ["a", "b", "c"], "answer_index": 0}
        for i in range(20)
    ]
    (tmp_path / "i.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    out = tmp_path / "runs"
    assert (
        main(["run", "--models", str(SMALL), "--items", str(tmp_path / "i.jsonl"), "--protocol", "option-letter", "--out", str(out)]) == 0
    )
    assert connect(out).sql("SELECT DISTINCT option_order FROM protocols").fetchall() == [("shuffled",)]


def test_interrupted_then_resumed(tmp_path, monkeypatch, capfd):
    """Ctrl-C after the third run file: whole runs stay, nothing half-written, the same command ends the work."""
    out, real, count = tmp_path / "runs", store.write_table, []

    def third(path, table, rows, card=None):
        count.append(table)
        if count.count("outcomes") == 3:
            raise KeyboardInterrupt
        real(path, table, rows, card)

    monkeypatch.setattr(store, "write_table", third)
    assert run(out) == 130
    assert "The same command goes on from here" in capfd.readouterr().err
    kept = {p: p.stat().st_mtime_ns for p in out.rglob("outcomes/*/*.parquet")}
    assert len(kept) == 2 and not parts(out)
    connect(out)
    monkeypatch.setattr(store, "write_table", real)
    assert run(out) == 0
    after = {p: p.stat().st_mtime_ns for p in out.rglob("outcomes/*/*.parquet")}
    assert len(after) > 2 and kept.items() <= after.items()
    connect(out)


def test_out_that_cannot_be_a_folder(tmp_path):
    """What to do is said, not that nothing was there to be removed."""
    (tmp_path / "file").touch()
    with pytest.raises(CatalogError, match=r"cannot write .*Not a directory"):
        store.write_table(tmp_path / "file" / "models" / "models.parquet", "models", [])


def test_full_disk(tmp_path, monkeypatch, capfd):
    """No space left: an error that says so, no part file, whole runs kept."""
    out, real = tmp_path / "runs", store.write_parquet

    def full(data, path, metadata):
        if "outcomes" in str(path):
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        real(data, path, metadata)

    monkeypatch.setattr(store, "write_parquet", full)
    assert run(out) == 1
    assert "the disk is full. Nothing is half-written" in capfd.readouterr().err
    assert not parts(out) and not list(out.rglob("outcomes/*/*.parquet"))
    monkeypatch.setattr(store, "write_parquet", real)
    assert run(out) == 0


def test_other_schema_version(tmp_path, capfd):
    """A folder written under another major version is neither read nor added to."""
    out = tmp_path / "runs"
    assert run(out, "--tasks", "world/provinces") == 0
    path = next(out.rglob("outcomes/*/*.parquet"))
    store.write_parquet(pq.read_table(path).replace_schema_metadata(None), path, {"schema_version": "2.0"})
    size = sum(1 for _ in out.rglob("*"))
    assert run(out, "--tasks", "world/provinces") == 1
    message = capfd.readouterr().err
    assert "has schema_version 2.0, this package reads 1.x" in message and "pip install --upgrade forgetting-catalog" in message
    assert sum(1 for _ in out.rglob("*")) == size
    with pytest.raises(CatalogError, match=r"schema_version 2.0"):
        connect(out)


def test_damaged_file_is_named(tmp_path):
    """A file that is no Parquet, and one with a column missing."""
    out = tmp_path / "runs"
    assert run(out, "--tasks", "world/provinces") == 0
    path = next(out.rglob("samples/*.parquet"))
    good = path.read_bytes()
    path.write_bytes(good[:100])
    with pytest.raises(CatalogError, match=rf"{path.name} cannot be read as Parquet"):
        connect(out)
    path.write_bytes(good)
    store.write_parquet(pq.read_table(path).drop_columns(["gold"]), path, {"schema_version": "1.0"})
    with pytest.raises(CatalogError, match=r"is not a file of samples: no column gold"):
        connect(out)


@pytest.mark.parametrize(
    ("remove", "add", "message"),
    [
        (("*.safetensors",), None, r"has no weights: wanted \*.safetensors"),
        (("*.safetensors",), "pytorch_model.bin", r"weights only as pickle \(pytorch_model.bin\), which can run code"),
        (("tokenizer*",), None, r"has no tokenizer: save it beside the weights"),
        (("config.json",), None, r"has no config.json"),
    ],
)
def test_bad_model_folder(tmp_path, remove, add, message):
    """What a model folder lacks is said before anything is loaded."""
    folder = shutil.copytree(SMALL, tmp_path / "model")
    for pattern in remove:
        for path in folder.glob(pattern):
            path.unlink()
    if add:
        (folder / add).write_bytes(b"\x80\x04")
    with pytest.raises(CatalogError, match=message):
        locate(ModelSpec(str(folder)))


def test_model_that_is_not_there(tmp_path, capfd, monkeypatch):
    """A path that does not exist; a Hub name that cannot be reached."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert run(tmp_path / "r", models=(tmp_path / "nowhere",)) == 1
    assert "no model at" in capfd.readouterr().err
    assert run(tmp_path / "r", models=("org/does-not-exist",)) == 1
    assert "the Hub gave no model of that name" in capfd.readouterr().err


def test_model_identity_is_its_weights(tmp_path):
    """The name in front, the weights behind the @; another copy of the same weights is the same model."""
    copy = shutil.copytree(SMALL, tmp_path / "small-base")
    assert locate(ModelSpec(str(copy))).model_id == locate(ModelSpec(str(SMALL))).model_id
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x07")
    assert locate(ModelSpec(str(copy))).model_id != locate(ModelSpec(str(SMALL))).model_id
    assert locate(ModelSpec(str(copy), model_id="me/mine@1")).model_id == "me/mine@1"


def test_needs_a_chat_template(tmp_path, capfd):
    """A base model asked through a template it lacks."""
    assert run(tmp_path / "r", "--protocol", "cot", "--template", "model") == 1
    assert "wants a chat template and" in capfd.readouterr().err and not (tmp_path / "r" / "outcomes").exists()


def test_a_template_that_refuses(tmp_path, capfd):
    """A chat template that does not take a lone user's message is named, before anything is written."""
    copy = shutil.copytree(CHAT, tmp_path / "small-instruct")
    (copy / "chat_template.jinja").write_text("{{ raise_exception('a system message first') }}")
    assert run(tmp_path / "r", "--protocol", "cot", "--tasks", "world/sums", models=(copy,)) == 1
    said = capfd.readouterr().err
    assert "does not take a user's message (a system message first)" in said and not list(tmp_path.glob("r/**/*.parquet"))


@pytest.mark.parametrize("style", ["option-text", "option-letter", "cot"])
def test_too_long_is_recorded_not_wrong(tmp_path, style):
    """An item beyond the model's context: status error with both lengths, correct NULL; its neighbour is measured."""
    path = items_file(tmp_path / "i.jsonl", {"question": "Which? " * 600}, {"question": "Which?"})
    args = ["--protocol", style, "--shots", "0", "--max-new-tokens", "3", "--items", str(path), "--out", str(tmp_path / "r")]
    assert main(["run", "--models", str(SMALL), *args]) == 0
    con = connect(tmp_path / "r")
    (*long, why), (*short, _) = con.sql(
        "SELECT DISTINCT item, correct IS NULL, status = 'error', reason FROM outcomes ORDER BY 1"
    ).fetchall()
    assert long == [0, True, True] and short == [1, False, False] and re.fullmatch(r"\d+ tokens, the model reads 512", why)


def test_empty_answer_is_unread(tmp_path):
    """Nothing generated: counted with the unreadable answers (format loss), and the reason says that it was empty."""
    copy = shutil.copytree(SMALL, tmp_path / "m")
    args = ["--protocol", "cot", "--stop", " ", "a", "e", "i", "o", "--max-new-tokens", "40", "--tasks", "world/sums", "--temperature", "0"]
    assert run(tmp_path / "r", *args, models=(copy,)) == 0
    con = connect(tmp_path / "r")
    rows = con.sql("SELECT text, correct, predicted, status, reason FROM outcomes JOIN generations USING (run_id, item)").fetchall()
    assert set(rows) == {("", False, None, "unparsed", "empty answer")}


def test_same_weights_other_template_is_a_conflict(tmp_path, capfd):
    """The run is there, but was asked through another chat template: said, not skipped."""
    copy = shutil.copytree(CHAT, tmp_path / "small-instruct")
    args = ("--protocol", "cot", "--answer-with", "texts", "--max-new-tokens", "4", "--tasks", "world/sums")
    assert run(tmp_path / "r", *args, models=(copy,)) == 0
    template = copy / "chat_template.jinja"
    template.write_text(template.read_text() + " ")
    assert run(tmp_path / "r", *args, models=(copy,)) == 1
    assert "with another chat template" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("", "wanted [[models]]"),
        ("[[models]\n", "is not TOML"),
        ("modles = 1\n", "unknown key modles; known are items"),
        (
            '[[models]]\nname = "a"\npath = "x"\n[[pairs]]\nbefore = "a"\nafter = "b"\n',
            "[[pairs]] names b, which is not among the models: a",
        ),
        ('[[models]]\nname = "a"\n', "wants either path or hub"),
        ('[[models]]\npath = "x"\n[[protocols]]\ntemprature = 1\n', "unknown key temprature"),
        ('limit = "x"\n', "limit = 'x'; wanted a whole number"),
        ('limit = 0\n[[models]]\npath = "x"\n', "limit is 0: wanted 1 item"),
        ('tasks = "arc"\n', "tasks = 'arc'; wanted a list of texts"),
        ('skip_bad = "no"\n', "wanted true or false"),
        ('[[models]]\npath = "x"\nfamily = 3\n', "family = 3; wanted a text"),
        ('[[models]]\npath = "x"\n[[protocols]]\ntemperature = "hot"\n', "wanted a number"),
        ('[[models]]\npath = "x"\n[[protocols]]\nreplicates = 1.5\n', "wanted a whole number"),
        ("models = 3\n", "wanted tables in double brackets"),
    ],
)
def test_bad_plan(tmp_path, capfd, plan, message):
    """A plan that is not understood is refused whole."""
    (tmp_path / "plan.toml").write_text(plan)
    assert main(["run", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "r")]) == 1
    assert message in capfd.readouterr().err and not (tmp_path / "r").exists()


def test_plan_with_pairs(tmp_path):
    """Models, pairs and protocols from one TOML file; pairs are declared by the models' names."""
    plan = f"""
        tasks = ["world/provinces"]
        limit = 6
        [[models]]
        name = "b"
        path = "{SMALL}"
        family = "world-small"
        [[models]]
        name = "c"
        path = "{CHAT}"
        [[pairs]]
        before = "b"
        after = "c"
        regime = "instruction tuning"
        data_tokens = 1000
    """
    (tmp_path / "plan.toml").write_text("\n".join(line.strip() for line in plan.splitlines()))
    assert main(["run", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "r")]) == 0
    con = connect(tmp_path / "r")
    assert con.sql("SELECT pair_id, regime, data_tokens FROM pairs").fetchall() == [("b -> c", "instruction tuning", 1000)]
    assert con.sql("SELECT count(*) FROM pair_metrics WHERE map = 'own'").fetchall() == [(2,)]
    assert con.sql("SELECT family FROM models WHERE kind = 'base'").fetchall() == [("world-small",)]


def test_no_such_task_and_no_models(tmp_path, capfd):
    """What there is is named."""
    assert run(tmp_path / "r", "--tasks", "nothing") == 1
    assert "no task fits nothing; the items have world/" in capfd.readouterr().err
    assert main(["run"]) == 1
    assert "nothing to run: give a plan" in capfd.readouterr().err


def test_compact_is_the_same_catalog(tmp_path):
    """Few files, the same rows but for generated texts; a folder that is not empty is refused."""
    out, packed = tmp_path / "runs", tmp_path / "packed"
    assert run(out, "--protocol", "option-text", "cot", "--max-new-tokens", "4", *TASKS) == 0
    assert main(["compact", str(out), "--out", str(packed)]) == 0
    a, b = connect(out), connect(packed)
    for table in ("models", "tasks", "categories", "itemsets", "samples", "protocols", "runs", "outcomes", "option_scores"):
        assert a.sql(f"FROM {table} ORDER BY ALL").fetchall() == b.sql(f"FROM {table} ORDER BY ALL").fetchall(), table
    assert len(list(packed.rglob("*.parquet"))) < len(list(out.rglob("*.parquet")))
    assert main(["compact", str(out), "--out", str(packed)]) == 1


def items_file(path, *rows):
    """Three items of task t with changes."""
    lines = [
        {"task": "t", "item_id": str(i), "question": f"Which {i}?", "choices": ["a", "b", "c"], "answer_index": i % 3, **row}
        for i, row in enumerate(rows)
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return path


def test_bad_before_anything_is_asked(tmp_path, capfd):
    """Categories that contradict, values of another type, nothing that can be scored: said before inference, nothing written."""
    for rows, message in (
        (({"category": "A"}, {"category": "B"}), "task t/main has items of 2 categories (A, B)"),
        (({"category": 5},), "category must be text"),
        (({"choices": [], "answer_index": None, "answer": "x"},), "options cannot be scored in tasks with free-form items (t/main)"),
    ):
        out = tmp_path / "r"
        path = items_file(tmp_path / "i.jsonl", *rows)
        assert main(["run", "--models", str(SMALL), "--items", str(path), "--out", str(out)]) == 1
        assert message in capfd.readouterr().err and not out.exists()
    assert (
        items_file(tmp_path / "z.jsonl", {"item_id": 0})
        and main(["run", "--models", str(SMALL), "--items", str(tmp_path / "z.jsonl"), "--out", str(tmp_path / "z")]) == 0
    )


def test_one_way_of_asking_has_one_setting(tmp_path, capfd):
    """The setting is no part of a protocol's id: a second name for it is refused, the folder stays sound."""
    plan = '[[models]]\npath = "{}"\n[[protocols]]\nstyle = "option-letter"\nsetting = "{}"\n'
    for number, (name, task) in enumerate((("one", "world/provinces"), ("two", "world/seas"))):
        (tmp_path / "p.toml").write_text(f'tasks = ["{task}"]\nlimit = 3\n' + plan.format(SMALL, name))
        assert main(["run", str(tmp_path / "p.toml"), "--out", str(tmp_path / "r")]) == number
    assert "is called 'one' and 'two'" in capfd.readouterr().err
    connect(tmp_path / "r")


def test_same_items_told_differently_open_together(tmp_path):
    """The same items under other ids and another source are the same itemset: two folders open together."""
    for name, told in (("a", {}), ("b", {"source": "elsewhere", "item_id": "x"})):
        assert (
            main(
                ["run", "--models", str(SMALL), "--items", str(items_file(tmp_path / f"{name}.jsonl", told)), "--out", str(tmp_path / name)]
            )
            == 0
        )
    assert connect(tmp_path / "a", tmp_path / "b").sql("SELECT count(*) FROM samples").fetchall() == [(1,)]


def test_pair_with_itself(tmp_path, capfd):
    """Two names of the same weights are no pair."""
    copy = shutil.copytree(SMALL, tmp_path / "small-base")
    models = "".join(f'[[models]]\nname = "small-base{n}"\nid = "me/x@1"\npath = "{p}"\n' for n, p in enumerate((SMALL, copy)))
    (tmp_path / "p.toml").write_text(models + '[[pairs]]\nbefore = "small-base0"\nafter = "small-base1"\n')
    assert main(["run", str(tmp_path / "p.toml"), "--out", str(tmp_path / "r")]) == 1
    assert "are the same weights (me/x@1)" in capfd.readouterr().err


def test_plan_and_options_exclude_each_other(capfd):
    """An option a plan would ignore is refused."""
    assert main(["run", str(DEMO / "demo.toml"), "--replicates", "5", "--temperature", "0"]) == 1
    assert "leave away --temperature, --replicates" in capfd.readouterr().err


def test_names_hold_dots(tmp_path):
    """Qwen2.5-0.5B is not Qwen2.5-0; a path with an equals sign is a path."""
    copy = shutil.copytree(SMALL, tmp_path / "lr=1" / "Qwen2.5-0.5B")
    from collect.config import model_from_argument

    assert locate(model_from_argument(str(copy))).model_id.startswith("local/Qwen2.5-0.5B@")
    assert locate(model_from_argument(f"me/mine@1={copy}")).model_id == "me/mine@1"


def test_every_run_has_its_own_seed(tmp_path):
    """A run's random numbers are its own, whatever is asked beside it: the stored seed is the id of the run that the first rules read."""
    out = tmp_path / "r"
    assert run(out, "--protocol", "cot", "--max-new-tokens", "2", "--extraction", "1", *TASKS) == 0
    assert connect(out).sql("SELECT count(DISTINCT rng_seed), count(*) FROM runs WHERE rng_seed = run_id").fetchall() == [(2, 2)]


def test_a_later_run_that_says_less_takes_nothing_away(tmp_path):
    """What a plan told of a model stays when a later call tells nothing; what it tells anew replaces it."""
    text = '[[models]]\npath = "{}"\n{}\n'
    for task, told in (("provinces", 'family = "f"\nlineage = "l"\nkind = "domain"'), ("seas", 'lineage = "m"')):
        (tmp_path / "p.toml").write_text(f'tasks = ["world/{task}"]\nlimit = 3\n' + text.format(SMALL, told))
        assert main(["run", str(tmp_path / "p.toml"), "--out", str(tmp_path / "r")]) == 0
    assert connect(tmp_path / "r").sql("SELECT family, lineage, kind FROM models").fetchall() == [("f", "m", "domain")]


def test_positions_cost_next_to_nothing_on_disk(tmp_path):
    """`item` counts up and is stored as differences; every value of every column comes back."""
    rows = [{"run_id": 7, "item": n, "correct": n % 3 == 0, "status": "ok", "n_tokens": n % 50} for n in range(100_000)]
    path = tmp_path / "a.parquet"
    store.write_table(path, "outcomes", rows)
    column = pq.read_metadata(path).row_group(0).column(1)
    assert column.path_in_schema == "item" and column.total_compressed_size < 5_000
    back = pq.read_table(path).to_pylist()
    assert [{name: row[name] for name in rows[0]} for row in back] == rows
