"""Executors compute the gradient of a step: on the model itself, or on copies of it, one for each core.

`build_executor` is where precision and parallelism are applied to a model. A batch that does not fit in memory is
halved, and halved again; a pair that does not fit alone is left out. Copies are processes: threads that share the small
products of one pass mostly wait for each other, and with a pass each they still wait for Python's lock.

From a step to its loss: `backward` sums over batches, `loss` over copies, `run` passes a batch to them, and each calls
`loss_and_backward`.
"""

import mmap
import re
from collections.abc import Callable
from concurrent.futures import Future, wait
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dragoman.data.batching import Batch
from dragoman.model import Transformer
from dragoman.model.dropout import Dropout
from dragoman.model.layers import Embedding
from dragoman.model.loss import LossOptions
from dragoman.model.transformer import linear_maps
from dragoman.system.processes import WorkerError, Workers, available_workers
from dragoman.training.loss import loss_and_backward
from dragoman.training.low_rank import all_weights

Compute = Callable[[Transformer, Batch], Any]
Arrays = list[np.ndarray]
"""Some rows of `Batch.tensors`."""

TOKENS_PER_COPY = 1024
"""Target tokens that keep one copy busy: with fewer, products are small and cost more for each token."""
# Messages of a GPU, of cuBLAS, of the CPU, and of oneDNN without room for a compiled kernel. (For an operation that it
# does not know, oneDNN says "could not create a primitive descriptor".)
OUT_OF_MEMORY = re.compile(
    "out of memory|CUBLAS_STATUS_ALLOC_FAILED|can't allocate memory|could not create a (primitive|memory object)$"
)


class Task(NamedTuple):
    """A computation for the copies."""

    compute: Compute
    seed: int | None
    """Seed of dropout; None: its generators go on."""
    is_training: bool
    with_gradient: bool


@dataclass(frozen=True)
class GradientSum:
    """The loss of a step whose gradient is now in the weights, and the tokens that both cover."""

    loss: float
    """Sum over the target tokens, in nats."""
    target_tokens: int
    source_tokens: int
    left_out: int
    """Pairs that did not fit in memory alone."""


