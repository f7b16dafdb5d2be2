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
from collect.engines.encoding import SHARED
from collect.engines.packing import AT_ONCE, Lead, common_length, out_of_memory, repeated, simple

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
        self.closing: dict[int, bool] = {}  # of tokens met: whether a stop string can end with it

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
        start = self.engine.read_once(common(taken)) if len(taken) >= SHARED else Lead()
        parts = portions(taken, start.length, AT_ONCE.get(torch.device(self.engine.place.device).type, self.engine.budget))
        fresh = [self.begun(parts[0], start)]
        if simple(fresh[0].cache):
            fresh += [self.begun(part, start) for part in parts[1:]]
            self.running = joined([now, *fresh] if now else fresh)
        else:  # what was read cannot be put together
            self.running = fresh[0] if len(parts) == 1 else self.begun(taken, Lead())
        del self.queue[-room:]

    def begun(self, rows: list[Row], start: Lead) -> Running:
        """Read prompts behind what they share, up to the logits of their next tokens."""
        ids, mask = left_padded([row.prompt[start.length :] for row in rows], self.engine.place.device)
        mask = torch.nn.functional.pad(mask, (start.length, 0), value=1)
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, start.length :]
        told = {"cache": repeated(start.cache, len(rows))} if start.length else {}
        out = self.engine.model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1, **told)
        return Running(rows, out.cache, mask, out.logits[:, -1].float())

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
            stay = only(now.cache, stay)
            now.rows, now.mask = [now.rows[n] for n in stay], now.mask[torch.tensor(stay, device=now.mask.device)]
        self.running = now if stay else None
        yield from done

    def stopped(self, out: list[int]) -> bool:
        """Whether a stop string is complete. Only the end of the text is new: a character takes four tokens at most."""
        stops = self.sampling.stop
        if not stops or not self.may_close(out[-1]):
            return False
        tail = self.engine.tokenizer.decode(out[-4 * max(map(len, stops)) - 4 :], skip_special_tokens=True)
        return any(stop in tail for stop in stops)

    def may_close(self, token: int) -> bool:
        """Whether a stop string can end with this token: reading the text anew for every token costs as much as a small layer.

        A token that is part of a character, or whose text alone says nothing, counts as one that can.
        """
        if token not in self.closing:
            text = self.engine.tokenizer.decode([token], skip_special_tokens=True)
            lasts = {stop[-1:] for stop in self.sampling.stop}
            unclear = not text.strip() or "\ufffd" in text or not lasts.isdisjoint({"", " "})  # alone, a token may lose its space
            self.closing[token] = unclear or not lasts.isdisjoint(text)
        return self.closing[token]


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


def common(rows: Sequence[Row]) -> list[int]:
    """Tokens that all prompts begin with, each keeping one of its own."""
    first = rows[0].prompt
    return first[: min(min(common_length(first, row.prompt), len(row.prompt) - 1) for row in rows)]


def portions(rows: Sequence[Row], past: int, tokens: int) -> list[list[Row]]:
    """Rows in portions of at most so many tokens of prompt beyond what is read, padding included, but one row at least."""
    parts: list[list[Row]] = []
    longest = 0
    for row in rows:
        longest = max(longest, len(row.prompt) - past)
        if parts and (len(parts[-1]) + 1) * longest <= tokens:
            parts[-1].append(row)
        else:
            parts.append([row])
            longest = len(row.prompt) - past
    return parts


def joined(batches: Sequence[Running]) -> Running:
    """Batches as one: the narrower are padded in front, and columns that no row uses any more go."""
    from collect.engines.growing import Growing

    width = max(b.mask.shape[1] - int(b.mask.amax(0).argmax()) for b in batches)
    shifts = [width - b.mask.shape[1] for b in batches]
    mask = torch.cat([torch.nn.functional.pad(b.mask, (shift, 0)) for b, shift in zip(batches, shifts, strict=True)])
    cache = batches[0].cache
    for n in range(len(cache.layers)):
        both = []
        for name in ("keys", "values"):
            parts = [
                torch.nn.functional.pad(getattr(b.cache.layers[n], name), (0, 0, shift, 0))
                for b, shift in zip(batches, shifts, strict=True)
            ]
            both.append(torch.cat(parts))
        cache.layers[n] = Growing(*both)
    logits = torch.cat([b.logits for b in batches if b.logits is not None])
    return Running([row for b in batches for row in b.rows], cache, mask, logits)


def only(cache: Any, stay: list[int]) -> list[int]:
    """Take rows out of a cache. Returns which row, of those before, stands where: the last ones fill gaps, so that few are moved."""
    if not simple(cache):
        cache.reorder_cache(torch.tensor(stay))
        return stay
    late = [n for n in stay if n >= len(stay)]
    kept = set(stay)
    order = [n if n in kept else late.pop() for n in range(len(stay))]
    for layer in cache.layers:
        layer.keep(order)
    return order
