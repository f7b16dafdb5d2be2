"""What to collect: one TOML file for a matrix of models, pairs, tasks and protocols, or the same from the command line."""

import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from catalog.errors import CatalogError
from collect.lineages import Lineage, expanded
from collect.models import DESCRIPTION, ModelSpec
from collect.protocols import Ask

SHIPPED_ITEMS = Path(__file__).parent / "demo" / "items.jsonl"
TOP = ("items", "tasks", "from_jsonl", "limit", "sample", "skip_bad", "skip_behavioural", "replicates", "models", "lineages", "pairs",
       "protocols", "contributor")  # fmt: skip
PAIR = ("before", "after", "pair_id", "regime", "data_examples", "data_tokens", "source")
MODEL = ("name", "path", "hub", "revision", "id", "size_b", *DESCRIPTION)
OF_ALL = ("family", "kind", "stage_task", "recipe", "quantisation")  # what a lineage tells of each of its checkpoints
LINEAGE = (
    "name",
    "path",
    "hub",
    "revisions",
    "steps",
    "start",
    "size_b",
    "tokens_per_step",
    "examples_per_step",
    "regime",
    "source",
    *OF_ALL,
)


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
    from_jsonl: Path | None = None

    def check(self) -> None:
        """Refuse a limit below 1."""
        if self.limit is not None and self.limit < 1:
            raise CatalogError(f"limit is {self.limit}: wanted 1 item a task or more")


def read_toml(path: Path, what: str, wanted: str) -> dict[str, Any]:
    """A TOML file's content.

    Raises:
        CatalogError: The file is missing or no TOML; `what` and `wanted` say which and what for.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CatalogError(f"no {what} at {path} ({error.strerror}): wanted {wanted}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CatalogError(f"{path} is not TOML: {error}") from error


def read_plan(path: Path) -> Plan:
    """Read a TOML plan; paths in it are relative to the file.

    Raises:
        CatalogError: The file is missing, no TOML, or holds a key or value that is not understood.
    """
    data = read_toml(path, "plan", "a TOML file with [[models]] (docs/collecting.md)")
    known(path, "the top", data, TOP)
    base = path.parent
    models = [model_of(path, row, base) for row in data.get("models", [])]
    checkpoints, pairs = checkpoints_of(path, data, models)
    models += checkpoints
    names = [m.name for m in models]
    if not models or len(set(names)) != len(names):
        raise CatalogError(f"{path}: wanted [[models]] or [[lineages]], each with its own name; found {names or 'none'}")
    for pair in data.get("pairs", []):
        known(path, "[[pairs]]", pair, PAIR)
        if missing := [str(pair.get(end)) for end in ("before", "after") if pair.get(end) not in names]:
            raise CatalogError(f"{path}: [[pairs]] names {', '.join(missing)}, which is not among the models: {', '.join(names)}")
    asks = [ask_of(path, row, data.get("replicates", 1)) for row in data.get("protocols", [{}])]
    items = [base / item for item in data.get("items", [])] or [SHIPPED_ITEMS]
    if "limit" in data and "sample" in data:
        raise CatalogError(f"{path}: limit and sample mean the same, items per task: keep one")
    if data.get("skip_behavioural"):
        only_with_base(models, pairs + data.get("pairs", []))
    return Plan(
        models,
        asks,
        items,
        data.get("tasks", []),
        data.get("limit", data.get("sample")),
        data.get("skip_bad", False),
        pairs + data.get("pairs", []),
        data.get("contributor"),
        base / Path(data["from_jsonl"]).expanduser() if "from_jsonl" in data else None,
    )


def only_with_base(models: list[ModelSpec], pairs: list[dict[str, Any]]) -> None:
    """Mark models whose every pair has a base model in it: what they do on behavioural tasks is not compared."""
    kinds = {model.name: model.description.get("kind") for model in models}
    for model in models:
        ends = [(pair["before"], pair["after"]) for pair in pairs if model.name in (pair["before"], pair["after"])]
        model.behavioural = not ends or any("base" not in (kinds[before], kinds[after]) for before, after in ends)


def known(path: Path, place: str, row: Any, names: tuple[str, ...]) -> None:
    """Refuse a key that is not understood, or a value of another type: a typing error must not silently change a run."""
    if not isinstance(row, dict):
        raise CatalogError(f"{path}: {place} wants a table of keys, found {row!r:.60}")
    if unknown := sorted(set(row) - set(names)):
        raise CatalogError(f"{path}: {place} has unknown key {', '.join(unknown)}; known are {', '.join(names)}")
    for key, value in row.items():
        if not TYPES.get(key, is_text)(value):
            raise CatalogError(f"{path}: {place} has {key} = {value!r:.60}; wanted {WANTED[TYPES.get(key, is_text)]}")


def is_text(value: Any) -> bool:
    """A text that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def is_texts(value: Any) -> bool:
    """A list of texts."""
    return isinstance(value, list) and all(isinstance(v, str) and v for v in value)


