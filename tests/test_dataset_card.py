"""The card of a published dataset: what is in front, tables of any names, words that stay, snippets that run."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hub import Hub
from hub_repo import metadata_errors
from runs_by_hand import NAME, declare, send, write_runs

from catalog.errors import CatalogError
from collect.dataset_card import BEGIN, END, FRONT, SHOWN, CardFacts, card_text, cell

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # huggingface_hub's own call of its HTTP client


def facts(models: int = 2, tasks: int = 1, license_id: str | None = None, **files: int) -> CardFacts:
    """So many models that answered every task of ten items once."""
    rows: dict[str, list[dict[str, Any]]] = {
        "models": [{"model_id": f"org/m{n:04}@1", "family": None, "kind": "base", "n_params": 1000 * n} for n in range(models)],
        "tasks": [{"task_id": f"quiz/t{n:04}"} for n in range(tasks)],
        "categories": [{"map": "own", "task_id": "quiz/t0000", "category": "Rivers | <b>Lakes</b>"}],
        "itemsets": [{"itemset_id": f"i{n}", "task_id": f"quiz/t{n:04}", "n_items": 10} for n in range(tasks)],
        "protocols": [{"protocol_id": "p", "setting": "cot"}],
        "runs": [{"model_id": f"org/m{m:04}@1", "itemset_id": f"i{t}", "protocol_id": "p"} for m in range(models) for t in range(tasks)],
        "pairs": [{"regime": "tuning"}, {"regime": None}],
    }
    return CardFacts("org/name", rows, {"outcomes/a/b.parquet": 5_000, "runs/c.parquet": 100, "README.md": 1, **files}, license_id)


def front_of(text: str) -> dict[str, Any]:
    assert not metadata_errors(text)
    found: dict[str, Any] = yaml.safe_load(FRONT.match(text)[1])  # type: ignore[index]
    return found


def test_front_matter_names_every_table_that_has_files() -> None:
    front = front_of(card_text(facts(license_id="cc-by-4.0", **{"generations/d/e.parquet": 1})))
    assert front["configs"] == [
        {"config_name": "outcomes", "default": True, "data_files": "outcomes/**/*.parquet"},
        {"config_name": "runs", "data_files": "runs/**/*.parquet"},
        {"config_name": "generations", "data_files": "generations/**/*.parquet"},
    ]
    assert (front["license"], front["size_categories"], front["pretty_name"]) == ("cc-by-4.0", ["n<1K"], "name")


def test_tables_are_made_from_the_rows_and_cut() -> None:
    text = card_text(facts(SHOWN + 7, 2))
    assert f"{SHOWN + 7} models, 2 tasks, {2 * SHOWN + 14} runs, {20 * SHOWN + 140:,} answers, 2 declared pairs; 5.1 KB of Parquet" in text
    assert text.count("| org/m") == SHOWN and "\n\nand 7 more\n" in text
    assert "| org/m0003@1 |  | base | 3,000 | 2 |" in text
    assert f"| quiz/t0001 |  | 10 | {SHOWN + 7} |" in text
    assert r"| quiz/t0000 | Rivers \| &lt;b&gt;Lakes&lt;/b&gt; | 10 |" in text
    assert "| not told | 1 |\n| tuning | 1 |" in text
    assert "Generated texts: they quote the items" in text
    assert "Generated texts" not in card_text(facts(**{"generations/d/e.parquet": 1}))


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a|b", r"a\|b"), ("a\r\nb\tc", "a b c"), ("<script>&", "&lt;script&gt;&amp;"), ("[x](javascript:y)", r"\[x\](javascript:y)"), ("`a` *b*", r"\`a\` \*b\*"),
     ("__init__", r"\_\_init\_\_"), ("snake_case", "snake_case"), (f"{END}", "&lt;!-- your own words: end --&gt;"), ("\u202ea\x00b", "a b"), (None, "")],
)  # fmt: skip
def test_names_stay_names(name: str | None, shown: str) -> None:
    assert cell(name) == shown


def test_own_words_and_others_metadata_survive() -> None:
    first = card_text(facts())
    edited = first.replace(f"{BEGIN}\n", f"{BEGIN}\n## Read this\n\nThree | words.\n").replace(
        "pretty_name: name", "pretty_name: Ours\nlicense: mit\nlanguage: [en]"
    )
    edited = edited.replace("configs:\n", "configs:\n- config_name: theirs\n  data_files: x.csv\n").replace(
        "- evaluation\n", "- evaluation\n- mine\n"
    )
    again = card_text(facts(3), edited)
    assert "## Read this\n\nThree | words.\n" in again and "3 models" in again
    front = front_of(again)
    assert (front["pretty_name"], front["license"], front["language"]) == ("Ours", "mit", ["en"])
    assert "mine" in front["tags"] and front["configs"][-1] == {"config_name": "theirs", "data_files": "x.csv"}
    assert card_text(facts(3), again) == again
    assert card_text(facts(), card_text(facts())) == first
    assert front_of(card_text(facts(license_id="apache-2.0"), again))["license"] == "apache-2.0"
    with pytest.raises(CatalogError, match=r"the YAML in front of README.md of org/name cannot be read"):
        card_text(facts(), "---\na: [\n---\n")
    theirs = card_text(facts(), "---\nlicense: mit\n---\n# Somebody's own card\n")
    assert "# Somebody's own card" in theirs and front_of(theirs)["license"] == "mit" and card_text(facts(), theirs) == theirs
    with pytest.raises(CatalogError, match="has only one of"):
        card_text(facts(), again.replace(END, ""))


def snippets(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.S)


@pytest.mark.slow
def test_snippets_run(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """DuckDB and Polars as the card on the Hub says."""
    assert send(declare(write_runs(tmp_path / "runs"))) == 0
    capsys.readouterr()
    for code in snippets(hub.files(NAME)["README.md"].decode()):
        if "polars" in code:
            pytest.importorskip("polars")
        if "load_dataset" not in code:
            exec(compile(code, "README.md", "exec"), {})
    out = capsys.readouterr().out
    assert "org/a@1" in out and "org/b@1" in out
    assert re.search(r"ok\W+10\b", out)


@pytest.mark.slow
def test_datasets_loads_every_configuration(hub: Hub, tmp_path: Path) -> None:
    """Its snippet, then every configuration, whole and streamed, in a process that knows the Hub by its environment."""
    runs = declare(write_runs(tmp_path / "runs", scored=True))
    write_runs(runs)
    assert send(runs, "--with-text") == 0
    [code] = [code for code in snippets(hub.files(NAME)["README.md"].decode()) if "load_dataset" in code]
    code += f"""
from datasets import get_dataset_config_names
assert (outcomes.num_rows, len(list(runs))) == (20, 4)
for name in get_dataset_config_names("{NAME}"):
    whole = load_dataset("{NAME}", name, split="train")
    assert whole.to_list() == list(load_dataset("{NAME}", name, split="train", streaming=True)), name
    print(name, whole.num_rows)
assert load_dataset("{NAME}", split="train").num_rows == 20
"""
    environment = os.environ | hub.environment(tmp_path / "hf")
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    rows = dict(line.split() for line in run.stdout.splitlines())
    assert rows == {"outcomes": "20", "models": "2", "tasks": "1", "categories": "1", "itemsets": "1", "protocols": "2", "runs": "4", "pairs": "1",
                    "samples": "5", "option_scores": "10", "generations": "10"}  # fmt: skip
