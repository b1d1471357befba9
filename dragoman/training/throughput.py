"""Measures how fast a run will train, by a few real steps whose weights are thrown away.

Processors differ tenfold, and others may be busy on the same one. How often pairs will be seen follows from the
throughput, and dropout, R-Drop and the size of a batch follow from that.
"""

import math
import time
from collections.abc import Callable

import numpy as np
import torch

from dragoman.config.training import TrainingConfig
from dragoman.data.batching import Position, TokenBatches
from dragoman.model import Transformer
from dragoman.system.device import choose_precision
from dragoman.training.executors import TOKENS_PER_COPY, Executor, build_executor, out_of_memory
from dragoman.training.loss import loss_options
from dragoman.training.optimizer import build_optimizer

SECONDS = 3.0
"""How long gradients are computed for a measurement; at least one is, however long it takes."""
LONG = 1.0
"""Seconds from which on an update is not repeated after its first time, which takes a little longer."""


def measure_throughput(
    model: Transformer,
    batches: TokenBatches,
    config: TrainingConfig,
    *,
    ranks: int = 1,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Source and target tokens that `ranks` such processes train on in a second, or 0 if a step does not fit in memory.

    The weights of `model` change. Gradients are those of the first batches of the run, each process with its share of
    them; how long the processes wait for each other is not measured. On a CPU parts of these batches suffice: the time
    of a gradient is proportional to its tokens, and that of an update does not depend on them.
    """
    device = next(model.parameters()).device
    options = loss_options(config, model.config.pad_id)
    share = max(1, config.max_tokens // ranks)
    executor = build_executor(model, choose_precision(config.precision, device), options, max_tokens=share)
    largest = share if device.type == "cuda" else min(share, TOKENS_PER_COPY * torch.get_num_threads())
    try:
        gradient_throughput = _gradient_throughput(executor, batches, largest, seconds, clock)
        update_seconds = _update_seconds(build_optimizer(model, config), device, clock)
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        return 0.0
    finally:
        executor.close()
    if not gradient_throughput:
        return 0.0
    tokens_of_step = 2.0 * config.max_tokens * config.accumulate  # the target's, and about as many of the source
    return tokens_of_step / (tokens_of_step / (ranks * gradient_throughput) + update_seconds)


def _gradient_throughput(
    executor: Executor, batches: TokenBatches, largest: int, seconds: float, clock: Callable[[], float]
) -> float:
    """Tokens whose gradients are computed in a second."""
    position = Position()
    tokens, begin = 0, math.inf
    executor.model.train()
    while True:
        rows = _part(batches, batches.next_rows(position), largest)
        gradient = executor.backward([batches.collate(rows)], seed=lambda _: 0)
        _wait_for(executor.device)
        if begin == math.inf:  # the first gradient also prepares kernels and memory
            begin = clock()
            continue
        tokens += gradient.source_tokens + gradient.target_tokens
        elapsed = clock() - begin
        if elapsed >= seconds:
            return tokens / elapsed


def _part(batches: TokenBatches, rows: np.ndarray, largest: int) -> np.ndarray:
    """As many of the rows of a batch as have at most `largest` target tokens, padding included; at least one."""
    longest = max(len(batches.target[row]) + 1 for row in rows.tolist())
    return rows[: max(1, largest // longest)]


def _update_seconds(optimizer: torch.optim.Optimizer, device: torch.device, clock: Callable[[], float]) -> float:
    """Seconds of an update of the weights."""
    for is_last in (False, True):
        begin = clock()
        optimizer.step()
        _wait_for(device)
        taken = clock() - begin
        if taken >= LONG or is_last:
            break
    return taken


def _wait_for(device: torch.device) -> None:
    """Wait until a GPU has done what it was given; a CPU has by the time a call returns."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
