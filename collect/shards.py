"""Model folders made of others without training: `collect merge`, `collect quantise`. One output file is in memory at a time.

Beside weights, config and tokenizer the new folder holds `catalog_model.json`: parents, recipe, quantisation, which
`collect run` writes into the table models.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from catalog.errors import CatalogError
from collect.merge import GROUP, METHODS, rounded
from collect.models import FACTS, Located, ModelSpec, checked_weights, local_id, locate

SHARD = 2 << 30  # bytes of weights in one output file
INDEX = "model.safetensors.index.json"
COPIED = ("*.json", "*.jinja", "*.txt", "*.model", "*.py", "LICENSE*", "NOTICE*")
NOT_COPIED = {INDEX, "trainer_state.json", "training.json", FACTS}
# what two configs of one architecture may say differently
INCIDENTAL = {"_name_or_path", "transformers_version", "dtype", "torch_dtype", "use_cache", "bos_token_id", "eos_token_id", "pad_token_id",
              "unk_token_id", "attention_dropout", "quantization_config", "initializer_range"}  # fmt: skip
EMBEDDINGS = ("embed", "wte", "lm_head", "output_layer")  # left as they are when weights are rounded, as GPTQ and AWQ do


class Weights:
    """A model folder's tensors by name, read one at a time from all its safetensors files."""

    def __init__(self, model: Located, stack: ExitStack) -> None:
        self.folder, self.where = model.folder, model.spec.where
        self.config: dict[str, Any] = read_json(self.folder / "config.json")
        if self.config.get("quantization_config"):
            raise CatalogError(f"{self.where} holds quantised weights: wanted floats (float32, bfloat16, float16); save it dequantised")
        self.files: dict[str, Any] = {}
        for path in sorted(self.folder.glob("*.safetensors")):
            try:
                file = stack.enter_context(safe_open(path, "pt"))
            except SafetensorError as error:
                raise CatalogError(f"{path} cannot be read as safetensors ({error}): copy or save it again") from error
            if twice := sorted(self.files.keys() & set(file.keys())):
                raise CatalogError(f"{self.where} holds {twice[0]} in two files: remove the file that does not belong to it")
            self.files |= dict.fromkeys(file.keys(), file)
        index = read_json(self.folder / INDEX) if (self.folder / INDEX).exists() else {"weight_map": {}}
        if missing := sorted(index["weight_map"].keys() - self.files.keys()):
            raise CatalogError(f"{self.where} lacks {len(missing)} tensors of its {INDEX}, first {missing[0]}: copy the missing shard")

    def shape(self, name: str) -> tuple[int, ...]:
        """A tensor's shape; its data is not read."""
        return tuple(self.files[name].get_slice(name).get_shape())

    def read(self, name: str) -> Tensor:
        """A tensor, in its own dtype."""
        tensor: Tensor = self.files[name].get_tensor(name)
        return tensor

    def is_tied(self, name: str) -> bool:
        """Whether a tensor only repeats the embeddings, which the config says are shared."""
        if not self.config.get("tie_word_embeddings"):
            return False
        others = (n for n in self.files if n != name and is_embedding(n) and self.shape(n) == self.shape(name))
        return any(torch.equal(self.read(name), self.read(other)) for other in others)


def is_embedding(name: str) -> bool:
    """Whether a tensor is an embedding or the output layer."""
    return any(part in name for part in EMBEDDINGS)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object on disk."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CatalogError(f"{path} cannot be read ({error}): copy or save the model again") from error
    return found


