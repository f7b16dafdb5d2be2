"""The vLLM engine: the same prompts and token ids as the default engine, other arithmetic. Imported only when asked for.

Options are scored from the log-probabilities of prompt tokens, one prompt an option. vLLM does not read its prefix cache for
those (it would lack what it skipped), so that a question is computed once for each of its options; generation reads the cache.
"""

import math
import platform
from collections.abc import Sequence
from typing import Any, TypeVar

from catalog.errors import CatalogError
from collect.engines import Advance, Generated, GenerateRequest, Keep, Sampling, Scored, ScoreRequest, seed_of
from collect.engines.encoding import Encoder
from collect.models import Located

T = TypeVar("T")
WINDOW = 2048  # requests handed over together: results are noted after each window
SEEDS = 2**63 - 1


class VllmEngine(Encoder):
    """Loads the tokenizer at once, and vLLM with the weights when they are first needed."""

    def __init__(self, located: Located, dtype: str, hardware: str, trust_remote_code: bool = False) -> None:
        """Read the tokenizer.

        Raises:
            CatalogError: vLLM is not installed, or the model is a GGUF file.
        """
        try:
            import vllm
        except ModuleNotFoundError as error:
            raise CatalogError(
                f"--engine vllm needs {error.name}, which is not installed: pip install 'forgetting-catalog[vllm]' (Linux, CUDA)"
            ) from error
        if located.gguf:
            raise CatalogError(f"--engine vllm wants a folder with safetensors, {located.spec.where} is a GGUF file: leave --engine away")
        self.vllm, self.located, self.trust = vllm, located, trust_remote_code
        super().__init__(located, {"trust_remote_code": trust_remote_code})
        self.name, self.dtype, self.hardware = f"vllm {vllm.__version__}", dtype, hardware
        self.loaded: Any = None

    @property
    def llm(self) -> Any:
        """vLLM with the model, on first use."""
        if self.loaded is None:
            try:
                self.loaded = self.vllm.LLM(
                    model=str(self.located.folder), dtype=self.dtype, trust_remote_code=self.trust, enable_prefix_caching=True, seed=0
                )
            except (OSError, ValueError, RuntimeError) as error:
                raise CatalogError(f"vLLM does not load {self.located.spec.where}: {str(error).strip().splitlines()[0]}") from error
        return self.loaded

    @property
    def context(self) -> int:
        """Most tokens of prompt and answer together."""
        return int(self.llm.llm_engine.model_config.max_model_len)

    def n_params(self) -> int | None:
        """Number of parameters that are stored: tied ones once."""
        from safetensors import safe_open

        total = 0
        for path in sorted(self.located.folder.glob("*.safetensors")):
            with safe_open(path, framework="np") as file:
                total += sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
        return total

    def run(self, prompts: Sequence[list[int]], params: Any) -> list[Any]:
        """Hand prompts over as token ids: vLLM's tokenizer has no say."""
        return list(self.llm.generate([{"prompt_token_ids": ids} for ids in prompts], params, use_tqdm=False))

    def score(self, requests: Sequence[ScoreRequest], advance: Advance, keep: Keep | None = None) -> list[Scored]:
        """Summed log-probability of every continuation of every request, in nats, in the order given."""
        params = self.vllm.SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=0, detokenize=False)
        results = []
        for first in range(0, len(requests), WINDOW):
            questions = self.questions(requests[first : first + WINDOW], first)
            fit = [q for q in questions if q.longest < self.context]  # one more token is generated, and not looked at
            found = iter(self.run([q.shared + rest for q in fit for rest in q.rests], params))
            for q in questions:
                n_tokens = len(q.shared) + sum(map(len, q.rests))
                if q.longest >= self.context:
                    scored = Scored(None, 0, f"{q.longest} tokens, the model reads {self.context - 1}")
                else:
                    starts = [len(q.shared) + skip for skip in q.skips]
                    scored = sound(tuple(summed(next(found), start) for start in starts), n_tokens)
                results.append(told(q.at, scored, advance, keep))
        return results

    def generate(
        self, requests: Sequence[GenerateRequest], sampling: Sampling, advance: Advance, keep: Keep | None = None
    ) -> list[Generated]:
        """Continue every request, in the order given; each draws with a seed of its own."""
        results = []
        for first in range(0, len(requests), WINDOW):
            window = requests[first : first + WINDOW]
            prompts = [self.encode(self.templated(r.prompt) if r.chat else r.prompt, r.chat) for r in window]
            fit = [n for n, ids in enumerate(prompts) if len(ids) < self.context]
            params = [self.sampled(window[n], first + n, len(prompts[n]), sampling) for n in fit]
            found = dict(zip(fit, self.run([prompts[n] for n in fit], params), strict=True)) if fit else {}
            for n, ids in enumerate(prompts):
                generated = (
                    answer(found[n].outputs[0])
                    if n in found
                    else Generated("", 0, False, f"{len(ids)} tokens, the model reads {self.context - 1}")
                )
                results.append(told(first + n, generated, advance, keep))
        return results

    def sampled(self, request: GenerateRequest, at: int, length: int, sampling: Sampling) -> Any:
        """How one answer is drawn."""
        seed = request.seed if request.seed is not None else seed_of(sampling.seed, at)
        return self.vllm.SamplingParams(
            temperature=sampling.temperature or 0.0, top_p=sampling.top_p or 1.0, stop=list(sampling.stop), seed=seed % SEEDS,
            max_tokens=min(sampling.max_new_tokens, self.context - length),
        )  # fmt: skip


def hardware_of(device: str | None) -> str:
    """What the model runs on, in words. vLLM chooses its device itself.

    Raises:
        CatalogError: A device was asked for that vLLM would not take.
    """
    import torch

    if device not in (None, "cuda", "cpu"):
        raise CatalogError(f"--device {device}: vLLM takes the device it was built for; choose a GPU with CUDA_VISIBLE_DEVICES")
    here = "cuda" if torch.cuda.is_available() else "cpu"
    if device not in (None, here):
        raise CatalogError(f"--device {device}: vLLM would run on {here} here; leave --device away")
    return str(torch.cuda.get_device_name()) if here == "cuda" else f"cpu {platform.machine()}"


def summed(output: Any, start: int) -> float:
    """Log-probability of a prompt's tokens from `start` on; NaN where one is missing."""
    told_by = output.prompt_logprobs or []
    ids = output.prompt_token_ids
    if len(told_by) != len(ids):
        return math.nan
    return math.fsum(told_by[at][ids[at]].logprob if told_by[at] else math.nan for at in range(start, len(ids)))


def sound(sums: tuple[float, ...], n_tokens: int) -> Scored:
    """Scores, if every option has a finite one."""
    if all(map(math.isfinite, sums)):
        return Scored(sums, n_tokens)
    return Scored(None, n_tokens, "the model gave no number (NaN or infinite) for an option")


def answer(output: Any) -> Generated:
    """One answer; the token that ended it does not count."""
    ended = output.finish_reason == "stop"
    own_end = ended and not isinstance(output.stop_reason, str)  # else a stop string; a number is one of several end tokens
    return Generated(output.text, len(output.token_ids) - own_end, ended)


def told(at: int, result: T, advance: Advance, keep: Keep | None) -> T:
    """Pass a result on as it is there."""
    if keep:
        keep(at, result)
    advance(1)
    return result
