"""Targets that are what teachers expect: on disk, in batches, and their loss beside that of whole distributions."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.data.batching import Position, TokenBatches, TokenStore
from dragoman.data.soft_targets import TOP, SoftTargets, SoftTargetStore
from dragoman.errors import UsageError
from dragoman.model.fast import loss as module
from dragoman.model.loss import LossOptions, cross_entropy
from dragoman.training.executors import build_executor
from tests.training.runs import small_model
from tests.training.test_r_drop import torchs

PAD, VOCAB, WIDTH, TOKENS = 0, 29, 7, 67


def random_targets(tokens: int, vocab: int) -> SoftTargets:
    return SoftTargets(torch.rand(tokens, vocab).topk(TOP).indices, torch.randn(tokens, TOP).double().softmax(-1))


def distributions(targets: Tensor, soft: SoftTargets, options: LossOptions, vocab: int) -> Tensor:
    """The targets as probabilities of all tokens."""
    hard = F.one_hot(targets, vocab).double() * (1 - options.smoothing) + options.smoothing / vocab
    expected = torch.zeros(len(targets), vocab, dtype=soft.probabilities.dtype).scatter(1, *soft)
    return (1 - options.soft_targets) * hard + options.soft_targets * expected


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("share", "alpha", "scale"), [(0.4, 0, 1), (0.4, 0, 60), (1, 0, 1), (0.7, 3, 1)])
def test_value_and_gradients_are_those_of_torch(monkeypatch, share: float, alpha: float, scale: float, bias: bool):
    """With R-Drop too, and where logits are so large that they are shifted."""
    monkeypatch.setattr(module, "SLICE_ELEMENTS", {"cpu": 1})
    torch.manual_seed(71)
    sizes = [(TOKENS, 2, WIDTH) if alpha else (TOKENS, WIDTH), (VOCAB, WIDTH)] + [(VOCAB,)] * bias
    states, weight, *rest = tensors = [torch.randn(size, dtype=torch.float64, requires_grad=True) for size in sizes]
    targets, soft = torch.randint(0, VOCAB, (TOKENS,)), random_targets(TOKENS, VOCAB)
    options = LossOptions(PAD, 0.1, alpha, share)
    output = {"weight": weight, "bias": rest[0] if bias else None}
    found, count = cross_entropy(scale * states, targets, options, **output, soft=soft)
    counted = targets != PAD
    assert int(count) == int(counted.sum()) < TOKENS
    logits = F.linear(scale * states, weight, *rest)[counted].view(int(count), -1, VOCAB)
    wanted = distributions(targets, soft, options, VOCAB)[counted]
    expected = sum(F.cross_entropy(prediction, wanted, reduction="sum") for prediction in logits.unbind(1))
    expected = expected + alpha * torchs(*logits.unbind(1)) if alpha else expected
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    for own, theirs in zip(torch.autograd.grad(found, tensors), torch.autograd.grad(expected, tensors), strict=True):
        torch.testing.assert_close(own, theirs, rtol=1e-9, atol=1e-9)


@pytest.fixture
def batches(tmp_path: Path) -> TokenBatches:
    rng = np.random.default_rng(79)
    lengths = [3, 1, 5, 2, 4, 5, 1, 7]
    paths = [tmp_path / "source", tmp_path / "target"]
    TokenStore.write(paths, ([rng.integers(4, 23, length).tolist()] * 2 for length in lengths))
    stores = [*map(TokenStore, paths)]
    written = SoftTargetStore.create(tmp_path, stores[1].ends)
    assert len(written.ids) == sum(lengths) + len(lengths)
    written.ids[:] = rng.integers(4, 23, written.ids.shape)
    written.probabilities[:] = rng.dirichlet(np.ones(TOP), len(written.ids))
    batches = TokenBatches(*stores, max_tokens=40, seed=1)
    batches.soft_targets = SoftTargetStore.open(tmp_path, stores[1].ends)
    return batches


def test_each_position_of_a_batch_has_its_own(batches: TokenBatches):
    soft = batches.soft_targets
    assert soft is not None
    for rows in batches.plan(0):
        batch = batches.collate(rows)
        for row, index in enumerate(rows.tolist()):
            length, at = len(batches.target[index]) + 1, soft.positions(np.array([index]))
            ids, probabilities = (tensor[row] for tensor in batch.soft_targets)
            assert ids[:length].tolist() == soft.ids[at].tolist()
            assert probabilities[:length].tolist() == soft.probabilities[at].astype(np.float32).tolist()
            assert not probabilities[length:].any()


@pytest.mark.usefixtures("two_threads")
def test_copies_and_halves_have_the_gradient_of_the_whole(batches: TokenBatches):
    batch, options = batches.next(Position()), LossOptions(PAD, 0.1, 0.0, 0.6)
    found = []
    for parts in ("whole", "copies", "halves"):
        model = small_model(dropout=0.0)
        executor = build_executor(model, torch.float32, options, max_tokens=4096 if parts == "copies" else 16)
        assert len(getattr(executor, "copies", [model])) == (2 if parts == "copies" else 1)
        executor.too_large = 1 if parts == "halves" else None
        gradient = executor.backward([batch], seed=int)
        found.append((gradient.loss, [weight.grad for weight in model.parameters()]))
        executor.close()
    for loss, gradients in found[1:]:
        assert loss == pytest.approx(found[0][0], rel=1e-5)
        for own, whole in zip(gradients, found[0][1], strict=True):
            torch.testing.assert_close(own, whole, rtol=1e-4, atol=1e-6)


def test_without_a_teacher_there_are_none(tmp_path: Path):
    with pytest.raises(UsageError, match="dragoman distill TEACHER OUT --soft-targets"):
        SoftTargetStore.open(tmp_path, np.array([3]))
