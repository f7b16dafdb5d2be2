"""The `catalog` command on the shipped catalog: what it prints, what it says when asked for what is not there."""

import csv
import io
import json
import os
import pty
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from models import DEMO

from catalog.__main__ import main, parser
from collect.__main__ import parser as collect_parser


def test_every_command_has_help(capsys):
    """The first line of help says what a command does; every option says what it is for."""
    for top in (parser(), collect_parser()):
        commands = next(a for a in top._actions if hasattr(a, "choices") and isinstance(a.choices, dict)).choices
        for name, p in commands.items():
            assert p.description and p.description[0].isupper() and p.description.endswith("."), name
    for call in (["--help"], ["compare", "--help"]):
        with pytest.raises(SystemExit) as stop:
            main(call)
        assert stop.value.code == 0
    assert "examples:" in capsys.readouterr().out


def test_wrong_usage_is_2():
    """No command, or one that is not there."""
    for call in ([], ["forget"], ["query"]):
        with pytest.raises(SystemExit) as stop:
            main(call)
        assert stop.value.code == 2


def test_tables(capsys):
    """Every view with its meaning; the columns of one."""
    assert main(["tables"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {"outcomes", "pair_metrics", "integrity"} < {r["name"] for r in rows} and all(r["meaning"] for r in rows)
    assert "forgetting(before_model, after_model)" in {r["name"] for r in rows}
    assert main(["tables", "outcomes"]) == 0
    said = capsys.readouterr().out
    assert "NULL is not measured" in said and [line.split(",")[0] for line in said.splitlines()[1:3]] == [
        "run_id",
        "item",
    ]  # in the table's order
    assert main(["tables", "nothing"]) == 1


def test_query_formats(capsys, tmp_path):
    """CSV in a pipe, JSON, Parquet into a file, a table when asked."""
    sql = "SELECT kind, count(*) AS n FROM models GROUP BY kind ORDER BY kind"
    assert main(["query", sql]) == 0
    assert capsys.readouterr().out.splitlines() == ["kind,n", "base,3", "domain,7", "instruct,3", "merged,2"]
    assert main(["query", sql, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0] == {"kind": "base", "n": 3}
    assert main(["query", sql, "--format", "parquet", "--out", str(tmp_path / "a.parquet")]) == 0
    assert pq.read_table(tmp_path / "a.parquet").to_pylist()[0] == {"kind": "base", "n": 3}
    command = [sys.executable, "-m", "catalog", "query", sql, "--format", "parquet"]
    piped = subprocess.run(command, capture_output=True, check=True).stdout
    assert pq.read_table(io.BytesIO(piped)).num_rows == 4
    assert main(["query", sql, "--format", "table"]) == 0
    assert "kind" in capsys.readouterr().out


def test_a_terminal_gets_a_table():
    """On a terminal the same command prints a table, not CSV."""
    main_end, command_end = pty.openpty()
    command = [sys.executable, "-m", "catalog", "query", "SELECT 'x' AS a, 1.5 AS b"]
    subprocess.run(command, stdout=command_end, check=True, env={**os.environ, "TERM": "dumb"})
    os.close(command_end)
    out = os.read(main_end, 10_000).decode()
    assert "a" in out and "1.5" in out and "," not in out


@pytest.mark.parametrize(
    ("sql", "message"),
    [("SELEC 1", "SQL: Parser Error"), ("SELECT nothing FROM outcomes", 'Referenced column "nothing"'), ("FROM no_view", "no_view"), ("SELECT 1/'a'", "SQL: Conversion Error")],
)  # fmt: skip
def test_bad_sql(capsys, sql, message):
    """DuckDB's own words, and where to look; exit status 1, no traceback."""
    assert main(["query", sql]) == 1
    err = capsys.readouterr().err
    assert message in err and "catalog tables" in err


def test_unknown_model_names_the_near_ones(capsys):
    """A typing error is answered with the models near it; a part that fits several with all of them."""
    assert main(["compare", "large-bse", "large-domain"]) == 1
    err = capsys.readouterr().err
    assert (
        "no model large-bse in the catalog (15 models). Near it:" in err and "local/large-base@" in err.split("Near it:")[1].splitlines()[1]
    )
    assert main(["compare", "large-base", "large-base"]) == 1
    assert "the same model" in capsys.readouterr().err
    assert main(["compare", "large-base", "large-domain", "--map", "mine"]) == 1
    assert "no map mine; there are paper, own, benchmark" in capsys.readouterr().err
    assert main(["compare", "large-base", "large-domain", "--map", "paper"]) == 1
    assert "map paper sorts none of the tasks of these models; own, benchmark does" in capsys.readouterr().err


def test_brackets_in_data_and_bad_out(capsys, tmp_path):
    """Text in brackets is data; a place that cannot be written is an error."""
    assert main(["query", "SELECT '[bold]x[/foo]' AS a", "--format", "table"]) == 0
    assert "[bold]x[/foo]" in capsys.readouterr().out
    assert main(["query", "SELECT 1", "--out", str(tmp_path / "no" / "x.csv")]) == 1
    assert main(["query", "SELECT 1", "--out", str(tmp_path)]) == 1
    assert "cannot write" in capsys.readouterr().err


def test_compare(capsys):
    """CSV rows of `forgetting` in a pipe; with --text one block per setting and the assumptions."""
    assert main(["compare", "large-base", "large-domain"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {r["setting"] for r in rows} == {"cot", "option-text-norm", "option-text-sum"} and {r["map"] for r in rows} == {"own"}
    assert main(["compare", "large-base", "large-domain", "--text"]) == 0
    out = capsys.readouterr().out
    for wanted in (
        "cot (3 replicates)",
        "option-text-norm (1 replicate)",
        "exch-x",
        "exch?",
        "latent?",
        "free-x",
        "assumes that errors",
        "net p",
    ):
        assert wanted in out, wanted


def test_compare_prints_forgotten_items(capsys):
    """The catalog holds no text: it comes from the user's own files, matched by identity."""
    assert main(["compare", "large-base", "large-domain", "--text", "--items", str(DEMO / "items.jsonl"), "--limit", "3"]) == 0
    out = capsys.readouterr().out
    assert "forgotten items are in the given files; the first 3" in out and "  gold " in out and out.count("forgotten in ") == 3


def test_compare_with_other_items(capsys, tmp_path):
    """Files of other items are said to be so."""
    (tmp_path / "o.jsonl").write_text(
        '{"task": "world", "subset": "diets", "item_id": "1", "question": "?", "choices": ["a", "b"], "answer_index": 0}\n'
    )
    assert main(["compare", "large-base", "large-domain", "--text", "--items", str(tmp_path / "o.jsonl")]) == 1
    assert "give the files the runs were collected on" in capsys.readouterr().err


def test_nothing_in_common(fill, con, tmp_path):
    """Two models asked different items are refused with the reason, little overlap is warned about."""
    from catalog.compare import warnings_of
    from catalog.errors import CatalogError

    fill.task("x/t", [4] * 4, names=list("abcd"))
    fill.answers("A", "x/t", "0000")
    fill.task("x/t", [4] * 4, names=list("cdef"))
    fill.answers("B", "x/t", "0000")
    fill.task("x/t", [4] * 2, names=list("yz"))
    fill.answers("C", "x/t", "00")
    fill.task("x/u", [4])
    fill.answers("D", "x/u", "0")
    assert warnings_of(con, "A", "B") == ["s, x/t: only 2 items are common to the 4 before and the 4 after"]
    with pytest.raises(CatalogError, match=r"cannot be paired: x/t .s.: 0 items in common of 4 and 2"):
        warnings_of(con, "A", "C")
    fill.task("x/v", [4] * 10)
    fill.answers("A", "x/v", "0000000000")
    fill.answers("B", "x/v", "0000000---")
    fill.task("x/w", [4])
    fill.answers("B", "x/w", "0")
    assert warnings_of(con, "A", "B")[1:] == [
        "s, x/v: 3 answers measured before only, 0 after only, 7 on both sides",
        "s, x/w: only B was asked",
    ]
    with pytest.raises(CatalogError, match=r"share no task under one setting. A has x/t \(s\), x/v \(s\); D has x/u \(s\)"):
        warnings_of(con, "A", "D")


def test_pairs_and_check(capsys, tmp_path):
    """Declared pairs; a sound catalog is 0, a missing one 1."""
    assert main(["pairs"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    trained = {f"{s}-base -> {s}-{k}" for s in ("small", "medium", "large") for k in ("domain", "instruct")}
    assert trained < {r["pair_id"] for r in rows} and len({r["pair_id"] for r in rows}) == 12
    assert main(["check"]) == 0
    assert "sound: " in capsys.readouterr().err
    assert main(["check", "--from", str(tmp_path)]) == 1


def test_check_counts_and_gives_examples(tmp_path, capsys):
    """Each kind of fault once, with how many and three examples; --all lists every one; an odd map is a note, no fault."""
    import shutil

    import pyarrow as pa
    import pyarrow.parquet as pq

    from catalog.open import SCHEMA_VERSION, SHIPPED, arrow_schema

    shutil.copytree(SHIPPED, tmp_path / "bad")
    file = next((tmp_path / "bad" / "outcomes").rglob("*.parquet"))
    rows = pq.read_table(file).to_pylist()
    rows += rows[:5]
    metadata = {"schema_version": SCHEMA_VERSION}
    pq.write_table(pa.Table.from_pylist(rows, arrow_schema("outcomes").with_metadata(metadata)), file)
    odd = [{"map": "mine", "task_id": "no/such", "category": "X"}]
    pq.write_table(
        pa.Table.from_pylist(odd, arrow_schema("categories").with_metadata(metadata)), tmp_path / "bad" / "categories" / "mine.parquet"
    )
    assert main(["check", "--from", str(tmp_path / "bad")]) == 1
    said = capsys.readouterr()
    (row,) = csv.DictReader(io.StringIO(said.out))
    assert (row["problem"], row["n"], row["examples"].count("outcomes: run")) == ("more than one row", "5", 3)
    assert (
        "5 faults; every one: catalog check --all" in said.err and "note: map mine sorts 1 tasks that no run was asked: no/such" in said.err
    )
    assert main(["check", "--all", "--from", str(tmp_path / "bad")]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 6
    assert main(["compare", "large-base", "large-domain", "--from", str(tmp_path / "bad")]) == 1
    assert "fails integrity" in capsys.readouterr().err


def test_help_is_quick_to_import():
    """`catalog --help` loads neither DuckDB nor pyarrow; nothing of catalog/ loads torch."""
    code = "import sys; from catalog.__main__ import parser; parser(); print([m for m in ('duckdb', 'pyarrow', 'rich', 'torch') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.slow
def test_the_cached_schema_is_the_schema(tmp_path, monkeypatch):
    """What is copied from the cache is what executing schema.sql makes; without a cache, or with a broken one, it is executed."""
    import duckdb

    from catalog.open import blank, fill, template

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    executed = duckdb.connect()
    fill(executed)
    columns = "SELECT table_name, column_name, data_type, comment FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"
    others = """SELECT function_name, comment, parameters::VARCHAR FROM duckdb_functions() WHERE NOT internal
                UNION ALL SELECT view_name, comment, NULL FROM duckdb_views() WHERE NOT internal ORDER BY ALL"""
    wanted = [executed.sql(query).fetchall() for query in (columns, others)]
    assert [blank().sql(query).fetchall() for query in (columns, others)] == wanted
    assert template().parent == tmp_path / "forgetting-catalog" and not list(tmp_path.rglob("*.part"))
    template().write_bytes(b"no database")
    con = blank()
    assert [con.sql(query).fetchall() for query in (columns, others)] == wanted
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    con = blank()
    assert [con.sql(query).fetchall() for query in (columns, others)] == wanted
