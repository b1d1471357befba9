"""Processes that take jobs one by one and may be killed at any time, such as for what strangers send."""

import gc
import os
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from dragoman.errors import DragomanError, ResourceError
from dragoman.system.processes import _limit_memory, _use_one_thread
from dragoman.system.resources import release_memory

Ask = Callable[..., Any]
"""With it, a job asks the process that gave it for something, such as translations."""
_PID = struct.Struct("i")
_NEW, _KILL = b"n", b"k"


class HelperDied(ResourceError):
    """The process of a job was killed: by its limit of processor time, for want of memory, or by somebody."""


class Helpers:
    """Processes that call `work(ask, *job)`; as many as there are jobs at the same time, and kept for later jobs.

    They are forked from a process that itself is forked by `start`. A process with threads must not be forked, and what
    is forked early holds no connections. Where there is no fork, and with `fork=False`, jobs run in the calling thread.
    """

    def __init__(
        self,
        work: Callable[..., Any],
        *,
        memory: int | None = None,
        nice: int = 0,
        fork: bool = sys.platform == "linux",
    ):
        """`memory` is how many bytes a process may take; `nice` is how far it stands back behind others."""
        self._work, self._memory, self._nice, self.fork = work, memory, nice, fork
        self._lock = threading.Lock()
        self._forking = threading.Lock()
        """Held while a process is forked, which takes long on a busy machine. Nobody who kills or gives back waits."""
        self._idle: list[_Helper] = []
        self._control: socket.socket | None = None
        self._forker = 0
        """The process that forks the others; they are its process group."""
        self._closed = False

    def start(self) -> None:
        """Fork the process that forks the others; the first job does it otherwise."""
        with self._lock:
            if self.fork and self._control is None:
                # Packets, since bytes of two threads could be read as one message.
                self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                gc.collect()  # else every process would look through the same garbage, and copy its memory
                self._forker = os.fork()
                if self._forker == 0:
                    _fork_on_demand(other, self._work, self._memory, self._nice)
                other.close()
                with suppress(OSError):  # it has become a group already, or has ended
                    os.setpgid(self._forker, self._forker)

    def job(self) -> "Job":
        """A job that is not begun yet."""
        return Job(self)

    def close(self) -> None:
        """Kill all processes."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for helper in self._idle:
                helper.connection.close()
        if self._control:
            with suppress(OSError):  # all have ended already
                os.killpg(self._forker, signal.SIGKILL)
            with self._forking:  # who waits for a process now hears that there is none
                self._control.close()

    def _take(self) -> "_Helper":
        """A process that waits for a job. Raises `OSError` or `EOFError` if there is none to be had any more."""
        self.start()
        with self._lock:
            if self._closed:
                raise HelperDied("The server is ending.")
            if self._idle:
                return self._idle.pop()
        with self._forking:
            here, there = socket.socketpair()
            with here, there:
                socket.send_fds(self._control, [_NEW], [there.fileno()])
                answer = self._control.recv(_PID.size)
                if not answer:
                    raise EOFError
                return _Helper(*_PID.unpack(answer), Connection(here.detach()))

    def _give_back(self, helper: "_Helper") -> None:
        with self._lock:
            if self._closed:
                helper.connection.close()
            else:
                self._idle.append(helper)

    def _kill(self, helper: "_Helper") -> None:
        with suppress(OSError):  # nothing more is to be killed when all was
            self._control.send(_KILL + _PID.pack(helper.process))


class _Helper:
    """A process, and the connection to it."""

    def __init__(self, process: int, connection: Connection):
        self.process, self.connection = process, connection


class Job:
    """Something that a process does; it can be killed."""

    def __init__(self, helpers: Helpers):
        self._helpers, self._helper, self._killed = helpers, None, False
        self._lock = threading.Lock()

    def run(self, *job: Any, answer: Ask = lambda *_: None, processor_seconds: int | None = None) -> Any:
        """The result of `work(ask, *job)`; raises what it raised, and `HelperDied`. `answer` is what `ask` calls."""
        if not self._helpers.fork:
            return self._helpers._work(answer, *job)
        if self._killed:
            raise HelperDied("The job was ended.")
        helper = self._begin()
        try:
            result, error = _converse(helper.connection, (processor_seconds, *job), answer)
        except BaseException as error:  # such as one of `answer`, while the process waits for it
            self.kill()
            helper.connection.close()
            if isinstance(error, EOFError | OSError):
                raise HelperDied("This took too much time or memory.") from None
            raise
        with self._lock:
            self._helper = None
        self._helpers._give_back(helper)
        if error:
            raise error
        return result

    def _begin(self) -> "_Helper":
        try:
            helper = self._helpers._take()
        except (OSError, EOFError):
            raise HelperDied("The server is ending.") from None
        with self._lock:
            if not self._killed:
                self._helper = helper
                return helper
        self._helpers._give_back(helper)
        raise HelperDied("The job was ended.")

    def kill(self) -> None:
        """End it now, also if it has not begun."""
        with self._lock:
            self._killed = True
            if self._helper:
                self._helpers._kill(self._helper)
                self._helper = None


def _converse(connection: Connection, job: tuple[Any, ...], answer: Ask) -> tuple[Any, BaseException | None]:
    """Give a job to a process, answer what it asks, and return its result or its error."""
    connection.send(job)
    while True:
        kind, *content = connection.recv()
        if kind == "asks":
            connection.send(answer(*content))
            continue
        result, error, where = content
        if error:
            error.where = where
        return result, error


def _fork_on_demand(control: socket.socket, work: Callable[..., Any], memory: int | None, nice: int) -> NoReturn:
    """Fork a process for each connection that comes, and kill those that are named, until nobody is there any more."""
    try:
        _leave_all_behind(control.fileno())
        os.nice(nice)
        gc.freeze()  # what is shared with the process before need not be looked through
        alive: set[int] = set()
        while True:
            content, connections, _, _ = socket.recv_fds(control, 1 + _PID.size, 1)
            if not content:
                break
            while alive and (process := os.waitpid(-1, os.WNOHANG)[0]):
                alive.discard(process)
            if content[:1] == _KILL:
                (process,) = _PID.unpack(content[1:])
                if process in alive:  # numbers of processes that have ended are given to others
                    os.kill(process, signal.SIGKILL)
                continue
            process = os.fork()
            if not process:
                control.close()
                _take_jobs(Connection(connections[0]), work, memory)
            alive.add(process)
            os.close(connections[0])
            control.send(_PID.pack(process))
    finally:
        os.killpg(0, signal.SIGKILL)


def _leave_all_behind(kept: int) -> None:
    """Become independent of the process that this one was forked from: of its group, its signals and its files."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor != kept:
            with suppress(OSError):
                os.close(descriptor)


def _take_jobs(connection: Connection, work: Callable[..., Any], memory: int | None) -> NoReturn:
    try:
        _use_one_thread()
        if memory is not None:
            _limit_memory(memory)
        while True:
            processor_seconds, *job = connection.recv()
            _limit_time(processor_seconds)
            connection.send(("done", *_result(work, connection, job)))
            release_memory()
    finally:
        os._exit(0)


def _result(work: Callable[..., Any], connection: Connection, job: list[Any]) -> tuple[Any, BaseException | None, str]:
    """The result of a job, or its error and where that was."""

    def ask(*question: Any) -> Any:
        connection.send(("asks", *question))
        return connection.recv()

    try:
        return work(ask, *job), None, ""
    except MemoryError:
        return None, HelperDied("This took too much memory."), ""
    except DragomanError as error:
        return None, error, ""
    except Exception as error:  # which may hold what cannot be sent
        where = "".join(traceback.format_tb(error.__traceback__))
        return None, RuntimeError(type(error).__name__), where


def _limit_time(seconds: int | None) -> None:
    """Let this process be killed when it has computed for so many seconds more."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    limit = hard if seconds is None else int(time.process_time()) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))
