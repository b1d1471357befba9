"""Compiled attention: equal to the formula in every layout, and not used for what it does not take."""

import itertools
import math

import numpy as np
import pytest
import torch

from dragoman.model.attention import attend, causal_mask
from dragoman.model.fast.attention import LONGEST, MaskedSoftmaxDropout, can_attend, single_pass_attention
from dragoman.model.fast.dropout import Draws
from dragoman.native import library
from tests.model.fast.kernels import NO_DROPOUT, TOLERANCE, dropped, every_precision, exact, heads, needs_library


@needs_library
@every_precision
@pytest.mark.parametrize("layout", ["heads first", "heads last", "of a cache", "width scattered"])
@pytest.mark.parametrize("width", [16, 32, 48, 64, 80])
def test_attention_equals_the_formula(dtype, layout: str, width: int):
    torch.manual_seed(width)
    options = {"width": width, "dtype": dtype, "layout": layout}
    for queries, keys in itertools.product([1, 2, 4, 11], [1, 15, 16, 17, 40]):
        query, key, value = (heads(3, n, **options) for n in (queries, keys, keys))
        mask = torch.rand(3, 1, 1, keys) > 0.4
        for hidden in (None, mask, mask.expand(3, 3, queries, keys).contiguous(), mask[0, 0].expand(queries, keys)):
            found = single_pass_attention(query, key, value, hidden)
            assert found.dtype == dtype
            torch.testing.assert_close(
                found.double(),
                exact(query, key, value, hidden),
                rtol=TOLERANCE[dtype],
                atol=TOLERANCE[dtype],
                msg=lambda text, case=(queries, keys, hidden): f"{case}: {text}",
            )
            assert found.transpose(1, 2).is_contiguous()


@needs_library
def test_causal_queries_see_exactly_nothing_of_the_future():
    torch.manual_seed(1)
    query, key, value = (heads(2, 9, width=32, dtype=torch.float32, layout="heads last") for _ in range(3))
    before = single_pass_attention(query, key, value, causal_mask(9))
    key[:, :, 5:], value[:, :, 5:] = 7.0, -1e30
    after = single_pass_attention(query, key, value, causal_mask(9))
    assert torch.equal(before[:, :, :5], after[:, :, :5])
    assert not torch.equal(before[:, :, 5:], after[:, :, 5:])


@needs_library
@pytest.mark.parametrize("queries", [1, 6])
def test_large_scores_and_no_numbers(queries: int):
    torch.manual_seed(2)
    query, key, value = (heads(2, n, width=16, dtype=torch.float32, layout="heads last") for n in (queries, 5, 5))
    query *= 300
    torch.testing.assert_close(
        single_pass_attention(query, key, value).double(), exact(query, key, value, None), rtol=1e-4, atol=1e-4
    )
    key[1, 2, 3, 4] = torch.nan
    found = single_pass_attention(query, key, value)
    assert found[1, 2].isnan().all()
    assert found.isnan().sum() == found[1, 2].numel()
    nothing = torch.zeros(queries, 5, dtype=torch.bool)
    mean = value.mean(2, keepdim=True).expand(2, 3, queries, 16)
    torch.testing.assert_close(single_pass_attention(query, key.nan_to_num(), value, nothing), mean)


@needs_library
@every_precision
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("keys", [1, 5, 16, 17, 40, LONGEST])
def test_weights_and_their_gradient_are_those_of_the_formula(key, dtype, rate: float, keys: int):
    torch.manual_seed(keys)
    scores, gradient = ((4 * torch.randn(2, 3, 5, keys)).to(dtype) for _ in range(2))
    indices = np.arange(2 * 3 * 5 * -(-keys // 16) * 16).reshape(2, 3, 5, -1)[..., :keys]
    scale = ~dropped(key, indices, rate) / (1 - rate)
    seen = torch.rand(2, 1, 1, keys) > 0.4
    seen[0] = False
    for mask in (None, seen, torch.rand(5, keys) > 0.4):
        ours, exactly = scores.clone().requires_grad_(), scores.double().requires_grad_()
        hidden = torch.zeros((), dtype=torch.bool) if mask is None else ~mask
        formula = (exactly / math.sqrt(24)).masked_fill(hidden, -1e30).softmax(-1) * scale
        draws = Draws.of(rate, None) if rate else None
        found = MaskedSoftmaxDropout.apply(ours, mask, 24, draws)
        close = {"rtol": 2 * torch.finfo(dtype).eps, "atol": 1e-6 + torch.finfo(dtype).eps / 8}
        torch.testing.assert_close(found.double(), formula, **close)
        found.backward(gradient)
        formula.backward(gradient.double())
        rounding = {"rtol": 4 * torch.finfo(dtype).eps, "atol": 1e-6 + 2 * torch.finfo(dtype).eps}
        torch.testing.assert_close(ours.grad.double(), exactly.grad, **rounding)


@needs_library
@pytest.mark.usefixtures("annotations_unchecked")
@torch.no_grad()
def test_a_mask_of_integers_is_that_of_booleans():
    torch.manual_seed(6)
    query, key, value = (heads(2, n, width=16, dtype=torch.float32, layout="heads last") for n in (4, 9, 9))
    mask = torch.rand(2, 1, 4, 9) < 0.6
    expected = single_pass_attention(query, key, value, mask)
    torch.testing.assert_close(single_pass_attention(query, key, value, mask.int()), expected)
    scores = torch.randn(2, 3, 4, 9)
    weights = [MaskedSoftmaxDropout.apply(scores, form, 16, None) for form in (mask.int(), mask)]
    torch.testing.assert_close(*weights)


def test_gradients_never_come_from_the_kernel():
    query, key, value = (torch.randn(2, 3, 4, 16, requires_grad=True) for _ in range(3))
    assert not can_attend(query, key, value)
    attend(query, key, value, dropout=NO_DROPOUT).sum().backward()
    assert all(x.grad is not None for x in (query, key, value))
    for only in range(3):
        alone = [x.detach().requires_grad_(index == only) for index, x in enumerate((query, key, value))]
        assert not can_attend(*alone)
    with torch.no_grad():
        assert can_attend(query, key, value) == library.compiled()


@pytest.mark.parametrize(
    ("width", "keys", "dtype"), [(24, 5, torch.float32), (16, 513, torch.float32), (16, 5, torch.float64)]
)
def test_what_the_kernel_does_not_know_the_formula_does(width: int, keys: int, dtype: torch.dtype):
    torch.manual_seed(3)
    query, key, value = (heads(2, n, width=width, dtype=dtype, layout="heads last") for n in (4, keys, keys))
    assert not can_attend(query, key, value)
    found = attend(query, key, value, dropout=NO_DROPOUT)
    torch.testing.assert_close(found.double(), exact(query, key, value, None), rtol=1e-5, atol=1e-5)


@needs_library
def test_no_memory_is_an_error_that_the_caller_knows(monkeypatch):
    class Full:
        attention = staticmethod(lambda *_: 1)

    monkeypatch.setattr(library, "functions", Full)
    with pytest.raises(MemoryError, match="keys and values"):
        single_pass_attention(*(torch.randn(1, 1, 2, 16) for _ in range(3)))
