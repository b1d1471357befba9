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
from dragoman.model.transformer import linear_maps
from dragoman.runs.train import freeze
from dragoman.training.low_rank import SCALE, LowRank, first_factors
from dragoman.training.optimizer import build_optimizer, load_moments, moments
from tests.model.variants import build
from tests.training.runs import Runs

RATE, RANK = 0.01, 3


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


class Adapted(nn.Module):
    """The layer as the paper has it: a frozen matrix, and two thin ones beside it."""

    def __init__(self, layer: nn.Linear, *, seed: int):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        factors = first_factors(layer.weight, RANK, seed=seed)
        self.up, self.down = nn.Parameter(factors["up"]), nn.Parameter(factors["down"])

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + SCALE * (x @ self.down.mT) @ self.up.mT


def test_the_steps_are_those_of_adam_on_the_two_thin_matrices() -> None:
    torch.manual_seed(3)
    layers = [nn.Linear(7, 11), nn.Linear(11, 5)]
    twins = [nn.Linear(7, 11), nn.Linear(11, 5)]
    for twin, layer in zip(twins, layers, strict=True):
        twin.load_state_dict(layer.state_dict())
    ours, theirs = nn.Sequential(*layers), nn.Sequential(*(Adapted(twin, seed=i) for i, twin in enumerate(twins)))
    matrices = [layer.weight for layer in layers]
    optimizer = LowRank(matrices, rank=RANK, betas=(0.9, 0.98), eps=1e-9)
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
    freeze(model, FinetuneConfig(model="base", lora=2))
    matrices = {id(linear.weight) for linear in linear_maps(model)}
    assert {id(p) for p in model.parameters() if p.requires_grad} == matrices
    assert type(build_optimizer(model, TrainingConfig(), lora=2)).__name__ == "LowRank"
    freeze(model, FinetuneConfig(model="base", lora=2, vocabulary="new"))
    learned = {name for name, p in model.named_parameters() if p.requires_grad and id(p) not in matrices}
    assert learned
    assert all(".embedding." in name or name.startswith("projection") for name in learned)
    assert type(build_optimizer(model, TrainingConfig(), lora=2)).__name__ == "CombinedOptimizer"
    freeze(model, FinetuneConfig(model="base", lora=2, freeze=["encoder"]))
    assert not any(p.requires_grad for p in model.encoder.parameters())


def test_moments_are_small_and_tell_lora_from_others() -> None:
    model = build()
    freeze(model, FinetuneConfig(model="base", lora=1))
    optimizer = build_optimizer(model, TrainingConfig(), lora=1)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
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
        trainer, _ = make(name, lora=2, max_steps=steps, validate_every=3)
        trainer.train()
        return dict(trainer.model.named_parameters())

    whole = trained("whole", 6)
    trained("parts", 3)
    parts = trained("parts", 6, goes_on=True)
    for name, weight in whole.items():
        assert torch.equal(weight, parts[name]), name


def test_lora_needs_a_model_and_whole_matrices() -> None:
    with pytest.raises(UsageError, match=r"set finetune\.model as well"):
        RunConfig.validate({"finetune": {"lora": 4}})
    with pytest.raises(UsageError, match="leave out one of the two"):
        RunConfig.validate({"finetune": {"lora": 4, "model": "base"}, "training": {"parallel": "fsdp"}})
