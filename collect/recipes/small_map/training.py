"""Full fine-tuning on CPU that can be killed at any moment and continues exactly where its state was last written.

A run is a folder as the Trainer writes it: `checkpoint-<step>/` with weights, tokenizer and trainer_state.json. While it is
unfinished it also holds `state.safetensors`: weights and both moments of AdamW. The order of blocks is drawn from the
seed before the first step, so nothing else has to be remembered.
"""

import hashlib
import json
import math
import platform
import shutil
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import cross_entropy

BLOCK = 512  # tokens in a row
BATCH = 2  # rows in a step
STATE_EVERY = 18  # steps between two writings of the 1.6 GB of state: minutes of work at most are lost


@dataclass(frozen=True)
class Corpus:
    """What a run reads: int64 (N, BLOCK) rows and their labels, -100 where the model only reads.

    licence: what the text is and under which terms. texts: the text itself, for the overlap check and its hash.
    """

    rows: Tensor
    labels: Tensor
    held_out: Tensor
    held_out_labels: Tensor
    licence: str
    texts: list[str]


@dataclass(frozen=True)
class Course:
    """One training run: the steps whose checkpoints are kept (the last one ends it), and its constant learning rate."""

    name: str
    keep: tuple[int, ...]
    rate: float = 3e-4
    warmup: int = 6  # steps; AdamW's first moments are one batch's
    seed: int = 0


@dataclass
class Record:
    """What is known of a run so far: goes into its folder, and into the project as provenance."""

    told: dict[str, Any]
    held_out_nats: dict[str, float] = field(default_factory=dict)
    log: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0

    def write(self, path: Path) -> None:
        """Write it whole."""
        content = {**self.told, "held_out_nats": self.held_out_nats, "seconds": round(self.seconds), "log": self.log}
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(content, indent=1) + "\n")
        part.replace(path)


def loss_of(model: Any, rows: Tensor, labels: Tensor) -> Tensor:
    """Mean next-token loss in nats over the labelled tokens of int64 (B, BLOCK); logits only where a label is."""
    said = labels[:, 1:] >= 0
    hidden = model.model(input_ids=rows, use_cache=False).last_hidden_state[:, :-1][said]
    return cross_entropy(model.lm_head(hidden), labels[:, 1:][said])


@torch.inference_mode()
def held_out_loss(model: Any, corpus: Corpus) -> float:
    """Loss on text the run never trains on, a row at a time, nats per token."""
    pairs = zip(corpus.held_out, corpus.held_out_labels, strict=True)
    losses = [loss_of(model, row[None], labels[None]).item() for row, labels in pairs]
    return round(math.fsum(losses) / len(losses), 4)


