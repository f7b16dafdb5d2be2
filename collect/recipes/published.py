"""Make `catalog/data/published_results/published.parquet` from published_results.csv: figures as printed in papers.

`python -m collect.recipes.published`. Values are percent and names as printed; "A 1 -> 2" is split into "A 1" and
"A 2", and what one name stands for (a model and its own later stages) is `before_model`. An empty confidence is one
that nobody stated. `family` is ours, not printed: models trained from one another are one family.
"""

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa

from catalog.open import SHIPPED, arrow_schema
from collect.store import write_table

SOURCE = Path(__file__).parent / "published_results.csv"


def published_rows() -> list[dict[str, Any]]:
    """Rows of `published_results`: numbers are floats, an empty cell is None."""
    numbers = {field.name for field in arrow_schema("published_results") if pa.types.is_floating(field.type)}
    with SOURCE.open(encoding="utf-8", newline="") as file:
        return [
            {name: None if cell == "" else float(cell) if name in numbers else cell for name, cell in row.items()}
            for row in csv.DictReader(file)
        ]


def write_published(root: Path) -> None:
    """Write the table's one file into a catalog folder."""
    write_table(root / "published_results" / "published.parquet", "published_results", published_rows())


if __name__ == "__main__":
    write_published(SHIPPED)
