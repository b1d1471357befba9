"""Compiled rotation by positions: equal to the formula, with its gradient."""

import pytest
import torch
from torch import Tensor

from dragoman.model.layers import RotaryPositions, rotate
from tests.model.fast.kernels import TOLERANCE, every_precision, heads, needs_library


@needs_library
@every_precision
@pytest.mark.parametrize("layout", ["heads first", "heads last", "width scattered"])
def test_rotation_equals_the_formula_forward_and_backward(dtype, layout: str, monkeypatch):
    given = heads(2, 5, width=48, dtype=dtype, layout=layout).requires_grad_()
    away = torch.randn(2, 3, 5, 48, dtype=dtype)

    def turned() -> list[Tensor]:
        out = RotaryPositions()(given, offset=7)
        return [out.double(), torch.autograd.grad(out, given, away)[0].double()]

    found = turned()
    monkeypatch.setattr(rotate, "ways", ())
    for ours, formula in zip(found, turned(), strict=True):
        torch.testing.assert_close(ours, formula, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    assert found[0].is_contiguous()
