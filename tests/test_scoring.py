"""Option scoring is what one sequence at a time gives, however it is batched; what cannot be measured says why."""

import itertools
import random

import pytest
import torch
from models import DEMO, engine_of
from test_engine import plain_score
from tokenizers import processors
from transformers import GPT2Config, GPT2LMHeadModel, MistralConfig, MistralForCausalLM

from catalog.items import read_items
from collect.engines import GenerateRequest, Sampling, ScoreRequest
from collect.engines.packing import Encoded
from collect.engines.transformers import batch_size
from collect.protocols import Ask, continuations, examples, pick_shots, prompt


@pytest.fixture
def base():
    """A base model on the CPU."""
    return engine_of("small-base")


def quiet(n):
    """No progress."""


def asked(shots=0, n=10):
    """Requests of items with 2 to 5 options; with shots, the same examples before all."""
    items = [i for i in read_items([DEMO / "items.jsonl"])[0] if i.choices][::20][:n]
    protocol = Ask("option-text", shots=shots).settle(False, "float32")[0]
    same = pick_shots(shots, items, [f"qog:{n}#0" for n in range(len(items))])[0]
    return [
        ScoreRequest(prompt(protocol, i, range(len(i.choices)), same), tuple(continuations(protocol, i, range(len(i.choices)))), lead=examples(protocol, same))
        for i in items
    ]  # fmt: skip


@pytest.mark.parametrize("shots", [0, 3])
def test_same_as_one_sequence_at_a_time(base, shots):
    """Predicted options are equal and log-likelihoods within 1e-3, for every batch size and order; examples run once."""
    requests = asked(shots, 8)
    wanted = [[plain_score(base, r.prompt, c) for c in r.continuations] for r in requests]
    for budget in (1, 100_000):
        order = random.Random(budget).sample(range(len(requests)), len(requests))
        base.budget = budget
        found = dict(zip(order, base.score([requests[n] for n in order], quiet), strict=True))
        for n, logprobs in enumerate(wanted):
            assert found[n].logprobs == pytest.approx(logprobs, abs=1e-3)
            assert max(range(len(logprobs)), key=found[n].logprobs.__getitem__) == max(range(len(logprobs)), key=logprobs.__getitem__)
    alone = sum(q.cost for q in base.questions(requests, 0))
    assert base.packs and (base.counted.tokens < 3 * alone / 2 if shots else base.counted.tokens >= alone)


@pytest.mark.parametrize("kind", ["window", "other"])
def test_a_model_that_cannot_read_a_packed_row(base, kind):
    """A sliding window, and a model whose answers differ packed: one row an option, the same numbers."""
    sizes = {"vocab_size": 1024, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 512}
    torch.manual_seed(0)
    if kind == "window":
        more = {"num_key_value_heads": 1, "intermediate_size": 64, "sliding_window": 12, "initializer_range": 0.3}
        base.loaded = MistralForCausalLM(MistralConfig(**sizes, **more)).eval()
    else:
        base.loaded = GPT2LMHeadModel(GPT2Config(vocab_size=1024, n_embd=32, n_layer=2, n_head=2, initializer_range=0.3)).eval()
        forward = base.loaded.forward
        base.loaded.forward = lambda *args, attention_mask=None, **kw: forward(
            *args, attention_mask=attention_mask if attention_mask is None or attention_mask.dim() == 2 else None, **kw
        )
    requests = asked(n=4)
    for request, scored in zip(requests, base.score(requests, quiet), strict=True):
        assert scored.logprobs == pytest.approx([plain_score(base, request.prompt, c) for c in request.continuations], abs=1e-3)
    assert base.packs is False


def test_beginning_of_text_stands_once(base):
    """A tokenizer that sets a token before a text, or behind it, or none: once in a prompt and a template, never before an answer."""
    first, last = base.tokenizer.bos_token_id, base.tokenizer.convert_tokens_to_ids("<|pad|>")
    bare = base.tokenizer("Question:", add_special_tokens=False)["input_ids"]
    for single, wanted in (("<|endoftext|> $A", [first, *bare]), ("$A <|pad|>", bare), ("$A", bare)):
        special = [("<|endoftext|>", first), ("<|pad|>", last)]
        base.tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=special)
        base.n_after = base.count_after()
        assert base.encode("Question:", chat=False) == wanted and base.encode("Question:", chat=True) == bare
        [question] = base.questions([ScoreRequest("Question:", (" a", " no"))], 0)
        assert question.shared == wanted and not any(last in rest for rest in question.rests)


