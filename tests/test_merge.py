"""Merged and rounded weights, by hand."""

from math import sqrt

import pytest
import torch

from collect.merge import lerp, merge, rounded_to_8_bits, slerp


def test_half_way_along_a_right_angle():
    """Between (2, 0) and (0, 2) the line's middle is (1, 1), the arc's (sqrt 2, sqrt 2)."""
    a, b = torch.tensor([2.0, 0.0]), torch.tensor([0.0, 2.0])
    assert lerp(a, b, 0.5).tolist() == [1, 1]
    assert slerp(a, b, 0.5).tolist() == pytest.approx([sqrt(2), sqrt(2)])
    assert slerp(a, b, 1 / 3).tolist() == pytest.approx([2 * sqrt(3) / 2, 2 / 2])  # 30 of 90 degrees


def test_ends_and_aligned_vectors():
    """Weight 0 is the first, 1 the second; where there is no angle, or a zero vector, the line is taken; shapes stay."""
    a, b = torch.randn(3, 4, generator=torch.manual_seed(0)), torch.randn(3, 4, generator=torch.manual_seed(1))
    for method in (lerp, slerp):
        assert torch.allclose(method(a, b, 0.0), a, atol=1e-6) and torch.allclose(method(a, b, 1.0), b, atol=1e-6)
    assert torch.equal(slerp(a, 3 * a, 0.5), 2 * a)
    assert torch.equal(slerp(a, torch.zeros(3, 4), 0.5), a / 2)


def test_other_architectures_are_refused():
    """Names and shapes must agree; the odd ones are named."""
    with pytest.raises(ValueError, match=r"not of one architecture: w differ"):
        merge({"w": torch.zeros(2)}, {"w": torch.zeros(3)}, "lerp", 0.5)
    with pytest.raises(ValueError, match="v, w differ"):
        merge({"w": torch.zeros(2)}, {"v": torch.zeros(2)}, "slerp", 0.5)
    half = merge({"w": torch.zeros(2, dtype=torch.float16)}, {"w": torch.ones(2, dtype=torch.float16)}, "lerp", 0.25)
    assert half["w"].tolist() == [0.25, 0.25] and half["w"].dtype == torch.float32


def test_eight_bits_a_row():
    """Every row on its own grid of 255 steps, its largest value exactly; rows of zeros and vectors stay as they are."""
    weights = {"w": torch.tensor([[1.27, 0.014, -0.016], [0.0, 0.0, 0.0]]), "norm": torch.tensor([0.123456])}
    rounded = rounded_to_8_bits(weights)
    assert rounded["w"].flatten().tolist() == pytest.approx([1.27, 0.01, -0.02, 0, 0, 0], abs=1e-6)
    assert torch.equal(rounded["norm"], weights["norm"])
