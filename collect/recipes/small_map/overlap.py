"""Whether training text holds an evaluated item: runs of 13 words in common, or a shorter question as a whole.

python -m collect.recipes.small_map.overlap FOLDER_OF_ITEMS --tokenizer FOLDER
"""

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

WINDOW = 13  # words, as in GPT-3's contamination study (arXiv 2005.14165, appendix C)
SHORTEST = 5  # of a question looked for whole; below that its gold answer has to follow too


def words(text: str) -> list[str]:
    """Lower-case words and numbers, punctuation left out."""
    return re.findall(r"\w+", text.lower())


def windows(text: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    """Every run of `size` words."""
    return zip(*(text[i:] for i in range(size)), strict=False)


def looked_for(item: dict[str, Any]) -> set[tuple[str, ...]]:
    """Word runs that give an item away: its windows of 13 words, else the whole question, with the gold where it is short.

    Empty where question and gold together are shorter than that: such an item is not told from everyday words.
    """
    question = words(item["question"])
    if len(question) >= WINDOW:
        return set(windows(question, WINDOW))
    if len(question) >= SHORTEST:
        return {tuple(question)}
    gold = item["choices"][item["answer_index"]] if item["choices"] else item["answer"]  # beside choices, `answer` can be a letter
    run = tuple(question + words(str(gold)))
    return {run[:WINDOW]} if len(run) >= SHORTEST else set()


def items_of(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every item below a folder with a name to report it by."""
    for path in sorted(folder.rglob("*.jsonl")):
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                yield f"{path.relative_to(folder)}:{number}", json.loads(line)


def overlaps(texts: Iterable[str], items: Iterable[tuple[str, dict[str, Any]]]) -> tuple[int, int, dict[str, str]]:
    """Items found in the texts.

    Args:
        texts: Training text.
        items: (name, item with question, choices, answer) of everything that is evaluated.

    Returns:
        Number of items looked for, and of items too short for it; name of an item found -> the words it shares.
    """
    by_length: dict[int, dict[tuple[str, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    n = short = 0
    for name, item in items:
        runs = looked_for(item)
        n, short = n + bool(runs), short + (not runs)
        for run in runs:
            by_length[len(run)][run].append(name)
    found: dict[str, str] = {}
    for text in texts:
        told = words(text)
        for size, wanted in by_length.items():
            for run in windows(told, size):
                if run in wanted:
                    found |= {name: " ".join(run) for name in wanted[run]}
    return n, short, found


def main() -> None:
    """Look for evaluated items in the text of both runs; exit 1 where one is found."""
    from transformers import AutoTokenizer

    from collect.recipes.small_map.__main__ import COURSES, corpus_of

    parser = argparse.ArgumentParser(prog="python -m collect.recipes.small_map.overlap", description=main.__doc__)
    parser.add_argument("items", type=Path, help="folder of JSON Lines files")
    parser.add_argument("--tokenizer", type=Path, required=True, metavar="FOLDER", help="the starting point's")
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.tokenizer)
    failed = False
    for name in COURSES:
        texts = corpus_of(name, tokenizer).texts
        n, short, found = overlaps(texts, items_of(args.items))
        size = sum(len(words(text)) for text in texts)
        print(f"{name}: {len(texts)} texts, {size} words; {n} items looked for ({short} too short), {len(found)} found")
        for item, run in sorted(found.items()):
            print(f"  {item}: {run}")
        failed |= bool(found) or not n
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
