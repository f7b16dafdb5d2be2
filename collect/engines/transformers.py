"""The default engine: Hugging Face transformers, one model on one device.

The options of a question share its forward pass: the question runs once and its key-value cache is repeated for the
options, which run together. Left padding puts every question's last token in the same column.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from catalog.errors import CatalogError
from collect.device import DTYPES, Place, place
from collect.engines import Advance, Generated, GenerateRequest, Sampling, Scored, ScoreRequest
from collect.models import Located

T = TypeVar("T")
R = TypeVar("R")

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TQDM_DISABLE", "1")  # reading a .gguf draws its own bar across ours
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@dataclass(frozen=True)
class Encoded:
    """Token ids of one question: the part its options share, each option's rest, and where its scored part begins."""

    at: int
    shared: list[int]
    rests: list[list[int]]
    skips: list[int]

    @property
    def cost(self) -> int:
        """Tokens of cache the question and its options hold."""
        return len(self.rests) * (len(self.shared) + max(map(len, self.rests)))


class TransformersEngine:
    """Loads the tokenizer at once and the weights when they are first needed."""

    name = "transformers"

    def __init__(self, located: Located, where: Place | None = None, trust_remote_code: bool = False) -> None:
        from transformers import AutoTokenizer
        from transformers.utils import logging

        logging.disable_progress_bar()
        self.located, self.place = located, where or place()
        self.options: dict[str, Any] = {"trust_remote_code": trust_remote_code}
        if located.gguf:
            self.options["gguf_file"] = located.gguf
        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(located.folder, **self.options)
        except (OSError, ValueError, ImportError) as error:
            raise CatalogError(f"the tokenizer of {located.spec.where} does not load: {str(error).strip().splitlines()[0]}") from error
        if self.tokenizer.pad_token_id is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token or self.tokenizer.convert_ids_to_tokens(0)
        template = self.tokenizer.chat_template
        self.has_template = bool(template)
        self.chat_template_sha256 = hashlib.sha256(str(template).encode()).hexdigest() if template else None
        self.dtype, self.hardware, self.budget = self.place.dtype, self.place.hardware, self.place.budget
        self.loaded: Any = None

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

    def encode(self, text: str, chat: bool) -> list[int]:
        """Token ids; a templated text carries its special tokens already."""
        return list(self.tokenizer(text, add_special_tokens=not chat)["input_ids"])

    def templated(self, message: str) -> str:
        """A user's message in the model's own chat template, up to where the answer begins."""
        return str(self.tokenizer.apply_chat_template([{"role": "user", "content": message}], tokenize=False, add_generation_prompt=True))

    # ---- option scoring ----

    def score(self, requests: Sequence[ScoreRequest], advance: Advance) -> list[Scored]:
        """Summed log-probability of every continuation of every request, in nats, in the order given."""
        results: list[Scored | None] = [None] * len(requests)
        encoded = []
        for at, request in enumerate(requests):
            question = self.encode_question(at, request)
            longest = len(question.shared) + max(map(len, question.rests))
            if longest > self.context:
                results[at] = Scored(None, 0, f"{longest} tokens, the model reads {self.context}")
                advance(1)
            else:
                encoded.append(question)
        for batch, logprobs in self.in_batches(encoded, lambda q: q.cost, self.score_batch):
            for question, sums in zip(batch, logprobs, strict=True):
                results[question.at] = Scored(tuple(sums), len(question.shared) + sum(map(len, question.rests)))
            advance(len(batch))
        return [r for r in results if r is not None]

    def encode_question(self, at: int, request: ScoreRequest) -> Encoded:
        """Split prompt + option into what all options share and their rests.

        Tokens may merge across the border, so that each option's scored part begins where its own tokens leave those
        of the prompt; at least one token is always scored.
        """
        text = self.templated(request.prompt) if request.chat else request.prompt
        ends = [c.lstrip() if request.chat else c for c in request.continuations]
        alone = self.encode(text, request.chat)
        wholes = [self.encode(text + end, request.chat) for end in ends]
        starts = [min(common_length(alone, whole), len(whole) - 1) for whole in wholes]
        shared = max(min(starts), 0)
        if shared == 0:  # nothing stands before some option's first token: begin with a token that can predict it
            first = self.tokenizer.bos_token_id if self.tokenizer.bos_token_id is not None else self.tokenizer.pad_token_id
            return Encoded(at, [first], [whole or [first] for whole in wholes], [max(start, 0) for start in starts])
        return Encoded(at, wholes[0][:shared], [whole[shared:] for whole in wholes], [start - shared for start in starts])

    @torch.inference_mode()
    def score_batch(self, batch: Sequence[Encoded]) -> list[list[float]]:
        """Score one batch: the questions once, then the options' tokens over the repeated cache."""
        ids, mask = self.padded([q.shared for q in batch], left=True)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        out = self.model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1)
        first = out.logits[:, -1].float().log_softmax(-1)
        owner = torch.tensor([i for i, q in enumerate(batch) for _ in q.rests], device=ids.device)
        rests = [rest for q in batch for rest in q.rests]
        skips = [skip for q in batch for skip in q.skips]
        heads = first[owner, torch.tensor([r[0] for r in rests], device=ids.device)].tolist()
        sums = [head if skip == 0 else 0.0 for head, skip in zip(heads, skips, strict=True)]
        longer = [i for i, rest in enumerate(rests) if len(rest) > 1]
        if longer:
            rows = torch.tensor(longer, device=ids.device)
            out.cache.batch_select_indices(owner[rows])
            tails = self.score_tails([rests[i] for i in longer], [skips[i] for i in longer], out.cache, mask[owner[rows]])
            for i, tail in zip(longer, tails, strict=True):
                sums[i] += tail
        found = iter(sums)
        return [[next(found) for _ in q.rests] for q in batch]

    def score_tails(self, rests: list[list[int]], skips: list[int], cache: Any, mask: torch.Tensor) -> list[float]:
        """Log-probability of every rest's tokens after its first, given the cached questions.

        Args:
            rests: Token ids, two or more each.
            skips: How many leading tokens of each rest are question, not option.
            cache: Keys and values of each rest's question, one row per rest.
            mask: int64 (rows, T), 1 where the cached column is a token.

        Returns:
            Sums in nats, one per rest.
        """
        ids, real = self.padded([rest[:-1] for rest in rests], left=False)
        targets, _ = self.padded([rest[1:] for rest in rests], left=False)
        positions = mask.sum(1, keepdim=True) + torch.arange(ids.shape[1], device=ids.device)
        out = self.model(input_ids=ids, attention_mask=torch.cat([mask, real], 1), position_ids=positions, cache=cache, use_cache=True)
        logits = out.logits.float()  # the vocabulary is wide: no second tensor of this size
        logprobs = logits.gather(2, targets[:, :, None])[:, :, 0] - logits.logsumexp(-1)
        column = torch.arange(1, ids.shape[1] + 1, device=ids.device)
        scored = real.bool() & (column >= torch.tensor(skips, device=ids.device)[:, None])
        return [float(x) for x in (logprobs * scored).sum(1)]

    def padded(self, rows: Sequence[Sequence[int]], left: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """int64 (rows, longest) ids and mask, padded on one side."""
        width = max(map(len, rows))
        fill = [[0] * (width - len(row)) for row in rows]
        pad = self.tokenizer.pad_token_id
        ids = [[pad] * len(f) + list(r) if left else list(r) + [pad] * len(f) for f, r in zip(fill, rows, strict=True)]
        mask = [f + [1] * len(r) if left else [1] * len(r) + f for f, r in zip(fill, rows, strict=True)]
        return torch.tensor(ids, device=self.place.device), torch.tensor(mask, device=self.place.device)

    # ---- generation ----

    def generate(self, requests: Sequence[GenerateRequest], sampling: Sampling, advance: Advance) -> list[Generated]:
        """Continue every request, in the order given; the same seed, model and requests give the same text on one device."""
        results: list[Generated | None] = [None] * len(requests)
        encoded = []
        for at, request in enumerate(requests):
            text = self.templated(request.prompt) if request.chat else request.prompt
            ids = self.encode(text, request.chat)
            if len(ids) >= self.context:
                results[at] = Generated("", 0, False, f"{len(ids)} tokens, the model reads {self.context}")
                advance(1)
            else:
                encoded.append((at, ids))
        calls = iter(range(10**9))

        def run(batch: Sequence[tuple[int, list[int]]]) -> list[Generated]:
            torch.manual_seed((sampling.seed + next(calls)) % 2**63)
            return self.generate_batch([ids for _, ids in batch], sampling)

        for batch, texts in self.in_batches(encoded, lambda e: len(e[1]) + sampling.max_new_tokens, run):
            for (at, _), generated in zip(batch, texts, strict=True):
                results[at] = generated
            advance(len(batch))
        return [r for r in results if r is not None]

    @torch.inference_mode()
    def generate_batch(self, prompts: list[list[int]], sampling: Sampling) -> list[Generated]:
        """Continue one batch. The model's own generation defaults (top-k, penalties) are not used: the protocol decides."""
        from transformers import GenerationConfig

        ids, mask = self.padded(prompts, left=True)
        ends = self.end_tokens()
        sampled = sampling.temperature is not None
        config = GenerationConfig(
            do_sample=sampled, temperature=sampling.temperature if sampled else None, top_p=sampling.top_p if sampled else None,
            top_k=0 if sampled else None, max_new_tokens=min(sampling.max_new_tokens, self.context - ids.shape[1]),
            eos_token_id=sorted(ends) or None, pad_token_id=self.tokenizer.pad_token_id,
        )  # fmt: skip
        stops = {"stop_strings": list(sampling.stop), "tokenizer": self.tokenizer} if sampling.stop else {}
        kept, self.model.generation_config = self.model.generation_config, config
        try:
            out = self.model.generate(input_ids=ids, attention_mask=mask, **stops)
        finally:
            self.model.generation_config = kept
        return [self.ended(row.tolist(), ends, sampling.stop) for row in out[:, ids.shape[1] :]]

    def end_tokens(self) -> set[int]:
        """Every token that ends an answer: the tokenizer's and those the model's generation config names."""
        told = getattr(self.model.generation_config, "eos_token_id", None)
        ends = {self.tokenizer.eos_token_id, *(told if isinstance(told, list) else [told])}
        return {e for e in ends if e is not None}

    def ended(self, tokens: list[int], ends: set[int], stops: Sequence[str]) -> Generated:
        """Text up to the first end token or stop string; what a batch generated after it is not the answer."""
        n = next((i for i, token in enumerate(tokens) if token in ends), len(tokens))
        finished = n < len(tokens)
        text = self.tokenizer.decode(tokens[:n], skip_special_tokens=True)
        cuts = [at for stop in stops if (at := text.find(stop)) >= 0]
        if cuts:
            text, finished = text[: min(cuts)], True
            while n > 1 and any(stop in self.tokenizer.decode(tokens[: n - 1], skip_special_tokens=True) for stop in stops):
                n -= 1  # a batch runs on after one row's stop; those tokens are not its answer's
        return Generated(text, n, finished)

    # ---- batches ----

    def in_batches(
        self, work: list[T], cost: Callable[[T], int], run: Callable[[Sequence[T]], list[R]]
    ) -> Iterator[tuple[list[T], list[R]]]:
        """Longest first, so that the first batch shows whether memory suffices; out of memory halves the budget."""
        queue = sorted(work, key=cost, reverse=True)
        while queue:
            size = max(1, min(len(queue), self.budget // max(1, cost(queue[0]))))
            try:
                done = run(queue[:size])
            except torch.cuda.OutOfMemoryError:
                if size == 1:
                    raise CatalogError(
                        "one question does not fit into the device's memory: use a smaller model or another device"
                    ) from None
                torch.cuda.empty_cache()
                self.budget //= 2
                continue
            yield queue[:size], done
            queue = queue[size:]


def common_length(a: Sequence[int], b: Sequence[int]) -> int:
    """How many leading tokens two sequences share."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
