"""The card of a published dataset: README.md with what the Hub reads in front, and tables made from the rows."""

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.errors import CatalogError
from catalog.open import LARGE_TABLES, SCHEMA_VERSION, SMALL_TABLES

BEGIN, END = "<!-- your own words: begin -->", "<!-- your own words: end -->"
OWN_WORDS = "What stands between these two comments is kept when the card is made anew."
SHOWN = 50  # rows of a table in the card
FRONT = re.compile(r"\A\s*---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|$)", re.S)
TAGS = ["evaluation", "language-models", "post-training", "forgetting", "forgetting-catalog"]
SIZES = {"n<1K": 1e3, "1K<n<10K": 1e4, "10K<n<100K": 1e5, "100K<n<1M": 1e6, "1M<n<10M": 1e7, "10M<n<100M": 1e8, "100M<n<1B": 1e9}
TABLES = ("outcomes", *SMALL_TABLES, *(table for table in LARGE_TABLES if table != "outcomes"))  # the first is the default
MEANINGS = {
    "outcomes": "right, wrong or not measured, per run and item", "models": "checkpoints", "tasks": "tasks",
    "categories": "which category a task belongs to", "itemsets": "lists of items that were asked", "protocols": "ways of asking",
    "runs": "one model on one itemset under one protocol and replicate", "pairs": "declared before/after pairs",
    "samples": "items: identity, number of options, gold; no text", "option_scores": "log-probability of every option",
    "generations": "generated texts",
}  # fmt: skip
SNIPPETS = """\
```python
import duckdb
from huggingface_hub import snapshot_download

folder = snapshot_download("{repo}", repo_type="dataset")
outcomes, runs = f"'{{folder}}/outcomes/**/*.parquet'", f"'{{folder}}/runs/*.parquet'"
duckdb.sql(f"SELECT model_id, avg(correct::INT) AS accuracy FROM {{outcomes}} JOIN {{runs}} USING (run_id) GROUP BY ALL").show()
```

```python
from datasets import load_dataset

outcomes = load_dataset("{repo}", "outcomes", split="train")
runs = load_dataset("{repo}", "runs", split="train", streaming=True)
```

```python
import polars as pl
from huggingface_hub import snapshot_download

folder = snapshot_download("{repo}", repo_type="dataset")
print(pl.scan_parquet(f"{{folder}}/outcomes/**/*.parquet").group_by("status").len().collect())
```
"""
LEFT_OUT = """\
- Text of benchmark items: it belongs to the benchmarks, and published answers spoil them. An item is known by a hash of its question,
  options and gold (`sample_key`), its number of options and its gold.
{texts}
- Averages: every metric is computed from the outcomes, in SQL."""
NO_TEXTS = "- Generated texts: they quote the items. Whoever collected the runs has them."
CITATION = """\
Cite this dataset by its name and commit, the sources of its items, and, for the metrics, "Mapping Post-Training Forgetting in Language
Models at Scale" (arXiv 2510.17776)."""


@dataclass(frozen=True)
class CardFacts:
    """What a card tells of: rows of the small tables, bytes of the files, and the licence where somebody said one."""

    repo: str
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    sizes: Mapping[str, int]
    license_id: str | None = None

    def tables(self) -> list[str]:
        """Tables that have files."""
        there = {path.split("/")[0] for path in self.sizes if path.endswith(".parquet") and "/" in path}
        return [table for table in TABLES if table in there]

    def n_items(self) -> dict[str, int]:
        """Items by itemset."""
        return {row["itemset_id"]: row["n_items"] for row in self.rows["itemsets"]}

    def n_outcomes(self) -> int:
        """Items asked in all runs together."""
        items = self.n_items()
        return sum(items.get(run["itemset_id"], 0) for run in self.rows["runs"])


