"""Copies of a model that learn side by side: one for each core, from its share of the rows of a batch.

Threads that share the small products of one pass mostly wait for each other, and with a pass each they still wait for
Python's lock. Copies in processes of their own do not: they read the same weights from memory that all share, and leave
their gradients there.
"""

import copy
import mmap
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from dragoman.data.batching import Batch
from dragoman.model import Transformer
from dragoman.model.kernels import Dropout
from dragoman.model.layers import Embedding
from dragoman.model.transformer import linear_maps
from dragoman.system.processes import WorkerError, Workers, available_workers

Found = TypeVar("Found")

Share = list[np.ndarray]
"""Source ids, target ids and labels of some rows of a batch."""

SHARE = 1024
"""Target tokens that keep one copy busy: smaller products cost more each."""


class Order(NamedTuple):
    """What a copy shall do with its share."""

    compute: Callable[[Transformer, Batch], Any]
    seed: int | None
    training: bool
    with_gradient: bool


class Replicas:
    """Copies of a model on a CPU, which compute in `precision`; the model itself on a GPU, under autocast, or alone.

    In half precision the matrices of the layers and all states are rounded, while embeddings, norms, probabilities and
    sums over tokens stay in float32.
    """

    def __init__(
        self,
        model: Transformer,
        precision: torch.dtype,
        *,
        max_tokens: int,
        warn: Callable[[str], None] = lambda _: None,
    ):
        """`max_tokens` are the target tokens of a batch, from which follows how many copies are worth their memory."""
        self.model, self.precision, self.warn = model, precision, warn
        self.device, self.threads = next(model.parameters()).device, torch.get_num_threads()
        on_cpu, half = self.device.type == "cpu", precision != torch.float32
        count = max(1, min(self.threads, max_tokens // SHARE)) if on_cpu else 1
        self.weights: list[Tensor] = []
        """What all copies read."""
        self.copies: list[Replica] = []
        if on_cpu and (half or count > 1):
            inside = {id(weight) for each in linear_maps(model) for weight in each.parameters()}
            dtypes = [precision if id(weight) in inside else weight.dtype for weight in model.parameters()]
            self.weights = [_shared(*each) for each in zip(model.parameters(), dtypes, strict=True)]
            self.copies = [Replica(self, place, threads=self.threads // count) for place in range(count)]
        self._others: Workers | None = None
        if count > 1:
            # Neither several threads of a copy survive a fork nor those of autograd that a GPU has.
            forks = available_workers() > 1 and self.threads // count == 1 and not torch.cuda.is_available()
            remedy = "the run goes on in one process, more slowly"
            self._others = Workers(self._follow, count - 1, remedy=remedy, threads=not forks)
            self._others.start()

    def map(
        self, compute: Callable[[Transformer, Batch], Found], batch: Batch, *, seed: int | None = None
    ) -> list[Found]:
        """What `compute` finds with each copy, at the same time, in its share of the rows.

        Gradients that it leaves are added to those of the model. Dropout follows from `seed`, and is another in each
        copy. Where there are several, `compute` and what it finds are pickled on their way.
        """
        if not self.copies:
            if seed is not None:
                torch.manual_seed(seed)
            with torch.autocast(self.device.type, dtype=self.precision, enabled=self.precision != torch.float32):
                return [compute(self.model, batch)]
        self._renew()
        order = Order(compute, seed, self.model.training, torch.is_grad_enabled())
        # Arrays go through a pipe; tensors would go through files.
        ids = [each.numpy() for each in (batch.source_ids, batch.target_ids, batch.labels)]
        shares = [[each[place :: len(self.copies)] for each in ids] for place in range(len(self.copies))]
        shares = shares[: len(batch.labels)]
        try:
            found = self._all(shares, order)
        except WorkerError as error:
            self.close()  # now nobody else writes a gradient
            self._others = None
            self.warn(str(error))
            found = self._all(shares, order)
        finally:
            torch.set_num_threads(self.threads)
        self._add_gradients(len(shares))
        return found

    def close(self) -> None:
        """End the processes of the copies."""
        if self._others is not None:
            self._others.close()

    def _all(self, shares: list[Share], order: Order) -> list[Any]:
        """What each copy finds in its share; returns or raises when all have ended."""
        if self._others is None:
            return [self._follow(place, share, order) for place, share in enumerate(shares)]
        futures: list[Future] = []
        try:
            futures += [self._others.submit(place, share, order) for place, share in enumerate(shares) if place]
            found = [self._follow(0, shares[0], order)]
        finally:
            wait(futures)
        return found + [self._others.result(future) for future in futures]

    def _follow(self, place: int, share: Share, order: Order) -> Any:
        return self.copies[place].follow(share, order)

    @torch.no_grad()
    def _renew(self) -> None:
        """Give the copies the weights that the model has now."""
        for shared, weight in zip(self.weights, self.model.parameters(), strict=True):
            shared.copy_(weight)

    def _add_gradients(self, count: int) -> None:
        """Those of the first copies to those of the model."""
        first, *others = self.copies[:count]
        left = [each.gradients for each in others]
        for weight, own, *theirs in zip(self.model.parameters(), first.model.parameters(), *left, strict=True):
            if own.grad is not None:
                gradients = [own.grad, *theirs] if weight.grad is None else [weight.grad, own.grad, *theirs]
                weight.grad, own.grad = _sum(gradients, weight.dtype), None


class Replica:
    """One of the copies: the first in this process, every other in one of its own."""

    def __init__(self, whole: Replicas, place: int, *, threads: int):
        self.place, self.threads = place, threads
        self.generator = torch.Generator()
        self.model = copy.deepcopy(whole.model)
        for own, shared in zip(self.model.parameters(), whole.weights, strict=True):
            own.data = shared
        self.gradients = [_shared(weight) for weight in whole.weights] if place else []
        for module in self.model.modules():
            if isinstance(module, Dropout):
                module.generator = self.generator
            if isinstance(module, Embedding):
                module.register_forward_hook(lambda module, ids, states: states.to(whole.precision))

    def follow(self, share: Share, order: Order) -> Any:
        """What the copy finds in its share of a batch; another's gradients are left in the memory that all share."""
        torch.set_num_threads(self.threads)  # of this thread; and of a library that knows one number for all
        if order.seed is not None:
            for seed in (torch.manual_seed, self.generator.manual_seed):  # fused attention on a GPU has the first
                seed((order.seed * 1_000_003 + self.place) % 2**63)
        self.model.train(order.training).zero_grad(set_to_none=True)
        if order.with_gradient:
            for own, gradient in zip(self.model.parameters(), self.gradients, strict=False):  # the first has none
                own.grad = gradient.zero_()
        with torch.set_grad_enabled(order.with_gradient):
            return order.compute(self.model, Batch(*map(torch.from_numpy, share)))


def _shared(weight: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Zeros for each element of a weight, in memory that stays the same one after a fork."""
    dtype = dtype or weight.dtype
    memory = mmap.mmap(-1, weight.numel() * dtype.itemsize)
    return torch.frombuffer(memory, dtype=dtype, count=weight.numel()).view(weight.shape)


def _sum(gradients: list[Tensor], dtype: torch.dtype) -> Tensor:
    total = gradients[0].to(dtype)
    for each in gradients[1:]:
        total += each
    return total
