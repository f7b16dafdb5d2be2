"""Find a model, name it by its content, refuse what cannot be loaded safely. Loads no weights."""

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from catalog.errors import CatalogError

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer_config.json", "spiece.model")
DESCRIPTION = ("family", "kind", "parents", "lineage", "step", "stage_task", "recipe", "quantisation")
FACTS = "catalog_model.json"  # in a folder that collect merge or quantise wrote: what the table models says of it


@dataclass
class ModelSpec:
    """A model as a user names it: a folder, a .gguf file or a Hub id, and what they say about it.

    size_b: billions of parameters, for estimates. behavioural: whether it is asked tasks that ask for behaviour.
    """

    where: str
    name: str = ""
    model_id: str | None = None
    revision: str | None = None
    description: dict[str, Any] = field(default_factory=dict)
    size_b: float | None = None
    behavioural: bool = True

    def __post_init__(self) -> None:
        self.name = self.name or name_of(Path(self.where))


def name_of(path: Path) -> str:
    """A model's name by its path: the folder's; of a Trainer's `checkpoint-100` the run's too, as `run-100`."""
    name = path.name.removesuffix(".gguf")  # names hold dots: Qwen2.5-0.5B
    if step := re.fullmatch(r"checkpoint-(\d+)", name):
        run = path.expanduser().absolute().parent.name
        return f"{run}-{step[1]}" if run else name
    return name


@dataclass(frozen=True)
class Located:
    """A model on disk: its folder, the .gguf file in it if it is one, and its name in the catalog."""

    folder: Path
    gguf: str | None
    model_id: str
    spec: ModelSpec


def locate(spec: ModelSpec) -> Located:
    """Find the model's files and name it.

    Raises:
        CatalogError: Nothing there, no weights, weights only as pickle, or no tokenizer.
    """
    path = Path(spec.where).expanduser().resolve() if Path(spec.where).expanduser().exists() else Path(spec.where)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise CatalogError(f"no model at {spec.where}: the .gguf file does not exist")
        return Located(path.parent, path.name, spec.model_id or local_id(spec.name, [path]), spec)
    if path.is_dir():
        weights = checked_weights(path)
        told = replace(spec, description={**facts_of(path), **spec.description})
        return Located(path, None, spec.model_id or local_id(spec.name, weights), told)
    if re.fullmatch(r"[\w.-]+/[\w.-]+", spec.where) and not spec.where.startswith("."):
        return from_hub(spec)
    raise CatalogError(f"no model at {spec.where}: wanted a folder with config.json, a .gguf file or a Hub id such as org/name")


def checked_weights(folder: Path) -> list[Path]:
    """The folder's safetensors files, sorted."""
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        pickles = sorted(p.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for p in folder.glob(pattern))
        if pickles:
            raise CatalogError(
                f"{folder} has weights only as pickle ({pickles[0]}), which can run code: save them as safetensors "
                "(model.save_pretrained(folder)) and try again"
            )
        raise CatalogError(f"{folder} has no weights: wanted *.safetensors or a .gguf file")
    if not (folder / "config.json").exists():
        raise CatalogError(f"{folder} has no config.json: wanted a model saved with save_pretrained")
    if not any((folder / name).exists() for name in TOKENIZER_FILES):
        raise CatalogError(f"{folder} has no tokenizer: save it beside the weights (tokenizer.save_pretrained(folder))")
    return weights


def facts_of(folder: Path) -> dict[str, Any]:
    """What a folder made by `collect merge` or `collect quantise` says of itself: parents, recipe, quantisation.

    Raises:
        CatalogError: The file is no JSON object.
    """
    path = folder / FACTS
    if not path.exists():
        return {}
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CatalogError(f"{path} is not JSON ({error}): make the model again, or remove the file") from error
    if not isinstance(told, dict):
        raise CatalogError(f"{path} wants an object with parents, recipe, quantisation; found {told!r:.60}")
    return {key: told[key] for key in DESCRIPTION if key in told}


def local_id(name: str, weights: list[Path]) -> str:
    """local/<name>@<12 hex>: sha256 of the one weights file, or of the sha256s of several in order of name."""
    hashes = [file_sha256(path) for path in weights]
    whole = hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
    return f"local/{re.sub(r'[^A-Za-z0-9._-]+', '-', name)}@{whole[:12]}"


def file_sha256(path: Path) -> str:
    """sha256 of a file's bytes, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def from_hub(spec: ModelSpec) -> Located:
    """Download a Hub model's safetensors and tokenizer (or find them in the cache); its id carries the commit."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    patterns = ["*.safetensors", "*.json", "*.jinja", "*.txt", "*.model"]
    try:
        folder = Path(snapshot_download(spec.where, revision=spec.revision, allow_patterns=patterns))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise CatalogError(
            f"no folder {spec.where}, and the Hub gave no model of that name ({type(error).__name__}: {reason}). "
            "Check the name; offline, give a local folder"
        ) from error
    checked_weights(folder)
    return Located(folder, None, spec.model_id or f"{spec.where}@{folder.name}", spec)


def model_row(located: Located, n_params: int | None, has_template: bool) -> dict[str, object]:
    """The model's row of the table models; kind is guessed from the chat template unless told, and a guess says so."""
    told = {key: value for key, value in located.spec.description.items() if key in DESCRIPTION}
    guess = {} if "kind" in told else {"kind": "instruct" if has_template else "base", "guessed": ["kind"]}
    return {"model_id": located.model_id, "n_params": n_params, **guess, **told}
