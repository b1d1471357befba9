"""Training in bfloat16: what the compiled passes compute is what the formulas do, to the precision of the numbers."""

import math

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import Tensor

from dragoman.data.soft_targets import SoftTargets
from dragoman.model.attention import attend, attention, project
from dragoman.model.dropout import Dropout
from dragoman.model.fast import bfloat16
from dragoman.model.fast import loss as losses
from dragoman.model.loss import LossOptions, cross_entropy
from tests.training.test_soft_targets import distributions, random_targets

needs_instruction = pytest.mark.skipif(bfloat16._functions is None, reason="this processor does not multiply bfloat16")


@pytest.fixture(autouse=True)
def one_thread():
    """What the compiled passes are for."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def near(found: Tensor, exact: Tensor, share: float) -> bool:
    """Whether the difference is at most this share of the length."""
    return bool((found.double() - exact).norm() <= share * exact.norm() + 1e-9)


def heads(rows: int, length: int, *, count: int, width: int) -> list[Tensor]:
    """`count` tensors (rows, 3, length, width) that lie side by side, as those of a joint projection."""
    x = torch.randn(rows, length, count * 3 * width, dtype=torch.bfloat16)
    return [part.unflatten(-1, (3, width)).transpose(1, 2) for part in x.chunk(count, -1)]


@needs_instruction
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize(("queries", "keys"), [(1, 3), (7, 5), (16, 16), (13, 33), (40, 17), (9, 512)])
def test_attention_and_its_gradients_are_those_of_the_formula(rate: float, width: int, queries: int, keys: int):
    torch.manual_seed(keys)
    own = heads(2, queries, count=3, width=width)
    given = own if queries == keys else [own[0], *heads(2, keys, count=2, width=width)]
    given = [tensor.detach().requires_grad_() for tensor in given]
    nothing = torch.rand(2, 1, 1, keys) > 0.4
    nothing[0] = False
    for mask in (None, nothing, torch.rand(queries, keys) > 0.4):
        assert bfloat16.can_attend(*given)
        found = bfloat16.attend(*given, mask, dropout=Dropout(rate).train())
        # What dropout took is negative in what is kept for the backward pass.
        left = ~torch.signbit(found.grad_fn.saved_tensors[3][..., :keys])
        assert abs(left.double().mean() - 1 + rate) <= 5 * math.sqrt(rate * (1 - rate) / left.numel())
        exactly = [tensor.detach().double().requires_grad_() for tensor in given]
        scores = exactly[0] @ exactly[1].mT / math.sqrt(width)
        scores = scores if mask is None else scores.masked_fill(~mask, -1e30)
        formula = (scores.softmax(-1) * left / (1 - rate)) @ exactly[2]
        away = torch.randn_like(found)
        ours, theirs = torch.autograd.grad(found, given, away), torch.autograd.grad(formula, exactly, away.double())
        for own_one, exact in zip((found, *ours), (formula.detach(), *theirs), strict=True):
            assert near(own_one, exact, 0.01)


@needs_instruction
def test_the_same_seed_drops_the_same_and_no_number_stays_none():
    given = [tensor.detach().requires_grad_() for tensor in heads(2, 11, count=3, width=32)]
    dropout = Dropout(0.5).train()
    first, again, other = ((torch.manual_seed(seed), bfloat16.attend(*given, dropout=dropout))[1] for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    with torch.no_grad():
        given[1][1, 2, 3, 4] = torch.nan
    found = bfloat16.attend(*given, dropout=Dropout(0.0))
    assert found[1, 2].isnan().all()
    assert found.isnan().sum() == found[1, 2].numel()


@pytest.mark.parametrize(
    ("width", "keys", "dtype"), [(16, 5, torch.bfloat16), (32, 513, torch.bfloat16), (32, 5, torch.float32)]
)
def test_what_the_library_does_not_take_the_formula_does(width: int, keys: int, dtype: torch.dtype):
    query, key, value = (torch.randn(2, 3, n, width, dtype=dtype, requires_grad=True) for n in (4, keys, keys))
    assert not bfloat16.can_attend(query, key, value)
    found = attend(query, key, value, dropout=Dropout(0.0))
    exact = attention(query.double(), key.double(), value.double(), dropout=Dropout(0.0))
    assert near(found.detach(), exact.detach(), 0.02)


@pytest.mark.parametrize("joined", [False, True])
def test_parts_of_a_joint_projection_get_the_gradients_of_single_ones(joined: bool):
    torch.manual_seed(5)
    x, layers = torch.randn(3, 5, 7), [torch.nn.Linear(7, 11) for _ in range(3)]
    away = torch.randn(3, 5, 3, 11)
    gradients = [away[:, :, i] if joined else away[:, :, i].clone() for i in range(3)]
    weights = [layer.weight for layer in layers]
    ours = torch.autograd.grad(project(x, *layers), weights, gradients)
    theirs = torch.autograd.grad([layer(x) for layer in layers], weights, gradients)
    torch.testing.assert_close(ours, theirs)


def losses_of(
    states: Tensor, weight: Tensor, targets: Tensor, options: LossOptions, soft: SoftTargets | None = None
) -> list[Tensor]:
    """The loss and its gradients, with products in bfloat16."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, _ = cross_entropy(states, targets, options, weight=weight, soft=soft)
    return [loss.detach(), *torch.autograd.grad(loss, (states, weight))]


