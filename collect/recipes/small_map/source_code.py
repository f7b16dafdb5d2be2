"""Text of the domain run: the standard library's own source, which every CPython carries (PSF licence)."""

import hashlib
import sys
import sysconfig
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from collect.recipes.small_map.training import BLOCK, Corpus

LICENCE = "source of CPython's standard library, PSF licence version 2"
# tests, generated tables (encodings, topics), a second language's grammar, jokes
SKIPPED = {
    "__phello__",
    "antigravity",
    "encodings",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "site-packages",
    "test",
    "tests",
    "this",
}
HELD_OUT_SHARE = 0.05  # of the files
HELD_OUT_BLOCKS = 16


def source_files() -> dict[str, str]:
    """The standard library's Python files by path, tests and generated tables left out."""
    root = Path(sysconfig.get_paths()["stdlib"])
    paths = (path for path in sorted(root.rglob("*.py")) if not SKIPPED.intersection(path.relative_to(root).parts))
    named = ((path.relative_to(root), path) for path in paths)
    known = {name: path for name, path in named if name.parts[0].removesuffix(".py") in sys.stdlib_module_names}
    return {name.as_posix(): path.read_text(encoding="utf-8") for name, path in known.items()}


def position(name: str) -> float:
    """A file's place in [0, 1): it decides the order of files and which are held out."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 16**8


def packed(files: dict[str, str], tokenizer: Any) -> Tensor:
    """Files end to end as int64 (N, BLOCK), each under its path; the last, incomplete block is dropped."""
    end = tokenizer.convert_tokens_to_ids("<|endoftext|>")  # parts documents in the model's own pretraining
    texts = [f"# {name}\n{files[name]}" for name in sorted(files, key=position)]
    ids = [i for text in texts for i in [*tokenizer(text, add_special_tokens=False)["input_ids"], end]]
    return torch.tensor(ids[: len(ids) // BLOCK * BLOCK]).view(-1, BLOCK)


def corpus(tokenizer: Any) -> Corpus:
    """Blocks of source to train on, every token predicted, and blocks of other files to watch the loss on."""
    files = source_files()
    held_out = packed({name: text for name, text in files.items() if position(name) < HELD_OUT_SHARE}, tokenizer)
    train = packed({name: text for name, text in files.items() if position(name) >= HELD_OUT_SHARE}, tokenizer)
    order = torch.randperm(len(held_out), generator=torch.Generator().manual_seed(0))
    watched = held_out[order[:HELD_OUT_BLOCKS]]
    return Corpus(train, train, watched, watched, LICENCE, list(files.values()))
