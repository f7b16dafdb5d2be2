"""The shipped tiny checkpoints, and a way to make an engine of one."""

from pathlib import Path

from collect.device import place
from collect.engines.transformers import TransformersEngine
from collect.models import ModelSpec, locate

DEMO = Path(__file__).parent.parent / "collect" / "demo"


def engine_of(name: str, device: str | None = "cpu", dtype: str | None = None) -> TransformersEngine:
    """The default engine on one of the shipped checkpoints."""
    return TransformersEngine(locate(ModelSpec(str(DEMO / "models" / name))), place(device, dtype))
