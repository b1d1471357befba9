"""Compiled norms: equal to those of torch, with their gradients."""

import pytest
import torch
import torch.nn.functional as F

from dragoman.model.fast.norms import can_normalise, normalise
from tests.model.fast.kernels import TOLERANCE, every_precision, needs_library


@pytest.mark.first_is_quick
@needs_library
@every_precision
@pytest.mark.parametrize("width", [16, 80, 128])
@pytest.mark.parametrize("with_bias", [False, True], ids=["rms", "layer"])
def test_norm_and_its_gradients_are_those_of_torch(dtype, width: int, with_bias: bool, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    torch.manual_seed(width)
    given = [(3 + 2 * torch.randn(5, 7, width)).to(dtype), *torch.randn(1 + with_bias, width)]
    given = [tensor.requires_grad_() for tensor in given]
    exactly = [tensor.detach().double().requires_grad_() for tensor in given]
    assert can_normalise(*given[:2])
    found = normalise(*given[:2], given[2] if with_bias else None, 1e-5)
    norm = F.layer_norm if with_bias else F.rms_norm
    formula = norm(exactly[0], (width,), *exactly[1:], eps=1e-5)
    away = torch.randn_like(found)
    gradients = torch.autograd.grad(found, given, away)
    exact = torch.autograd.grad(formula, exactly, away.double())
    for own, theirs in zip((found, *gradients), (formula, *exact), strict=True):
        torch.testing.assert_close(own.double(), theirs, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
