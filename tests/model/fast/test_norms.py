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


@needs_library
@pytest.mark.parametrize("with_bias", [False, True], ids=["rms", "layer"])
def test_weights_that_were_moved_between_the_passes_are_read_where_they_are(with_bias: bool, monkeypatch):
    """As FSDP does, which frees the weights of a layer after its pass and gathers them again for the way back."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    given = [torch.randn(5, 32), *torch.randn(1 + with_bias, 32)]
    given = [tensor.clone().requires_grad_() for tensor in given]
    expected = torch.autograd.grad(normalise(*given[:2], given[2] if with_bias else None, 1e-5).sin().sum(), given)
    found = normalise(*given[:2], given[2] if with_bias else None, 1e-5).sin().sum()
    storage, values = given[1].untyped_storage(), given[1].detach().clone()
    size = storage.size()
    storage.resize_(0)
    elsewhere = torch.full((1000,), 7.0)  # takes the memory that was free
    storage.resize_(size)
    with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(given[1]):  # as FSDP has it
        given[1].copy_(values)
    for own, theirs in zip(torch.autograd.grad(found, given), expected, strict=True):
        torch.testing.assert_close(own, theirs)
    assert len(elsewhere)
