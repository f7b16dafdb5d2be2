"""Protocols: how a question is asked, and prompts built from them. Pure text, no model.

A protocol names everything that can change an outcome except the model, the items and the replicate; its id is the
hash of that content. `setting` is the name under which runs are compared: a base model asked few-shot and its chat
child asked through its template share the setting 'cot' and differ in protocol.
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from catalog.errors import CatalogError
from catalog.identity import protocol_id_of
from catalog.items import Item

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
STOPS = ("\n\n", "\nQuestion:")  # a base model that goes on to invent the next question


@dataclass(frozen=True)
class Protocol:
    """One row of the table protocols. None means: does not apply."""

    setting: str
    prompt_style: str
    template: str = "none"
    shots: int = 0
    decoding: str = "scored"
    temperature: float | None = None
    top_p: float | None = None
    max_new_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    scoring: str = "extracted"
    option_order: str = "published"
    extraction: str | None = None
    dtype: str | None = None
    details: str | None = None

    @property
    def protocol_id(self) -> str:
        """Hash of the content, setting left out."""
        return protocol_id_of(self.row(with_id=False))

    @property
    def varies(self) -> bool:
        """Whether a second replicate can differ from the first."""
        return self.decoding == "sampled" or self.option_order == "shuffled"

    @property
    def lists_options(self) -> bool:
        """Whether the model sees the options before it answers, so that their order can matter."""
        return self.prompt_style in ("letters", "texts", "letter")

    def row(self, with_id: bool = True) -> dict[str, object]:
        """The protocol as a row of its table."""
        content = dataclasses.asdict(self)
        content["stop"] = list(self.stop) if self.stop else None
        return {"protocol_id": self.protocol_id, **content} if with_id else content


@dataclass(frozen=True)
class Ask:
    """What a user asks for, before a model settles template, shots and dtype.

    style: 'option-text' and 'option-letter' score the options; 'cot' generates and reads the answer.
    answer_with: of 'cot': 'letters' or 'texts', how options are listed and answered.
    """

    style: str = "option-text"
    setting: str | None = None
    answer_with: str = "letters"
    template: str = "auto"
    shots: int | None = None
    temperature: float = 0.6
    top_p: float = 0.95
    max_new_tokens: int = 1024
    stop: tuple[str, ...] = STOPS
    option_order: str = "published"
    replicates: int = 1

    def __post_init__(self) -> None:
        wanted = {"style": ("option-text", "option-letter", "cot"), "answer_with": ("letters", "texts"),
                  "template": ("auto", "none", "model"), "option_order": ("published", "shuffled")}  # fmt: skip
        for name, values in wanted.items():
            if getattr(self, name) not in values:
                raise CatalogError(f"protocol: {name} = {getattr(self, name)!r}; one of {', '.join(values)}")
        if not (
            self.temperature >= 0 and 0 < self.top_p <= 1 and self.max_new_tokens > 0 and self.replicates > 0 and (self.shots or 0) >= 0
        ):
            raise CatalogError("protocol: wanted temperature >= 0, 0 < top_p <= 1, max_new_tokens > 0, replicates > 0, shots >= 0")

    def settle(self, has_template: bool, dtype: str, model: str = "the model") -> list[Protocol]:
        """The protocols this model is asked under; one scoring pass gives two.

        Raises:
            CatalogError: The protocol needs a chat template and the model has none.
        """
        if self.template == "model" and not has_template:
            raise CatalogError(
                f"protocol {self.setting or self.style!r} wants a chat template and {model} has none: "
                "use template = 'none' (few-shot for generation), or a chat model"
            )
        if self.style == "cot":
            return [self.generation(has_template and self.template != "none", dtype)]
        template = "model" if self.template == "model" else "none"
        style = "letter" if self.style == "option-letter" else "text"
        if style == "letter":  # all options are one byte long: normalising changes nothing
            return [
                Protocol(
                    self.setting or self.style, style, template, self.shots or 0, scoring="sum", option_order=self.option_order, dtype=dtype
                )
            ]
        name = self.setting or self.style
        return [
            Protocol(f"{name}-{short}", style, template, self.shots or 0, scoring=scoring, dtype=dtype)
            for short, scoring in (("sum", "sum"), ("norm", "per-byte"))
        ]

    def generation(self, chat: bool, dtype: str) -> Protocol:
        """Zero-shot through the model's own template, or few-shot without one."""
        from collect.extract import EXTRACTION  # here, so that protocols can be described without the rules

        sampled = self.temperature > 0
        return Protocol(
            self.setting or "cot", self.answer_with, "model" if chat else "none",
            (0 if chat else 2) if self.shots is None else self.shots, "sampled" if sampled else "greedy",
            self.temperature if sampled else None, self.top_p if sampled else None, self.max_new_tokens,
            None if chat else self.stop, "extracted", self.option_order, EXTRACTION, dtype,
        )  # fmt: skip


