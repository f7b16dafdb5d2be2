"""Merge two checkpoints of one architecture (LERP or SLERP), or round one's weights: formulas, tensor by tensor, in float32.

collect/shards.py applies them to model folders.
"""

from collections.abc import Mapping
from math import atan2, pi, sin, sqrt

import torch
from torch import Tensor

ALIGNED = 1e-6  # radians; below, the arc is a line, and opposite vectors have no one arc
CHUNK = 1 << 22  # elements summed at once in float64: 32 MB
GROUP = {8: 0, 4: 32}  # weights that share a scale, by bits; 0: a whole row


def lerp(a: Tensor, b: Tensor, weight: float) -> Tensor:
    """(1 - weight) a + weight b, any shape."""
    return torch.lerp(a.float(), b.float(), weight)


def angle(x: Tensor, y: Tensor) -> float:
    """Angle between two flat float32 vectors in radians, NaN where one is zero; sums in float64, a piece at a time.

    The arc cosine loses all digits where checkpoints of one run lie: near 1. Source: Kahan, "How Futile are Mindless
    Assessments of Roundoff in Floating-Point Computation?", section 12.
    """
    pairs = list(zip(x.split(CHUNK), y.split(CHUNK), strict=True))  # views
    n, m = (sqrt(sum(float(pair[side].double().square().sum()) for pair in pairs)) for side in (0, 1))
    if not n or not m:
        return float("nan")
    apart = along = 0.0
    for p, q in ((p.double() / n, q.double() / m) for p, q in pairs):
        apart += float((p - q).square().sum())
        along += float((p + q).square().sum())
    return 2 * atan2(sqrt(apart), sqrt(along))


def slerp(a: Tensor, b: Tensor, weight: float) -> Tensor:
    """Along the arc between the directions of a and b, both seen as one flat vector (Shoemake 1985); LERP where there is none."""
    x, y = a.float().flatten(), b.float().flatten()
    between = angle(x, y)
    if not ALIGNED < between < pi - ALIGNED:  # NaN too
        return lerp(a, b, weight)
    mixed = sin((1 - weight) * between) / sin(between) * x + sin(weight * between) / sin(between) * y
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


def rounded(tensor: Tensor, bits: int, group: int = 0) -> Tensor:
    """A matrix on the grid of signed integers of `bits` bits, rounded to nearest, in float32.

    Args:
        tensor: Two dimensions or more; a row is the last one.
        bits: 8 gives -127..127 steps, 4 gives -7..7; the largest magnitude keeps its value.
        group: Neighbours in a row that share a scale, the last group may be shorter; 0: the whole row.
    """
    value = tensor.float()
    width = value.shape[-1]
    pieces = value.split(group or width, dim=-1)
    top = 2 ** (bits - 1) - 1
    done = []
    for piece in pieces:
        scale = (piece.abs().amax(dim=-1, keepdim=True) / top).clamp(min=1e-12)
        done.append((piece / scale).round() * scale)
    return torch.cat(done, dim=-1)


def rounded_to_8_bits(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Every matrix with 8 bits and one scale a row, in float32; vectors stay."""
    return {name: rounded(tensor, 8) if tensor.ndim == 2 else tensor.float() for name, tensor in weights.items()}
