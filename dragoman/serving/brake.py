"""Stops a model between two steps of a search, when nobody waits for the translations any more."""

import mmap
import struct
import time
from typing import Any

from dragoman.model import Transformer

_TIME = struct.Struct("d")


class Stopped(Exception):
    """A search was stopped."""


class Brake:
    """Stops models, in this process and in those that are forked from it later."""

    def __init__(self) -> None:
        self._stopped = mmap.mmap(-1, _TIME.size)  # processes that are forked share it
        self._began = 0.0

    def put_on(self, model: Transformer) -> None:
        """Have a model look, before each step, whether its search was stopped since it began."""
        model.encoder.register_forward_pre_hook(self._begin)
        model.decoder.register_forward_pre_hook(self._check)

    def stop(self) -> None:
        """Stop all searches that have begun: each raises `Stopped` with its next step."""
        _TIME.pack_into(self._stopped, 0, time.monotonic())

    def _begin(self, *_: Any) -> None:
        self._began = time.monotonic()

    def _check(self, *_: Any) -> None:
        if _TIME.unpack_from(self._stopped)[0] > self._began:
            raise Stopped
