"""The default engine: Hugging Face transformers, one model on one device.

The options of a question share its forward pass: they stand behind it in one row, each hidden from the others
(packing.py). Examples that questions of a task share run once. Logits are computed where an answer is read, nowhere else.
A model that does not answer the same this way (checked at its first question) gets one row an option.
"""

import itertools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch

from catalog.errors import CatalogError
from collect.device import DTYPES, Place, place
from collect.engines import Advance, Generated, GenerateRequest, Keep, Sampling, Scored, ScoreRequest
from collect.engines.encoding import Encoder, shared_leads
from collect.engines.generating import Generation
from collect.engines.packing import AT_ONCE, Encoded, Lead, Packed, common_start, out_of_memory, pack, repeated, simple, unpacked
from collect.models import Located

T = TypeVar("T")
R = TypeVar("R")

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TQDM_DISABLE", "1")  # reading a .gguf draws its own bar across ours
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

WINDOW = 2048  # questions encoded and sorted together: memory does not grow with a task
PADDED = 0.15  # share of a batch that may be padding
NO_NUMBER = "the model gave no number (NaN or infinite) for an option"


@dataclass
class Counted:
    """What scoring fed the model: tokens of rows, tokens of padding, passes."""

    tokens: int = 0
    padding: int = 0
    passes: int = 0


