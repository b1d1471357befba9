"""Executors for several ranks: each rank computes the gradient of its rows of a batch, and all get the sum.

A batch has the same pairs whatever the number of ranks. So losses, weights and the order of the pairs are those of a
single process, up to rounding and dropout.
"""

import math
from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor, nn

from dragoman.config.training import TrainingConfig
from dragoman.data.batching import Batch
from dragoman.model import Transformer
from dragoman.model.loss import LossOptions
from dragoman.system.ranks import Ranks, unsharded
from dragoman.training.executors import Executor, GradientSum, build_executor
from dragoman.training.loss import batch_loss
from dragoman.training.low_rank import all_weights


def build_parallel_executor(
    model: Transformer,
    precision: torch.dtype,
    options: LossOptions,
    *,
    config: TrainingConfig,
    ranks: Ranks,
    warn: Callable[[str], None],
) -> "Executor | ReplicatedExecutor":
    """The executor for this many ranks; with several, `config.parallel` chooses its kind."""
    if ranks.size > 1 and config.parallel == "fsdp":
        return ShardedExecutor(model, precision, options, ranks)
    executor = build_executor(model, precision, options, max_tokens=config.max_tokens // ranks.size, warn=warn)
    return ReplicatedExecutor(executor, ranks) if ranks.size > 1 else executor


class ReplicatedExecutor:
    """Computes on a replica of the model on each rank, with an executor of its own (DDP).

    Gradients are added up once a step, after the backward passes and not during them: a rank that runs out of memory
    can then halve its batches while the others wait.
    """

    def __init__(self, local: Executor, ranks: Ranks):
        self.local, self.ranks = local, ranks
        self.close = local.close
        self.weights = [weight for weight in all_weights(local.model) if weight.requires_grad]

    @property
    def too_large(self) -> int | None:
        """As `Executor.too_large`; after a step the smallest one of all ranks."""
        return self.local.too_large

    @too_large.setter
    def too_large(self, tokens: int | None) -> None:
        self.local.too_large = tokens

    def use_r_drop(self, weight: float) -> None:
        """As `Executor.use_r_drop`."""
        self.local.use_r_drop(weight)

    def whole(self) -> Executor:
        """An executor on the whole model, which this rank can use alone."""
        return self.local

    def backward(self, batches: list[Batch], *, seed: Callable[[int], int]) -> GradientSum:
        """As `Executor.backward`, with the batches of this rank; gradient, loss and counts are those of all ranks."""
        ranks = self.ranks
        local = self.local.backward(batches, seed=lambda i: seed(i * ranks.size + ranks.index))
        too_large = math.inf if self.too_large is None else self.too_large
        gathered = ranks.gather([local.loss, local.target_tokens, local.source_tokens, local.left_out, too_large])
        losses, target_tokens, source_tokens, left_out, too_large_sizes = zip(*gathered, strict=True)
        smallest = min(too_large_sizes)
        self.too_large = None if smallest == math.inf else int(smallest)
        # A local gradient is that of the mean over the tokens of its rank.
        share = local.target_tokens / max(1, sum(target_tokens))
        for weight in self.weights:
            weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad.mul_(share)
        ranks.add([weight.grad for weight in self.weights if weight.grad is not None])
        return GradientSum(sum(losses), int(sum(target_tokens)), int(sum(source_tokens)), int(sum(left_out)))


class ShardedExecutor(Executor):
    """Computes with a part of every weight on each rank; those of a layer are gathered while it computes (FSDP2).

    A batch that does not fit in memory is an error, because the other ranks wait in the midst of a layer.
    """

    def __init__(self, model: Transformer, precision: torch.dtype, options: LossOptions, ranks: Ranks):
        from torch.distributed.device_mesh import init_device_mesh  # these take a second to import
        from torch.distributed.fsdp import fully_shard

        super().__init__(model, precision, options)
        self.ranks, self.unsharded = ranks, deepcopy(model)
        mesh = init_device_mesh("cuda" if self.device.type == "cuda" else "cpu", (ranks.size,))
        for layer in (*model.encoder.layers, *model.decoder.layers):
            fully_shard(layer, mesh=mesh)
        self.step_loss = BatchLoss(model, options)
        fully_shard(self.step_loss, mesh=mesh, reshard_after_forward=False)

    def use_r_drop(self, weight: float) -> None:
        super().use_r_drop(weight)
        self.step_loss.options = self.options

    def whole(self) -> Executor:
        """An executor on a copy of the whole model, which this rank can use alone; every rank has to call this."""
        with torch.no_grad():
            for weight, sharded in zip(self.unsharded.parameters(), self.model.parameters(), strict=True):
                weight.copy_(unsharded(sharded))
        return Executor(self.unsharded, self.precision, self.options)

    def backward(self, batches: list[Batch], *, seed: Callable[[int], int]) -> GradientSum:
        """As `ReplicatedExecutor.backward`."""
        local_target_tokens = sum(self.count(batch.labels) for batch in batches)
        local_source_tokens = sum(self.count(batch.source_ids) for batch in batches)
        gathered = self.ranks.gather([local_target_tokens, local_source_tokens])
        target_tokens, source_tokens = (int(sum(counts)) for counts in zip(*gathered, strict=True))
        local_loss = 0.0
        for index, batch in enumerate(batches):
            torch.manual_seed(seed(index * self.ranks.size + self.ranks.index))
            with torch.autocast(self.device.type, dtype=self.precision, enabled=self.precision != torch.float32):
                loss = self.step_loss(batch.to(self.device))
            (loss * self.ranks.size / max(1, target_tokens)).backward()  # FSDP takes the mean over the ranks
            local_loss += loss.item()
        loss_sum = sum(loss for (loss,) in self.ranks.gather([local_loss]))
        return GradientSum(loss_sum, target_tokens, source_tokens, left_out=0)


class BatchLoss(nn.Module):
    """`batch_loss` as a module, because FSDP gathers the weights of a module when that is called."""

    def __init__(self, model: Transformer, options: LossOptions):
        super().__init__()
        self.model, self.options = model, options

    def forward(self, batch: Batch) -> Tensor:
        return batch_loss(self.model, batch, self.options)[0]
