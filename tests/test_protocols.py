"""Prompts, option order, examples; what a protocol's id covers."""

import dataclasses
import json
from pathlib import Path

import pytest

from catalog import CatalogError
from catalog.items import Item, itemsets, read_items
from collect.__main__ import STYLE_NAMES, main
from collect.list_protocols import described
from collect.protocols import STYLES, Ask, Protocol, continuations, option_order, pick_shots, prompt
from collect.shots import WORKED, shots_of, with_examples, worked

PAGE = Path(__file__).parent.parent / "docs" / "protocols.md"
REAL = Path(__file__).parent.parent.parent / "shared" / "items"

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
    [
        ({"style": "x"}, "style = 'x'; one of option-text"),
        ({"temperature": -1}, "temperature >= 0"),
        ({"top_p": 0}, "top_p"),
        ({"extraction": "9"}, "one of 1, 2"),
        ({"style": "cot-line", "examples": "task"}, "examples = 'worked'"),
        ({"max_new_tokens": 0}, "max_new_tokens > 0"),
    ],
)
def test_bad_asks(given, message):
    """A value that is not understood is refused with those that are."""
    with pytest.raises(CatalogError, match=message):
        Ask(**given)


def one_task(*rows):
    """An itemset of what is asked among the given items."""
    return itemsets(rows)[0]


def asked(ask, chat, itemset):
    """The settled protocol, and the prompt of the itemset's first item."""
    protocol = with_examples(ask.settle(chat, "float32")[0], ask, itemset)
    item = itemset.items[0]
    return protocol, prompt(protocol, item, range(len(item.choices)), shots_of(protocol, itemset)[0])


def test_answer_line_prompts():
    """Chain of thought that ends with 'Answer: X': a chat model zero-shot, a base model after worked examples; free-form items after free ones."""
    _, text = asked(Ask("cot-line"), True, one_task(ITEM))
    assert text == ("Which?\n(A) red\n(B) blue\n(C) green\n\nThink step by step. The last line of your response must be "
                    '"Answer: X", where X is the letter of the option you choose.')  # fmt: skip
    protocol, text = asked(Ask("cot-line"), False, one_task(ITEM))
    assert protocol.shots == 4 and text.count("\nReasoning: ") == 4 and text.count("\nAnswer: (") == 4
    assert text.endswith("\nAnswer: (C)\n\nQuestion: Which?\n(A) red\n(B) blue\n(C) green\nReasoning:")
    free = Item("t/f", "1", "How many?", (), ("3",))
    protocol, text = asked(Ask("cot-line", shots=2), False, one_task(free))
    assert text.count("Answer: ") == 2 and "(A)" not in text and text.endswith("\nAnswer: almp\n\nQuestion: How many?\nReasoning:")
    assert "- red\n- blue" in asked(Ask("cot-line", answer_with="texts"), False, one_task(ITEM))[1]


def test_direct_prompts_show_the_tasks_own_examples():
    """No thought; examples are those the items bring, never one that is asked, else ours; what they say is part of the id."""
    dev = [Item("t/t", f"d{n}", f"Dev {n}?", ("x", "y"), (n % 2,), example=True) for n in range(3)]
    twin = dataclasses.replace(ITEM, source_id="d9", example=True)
    protocol, text = asked(Ask("direct"), False, one_task(ITEM, twin, *dev))
    assert text == ("Question: Dev 0?\n(A) x\n(B) y\nAnswer: (A)\n\nQuestion: Dev 1?\n(A) x\n(B) y\nAnswer: (B)\n\n"
                    "Question: Dev 2?\n(A) x\n(B) y\nAnswer: (A)\n\nQuestion: Which?\n(A) red\n(B) blue\n(C) green\nAnswer:")  # fmt: skip
    assert (protocol.shots, json.loads(protocol.details)["examples"]) == (3, "dev")
    assert one_task(ITEM, twin, *dev).itemset_id == one_task(ITEM).itemset_id
    changed = asked(Ask("direct"), False, one_task(ITEM, *dev[:2], dataclasses.replace(dev[2], question="Other?")))[0]
    assert changed.protocol_id != protocol.protocol_id
    ours = asked(Ask("direct"), False, one_task(ITEM))[0]
    assert (ours.shots, json.loads(ours.details)["examples"]) == (5, "worked")
    assert asked(Ask("direct"), True, one_task(ITEM))[1].endswith(
        'Respond with one line, "Answer: X", and nothing else. X is the letter of the option you choose.'
    )
    scored = asked(Ask("option-letter", shots=2, examples="dev"), False, one_task(ITEM, *dev))
    assert scored[0].shots == 2 and scored[1].startswith("Question: Dev 0?\n(A) x\n(B) y\nAnswer: (A)\n\n")


