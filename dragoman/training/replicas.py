"""Copies of a model that learn side by side: one for each core, from its share of the rows of a batch.

Threads that share the small products of one pass mostly wait for each other. Copies do not: each has a gradient of its
own, and all have the same weights, those of the model itself or, for the matrices of the layers, one rounded copy.
"""

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import torch
from torch import Tensor

from dragoman.data.batching import Batch
from dragoman.model import Transformer
from dragoman.model.dropout import Dropout
from dragoman.model.layers import Embedding
from dragoman.model.transformer import linear_maps

Found = TypeVar("Found")

SHARE = 1024
"""Target tokens that keep one copy busy: smaller products cost more each."""


class Replicas:
    """Copies of a model on a CPU, which compute in `precision`; elsewhere the model itself, under autocast.

    In half precision the matrices of the layers and all states are rounded, while embeddings, norms, probabilities and
    sums over tokens stay in float32.
    """

    def __init__(self, model: Transformer, precision: torch.dtype, *, max_tokens: int):
        """`max_tokens` are the target tokens of a batch, from which follows how many copies are worth their memory."""
        self.model, self.precision = model, precision
        self.device = next(model.parameters()).device
        self.threads = torch.get_num_threads()
        on_cpu = self.device.type == "cpu"
        self.autocast = not on_cpu and precision != torch.float32
        maps = linear_maps(model) if on_cpu and precision != torch.float32 else []
        inside = {id(weight) for each in maps for weight in each.parameters()}
        self._rounded = {n: w.detach().to(precision) for n, w in model.named_parameters() if id(w) in inside}
        self.generators = [torch.Generator() for _ in range(_count(self.threads, max_tokens) if on_cpu else 0)]
        self.models = [self._copy(generator) for generator in self.generators] or [model]
        self._others = ThreadPoolExecutor(len(self.models)) if len(self.models) > 1 else None
        self._renew()

    def seed(self, number: int) -> None:
        """Make the dropout of all copies a function of `number`, and that of each another one."""
        torch.manual_seed(number)
        for place, generator in enumerate(self.generators):
            generator.manual_seed((number * 1_000_003 + place) % 2**63)

    def map(self, compute: Callable[[Transformer, Batch], Found], batch: Batch) -> list[Found]:
        """What `compute` finds with each copy, at the same time, in its share of the rows."""
        self._renew()
        parts = [
            Batch(*(ids[place :: len(self.models)] for ids in (batch.source_ids, batch.target_ids, batch.labels)))
            for place in range(min(len(self.models), len(batch.labels)))
        ]
        if len(self.models) == 1:
            return [self._compute(compute, self.models[0], parts[0])]
        grad_enabled = torch.is_grad_enabled()
        threads = self.threads // len(self.models)

        def work(model: Transformer, part: Batch) -> Found:
            torch.set_num_threads(threads)  # of this thread; and of a library that knows one number for all
            with torch.set_grad_enabled(grad_enabled):
                return self._compute(compute, model, part)

        torch.set_num_threads(threads)
        futures = [self._others.submit(work, *each) for each in zip(self.models[1:], parts[1:], strict=False)]
        try:
            found = [work(self.models[0], parts[0])]
        finally:
            wait(futures)
            torch.set_num_threads(self.threads)
        return found + [future.result() for future in futures]

    def collect_gradients(self) -> None:
        """Add the gradients of the copies, which forget them, to those of the model."""
        if self.models == [self.model]:
            return
        for weight, *copies in zip(self.model.parameters(), *(m.parameters() for m in self.models), strict=True):
            gradients = [weight.grad, *(each.grad for each in copies)]
            weight.grad = _sum([each for each in gradients if each is not None], weight.dtype)
            for each in copies:
                each.grad = None

    def forget_gradients(self) -> None:
        """Of the copies and of the model."""
        for model in (self.model, *self.models):
            model.zero_grad(set_to_none=True)

    def _compute(self, compute: Callable[[Transformer, Batch], Found], model: Transformer, part: Batch) -> Found:
        model.train(self.model.training)
        with torch.autocast(self.device.type, dtype=self.precision, enabled=self.autocast):
            return compute(model, part)

    @torch.no_grad()
    def _renew(self) -> None:
        """Give the copies the weights that the model has now."""
        weights = dict(self.model.named_parameters())
        for name, rounded in self._rounded.items():
            rounded.copy_(weights[name])
        for each in self.models if self.models != [self.model] else ():
            for name, weight in each.named_parameters():
                weight.data = self._rounded.get(name, weights[name].data)

    def _copy(self, generator: torch.Generator) -> Transformer:
        twin = copy.deepcopy(self.model)
        for module in twin.modules():
            if isinstance(module, Dropout):
                module.generator = generator
            if isinstance(module, Embedding):
                module.register_forward_hook(lambda module, ids, states: states.to(self.precision))
        return twin


def _count(threads: int, max_tokens: int) -> int:
    return max(1, min(threads, max_tokens // SHARE))


def _sum(gradients: list[Tensor], dtype: torch.dtype) -> Tensor | None:
    if not gradients:
        return None
    total = gradients[0].to(dtype)
    for each in gradients[1:]:
        total += each
    return total
