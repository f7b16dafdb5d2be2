"""Write the items of the log fixtures: `make_items.py ITEMS OUT` (ITEMS is collect/demo/items.jsonl)."""

import json
import sys
from pathlib import Path

SUBSETS = ["provinces", "diets", "stars", "words", "beds", "remedies"]


def rows(path: Path) -> dict[str, list[dict[str, object]]]:
    by_subset: dict[str, list[dict[str, object]]] = {}
    for line in path.read_text().split("\n"):
        if line:
            row = json.loads(line)
            by_subset.setdefault(row["subset"], []).append(row)
    return by_subset


def keep(row: dict[str, object]) -> dict[str, object]:
    return {k: row[k] for k in ("item_id", "category", "question", "choices", "answer_index")}


def write(path: Path, items: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(item) + "\n" for item in items))


def main() -> None:
    """Sixty items, subsets taken in turn; item 7 says what item 3 says under another item_id."""
    source, out = rows(Path(sys.argv[1])), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    text = [keep(source[s][i]) for i in range(10) for s in SUBSETS]
    text[7] = {**text[3], "item_id": f"{text[3]['item_id']}-repeat"}
    write(out / "text.jsonl", text)
    write(out / "text_shots.jsonl", [keep(source[s][20 + i]) for i in range(2) for s in SUBSETS])
    (out / "twenty").mkdir(exist_ok=True)
    write(out / "twenty" / "test.jsonl", text[:20])
    write(out / "twelve.jsonl", [keep(source[s][i]) for i in range(10, 12) for s in SUBSETS])


if __name__ == "__main__":
    main()
