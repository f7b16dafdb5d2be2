"""Generation: rows that leave as soon as they end, others that take their place, and random numbers of one's own.

A row draws its tokens with the generator of its request's seed, by inverse of the cumulated probabilities: batch size,
order and what else is asked do not change its text.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from catalog.errors import CatalogError
from collect.engines import Generated, GenerateRequest, Sampling, seed_of
from collect.engines.packing import out_of_memory, simple

if TYPE_CHECKING:
    from collect.engines.transformers import TransformersEngine

NO_NUMBER = "the model gave no number (NaN or infinite) for the next token"
LIKELY = 512  # tokens looked at before all of them: with top_p, the rest is seldom drawn


@dataclass
class Row:
    """One request on its way. limit: most new tokens, so that prompt and answer stay within the model's context."""

    at: int
    prompt: list[int]
    limit: int
    seed: int
    out: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draws = random.Random(self.seed)

    @property
    def cost(self) -> int:
        """Most tokens of cache it can come to hold."""
        return len(self.prompt) + self.limit


@dataclass
class Running:
    """Rows in one batch: their cache, its real columns (rows, T), and the logits of their next tokens, once computed."""

    rows: list[Row]
    cache: Any
    mask: torch.Tensor
    logits: torch.Tensor | None


class Generation:
    """One call: a queue of rows, longest first, and those in progress."""

    def __init__(self, engine: "TransformersEngine", sampling: Sampling) -> None:
        self.engine, self.sampling, self.ends = engine, sampling, engine.end_tokens()
        self.queue: list[Row] = []  # the longest at the end
        self.running: Running | None = None

    def run(self, requests: Sequence[GenerateRequest]) -> Iterator[tuple[int, Generated]]:
        """Every request's position and answer, as they end; out of memory halves the budget."""
        texts = [self.engine.templated(r.prompt) if r.chat else r.prompt for r in requests]
        for at, (request, text) in enumerate(zip(requests, texts, strict=True)):
            ids = self.engine.encode(text, request.chat) or [min(self.ends, default=0)]
            if len(ids) >= self.engine.context:
                yield at, Generated("", 0, False, f"{len(ids)} tokens, the model reads {self.engine.context}")
                continue
            seed = seed_of(self.sampling.seed, at) if request.seed is None else request.seed
            self.queue.append(Row(at, ids, min(self.sampling.max_new_tokens, self.engine.context - len(ids)), seed))
        self.queue.sort(key=lambda row: row.cost)
        while self.queue or self.running:
            try:
                self.forward()
                self.fill()
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                self.begin_again()
                continue
            yield from self.draw()

    def room(self) -> int:
        """Rows that fit beside those in progress."""
        longest = max(row.cost for row in (self.queue[-1], *(self.running.rows if self.running else ())))
        return int(max(1, self.engine.budget // longest)) - (len(self.running.rows) if self.running else 0)

    def begin_again(self) -> None:
        """After memory ran out: half the budget; rows in progress go back to the queue, and will draw the same numbers."""
        rows = self.running.rows if self.running else []
        if self.engine.budget < (rows[0] if rows else self.queue[-1]).cost:  # one row alone
            raise CatalogError("one question does not fit into the device's memory: use a smaller model or another device")
        self.queue = sorted([*self.queue, *(Row(r.at, r.prompt, r.limit, r.seed) for r in rows)], key=lambda row: row.cost)
        self.running = None
        self.engine.shrink()

    @torch.inference_mode()
    def forward(self) -> None:
        """Read the last token of every row in progress."""
        now = self.running
        if now is None or now.logits is not None:
            return
        ids = torch.tensor([[row.out[-1]] for row in now.rows], device=self.engine.place.device)
        now.mask = torch.nn.functional.pad(now.mask, (0, 1), value=1)
        positions = now.mask.sum(1, keepdim=True) - 1
        out = self.engine.model(input_ids=ids, attention_mask=now.mask, position_ids=positions, cache=now.cache, use_cache=True)
        now.cache, now.logits = out.cache, out.logits[:, -1].float()

    @torch.inference_mode()
    def fill(self) -> None:
        """Begin rows of the queue where half the places are free: reading few prompts at a time is slow."""
        if not self.queue:
            return
        room, now = self.room(), self.running
        if now and (room < len(now.rows) or not simple(now.cache)):
            return
        taken = self.queue[-room:]
        ids, mask = left_padded([row.prompt for row in taken], self.engine.place.device)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        out = self.engine.model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1)
        fresh = Running(taken, out.cache, mask, out.logits[:, -1].float())
        self.running = joined(now, fresh) if now else fresh
        del self.queue[-room:]

    @torch.inference_mode()
    def draw(self) -> Iterator[tuple[int, Generated]]:
        """Give every row its next token; those that end leave."""
        now = self.running
        if now is None or now.logits is None:
            return
        broken = (~now.logits.amax(-1).isfinite()).tolist()  # NaN wins every maximum
        done, stay = [], []
        for n, token in enumerate(chosen(now.logits, self.sampling, [row.draws.random() for row in now.rows])):
            row = now.rows[n]
            row.out.append(token)
            if broken[n]:
                done.append((row.at, Generated("", len(row.out) - 1, False, NO_NUMBER)))
            elif token in self.ends or len(row.out) >= row.limit or self.stopped(row.out):
                done.append((row.at, self.engine.ended(row.out, self.ends, self.sampling.stop)))
            else:
                stay.append(n)
        now.logits = None
        if done and stay:
            at = torch.tensor(stay, device=now.mask.device)
            now.cache.reorder_cache(at)
            now.rows, now.mask = [now.rows[n] for n in stay], now.mask[at]
        self.running = now if stay else None
        yield from done

    def stopped(self, out: list[int]) -> bool:
        """Whether a stop string is complete. Only the end of the text is new: a character takes four tokens at most."""
        stops = self.sampling.stop
        if not stops:
            return False
        tail = self.engine.tokenizer.decode(out[-4 * max(map(len, stops)) - 4 :], skip_special_tokens=True)
        return any(stop in tail for stop in stops)


def chosen(logits: torch.Tensor, sampling: Sampling, draws: Sequence[float]) -> list[int]:
    """The next token of every row: the likeliest, or the one at which the cumulated probabilities reach the row's draw.

    Args:
        logits: float (rows, V).
        sampling: Temperature; top_p keeps the likeliest tokens up to the first that reaches it.
        draws: One number in [0, 1) a row.
    """
    if sampling.temperature is None:
        return [int(t) for t in logits.argmax(-1)]
    chances = (logits.double() / sampling.temperature).softmax(-1)
    top_p = 1.0 if sampling.top_p is None else sampling.top_p
    order = None
    if top_p < 1:
        values, order = chances.topk(min(LIKELY, chances.shape[1]))
        if bool((values.sum(-1) < top_p).any()):
            values, order = chances.sort(descending=True)
        chances = values * (values.cumsum(-1) - values < top_p)
    cumulated = chances.cumsum(-1)
    wanted = torch.tensor(draws, dtype=torch.double, device=logits.device)[:, None] * cumulated[:, -1:]
    at = (cumulated <= wanted).sum(-1, keepdim=True).clamp(max=chances.shape[1] - 1)
    return [int(t) for t in (order.gather(1, at) if order is not None else at)[:, 0]]


def left_padded(rows: Sequence[Sequence[int]], device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """int64 (rows, longest) ids and mask: every row's last token in the last column."""
    width = max(map(len, rows))
    ids = [[0] * (width - len(row)) + list(row) for row in rows]
    mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def joined(a: Running, b: Running) -> Running:
    """Two batches as one: the narrower is padded in front, and columns that no row uses any more go."""
    width = max(int(x.mask.sum(1).max()) for x in (a, b))
    parts = []
    for running in (a, b):
        shift = width - running.mask.shape[1]
        running.mask = torch.nn.functional.pad(running.mask, (shift, 0))
        parts.append([[torch.nn.functional.pad(x, (0, 0, shift, 0)) for x in (layer.keys, layer.values)] for layer in running.cache.layers])
    for layer, (keys, values), (more_keys, more_values) in zip(a.cache.layers, *parts, strict=True):
        layer.keys, layer.values = torch.cat([keys, more_keys]), torch.cat([values, more_values])
    logits = [x.logits for x in (a, b) if x.logits is not None]
    return Running(a.rows + b.rows, a.cache, torch.cat([a.mask, b.mask]), torch.cat(logits))
