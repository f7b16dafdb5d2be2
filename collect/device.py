"""The one place that decides on which device and in which number format a model runs."""

import platform
from dataclasses import dataclass

import torch

from catalog.errors import CatalogError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Place:
    """Where a model runs. budget: tokens one batch may hold, a first guess that out-of-memory halves."""

    device: str
    dtype: str
    hardware: str
    budget: int


def place(device: str | None = None, dtype: str | None = None) -> Place:
    """CUDA in bfloat16 where there is one, else Apple's GPU, else the CPU, both in float32.

    Args:
        device: Take this one instead: cpu, cuda, cuda:1, mps.
        dtype: Take this one instead: float32, bfloat16, float16.

    Raises:
        CatalogError: That device is not there, or the dtype is not known.
    """
    found = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    chosen = device or found
    if chosen.split(":")[0] not in ("cpu", found):
        raise CatalogError(f"wanted device {chosen}, found only cpu{'' if found == 'cpu' else ' and ' + found}: leave --device away")
    kind = dtype or ("bfloat16" if chosen.startswith("cuda") else "float32")
    if kind not in DTYPES:
        raise CatalogError(f"dtype {kind!r} is not known; one of {', '.join(DTYPES)}")
    if chosen.startswith("cuda"):
        return Place(chosen, kind, torch.cuda.get_device_name(chosen), 65_536)
    return Place(chosen, kind, f"{chosen} {platform.machine()}, {torch.get_num_threads()} threads", 16_384)
