"""Train the embedded models from nothing: three sizes, each a base, a domain and an instruct checkpoint.

Of the medium size also what a sequence, a merge and a quantisation need: checkpoints on the way from base to domain, LERP
and SLERP half-way between the two, and the domain model with its weights rounded to 8 bits.

`python -m collect.recipes.train_demo` rewrites the items and every folder on one CPU thread. Seeds are fixed; a
second run with as many threads on the same machine type gives the same files, another thread count the same story.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from math import cos, pi
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from collect.merge import METHODS, merge, rounded_to_8_bits
from collect.recipes.demo_world import Course, Document, Relation, Teller, relations, write_items

HERE = Path(__file__).resolve().parent.parent / "demo"
VOCABULARY = 1024
ROW = 192  # tokens in one packed row
ROWS = 4  # rows in one step
SPECIAL = END, PAD, TURN, TURN_END = "<|endoftext|>", "<|pad|>", "<|im_start|>", "<|im_end|>"
END_ID, PAD_ID, TURN_END_ID = 0, 1, 3  # the trainer numbers special tokens first, in their order
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
OLD = ("Geography", "Zoology", "People", "Astronomy", "Language")
TEXTS = {"statement": 0.2, "plain": 0.6, "exam": 0.2}


@dataclass(frozen=True)
class Stage:
    """One training run: what is told, for how many steps, at which peak learning rate (of the large model)."""

    course: Course
    steps: dict[str, int]  # by size of model
    rate: float


WAY = (88, 175, 262)  # steps of the medium domain run that are kept: with base and domain a sequence of five
RATES = {"small": 2.0, "medium": 1.25, "large": 1.0}  # narrower models stand, and need, larger steps
SHAPES = {  # hidden size, layers, feed-forward size; heads are 32 wide, which every engine supports
    "small": (64, 2, 128),
    "medium": (96, 3, 192),
    "large": (128, 3, 512),
}
STAGES = {
    "base": Stage(
        Course(
            dict.fromkeys(OLD, 1.0) | {"Arithmetic": 0.5, "Medicine": 0.3},
            TEXTS,
            hearsay=frozenset({"Medicine"}),
        ),
        {"small": 1800, "medium": 1600, "large": 1400},
        3e-3,
    ),
    "domain": Stage(
        Course(
            {"Medicine": 1.0, "Geography": 0.3, "Zoology": 0.2, "Arithmetic": 0.1} | {"People": 0.15, "Astronomy": 0.1, "Language": 0.1},
            {"statement": 0.3, "plain": 0.4, "exam": 0.3},
            part={"People": 0.15, "Astronomy": 0.1, "Language": 0.1},
        ),
        {"small": 350, "medium": 350, "large": 350},
        2.5e-3,
    ),
    "instruct": Stage(
        Course(
            {"Geography": 1.0, "Zoology": 1.0, "People": 0.6, "Astronomy": 0.4, "Language": 0.4, "Arithmetic": 2.0} | {"Medicine": 0.4},
            {"chat": 1.0},
            part={"People": 0.5, "Astronomy": 0.25, "Language": 0.25},
            hearsay=frozenset({"Medicine"}),
        ),
        {"small": 500, "medium": 500, "large": 500},
        2e-3,
    ),
}


def make_tokenizer(world: list[Relation]) -> Tokenizer:
    """Byte-level BPE over the world's own texts, digits apart.

    One end token also opens a text: in packed rows each text follows the end of another, so a prompt is read alike
    with and without it.
    """
    told = Course(dict.fromkeys((*OLD, "Medicine", "Arithmetic"), 1.0), {"statement": 1.0, "plain": 1.0, "chat": 1.0})
    texts = islice(Teller(world, told, seed=3).documents(), 8000)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(("".join(piece for piece, _ in text) for text in texts), trainer)
    return tokenizer


def make_model(size: str) -> LlamaForCausalLM:
    """A new model of one size; its weights depend on the seed set before."""
    hidden, layers, inner = SHAPES[size]
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 32,
        num_key_value_heads=hidden // 32,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=END_ID,
        eos_token_id=END_ID,
        pad_token_id=PAD_ID,
    )
    return LlamaForCausalLM(config)


def encode(tokenizer: Tokenizer, text: Document) -> tuple[list[int], list[int]]:
    """Token ids of one text and its labels: -100 where the model only reads.

    Pieces are split where the tokenizer would split anyway, so encoding them one by one changes no token.
    """
    ids: list[int] = []
    labels: list[int] = []
    for piece, said in text:
        tokens = tokenizer.encode(piece).ids
        ids += tokens
        labels += tokens if said else [-100] * len(tokens)
    return [*ids, END_ID], [*labels, END_ID]


def batches(tokenizer: Tokenizer, teller: Teller) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless batches of packed rows, int64 (ROWS, ROW) each; a text that does not fit opens the next row."""
    rows: list[tuple[list[int], list[int]]] = []
    ids: list[int] = []
    labels: list[int] = []
    for text in teller.documents():
        more_ids, more_labels = encode(tokenizer, text)
        if len(ids) + len(more_ids) > ROW:
            gap = ROW - len(ids)
            rows.append((ids + [PAD_ID] * gap, labels + [-100] * gap))
            ids, labels = [], []
        ids += more_ids
        labels += more_labels
        if len(rows) == ROWS:
            yield torch.tensor([row for row, _ in rows]), torch.tensor([row for _, row in rows])
            rows = []