class TransformersEngine(Encoder):
    """Loads the tokenizer at once and the weights when they are first needed."""

    name = "transformers"

    def __init__(self, located: Located, where: Place | None = None, trust_remote_code: bool = False) -> None:
        from transformers.utils import logging

        logging.disable_progress_bar()
        self.located, self.place = located, where or place()
        self.options: dict[str, Any] = {"trust_remote_code": trust_remote_code}
        if located.gguf:
            self.options["gguf_file"] = located.gguf
        super().__init__(located, self.options)
        self.dtype, self.hardware, self.budget = self.place.dtype, self.place.hardware, self.place.budget
        self.loaded: Any = None
        self.packs: bool | None = None
        self.counted = Counted()
        self.lead = Lead()

    @property
    def model(self) -> Any:
        """The model, loaded on first use, from safetensors or GGUF only."""
        if self.loaded is None:
            from transformers import AutoModelForCausalLM

            safe = {} if self.located.gguf else {"use_safetensors": True}
            try:
                model = AutoModelForCausalLM.from_pretrained(self.located.folder, dtype=DTYPES[self.dtype], **safe, **self.options)
            except (OSError, ValueError, ImportError, RuntimeError) as error:
                raise CatalogError(f"the weights of {self.located.spec.where} do not load: {str(error).strip().splitlines()[0]}") from error
            self.loaded = model.eval().to(torch.device(self.place.device))
        return self.loaded

    def n_params(self) -> int | None:
        """Number of parameters, tied ones once."""
        return sum(int(p.numel()) for p in self.model.parameters())

    @property
    def context(self) -> int:
        """Most tokens of prompt and answer together."""
        return int(getattr(self.model.config, "max_position_embeddings", None) or 10**9)

    # ---- option scoring ----

    def score(self, requests: Sequence[ScoreRequest], advance: Advance, keep: Keep | None = None) -> list[Scored]:
        """Summed log-probability of every continuation of every request, in nats, in the order given."""
        results: list[Scored | None] = [None] * len(requests)
        for questions in self.windows(requests):
            for at, scored in self.score_window(questions):
                results[at] = scored
                if keep:
                    keep(at, scored)
                advance(1)
        self.lead = Lead()
        return [r for r in results if r is not None]

    def windows(self, requests: Sequence[ScoreRequest]) -> Iterator[list[Encoded]]:
        """Requests as token ids, window by window; a thread prepares the next one while the model works."""
        shared = shared_leads(requests)
        with ThreadPoolExecutor(1) as ahead:
            prepared: Any = None
            for first in range(0, len(requests), WINDOW):
                now = prepared.result() if prepared else self.questions(requests[:WINDOW], 0, shared)
                following = first + WINDOW
                prepared = ahead.submit(self.questions, requests[following : following + WINDOW], following, shared)
                yield now

    def score_window(self, questions: Sequence[Encoded]) -> Iterator[tuple[int, Scored]]:
        """Every question's position and result, as batches are done."""
        fit = [q for q in questions if q.longest <= self.context]
        yield from (
            (q.at, Scored(None, 0, f"{q.longest} tokens, the model reads {self.context}")) for q in questions if q.longest > self.context
        )
        apart = [q for q in fit if not self.can_pack(q)]
        if apart:
            yield from self.score_questions(
                apart, lambda q: len(q.rests) * q.longest, lambda batch: self.sums_of(unpacked(batch, self.place.device))
            )
        together = sorted((q for q in fit if self.can_pack(q)), key=lambda q: q.lead)
        for lead, group in itertools.groupby(together, key=lambda q: q.lead):
            asked = list(group)
            start = self.lead_of(asked) if lead and len(asked) > 1 else Lead()
            yield from self.score_questions(asked, partial(row_length, start.length), partial(self.score_batch, lead=start))

    def score_questions(
        self, questions: list[Encoded], cost: Callable[[Encoded], int], run: Callable[[Sequence[Encoded]], list[float]]
    ) -> Iterator[tuple[int, Scored]]:
        """Batch by batch; an option without a finite number makes its question unmeasured, not wrong."""
        for batch, sums in self.in_batches(questions, cost, lambda b: [run(b)], AT_ONCE.get(torch.device(self.place.device).type)):
            found = iter(sums[0])
            for question in batch:
                own = tuple(next(found) for _ in question.rests)
                n_tokens = len(question.shared) + sum(map(len, question.rests))
                sound = all(map(math.isfinite, own))
                yield question.at, Scored(own, n_tokens) if sound else Scored(None, n_tokens, NO_NUMBER)

    def score_batch(self, batch: Sequence[Encoded], lead: Lead) -> list[float]:
        """Summed log-probability of every option of every question of a batch, one row a question."""
        return self.sums_of(pack(batch, lead.length, self.place.device), lead)

    @torch.inference_mode()
    def sums_of(self, packed: Packed, lead: Lead | None = None) -> list[float]:
        """One forward pass of a batch that is laid out; logits only where an answer is read."""
        mask = packed.mask
        if mask.dim() == 3:
            mask = torch.zeros(mask.shape, dtype=self.model.dtype, device=mask.device).masked_fill_(
                ~mask, torch.finfo(self.model.dtype).min
            )[:, None]
        told: dict[str, Any] = {"use_cache": False}
        if lead and lead.cache is not None:
            told = {"use_cache": True, "cache": repeated(lead.cache, len(mask))}
        with only_at(self.model, [row for row, *_ in packed.where], [column for _, column, _ in packed.where]):
            logits = self.model(input_ids=packed.ids, attention_mask=mask, position_ids=packed.positions, **told).logits[0]
        self.counted.passes += 1
        self.counted.tokens += packed.ids.numel()
        return packed.sums(logits)

    def lead_of(self, questions: Sequence[Encoded]) -> Lead:
        """What the questions begin with, read once."""
        return self.read_once(questions[0].shared[: common_start(questions)])

    @torch.inference_mode()
    def read_once(self, ids: list[int]) -> Lead:
        """Read what many rows begin with, from 32 tokens on; what was read before is used where it is a beginning of it."""
        had = self.lead.ids
        if 32 <= len(had) <= len(ids) and ids[: len(had)] == had:  # of the window or the rows before
            return self.lead
        if len(ids) < 32:
            return Lead()
        cache = self.model(input_ids=torch.tensor([ids], device=self.place.device), use_cache=True, logits_to_keep=1).cache
        self.counted.passes += 1
        self.counted.tokens += len(ids)
        self.lead = Lead(ids, cache) if simple(cache) else Lead()
        return self.lead

    def can_pack(self, question: Encoded) -> bool:
        """Whether the model reads this question right with all its options in one row.

        A sliding window would have to be part of the mask: questions longer than it go apart.
        """
        config = self.model.config.get_text_config()
        window = getattr(config, "sliding_window", None) or getattr(config, "attention_chunk_size", None)
        if self.packs is None:
            self.packs = self.packs_right()
        return self.packs and (not window or question.longest < window)

    def packs_right(self) -> bool:
        """Score a made-up question packed, packed behind a shared beginning, and apart: the same, or the model cannot."""
        ids = [n % self.model.config.get_text_config().vocab_size for n in range(3, 90)]
        probes = [Encoded(0, ids[:n], [ids[60:64], ids[70:72], ids[80:85]], [0, 0, 1]) for n in (40, 36)]
        plain = self.sums_of(unpacked(probes, self.place.device))
        tolerance = 1e-3 if self.dtype == "float32" else 1.0
        try:
            packed = [self.score_batch(probes, Lead()), self.score_batch(probes, self.lead_of(probes))]
        except (TypeError, ValueError, RuntimeError, AttributeError):  # a model that takes no mask or no cache of ours
            return False
        finally:
            self.counted, self.lead = Counted(), Lead()
        return all(abs(a - b) <= tolerance for sums in packed for a, b in zip(sums, plain, strict=True))

    # ---- generation ----

    def generate(
        self, requests: Sequence[GenerateRequest], sampling: Sampling, advance: Advance, keep: Keep | None = None
    ) -> list[Generated]:
        """Continue every request, in the order given; a request's text depends on its seed, not on what stands beside it."""
        results: list[Generated | None] = [None] * len(requests)
        for at, generated in Generation(self, sampling).run(requests):
            results[at] = generated
            if keep:
                keep(at, generated)
            advance(1)
        self.lead = Lead()
        return [r for r in results if r is not None]

    def end_tokens(self) -> set[int]:
        """Every token that ends an answer: the tokenizer's and those the model's generation config names."""
        told = getattr(self.model.generation_config, "eos_token_id", None)
        ends = {self.tokenizer.eos_token_id, *(told if isinstance(told, list) else [told])}
        return {e for e in ends if e is not None}

    def ended(self, tokens: list[int], ends: set[int], stops: Sequence[str]) -> Generated:
        """Text up to the first end token or stop string."""
        n = next((i for i, token in enumerate(tokens) if token in ends), len(tokens))
        finished = n < len(tokens)
        text = self.tokenizer.decode(tokens[:n], skip_special_tokens=True)
        cuts = [at for stop in stops if (at := text.find(stop)) >= 0]
        if cuts:
            text, finished = text[: min(cuts)], True
        return Generated(text, n, finished)

    # ---- batches ----

    def in_batches(
        self, work: list[T], cost: Callable[[T], int], run: Callable[[Sequence[T]], list[R]], at_once: int | None = None
    ) -> Iterator[tuple[list[T], list[R]]]:
        """Longest first, so that the first batch shows whether memory suffices; out of memory halves the budget."""
        queue = sorted(work, key=cost, reverse=True)
        while queue:
            size = batch_size([max(1, cost(w)) for w in queue[:4096]], min(self.budget, at_once or self.budget))
            try:
                done = run(queue[:size])
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                if size == 1:
                    raise CatalogError(
                        "one question does not fit into the device's memory: use a smaller model or another device"
                    ) from None
                self.shrink()
                continue
            yield queue[:size], done
            queue = queue[size:]

    def shrink(self) -> None:
        """Half the budget, after memory ran out."""
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        self.budget //= 2


def row_length(past: int, question: Encoded) -> int:
    """What a question's row costs, in tokens: those it reads, and a part of those that are cached, copied for every row."""
    return question.cost - past + past // 4


def batch_size(costs: Sequence[int], budget: int) -> int:
    """How many of the first rows run together: within the budget, padded to the longest, little of it padding."""
    size, real = 1, costs[0]
    for n, tokens in enumerate(costs[1:], 2):
        real += tokens
        full = n * costs[0]
        if full > budget or (full > budget // 4 and full - real > PADDED * full):
            break
        size = n
    return size


@contextmanager
def only_at(model: Any, rows: Sequence[int], columns: Sequence[int]) -> Iterator[None]:
    """Let the model's head see only these positions: logits come out as (1, positions, vocabulary)."""
    head = model.get_output_embeddings()
    at = torch.tensor(rows, device=model.device), torch.tensor(columns, device=model.device)
    hook = head.register_forward_pre_hook(lambda _, args: (args[0][at][None], *args[1:]))
    try:
        yield
    finally:
        hook.remove()
