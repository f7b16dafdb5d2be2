"""The vLLM engine on a stand-in for vLLM: its names, signatures and answers; the model behind it is one of the tiny ones."""

import sys
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import torch
from models import DEMO, engine_of

from catalog import CatalogError
from collect.__main__ import main
from collect.engines import GenerateRequest, Sampling, ScoreRequest
from collect.engines.choice import EngineChoice
from collect.models import ModelSpec, locate

SMALL = DEMO / "models" / "small-base"


@dataclass(frozen=True)
class SamplingParams:
    """The parameters we set, with vLLM's names, defaults and refusals."""

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    stop: list[str] | None = None
    max_tokens: int | None = 16
    prompt_logprobs: int | None = None
    detokenize: bool = True

    def __post_init__(self):
        assert isinstance(self.temperature, float) and self.temperature >= 0 and 0 < self.top_p <= 1
        assert self.max_tokens is None or self.max_tokens >= 1
        assert self.seed is None or -(2**63) <= self.seed < 2**63
        assert not self.stop or (self.detokenize and all(self.stop))


@dataclass
class LLM:
    """vLLM's offline door: LLM(model, **EngineArgs), generate(prompts, sampling_params, *, use_tqdm). Greedy only."""

    model: str
    dtype: str = "auto"
    trust_remote_code: bool = False
    enable_prefix_caching: bool | None = None
    seed: int | None = None
    max_model_len: int = 128
    asked: list = field(default_factory=list)

    def __post_init__(self):
        self.engine = engine_of(self.model.rpartition("/")[2])
        self.llm_engine = SimpleNamespace(model_config=SimpleNamespace(max_model_len=self.max_model_len))

    def generate(self, prompts, sampling_params=None, *, use_tqdm=True, lora_request=None, priority=None):
        several = isinstance(sampling_params, list)
        assert not several or len(sampling_params) == len(prompts)
        return [self.one(p["prompt_token_ids"], sampling_params[n] if several else sampling_params) for n, p in enumerate(prompts)]

    @torch.inference_mode()
    def one(self, ids, params):
        assert len(ids) + params.max_tokens <= self.max_model_len and ids
        self.asked.append((ids, params))
        logprobs = self.engine.model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
        told = None
        if params.prompt_logprobs is not None:  # of the first token there is none
            told = [None, *({i: SimpleNamespace(logprob=float(row[i]), rank=1)} for row, i in zip(logprobs, ids[1:], strict=False))]
        new, text, reason, why = [], "", "length", None
        while len(new) < params.max_tokens:
            new.append(int(self.engine.model(input_ids=torch.tensor([ids + new])).logits[0, -1].argmax()))
            text = self.engine.tokenizer.decode(new, skip_special_tokens=True)
            if new[-1] in self.engine.end_tokens():
                reason = "stop"
                break
            if cut := next((s for s in params.stop or [] if s in text), None):
                text, reason, why = text[: text.index(cut)], "stop", cut
                break
        output = SimpleNamespace(index=0, text=text, token_ids=new, finish_reason=reason, stop_reason=why)
        return SimpleNamespace(prompt_token_ids=ids, prompt_logprobs=told, outputs=[output], finished=True)


@pytest.fixture
def vllm(monkeypatch):
    """The stand-in in vLLM's place."""
    module = SimpleNamespace(LLM=LLM, SamplingParams=SamplingParams, __version__="0.19.1")
    monkeypatch.setitem(sys.modules, "vllm", module)
    return module


def both():
    """The engine on the stand-in, and the default one."""
    return EngineChoice("vllm")(locate(ModelSpec(str(SMALL)))), engine_of("small-base")


