"""Signals that end a long work where it can go on later."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

# Queues of clusters announce the end of a job with SIGUSR1, which Windows does not have.
STOPPING = {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGUSR1", signal.SIGTERM)}


def interrupt(number: int, frame: object) -> NoReturn:
    """Stop at once, as Python does for Ctrl-C."""
    raise KeyboardInterrupt(number)


@contextmanager
def received_by(receive: Callable[[int, object], None]) -> Iterator[None]:
    """Calls a function for Ctrl-C, SIGTERM and SIGUSR1 inside the `with` block.

    In a thread, as Ray has them, no signal comes.
    """
    here = threading.current_thread() is threading.main_thread()
    previous = {number: signal.signal(number, receive) for number in STOPPING if here}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def stop_signals(announce: Callable[[], None]) -> Iterator[list[int]]:
    """Collects Ctrl-C, SIGTERM and SIGUSR1 inside the `with` block, so that training stops after the step.

    `announce` is called when the first one comes; a second one stops at once.
    """
    received: list[int] = []

    def receive(number: int, frame: object) -> None:
        if received:
            interrupt(number, frame)
        received.append(number)
        announce()

    with received_by(receive):
        yield received
