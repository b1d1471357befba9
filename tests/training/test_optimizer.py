"""Optimizers against their formulas."""

import math
import subprocess
import sys
from typing import Any, get_args

import pytest
import torch
from torch import nn

from dragoman.config.training import TrainingConfig
from dragoman.training import muon
from dragoman.training.muon import NEWTON_SCHULZ, POLYNOMIALS, Muon, orthogonal
from dragoman.training.optimizer import MOMENTS, build_optimizer
from tests.model.variants import build


@pytest.mark.slow
def test_every_optimizer_can_be_told_from_others():
    assert set(get_args(TrainingConfig.model_fields["optimizer"].annotation)) == set(MOMENTS)


def optimizer_of(model: nn.Module, name: str, **options: Any) -> torch.optim.Optimizer:
    return build_optimizer(model, TrainingConfig(optimizer=name, **options))


STEPS = """
import sys, torch
from dragoman.config.training import TrainingConfig
from dragoman.training.optimizer import MOMENTS, build_optimizer, load_moments, moments
from tests.model.variants import build
for name in MOMENTS:
    model = build()
    optimizer = build_optimizer(model, TrainingConfig(optimizer=name))
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    optimizer.zero_grad()
    load_moments(optimizer, moments(optimizer), name=name)
assert "torch._dynamo" not in sys.modules
"""


