"""LoRA as an optimizer, compared with the layers of its paper under PyTorch's Adam."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dragoman.config.finetuning import FinetuneConfig
from dragoman.config.run import RunConfig
from dragoman.config.training import TrainingConfig
from dragoman.errors import UsageError
from dragoman.model import Transformer
from dragoman.model.transformer import linear_maps
from dragoman.runs.train import freeze
from dragoman.training.low_rank import (
    SCALE,
    LowRank,
    LowRankLinear,
    adapt,
    all_weights,
    low_rank_maps,
    named_factors,
)
from dragoman.training.optimizer import build_optimizer, load_moments, moments
from tests.model.variants import build
from tests.training.runs import Runs, small_model

RATE, RANK = 0.01, 3


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def adapted_model(rank: int) -> Transformer:
    """A small model whose matrices learn by low-rank changes."""
    model = small_model()
    freeze(model, FinetuneConfig(model="base", lora=rank))
    return model


class Adapted(nn.Module):
    """The layer as the paper has it: a frozen matrix, and two thin ones beside it."""

    def __init__(self, layer: nn.Linear, *, seed: int):
        super().__init__()
        factors = LowRankLinear(layer, rank=RANK, seed=seed).factors
        self.layer = layer.requires_grad_(False)
        self.up, self.down = (nn.Parameter(factor.detach().clone()) for factor in factors)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + SCALE * (x @ self.down.mT) @ self.up.mT


def test_the_steps_are_those_of_adam_on_the_two_thin_matrices() -> None:
    torch.manual_seed(3)
    layers = [nn.Linear(7, 11), nn.Linear(11, 5)]
    twins = [nn.Linear(7, 11), nn.Linear(11, 5)]
    for twin, layer in zip(twins, layers, strict=True):
        twin.load_state_dict(layer.state_dict())
    ours, theirs = nn.Sequential(*layers), nn.Sequential(*(Adapted(twin, seed=i) for i, twin in enumerate(twins)))
    adapt(ours, rank=RANK)
    optimizer = LowRank(low_rank_maps(ours), betas=(0.9, 0.98), eps=1e-9)
    optimizer.param_groups[0]["lr"] = RATE
    reference = torch.optim.Adam(
        [p for p in theirs.parameters() if p.requires_grad], lr=RATE, betas=(0.9, 0.98), eps=1e-9
    )
    for _ in range(5):
        x, wanted = torch.randn(4, 7), torch.randn(4, 5)
        for model, steps in ((ours, optimizer), (theirs, reference)):
            steps.zero_grad()
            (model(x) - wanted).square().sum().backward()
            steps.step()
    assert not torch.equal(layers[0].weight, twins[0].weight)
    for layer, adapted in zip(layers, theirs, strict=True):
        change = SCALE * adapted.up @ adapted.down
        torch.testing.assert_close(layer.weight, adapted.layer.weight + change, atol=2e-6, rtol=1e-5)
        assert torch.linalg.matrix_rank(layer.weight.detach() - adapted.layer.weight, atol=1e-5) <= RANK
    x = torch.randn(2, 7)
    torch.testing.assert_close(ours(x), theirs(x), atol=2e-6, rtol=1e-5)


def test_only_matrices_are_learned_and_embeddings_of_a_new_vocabulary() -> None:
    model = build()
    names = [name for name, _ in model.named_parameters()]
    freeze(model, FinetuneConfig(model="base", lora=2))
    assert len(low_rank_maps(model)) == len(linear_maps(model)) > 0
    assert not any(p.requires_grad for p in model.parameters())
    assert [name for name, _ in model.named_parameters()] == names
    assert type(build_optimizer(model, TrainingConfig())).__name__ == "LowRank"
    model = build()
    freeze(model, FinetuneConfig(model="base", lora=2, vocabulary="new"))
    learned = {name for name, p in model.named_parameters() if p.requires_grad}
    assert learned
    assert all(".embedding." in name or name.startswith("projection") for name in learned)
    assert type(build_optimizer(model, TrainingConfig())).__name__ == "CombinedOptimizer"
    model = build()
    freeze(model, FinetuneConfig(model="base", lora=2, freeze=["encoder"]))
    assert not low_rank_maps(model.encoder)
    assert len(low_rank_maps(model.decoder)) == len(linear_maps(model.decoder))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_are_those_of_the_matrix_times_the_other_factor(dtype: torch.dtype) -> None:
    torch.manual_seed(5)
    plain = nn.Linear(12, 8)
    x, wanted = torch.randn(3, 5, 12), torch.randn(3, 5, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        (plain(x) * wanted).sum().backward()
    whole = plain.weight.grad
    assert whole is not None
    low_rank = LowRankLinear(plain, rank=RANK, seed=7)
    nn.init.normal_(low_rank.up)
    plain.weight.grad = None
    inputs = x.clone().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        result = low_rank(inputs)
        (result * wanted).sum().backward()
    assert result.dtype == dtype
    assert low_rank.weight.grad is None
    tolerance = {"atol": 1e-5, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 0.2, "rtol": 0.03}
    torch.testing.assert_close(low_rank.up.grad, SCALE * whole @ low_rank.down.mT, **tolerance)
    torch.testing.assert_close(low_rank.down.grad, SCALE * low_rank.up.mT @ whole, **tolerance)
    torch.testing.assert_close(inputs.grad, wanted @ low_rank.weight, **tolerance)


def test_a_step_computes_no_gradient_as_large_as_a_matrix(runs: Runs) -> None:
    trainer, _ = runs.trainer("thin", model=adapted_model(1), max_steps=1, precision="float32")
    sizes = []
    for weight in all_weights(trainer.model):
        if weight.requires_grad:
            weight.register_post_accumulate_grad_hook(lambda weight: sizes.append(weight.numel()))
    trainer.train_step()
    matrices = sum(low_rank.weight.numel() for low_rank in low_rank_maps(trainer.model))
    assert all(weight.grad is None for weight in all_weights(trainer.model))
    learned = sum(weight.numel() for weight in all_weights(trainer.model) if weight.requires_grad)
    assert 0 < learned < matrices / 2
    assert sum(sizes) == learned


def test_moments_are_small_and_tell_lora_from_others() -> None:
    model = build()
    freeze(model, FinetuneConfig(model="base", lora=1))
    optimizer = build_optimizer(model, TrainingConfig())
    for weight in all_weights(model):
        weight.grad = torch.ones_like(weight) if weight.requires_grad else None
    optimizer.step()
    stored = moments(optimizer)
    of_adam = 2 * sum(p.numel() for p in model.parameters())
    assert sum(tensor.numel() for tensor in stored.values()) < of_adam / 2
    load_moments(optimizer, stored, name="lora")
    with pytest.raises(UsageError, match=r"does not fit training\.optimizer=muon"):
        load_moments(build_optimizer(build(), TrainingConfig()), stored, name="muon")


def test_a_resumed_run_has_the_same_weights(runs: Runs) -> None:
    def trained(name: str, steps: int, *, goes_on: bool = False) -> Any:
        make = runs.resumed if goes_on else runs.trainer
        trainer, _ = make(name, model=adapted_model(2), max_steps=steps, validate_every=3)
        trainer.train()
        return dict(trainer.model.named_parameters()) | dict(named_factors(trainer.model))

    whole = trained("whole", 6)
    trained("parts", 3)
    parts = trained("parts", 6, goes_on=True)
    for name, weight in whole.items():
        assert torch.equal(weight, parts[name]), name


def test_a_run_that_goes_back_to_its_start_takes_its_changes_back(runs: Runs) -> None:
    trainer, _ = runs.trainer(model=adapted_model(2), max_steps=3, validate_every=100)
    first = {
        name: weight.detach().clone()
        for name, weight in (*trainer.model.named_parameters(), *named_factors(trainer.model))
    }
    for _ in range(3):
        trainer.train_step()
    assert any(not torch.equal(weight, first[name]) for name, weight in trainer.model.named_parameters())
    trainer._roll_back()
    for name, weight in (*trainer.model.named_parameters(), *named_factors(trainer.model)):
        assert torch.equal(weight, first[name]), name


def test_a_checkpoint_of_another_rank_is_refused(runs: Runs) -> None:
    trainer, _ = runs.trainer(model=adapted_model(2), max_steps=2)
    trainer.train()
    with pytest.raises(UsageError, match=r"another finetune\.lora; resume it with that"):
        runs.resumed(model=adapted_model(3), max_steps=4)


def test_lora_needs_a_model_and_whole_matrices() -> None:
    with pytest.raises(UsageError, match=r"set finetune\.model as well"):
        RunConfig.validate({"finetune": {"lora": 4}})
    with pytest.raises(UsageError, match="leave out one of the two"):
        RunConfig.validate({"finetune": {"lora": 4, "model": "base"}, "training": {"parallel": "fsdp"}})
