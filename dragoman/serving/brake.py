"""Stops a search between two steps: when nobody waits for it any more, or when others have waited long enough."""

import mmap
import struct
import threading
import time
from typing import Any

from dragoman.model import Transformer

_NUMBER, _TIME = struct.Struct("q"), struct.Struct("d")
_SIZE = _NUMBER.size + _TIME.size


class Stopped(Exception):
    """A search was stopped."""


class Brake:
    """Stops the searches of several lanes, in this process and, those of lane 0, in processes forked from it later.

    A lane is a thread that translates one batch at a time; `enter` tells which lane the calling thread is.
    """

    def __init__(self, lanes: int) -> None:
        self._shared = mmap.mmap(-1, lanes * _SIZE)  # processes that are forked share it
        self._here = threading.local()

    def put_on(self, model: Transformer) -> None:
        """Have a model look, before each step, whether its search is to stop."""
        model.encoder.register_forward_pre_hook(self._begin)
        model.decoder.register_forward_pre_hook(self._check)

    def enter(self, lane: int) -> None:
        """Say that this thread is a lane."""
        self._here.lane = lane

    def begin(self, lane: int, until: float) -> None:
        """A batch begins, and may take `until` a time of `time.monotonic`. Searches of earlier ones stop."""
        (number,) = _NUMBER.unpack_from(self._shared, lane * _SIZE)
        self.stop(lane, until)
        _NUMBER.pack_into(self._shared, lane * _SIZE, number + 1)

    def stop(self, lane: int, until: float = 0.0) -> None:
        """Stop the searches of a batch, at once or at a time: each raises `Stopped` with its next step."""
        _TIME.pack_into(self._shared, lane * _SIZE + _NUMBER.size, until)

    def _begin(self, *_: Any) -> None:
        self._here.batch = self._state()[0]

    def _check(self, *_: Any) -> None:
        batch, until = self._state()
        if getattr(self._here, "batch", batch) != batch or time.monotonic() > until:
            raise Stopped

    def _state(self) -> tuple[int, float]:
        """The number of the batch of this lane, and until when it may take."""
        place = getattr(self._here, "lane", 0) * _SIZE
        (number,), (until,) = (
            _NUMBER.unpack_from(self._shared, place),
            _TIME.unpack_from(self._shared, place + _NUMBER.size),
        )
        return number, until
