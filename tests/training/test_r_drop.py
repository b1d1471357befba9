"""R-Drop: its divergence by hand, its loss and gradient against the whole logits and torch's own divergence."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.data.batching import Batch
from dragoman.model import Transformer
from dragoman.model.fast import loss as module
from dragoman.model.loss import LossOptions, cross_entropy
from dragoman.training.loss import batch_loss
from dragoman.training.trainer import random_seed
from tests.training.runs import small_model

VOCAB, WIDTH, TOKENS = 29, 7, 67
NO_PAD = -1
"""No target is padding."""


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Forces the smallest slices, and tells of each how many rows of logits it has."""
    seen, exponentials = [], module._exponentials

    def spy(logits: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        seen.append(len(logits))
        return exponentials(logits, *rest)

    monkeypatch.setattr(module, "SLICE_ELEMENTS", {"cpu": 1})
    monkeypatch.setattr(module, "_exponentials", spy)
    return seen


def test_the_divergence_by_hand():
    p, q = torch.tensor([0.5, 0.5]), torch.tensor([0.75, 0.25])
    one = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)
    other = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    states = torch.stack([p, q]).log().unsqueeze(0)
    found, _ = cross_entropy(states, torch.tensor([1]), LossOptions(NO_PAD, r_drop=3.0), weight=torch.eye(2))
    assert found.item() == pytest.approx(3 * (one + other) / 2 - math.log(0.5) - math.log(0.25), rel=1e-6)


def torchs(first: Tensor, second: Tensor) -> Tensor:
    """Of logits, whole, and in the order of arguments that torch has: (log of Q, P) is KL(P || Q)."""
    log_p, log_q = first.log_softmax(-1), second.log_softmax(-1)
    return (F.kl_div(log_q, log_p.exp(), reduction="sum") + F.kl_div(log_p, log_q.exp(), reduction="sum")) / 2


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [False, True])
def test_value_and_gradients_are_those_of_torch(
    slices: list[int], bias: bool, smoothing: float, compiled: bool, monkeypatch: pytest.MonkeyPatch
):
    if not compiled:
        monkeypatch.setattr(module, "can_exponentiate", lambda _: False)
    torch.manual_seed(53)
    tensors = [torch.randn(TOKENS, 2, WIDTH), torch.randn(VOCAB, WIDTH)] + [torch.randn(VOCAB)] * bias
    states, weight, *rest = [t.requires_grad_() for t in tensors]
    targets = torch.randint(0, VOCAB, (TOKENS,))
    options, output = LossOptions(NO_PAD, smoothing, 3.0), {"weight": weight, "bias": rest[0] if bias else None}
    found, count = cross_entropy(states, targets, options, **output)
    assert int(count) == TOKENS
    logits = F.linear(states, weight, *rest)
    labels = targets.repeat_interleave(2)
    expected = F.cross_entropy(logits.flatten(0, 1), labels, label_smoothing=smoothing, reduction="sum")
    expected = expected + 3 * torchs(*logits.unbind(1))
    assert slices == [8] * 16 + [6]  # of two rows a token, and never all at once
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)
    for own, theirs in zip(torch.autograd.grad(found, tensors), torch.autograd.grad(expected, tensors), strict=True):
        torch.testing.assert_close(own, theirs, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(cross_entropy(states, targets, options, **output)[0], found.detach())


def test_an_odd_number_of_rows_does_not_part_a_pair(slices: list[int], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "SLICE_ELEMENTS", {"cpu": 18 * VOCAB})
    weight = torch.randn(VOCAB, WIDTH)
    cross_entropy(torch.randn(23, 2, WIDTH), torch.full((23,), 5), LossOptions(NO_PAD, r_drop=1.0), weight=weight)
    assert slices == [8] * 5 + [6]


def a_batch() -> Batch:
    torch.manual_seed(59)
    target = torch.randint(4, 23, (5, 8))
    target[1, 3:], target[4, 6:] = 0, 0
    return Batch(torch.randint(4, 23, (5, 7)), target[:, :-1], target[:, 1:])


def plain(model: Transformer, batch: Batch, alpha: float, smoothing: float) -> Tensor:
    """The mean of the two losses and alpha / 2 times the divergence, from all logits: half of the paper's loss."""
    logits = model(batch.source_ids.repeat(2, 1), batch.target_ids.repeat(2, 1))
    labels, options = batch.labels.flatten(), {"ignore_index": 0, "label_smoothing": smoothing, "reduction": "sum"}
    first, second = logits.chunk(2)
    losses = [F.cross_entropy(logits.flatten(0, 1), labels, **options) for logits in (first, second)]
    counted = batch.labels != 0
    return (losses[0] + losses[1] + alpha * torchs(first[counted], second[counted])) / 2


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_and_gradient_of_a_batch_are_those_of_the_paper(slices: list[int], smoothing: float):
    model, batch = small_model(dropout=0.4, projection_dropout=0.3).train(), a_batch()
    results = []
    for compute in (
        lambda: batch_loss(model, batch, LossOptions(0, smoothing=smoothing, r_drop=3.0))[0],
        lambda: plain(model, batch, 3.0, smoothing),
    ):
        torch.manual_seed(random_seed(1, 2, 3))  # the same dropout
        loss = compute()
        results.append((loss, torch.autograd.grad(loss, list(model.parameters()))))
    (own, own_gradients), (theirs, their_gradients) = results
    torch.testing.assert_close(own, theirs, rtol=1e-5, atol=0)
    for one, other in zip(own_gradients, their_gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_tokens_are_counted_once():
    batch = a_batch()
    count = batch_loss(small_model(), batch, LossOptions(0, r_drop=1.0))[1]
    assert int(count) == int((batch.labels != 0).sum()) == 5 * 7 - 5 - 2


def test_without_dropout_both_passes_agree_and_the_loss_is_that_of_one():
    model, batch = small_model(dropout=0.0), a_batch()
    torch.testing.assert_close(
        batch_loss(model, batch, LossOptions(0, r_drop=5.0))[0],
        batch_loss(model, batch, LossOptions(0))[0],
        rtol=1e-6,
        atol=0,
    )


def test_the_two_passes_differ_in_their_dropout():
    model, batch = small_model(dropout=0.4).train(), a_batch()
    losses = []
    for alpha in (1e-9, 1.0):
        torch.manual_seed(random_seed(1, 2, 3))
        losses.append(batch_loss(model, batch, LossOptions(0, r_drop=alpha))[0].item())
    assert losses[1] > losses[0] + 0.01