def merge_folders(a: ModelSpec, b: ModelSpec, method: str, weight: float, out: Path) -> None:
    """Write the merge of two models; config and tokenizer are A's.

    Args:
        a: Model at weight 0.
        b: Model at weight 1.
        method: 'lerp' or 'slerp'.
        weight: Between 0 and 1.
        out: New folder.

    Raises:
        CatalogError: Weight outside, models of other shapes, configs or tokenizers, the same weights, or `out` is there.
    """
    if not 0 < weight < 1:
        raise CatalogError(f"--weight is {weight:g}: wanted between 0 and 1 (0 would be A itself, 1 B)")
    refuse_existing(out)
    first, second = found(a), found(b)
    if local_id("", checked_weights(first.folder)) == local_id("", checked_weights(second.folder)):
        raise CatalogError(f"{a.where} and {b.where} are the same weights ({first.model_id}): nothing to merge")
    with ExitStack() as stack:
        one, two = Weights(first, stack), Weights(second, stack)
        names = common_names(one, two)
        compare_configs(one, two)
        compare_tokenizers(one, two)

        def merged(name: str) -> Tensor:
            x, y = one.read(name), two.read(name)
            if not x.is_floating_point():
                if not torch.equal(x, y):
                    raise CatalogError(f"{name} holds whole numbers and differs between {one.where} and {two.where}: it cannot be merged")
                return x
            return METHODS[method](x, y, weight).to(torch.promote_types(x.dtype, y.dtype))

        facts = {"kind": "merged", "parents": [first.model_id, second.model_id], "recipe": f"{method}, weight {weight:g}"}
        write_model(out, one.folder, ((name, merged) for name in names), facts)


def quantise_folder(model: ModelSpec, bits: int, out: Path) -> None:
    """Write a model with its matrices rounded to integers of `bits` bits times a scale, stored in its own float dtype.

    Embeddings and output layer stay as they are, vectors too.

    Raises:
        CatalogError: Nothing to round, weights that are quantised already, or `out` is there.
    """
    refuse_existing(out)
    located = found(model)
    with ExitStack() as stack:
        weights = Weights(located, stack)

        def rounds(name: str) -> bool:
            return len(weights.shape(name)) > 1 and not is_embedding(name)

        def quantised(name: str) -> Tensor:
            tensor = weights.read(name)
            return rounded(tensor, bits, GROUP[bits]).to(tensor.dtype) if rounds(name) and tensor.is_floating_point() else tensor

        if not any(map(rounds, weights.files)):
            raise CatalogError(f"{model.where} has no matrix to round besides embeddings")
        scales = f"one scale each {GROUP[bits]} of a row" if GROUP[bits] else "one scale a row"
        facts = {"parents": [located.model_id], "quantisation": f"int{bits} weights, {scales}, rounded to nearest; embeddings kept"}
        write_model(out, weights.folder, ((name, quantised) for name in sorted(weights.files)), facts)


def found(spec: ModelSpec) -> Located:
    """A model whose weights are safetensors."""
    model = locate(spec)
    if model.gguf:
        raise CatalogError(f"{spec.where} is a .gguf file: wanted a folder with safetensors; load it with transformers and save it first")
    return model


def refuse_existing(out: Path) -> None:
    """Nothing that is there is written over."""
    if out.exists():
        raise CatalogError(f"{out} exists already: remove it, or choose another --out")


def common_names(one: Weights, two: Weights) -> list[str]:
    """Names of the tensors to merge: those of both; one that repeats shared embeddings may lie in one of them only.

    Raises:
        CatalogError: A tensor is missing on one side, or has another shape.
    """
    for side, other in ((one, two), (two, one)):
        if lacking := sorted(name for name in side.files.keys() - other.files.keys() if not side.is_tied(name)):
            more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            raise CatalogError(f"not of one architecture: {other.where} has no {lacking[0]}{more}, {side.where} has")
    names = sorted(one.files.keys() & two.files.keys())
    if odd := [name for name in names if one.shape(name) != two.shape(name)]:
        more = f", and {len(odd) - 1} more tensors" if len(odd) > 1 else ""
        raise CatalogError(
            f"not of one architecture: {odd[0]} is {one.shape(odd[0])} in {one.where} and {two.shape(odd[0])} in {two.where}{more}"
        )
    return names


def compare_configs(one: Weights, two: Weights) -> None:
    """Refuse models that would read the same weights in another way (heads, positions, activation)."""
    ours, theirs = (known_config(side) for side in (one, two))
    if ours is None or theirs is None:
        ours, theirs = one.config, two.config
    keys = sorted((ours.keys() | theirs.keys()) - INCIDENTAL)
    if odd := [key for key in keys if ours.get(key) != theirs.get(key)]:
        told = "; ".join(f"{key} = {ours.get(key)!r:.60} and {theirs.get(key)!r:.60}" for key in odd[:3])
        raise CatalogError(f"config.json of {one.where} and {two.where} differ in {told}: wanted two checkpoints of one architecture")


