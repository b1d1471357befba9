"""The loss: equal to torch's on the whole logits, in value, count and every gradient."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.model.fast import loss as module
from dragoman.model.loss import LossOptions, SoftTargets, cross_entropy

VOCAB, WIDTH, PAD = 29, 7, 0
SLICE = 16  # the smallest number of tokens that are computed at once


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Forces the smallest slices; the list holds the number of tokens of each."""
    seen, slice_loss = [], module._slice_loss

    def spy(states: Tensor, *rest: object) -> object:
        seen.append(len(states))
        return slice_loss(states, *rest)

    monkeypatch.setattr(module, "SLICE_ELEMENTS", {"cpu": 1})
    monkeypatch.setattr(module, "_slice_loss", spy)
    return seen


def problem(*shape: int, bias: bool = True) -> tuple[list[Tensor], Tensor]:
    """States, weight and perhaps bias that want gradients, and targets, a fifth of them padding."""
    torch.manual_seed(53)
    tensors = [torch.randn(*shape, WIDTH), torch.randn(VOCAB, WIDTH)]
    tensors += [torch.randn(VOCAB)] * bias
    targets = torch.randint(1, VOCAB, shape)
    targets[torch.rand(shape) < 0.2] = PAD
    return [t.requires_grad_() for t in tensors], targets


