"""What a run writes while it trains, as far as the disk has room: the best model, checkpoints and snapshots."""

import errno
from collections.abc import Callable, Set
from functools import partial
from typing import Any

from torch import Tensor

from dragoman.errors import DataError, ResourceError
from dragoman.storage.checkpoints import Checkpoints
from dragoman.system.ranks import Ranks
from dragoman.training.progress import Progress

Tensors = dict[str, dict[str, Tensor]]
"""The tensors of a checkpoint, by file and name."""
FULL = (errno.ENOSPC, errno.EDQUOT)


class Saver:
    """Writes the state of a run, which goes on if that fails: what was written before is still there."""

    def __init__(self, progress: Progress, checkpoints: Checkpoints, snapshots: Checkpoints, ranks: Ranks):
        self.progress, self.checkpoints, self.snapshots, self.ranks = progress, checkpoints, snapshots, ranks
        self.saved_step = 0
        self._failing: set[str] = set()
        self._crowded = False

    def save(self, tensors: Tensors, state: dict[str, Any]) -> None:
        """Write a checkpoint; the last two stay, and those that the run may go back to."""
        progress = self.progress
        going_back = {progress.validated_step, progress.plan.decay_from or progress.step}
        write = partial(self._write, self.checkpoints, 2, tensors, state, going_back)
        if self.attempt("No checkpoint was written", write):
            self.saved_step = progress.step
            if self.checkpoints.mirror:
                self.attempt("The run was not mirrored", self.checkpoints.mirror, may_make_room=False)

    def save_snapshot(self, weights: dict[str, Tensor], *, keep: int) -> None:
        """Write weights for the average, the last `keep` of which stay, unless the disk is too full for them."""
        if not self._crowded:
            write = partial(self._write, self.snapshots, keep, {"model": weights}, {})
            self.attempt("No snapshot was written", write, may_make_room=False)

    def attempt(self, failure: str, write: Callable[[], None], *, may_make_room: bool = True) -> bool:
        """Whether `write` succeeded, which rank 0 calls; a failure is told once until it succeeds again."""
        return self.ranks.once(lambda: self._attempt(failure, write, may_make_room=may_make_room))

    def _attempt(self, failure: str, write: Callable[[], None], *, may_make_room: bool) -> bool:
        while True:
            try:
                write()
            except (OSError, DataError, ResourceError) as error:
                full = isinstance(error, ResourceError) or (isinstance(error, OSError) and error.errno in FULL)
                if full and may_make_room and self._make_room():
                    continue
                if failure not in self._failing:
                    self.checkpoints.warn(f"{failure} at step {self.progress.step:,}: {error}")
                self._failing.add(failure)
                return False
            self._failing.discard(failure)
            return True

    def _write(
        self, to: Checkpoints, keep: int, tensors: Tensors, state: dict[str, Any], others: Set[int] = frozenset()
    ) -> None:
        present = self.progress.step
        to.save(present, tensors, state)
        # Later ones are damaged, or it would not have come to this step again.
        to.prune({*others, *[step for step in to.steps() if step <= present][-keep:]})

    def _make_room(self) -> bool:
        """Delete what a run can best do without, the snapshots or else all checkpoints but one; whether it did."""
        if before := self.snapshots.steps():
            self.checkpoints.warn("The disk is full; the snapshots for the average make room for checkpoints.")
            self._crowded = True
            self.snapshots.prune(set())
            return self.snapshots.steps() != before
        before = self.checkpoints.steps()
        validated = [step for step in before if step <= self.progress.validated_step]
        self.checkpoints.prune(set((validated or before)[-1:]))
        return self.checkpoints.steps() != before