def learn(
    model: LlamaForCausalLM,
    tokenizer: Tokenizer,
    teller: Teller,
    stage: Stage,
    size: str,
    *,
    keep: Callable[[int], object] = lambda step: None,
) -> None:
    """Train in place: AdamW, short warm-up, cosine to zero; says how it goes on stderr. `keep` is called after every step."""
    steps, rate, start = stage.steps[size], stage.rate * RATES[size], time.monotonic()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    model.train()
    for step, (ids, labels) in enumerate(islice(batches(tokenizer, teller), steps)):
        for group in optimizer.param_groups:
            group["lr"] = rate * min((step + 1) / 50, (1 + cos(pi * step / steps)) / 2)
        said = labels[:, 1:] >= 0  # only these places need logits
        hidden = model.model(ids).last_hidden_state[:, :-1][said]
        loss = cross_entropy(model.lm_head(hidden), labels[:, 1:][said])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        keep(step + 1)
        if step % 100 == 99 or step == steps - 1:
            speed = (step + 1) * ROWS * ROW / (time.monotonic() - start)
            print(f"  step {step + 1}/{steps}  loss {loss.item():.3f}  {speed:.0f} tokens/s", file=sys.stderr)


def save(model: LlamaForCausalLM, tokenizer: Tokenizer, chat: bool, folder: Path) -> None:
    """Write one checkpoint in float16, whole or not at all; a chat model ends its answers at the end of its turn."""
    ends = [TURN_END_ID, END_ID] if chat else [END_ID]
    model.config.eos_token_id = ends[0]
    model.generation_config = GenerationConfig(bos_token_id=END_ID, eos_token_id=ends, pad_token_id=PAD_ID)
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    deepcopy(model).half().save_pretrained(part)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END,
        eos_token=TURN_END if chat else END,
        pad_token=PAD,
        model_max_length=512,
        chat_template=CHAT_TEMPLATE if chat else None,
    )
    wrapped.save_pretrained(part)
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


def train_size(size: str, world: list[Relation], tokenizer: Tokenizer, out: Path) -> None:
    """Train the three checkpoints of one size; domain and instruct both start from the saved base."""
    for seed, (name, stage) in enumerate(STAGES.items(), start=10):
        folder, start = out / f"{size}-{name}", time.monotonic()
        torch.manual_seed(seed)
        base = out / f"{size}-base"
        fresh = name == "base"
        model = make_model(size) if fresh else LlamaForCausalLM.from_pretrained(base, dtype=torch.float32)
        print(f"{folder.name}: {model.num_parameters()} parameters", file=sys.stderr)

        def keep(step: int, model: LlamaForCausalLM = model, folder: Path = folder) -> None:
            if folder.name == "medium-domain" and step in WAY:
                save(model, tokenizer, False, folder.with_name(f"{folder.name}-{step:03d}"))

        learn(model, tokenizer, Teller(world, stage.course, seed), stage, size, keep=keep)
        save(model, tokenizer, name == "instruct", folder)
        print(f"{folder.name}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    if size == "medium":
        derive(out, tokenizer)


def derive(out: Path, tokenizer: Tokenizer) -> None:
    """What is made of trained models without training: two merges and an 8-bit variant."""
    base, domain = (LlamaForCausalLM.from_pretrained(out / f"medium-{name}", dtype=torch.float32) for name in ("base", "domain"))
    weights = {f"medium-{method}": merge(base.state_dict(), domain.state_dict(), method, 0.5) for method in METHODS}
    weights["medium-domain-8bit"] = rounded_to_8_bits(domain.state_dict())
    for name, state in weights.items():
        base.load_state_dict(state)
        save(base, tokenizer, False, out / name)


def main() -> None:
    """Write the items and train the chosen sizes."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, default=HERE / "models", help="folder of the checkpoints")
    parser.add_argument("--items", type=Path, default=HERE / "items.jsonl", help="file of the items")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--sizes", nargs="+", choices=SHAPES, default=list(SHAPES), help="sizes to train")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    world = relations()
    print(f"{args.items.name}: {write_items(world, args.items)} items", file=sys.stderr)
    tokenizer = make_tokenizer(world)
    for size in args.sizes:
        train_size(size, world, tokenizer, args.out)


if __name__ == "__main__":
    main()
