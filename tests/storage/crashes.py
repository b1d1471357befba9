"""Processes that die, or meet an error or a full disk, at a chosen moment of their writing."""

import builtins
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial

import pytest

posix = pytest.mark.skipif(os.name != "posix", reason="forks")


def in_child(action: Callable[[], object]) -> int:
    """Exit code of a forked child: 0, 1 if `action` raised, 9 if it died on the way."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class TornWriter(io.BufferedWriter):
    """A file that is written in two halves, with a system call between them."""

    between: Callable[[], object]

    def write(self, data: bytes) -> int:
        half = len(data) // 2
        super().write(data[:half])
        self.flush()
        type(self).between()
        super().write(data[half:])
        return len(data)


def interrupt_before(call: int, act: Callable[[], object]) -> None:
    """Call `act` just before a system call on files, and before all later ones; `call` is its number, from 0.

    Only for a child process, since the functions of the system stay replaced.
    """
    left = iter(range(call))
    original_open, original_fsync = builtins.open, os.fsync

    def tick() -> None:
        if next(left, None) is None:
            act()

    def torn(path, mode: str = "r", *args, **options):
        if mode != "wb":
            return original_open(path, mode, *args, **options)
        return TornWriter(io.FileIO(path, mode))

    TornWriter.between = staticmethod(tick)
    builtins.open = io.open = torn  # pathlib uses the second
    os.fsync = lambda descriptor: (tick(), original_fsync(descriptor))
    sys.addaudithook(lambda event, _: tick() if event.startswith(("open", "os.", "shutil.")) else None)


def each_crash(action: Callable[[], object], prepare: Callable[[], object]) -> Iterator[int]:
    """Exit codes of children that die before the first system call of `action`, before the second, and so on.

    `prepare` is called before each of them.
    """

    def attempt(call: int) -> None:
        interrupt_before(call, lambda: os._exit(9))
        action()

    call, code = 0, 9
    while code == 9:
        prepare()
        code = in_child(partial(attempt, call))
        yield code
        call += 1
    assert code == 0
    assert call > 4, "nothing was interrupted"


def disk_with(monkeypatch: pytest.MonkeyPatch, free: Callable[[], float]) -> None:
    """Let disks have so many free bytes."""
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=int(free())))
