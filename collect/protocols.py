"""Protocols: how a question is asked, and prompts built from them. Pure text, no model.

A protocol names everything that can change an outcome except the model, the items and the replicate; its id is the
hash of that content. `setting` is the name under which runs are compared: a base model asked few-shot and its chat
child asked through its template share the setting 'cot' and differ in protocol. `collect protocols` lists them all.
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from catalog.errors import CatalogError
from catalog.identity import protocol_id_of
from catalog.items import Item, fits

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
STOPS = ("\n\n", "\nQuestion:")  # a base model that goes on to invent the next question


@dataclass(frozen=True)
class Style:
    """A way of asking by the name a user gives it. shots, examples, max_new_tokens: unless the user says otherwise.

    prompt_style: how the question is written, with options by letter and by text; None: the style has no such form.
    shots: solved examples of a model asked through its template, and of one without.
    """

    says: str
    letters: str | None
    texts: str | None
    shots: tuple[int, int] = (0, 0)
    examples: str = "task"
    max_new_tokens: int | None = None  # None: no text is generated


STYLES = {
    "option-text": Style("log-probability of each option's text after the question, summed and per UTF-8 byte", None, "text"),
    "option-letter": Style("options are listed; log-probability of each option's letter", "letter", None),
    "cot": Style("a generated answer that ends with 'The answer is'", "letters", "texts", (0, 2), "task", 1024),
    "cot-line": Style("a generated chain of thought that ends with a line 'Answer: X'",
                      "letters-line", "texts-line", (0, 4), "worked", 1024),
    "direct": Style("a generated answer with no thought before it", "letters-direct", "texts-direct", (0, 5), "dev", 32),
}  # fmt: skip


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
        return self.prompt_style != "text"

    @property
    def lettered(self) -> bool:
        """Whether options have letters."""
        return self.prompt_style.partition("-")[0] in ("letters", "letter")

    @property
    def ending(self) -> str:
        """How an answer ends: 'line' (Answer: X), 'direct' (nothing but that), or '' (The answer is)."""
        return self.prompt_style.partition("-")[2]

    @property
    def match(self) -> str:
        """How a free answer is compared: auto, exact or numeric."""
        return self.scoring.removeprefix("extracted-") if self.scoring.startswith("extracted-") else "auto"

    @property
    def drawn(self) -> "Protocol":
        """The protocol as far as it decides which random numbers are drawn: how answers are read has no part in it."""
        return dataclasses.replace(self, extraction="1", scoring="extracted") if self.extraction else self

    def spoken(self, text: str) -> str:
        """What the model said, with the 'Answer:' that stands at the end of the prompt where its answer is all it has to give."""
        return f"Answer:{text}" if self.ending == "direct" and self.template == "none" else text

    def row(self, with_id: bool = True) -> dict[str, object]:
        """The protocol as a row of its table."""
        content = dataclasses.asdict(self)
        content["stop"] = list(self.stop) if self.stop else None
        return {"protocol_id": self.protocol_id, **content} if with_id else content


@dataclass(frozen=True)
class Ask:
    """What a user asks for, before a model settles template, shots and dtype.

    style: One of STYLES. answer_with: of generated answers: 'letters' or 'texts', how options are listed and answered.
    examples: 'task' (other items of the task, answers only), 'worked' (our own, with reasoning), 'dev' (the items that are
    marked as examples), 'auto' (what the style is made for; ours where the items bring none).
    match: of free-form items: 'auto', 'exact', 'numeric'. extraction: version of the rules that read answers; None: the newest.
    kinds, tasks: asked of models of these kinds only, on tasks that fit these patterns only; empty means all. Of several that
    fit a model and a task under one setting, the first is asked.
    """

    style: str = "option-text"
    setting: str | None = None
    answer_with: str = "letters"
    template: str = "auto"
    shots: int | None = None
    temperature: float = 0.6
    top_p: float = 0.95
    max_new_tokens: int | None = None
    stop: tuple[str, ...] = STOPS
    option_order: str = "published"
    replicates: int = 1
    examples: str = "auto"
    match: str = "auto"
    extraction: str | None = None
    kinds: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        from collect.extract import VERSIONS  # here, so that protocols can be described without the rules

        wanted = {"style": tuple(STYLES), "answer_with": ("letters", "texts"), "template": ("auto", "none", "model"),
                  "option_order": ("published", "shuffled"), "examples": ("auto", "task", "worked", "dev"),
                  "match": ("auto", "exact", "numeric"), "extraction": (None, *VERSIONS)}  # fmt: skip
        for name, values in wanted.items():
            if getattr(self, name) not in values:
                raise CatalogError(f"protocol: {name} = {getattr(self, name)!r}; one of {', '.join(v for v in values if v)}")
        positive = self.top_p > 0 and self.replicates > 0 and (self.max_new_tokens is None or self.max_new_tokens > 0)
        if not (self.temperature >= 0 and self.top_p <= 1 and positive and (self.shots or 0) >= 0):
            raise CatalogError("protocol: wanted temperature >= 0, 0 < top_p <= 1, max_new_tokens > 0, replicates > 0, shots >= 0")
        if self.style == "cot-line" and self.examples == "task":
            raise CatalogError("protocol: cot-line shows examples with their reasoning, items of the task have none: examples = 'worked'")

    @property
    def narrowed(self) -> bool:
        """Whether it is asked of some kinds of models or on some tasks only."""
        return bool(self.kinds or self.tasks)

    def wanted_of(self, kind: str, task_id: str) -> bool:
        """Whether a model of this kind is asked this task so."""
        return (not self.kinds or kind in self.kinds) and (not self.tasks or any(fits(task_id, pattern) for pattern in self.tasks))

    @property
    def generates(self) -> bool:
        """Whether text is generated; else options are scored."""
        return STYLES[self.style].max_new_tokens is not None

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
        if self.generates:
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
        from collect.extract import EXTRACTION

        style, sampled = STYLES[self.style], self.temperature > 0
        return Protocol(
            self.setting or self.style, str(style.letters if self.answer_with == "letters" else style.texts), "model" if chat else "none",
            style.shots[not chat] if self.shots is None else self.shots, "sampled" if sampled else "greedy",
            self.temperature if sampled else None, self.top_p if sampled else None, self.max_new_tokens or style.max_new_tokens,
            None if chat else self.stop, "extracted" if self.match == "auto" else f"extracted-{self.match}", self.option_order,
            self.extraction or EXTRACTION, dtype,
        )  # fmt: skip


def option_order(protocol: Protocol, sample_key: str, k: int, replicate: int) -> list[int]:
    """Published indices in the order shown; shuffled by (sample_key, replicate), the same for every model."""
    order = list(range(k))
    if protocol.option_order == "shuffled":
        order.sort(key=lambda i: hashlib.sha256(f"{sample_key}\n{replicate}\n{i}".encode()).digest())
    return order


def listed(protocol: Protocol, item: Item, order: Sequence[int]) -> str:
    """The question and, where the style lists them, its options, one a line."""
    marks = [f"({LETTERS[i]})" for i in range(len(order))] if protocol.lettered else ["-"] * len(order)
    options = [f"{mark} {item.choices[i]}" for mark, i in zip(marks, order, strict=True)] if protocol.lists_options else []
    return "\n".join([item.question, *options])


def gold_text(protocol: Protocol, item: Item, order: Sequence[int]) -> str:
    """The gold answer as an example shows it."""
    gold = item.gold[0]
    if isinstance(gold, str):
        return gold
    return f"({LETTERS[order.index(gold)]})" if protocol.lettered else item.choices[gold]


def solved(protocol: Protocol, item: Item) -> str:
    """An example with its answer, options in published order, ended by a blank line; reasoning where the protocol names its examples."""
    order = range(len(item.choices))
    gold, thought = gold_text(protocol, item, order), item.reasoning if protocol.details else None
    if protocol.ending == "line" and thought:
        answer = f"Reasoning: {thought}\nAnswer: {gold}"
    elif protocol.decoding == "scored" or protocol.ending:
        answer = f"Answer: {gold}"
    else:
        answer = f"Answer: {thought} The answer is {gold}." if thought else f"Answer: The answer is {gold}."
    return f"Question: {listed(protocol, item, order)}\n{answer}\n\n"


def examples(protocol: Protocol, shots: Sequence[Item]) -> str:
    """Solved examples, one after the other."""
    return "".join(solved(protocol, shot) for shot in shots)


def prompt(protocol: Protocol, item: Item, order: Sequence[int], shots: Sequence[Item] = ()) -> str:
    """The text before the answer: of a chat model the user's message, else the whole prompt."""
    body, before = listed(protocol, item, order), examples(protocol, shots)
    if protocol.decoding == "scored" or protocol.template == "none":
        return f"{before}Question: {body}\n{'Reasoning' if protocol.ending == 'line' else 'Answer'}:"
    if protocol.ending:
        wanted = "the answer alone"
        if item.choices:
            wanted = "the letter of the option you choose" if protocol.lettered else "the option you choose, word for word"
        ask = (
            f'Think step by step. The last line of your response must be "Answer: X", where X is {wanted}.'
            if protocol.ending == "line"
            else f'Respond with one line, "Answer: X", and nothing else. X is {wanted}.'
        )
        return f"{before}{'Question: ' if before else ''}{body}\n\n{ask}"
    wanted = "the answer"
    if item.choices:
        wanted = "the letter in parentheses" if protocol.lettered else "the option you choose"
    return f'{before}{body}\nThink step by step. End with "The answer is" and {wanted}.'


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
