"""What a search asks of log-probabilities, for arrays with and without a compiler, and for tensors as on a GPU."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from dragoman.decoding.torch_engine import TensorLogProbs
from dragoman.engine.log_probs import SHARED, ArrayLogProbs, LogProbs, drawn_tokens
from dragoman.native import library

VOCABULARIES = [1, 3, 25, 29, 53, 400, 1009, 8000]


@pytest.fixture(params=["compiled", "compiled with maxima", "array", "tensor"])
def of(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[np.ndarray], LogProbs]:
    """A function that makes `LogProbs` of a copy of an array."""
    if request.param.startswith("compiled") and not library.compiled():
        pytest.skip("there is no C compiler")
    if request.param == "array":
        monkeypatch.setattr(library, "functions", None)
    if request.param == "tensor":
        return lambda array: TensorLogProbs(torch.tensor(array))
    if request.param == "compiled with maxima":
        return lambda array: ArrayLogProbs(array.copy(), maxima(array))
    return lambda array: ArrayLogProbs(array.copy())


def maxima(array: np.ndarray) -> np.ndarray:
    """The maxima of each block of a row, as the engine in eight bits computes them; NaN counts as nothing."""
    filled_up = np.pad(array, ((0, 0), (0, -array.shape[1] % SHARED)), constant_values=-np.inf)
    return np.fmax.reduce(filled_up.reshape(len(array), -1, SHARED), axis=2, initial=-np.inf)


def test_what_was_banned_or_given_a_probability_is_heeded_by_the_best(of) -> None:
    array = random_log_probs(6, 200)
    log_probs = of(array)
    highest = array.argmax(axis=1)
    log_probs.ban(np.arange(6), highest)
    log_probs.put(np.array([1, 4]), np.array([199, 70]), 0.5)
    expected = array.copy()
    expected[np.arange(6), highest] = -np.inf
    expected[[1, 4], [199, 70]] = 0.5
    values, tokens = log_probs.best(np.zeros((6, 1)), 1)
    np.testing.assert_array_equal(values[:, 0], expected.max(axis=1))
    np.testing.assert_array_equal(tokens[:, 0], expected.argmax(axis=1))


def random_log_probs(rows: int, vocab: int, banned: float = 0.3) -> np.ndarray:
    random = np.random.default_rng(vocab)
    log_probs = -random.exponential(size=(rows, vocab)).astype(np.float32)
    log_probs[random.random(log_probs.shape) < banned] = -np.inf
    return log_probs


@pytest.mark.parametrize("vocab", VOCABULARIES)
@pytest.mark.parametrize("width", [1, 3])
def test_the_best_continuations_are_those_of_a_sort(of, vocab: int, width: int) -> None:
    log_probs = random_log_probs(5 * width, vocab)
    totals = np.random.default_rng(7).normal(size=(5, width))
    count = 2 * width
    values, indices = of(log_probs).best(totals, count)
    joined = (log_probs.reshape(5, width, vocab) + totals[:, :, None]).reshape(5, -1)
    expected = -np.sort(-joined, axis=1)[:, :count]
    np.testing.assert_array_equal(values[:, : expected.shape[1]], expected)
    assert (values[:, expected.shape[1] :] == -math.inf).all()
    found = values > -math.inf
    np.testing.assert_array_equal(np.take_along_axis(joined, indices, axis=1)[found], values[found])
    for row, kept in zip(indices.tolist(), found.tolist(), strict=True):
        distinct = [index for index, is_kept in zip(row, kept, strict=True) if is_kept]
        assert len(distinct) == len(set(distinct))


@pytest.mark.parametrize("vocab", VOCABULARIES)
def test_the_best_of_one_row_is_that_of_argmax_also_among_equals(of, vocab: int) -> None:
    log_probs = np.random.default_rng(vocab).integers(-7, 0, (31, vocab)).astype(np.float32)
    values, tokens = of(log_probs).best(np.zeros((31, 1)), 1)
    np.testing.assert_array_equal(values[:, 0], log_probs.max(axis=1))
    if not isinstance(of(log_probs), TensorLogProbs):  # which may take any of equal ones
        np.testing.assert_array_equal(tokens[:, 0], log_probs.argmax(axis=1))


def test_a_number_that_is_none_is_never_among_the_best(of) -> None:
    log_probs = np.full((2, 400), np.nan, np.float32)
    log_probs[1, 301] = -2.0
    made = of(log_probs)
    if isinstance(made, TensorLogProbs):
        pytest.skip("torch ranks it first")
    values, indices = made.best(np.zeros((1, 2)), 1)
    assert (values.tolist(), indices.tolist()) == ([[-2.0]], [[701]])


def test_banned_tokens_are_impossible_and_only_they(of) -> None:
    array = random_log_probs(4, 11, banned=0.0)
    log_probs = of(array)
    log_probs.ban(np.array([0, 0, 2]), np.array([3, 10, 0]))
    log_probs.allow_only(np.array([1]), np.array([5]))
    log_probs.put(np.array([3]), np.array([7]), 0.0)
    expected = array.copy()
    expected[[0, 0, 2], [3, 10, 0]] = -np.inf
    expected[1, np.arange(11) != 5] = -np.inf
    expected[3, 7] = 0.0
    rows, tokens = np.divmod(np.arange(44), 11)
    found = log_probs.at(rows, tokens)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, expected.ravel())
    np.testing.assert_array_equal(log_probs.likeliest(np.array([3, 1])), [7, 5])


@pytest.mark.parametrize(("count", "top_p"), [(11, 1.0), (4, 1.0), (11, 0.6), (4, 0.7), (1, 1.0)])
def test_evenly_spread_numbers_draw_the_probable_tokens_as_often_as_they_are_probable(of, count, top_p) -> None:
    draws = 10_007
    array = random_log_probs(1, 11, banned=0.0)
    numbers = (np.arange(draws) + 0.5) / draws
    tokens, values = of(array.repeat(draws, axis=0)).drawn(numbers, count, 0.5, top_p)
    np.testing.assert_array_equal(values, array[0, tokens])
    weights = np.exp(array[0].astype(np.float64)) ** 2  # what a temperature of 0.5 makes of them
    order = np.argsort(-weights)
    weights[order[count:]] = 0
    before = (weights[order].cumsum() - weights[order]) / weights.sum()
    weights[order[before >= top_p]] = 0
    np.testing.assert_allclose(np.bincount(tokens, minlength=11), draws * weights / weights.sum(), atol=2)


@pytest.mark.parametrize("top_p", [1.0, 0.999, 0.9, 0.3])
@pytest.mark.parametrize("temperature", [0.2, 0.7, 1.0, 3.0])
@pytest.mark.parametrize("spread", [0.0, 0.5, 2.0, 8.0])
def test_a_token_drawn_among_few_is_that_of_the_formula(spread: float, temperature: float, top_p: float) -> None:
    """Of probabilities that are flat or steep, and of many that are equal."""
    draw = np.random.default_rng(7)
    scores = draw.normal(size=(200, 500)) * spread
    scores[::2] = np.round(scores[::2])
    scores[5:9, draw.integers(0, 500, 450)] = -np.inf
    scores[11] = -np.inf
    array = scores.astype(np.float32)
    numbers = draw.random(200)
    numbers[:3] = 0.0, 0.5, np.nextafter(1.0, 0.0)
    found = ArrayLogProbs(array).drawn(numbers, 500, temperature, top_p)
    for ours, formula in zip(
        found, drawn_tokens(array.astype(np.float64), numbers, 500, temperature, top_p), strict=True
    ):
        np.testing.assert_array_equal(ours, formula)


def test_a_row_of_nan_gives_a_draw_no_probability_and_leaves_other_rows_alone(of) -> None:
    array = random_log_probs(3, 11, banned=0.0)
    numbers = np.array([0.1, 0.5, 0.9])
    tokens, values = of(array).drawn(numbers, 4, 1.0, 1.0)
    array[1] = np.nan
    others, found = of(array).drawn(numbers, 4, 1.0, 1.0)
    assert not np.isfinite(found[1])
    np.testing.assert_array_equal(others[[0, 2]], tokens[[0, 2]])
    np.testing.assert_array_equal(found[[0, 2]], values[[0, 2]])


def test_of_no_rows_nothing_is_chosen(of) -> None:
    values, indices = (
        of(random_log_probs(4, 11)).lowered(*[np.array([], int)] * 3, np.array([])).best(np.zeros((0, 2)), 4)
    )
    assert values.shape == indices.shape == (0, 4)


def test_a_copy_of_some_rows_is_lowered_as_often_as_named(of) -> None:
    array = random_log_probs(4, 11, banned=0.0)
    log_probs = of(array)
    lowered = log_probs.lowered(np.array([2, 0]), np.array([0, 1, 1]), np.array([3, 5, 5]), np.array([0.5, 0.25, 0.25]))
    expected = array[[2, 0]]
    expected[0, 3] -= 0.5
    expected[1, 5] -= 0.5
    rows, tokens = np.divmod(np.arange(22), 11)
    np.testing.assert_allclose(lowered.at(rows, tokens), expected.ravel(), rtol=1e-6)
    np.testing.assert_array_equal(log_probs.at(rows, tokens), array[:2].ravel())
    assert (len(log_probs), len(lowered), lowered.vocab_size) == (4, 2, 11)


def test_the_mean_is_that_of_the_probabilities_and_what_is_impossible_for_all_stays_so(of) -> None:
    first, second = (random_log_probs(3, vocab=7, banned=share) for share in (0.6, 0.3))
    with np.errstate(divide="ignore"):
        wanted = np.log((np.exp(first) + np.exp(second)) / 2)
    everywhere = np.repeat(np.arange(3), 7), np.tile(np.arange(7), 3)
    found = of(first).averaged([of(second)]).at(*everywhere)
    assert np.isneginf(wanted).any()
    np.testing.assert_allclose(found, wanted.ravel(), rtol=1e-5)