def test_no_pad_token(base):
    """Padding is masked: no token is needed for it."""
    requests = asked(n=6)
    wanted = base.score(requests, quiet)
    base.tokenizer.pad_token = None
    assert [s.logprobs for s in base.score(requests, quiet)] == [s.logprobs for s in wanted]
    assert len(base.generate([GenerateRequest(r.prompt) for r in requests], Sampling(None, None, 3, (), 0), quiet)) == 6


def test_leading_spaces_and_empty_options(base):
    """Spaces count; an option without text is scored by one token; a template takes the leading space away, not the option."""
    prompt_ = "Question: Which?\nAnswer:"
    options = (" no", "  no", "no", " ", "", " no ")
    [scored] = base.score([ScoreRequest(prompt_, options)], quiet)
    assert scored.logprobs == pytest.approx([plain_score(base, prompt_, o) for o in options], abs=1e-4)
    chat = engine_of("small-instruct")
    [scored] = chat.score([ScoreRequest("Which?", (" no", " "), chat=True)], quiet)
    text = chat.templated("Which?")
    assert scored.logprobs == pytest.approx([plain_score(chat, text, o, add_special=False) for o in ("no", " ")], abs=1e-4)


@pytest.mark.parametrize("broken", ["nan", "inf"])
def test_no_number_is_no_answer(base, broken):
    """NaN or infinite logits: the item is not measured and says so, its neighbours in the batch are measured as ever."""
    requests, sampling = asked(n=4), Sampling(1.0, 0.9, 4, (), 0)
    prompts = [GenerateRequest(r.prompt, seed=n) for n, r in enumerate(requests)]
    fine, texts = base.score(requests, quiet), base.generate(prompts, sampling, quiet)
    known = set(itertools.chain(*(q.shared for q in base.questions(requests[1:], 0))))
    bad = next(token for token in base.questions(requests, 0)[0].shared if token not in known)

    def spoil(module, args, out):
        return out.masked_fill((args[0] == bad)[..., None], float(broken))

    hook = base.model.get_input_embeddings().register_forward_hook(spoil)
    scored, generated = base.score(requests, quiet), base.generate(prompts, sampling, quiet)
    hook.remove()
    assert scored[0].logprobs is None and "NaN" in scored[0].error and "NaN" in generated[0].error and not generated[0].text
    assert [s.logprobs for s in scored[1:]] == [pytest.approx(s.logprobs, abs=1e-4) for s in fine[1:]] and generated[1:] == texts[1:]


def test_memory_runs_out_while_generating_and_scoring(base, monkeypatch):
    """Half the tokens, the same answers: rows in progress begin again with their own random numbers."""
    prompts = [GenerateRequest(r.prompt, seed=n) for n, r in enumerate(asked(n=12))]
    sampling = Sampling(1.0, 0.9, 8, ("\n",), 0)
    wanted, scores = base.generate(prompts, sampling, quiet), base.score(asked(n=12), quiet)
    forward, most = base.model.forward, [4]

    def small(*args, **kwargs):
        if len(kwargs["input_ids"]) > most[0]:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")
        return forward(*args, **kwargs)

    monkeypatch.setattr(base.model, "forward", small)
    assert base.generate(prompts, sampling, quiet) == wanted and base.budget < 16_384
    base.budget = 16_384
    assert [s.logprobs for s in base.score(asked(n=12), quiet)] == [pytest.approx(s.logprobs, abs=1e-4) for s in scores]
    assert base.budget < 16_384


def test_sampled_text_is_the_requests_own(base):
    """Batch size, order and neighbours do not change a sampled text; a row that ends makes room for the next."""
    prompts = [GenerateRequest(r.prompt, seed=n) for n, r in enumerate(asked(n=10))]
    sampling = Sampling(2.5, 0.99, 12, ("\n\n",), 0)
    wanted = base.generate(prompts, sampling, quiet)
    assert len({g.n_tokens for g in wanted}) > 2
    base.budget = 3 * 60
    assert base.generate(prompts[::-1], sampling, quiet)[::-1] == wanted
    assert base.generate(prompts[4:5], sampling, quiet) == wanted[4:5]


def test_batches_hold_little_padding():
    """Rows of very different lengths do not share a batch; rows of equal length fill the budget."""
    assert batch_size([100] * 50, 1000) == 10
    assert batch_size([500, 490, 480, 20, 20, 20], 3000) == 3
    assert batch_size([5000, 10], 1000) == 1
    assert Encoded(0, [1] * 7, [[1], [1, 2, 3]], [0, 0]).cost == 9
