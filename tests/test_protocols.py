"""Prompts, option order, examples; what a protocol's id covers."""

import dataclasses

import pytest

from catalog import CatalogError
from catalog.items import Item
from collect.protocols import Ask, Protocol, continuations, option_order, pick_shots, prompt

ITEM = Item("t/t", "1", "Which?", ("red", "blue", "green"), (1,))
OTHER = Item("t/t", "2", "Who?", ("me", "you"), (0,))


def test_prompts():
    """Each way of asking, word for word."""
    text, letter = Ask("option-text").settle(False, "float32")[0], Ask("option-letter").settle(False, "float32")[0]
    assert prompt(text, ITEM, [0, 1, 2]) == "Question: Which?\nAnswer:"
    assert continuations(text, ITEM, [0, 1, 2]) == [" red", " blue", " green"]
    assert prompt(letter, ITEM, [2, 0, 1]) == "Question: Which?\n(A) green\n(B) red\n(C) blue\nAnswer:"
    assert continuations(letter, ITEM, [2, 0, 1]) == [" (A)", " (B)", " (C)"]
    base, chat = Ask("cot").settle(False, "float32")[0], Ask("cot").settle(True, "float32")[0]
    shot = "Question: Who?\n(A) me\n(B) you\nAnswer: The answer is (A).\n\n"
    assert prompt(base, ITEM, [0, 1, 2], [OTHER]) == shot + "Question: Which?\n(A) red\n(B) blue\n(C) green\nAnswer:"
    assert prompt(chat, ITEM, [0, 1, 2]) == (
        'Which?\n(A) red\n(B) blue\n(C) green\nThink step by step. End with "The answer is" and the letter in parentheses.'
    )
    texts = Ask("cot", answer_with="texts").settle(True, "float32")[0]
    assert prompt(texts, ITEM, [0, 1, 2]).startswith("Which?\n- red\n- blue\n- green\n")
    assert (base.setting, base.template, base.shots, chat.template, chat.shots) == ("cot", "none", 2, "model", 0)


def test_protocol_id_is_its_content():
    """Everything but the setting changes the id."""
    protocol = Ask("cot").settle(True, "float32")[0]
    assert dataclasses.replace(protocol, setting="other").protocol_id == protocol.protocol_id
    changes = {"prompt_style": "texts", "template": "none", "shots": 5, "decoding": "greedy", "temperature": 0.7, "top_p": 0.9, "max_new_tokens": 5,
               "stop": ("x",), "scoring": "sum", "option_order": "shuffled", "extraction": "x", "dtype": "bfloat16", "details": "{}"}  # fmt: skip
    assert set(changes) == {f.name for f in dataclasses.fields(Protocol)} - {"setting"}
    ids = {dataclasses.replace(protocol, **{name: value}).protocol_id for name, value in changes.items()}
    assert len(ids | {protocol.protocol_id}) == len(changes) + 1


def test_one_scoring_pass_is_two_protocols():
    """Sum and per-byte share prompt and pass."""
    summed, normalised = Ask("option-text").settle(True, "float32")
    assert (summed.setting, summed.scoring, normalised.setting, normalised.scoring) == (
        "option-text-sum",
        "sum",
        "option-text-norm",
        "per-byte",
    )
    assert dataclasses.replace(summed, setting="x", scoring="x") == dataclasses.replace(normalised, setting="x", scoring="x")


def test_option_order():
    """Published, or shuffled by item and replicate alone."""
    published, shuffled = Ask("cot").settle(True, "f")[0], Ask("cot", option_order="shuffled").settle(True, "f")[0]
    assert option_order(published, "k", 4, 3) == [0, 1, 2, 3]
    orders = {tuple(option_order(shuffled, f"k{i}", 4, 0)) for i in range(50)}
    assert len(orders) > 10 and all(sorted(o) == [0, 1, 2, 3] for o in orders)
    assert option_order(shuffled, "k", 4, 0) == option_order(shuffled, "k", 4, 0)
    assert any(option_order(shuffled, f"k{i}", 4, 0) != option_order(shuffled, f"k{i}", 4, 1) for i in range(5))


def test_greedy_has_no_sampling():
    """Temperature 0 is greedy and has one replicate."""
    greedy = Ask("cot", temperature=0).settle(True, "f")[0]
    assert (greedy.decoding, greedy.temperature, greedy.top_p, greedy.varies) == ("greedy", None, None, False)


def test_shots_are_others():
    """Never the item itself, nor its twin; as many as there are."""
    items = [ITEM, OTHER, ITEM, *(dataclasses.replace(OTHER, source_id=str(i), question=f"Who {i}?") for i in range(5))]
    keys = [f"{item.key}#{n}" for n, item in enumerate(items)]
    shots = pick_shots(3, items, keys)
    assert all(
        len(s) == 3 and items[i].key not in {x.key for x in s} and len({x.key for x in s} | {items[i].key}) >= 3
        for i, s in enumerate(shots)
    )
    assert pick_shots(5, items[:2], keys[:2]) == [[OTHER], [ITEM]] and pick_shots(0, items, keys)[0] == []


@pytest.mark.parametrize(
    ("given", "message"),
    [({"style": "x"}, "style = 'x'; one of option-text"), ({"temperature": -1}, "temperature >= 0"), ({"top_p": 0}, "top_p")],
)
def test_bad_asks(given, message):
    """A value that is not understood is refused with those that are."""
    with pytest.raises(CatalogError, match=message):
        Ask(**given)


def test_no_chat_template():
    """A protocol that needs the model's template says so where there is none."""
    with pytest.raises(CatalogError, match="wants a chat template and my-model has none"):
        Ask("cot", template="model").settle(False, "f", "my-model")