def card_text(facts: CardFacts, old: str | None = None) -> str:
    """The whole README.md.

    Args:
        facts: What the dataset holds.
        old: The card that is there; its own words, and what others wrote in front of it, are kept.

    Raises:
        CatalogError: The YAML in front of the old card cannot be read.
    """
    sections = [
        f"# {cell(facts.repo)}",
        "Which items language models get right, before and after post-training: every answer of every model on every item is a row.",
        counts(facts),
        own_words(old),
        f"## Open it\n\n{SNIPPETS.format(repo=facts.repo)}\n"
        "Every metric of what was forgotten and gained, with the package `forgetting-catalog`: `catalog.connect(folder)`.",
        models_table(facts), tasks_table(facts), settings_table(facts), regimes_table(facts), files_table(facts),
        "## What is not in it\n\n" + LEFT_OUT.format(texts="" if "generations" in facts.tables() else NO_TEXTS).replace("\n\n-", "\n-"),
        f"## Citation\n\n{CITATION}",
    ]  # fmt: skip
    return front_matter(facts, old) + "".join(f"\n{section}\n" for section in sections if section)


def front_matter(facts: CardFacts, old: str | None) -> str:
    """The YAML that the Hub and `datasets` read; keys and configs of others stay."""
    import yaml

    kept = old_metadata(facts.repo, old)
    tables = facts.tables()
    theirs = [config for config in listed(kept.get("configs")) if isinstance(config, dict) and config.get("config_name") not in TABLES]
    license_id = facts.license_id or kept.get("license")
    size = next((name for name, below in SIZES.items() if facts.n_outcomes() < below), "n>1B")
    tags = [tag for tag in listed(kept.get("tags")) if isinstance(tag, str)]
    data = {
        **({"license": license_id} if license_id else {}),
        "pretty_name": kept.get("pretty_name") or facts.repo.split("/")[-1],
        "size_categories": [size],
        "tags": list(dict.fromkeys([*TAGS, *tags])),
        **{key: value for key, value in kept.items() if key not in ("license", "pretty_name", "size_categories", "tags", "configs")},
        "configs": [config_of(table) for table in tables] + theirs,
    }
    return f"---\n{yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=1000)}---\n"


def config_of(table: str) -> dict[str, Any]:
    """One `datasets` configuration."""
    return {"config_name": table, **({"default": True} if table == "outcomes" else {}), "data_files": f"{table}/**/*.parquet"}


def old_metadata(repo: str, old: str | None) -> dict[str, Any]:
    """What stands in front of a card."""
    import yaml

    front = FRONT.match(old or "")
    try:
        found = yaml.safe_load(front[1]) if front else {}
    except yaml.YAMLError as error:
        raise CatalogError(
            f"the YAML in front of README.md of {repo} cannot be read: mend it on the Hub, then run the same command again"
        ) from error
    return found if isinstance(found, dict) else {}


def listed(value: Any) -> list[Any]:
    """A list, also where somebody wrote something else."""
    return value if isinstance(value, list) else []


def own_words(old: str | None) -> str:
    """The hand-written section of the old card; all of a card that was not made here; or an empty section.

    Raises:
        CatalogError: It has a begin without an end, or the reverse: what is between cannot be told.
    """
    old = old or ""
    start, end = old.find(BEGIN), old.rfind(END)
    if (start < 0) != (end < 0) or end < start:
        raise CatalogError(f"README.md on the Hub has only one of {BEGIN} and {END}, or in the wrong order: put both around your own words")
    words = old[start + len(BEGIN) : end] if start >= 0 else f"\n{FRONT.sub('', old, count=1).strip() or f'<!-- {OWN_WORDS} -->'}\n"
    return f"{BEGIN}{words}{END}"


def cell(value: object) -> str:
    """Any value as text that is nothing but text in a Markdown table: no markup, no line end, no other cell."""
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    text = html.escape(re.sub(r"\s+", " ", "".join(c if c.isprintable() else " " for c in str(value))).strip(), quote=False)
    return re.sub(r"([\\`*\[\]|~$])|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", lambda m: "\\" + m[0], text)


