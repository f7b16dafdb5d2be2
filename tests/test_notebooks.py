"""Notebooks as they are committed: run from top to bottom, small, and saying no number that no checked cell shows.

That they still run and show the same is nbval's part: `pytest --nbval-lax notebooks`.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import nbformat
import pyarrow.parquet as pq
import pytest

import catalog
from catalog.__main__ import main

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
PUBLISHED_ONLY = ("08", "09")  # logs, and printed figures


def read(path):
    return nbformat.read(path, as_version=4)


def text_of(cell):
    """What a code cell printed."""
    return "".join(o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in cell.outputs)


def checked(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code" and "NBVAL_CHECK_OUTPUT" in cell.source]


def answer(notebook):
    """The sentences after the question, code spans and ids left out."""
    body = notebook.cells[0].source.split("\n", 1)[1]
    return re.sub(r"`[^`]*`|arXiv \S+|Qwen\S+|8 bits|table \d", "", body)


def test_nine_questions():
    assert [path.name[:2] for path in NOTEBOOKS] == [f"0{n}" for n in range(1, 10)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_as_committed(path):
    """Counted 1..n, no error, no path of a machine, small; a question first, three queries last, four checked cells at least."""
    notebook = read(path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not any(output.output_type == "error" for cell in code for output in cell.outputs)
    assert not re.search(r"/(home|root|tmp|Users|work)/|[A-Z]:\\\\", path.read_text(encoding="utf-8"))
    assert path.stat().st_size < 400_000
    assert re.match(rf"# {path.name[:2]} .+\?", notebook.cells[0].source)
    assert notebook.cells[-1].source.startswith("## Try") and len(tried(notebook)) == 3
    assert len(checked(notebook)) >= 4 and all(text_of(cell).strip() for cell in checked(notebook))
    assert all(text_of(cell).count("NULL") <= text_of(cell).count("│") / 4 for cell in checked(notebook))  # a query that finds nothing
    assert all(len(cell.source.splitlines()) <= 16 for cell in code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_number_of_the_answer_is_in_a_checked_cell(path):
    """A number in the answer that no checked cell shows could go stale unseen."""
    notebook = read(path)
    shown = {number for cell in checked(notebook) for number in NUMBER.findall(text_of(cell))}
    said = NUMBER.findall(answer(notebook))
    same = {form for number in shown for form in (number, number.removesuffix(".0"), number.lstrip("-"))}
    assert len(said) >= 2 and [number for number in said if number not in same] == []


def tried(notebook):
    """The three queries to try."""
    lines = notebook.cells[-1].source.split("```")[1].removeprefix("sql").strip().splitlines()
    return [line.split("--")[0].strip().rstrip(";") for line in lines]


def test_the_queries_to_try_run():
    con = catalog.connect()
    for path in NOTEBOOKS:
        for query in tried(read(path)):
            assert con.sql(query).columns, (path.name, query)


def test_copy_one_to_start_from(tmp_path, capsys):
    """catalog notebook: lists them, copies one by its number without outputs of ours lost; never over a file."""
    assert main(["notebook"]) == 0
    assert "03_noise_and_format" in capsys.readouterr().out
    assert main(["notebook", "03", str(tmp_path / "mine.ipynb")]) == 0
    assert read(tmp_path / "mine.ipynb").cells[0].source == read(NOTEBOOKS[2]).cells[0].source
    assert main(["notebook", "03", str(tmp_path / "mine.ipynb")]) == 1
    assert "is there already" in capsys.readouterr().err
    assert main(["notebook", "77", str(tmp_path)]) == 1
    assert "no notebook 77" in capsys.readouterr().err
    assert main(["notebook", "luck", str(tmp_path)]) == 0 and (tmp_path / "02_how_much_is_luck.ipynb").exists()


FLIP = """
    COPY (WITH chosen AS (
              SELECT o.*, CAST(s.gold[1] AS SMALLINT) AS gold, s.n_options, s.answer,
                     status IN ('ok', 'lenient') AND correct IS NOT NULL AND hash(concat_ws('|', o.run_id, o.item)) % 100 = 0 AS flip
              FROM read_parquet('{file}') AS o JOIN read_parquet('{data}/runs/*.parquet') USING (run_id)
              JOIN read_parquet('{data}/samples/*.parquet') AS s USING (itemset_id, item))
          SELECT run_id, item, if(flip, NOT correct, correct) AS correct,
                 CASE WHEN flip AND answer = 'choice' AND correct THEN CAST((gold + 1) % n_options AS SMALLINT)
                      WHEN flip AND answer = 'choice' THEN gold ELSE predicted END AS predicted, status, reason, n_tokens
          FROM chosen ORDER BY run_id, item)
    TO '{out}' (KV_METADATA {{schema_version: '1.0'}})"""


@pytest.mark.slow
def test_one_percent_of_flipped_answers_is_noticed(tmp_path):
    """A copy of the package whose data has 1% of its answers flipped, soundly: every notebook that reads it fails nbval."""
    shutil.copytree(ROOT / "catalog", tmp_path / "catalog")
    shutil.copy(ROOT / "schema.sql", tmp_path)
    data, n = tmp_path / "catalog" / "data", 0
    for path in data.glob("outcomes/*/*.parquet"):
        before = pq.read_table(path).sort_by([("run_id", "ascending"), ("item", "ascending")])
        duckdb.execute(FLIP.format(file=path, data=data, out=tmp_path / "flipped.parquet"))
        shutil.move(tmp_path / "flipped.parquet", path)
        n += sum(a != b for a, b in zip(before["correct"].to_pylist(), pq.read_table(path)["correct"].to_pylist(), strict=True))
    assert 0.007 < n / pq.ParquetDataset(data / "outcomes").read(columns=["run_id"]).num_rows < 0.013
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    for path in NOTEBOOKS:
        if not path.name.startswith(PUBLISHED_ONLY):
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval-lax", f"notebooks/{path.name}"]
            done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
            assert done.returncode == 1 and "mismatch" in done.stdout, (path.name, done.stdout[-500:])
