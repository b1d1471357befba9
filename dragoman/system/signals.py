"""Signals that end a long work where it can go on later."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Queues of clusters announce the end of a job with SIGUSR1, which Windows does not have.
STOPPING = {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGUSR1", signal.SIGTERM)}


@contextmanager
def stop_signals(announce: Callable[[], None]) -> Iterator[list[int]]:
    """Collects Ctrl-C, SIGTERM and SIGUSR1 inside the `with` block, so that training stops after the step.

    `announce` is called when the first signal comes; a second one stops at once. In a thread, as Ray has them, no
    signal comes.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def receive(number: int, frame: object) -> None:
        if received:
            raise KeyboardInterrupt(number)
        received.append(number)
        announce()

    previous = {number: signal.signal(number, receive) for number in STOPPING}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