@needs_instruction
@pytest.mark.parametrize(("smoothing", "share"), [(0.0, 0.0), (0.1, 0.0), (0.1, 0.7), (0.0, 1.0)])
@pytest.mark.parametrize(
    ("vocab", "width", "tokens"), [(29, 32, 1), (129, 96, 7), (1001, 32, 513), (1000, 64, 301), (2048, 128, 256)]
)
def test_projection_and_loss_are_those_of_torch(
    vocab: int, width: int, tokens: int, smoothing: float, share: float, monkeypatch
):
    torch.manual_seed(vocab)
    states, weight = torch.randn(tokens, width), torch.randn(vocab, width) / math.sqrt(width)
    targets = torch.randint(1, vocab, (tokens,))
    targets[-1] = vocab - 1
    states, weight = (tensor.bfloat16().float().requires_grad_() for tensor in (states, weight))
    seen = []
    monkeypatch.setattr(losses, "_exponentials", lambda *given: seen.append(given))  # the formula
    options, soft = LossOptions(0, smoothing, soft_targets=share), random_targets(tokens, vocab)
    found = losses_of(states, weight, targets, options, soft if share else None)
    assert not seen
    exactly = [tensor.detach().double().requires_grad_() for tensor in (states, weight)]
    labels = distributions(targets, soft, options, vocab)
    exact = F.cross_entropy(exactly[0] @ exactly[1].T, labels, reduction="sum")
    assert near(found[0], exact.detach(), 1e-5)
    for ours, theirs in zip(found[1:], torch.autograd.grad(exact, exactly), strict=True):
        assert near(ours, theirs, 0.005)


@needs_instruction
@pytest.mark.parametrize("level", [-200.0, 200.0])
def test_logits_far_from_zero_are_left_to_the_formula(level: float):
    torch.manual_seed(7)
    states, weight = torch.randn(70, 32), torch.randn(300, 32) / 8
    weight[:, 0], states[40:, 0] = level, 1.0  # whole rows of logits, but not all
    targets = torch.randint(1, 300, (70,))
    projection = bfloat16.Projection(weight.bfloat16())
    states[:40, 0] = 0.0
    assert projection.spread(states[:40].bfloat16(), targets[:40], far=60.0) is not None
    assert projection.spread(states.bfloat16(), targets, far=60.0) is None
    found = losses_of(states.requires_grad_(), weight.requires_grad_(), targets, LossOptions(0, 0.1))
    assert all(tensor.isfinite().all() for tensor in found)


@needs_instruction
def test_what_is_computed_again_for_the_way_back_has_the_same_gradients():
    """Checkpointing drops what a pass has stored, and makes it anew elsewhere."""
    torch.manual_seed(3)
    given = [part.detach().requires_grad_() for part in heads(2, 9, count=3, width=32)]
    mask = torch.ones(9, 9, dtype=torch.bool).tril()

    def mixed(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return bfloat16.attend(query, key, value, mask, dropout=Dropout(0.0)).float().sin().sum()

    expected = torch.autograd.grad(mixed(*given), given)
    found = torch.autograd.grad(torch.utils.checkpoint.checkpoint(mixed, *given, use_reentrant=False), given)
    for own, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(own, theirs)
