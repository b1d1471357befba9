"""Waiting for another thread or process."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], *, seconds: float = 30) -> None:
    """Wait until a condition is true. Fails the test if it is not within `seconds`."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"what the test waits for has not happened within {seconds} seconds")
        time.sleep(0.005)
