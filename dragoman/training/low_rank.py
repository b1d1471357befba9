"""LoRA: only a low-rank change of each matrix is learned (Hu et al. 2021, "LoRA", arXiv 2106.09685).

A matrix W (out x in) becomes W + scale * up @ down, with up (out x rank) and down (rank x in). Inputs x (tokens x in)
whose outputs have the gradient g (tokens x out) give

    gradient of up   = scale * g^T (x down^T)
    gradient of down = scale * (g up)^T x

so neither the gradient of W, g^T x, nor moments of its size are ever computed. The matrix has its change in it at all
times: whoever reads, stores or runs the model sees an ordinary one.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from dragoman.errors import UsageError
from dragoman.model.transformer import linear_maps

SCALE = 2.0
"""Factor of the change (alpha / rank in the paper)."""


class LowRankLinear(nn.Linear):
    """A linear map whose matrix is frozen, but for a low-rank change.

    At the beginning `up` is 0, so that nothing is changed, and `down` random, but always the same for a `seed`. The two
    are no parameters of the module, because the matrix has their product in it; `all_weights` has them.
    """

    def __init__(self, linear: nn.Linear, *, rank: int, seed: int):
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight.requires_grad_(False), linear.bias
        rows, columns = linear.weight.shape
        rank = min(rank, rows, columns)
        generator = torch.Generator().manual_seed(seed)
        down = torch.empty(rank, columns).uniform_(-1, 1, generator=generator).div_(math.sqrt(columns))
        up = torch.zeros(rows, rank)
        self.factors = [nn.Parameter(factor.to(linear.weight)) for factor in (up, down)]

    @property
    def up(self) -> nn.Parameter:
        return self.factors[0]

    @property
    def down(self) -> nn.Parameter:
        return self.factors[1]

    def forward(self, x: Tensor) -> Tensor:
        return _Product.apply(x, self.weight, self.bias, self.up, self.down)

    def _apply(self, function: Callable[[Tensor], Tensor], recurse: bool = True) -> "LowRankLinear":
        """Moves the factors as well when the module is moved to another device."""
        super()._apply(function, recurse)
        self.factors = [nn.Parameter(function(factor.detach())) for factor in self.factors]
        return self


class _Product(torch.autograd.Function):
    """x W^T + b, where W and b are frozen and the gradient is that of the factors."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, up: Tensor, down: Tensor) -> Tensor:
        result = F.linear(x, weight, bias)
        ctx.save_for_backward(x.to(result.dtype), weight, up, down)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, None, Tensor, Tensor]:
        weight, up, down = (tensor.to(gradient.dtype) for tensor in ctx.saved_tensors[1:])
        x, g = ctx.saved_tensors[0].flatten(0, -2), gradient.flatten(0, -2)
        of_up = SCALE * (g.mT @ (x @ down.mT))
        of_down = SCALE * ((g @ up).mT @ x)
        of_x = gradient @ weight if ctx.needs_input_grad[0] else None
        return of_x, None, None, of_up, of_down


class LowRank(torch.optim.Optimizer):
    """Adam for the factors of low-rank changes; each step also renews the change in the matrix."""

    def __init__(self, maps: list[LowRankLinear], *, betas: tuple[float, float], eps: float):
        self.maps = maps
        factors = [factor for low_rank in maps for factor in low_rank.factors]
        super().__init__(factors, {"lr": 0.0, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        (group,) = self.param_groups
        for low_rank in self.maps:
            before = low_rank.up @ low_rank.down
            for factor in low_rank.factors:
                if factor.grad is not None:
                    self._adam(factor, factor.grad, group)
            low_rank.weight.add_(low_rank.up @ low_rank.down - before, alpha=SCALE)

    def _adam(self, factor: nn.Parameter, gradient: Tensor, group: dict) -> None:
        """One step of Adam for one of the factors."""
        state = self.state[factor]
        if not state:
            state |= {"step": torch.zeros(()), "mean": torch.zeros_like(factor), "square": torch.zeros_like(factor)}
        state["step"] += 1
        steps = float(state["step"])
        first, second = group["betas"]
        mean = state["mean"].lerp_(gradient, 1 - first)
        square = state["square"].lerp_(gradient.square(), 1 - second)
        size = (square / (1 - second**steps)).sqrt_().add_(group["eps"])
        factor.addcdiv_(mean / (1 - first**steps), size, value=-group["lr"])


def adapt(model: nn.Module, *, rank: int) -> None:
    """Learn only changes of this rank of the matrices inside the layers, but for those that are frozen."""
    learned = [linear for linear in linear_maps(model) if linear.weight.requires_grad]
    adapted = {linear: LowRankLinear(linear, rank=rank, seed=index) for index, linear in enumerate(learned)}
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.Linear) and child in adapted:
                setattr(parent, name, adapted[child])


def low_rank_maps(model: nn.Module) -> list[LowRankLinear]:
    """The linear maps of a model whose matrices learn by low-rank changes."""
    return [module for module in model.modules() if isinstance(module, LowRankLinear)]


def named_factors(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """The factors of all low-rank changes, with names such as "encoder.layers.0.feed_forward.inner.up"."""
    for name, module in model.named_modules():
        if isinstance(module, LowRankLinear):
            yield f"{name}.up", module.up
            yield f"{name}.down", module.down


@torch.no_grad()
def copy_factors(factors: Mapping[str, Tensor], model: nn.Module) -> None:
    """Copy the factors of a checkpoint into a model; raises `UsageError` if the model has others."""
    own = dict(named_factors(model))
    if {name: factor.shape for name, factor in factors.items()} != {name: factor.shape for name, factor in own.items()}:
        raise UsageError(
            "The checkpoint was written with another finetune.lora; resume it with that, or start a new run."
        )
    for name, factor in own.items():
        factor.copy_(factors[name])


def all_weights(model: nn.Module) -> list[nn.Parameter]:
    """The parameters of a model, and the factors of low-rank changes; those with `requires_grad` are learned."""
    return [*model.parameters(), *(factor for _, factor in named_factors(model))]
