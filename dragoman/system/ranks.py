"""The processes of one run, as `torchrun` starts them: rank 0 decides and writes, all ranks compute.

They find each other by environment variables: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT. Slurm,
Kubernetes, SkyPilot and Ray set the same ones. Every rank watches the next one, because a collective operation would
wait for a lost rank for ever.
"""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from dragoman.errors import DragomanError, ResourceError, UsageError
from dragoman.system.resources import started_together

T = TypeVar("T")
BEAT, SILENCE = 2.0, 15.0
"""Seconds between two signs of life of a rank, and seconds without one after which it counts as lost."""
JOINING = 180.0
"""Seconds in which all ranks have to join."""
LONGEST_WAIT = timedelta(days=7)
"""Timeout of collective operations. It is long, since rank 0 may prepare a large corpus: `SILENCE` shows a loss."""
BUCKET = 2**25
"""Numbers that `add` adds up in one operation: 128 MB of float32."""


class Ranks:
    """The ranks of a run. This class is that of a run in a single process."""

    index = 0
    """Rank of this process."""
    size = 1
    """Number of processes, on all machines."""

    def once(self, work: Callable[[], T]) -> T:
        """Call `work` on rank 0 only. Returns its result on every rank, or raises on every rank if it fails."""
        return work()

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """The numbers of all ranks, in the order of the ranks."""
        return [list(numbers)]

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Add up tensors of one device and type over all ranks, in place."""

    def any(self, condition: bool) -> bool:
        """Whether the condition holds on any rank."""
        return any(held for (held,) in self.gather([condition]))

    def clock(self) -> float:
        """The time of `time.monotonic` on rank 0."""
        return time.monotonic()


ALONE = Ranks()


def _check_environment() -> None:
    """Raise `UsageError` if `torchrun` or its like would have set other variables."""
    numbers = {"RANK": "", "MASTER_PORT": "", "LOCAL_RANK": "0"}
    faults = [f"{name} is no number" for name, usual in numbers.items() if not os.environ.get(name, usual).isdecimal()]
    if not os.environ.get("MASTER_ADDR"):
        faults.append("MASTER_ADDR is not")
    if faults:
        raise UsageError(
            f"WORLD_SIZE is set, and {faults[0]}, though torchrun sets both; start this with torchrun, or unset "
            "WORLD_SIZE."
        )


class ProcessGroup(Ranks):
    """The ranks of a run in several processes. A lost one ends all others with an error, within half a minute."""

    def __init__(self) -> None:
        _check_environment()
        self.index, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        self._closed = threading.Event()
        self._owns_group = not dist.is_initialized()  # Ray makes the group itself, and ends it
        if self._owns_group:
            # Two connections that cross may make gloo wait for ever.
            late = threading.Timer(JOINING, self._end, [f"Not all ranks have joined in {JOINING / 60:.0f} minutes."])
            late.daemon = True
            late.start()
            backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
            dist.init_process_group(backend, timeout=LONGEST_WAIT)
            late.cancel()
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = dist.TCPStore(address, port, is_master=False, timeout=timedelta(seconds=SILENCE))
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self._store = dist.PrefixStore(f"dragoman-{attempt}", store)
        self._store.set(f"beat-{self.index}", "0")
        threading.Thread(target=self._watch, daemon=True).start()

    def once(self, work: Callable[[], T]) -> T:
        outcome: list[Any] = [None, None]  # result and exit code, which torch sends in a list
        if self.index == 0:
            try:
                outcome[0] = work()
            except Exception as error:
                outcome[1] = getattr(error, "exit_code", 1)
                self._collective(dist.broadcast_object_list, outcome)
                raise
        self._collective(dist.broadcast_object_list, outcome)
        result, exit_code = outcome
        if exit_code is not None:
            error = DragomanError("Rank 0 has said what is wrong.")
            error.exit_code, error.reported = exit_code, True
            raise error
        return result

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        tensor = torch.tensor(numbers, dtype=torch.float64)
        gathered = [torch.empty_like(tensor) for _ in range(self.size)]
        self._collective(dist.all_gather, gathered, tensor)
        return [numbers_of_rank.tolist() for numbers_of_rank in gathered]

    def add(self, tensors: Sequence[Tensor]) -> None:
        bucket: list[Tensor] = []
        for index, tensor in enumerate(tensors):
            bucket.append(tensor)
            sizes = [part.numel() for part in bucket]
            if index + 1 == len(tensors) or sum(sizes) >= BUCKET:
                flat = torch.cat([part.flatten() for part in bucket])
                self._collective(dist.all_reduce, flat)
                torch._foreach_copy_([part.view(-1) for part in bucket], flat.split(sizes))
                bucket.clear()

    def clock(self) -> float:
        now = torch.tensor(time.monotonic(), dtype=torch.float64)
        self._collective(dist.broadcast, now, 0)
        return now.item()

    def leave(self, error: BaseException | None) -> None:
        """Tell the other ranks that this one ends; with an error, they end, too, since they cannot go on without it."""
        self._closed.set()
        with suppress(RuntimeError):  # the store may have ended, too
            if error is None:
                self._store.set(f"beat-{self.index}", "done")
            elif not getattr(error, "reported", False):
                rank = f"Rank {self.index} on {socket.gethostname()}"
                self._store.set("lost", f"{rank} ended: {error or type(error).__name__}")
        if self._owns_group and error is None:
            dist.destroy_process_group()

    def _collective(self, operation: Callable[..., object], *arguments: Any) -> None:
        """Call an operation of torch in which all ranks take part. Raises `ResourceError` if one of them has ended."""
        try:
            operation(*arguments)
        except RuntimeError as error:
            if "memory" in str(error):
                raise
            time.sleep(2 * BEAT)  # the rank that failed may say why; then `_watch` ends this process
            reason = str(error).partition("\n")[0]
            raise _lost(f"Another process of this run has ended ({reason}).") from None

    def _watch(self) -> None:
        """Show signs of life, and end this process when another one is lost."""
        next_rank, beats = (self.index + 1) % self.size, 0
        last, heard = b"", time.monotonic()
        while not self._closed.wait(BEAT):
            try:
                beats += 1
                self._store.set(f"beat-{self.index}", str(beats))
                beat = self._store.get(f"beat-{next_rank}")
                if beat != last or beat == b"done":
                    last, heard = beat, time.monotonic()
                elif time.monotonic() - heard > SILENCE:
                    self._store.set("lost", f"Rank {next_rank} has shown no sign of life for {SILENCE:.0f} seconds.")
                if self._store.check(["lost"]):
                    self._end(self._store.get("lost").decode())
            except RuntimeError:
                self._end("The process that keeps the ranks together has ended.")

    def _end(self, message: str) -> None:
        """End this process, in the middle of whatever it waits for, unless it has left."""
        if not self._closed.is_set():
            if self.index < 2:  # rank 0 says it, or rank 1 if that is the one that is lost
                print(f"Error: {_lost(message)}", file=sys.stderr, flush=True)
            os._exit(ResourceError.exit_code)


def _lost(message: str) -> ResourceError:
    return ResourceError(f"{message} The last checkpoint is safe; the same command goes on from there.")


@contextmanager
def open_ranks() -> Iterator[Ranks]:
    """Joins the processes that torchrun has started for this command; without them, this process is alone."""
    if started_together()[0] == 1:
        yield ALONE
        return
    ranks = ProcessGroup()
    try:
        yield ranks
    except BaseException as error:
        ranks.leave(error)
        raise
    ranks.leave(None)


def unsharded(tensor: Tensor) -> Tensor:
    """The full tensor of one that may be sharded (a `DTensor`). All ranks have to call this together."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def sharded_like(tensor: Tensor, pattern: Tensor) -> Tensor:
    """A tensor that every rank has as a whole, sharded as the pattern is."""
    if not hasattr(pattern, "full_tensor") or hasattr(tensor, "full_tensor"):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(pattern.device, pattern.dtype), pattern.device_mesh, pattern.placements)