def state_tensors(model: Any, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Weights and AdamW's moments by name; tied weights once."""
    tensors = {}
    for name, weight in model.named_parameters():
        tensors[f"weight/{name}"] = weight.detach()
        tensors |= {f"{key}/{name}": optimizer.state[weight][key] for key in ("exp_avg", "exp_avg_sq")}
    return tensors


def write_state(path: Path, model: Any, optimizer: torch.optim.Optimizer, step: int, record: Record) -> None:
    """Write all a continuation needs, whole or not at all."""
    part = path.with_name(path.name + ".part")
    content = {"step": str(step), "record": json.dumps([record.held_out_nats, record.log, record.seconds])}
    save_file(state_tensors(model, optimizer), part, content)
    part.replace(path)


def read_state(path: Path, model: Any, optimizer: torch.optim.Optimizer, record: Record) -> int:
    """Put weights, moments and record back. Returns the number of steps done."""
    with safe_open(path, "pt") as file, torch.no_grad():
        step = int(file.metadata()["step"])
        record.held_out_nats, record.log, record.seconds = json.loads(file.metadata()["record"])
        for name, weight in model.named_parameters():
            weight.copy_(file.get_tensor(f"weight/{name}"))
            moments = {key: file.get_tensor(f"{key}/{name}") for key in ("exp_avg", "exp_avg_sq")}
            optimizer.state[weight] = {"step": torch.tensor(float(step)), **moments}
    return step


def save_checkpoint(model: Any, tokenizer: Any, folder: Path, state: dict[str, Any]) -> None:
    """A folder as the Trainer writes it, whole or not at all."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    model.save_pretrained(part)
    tokenizer.save_pretrained(part)
    (part / "trainer_state.json").write_text(json.dumps(state, indent=1) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


def block_order(n_rows: int, course: Course) -> Tensor:
    """Which row each place of each step reads: a new random order an epoch."""
    generator = torch.Generator().manual_seed(course.seed)
    places = course.keep[-1] * BATCH
    return torch.cat([torch.randperm(n_rows, generator=generator) for _ in range(math.ceil(places / n_rows))])[:places]


def told_of(course: Course, corpus: Corpus) -> dict[str, Any]:
    """What was asked of a run, on what, with which versions."""
    digest = hashlib.sha256(json.dumps(corpus.texts).encode()).hexdigest()
    return {
        "run": course.name,
        "corpus": corpus.licence,
        "corpus_sha256": digest,
        "corpus_tokens": corpus.rows.numel(),
        "labelled_share": round((corpus.labels >= 0).float().mean().item(), 4),
        "held_out_tokens": corpus.held_out.numel(),
        "tokens": {step: step * BATCH * BLOCK for step in course.keep},
        "setting": {"rate": course.rate, "warmup_steps": course.warmup, "batch": BATCH, "block": BLOCK, "seed": course.seed},
        "optimizer": "AdamW, betas 0.9 and 0.95, weight decay 0.01, gradient norm clipped at 1; float32, all parameters",
        "versions": {"python": platform.python_version()} | {p: version(p) for p in ("torch", "transformers")},
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
    }


def train(model: Any, tokenizer: Any, corpus: Corpus, course: Course, out: Path, state_every: int = STATE_EVERY) -> None:
    """Train from the last written state, or from the model as given, to the course's last step.

    Args:
        model: The starting point, float32; changed in place.
        tokenizer: Saved beside the weights.
        corpus: What is read.
        course: How long and how fast.
        out: The run's folder.
        state_every: Steps between two writings of the state.
    """
    out.mkdir(parents=True, exist_ok=True)
    record = Record(told_of(course, corpus))
    optimizer = torch.optim.AdamW(model.parameters(), lr=course.rate, betas=(0.9, 0.95), weight_decay=0.01)
    saved = out / "state.safetensors"
    done = read_state(saved, model, optimizer, record) if saved.exists() else 0
    if not done:
        record.held_out_nats["0"] = held_out_loss(model, corpus)
    order, last = block_order(len(corpus.rows), course), course.keep[-1]
    started = time.monotonic() - record.seconds
    model.train()
    for step in range(done + 1, last + 1):
        optimizer.param_groups[0]["lr"] = course.rate * min(1.0, step / course.warmup)
        places = order[(step - 1) * BATCH : step * BATCH]
        loss = loss_of(model, corpus.rows[places], corpus.labels[places])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        record.log.append({"step": step, "loss": round(loss.item(), 4), "seconds": round(time.monotonic() - started, 1)})
        if step in course.keep:
            record.held_out_nats[str(step)] = held_out_loss(model, corpus)
            save_checkpoint(model, tokenizer, out / f"checkpoint-{step}", trainer_state(course, record, step))
        record.seconds = time.monotonic() - started
        if step in course.keep or step % state_every == 0:
            write_state(saved, model, optimizer, step, record)
            record.write(out / "training.json")
            print(f"{course.name}: step {step}/{last}  loss {loss.item():.3f}  {record.seconds / 60:.0f} min", file=sys.stderr, flush=True)


def trainer_state(course: Course, record: Record, step: int) -> dict[str, Any]:
    """The fields of the Trainer's own file that say where on the way a checkpoint stands."""
    return {
        "global_step": step,
        "max_steps": course.keep[-1],
        "num_input_tokens_seen": step * BATCH * BLOCK,
        "train_batch_size": BATCH,
        "log_history": [{"step": row["step"], "loss": row["loss"], "learning_rate": course.rate} for row in record.log],
    }


def finished(out: Path, keep: Iterable[int]) -> bool:
    """Whether every checkpoint of a run is there."""
    return all((out / f"checkpoint-{step}").is_dir() for step in keep)
