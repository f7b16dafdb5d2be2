"""README and docs: every SQL block runs and prints what stands under it; every command named exists."""

import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from catalog.__main__ import main, parser
from collect.__main__ import parser as collect_parser

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
README = (ROOT / "README.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```\n+```text\n(.*?)```", README, re.S)


def words(text):
    """Cells of a printed table, spacing aside."""
    return text.split()


@pytest.mark.parametrize("sql, printed", QUERIES)
def test_readme_queries(sql, printed, capsys):
    """The shipped catalog answers as the README says."""
    assert main(["query", sql.strip(), "--format", "table"]) == 0
    assert words(capsys.readouterr().out) == words(printed)


def test_readme_has_a_query():
    """The first screen shows a question, a query and its answer."""
    assert QUERIES and README.index("```sql") < 2500


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_parse(page):
    """Every `catalog ...` and `collect ...` line of a code block is understood by the parser."""
    blocks = re.findall(r"```(?:console|sh)?\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    lines = [line.split("#")[0].removeprefix("$ ").strip() for block in blocks for line in block.splitlines()]
    for line in lines:
        for name, make in (("catalog", parser), ("collect", collect_parser)):
            if line.startswith(f"{name} "):
                make().parse_args(shlex.split(line)[1:])


def test_readme_python_blocks_run():
    """The Python of the README runs as it stands."""
    for block in re.findall(r"```python\n(.*?)```", README, re.S):
        exec(compile(block, "README.md", "exec"), {})


def test_make_targets_exist():
    """Every `make x` named in a page is a target."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in PAGES:
        for target in re.findall(r"(?m)(?:^|`)make ([a-z-]+)", page.read_text(encoding="utf-8")):
            assert re.search(rf"^{target}:", makefile, re.M), (page.name, target)


def test_views_listed_in_the_readme_exist(con):
    """The README's list of views names only what is there."""
    listed = set(re.findall(r"^\| `(\w+)`", README, re.M))
    there = {name for (name,) in con.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal UNION ALL SELECT table_name FROM duckdb_tables() "
                                         "UNION ALL SELECT function_name FROM duckdb_functions() WHERE NOT internal").fetchall()}  # fmt: skip
    assert listed and listed <= there


@pytest.mark.slow
def test_wheel(tmp_path):
    """The wheel carries schema.sql, the shipped catalog and the demo; it opens without the checkout, without torch."""
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)], check=True)
    [wheel] = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"catalog/schema.sql", "collect/demo/items.jsonl", "collect/demo/demo.toml"} <= set(names)
    assert any(n.startswith("catalog/data/outcomes/") for n in names) and any(n.endswith("large-base/model.safetensors") for n in names)
    assert not any(n.startswith(("tests/", "build/", ".")) for n in names)
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "import sys, catalog; print(catalog.connect().sql('FROM pair_metrics').fetchall() != [], catalog.__file__, 'torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "site", capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["True", str(tmp_path / "site" / "catalog" / "__init__.py"), "False"]
