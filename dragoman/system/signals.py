"""Signals that end a long task at a point where it can go on later."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

# Clusters announce the end of a job by SIGUSR1, which Windows does not have.
STOPPING = {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGUSR1", signal.SIGTERM)}


def interrupt(number: int, frame: object) -> NoReturn:
    """Stop at once, as Python does for Ctrl-C."""
    raise KeyboardInterrupt(number)


@contextmanager
def received_by(receive: Callable[[int, object], None]) -> Iterator[None]:
    """Calls a function for Ctrl-C, SIGTERM and SIGUSR1 inside the `with` block.

    Only the main thread can receive signals. In another one, such as those of Ray, this does nothing.
    """
    previous = {}
    if threading.current_thread() is threading.main_thread():
        previous = {number: signal.signal(number, receive) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def stop_signals(announce: Callable[[], None]) -> Iterator[list[int]]:
    """Collects the numbers of signals (Ctrl-C, SIGTERM, SIGUSR1) inside the `with` block, so that training can stop.

    `announce` is called when the first one comes. The second one stops at once, by `KeyboardInterrupt`.
    """
    received: list[int] = []

    def receive(number: int, frame: object) -> None:
        if received:
            interrupt(number, frame)
        received.append(number)
        announce()

    with received_by(receive):
        yield received
