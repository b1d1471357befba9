"""Compiled dropout: keeps the elements that its key says, forward and backward."""

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman.model.dropout import Dropout
from tests.model.fast.kernels import TOLERANCE, dropped, every_precision, needs_library


def dropout(x: Tensor, rate: float, generator: torch.Generator | None = None) -> Tensor:
    module = Dropout(rate).train()
    module.generator = generator
    return module(x)


@needs_library
@every_precision
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(1,), (16,), (3, 7, 11), (1024, 17)])
def test_dropout_keeps_what_the_key_says_on_both_ways(key, dtype, rate: float, shape: tuple[int, ...]):
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    is_dropped = dropped(key, np.arange(x.numel()), rate).view(shape)
    found = dropout(x, rate)
    exactly = {"rtol": torch.finfo(dtype).eps, "atol": 0}
    torch.testing.assert_close(found, (x.double() / (1 - rate)).masked_fill(is_dropped, 0).to(dtype), **exactly)
    gradient = torch.randn(shape, dtype=dtype)
    found.backward(gradient)
    torch.testing.assert_close(x.grad, (gradient.double() / (1 - rate)).masked_fill(is_dropped, 0).to(dtype), **exactly)


@needs_library
@every_precision
def test_what_dropout_is_added_to_gets_the_whole_gradient(key, dtype):
    x, to = (torch.randn(3, 7, 11, dtype=dtype, requires_grad=True) for _ in range(2))
    scale = ~dropped(key, np.arange(x.numel()), 0.3).view(x.shape) / 0.7
    found = Dropout(0.3).train()(x, add_to=to)
    formula = to.double() + x.double() * scale
    gradients = torch.autograd.grad(found, (x, to), torch.ones_like(found))
    for own, exact in zip((found, *gradients), (formula, scale, torch.ones_like(formula)), strict=True):
        torch.testing.assert_close(own.double(), exact.double(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@needs_library
def test_another_key_drops_others():
    x = torch.ones(2**20)
    torch.manual_seed(4)
    first, second = (dropout(x, 0.5) == 0 for _ in range(2))
    for shift in (0, 1, 16, 4096):
        alike = (first[shift:] == second[: len(second) - shift]).double().mean()
        assert abs(alike - 0.5) < 6 * 0.5 / 2**10
    generator = torch.Generator().manual_seed(5)
    again = torch.Generator().manual_seed(5)
    assert torch.equal(dropout(x, 0.5, generator), dropout(x, 0.5, again))
    assert not torch.equal(dropout(x, 0.5, generator), dropout(x, 0.5))
