"""Engines: what runs a model. One small interface; `transformers` is the default."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from typing import Protocol as Interface

Advance = Callable[[int], None]
Keep = Callable[[int, Any], None]  # position of a request, and its result, as soon as it is there


@dataclass(frozen=True)
class ScoreRequest:
    """One question whose options are scored.

    chat: `prompt` goes through the model's own template. lead: the beginning of `prompt` that other requests share
    (solved examples), so that it is computed once.
    """

    prompt: str
    continuations: tuple[str, ...]
    chat: bool = False
    lead: str = ""


@dataclass(frozen=True)
class Scored:
    """Summed log-probability of every continuation, in nats; or why there is none. n_tokens: tokens forwarded."""

    logprobs: tuple[float, ...] | None
    n_tokens: int
    error: str | None = None


@dataclass(frozen=True)
class GenerateRequest:
    """One prompt to continue. chat: `prompt` is the user's message. seed: of its own random numbers, whatever stands beside it."""

    prompt: str
    chat: bool = False
    seed: int | None = None


@dataclass(frozen=True)
class Sampling:
    """How text is generated. temperature None is greedy; stop strings end an answer and are cut off.

    seed: of requests that bring none, with their position.
    """

    temperature: float | None
    top_p: float | None
    max_new_tokens: int
    stop: tuple[str, ...]
    seed: int


@dataclass(frozen=True)
class Generated:
    """Generated text up to its end. finished: False when the token limit cut it off. error: why there is none."""

    text: str
    n_tokens: int
    finished: bool
    error: str | None = None


class Asked(Interface):
    """What decides how a model is asked."""

    dtype: str
    has_template: bool


class Engine(Asked, Interface):
    """What collect/run.py needs of an engine."""

    name: str
    hardware: str
    chat_template_sha256: str | None

    def n_params(self) -> int | None:
        """Number of parameters."""

    def score(self, requests: Sequence[ScoreRequest], advance: Advance, keep: Keep | None = None) -> list[Scored]:
        """Score every request, in order; `keep` hears of each as it is done."""

    def generate(
        self, requests: Sequence[GenerateRequest], sampling: Sampling, advance: Advance, keep: Keep | None = None
    ) -> list[Generated]:
        """Continue every request, in order; `keep` hears of each as it is done."""


def seed_of(*parts: object) -> int:
    """A seed of its own for every combination of parts."""
    return int.from_bytes(hashlib.sha256("\n".join(map(str, parts)).encode()).digest()[:8])