def option_order(protocol: Protocol, sample_key: str, k: int, replicate: int) -> list[int]:
    """Published indices in the order shown; shuffled by (sample_key, replicate), the same for every model."""
    order = list(range(k))
    if protocol.option_order == "shuffled":
        order.sort(key=lambda i: hashlib.sha256(f"{sample_key}\n{replicate}\n{i}".encode()).digest())
    return order


def listed(protocol: Protocol, item: Item, order: Sequence[int]) -> str:
    """The question and, where the style lists them, its options, one a line."""
    marks = [f"({LETTERS[i]})" for i in range(len(order))] if protocol.prompt_style in ("letters", "letter") else ["-"] * len(order)
    options = [f"{mark} {item.choices[i]}" for mark, i in zip(marks, order, strict=True)] if protocol.lists_options else []
    return "\n".join([item.question, *options])


def gold_text(protocol: Protocol, item: Item, order: Sequence[int]) -> str:
    """The gold answer as an example shows it."""
    gold = item.gold[0]
    if isinstance(gold, str):
        return gold
    return f"({LETTERS[order.index(gold)]})" if protocol.prompt_style in ("letters", "letter") else item.choices[gold]


def answer_lead(protocol: Protocol) -> str:
    """What stands before the answer in a solved example."""
    return "Answer: The answer is " if protocol.decoding != "scored" else "Answer: "


def examples(protocol: Protocol, shots: Sequence[Item]) -> str:
    """Solved examples in published order, each ended by a blank line."""
    lead, end = answer_lead(protocol), "." if protocol.decoding != "scored" else ""
    return "".join(
        f"Question: {listed(protocol, s, range(len(s.choices)))}\n{lead}{gold_text(protocol, s, range(len(s.choices)))}{end}\n\n"
        for s in shots
    )


def prompt(protocol: Protocol, item: Item, order: Sequence[int], shots: Sequence[Item] = ()) -> str:
    """The text before the answer: of a chat model the user's message, else the whole prompt."""
    body = listed(protocol, item, order)
    if protocol.decoding == "scored" or protocol.template == "none":
        return f"{examples(protocol, shots)}Question: {body}\nAnswer:"
    wanted = "the answer"
    if item.choices:
        wanted = "the letter in parentheses" if protocol.prompt_style == "letters" else "the option you choose"
    return f'{examples(protocol, shots)}{body}\nThink step by step. End with "The answer is" and {wanted}.'


def continuations(protocol: Protocol, item: Item, order: Sequence[int]) -> list[str]:
    """What is scored after the prompt, one text per option in the order shown."""
    return [f" ({LETTERS[i]})" if protocol.prompt_style == "letter" else f" {item.choices[o]}" for i, o in enumerate(order)]


def pick_shots(n: int, items: Sequence[Item], keys: Sequence[str]) -> list[list[Item]]:
    """n examples for every item: other items of its task with another question, the same for every model and replicate.

    The items stand on a ring in order of a hash of their keys; an item's examples are those that follow it there.
    """
    ring = sorted(range(len(items)), key=lambda i: hashlib.sha256(keys[i].encode()).digest())
    shots: list[list[Item]] = [[] for _ in items]
    for place, at in enumerate(ring):
        following = (ring[(place + step) % len(ring)] for step in range(1, len(ring)))
        others = (i for i in following if keys[i].split("#")[0] != keys[at].split("#")[0])
        shots[at] = [items[i] for i in islice(others, n)]
    return shots
