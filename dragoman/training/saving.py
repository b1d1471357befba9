"""Writes the best model, checkpoints and snapshots of a run, as far as the disk has room."""

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
CHECKPOINTS_KEPT = 2
FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk without room."""


class Saver:
    """Writes the state of a run. If that fails, the run continues: what was written before is still there."""

    def __init__(self, progress: Progress, checkpoints: Checkpoints, snapshots: Checkpoints, ranks: Ranks):
        self.progress, self.checkpoints, self.snapshots, self.ranks = progress, checkpoints, snapshots, ranks
        self.saved_step = 0
        """The last step that has a checkpoint."""
        self._reported_failures: set[str] = set()
        self._is_disk_too_full_for_snapshots = False

    def save(self, tensors: Tensors, state: dict[str, Any]) -> None:
        """Write a checkpoint; the last two stay, and those that the run may go back to."""
        progress = self.progress
        going_back = {progress.validated_step, progress.plan.decay_from or progress.step}

        def write() -> None:
            self._write(self.checkpoints, tensors, state, last=CHECKPOINTS_KEPT, others=going_back)

        if self.attempt("No checkpoint was written", write):
            self.saved_step = progress.step
            if self.checkpoints.mirror:
                self.attempt("The run was not mirrored", self.checkpoints.mirror, may_make_room=False)

    def save_snapshot(self, weights: dict[str, Tensor], *, keep: int) -> None:
        """Write weights for the average; the last `keep` snapshots stay, unless the disk is too full for them."""
        if not self._is_disk_too_full_for_snapshots:
            write = partial(self._write, self.snapshots, {"model": weights}, {}, last=keep)
            self.attempt("No snapshot was written", write, may_make_room=False)

    def attempt(self, failure: str, write: Callable[[], None], *, may_make_room: bool = True) -> bool:
        """Call `write` on rank 0; returns whether it succeeded.

        After an error the user is warned of `failure`, once until `write` succeeds again.
        """
        return self.ranks.once(lambda: self._attempt(failure, write, may_make_room=may_make_room))

    def _attempt(self, failure: str, write: Callable[[], None], *, may_make_room: bool) -> bool:
        while True:
            try:
                write()
            except (OSError, DataError, ResourceError) as error:
                is_full = isinstance(error, ResourceError) or (isinstance(error, OSError) and error.errno in FULL)
                if is_full and may_make_room and self._make_room():
                    continue
                if failure not in self._reported_failures:
                    self.checkpoints.warn(f"{failure} at step {self.progress.step:,}: {error}")
                self._reported_failures.add(failure)
                return False
            self._reported_failures.discard(failure)
            return True

    def _write(
        self,
        checkpoints: Checkpoints,
        tensors: Tensors,
        state: dict[str, Any],
        *,
        last: int,
        others: Set[int] = frozenset(),
    ) -> None:
        """Write the present step, and delete all other steps but the `last` ones and `others`."""
        present = self.progress.step
        checkpoints.save(present, tensors, state)
        # Steps after the present one are damaged, or the run would not have come to this step again.
        steps = [step for step in checkpoints.steps() if step <= present]
        checkpoints.prune({*others, *steps[-last:]})

    def _make_room(self) -> bool:
        """Delete the snapshots, or if there are none all checkpoints but one; returns whether this deleted anything."""
        snapshots = self.snapshots.steps()
        if snapshots:
            self.checkpoints.warn("The disk is full; the snapshots for the average make room for checkpoints.")
            self._is_disk_too_full_for_snapshots = True
            self.snapshots.prune(set())
            return self.snapshots.steps() != snapshots
        checkpoints = self.checkpoints.steps()
        validated = [step for step in checkpoints if step <= self.progress.validated_step]
        self.checkpoints.prune(set((validated or checkpoints)[-1:]))
        return self.checkpoints.steps() != checkpoints