def test_scores_as_the_default_engine(vllm):
    """Options of one and several tokens, merging across the border, a shared beginning, chat off: the same sums; in order, noted."""
    ours, wanted = both()
    lead = "Question: What is 1?\nAnswer: one\n\n"
    requests = [
        ScoreRequest(f"{lead}Question: Where is {place}?\nAnswer:", (" in Vell", " nowhere at all", "x"), lead=lead)
        for place in "ABCDEFGHI"
    ]
    requests.append(ScoreRequest("", ("a", "b c")))
    requests.append(ScoreRequest("word " * 200, ("a", "b")))
    seen = []
    found = ours.score(requests, lambda n: None, lambda at, result: seen.append((at, result)))
    for a, b in zip(found[:-1], wanted.score(requests[:-1], lambda n: None), strict=True):
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4) and a.n_tokens == b.n_tokens
    assert found[-1].logprobs is None and "the model reads 127" in found[-1].error and [at for at, _ in seen] == list(range(11))
    llm = ours.llm
    assert llm.enable_prefix_caching and llm.dtype == "float32" and {p.prompt_logprobs for _, p in llm.asked} == {0}
    assert len(llm.asked) == 9 * 3 + 2 and ours.n_params() == wanted.n_params() and ours.name == "vllm 0.19.1"


def test_generates_as_the_default_engine(vllm):
    """Greedy answers, ends, stops, limits, seeds: the same texts and counts."""
    ours, wanted = both()
    requests = [
        GenerateRequest(f"Question: In which province is {name}?\nAnswer:", seed=2**64 - 1 - n) for n, name in enumerate(("Vell", "Tarn"))
    ]
    for stop in ((), ("\n",)):
        sampling = Sampling(None, None, 12, stop, 0)
        found = ours.generate(requests, sampling, lambda n: None)
        assert [(g.text, g.n_tokens, g.finished) for g in found] == [
            (g.text, g.n_tokens, g.finished) for g in wanted.generate(requests, sampling, lambda n: None)
        ] or stop  # at a stop string the engines count its tokens differently
        assert [g.text for g in found] == [g.text for g in wanted.generate(requests, sampling, lambda n: None)]
    drawn = [ours.sampled(r, n, 10, Sampling(0.6, 0.95, 500, ("\n",), 7)) for n, r in enumerate(requests)]
    assert [(p.temperature, p.top_p, p.max_tokens) for p in drawn] == [(0.6, 0.95, 118)] * 2 and drawn[0].seed != drawn[1].seed
    (long,) = ours.generate([GenerateRequest("word " * 300)], Sampling(None, None, 5, (), 0), lambda n: None)
    assert "the model reads 127" in long.error


def test_missing_numbers_are_unmeasured(vllm):
    """A prompt that comes back without all its log-probabilities has no score, not a wrong one."""
    ours, _ = both()
    real = ours.llm.one
    ours.llm.one = lambda ids, params: SimpleNamespace(**{**vars(real(ids, params)), "prompt_logprobs": [None]})
    (scored,) = ours.score([ScoreRequest("a", ("b", "c"))], lambda n: None)
    assert scored.logprobs is None and "no number" in scored.error


def test_the_whole_command(vllm, tmp_path, capfd):
    """collect run --engine vllm writes runs that say which engine they are of, with the outcomes of the default engine."""
    command = ["run", "--models", str(SMALL), "--tasks", "world/provinces", "--limit", "4", "--device", "cpu"]
    assert main([*command, "--engine", "vllm", "--out", str(tmp_path / "a")]) == 0 and main([*command, "--out", str(tmp_path / "b")]) == 0
    import catalog

    sql = "SELECT setting, item, predicted FROM outcomes JOIN runs USING (run_id) JOIN protocols USING (protocol_id) ORDER BY ALL"
    a, b = catalog.connect(tmp_path / "a"), catalog.connect(tmp_path / "b")
    assert a.sql(sql).fetchall() == b.sql(sql).fetchall() and a.sql("SELECT DISTINCT engine FROM runs").fetchall() == [("vllm 0.19.1",)]


def test_without_vllm(monkeypatch, capfd, tmp_path):
    """Named with what to install; GGUF files and other devices are refused."""
    monkeypatch.setitem(sys.modules, "vllm", None)
    command = ["run", "--models", str(SMALL), "--engine", "vllm", "--out", str(tmp_path)]
    assert main(command) == 1
    assert "--engine vllm needs vllm, which is not installed: pip install 'forgetting-catalog[vllm]'" in capfd.readouterr().err
    assert main([*command, "--device", "mps"]) == 1
    assert "CUDA_VISIBLE_DEVICES" in capfd.readouterr().err
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(__version__="0"))
    with pytest.raises(CatalogError, match="GGUF"):
        EngineChoice("vllm")(SimpleNamespace(gguf="x.gguf", spec=ModelSpec("x.gguf")))
