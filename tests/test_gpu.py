"""CPU and CUDA give the same predictions. Needs a GPU; skipped without one."""

import pytest
import torch
from models import DEMO, engine_of

from catalog.items import read_items
from collect.engines import ScoreRequest
from collect.protocols import Ask, continuations, prompt

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize(("dtype", "least"), [("float32", 198), ("bfloat16", 185)])
def test_cpu_and_cuda_agree_on_200_items(dtype, least):
    """Predicted options of 200 items, option scoring; bfloat16 may turn near ties."""
    items = [i for i in read_items([DEMO / "items.jsonl"])[0] if i.choices][:200]
    protocol = Ask("option-text").settle(False, dtype)[0]
    requests = [
        ScoreRequest(prompt(protocol, i, range(len(i.choices))), tuple(continuations(protocol, i, range(len(i.choices))))) for i in items
    ]
    best = [[max(range(len(s.logprobs)), key=s.logprobs.__getitem__) for s in engine_of("large-base", device, kind).score(requests, lambda n: None)]
            for device, kind in (("cpu", "float32"), ("cuda", dtype))]  # fmt: skip
    assert sum(a == b for a, b in zip(*best, strict=True)) >= least
