"""Parallel work in one process per core. Threads that share small matrix products mostly wait for each other."""

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from itertools import chain, islice, starmap
from pathlib import Path
from typing import Any

from dragoman.errors import ResourceError
from dragoman.system.resources import cores

JOBS_UNDER_WAY = 2
"""Jobs for each process: one that it does, and one that waits for it."""
SECONDS, BYTES_A_SECOND = 60, 2**24
"""Processor time of a process with limited memory: `SECONDS`, and one more for each `BYTES_A_SECOND` of the memory."""
PARALLEL_TOKENIZERS = "TOKENIZERS_PARALLELISM"
"""Environment variable that tells the library `tokenizers` whether to use threads."""
_work: Callable[..., Any] | None = None
"""Function that a worker process calls; set in worker processes only."""


class WorkerError(ResourceError):
    """A worker process could not be started, or died."""


class Workers:
    """Forked processes that share the memory of `work`, such as the weights of its model, and call it on one thread.

    With `threads`, the workers are threads of this process, which wait for Python's lock, but not while compiled code
    computes. They leave the number of threads that libraries use to `work`.
    """

    def __init__(self, work: Callable[..., Any], count: int, *, remedy: str, threads: bool = False):
        """`remedy` ends the error message if memory does not suffice for so many: what to do, or what is done."""
        self.count, self.remedy, self._forks = count, remedy, not threads
        if threads:
            self._pool, self._call = ThreadPoolExecutor(count), work
        else:
            from concurrent.futures import ProcessPoolExecutor  # which takes 10 ms to load

            fork = multiprocessing.get_context("fork")
            # The objects that exist now are not searched for garbage until `close`. The search would write to all of
            # them, and so copy the memory that the processes share. It also takes a tenth of the time.
            gc.freeze()
            self._pool = ProcessPoolExecutor(count, mp_context=fork, initializer=_begin_worker, initargs=(work,))
            self._call = _call_work

    def start(self) -> None:
        """Fork the workers now, not with the first job; they inherit the memory that exists at this moment."""
        with suppress(WorkerError):  # the first job raises it again
            self._submit(os.getpid)

    def submit(self, *arguments: Any) -> Future:
        """Start `work(*arguments)`. Raises `WorkerError` if there is no process for it."""
        return self._submit(self._call, *arguments)

    def result(self, future: Future) -> Any:
        """Wait for a job and return its result. Raises what it raised, and `WorkerError` if its process died."""
        try:
            return future.result()
        except BrokenExecutor:
            raise self._death() from None

    def map(self, jobs: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Results of `work(*job)`, in the order of the jobs. A few jobs for each process are read in advance."""
        futures: deque[Future] = deque()
        try:
            for job in jobs:
                futures.append(self.submit(*job))
                if len(futures) > JOBS_UNDER_WAY * self.count:
                    yield self.result(futures.popleft())
            while futures:
                yield self.result(futures.popleft())
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """End the processes; at once if somebody interrupts that."""
        processes = list((getattr(self._pool, "_processes", None) or {}).values())  # a pool of threads has none
        try:
            self._pool.shutdown(wait=True, cancel_futures=True)
        except KeyboardInterrupt:
            for process in processes:
                process.kill()
            raise
        if self._forks:
            gc.unfreeze()

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        try:
            return self._pool.submit(function, *arguments)
        except BrokenExecutor:
            raise self._death() from None
        except OSError as error:
            # The processes that were started already would wait forever.
            for process in self._pool._processes.values():
                process.kill()
            raise WorkerError(f"No worker process could be started ({error}); {self.remedy}.") from None

    def _death(self) -> WorkerError:
        return WorkerError(f"A worker process was ended, most likely for want of memory; {self.remedy}.")


def map_on_cores(work: Callable[..., Any], jobs: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Results of `work(*job)`, in the order of the jobs. Several jobs are done by a forked process on each core."""
    remaining = iter(jobs)
    first = list(islice(remaining, 2))
    jobs = chain(first, remaining)
    if len(first) < 2 or sys.platform != "linux" or cores() == 1:
        yield from starmap(work, jobs)
        return
    workers = Workers(work, cores(), remedy="make some free and try again")
    try:
        workers.start()
        yield from workers.map(jobs)
    finally:
        workers.close()


def run_limited(memory: int, work: Callable[..., None], *arguments: Any) -> bool:
    """Call `work(*arguments)` in a process that may take so many bytes more than this one.

    Returns False if the memory did not suffice, or the process computed for more than a minute and a second for each
    16 MB. Raises what `work` raised. Where processes cannot be forked or limited, it is called in this one.
    """
    if sys.platform != "linux":
        work(*arguments)
        return True
    from concurrent.futures import ProcessPoolExecutor

    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, mp_context=fork, initializer=_limit_worker, initargs=(memory,)) as pool:
        try:
            pool.submit(work, *arguments).result()
        except (BrokenExecutor, MemoryError):
            return False
    return True


