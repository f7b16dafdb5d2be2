"""What to collect: one TOML file for a matrix of models, pairs, tasks and protocols, or the same from the command line."""

import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from catalog.errors import CatalogError
from collect.models import DESCRIPTION, ModelSpec
from collect.protocols import Ask

SHIPPED_ITEMS = Path(__file__).parent / "demo" / "items.jsonl"
TOP = ("items", "tasks", "limit", "skip_bad", "replicates", "models", "pairs", "protocols", "contributor")
PAIR = ("before", "after", "pair_id", "regime", "data_examples", "data_tokens", "source")
MODEL = ("name", "path", "hub", "revision", "id", *DESCRIPTION)


@dataclass
class Plan:
    """A matrix of runs. Paths are resolved; `pairs` name models by their names here."""

    models: list[ModelSpec]
    asks: list[Ask]
    items: list[Path] = field(default_factory=lambda: [SHIPPED_ITEMS])
    tasks: list[str] = field(default_factory=list)
    limit: int | None = None
    skip_bad: bool = False
    pairs: list[dict[str, Any]] = field(default_factory=list)
    contributor: str | None = None


def read_plan(path: Path) -> Plan:
    """Read a TOML plan; paths in it are relative to the file.

    Raises:
        CatalogError: The file is missing, no TOML, or holds a key or value that is not understood.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CatalogError(f"no plan at {path}: wanted a TOML file with [[models]] (docs/collecting.md)") from error
    except tomllib.TOMLDecodeError as error:
        raise CatalogError(f"{path} is not TOML: {error}") from error
    known(path, "the top", data, TOP)
    base = path.parent
    models = [model_of(path, row, base) for row in data.get("models", [])]
    names = [m.name for m in models]
    if not models or len(set(names)) != len(names):
        raise CatalogError(f"{path}: wanted [[models]], each with its own name; found {names or 'none'}")
    for pair in data.get("pairs", []):
        known(path, "[[pairs]]", pair, PAIR)
        if missing := [str(pair.get(end)) for end in ("before", "after") if pair.get(end) not in names]:
            raise CatalogError(f"{path}: [[pairs]] names {', '.join(missing)}, which is not among the models: {', '.join(names)}")
    asks = [ask_of(path, row, data.get("replicates", 1)) for row in data.get("protocols", [{}])]
    items = [base / item for item in data.get("items", [])] or [SHIPPED_ITEMS]
    return Plan(
        models,
        asks,
        items,
        data.get("tasks", []),
        data.get("limit"),
        data.get("skip_bad", False),
        data.get("pairs", []),
        data.get("contributor"),
    )


def known(path: Path, place: str, row: dict[str, Any], names: tuple[str, ...]) -> None:
    """Refuse a key that is not understood: a typing error must not silently change a run."""
    if unknown := sorted(set(row) - set(names)):
        raise CatalogError(f"{path}: {place} has unknown key {', '.join(unknown)}; known are {', '.join(names)}")


def model_of(path: Path, row: dict[str, Any], base: Path) -> ModelSpec:
    """One [[models]] entry."""
    known(path, "[[models]]", row, MODEL)
    if ("path" in row) == ("hub" in row):
        raise CatalogError(f"{path}: [[models]] {row.get('name', '?')} wants either path or hub")
    where = str(base / Path(row["path"]).expanduser()) if "path" in row else row["hub"]
    described = {key: row[key] for key in DESCRIPTION if key in row}
    return ModelSpec(where, row.get("name", ""), row.get("id"), row.get("revision"), described)


def ask_of(path: Path, row: dict[str, Any], replicates: int) -> Ask:
    """One [[protocols]] entry."""
    known(path, "[[protocols]]", row, tuple(f.name for f in fields(Ask)))
    given = {"replicates": replicates, **row}
    if "stop" in given:
        given["stop"] = tuple(given["stop"])
    return Ask(**given)


def model_from_argument(text: str) -> ModelSpec:
    """PATH, HUB_ID, or ID=PATH, which names the model in the catalog."""
    model_id, equals, where = text.partition("=")
    return ModelSpec(where, model_id, model_id) if equals else ModelSpec(text)