def ours(tensors: list[Tensor], targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    states, weight, *bias = tensors
    bias = bias[0] if bias else None
    return cross_entropy(states, targets, LossOptions(PAD, smoothing), weight=weight, bias=bias)


def torchs(tensors: list[Tensor], targets: Tensor, smoothing: float) -> Tensor:
    return F.cross_entropy(
        F.linear(*tensors).flatten(0, -2),
        targets.flatten(),
        ignore_index=PAD,
        label_smoothing=smoothing,
        reduction="sum",
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(67,), (5, 13), (2, 3, 17)])
def test_value_and_gradients_are_those_of_torch(slices, shape, bias: bool, smoothing: float):
    tensors, targets = problem(*shape, bias=bias)
    expected = torchs(tensors, targets, smoothing)
    loss, count = ours(tensors, targets, smoothing)
    assert int(count) == int((targets != PAD).sum())
    assert slices[:-1] == [SLICE] * ((int(count) - 1) // SLICE)
    assert len(slices) > 2
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=0)
    for own, theirs in zip(torch.autograd.grad(loss, tensors), torch.autograd.grad(expected, tensors), strict=True):
        torch.testing.assert_close(own, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("smoothing", [pytest.param(0.0, marks=pytest.mark.slow), 0.1])
@pytest.mark.usefixtures("annotations_unchecked")
def test_double_precision_stays_double(slices, smoothing: float):
    tensors, targets = problem(19)
    tensors = [tensor.detach().double().requires_grad_() for tensor in tensors]
    assert ours(tensors, targets, smoothing)[0].dtype == torch.float64
    assert torch.autograd.gradcheck(lambda *given: ours(list(given), targets, smoothing)[0], tensors)


def test_one_slice_and_many_have_the_same_gradients(monkeypatch):
    tensors, targets = problem(61)
    whole = torch.autograd.grad(ours(tensors, targets, 0.1)[0], tensors)
    monkeypatch.setattr(module, "SLICE_ELEMENTS", {"cpu": 1})
    parts = torch.autograd.grad(ours(tensors, targets, 0.1)[0], tensors)
    for own, theirs in zip(parts, whole, strict=True):
        torch.testing.assert_close(own, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_states_in_another_memory_order_get_their_own_gradient(slices, smoothing: float):
    (states, *rest), targets = problem(53)
    turned = states.detach().t().contiguous().t().requires_grad_()
    expected = torch.autograd.grad(torchs([states, *rest], targets, smoothing), states)
    own = torch.autograd.grad(ours([turned, *rest], targets, smoothing)[0], turned)
    torch.testing.assert_close(own, expected, rtol=1e-4, atol=1e-5)


def test_a_division_of_the_loss_divides_the_gradients():
    tensors, targets = problem(5, 13)
    loss, count = ours(tensors, targets, 0.1)
    whole = torch.autograd.grad(loss, tensors)
    divided = torch.autograd.grad(ours(tensors, targets, 0.1)[0] / count, tensors)
    for part, all_of_it in zip(divided, whole, strict=True):
        torch.testing.assert_close(part, all_of_it / int(count))


@pytest.mark.parametrize("wanted", [0, 1, 2], ids=["states", "weight", "bias"])
def test_one_gradient_alone_is_the_same(wanted: int):
    tensors, targets = problem(5, 13)
    expected = torch.autograd.grad(torchs(tensors, targets, 0.1), tensors[wanted])
    frozen = [t.detach().requires_grad_(i == wanted) for i, t in enumerate(tensors)]
    loss, _ = ours(frozen, targets, 0.1)
    torch.testing.assert_close(torch.autograd.grad(loss, frozen[wanted]), expected)


def test_gradients_reach_what_the_states_were_made_of():
    """The weight of a tied model is used twice: for the embedding and for the logits."""
    torch.manual_seed(59)
    table = torch.randn(VOCAB, WIDTH, requires_grad=True)
    ids, targets = torch.randint(1, VOCAB, (2, 5, 13))
    loss, _ = ours([table[ids].tanh(), table], targets, 0.1)
    expected = torchs([table[ids].tanh(), table], targets, 0.1)
    torch.testing.assert_close(*(torch.autograd.grad(x, table) for x in (loss, expected)))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("gradient", [True, False])
def test_padding_alone_gives_zero_and_no_gradient(gradient: bool, smoothing: float):
    tensors, targets = problem(5, 13)
    with torch.set_grad_enabled(gradient):
        loss, count = ours(tensors, torch.full_like(targets, PAD), smoothing)
    assert (loss.item(), int(count)) == (0.0, 0)
    if gradient:
        assert all((g == 0).all() for g in torch.autograd.grad(loss, tensors))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_without_a_clue_a_token_costs_the_logarithm_of_the_vocabulary(smoothing: float):
    tensors, targets = problem(5, 13, bias=False)
    loss, count = ours([torch.zeros_like(tensors[0]), tensors[1]], targets, smoothing)
    assert loss.item() == pytest.approx(int(count) * math.log(VOCAB), rel=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_validation_computes_no_gradient(monkeypatch, context, smoothing: float):
    tensors, targets = problem(5, 13)
    gradients, loss_and_gradients = [], module._loss_and_gradients

    def spy(*arguments: object, **options: object) -> tuple:
        gradients.append(loss_and_gradients(*arguments, **options)[1])
        return loss_and_gradients(*arguments, **options)

    monkeypatch.setattr(module, "_loss_and_gradients", spy)
    expected = torchs(tensors, targets, smoothing)
    with context():
        loss, _ = ours(tensors, targets, smoothing)
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-6, atol=0)
    assert gradients == [(None, None, None)]


def confident(logit: float) -> tuple[list[Tensor], Tensor]:
    """One token, whose target lies `logit` nats behind the only likely one."""
    weight = torch.zeros(VOCAB, WIDTH)
    weight[5] = 1
    return [t.requires_grad_() for t in (torch.full((1, WIDTH), logit / WIDTH), weight)], torch.tensor([3])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("logit", [30.0, 80.0, 1000.0])
def test_a_hopeless_token_has_the_right_gradient(logit: float, smoothing: float):
    tensors, targets = confident(logit)
    loss, _ = ours(tensors, targets, smoothing)
    expected = torchs(tensors, targets, smoothing)
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(*(torch.autograd.grad(x, tensors) for x in (loss, expected)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("level", [-1e4, -90.0, 90.0, 1e4])
def test_logits_may_lie_anywhere(level: float, dtype: torch.dtype):
    """Rows beside others of another level; what is added to all logits of a row changes nothing."""
    (states, weight, bias), targets = problem(67)
    lifted = [torch.cat([states, torch.ones(67, 1)], 1), torch.cat([weight, torch.zeros(VOCAB, 1)], 1), bias]
    lifted = [t.detach().to(dtype).requires_grad_() for t in lifted]
    with torch.no_grad():
        lifted[1][:, -1] = level
        lifted[0][::2, -1] = 0.0
    loss, _ = ours(lifted, targets, 0.1)
    expected = torchs([t.detach().double().requires_grad_() for t in lifted], targets, 0.1)
    # Beside 10,000 a float32 has 3 digits behind the point, a bfloat16 none.
    assert loss.item() == pytest.approx(expected.item(), rel=1e-3 if dtype == torch.float32 else 0.5)
    assert all(g.isfinite().all() for g in torch.autograd.grad(loss, lifted))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [False, True])
def test_under_autocast_the_loss_is_right_to_the_precision_of_bfloat16(bias: bool, smoothing: float):
    """Products in bfloat16, of 8 bits: the value to 1 %, gradients to 2 % of their length."""
    tensors, targets = problem(31, 37, bias=bias)
    expected = torchs(tensors, targets, smoothing)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, _ = ours(tensors, targets, smoothing)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item(), rel=0.01)
    assert loss.item() != expected.item()
    gradients = torch.autograd.grad(loss, tensors), torch.autograd.grad(expected, tensors)
    for own, theirs in zip(*gradients, strict=True):
        assert own.dtype == torch.float32
        assert (own - theirs).norm() < 0.02 * theirs.norm()


def test_states_in_bfloat16_get_a_gradient_in_bfloat16():
    (states, weight), targets = problem(31, 37, bias=False)
    expected = torch.autograd.grad(torchs([states, weight], targets, 0.1), states)[0]
    half = states.detach().bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, _ = ours([half, weight], targets, 0.1)
    gradient = torch.autograd.grad(loss, half)[0]
    assert gradient.dtype == torch.bfloat16
    assert (gradient - expected).norm() < 0.02 * expected.norm()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        LossOptions(PAD),
        LossOptions(PAD, smoothing=0.1),
        LossOptions(PAD, smoothing=0.1, r_drop=3.0),
        LossOptions(PAD, smoothing=0.1, soft_targets=0.6),
        LossOptions(PAD, smoothing=0.1, r_drop=3.0, soft_targets=0.6),
    ],
    ids=str,
)
def test_value_count_and_gradients_are_those_of_the_formula(slices, options: LossOptions, bias: bool):
    shape = (19, 2) if options.r_drop else (19,)
    tensors, targets = problem(*shape, bias=bias)
    targets = targets[:, 0] if options.r_drop else targets
    states, weight, *more = tensors
    output = {"weight": weight, "bias": more[0] if bias else None}
    if options.soft_targets:
        probabilities = torch.rand(19, 4).softmax(1) * (targets != PAD)[:, None]
        output["soft"] = SoftTargets(torch.randint(1, VOCAB, (19, 4)), probabilities)
    loss, count = cross_entropy(states, targets, options, **output)
    expected, expected_count = cross_entropy.plain(states, targets, options, **output)
    assert int(count) == int(expected_count)
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=0)
    for own, formula in zip(torch.autograd.grad(loss, tensors), torch.autograd.grad(expected, tensors), strict=True):
        torch.testing.assert_close(own, formula, rtol=1e-4, atol=1e-5)
