"""Every way of asking, in words and with the exact prompt of one example; the rules that read answers. Markdown."""

from collections.abc import Iterator

from catalog.items import Itemset, itemsets, read_items
from collect.config import SHIPPED_ITEMS
from collect.extract import EXTRACTION, VERSIONS
from collect.extract.rules import RULES
from collect.protocols import STYLES, Ask, Protocol, continuations, prompt
from collect.shots import shots_of, with_examples

CHOICE, FREE = "world/provinces", "world/sums"  # tasks of the shipped items that examples are taken from
OPTION = {
    "task": "other items of the task, answers only",
    "worked": "our own, with their reasoning (collect/examples.jsonl)",
    "dev": "items of the task that are marked as examples, as in a benchmark's dev split, else our own",
}


def described(names: list[str]) -> str:
    """Markdown of the named styles, or of all."""
    return "\n".join(line for name in names or STYLES for line in style_lines(name))


def style_lines(name: str) -> Iterator[str]:
    """One style: what it is, and a prompt of every form it has."""
    style, ask = STYLES[name], Ask(style=name)
    generated = f"Solved examples before the question: {OPTION[style.examples]}." if style.max_new_tokens else "No text is generated."
    yield f"## {name}\n\n{style.says[0].upper()}{style.says[1:]}. {generated}\n"
    if style.max_new_tokens is None:
        yield from form_lines("Prompt", ask, CHOICE, chat=False)
        return
    yield from form_lines("A chat model is sent, through its own template,", ask, CHOICE, chat=True)
    yield from form_lines("A model without a template continues", ask, CHOICE, chat=False)
    yield from form_lines('With `answer_with = "texts"`, a chat model is sent', Ask(style=name, answer_with="texts"), CHOICE, chat=True)
    yield from form_lines("A free-form item is put to a chat model as", ask, FREE, chat=True)


def form_lines(lead: str, ask: Ask, task_id: str, chat: bool) -> Iterator[str]:
    """The prompt of one example in one form."""
    itemset = example_set(task_id)
    settled = [with_examples(protocol, ask, itemset) for protocol in ask.settle(chat, "")]
    first, item, order = settled[0], itemset.items[0], range(len(itemset.items[0].choices))
    text = prompt(first, item, order, shots_of(first, itemset)[0])
    yield f"{lead} ({facts(settled)}):\n\n```text\n{text}\n```\n"
    if first.decoding == "scored":
        yield f"and scored after it: {', '.join(f'`{end}`' for end in continuations(first, item, order))}.\n"


def facts(protocols: list[Protocol]) -> str:
    """Settings and numbers of one form."""
    first = protocols[0]
    told = [f"setting{'s'[: len(protocols) - 1]} {' and '.join(f'`{p.setting}`' for p in protocols)}", f"{first.shots} examples"]
    if first.max_new_tokens:
        told.append(f"temperature {first.temperature}, top_p {first.top_p}, {first.max_new_tokens} new tokens")
    if first.stop:
        told.append("ended by " + " or ".join(f"`{stop!r}`" for stop in first.stop))
    return "; ".join(told)


def example_set(task_id: str) -> Itemset:
    """A few of the shipped items."""
    return itemsets(read_items([SHIPPED_ITEMS], tasks=[task_id])[0], 6)[0]


def rule_lines() -> str:
    """Markdown of the rules, and of their versions."""
    rows = [f"| {rule.name} | {rule.status} | {'yes' if rule.guess else ''} | {rule.reads} |" for rule in RULES]
    versions = [f"- `{version}`{' (default)' if version == EXTRACTION else ''}: {says}" for version, says in VERSIONS.items()]
    return "\n".join(["| rule | status | guess | reads |", "|---|---|---|---|", *rows, "", "Versions:", "", *versions])
