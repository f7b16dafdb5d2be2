"""Questions as token ids, and many of them as one tensor: the options stand behind their question in one row.

An option's tokens see the question and themselves, not the other options, and count their positions from the question's
end: the model computes for each what it would compute for question + option alone, and the question only once.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

AT_ONCE = {"cpu": 2048}  # tokens read in one pass: a processor is fastest while they stay in its cache


@dataclass(frozen=True)
class Encoded:
    """Token ids of one question: the part its options share, each option's rest, and where its scored part begins.

    lead: what questions that begin with the same text (examples) have in common; they are asked together.
    """

    at: int
    shared: list[int]
    rests: list[list[int]]
    skips: list[int]
    lead: str = ""

    @property
    def cost(self) -> int:
        """Tokens its row takes: an option's last token is predicted, never read."""
        return len(self.shared) + sum(len(rest) - 1 for rest in self.rests)

    @property
    def longest(self) -> int:
        """Tokens of the question with its longest option."""
        return len(self.shared) + max(map(len, self.rests))


@dataclass(frozen=True)
class Packed:
    """A batch as tensors, and where in it every scored token is predicted.

    ids, positions: int64 (rows, width). mask: bool (rows, width, past + width), what a token may see.
    where: row and column in which each scored token is predicted, and the token. counts: scored tokens of every option.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    where: list[tuple[int, int, int]]
    counts: list[int]

    def sums(self, logits: torch.Tensor) -> list[float]:
        """Summed log-probability of every option in nats, from the logits of its scored tokens (n, vocabulary)."""
        wanted = torch.tensor([token for *_, token in self.where], device=logits.device)
        rows = 32 if logits.device.type == "cpu" else 1024  # the vocabulary is wide: what stays in a processor's cache is read once
        parts = zip(logits.split(rows), wanted.split(rows), strict=True)
        lost = torch.cat([torch.nn.functional.cross_entropy(part.float(), target, reduction="none") for part, target in parts])
        return [-float(part.sum()) for part in lost.double().cpu().split(self.counts)]


@dataclass
class Lead:
    """Examples that questions share: their tokens' keys and values, one row, or nothing."""

    ids: list[int] = field(default_factory=list)
    cache: Any = None

    @property
    def length(self) -> int:
        """Number of tokens."""
        return len(self.ids)


def pack(batch: Sequence[Encoded], past: int, device: str) -> Packed:
    """Lay out a batch, one row a question with all its options.

    Args:
        batch: Questions whose `shared` is longer than `past`.
        past: Tokens at the beginning of every question that a cache holds already.
        device: Where the tensors go.
    """
    rows: list[list[tuple[int, int, int]]] = []  # id, position, option (0: question) of every token
    where: list[tuple[int, int, int]] = []  # row, column, target of every scored token
    counts = []
    for at, question in enumerate(batch):
        end = len(question.shared)
        row = [(token, past + n, 0) for n, token in enumerate(question.shared[past:])]
        for option, (rest, skip) in enumerate(zip(question.rests, question.skips, strict=True), 1):
            columns = [end - past - 1, *range(len(row), len(row) + len(rest) - 1)]
            where += [(at, column, token) for column, token in list(zip(columns, rest, strict=True))[skip:]]
            counts.append(len(rest) - skip)
            row += [(token, end + n, option) for n, token in enumerate(rest[:-1])]
        rows.append(row)
    width = max(map(len, rows))
    cells = torch.tensor([row + [(0, 0, -1)] * (width - len(row)) for row in rows], device=device)
    return Packed(cells[..., 0], cells[..., 1], visible(cells[..., 2], past), where, counts)


def visible(option: torch.Tensor, past: int) -> torch.Tensor:
    """What every token may see: what is cached, the question before it, and its own option before it."""
    width = option.shape[1]
    seen = (option[:, None, :] == 0) | (option[:, None, :] == option[:, :, None])
    seen &= torch.ones(width, width, dtype=torch.bool, device=option.device).tril()
    return torch.nn.functional.pad(seen, (past, 0), value=True) if past else seen


def unpacked(batch: Sequence[Encoded], device: str) -> Packed:
    """Lay out a batch with one row an option, padded at the end: right for every model, and as many times the question."""
    whole = [
        (question.shared + rest[:-1], rest, skip) for question in batch for rest, skip in zip(question.rests, question.skips, strict=True)
    ]
    width = max(len(ids) for ids, _, _ in whole)
    ids = torch.tensor([ids + [0] * (width - len(ids)) for ids, _, _ in whole], device=device)
    mask = torch.tensor([[True] * len(ids) + [False] * (width - len(ids)) for ids, _, _ in whole], device=device)
    where = [(row, len(ids) - len(rest) + n, rest[n]) for row, (ids, rest, skip) in enumerate(whole) for n in range(skip, len(rest))]
    positions = torch.arange(width, device=device).expand_as(ids)
    return Packed(ids, positions, mask, where, [len(rest) - skip for _, rest, skip in whole])


def common_length(a: Sequence[int], b: Sequence[int]) -> int:
    """How many leading tokens two sequences share."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def common_start(questions: Sequence[Encoded]) -> int:
    """How many leading tokens all questions share, each keeping one of its own, which predicts its options."""
    first = questions[0].shared
    return min(min(common_length(first, q.shared), len(q.shared) - 1) for q in questions)


def simple(cache: Any) -> bool:
    """Whether every layer of a cache is plain keys and values, one a token, which can be cut, joined and repeated."""
    from transformers.cache_utils import DynamicLayer

    from collect.engines.growing import Growing

    return all(type(layer) in (DynamicLayer, Growing) for layer in cache.layers)


def repeated(cache: Any, rows: int) -> Any:
    """A cache of one row as one of many; the keys and values are not copied before the model adds to them."""
    fresh = copy.copy(cache)
    fresh.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in fresh.layers:
        layer.keys, layer.values = (x.expand(rows, -1, -1, -1) for x in (layer.keys, layer.values))
    return fresh


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on a GPU or here."""
    said = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in said or "out of memory" in said