@pytest.mark.slow
def test_no_optimizer_imports_the_compiler_of_torch():
    subprocess.run([sys.executable, "-c", STEPS], check=True)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_the_first_step_moves_every_weight_by_the_learning_rate(name: str):
    torch.manual_seed(61)
    layer = nn.Linear(7, 11)
    before = [p.detach().clone() for p in layer.parameters()]
    optimizer = optimizer_of(layer, name)
    for group in optimizer.param_groups:
        group["lr"] = 0.003
    for parameter in layer.parameters():
        parameter.grad = torch.randn_like(parameter) * 100
    optimizer.step()
    for parameter, old in zip(layer.parameters(), before, strict=True):
        expected = old - 0.003 * parameter.grad.sign()
        torch.testing.assert_close(parameter.detach(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_steps_follow_algorithm_1_of_adam(name: str, decay: float):
    """Kingma and Ba 2014; decay joins the gradient, or the weight for adamw (Loshchilov 2017)."""
    beta1, beta2, eps, rate = 0.7, 0.8, 0.1, 0.05
    layer = nn.Linear(1, 1, bias=False).double()
    with torch.no_grad():
        layer.weight.fill_(2.0)
    optimizer = optimizer_of(layer, name, betas=(beta1, beta2), eps=eps, weight_decay=decay)
    weight, mean, square = 2.0, 0.0, 0.0
    for step, gradient in enumerate((0.5, -3.0, 0.25), start=1):
        for group in optimizer.param_groups:
            group["lr"] = rate
        layer.weight.grad = torch.full((1, 1), gradient, dtype=torch.float64)
        optimizer.step()
        if name == "adamw":
            weight -= rate * decay * weight
        else:
            gradient += decay * weight
        mean = beta1 * mean + (1 - beta1) * gradient
        square = beta2 * square + (1 - beta2) * gradient**2
        corrected = mean / (1 - beta1**step), square / (1 - beta2**step)
        weight -= rate * corrected[0] / (math.sqrt(corrected[1]) + eps)
        assert layer.weight.item() == pytest.approx(weight, rel=1e-9)


def weights_after(name: str, gradients: list[float], **options: Any) -> list[float]:
    """A weight that begins at 2, after each of some steps at a rate of 0.05."""
    layer = nn.Linear(1, 1, bias=False).double()
    with torch.no_grad():
        layer.weight.fill_(2.0)
    optimizer = optimizer_of(layer, name, **options)
    weights = []
    for gradient in gradients:
        for group in optimizer.param_groups:
            group["lr"] = 0.05
        layer.weight.grad = torch.full((1, 1), gradient, dtype=torch.float64)
        optimizer.step()
        weights.append(layer.weight.item())
    return weights


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("momentum", [0.0, 0.7])
def test_sgd_repeats_a_share_of_its_last_step(momentum: float, decay: float):
    weight, step, expected = 2.0, 0.0, []
    for gradient in (0.5, -3.0, 0.25):
        step = momentum * step + gradient + decay * weight
        weight -= 0.05 * step
        expected.append(weight)
    found = weights_after("sgd", [0.5, -3.0, 0.25], momentum=momentum, weight_decay=decay)
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_rmsprop_divides_by_the_root_of_the_mean_square(decay: float):
    """Hinton's lecture 6e: the mean decays with the second beta, and there is no momentum."""
    weight, square, expected = 2.0, 0.0, []
    for gradient in (0.5, -3.0, 0.25):
        gradient += decay * weight
        square = 0.8 * square + 0.2 * gradient**2
        weight -= 0.05 * gradient / (math.sqrt(square) + 0.1)
        expected.append(weight)
    options = {"betas": (0.7, 0.8), "eps": 0.1, "weight_decay": decay, "momentum": 0.9}
    assert weights_after("rmsprop", [0.5, -3.0, 0.25], **options) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("gain", ["feature", "scalar"])
def test_weight_decay_shrinks_matrices_and_spares_norms_and_biases(gain: str):
    model = build(norm_gain=gain, projection_bias=True)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = optimizer_of(model, "adamw", weight_decay=0.25)
    for group in optimizer.param_groups:
        group["lr"] = 0.5
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        spared = name.endswith((".bias", ".gain"))
        expected = before[name] * (1 if spared else 1 - 0.5 * 0.25)
        torch.testing.assert_close(parameter.detach(), expected, rtol=1e-6, atol=0)


def test_every_parameter_is_optimized_once_though_tables_are_shared():
    model = build(share_embeddings=True, target_vocab_size=53)
    optimizer = optimizer_of(model, "adam")
    optimized = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(optimized) == sorted(id(p) for p in model.parameters())


# ---- Muon ------------------------------------------------------------------------------------


SHAPES = [(7, 7), (7, 7), (13, 5), (5, 13)]


@pytest.mark.parametrize(("native", "precision"), [(False, torch.float32), (True, torch.bfloat16)])
def test_muon_steps_as_that_of_torch_does_in_the_precision_of_the_processor(native, precision, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: native)
    multiplied = set()
    monkeypatch.setattr(muon, "orthogonal", lambda steps, by: multiplied.add(steps.dtype) or orthogonal(steps, by))
    torch.manual_seed(67)
    ours = [nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    theirs = [nn.Parameter(weight.detach().clone()) for weight in ours]
    optimizers = [
        Muon(ours, weight_decay=0.1, polynomials=NEWTON_SCHULZ),
        torch.optim.Muon(theirs, lr=0.0, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
    ]
    for rate in (0.1, 0.03, 0.01):
        for own, other in zip(ours, theirs, strict=True):
            own.grad = torch.randn_like(own)
            other.grad = own.grad.clone()
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = rate
            optimizer.step()
    for own, other in zip(ours, theirs, strict=True):
        # Products of stacked matrices may round another way, to 8 bits.
        torch.testing.assert_close(own, other, rtol=0, atol=3e-3)
    assert multiplied == {precision}


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(3, 11, 11), (3, 17, 5), (3, 5, 17)])
def test_an_orthogonal_step_goes_as_far_in_every_direction(shape: tuple[int, ...], precision: torch.dtype):
    torch.manual_seed(71)
    found = torch.linalg.svdvals(orthogonal(torch.randn(shape).to(precision)).float())
    assert 0.4 < found.min() <= found.max() < 1.4


@pytest.mark.parametrize("polynomials", [NEWTON_SCHULZ, POLYNOMIALS], ids=["Newton-Schulz", "ours"])
def test_long_matrices_become_orthogonal_by_their_squares_as_others_do_step_by_step(polynomials, monkeypatch):
    torch.manual_seed(97)
    matrices = torch.randn(3, 8, 8 * muon.LONG, dtype=torch.float64)
    by_squares = orthogonal(matrices, polynomials)
    monkeypatch.setattr(muon, "LONG", 100)
    torch.testing.assert_close(by_squares, orthogonal(matrices, polynomials), rtol=0, atol=1e-12)


def test_a_muon_step_is_the_same_however_many_matrices_are_multiplied_at_once(monkeypatch):
    results = []
    for at_once in (muon.AT_ONCE, 100, 1):
        monkeypatch.setattr(muon, "AT_ONCE", at_once)
        torch.manual_seed(101)
        weights = [nn.Parameter(torch.randn(5, 9)) for _ in range(7)]
        optimizer = Muon(weights)
        optimizer.param_groups[0]["lr"] = 0.1
        for weight in weights:
            weight.grad = torch.randn_like(weight)
        optimizer.step()
        results.append(torch.stack(weights).detach())
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("polynomials", "error"), [(NEWTON_SCHULZ, 0.33), (POLYNOMIALS, 0.28)])
def test_singular_values_come_near_1(polynomials: list[tuple[float, float, float]], error: float):
    """Of a hundredth of the norm and more; smaller ones grow, and none grows beyond."""
    values = torch.logspace(-4, 0, 2000, dtype=torch.float64)
    found = values
    for a, b, c in polynomials:
        found = a * found + b * found**3 + c * found**5
    assert (found[values >= 0.01] - 1).abs().max() < error
    small = values < 0.01
    assert (found[small] > values[small]).all()
    assert found.max() < 1 + error


def test_muon_is_for_matrices_of_the_layers_and_adamw_for_the_rest():
    torch.manual_seed(73)
    models = [build(), build()]
    optimizers = [optimizer_of(model, name) for model, name in zip(models, ("muon", "adamw"), strict=True)]
    for weights in zip(*(model.parameters() for model in models), strict=True):
        weights[0].grad = torch.randn_like(weights[0])
        weights[1].grad = weights[0].grad.clone()
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = 0.003
        optimizer.step()
    same = {name for (name, own), other in zip(models[0].named_parameters(), models[1].parameters(), strict=True)
            if torch.equal(own, other)}  # fmt: skip
    matrices = {name for name, weight in models[0].named_parameters() if weight.dim() > 1 and "table" not in name}
    assert same == {name for name, _ in models[0].named_parameters()} - matrices
