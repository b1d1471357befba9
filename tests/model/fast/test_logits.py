"""Compiled log-probabilities and exponentials of logits: equal to those of torch."""

import math

import pytest
import torch

from dragoman.model.fast.logits import exponentiate
from dragoman.model.transformer import log_softmax
from dragoman.native import library
from tests.model.fast.kernels import every_precision, needs_library


@needs_library
@every_precision
@pytest.mark.parametrize("vocab", [1, 16, 57, 8000])
def test_log_softmax_equals_that_of_torch(dtype, vocab: int):
    torch.manual_seed(vocab)
    logits = torch.cat([torch.randn(5, vocab), 200 * torch.randn(3, vocab), 1e4 + torch.randn(2, vocab)]).to(dtype)
    logits[1, : vocab // 2] = -torch.inf
    found = torch.empty(10, vocab)
    log_softmax(logits, found)
    torch.testing.assert_close(found.double(), logits.double().log_softmax(-1), rtol=1e-6, atol=1e-5)
    logits[4, 0] = torch.nan
    log_softmax(logits, found)
    assert found[4].isnan().all()
    assert not found[:4].isnan().any()


@needs_library
def test_nothing_is_written_beside_the_rows():
    guarded = torch.full((9, 35), 7.0)
    log_softmax(torch.randn(7, 35), guarded[1:8])
    assert (guarded[[0, 8]] == 7).all()


def test_the_exponential_function_is_exact_over_its_whole_range():
    if not library.compiled():
        pytest.skip("there is no C compiler")
    # Of two logits, 0 and x, log softmax gives -log(1 + exp x) for the first.
    x = torch.linspace(-100, 0, 20_001)
    found = torch.empty(len(x), 2)
    log_softmax(torch.stack([torch.zeros_like(x), x], dim=1), found)
    wanted = -torch.log1p(x.double().exp())
    assert (found[:, 0].double() - wanted).abs().max() < 2e-7
    assert math.isclose(found[-1, 0], -math.log(2), rel_tol=1e-6)


@needs_library
@every_precision
@pytest.mark.parametrize("vocab", [1, 16, 57, 8000])
def test_exponentials_of_logits_are_those_of_torch(dtype, vocab: int):
    torch.manual_seed(vocab)
    logits = torch.cat([torch.randn(5, vocab), 1e4 + torch.randn(2, vocab), -1e4 + torch.randn(2, vocab)]).to(dtype)
    targets = torch.randint(vocab, (9,))
    shift = torch.where(torch.arange(9) < 5, 0.0, logits.amax(1).float())[:, None]
    chosen = logits.gather(1, targets[:, None]).float() - shift
    expected = (logits.double() - shift).exp().scatter(1, targets[:, None], 0.0)
    terms = exponentiate(logits, targets, far=60.0)
    torch.testing.assert_close(logits.double(), expected, rtol=torch.finfo(dtype).eps, atol=1e-30)
    expected_terms = [shift, chosen, expected.sum(1, keepdim=True).float(), torch.zeros(9, 1)]
    torch.testing.assert_close(terms, torch.cat(expected_terms, 1))


@needs_library
@every_precision
@pytest.mark.parametrize("vocab", [1, 16, 57, 8000])
def test_predictions_that_are_drawn_together_are_those_of_torch(dtype, vocab: int):
    torch.manual_seed(vocab)
    logits = (3 * torch.randn(8, vocab) + 300 * torch.arange(8)[:, None]).to(dtype)
    targets = torch.randint(vocab, (4,)).repeat_interleave(2)
    log_probs = logits.double().log_softmax(1)
    probs, (p, q) = log_probs.exp(), log_probs.unflatten(0, (-1, 2)).unbind(1)
    divergences = torch.stack([(p.exp() * (p - q)).sum(1), (q.exp() * (q - p)).sum(1)], 1).flatten()[:, None]
    apart, others = torch.stack([p - q, q - p], 1).flatten(0, 1), torch.stack([q, p], 1).flatten(0, 1).exp()
    expected = probs + 3.0 / 2 * (probs * (apart - divergences + 1) - others)
    chosen = log_probs.gather(1, targets[:, None])
    expected.scatter_add_(1, targets[:, None], -chosen.exp())
    shift = logits.double().gather(1, targets[:, None]) - chosen
    terms = exponentiate(logits, targets, far=60.0, alpha=3.0)
    torch.testing.assert_close(logits.double(), expected, rtol=torch.finfo(dtype).eps, atol=1e-5)
    torch.testing.assert_close(
        terms.double(), torch.cat([shift, chosen, 1 - chosen.exp(), 1.5 * divergences], 1), rtol=1e-5, atol=1e-4
    )


@needs_library
@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_training_writes_nothing_beside_its_rows(alpha: float):
    guarded = torch.full((10, 35), 7.0)
    exponentiate(guarded[1:9], torch.arange(8), far=60.0, alpha=alpha)
    assert (guarded[[0, 9]] == 7).all()