def is_count(value: Any) -> bool:
    """A whole number from 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_counts(value: Any) -> bool:
    """A list of whole numbers from 0."""
    return isinstance(value, list) and all(map(is_count, value))


def is_number(value: Any) -> bool:
    """A number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_switch(value: Any) -> bool:
    """true or false."""
    return isinstance(value, bool)


def is_tables(value: Any) -> bool:
    """[[several tables]]."""
    return isinstance(value, list)


WANTED = {
    is_text: "a text",
    is_texts: "a list of texts",
    is_count: "a whole number from 0",
    is_counts: "a list of whole numbers from 0",
    is_number: "a number",
    is_switch: "true or false",
    is_tables: "tables in double brackets",
}
TYPES = {
    **dict.fromkeys(("items", "tasks", "stop", "parents", "kinds", "revisions"), is_texts),
    **dict.fromkeys(("models", "lineages", "pairs", "protocols"), is_tables), "steps": is_counts,
    **dict.fromkeys(("tokens_per_step", "examples_per_step"), is_count),
    **dict.fromkeys(("limit", "sample", "replicates", "step", "shots", "max_new_tokens", "data_examples", "data_tokens"), is_count),
    **dict.fromkeys(("temperature", "top_p", "size_b"), is_number), **dict.fromkeys(("skip_bad", "skip_behavioural"), is_switch),
}  # fmt: skip


def model_of(path: Path, row: dict[str, Any], base: Path) -> ModelSpec:
    """One [[models]] entry."""
    known(path, "[[models]]", row, MODEL)
    if ("path" in row) == ("hub" in row):
        raise CatalogError(f"{path}: [[models]] {row.get('name', '?')} wants either path or hub")
    where = str(base / Path(row["path"]).expanduser()) if "path" in row else row["hub"]
    described = {key: row[key] for key in DESCRIPTION if key in row}
    return ModelSpec(where, row.get("name", ""), row.get("id"), row.get("revision"), described, row.get("size_b"))


def checkpoints_of(path: Path, data: dict[str, Any], models: list[ModelSpec]) -> tuple[list[ModelSpec], list[dict[str, Any]]]:
    """The models and pairs of all [[lineages]] entries."""
    known_models = {model.name: model for model in models}
    checkpoints: list[ModelSpec] = []
    pairs: list[dict[str, Any]] = []
    for row in data.get("lineages", []):
        known(path, "[[lineages]]", row, LINEAGE)
        if "name" not in row or ("path" in row) == ("hub" in row) or ("hub" in row) != bool(row.get("revisions")):
            raise CatalogError(f"{path}: [[lineages]] {row.get('name', '?')} wants a name, and either path or hub with revisions = [...]")
        if "start" in row and row["start"] not in known_models:
            raise CatalogError(f"{path}: [[lineages]] starts from {row['start']}, which is not among the models: {', '.join(known_models)}")
        found = expanded(
            Lineage(
                row["name"],
                str(path.parent / Path(row["path"]).expanduser()) if "path" in row else row["hub"],
                tuple(row.get("revisions", ())),
                tuple(row.get("steps", ())),
                known_models.get(row.get("start", "")),
                row.get("size_b"),
                {key: row[key] for key in OF_ALL if key in row},
                {key: row[key] for key in ("regime", "source") if key in row},
                {what: row[f"{what}_per_step"] for what in ("tokens", "examples") if f"{what}_per_step" in row},
            )
        )
        checkpoints, pairs = checkpoints + found[0], pairs + found[1]
    return checkpoints, pairs


def ask_of(path: Path, row: dict[str, Any], replicates: int) -> Ask:
    """One [[protocols]] entry."""
    known(path, "[[protocols]]", row, tuple(f.name for f in fields(Ask)))
    given = {"replicates": replicates, **row}
    given |= {name: tuple(given[name]) for name in ("stop", "kinds", "tasks") if name in given}
    return Ask(**given)


def model_from_argument(text: str) -> ModelSpec:
    """PATH, HUB_ID, or ID=PATH, which names the model in the catalog; a path that exists may hold an equals sign."""
    if Path(text).expanduser().exists():
        return ModelSpec(text)
    model_id, equals, where = text.partition("=")
    return ModelSpec(where, model_id, model_id) if equals else ModelSpec(text)