def build_executor(
    model: Transformer,
    precision: torch.dtype,
    options: LossOptions,
    *,
    max_tokens: int,
    warn: Callable[[str], None] = lambda _: None,
) -> "Executor":
    """The executor for the model's device: copies on a CPU where they pay, else the model itself.

    `max_tokens` are the target tokens of a batch, which decide how many copies are worth their memory. `warn` is called
    if copies have to go on in one process.
    """
    is_on_cpu = next(model.parameters()).device.type == "cpu"
    copies = max(1, min(torch.get_num_threads(), max_tokens // TOKENS_PER_COPY))
    if is_on_cpu and (copies > 1 or precision != torch.float32):
        return CopiesExecutor(model, precision, options, copies=copies, warn=warn)
    return Executor(model, precision, options)


class Executor:
    """Computes on the model itself, in half precision under autocast."""

    def __init__(self, model: Transformer, precision: torch.dtype, options: LossOptions):
        self.model, self.precision, self.options = model, precision, options
        self.device = next(model.parameters()).device
        self.too_large: int | None = None
        """Tokens, padding included, of the smallest batch that is known not to fit in memory."""

    def backward(self, batches: list[Batch], *, seed: Callable[[int], int]) -> GradientSum:
        """Leave in the weights the gradient of the mean loss per target token of `batches`, those of one step.

        Random numbers of micro-batch i follow from `seed(i)`. If a batch does not fit in memory, the whole step is
        computed again with halves, because what a broken backward pass has added cannot be taken out. Pairs that do
        not fit alone are left out and do not count.
        """
        pending, left_out = self._halved(batches), 0
        target_tokens = sum(self.count(batch.labels) for batch in batches)
        losses: list[float] = []
        while len(losses) < len(pending):
            index = len(losses)
            batch = pending[index]
            loss = self._try_loss(batch, seed(index), target_tokens)
            if loss is not None:
                losses.append(loss)
                continue
            _clear_gradients(self.model)
            losses = []
            if len(batch.labels) > 1:
                self.too_large = min(_tokens(batch), self.too_large or _tokens(batch))
                pending = self._halved(pending)
            else:
                del pending[index]
                left_out += 1
                target_tokens -= self.count(batch.labels)
        source_tokens = sum(self.count(batch.source_ids) for batch in pending)
        return GradientSum(sum(losses), target_tokens, source_tokens, left_out)

    def use_r_drop(self, weight: float) -> None:
        """Compute the loss with this weight of R-Drop from now on."""
        self.options = replace(self.options, r_drop=weight)

    def whole(self) -> "Executor":
        """An executor on the whole model: this one, unless each rank has a part of the weights."""
        return self

    def loss(self, batch: Batch, *, seed: int | None = None, step_tokens: int = 0) -> tuple[float, int]:
        """The loss of a batch, summed over its target tokens, and their number.

        For a step with `step_tokens` target tokens in all, it is the loss that is trained on, and its gradient is
        added to that of the model. Without `step_tokens`, it is the cross-entropy alone.
        """
        options = self.options if step_tokens else LossOptions(self.options.pad_id)
        compute = partial(loss_and_backward, step_tokens=step_tokens, options=options)
        results = self.run(compute, batch.to(self.device), seed=seed)
        return sum(loss for loss, _ in results), sum(count for _, count in results)

    def run(self, compute: Compute, batch: Batch, *, seed: int | None = None) -> list[Any]:
        """The results of `compute` on the rows of `batch`, one for each copy of the model that has some of them.

        The gradients of `compute` are added to those of the model. Dropout follows from `seed`.
        """
        if seed is not None:
            torch.manual_seed(seed)
        with torch.autocast(self.device.type, dtype=self.precision, enabled=self.precision != torch.float32):
            return [compute(self.model, batch)]

    def count(self, ids: Tensor) -> int:
        """Number of these ids that are not padding."""
        return int((ids != self.options.pad_id).sum())

    def close(self) -> None:
        """End the processes that the executor has started."""

    def _try_loss(self, batch: Batch, seed: int, step_tokens: int) -> float | None:
        """The loss of a batch, whose gradient is added; None if memory ran out."""
        try:
            loss, _ = self.loss(batch, seed=seed, step_tokens=step_tokens)
            return loss
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
        # Only here, without the traceback, are the tensors of the attempt gone.
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return None

    def _halved(self, batches: list[Batch]) -> list[Batch]:
        """The batches, halved until each has fewer tokens than `too_large` or is a single pair."""
        small = []
        for batch in batches:
            rows = len(batch.labels)
            if self.too_large is None or rows == 1 or _tokens(batch) < self.too_large:
                small.append(batch)
                continue
            middle = -(-rows // 2)
            first = Batch.from_tensors(*(tensor[:middle] for tensor in batch.tensors))
            second = Batch.from_tensors(*(tensor[middle:] for tensor in batch.tensors))
            small += self._halved([first, second])
        return small


class CopiesExecutor(Executor):
    """Computes on copies of the model on a CPU: the first in this process, each other one in a process of its own.

    They read the same weights from shared memory and leave their gradients there. In half precision the matrices of
    the layers and all states are rounded, while embeddings, norms, probabilities and sums over tokens stay in float32.
    """

    def __init__(
        self,
        model: Transformer,
        precision: torch.dtype,
        options: LossOptions,
        *,
        copies: int,
        warn: Callable[[str], None],
    ):
        super().__init__(model, precision, options)
        self.warn, self.threads = warn, torch.get_num_threads()
        rounded = {id(weight) for linear in linear_maps(model) for weight in linear.parameters()}
        self.weights = [
            _shared(weight, precision if id(weight) in rounded else weight.dtype) for weight in all_weights(model)
        ]
        """The weights as all copies read them."""
        self.copies = [Copy(self, index, threads=self.threads // copies) for index in range(copies)]
        self._pool: Workers | None = None
        """The processes of all copies but the first."""
        if copies > 1:
            # Neither several threads of a copy survive a fork nor those of autograd that a GPU has.
            can_fork = available_workers() > 1 and self.threads // copies == 1 and not torch.cuda.is_available()
            remedy = "the run goes on in one process, more slowly"
            self._pool = Workers(self._execute, copies - 1, remedy=remedy, threads=not can_fork)
            self._pool.start()

    def run(self, compute: Compute, batch: Batch, *, seed: int | None = None) -> list[Any]:
        """As `Executor.run`; dropout differs between copies, and `compute` and its results are pickled on their way."""
        for shared, weight in zip(self.weights, all_weights(self.model), strict=True):
            shared.copy_(weight.detach())
        task = Task(compute, seed, is_training=self.model.training, with_gradient=torch.is_grad_enabled())
        # Arrays go through a pipe; tensors would go through files.
        arrays = [tensor.numpy() for tensor in batch.tensors]
        count = min(len(self.copies), len(batch.labels))
        parts = [[array[index::count] for array in arrays] for index in range(count)]
        try:
            results = self._run_parts(parts, task)
        except WorkerError as error:
            self.close()  # from now on no other process writes a gradient
            self._pool = None
            self.warn(str(error))
            results = self._run_parts(parts, task)
        finally:
            torch.set_num_threads(self.threads)
        self._add_gradients(count)
        return results

    def close(self) -> None:
        """End the processes of the copies."""
        if self._pool is not None:
            self._pool.close()

    def _run_parts(self, parts: list[Arrays], task: Task) -> list[Any]:
        """The result of each copy; returns or raises when all have ended."""
        if self._pool is None:
            return [self._execute(index, part, task) for index, part in enumerate(parts)]
        futures: list[Future] = []
        try:
            for index, part in enumerate(parts[1:], start=1):
                futures.append(self._pool.submit(index, part, task))
            first = self._execute(0, parts[0], task)
        finally:
            wait(futures)
        return [first, *(self._pool.result(future) for future in futures)]

    def _execute(self, index: int, part: Arrays, task: Task) -> Any:
        return self.copies[index].execute(part, task)

    def _add_gradients(self, count: int) -> None:
        """Add the gradients of the first `count` copies to those of the model."""
        first, *others = self.copies[:count]
        gradients_of_others = [copy.gradients for copy in others]
        for weight, first_weight, *more in zip(
            all_weights(self.model), all_weights(first.model), *gradients_of_others, strict=True
        ):
            if first_weight.grad is None:
                continue
            gradients = [gradient for gradient in (weight.grad, first_weight.grad, *more) if gradient is not None]
            total = gradients[0].to(weight.dtype)
            for gradient in gradients[1:]:
                total += gradient
            weight.grad, first_weight.grad = total, None


class Copy:
    """A copy of the model, with a generator of random numbers and, except for the first, shared memory for gradients.

    Its weights are the shared ones of the executor.
    """

    def __init__(self, executor: CopiesExecutor, index: int, *, threads: int):
        self.index, self.threads = index, threads
        self.generator = torch.Generator()
        self.model = deepcopy(executor.model)
        for weight, shared in zip(all_weights(self.model), executor.weights, strict=True):
            weight.data = shared
        self.gradients = [_shared_gradient(weight) for weight in all_weights(self.model)] if index else []
        for module in self.model.modules():
            if isinstance(module, Dropout):
                module.generator = self.generator
            if isinstance(module, Embedding):
                module.register_forward_hook(lambda module, ids, states: states.to(executor.precision))

    def execute(self, arrays: Arrays, task: Task) -> Any:
        """Run the task on some rows. Gradients of the first copy stay in its weights, the others' in shared memory."""
        torch.set_num_threads(self.threads)  # of this thread; and of a library that knows one number for all
        if task.seed is not None:
            self.generator.manual_seed((task.seed * 1_000_003 + self.index) % 2**63)
        self.model.train(task.is_training)
        _clear_gradients(self.model)
        if task.with_gradient:
            for weight, gradient in zip(all_weights(self.model), self.gradients, strict=False):  # the first has none
                weight.grad = None if gradient is None else gradient.zero_()
        batch = Batch.from_tensors(*map(torch.from_numpy, arrays))
        with torch.set_grad_enabled(task.with_gradient):
            return task.compute(self.model, batch)


def out_of_memory(error: Exception) -> bool:
    """Whether an error says that memory ran out."""
    return isinstance(error, MemoryError) or OUT_OF_MEMORY.search(str(error)) is not None


def _clear_gradients(model: Transformer) -> None:
    for weight in all_weights(model):
        weight.grad = None


def _tokens(batch: Batch) -> int:
    """Source and target tokens of a batch, padding included."""
    return batch.source_ids.numel() + batch.labels.numel()


def _shared(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """Zeros in the shape of a weight, in anonymous memory that forked processes share."""
    memory = mmap.mmap(-1, weight.numel() * dtype.itemsize)
    return torch.frombuffer(memory, dtype=dtype, count=weight.numel()).view(weight.shape)


def _shared_gradient(weight: Tensor) -> Tensor | None:
    """Shared memory for the gradient of a weight; None if it is frozen."""
    return _shared(weight, weight.dtype) if weight.requires_grad else None
