"""Make `catalog/data/`, the catalog that comes with the package, from runs folders.

`collect run collect/demo/demo.toml --out build/demo`, the same with more.toml, the small map (docs/small_map.md), then
`python -m collect.recipes.shipped_data build/demo build/map/runs`: few sorted files without texts, and the paper's map of categories
(paper_categories.csv: the task lists of arXiv 2510.17776, tasks it leaves out are in no category), and the figures of
published.py.
"""

import csv
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from catalog.open import SHIPPED
from collect.compact import compact
from collect.recipes.published import write_published
from collect.store import write_table


def paper_map() -> list[dict[str, str]]:
    """Rows of `categories` for the map 'paper'."""
    with (Path(__file__).parent / "paper_categories.csv").open(encoding="utf-8", newline="") as file:
        rows = [{"map": "paper", "task_id": row["task"], "category": row["category"]} for row in csv.DictReader(file)]
    return sorted((row for row in rows if not row["category"].startswith("(")), key=lambda row: row["task_id"])


def main(sources: Sequence[Path]) -> None:
    """Replace the shipped catalog."""
    fresh = SHIPPED.with_name("data.new")
    shutil.rmtree(fresh, ignore_errors=True)
    compact(sources, fresh)
    write_table(fresh / "categories" / "paper.parquet", "categories", paper_map())
    write_published(fresh)
    shutil.rmtree(SHIPPED, ignore_errors=True)
    fresh.rename(SHIPPED)


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
