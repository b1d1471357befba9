"""The gradient of a step on several ranks: each computes the rows that are its own, and all get the sum.

A batch is that of the whole step, whatever the number of ranks. So losses, weights and the order of the pairs are those
of a single process, up to rounding and dropout.
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
from dragoman.system.ranks import Ranks, whole
from dragoman.training.executors import Executor, GradientSum, build_executor
from dragoman.training.loss import batch_loss


def build_parallel_executor(
    model: Transformer,
    precision: torch.dtype,
    options: LossOptions,
    *,
    config: TrainingConfig,
    ranks: Ranks,
    warn: Callable[[str], None],
) -> "Executor | ReplicatedExecutor":
    """The executor for this many ranks, as `config.parallel` says where there are several."""
    if ranks.size > 1 and config.parallel == "fsdp":
        return ShardedExecutor(model, precision, options, ranks)
    own = build_executor(model, precision, options, max_tokens=config.max_tokens // ranks.size, warn=warn)
    return ReplicatedExecutor(own, ranks) if ranks.size > 1 else own


class ReplicatedExecutor:
    """A replica of the model on each rank, with an executor of its own (DDP).

    Gradients are added up once a step, after the backward passes and not during them: a rank that runs out of memory
    can then halve its batches while the others wait.
    """

    def __init__(self, own: Executor, ranks: Ranks):
        self.own, self.ranks = own, ranks
        self.close = own.close
        self.weights = [each for each in own.model.parameters() if each.requires_grad]

    @property
    def too_large(self) -> int | None:
        """As of `Executor`; after a step the smallest one of all ranks."""
        return self.own.too_large

    @too_large.setter
    def too_large(self, tokens: int | None) -> None:
        self.own.too_large = tokens

    def whole(self) -> Executor:
        """An executor on the whole model, which this rank can use alone."""
        return self.own

    def backward(self, batches: list[Batch], *, seed: Callable[[int], int]) -> GradientSum:
        """As `Executor.backward`, with the batches of this rank; gradient, loss and counts are those of all ranks."""
        ranks = self.ranks
        found = self.own.backward(batches, seed=lambda i: seed(i * ranks.size + ranks.index))
        counts = found.loss, found.target_tokens, found.source_tokens, found.left_out, self.too_large or math.inf
        losses, targets, sources, left_out, too_large = zip(*ranks.gather(counts), strict=True)
        self.too_large = None if min(too_large) == math.inf else int(min(too_large))
        share = found.target_tokens / max(1, sum(targets))
        for weight in self.weights:
            weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad.mul_(share)
        ranks.add([weight.grad for weight in self.weights if weight.grad is not None])
        return GradientSum(sum(losses), int(sum(targets)), int(sum(sources)), int(sum(left_out)))


class ShardedExecutor(Executor):
    """A part of every weight on each rank; those of a layer are gathered while it computes (FSDP2).

    A batch that does not fit in memory is an error: the other ranks wait in the midst of a layer.
    """

    def __init__(self, model: Transformer, precision: torch.dtype, options: LossOptions, ranks: Ranks):
        from torch.distributed.device_mesh import init_device_mesh  # these take a second to import
        from torch.distributed.fsdp import fully_shard

        super().__init__(model, precision, options)
        self.ranks, self.plain = ranks, deepcopy(model)
        mesh = init_device_mesh("cuda" if self.device.type == "cuda" else "cpu", (ranks.size,))
        for layer in (*model.encoder.layers, *model.decoder.layers):
            fully_shard(layer, mesh=mesh)
        self.step_loss = BatchLoss(model, options)
        fully_shard(self.step_loss, mesh=mesh, reshard_after_forward=False)

    def whole(self) -> Executor:
        """An executor on a copy of the whole model, which this rank can use alone; every rank has to ask for it."""
        with torch.no_grad():
            for own, sharded in zip(self.plain.parameters(), self.model.parameters(), strict=True):
                own.copy_(whole(sharded))
        return Executor(self.plain, self.precision, self.options)

    def backward(self, batches: list[Batch], *, seed: Callable[[int], int]) -> GradientSum:
        """As `ReplicatedExecutor.backward`."""
        counts = [sum(map(self.count, ids)) for ids in ((b.labels for b in batches), (b.source_ids for b in batches))]
        targets, sources = (int(sum(each)) for each in zip(*self.ranks.gather(counts), strict=True))
        own = 0.0
        for index, batch in enumerate(batches):
            torch.manual_seed(seed(index * self.ranks.size + self.ranks.index))
            with torch.autocast(self.device.type, dtype=self.precision, enabled=self.precision != torch.float32):
                loss = self.step_loss(batch.to(self.device))
            (loss * self.ranks.size / max(1, targets)).backward()  # FSDP takes the mean over the ranks
            own += loss.item()
        return GradientSum(sum(each for (each,) in self.ranks.gather([own])), targets, sources, 0)


class BatchLoss(nn.Module):
    """`batch_loss` as a module, since FSDP gathers the weights of a module when that is called."""

    def __init__(self, model: Transformer, options: LossOptions):
        super().__init__()
        self.model, self.options = model, options

    def forward(self, batch: Batch) -> Tensor:
        return batch_loss(self.model, batch, self.options)[0]
