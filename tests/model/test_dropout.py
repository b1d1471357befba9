"""Dropout: its rate, its scale, its gradient, and which random numbers it takes."""

import math

import pytest
import torch

from dragoman.model.dropout import Dropout

COUNT = 524_287  # a prime, so the last draw of four is cut
BOUND = 6  # standard deviations; the seed is fixed, so a test that passes once passes always


def mask_of(rate: float, *, count: int = COUNT, seed: int = 13, dtype=torch.float32) -> torch.Tensor:
    """Dropout of ones: zeroes and what survivors are multiplied by."""
    torch.manual_seed(seed)
    return Dropout(rate).train()(torch.ones(count, dtype=dtype))


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("lane", range(4))
def test_the_rate_holds_in_each_of_the_four_draws_of_one_random_number(rate: float, lane: int):
    dropped = (mask_of(rate)[lane::4] == 0).double()
    deviation = math.sqrt(rate * (1 - rate) / len(dropped))
    assert abs(dropped.mean() - rate) < BOUND * deviation


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 8])
def test_neighbours_are_dropped_independently(distance: int):
    rate = 0.3
    dropped = (mask_of(rate) == 0).double() - rate
    covariance = (dropped[distance:] * dropped[:-distance]).mean()
    assert abs(covariance) < BOUND * rate * (1 - rate) / math.sqrt(COUNT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_survivors_are_scaled_so_that_the_mean_stays(rate: float, dtype: torch.dtype):
    # The rate itself is rounded to a 65,536th.
    precision = 2**-17 / (1 - rate) + torch.finfo(dtype).eps
    result = mask_of(rate, dtype=dtype)
    assert result.dtype == dtype
    survivors = result[result != 0].double()
    torch.testing.assert_close(survivors, torch.full_like(survivors, 1 / (1 - rate)), rtol=precision, atol=0)
    deviation = math.sqrt(rate / (1 - rate) / COUNT)
    assert abs(result.double().mean() - 1) < BOUND * deviation + precision


def test_evaluation_and_rate_zero_change_no_bit():
    x = torch.randn(7, 11)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0).train()(x), x)


def test_the_gradient_is_dropped_where_the_value_was():
    torch.manual_seed(17)
    x = torch.randn(31, 37, requires_grad=True)
    result = Dropout(0.3).train()(x)
    result.sum().backward()
    torch.testing.assert_close(x.grad * x, result)
    assert (x.grad == 0).any()


def test_the_mask_follows_from_the_seed():
    assert torch.equal(mask_of(0.5, seed=19), mask_of(0.5, seed=19))
    differing = (mask_of(0.5, seed=19) != mask_of(0.5, seed=23)).double().mean()
    assert abs(differing - 0.5) < 0.01


def test_two_calls_drop_different_elements():
    dropout, x = Dropout(0.5).train(), torch.ones(101)
    assert not torch.equal(dropout(x), dropout(x))


@pytest.mark.parametrize("shape", [(), (1,), (3,), (0,), (5, 0, 2), (2, 3, 5), (7, 11, 13)])
def test_any_number_of_elements_keeps_its_shape(shape: tuple[int, ...]):
    assert Dropout(0.5).train()(torch.ones(shape)).shape == shape


def test_a_transposed_tensor_is_dropped_in_place():
    x = torch.arange(1.0, 78.0).view(7, 11).t()
    result = Dropout(0.5).train()(x)
    assert ((result == 0) | (result == 2 * x)).all()
    assert 0 < (result == 0).sum() < x.numel()


@pytest.mark.parametrize("rate", [1e-6, 0.999, 1 - 1e-6])
def test_every_rate_below_one_is_possible(rate: float):
    dropped = (mask_of(rate, count=10_007) == 0).double().mean()
    assert abs(dropped - rate) < 0.01
