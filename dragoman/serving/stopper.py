"""Stops a search between two steps: when nobody waits for it any more, or when others have waited long enough."""

import mmap
import struct
import threading
import time

_NUMBER, _TIME = struct.Struct("q"), struct.Struct("d")
_SIZE = _NUMBER.size + _TIME.size
"""Bytes of the shared memory of a lane: the number of its batch, and the time at which that stops."""


class Stopped(Exception):
    """A search was stopped."""


class SearchStopper:
    """Stops the searches of several lanes in this process, and those of lane 0 also in processes forked from it later.

    A lane is a thread that translates one batch at a time. Each such thread calls `enter` once.
    """

    def __init__(self, lanes: int) -> None:
        self._shared = mmap.mmap(-1, lanes * _SIZE)  # processes that are forked share it
        self._thread = threading.local()

    def enter(self, lane: int) -> None:
        """Make the calling thread the one of this lane."""
        self._thread.lane = lane

    def begin_batch(self, lane: int, until: float) -> None:
        """Begin a batch that may take `until` a time of `time.monotonic`. Searches of earlier batches stop."""
        (number,) = _NUMBER.unpack_from(self._shared, lane * _SIZE)
        self.stop(lane, until)
        _NUMBER.pack_into(self._shared, lane * _SIZE, number + 1)

    def stop(self, lane: int, until: float = 0.0) -> None:
        """Stop the searches of the lane's batch, now or at a time: each raises `Stopped` before its next step."""
        _TIME.pack_into(self._shared, lane * _SIZE + _NUMBER.size, until)

    def begin(self) -> None:
        """A search of the batch of this thread's lane begins."""
        self._thread.batch, _until = self._state()

    def check(self) -> None:
        """Raise `Stopped` if the last search of this thread is one of an earlier batch, or lasts too long."""
        batch, until = self._state()
        if getattr(self._thread, "batch", batch) != batch or time.monotonic() > until:
            raise Stopped

    def _state(self) -> tuple[int, float]:
        """Number of the batch of this thread's lane, and the time at which its searches stop."""
        offset = getattr(self._thread, "lane", 0) * _SIZE
        (number,) = _NUMBER.unpack_from(self._shared, offset)
        (until,) = _TIME.unpack_from(self._shared, offset + _NUMBER.size)
        return number, until