def limit_further(memory: int) -> None:
    """Limit a process that `run_limited` has started to so many bytes more from now on."""
    if sys.platform == "linux" and multiprocessing.parent_process():
        limit_memory(memory)


def _limit_worker(memory: int) -> None:
    """Limit the memory and the processor time of this process, which `run_limited` has started."""
    limit_memory(memory)
    limit_time(int(time.process_time()) + SECONDS + memory // BYTES_A_SECOND)


def limit_time(seconds: int | None) -> None:
    """Have this process killed when it has computed for so many seconds in all; None is no limit. Linux only."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    limit = hard if seconds is None else seconds
    if hard != resource.RLIM_INFINITY:  # nobody may raise it
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))


def limit_memory(memory: int) -> None:
    """Limit this process to so many bytes more than it has now, and to one thread of torch. Linux only."""
    import resource

    use_one_thread()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + memory
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:  # a limit that is there already is never raised
        limit = min(limit, soft)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def available_workers() -> int:
    """Number of workers: one a core, or as many as OMP_NUM_THREADS says or PyTorch, if it is loaded, uses threads.

    1 where forking is impossible (Windows) or unsafe (macOS).
    """
    if sys.platform != "linux":
        return 1
    torch = sys.modules.get("torch")
    if torch:
        return torch.get_num_threads()
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) else cores()


def _begin_worker(work: Callable[..., Any]) -> None:
    """Prepare this process, which was forked by `Workers`, for its jobs."""
    global _work
    _work = work
    # A terminal or `timeout` sends signals to a whole group. They are for the main process, which ends its workers.
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    use_one_thread()


def one_blas_thread() -> AbstractContextManager:
    """Have numpy's matrix products use one thread: in the `with` block, or for good without one.

    As long as one of several blocks that overlap is open, they do.
    """
    return _OneBlasThread()


class _OneBlasThread(AbstractContextManager):
    """One of the blocks of `one_blas_thread`: the first that is opened sets the limit, the last one takes it back."""

    _lock = threading.Lock()
    _number = 0
    _limit: Any = None

    def __init__(self) -> None:
        with self._lock:
            if not _OneBlasThread._number:
                from threadpoolctl import threadpool_limits

                _OneBlasThread._limit = threadpool_limits(limits=1, user_api="blas")
            _OneBlasThread._number += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            _OneBlasThread._number -= 1
            if not _OneBlasThread._number:
                self._limit.restore_original_limits()


def use_one_thread() -> None:
    """Have torch compute on one thread in this process. Without torch, which takes seconds to load, does nothing."""
    torch = sys.modules.get("torch")
    if torch:
        torch.set_num_threads(1)


def _end_with_parent() -> None:
    """End this process when its parent has ended: a killed one cannot end its workers, which would wait forever."""
    multiprocessing.parent_process().join()
    os._exit(1)


def _call_work(*arguments: Any) -> Any:
    """The job of a worker process: functions that are sent to it must have a name in a module."""
    return _work(*arguments)


def _before_fork() -> None:
    """Turn off the threads of `tokenizers`, which do not outlive a fork; some versions warn of it."""
    _forking.acquire()  # one fork after another
    _parallel_before.append(os.environ.get(PARALLEL_TOKENIZERS))
    os.environ[PARALLEL_TOKENIZERS] = "false"


def _after_fork_in_parent() -> None:
    before = _parallel_before.pop()
    if before is None:
        os.environ.pop(PARALLEL_TOKENIZERS, None)
    else:
        os.environ[PARALLEL_TOKENIZERS] = before
    _forking.release()


def _after_fork_in_child() -> None:
    _parallel_before.clear()
    _forking.release()


_forking = threading.Lock()
_parallel_before: list[str | None] = []
"""Value of `PARALLEL_TOKENIZERS` before the fork that is under way."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