def test_an_example_is_not_asked(tmp_path):
    """Marked items are read, kept apart by task, and refused with a mark that is none."""
    row = {"task": "t", "question": "q?", "choices": ["a", "b"], "answer_index": 0}
    rows = [{**row, "item_id": "1"}, {**row, "item_id": "1", "question": "e?", "example": True, "reasoning": "since"}]
    (tmp_path / "i.jsonl").write_text("\n".join(map(json.dumps, rows)))
    [itemset] = itemsets(read_items([tmp_path / "i.jsonl"])[0])
    assert [i.question for i in itemset.items] == ["q?"] and [(e.question, e.reasoning) for e in itemset.examples] == [("e?", "since")]
    (tmp_path / "i.jsonl").write_text(json.dumps({**rows[0], "example": "yes"}))
    with pytest.raises(CatalogError, match=r"example must be true or false, found 'yes'"):
        read_items([tmp_path / "i.jsonl"])
    (tmp_path / "i.jsonl").write_text(json.dumps(rows[1]))
    assert main(["run", "--models", str(tmp_path), "--items", str(tmp_path / "i.jsonl")]) == 1


@pytest.mark.parametrize(
    ("ask", "message"),
    [(Ask("direct", examples="dev"), "task t/t brings no examples: mark some"), (Ask("direct", shots=9), "wants 9 examples, task t/t has 5"),
     (Ask("cot-line", examples="dev"), "no examples with their reasoning")],
)  # fmt: skip
def test_examples_that_are_not_there(ask, message):
    """Said with what to do."""
    with pytest.raises(CatalogError, match=message):
        asked(ask, False, one_task(ITEM))


def test_worked_examples():
    """Five with options and five without, each with its reasoning; golds at different places."""
    choice, free = ([e for e in worked() if bool(e.choices) == kind] for kind in (True, False))
    assert len(choice) == len(free) == 5 and all(e.reasoning and e.example for e in worked())
    assert {e.gold[0] for e in choice} == {0, 1, 2, 3}


@pytest.mark.skipif(not REAL.is_dir(), reason="no benchmark items beside this checkout")
@pytest.mark.slow
def test_worked_examples_are_in_no_benchmark():
    """No eight words in a row of ours stand in a benchmark item."""
    ours = {" ".join(words[i : i + 8]) for e in worked() for words in [f"{e.question} {' '.join(e.choices)} {e.reasoning}".lower().split()]
            for i in range(len(words) - 7)}  # fmt: skip
    assert len(ours) > 200
    for item in read_items([REAL], skip_bad=True)[0]:
        words = f"{item.question} {' '.join(item.choices)}".lower().split()
        assert ours.isdisjoint(" ".join(words[i : i + 8]) for i in range(len(words) - 7)), item.where


def test_page_holds_the_prompts(capsys):
    """docs/protocols.md is what `collect protocols` prints, and the command line names every style."""
    assert tuple(STYLES) == STYLE_NAMES
    assert main(["protocols"]) == 0
    printed = capsys.readouterr().out
    assert printed.strip() in PAGE.read_text(encoding="utf-8"), "print `collect protocols` into docs/protocols.md"
    assert all(f"\n## {name}\n" in f"\n{printed}" for name in STYLES) and str(WORKED.parent.parent) not in printed
    assert main(["protocols", "direct"]) == 0
    assert capsys.readouterr().out == described(["direct"]) + "\n"


def test_shipped_protocols_keep_their_ids():
    """What was collected stays what it was."""
    ids = {
        "2cfdf23c5146f779": Ask("cot", answer_with="texts", max_new_tokens=40, extraction="1").settle(True, "float32")[0],
        "a3d025687debd34d": Ask("cot", answer_with="texts", max_new_tokens=40, extraction="1").settle(False, "float32")[0],
        "eb1b19fc83554617": Ask("option-text").settle(True, "float32")[0],
        "e9f5eae8b1f18b20": Ask("option-text").settle(True, "float32")[1],
    }
    assert all(protocol.protocol_id == protocol_id for protocol_id, protocol in ids.items())


def test_reading_has_no_part_in_what_is_drawn():
    """Rules and comparison change a protocol's id, not the seed of its answers."""
    first, second, exact = (
        Ask("cot", extraction=v, match=m).settle(True, "f")[0] for v, m in (("1", "auto"), ("2", "auto"), ("2", "exact"))
    )
    assert len({first.protocol_id, second.protocol_id, exact.protocol_id}) == 3 and first.drawn == second.drawn == exact.drawn == first
    assert (first.match, exact.match) == ("auto", "exact") and Ask("option-text").settle(True, "f")[1].match == "auto"


def test_direct_answers_continue_the_prompt():
    """What follows 'Answer:' is a stated answer, no guess."""
    base, chat = (Ask("direct").settle(chat, "f")[0] for chat in (False, True))
    assert (base.spoken(" (B)"), chat.spoken("Answer: B")) == ("Answer: (B)", "Answer: B")


def test_shown_order_in_sql(con):
    """The order in which options were shown, from what a catalog holds."""
    shuffled = Ask("cot", option_order="shuffled").settle(True, "f")[0]
    for key, replicate, k in (("qog:ab#0", 0, 4), ("qog:ab#0", 1, 4), ("qog:é#1", 2, 13)):
        assert con.execute("SELECT shown_order($1, $2, $3)", [key, replicate, k]).fetchall()[0][0] == option_order(
            shuffled, key, k, replicate
        )


def test_no_chat_template():
    """A protocol that needs the model's template says so where there is none."""
    with pytest.raises(CatalogError, match="wants a chat template and my-model has none"):
        Ask("cot", template="model").settle(False, "f", "my-model")
