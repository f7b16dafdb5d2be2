"""The transformers engine on a shipped checkpoint against the plainest computation of the same."""

import pytest
import torch
from models import engine_of

from catalog import CatalogError
from collect.engines import GenerateRequest, Sampling, ScoreRequest

PROMPTS = {
    "Question: Which province is Ranburg in?\nAnswer:": (" Dornwald", " Avelmark", " a", " something quite a bit longer than the others"),
    "Question: X\nAnswer:": (" one two three", " one two four"),
    "Question: What does the zimfar eat, and when, and why does it?\nAnswer:": (" no", " yes", " no way", " yes please", " perhaps"),
}


@pytest.fixture(scope="module")
def base():
    """A base model on the CPU."""
    return engine_of("small-base")


def plain_score(engine, prompt, continuation, add_special=True):
    """One option, one forward pass, no cache, no padding."""
    ids = engine.tokenizer(prompt + continuation, add_special_tokens=add_special)["input_ids"]
    alone = engine.tokenizer(prompt, add_special_tokens=add_special)["input_ids"]
    start = min(next((i for i, (a, b) in enumerate(zip(alone, ids, strict=False)) if a != b), min(len(alone), len(ids))), len(ids) - 1)
    with torch.inference_mode():
        logprobs = engine.model(torch.tensor([ids])).logits[0].log_softmax(-1)
    return sum(float(logprobs[i - 1, ids[i]]) for i in range(max(start, 1), len(ids)))


@pytest.mark.parametrize("budget", [1, 60, 100_000])
def test_shared_pass_equals_plain_pass(base, budget):
    """Sharing, padding and batching change nothing: different lengths, k, one-token and many-token options."""
    base.budget = budget
    requests = [ScoreRequest(p, c) for p, c in PROMPTS.items()]
    counted = []
    found = base.score(requests, counted.append)
    assert sum(counted) == len(requests)
    for request, scored in zip(requests, found, strict=True):
        wanted = [plain_score(base, request.prompt, c) for c in request.continuations]
        assert scored.logprobs == pytest.approx(wanted, abs=1e-4), request.prompt


def test_tokens_that_merge_across_the_border(base):
    """Options whose first letters merge with the prompt's last token: each is scored from where its own tokens begin."""
    prompt = "Question: Which provi"
    options = ("nce", " nce", "", "nce is Ranburg in", "x")
    merged = [base.encode(prompt + o, False)[: len(base.encode(prompt, False))] != base.encode(prompt, False) for o in options]
    assert any(merged) and not all(merged)
    [scored] = base.score([ScoreRequest(prompt, options)], lambda n: None)
    assert scored.logprobs == pytest.approx([plain_score(base, prompt, o) for o in options], abs=1e-4)


def test_nothing_before_an_option(base):
    """An empty prompt: the first token is predicted from the beginning-of-text token."""
    [scored] = base.score([ScoreRequest("", (" a", " Dornwald is"))], lambda n: None)
    bos = base.tokenizer.bos_token or base.tokenizer.pad_token
    assert scored.logprobs == pytest.approx([plain_score(base, bos, o, add_special=False) for o in (" a", " Dornwald is")], abs=1e-4)


def test_chat_scoring_goes_through_the_template():
    """The prompt is the user's message; the option follows where the answer begins, without its leading space."""
    engine = engine_of("small-instruct")
    [scored] = engine.score([ScoreRequest("Which province?", (" Dornwald", " Avelmark"), chat=True)], lambda n: None)
    text = engine.templated("Which province?")
    assert text != "Which province?"
    assert scored.logprobs == pytest.approx([plain_score(engine, text, c, add_special=False) for c in ("Dornwald", "Avelmark")], abs=1e-4)


def test_batched_greedy_equals_alone(base):
    """A prompt continues the same alone and in a padded batch."""
    prompts = [f"Question: {q}\nAnswer:" for q in ("Which province is Ranburg in?", "Who?", "What does the zimfar eat at night in winter?")]
    sampling = Sampling(None, None, 12, ("\n",), 0)
    together = base.generate([GenerateRequest(p) for p in prompts], sampling, lambda n: None)
    alone = [base.generate([GenerateRequest(p)], sampling, lambda n: None)[0] for p in prompts]
    assert [g.text for g in together] == [g.text for g in alone] and any(g.text for g in together)
    assert all("\n" not in g.text for g in together)


def test_sampling_repeats_with_its_seed(base):
    """The same seed gives the same texts, another seed others; temperature is used."""
    requests = [GenerateRequest(f"Question: Which province is {c}burg in?\nAnswer:") for c in ("Ran", "Vonom", "Or", "Tel")] * 4
    texts = {seed: [g.text for g in base.generate(requests, Sampling(1.0, 1.0, 8, (), seed), lambda n: None)] for seed in (1, 2)}
    again = [g.text for g in base.generate(requests, Sampling(1.0, 1.0, 8, (), 1), lambda n: None)]
    assert texts[1] == again != texts[2]
    cold = base.generate(requests, Sampling(0.01, 1.0, 8, (), 3), lambda n: None)
    greedy = base.generate(requests, Sampling(None, None, 8, (), 3), lambda n: None)
    assert sum(a.text == b.text for a, b in zip(cold, greedy, strict=True)) >= 14


def test_limit_and_end(base):
    """The token limit leaves an answer unfinished; a stop string finishes and is cut off."""
    [cut] = base.generate([GenerateRequest("Question: Who?\nAnswer:")], Sampling(None, None, 1, (), 0), lambda n: None)
    assert not cut.finished and cut.n_tokens == 1
    ended = base.ended(base.encode("The answer is food.\n\nQuestion: more", False)[1:], base.end_tokens(), ("\n\n",))
    assert ended.finished and ended.text.endswith("food.")


def test_too_long_is_not_measured(base):
    """A prompt beyond the model's context is no wrong answer."""
    long = "Question: " + "why " * 2000
    [scored, fine] = base.score([ScoreRequest(long, (" a", " b")), ScoreRequest("Question:", (" a", " b"))], lambda n: None)
    assert scored.logprobs is None and "tokens, the model reads" in scored.error and fine.logprobs
    [generated] = base.generate([GenerateRequest(long)], Sampling(None, None, 4, (), 0), lambda n: None)
    assert "tokens, the model reads" in generated.error


def test_out_of_memory_halves_the_budget(base, monkeypatch):
    """The batch is tried again with half the tokens; one question that does not fit is an error a user can mend."""
    base.budget = 64

    def run(batch):
        if len(batch) > 2:
            raise torch.cuda.OutOfMemoryError
        return batch

    done = [x for batch, _ in base.in_batches(list(range(10)), lambda x: 8, run) for x in batch]
    assert sorted(done) == list(range(10)) and base.budget == 16
    with pytest.raises(CatalogError, match="does not fit"):
        list(base.in_batches([1], lambda x: 8, lambda batch: (_ for _ in ()).throw(torch.cuda.OutOfMemoryError())))
    base.budget = 16_384
