"""One process per core: threads that share the small products of decoding mostly wait for each other."""

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import torch

from dragoman.errors import ResourceError

_work: Callable[..., Any] | None = None  # in a worker: what it was forked with


class Workers:
    """Forked processes that share the memory of `work`, such as the weights of its model, and call it on one thread."""

    def __init__(self, work: Callable[..., Any], count: int):
        self.count = count
        fork = multiprocessing.get_context("fork")
        self._pool = ProcessPoolExecutor(count, mp_context=fork, initializer=_begin, initargs=(work,))

    def map(self, jobs: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """What `work(*job)` gives for each job, in order."""
        try:
            yield from self._pool.map(_call, jobs)
        except BrokenProcessPool:
            raise ResourceError(
                "A worker process died, most likely for want of memory; give a smaller --beam-size or --workers 1."
            ) from None

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def available_workers() -> int:
    """As many as PyTorch would use threads; 1 where forking is impossible (Windows) or unsafe (macOS)."""
    return torch.get_num_threads() if sys.platform == "linux" else 1


def _begin(work: Callable[..., Any]) -> None:
    global _work
    _work = work
    torch.set_num_threads(1)
    # What was there at the fork stays: to look through it for garbage would take a tenth of the time, and copies of its
    # memory.
    gc.freeze()
    # Ctrl-C reaches the whole group; the main process ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    # A killed parent cannot end its workers, which would wait for jobs forever.
    multiprocessing.parent_process().join()
    os._exit(1)


def _call(job: tuple[Any, ...]) -> Any:
    return _work(*job)
