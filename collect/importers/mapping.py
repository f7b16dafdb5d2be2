"""What the user says about logs, on the command line or in a TOML file; the command line wins."""

import argparse
from pathlib import Path
from typing import Any

from catalog.errors import CatalogError
from collect.config import read_toml
from collect.importers import Told
from collect.importers.values import Metric

KEYS: dict[str, type | tuple[type, ...]] = {
    "format": str, "model": str, "task": str, "metric": (str, list), "replicate": int, "trust_ids": bool, "skip_bad": bool, "columns": dict,
}  # fmt: skip


def told_of(args: argparse.Namespace) -> Told:
    """The options of `collect import` with those of its --mapping file.

    Raises:
        CatalogError: The file is missing or not TOML, has an unknown key, or an option does not say what it should.
    """
    told = read_mapping(args.mapping) if args.mapping else {}
    for name in ("format", "model", "task", "metric", "replicate"):
        if getattr(args, name) is not None:
            told[name] = getattr(args, name)
    columns = {**told.get("columns", {}), **dict(column(text) for text in args.column or [])}
    metrics = told.get("metric") or []
    if not 0 <= (told.get("replicate") or 0) < 1_000_000:
        raise CatalogError(f"--replicate {told['replicate']}: wanted 0, 1, ... below a million")
    return Told(
        format=told.get("format"), model=told.get("model"), task=told.get("task"), replicate=told.get("replicate"),
        metrics=tuple(Metric.parse(m) for m in ([metrics] if isinstance(metrics, str) else metrics)), columns=columns,
        trust_ids=args.trust_ids or told.get("trust_ids", False), skip_bad=args.skip_bad or told.get("skip_bad", False),
        keep_text=not args.no_text,
    )  # fmt: skip


def column(text: str) -> tuple[str, Any]:
    """'options=a,b,c' -> ('options', ['a', 'b', 'c']); only options and correct may be several columns."""
    field, separator, name = text.partition("=")
    if not separator or not name:
        raise CatalogError(f"--column {text!r}: wanted FIELD=COLUMN, as in correct=is_right")
    return field, name.split(",") if "," in name and field in ("options", "correct") else name


def read_mapping(path: Path) -> dict[str, Any]:
    """The keys of a mapping file, their types checked."""
    found = read_toml(path, "mapping", "a TOML file (docs/importing.md)")
    for key, value in found.items():
        if key not in KEYS:
            raise CatalogError(f"{path}: no key {key}; there are {', '.join(KEYS)}")
        if not isinstance(value, KEYS[key]) or (isinstance(value, bool) and KEYS[key] is int):
            raise CatalogError(f"{path}: {key} = {value!r} is of the wrong type")
    return found
