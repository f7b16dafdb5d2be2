"""Merge two checkpoints of one architecture: LERP or SLERP, tensor by tensor, in float32; round one to 8-bit weights."""

from collections.abc import Mapping

import torch
from torch import Tensor

ALIGNED = 1 - 1e-6  # above this cosine the arc is a line to float32's precision


def lerp(a: Tensor, b: Tensor, weight: float) -> Tensor:
    """(1 - weight) a + weight b, any shape."""
    return torch.lerp(a.float(), b.float(), weight)


def slerp(a: Tensor, b: Tensor, weight: float) -> Tensor:
    """Along the arc between the directions of a and b, both seen as one flat vector (Shoemake 1985); LERP where they align."""
    x, y = a.float().flatten(), b.float().flatten()
    cosine = torch.dot(x, y) / (x.norm() * y.norm())
    if not abs(cosine) < ALIGNED:  # NaN too: one of them is zero
        return lerp(a, b, weight)
    angle = torch.arccos(cosine)
    mixed = (torch.sin((1 - weight) * angle) * x + torch.sin(weight * angle) * y) / torch.sin(angle)
    return mixed.reshape(a.shape)


METHODS = {"lerp": lerp, "slerp": slerp}


def merge(a: Mapping[str, Tensor], b: Mapping[str, Tensor], method: str, weight: float) -> dict[str, Tensor]:
    """Merged weights in float32; weight 0 is `a`, 1 is `b`.

    Raises:
        ValueError: The two do not hold tensors of the same names and shapes.
    """
    shapes = [{name: tuple(tensor.shape) for name, tensor in side.items()} for side in (a, b)]
    if shapes[0] != shapes[1]:
        odd = sorted(name for name in shapes[0].keys() | shapes[1].keys() if shapes[0].get(name) != shapes[1].get(name))
        raise ValueError(f"not of one architecture: {', '.join(odd[:3])} differ")
    return {name: METHODS[method](a[name], b[name], weight) for name in a}


def rounded_to_8_bits(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Every matrix on the grid of int8 weights with one scale a row (largest magnitude / 127), in float32; vectors stay."""
    rounded = {}
    for name, tensor in weights.items():
        value = tensor.float()
        if value.ndim == 2:
            scale = (value.abs().amax(dim=1, keepdim=True) / 127).clamp(min=1e-12)
            value = (value / scale).round() * scale
        rounded[name] = value
    return rounded