def table_of(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table under a heading, cut after some rows; nothing where there are none."""
    if not rows:
        return ""
    lines = [columns, ["---"] * len(columns), *([cell(value) for value in row] for row in rows[:SHOWN])]
    more = f"\n\nand {len(rows) - SHOWN:,} more" if len(rows) > SHOWN else ""
    return f"## {title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + more


def counts(facts: CardFacts) -> str:
    """One sentence of numbers."""
    rows = facts.rows
    numbers = {"models": len(rows["models"]), "tasks": len(rows["tasks"]), "runs": len(rows["runs"]), "answers": facts.n_outcomes(),
               "declared pairs": len(rows["pairs"])}  # fmt: skip
    size = sum(size for path, size in facts.sizes.items() if path.endswith(".parquet"))
    told = ", ".join(f"{number:,} {name}" for name, number in numbers.items() if number)
    return f"{told}; {shown_size(size)} of Parquet, schema version {SCHEMA_VERSION}."


def shown_size(size: int) -> str:
    """Bytes in a unit that suits them."""
    for unit in ("bytes", "KB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}" if unit != "bytes" else f"{size} bytes"
        size = size / 1000  # type: ignore[assignment]
    return f"{size:,.3g} GB"


def models_table(facts: CardFacts) -> str:
    """Models, those with most runs first."""
    runs = Counter(run["model_id"] for run in facts.rows["runs"])
    ordered = sorted(facts.rows["models"], key=lambda row: (-runs[row["model_id"]], row["model_id"]))
    rows = [[row["model_id"], row["family"], row["kind"], row["n_params"], runs[row["model_id"]]] for row in ordered]
    return table_of("Models", ["model", "family", "kind", "parameters", "runs"], rows)


def tasks_table(facts: CardFacts) -> str:
    """Tasks with the items and runs they have."""
    task_of = {row["itemset_id"]: row["task_id"] for row in facts.rows["itemsets"]}
    runs = Counter(task_of.get(run["itemset_id"]) for run in facts.rows["runs"])
    items = Counter[str]()
    for itemset, n in facts.n_items().items():
        items[task_of[itemset]] = max(items[task_of[itemset]], n)
    sorted_into = {row["task_id"]: row["category"] for row in reversed(facts.rows["categories"])}
    rows = [[task, sorted_into.get(task), items[task], runs[task]] for task in sorted(row["task_id"] for row in facts.rows["tasks"])]
    return table_of("Tasks", ["task", "category", "items", "runs"], rows)


def settings_table(facts: CardFacts) -> str:
    """Settings, under which runs are compared."""
    setting_of = {row["protocol_id"]: row["setting"] for row in facts.rows["protocols"]}
    runs = Counter(setting_of.get(run["protocol_id"], "") for run in facts.rows["runs"])
    return table_of("Settings", ["setting", "runs"], sorted(runs.items()))


def regimes_table(facts: CardFacts) -> str:
    """Kinds of post-training, as pairs declare them."""
    pairs = Counter(row["regime"] or "not told" for row in facts.rows["pairs"])
    return table_of("Regimes", ["regime", "pairs"], sorted(pairs.items()))


def files_table(facts: CardFacts) -> str:
    """Configurations with what they hold."""
    size: Counter[str] = Counter()
    number: Counter[str] = Counter()
    for path, n in parquet_of(facts.sizes):
        size[path.split("/")[0]] += n
        number[path.split("/")[0]] += 1
    rows = [[table, MEANINGS.get(table), number[table], shown_size(size[table])] for table in facts.tables()]
    return table_of("Configurations", ["name", "holds", "files", "size"], rows)


def parquet_of(sizes: Mapping[str, int]) -> Iterable[tuple[str, int]]:
    """Data files with their bytes."""
    return ((path, n) for path, n in sizes.items() if path.endswith(".parquet"))