def known_config(side: Weights) -> dict[str, Any] | None:
    """A config as this version of transformers reads it, whichever wrote it; None of an architecture that it does not know."""
    from transformers import AutoConfig

    try:
        found: dict[str, Any] = AutoConfig.from_pretrained(side.folder, local_files_only=True, trust_remote_code=False).to_dict()
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found


def compare_tokenizers(one: Weights, two: Weights) -> None:
    """Refuse tokenizers that give one token different ids: a row of the embeddings would be two tokens' mean."""
    if not all((side.folder / "tokenizer.json").exists() for side in (one, two)):
        for name in ("tokenizer.model", "vocab.json", "merges.txt"):
            paths = [side.folder / name for side in (one, two)]
            if any(p.exists() for p in paths) and not (all(p.exists() for p in paths) and paths[0].read_bytes() == paths[1].read_bytes()):
                raise CatalogError(
                    f"tokenizers of {one.where} and {two.where} cannot be shown to be the same: {name} differs or is missing"
                )
        return
    ids = [token_ids(read_json(side.folder / "tokenizer.json")) for side in (one, two)]
    if odd := sorted(token for token in ids[0].keys() | ids[1].keys() if ids[0].get(token) != ids[1].get(token)):
        token = odd[0]
        raise CatalogError(
            f"tokenizers differ in {len(odd)} tokens, first {token!r}: id {ids[0].get(token)} in {one.where}, {ids[1].get(token)} in "
            f"{two.where}. Wanted two checkpoints with one vocabulary"
        )


def token_ids(tokenizer: dict[str, Any]) -> dict[str, int]:
    """Token -> id of a tokenizer.json, added tokens included."""
    vocabulary = tokenizer["model"].get("vocab", {})
    listed = vocabulary if isinstance(vocabulary, dict) else {token: at for at, (token, *_) in enumerate(vocabulary)}  # Unigram has scores
    return listed | {added["content"]: added["id"] for added in tokenizer.get("added_tokens", [])}


def write_model(out: Path, like: Path, tensors: Iterable[tuple[str, Callable[[str], Tensor]]], facts: dict[str, Any]) -> None:
    """Write a model folder beside `out`, and rename it when whole.

    Args:
        out: New folder.
        like: Folder whose config and tokenizer it takes.
        tensors: Name, and what gives the tensor of that name.
        facts: What the table models says of it.

    Raises:
        CatalogError: It cannot be written; nothing is left.
    """
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)  # of a run that was killed
    try:
        part.mkdir(parents=True)
        write_shards(part, tensors)
        for path in copied(like):
            shutil.copyfile(path, part / path.name)
        (part / FACTS).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        part.rename(out)
    except (OSError, SafetensorError) as error:
        raise CatalogError(f"cannot write {out}: {error}. Nothing is half-written; make room and run the same command again") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def copied(like: Path) -> Iterator[Path]:
    """Config, tokenizer, chat template, code and licence of a model folder."""
    for pattern in COPIED:
        yield from (path for path in sorted(like.glob(pattern)) if path.name not in NOT_COPIED)


def write_shards(folder: Path, tensors: Iterable[tuple[str, Callable[[str], Tensor]]]) -> None:
    """Tensors into files of at most SHARD bytes (or one tensor), named and indexed as transformers does."""
    held: dict[str, Tensor] = {}
    files: list[list[str]] = []
    size = total = 0

    def flush() -> None:
        nonlocal held, size
        save_file(held, folder / f"{len(files)}.safetensors", {"format": "pt"})
        files.append(list(held))
        held, size = {}, 0

    for name, give in tensors:
        tensor = give(name).contiguous()
        if held and size + tensor.nbytes > SHARD:
            flush()
        held[name] = tensor
        size, total = size + tensor.nbytes, total + tensor.nbytes
    flush()
    if len(files) == 1:
        (folder / "0.safetensors").rename(folder / "model.safetensors")
        return
    names = {at: f"model-{at + 1:05d}-of-{len(files):05d}.safetensors" for at in range(len(files))}
    for at, name in names.items():
        (folder / f"{at}.safetensors").rename(folder / name)
    weight_map = {tensor: names[at] for at, held_names in enumerate(files) for tensor in held_names}
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
