"""Processes that do jobs one by one and may be killed at any time, such as for documents that strangers send."""

import gc
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from dragoman.errors import DragomanError, ResourceError
from dragoman.system.processes import limit_memory, limit_time, use_one_thread
from dragoman.system.resources import release_memory

Ask = Callable[..., Any]
"""Function by which a job asks the process that started it for something, such as translations."""
_PID = struct.Struct("i")
NO_PROCESS = 0
"""Number that says that no process could be forked."""
_NEW, _KILL = b"n", b"k"
"""Messages to the process that forks: fork another one for this connection; kill the one with this number."""


class HelperDied(ResourceError):
    """The process of a job was killed: by its limit of processor time, for want of memory, or by somebody."""


@dataclass(frozen=True)
class _Task:
    """Message to a process: call `work` with these arguments, within so many seconds of processor time."""

    arguments: tuple[Any, ...]
    processor_seconds: int | None


@dataclass(frozen=True)
class _Question:
    """Message from a process: call `answer` with these arguments, and send what it returns."""

    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class _Outcome:
    """Last message of a process about a task: what `work` returned or raised."""

    result: Any = None
    error: BaseException | None = None


class Helpers:
    """Processes that call `work(ask, *arguments)`. There are as many as jobs at the same time, kept for later jobs.

    They are forked from a process that itself is forked by `start`: a process with threads must not be forked, and one
    that is forked early holds no connections. Where there is no fork, and with `fork=False`, jobs run in the calling
    thread.
    """

    def __init__(
        self,
        work: Callable[..., Any],
        *,
        memory: int | None = None,
        nice: int = 0,
        fork: bool = sys.platform == "linux",
    ):
        """`memory` is the number of bytes that a process may take, and `nice` is added to its `nice` value."""
        self._work, self._memory, self._nice, self.fork = work, memory, nice, fork
        self._lock = threading.Lock()
        self._forking = threading.Lock()
        """Held while a process is forked, which takes long on a busy machine. Killing and giving back do not wait."""
        self._idle: list[_Helper] = []
        self._control: socket.socket | None = None
        self._forker = 0
        """Number of the process that forks the others. They are its process group."""
        self._closed = False

    def start(self) -> None:
        """Fork the process that forks the others; the first job does it otherwise."""
        with self._lock:
            if self.fork and self._control is None:
                # Packets, since bytes of two threads could be read as one message.
                self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                # A search for garbage writes to all objects that it looks through, and so copies the memory that the
                # processes share. What exists now is not looked through any more, here and in the other processes.
                gc.collect()
                gc.freeze()
                self._forker = os.fork()
                if self._forker == 0:
                    _fork_on_demand(theirs, self._work, self._memory, self._nice)
                theirs.close()
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
            with self._forking:  # a thread that waits for a new process has seen its end by now
                self._control.close()

    def _take(self) -> "_Helper":
        """A process that waits for a job. Raises `OSError` or `EOFError` if none can be forked any more, and
        `ResourceError` if none can now.
        """
        self.start()
        with self._lock:
            if self._closed:
                raise HelperDied("The server is ending.")
            if self._idle:
                return self._idle.pop()
        with self._forking:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                socket.send_fds(self._control, [_NEW], [theirs.fileno()])
                answer = self._control.recv(_PID.size)
                if not answer:
                    raise EOFError
                (process,) = _PID.unpack(answer)
                if process == NO_PROCESS:
                    raise ResourceError("No more processes can be started now; try again later.")
                return _Helper(process, Connection(ours.detach()))

    def _give_back(self, helper: "_Helper") -> None:
        with self._lock:
            if self._closed:
                helper.connection.close()
            else:
                self._idle.append(helper)

    def _kill(self, helper: "_Helper") -> None:
        with suppress(OSError):  # all have been killed already
            self._control.send(_KILL + _PID.pack(helper.process))


@dataclass(frozen=True)
class _Helper:
    """The number of a process, and the connection to it."""

    process: int
    connection: Connection


def _sent(helper: _Helper, task: Any) -> bool:
    """Send a task to a process; returns whether that is still there."""
    try:
        helper.connection.send(task)
    except OSError:
        return False
    return True


class Job:
    """A call of `work` in a process; it can be killed."""

    def __init__(self, helpers: Helpers):
        self._helpers, self._helper, self._killed = helpers, None, False
        self._lock = threading.Lock()

    def run(self, *arguments: Any, answer: Ask = lambda *_: None, processor_seconds: int | None = None) -> Any:
        """The result of `work(ask, *arguments)`, whose `ask` calls `answer` in this process.

        Raises what `work` raised, and `HelperDied`.
        """
        if not self._helpers.fork:
            return self._helpers._work(answer, *arguments)
        if self._killed:
            raise HelperDied("The job was ended.")
        helper, task = self._begin(), _Task(arguments, processor_seconds)
        try:
            while not _sent(helper, task):  # it has died while it had nothing to do
                helper.connection.close()
                helper = self._begin()
            outcome = _converse(helper.connection, answer)
        except BaseException as error:  # such as one of `answer`, while the process waits for it
            self.kill()
            helper.connection.close()
            if isinstance(error, EOFError | OSError):
                raise HelperDied("This took too much time or memory.") from None
            raise
        with self._lock:
            self._helper = None
        self._helpers._give_back(helper)
        if outcome.error:
            raise outcome.error
        return outcome.result

    def _begin(self) -> "_Helper":
        """A process for this job. Raises `HelperDied` if the job was killed before it began."""
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
        """Kill the process of the job now. A job that has not begun never begins."""
        with self._lock:
            self._killed = True
            if self._helper:
                self._helpers._kill(self._helper)
                self._helper = None


def _converse(connection: Connection, answer: Ask) -> _Outcome:
    """Answer the questions of a process that has a task, and return the outcome."""
    while True:
        message = connection.recv()
        if isinstance(message, _Outcome):
            return message
        connection.send(answer(*message.arguments))


def _fork_on_demand(control: socket.socket, work: Callable[..., Any], memory: int | None, nice: int) -> NoReturn:
    """Fork a process for each connection that comes, and kill those that are named, until the other end is closed."""
    try:
        _detach(control.fileno())
        os.nice(nice)
        alive: set[int] = set()
        while True:
            message, connections, _, _ = socket.recv_fds(control, 1 + _PID.size, 1)
            if not message:
                break
            _forget_ended(alive)
            if message[:1] == _KILL:
                (process,) = _PID.unpack(message[1:])
                if process in alive:
                    os.kill(process, signal.SIGKILL)
                continue
            try:
                process = os.fork()
            except OSError:  # such as too many processes: others may go on
                os.close(connections[0])
                control.send(_PID.pack(NO_PROCESS))
                continue
            if process == 0:
                control.close()
                _do_tasks(Connection(connections[0]), work, memory)
            alive.add(process)
            os.close(connections[0])
            control.send(_PID.pack(process))
    finally:
        os.killpg(0, signal.SIGKILL)


def _forget_ended(alive: set[int]) -> None:
    """Remove the child processes that have ended: the system may give their numbers to others."""
    while alive:
        process, _ = os.waitpid(-1, os.WNOHANG)
        if process == 0:
            break
        alive.discard(process)


def _detach(kept: int) -> None:
    """Become independent of the parent process: of its group, its signals, and its files but the descriptor `kept`."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor != kept:
            with suppress(OSError):
                os.close(descriptor)


def _do_tasks(connection: Connection, work: Callable[..., Any], memory: int | None) -> NoReturn:
    """Do the tasks that come over a connection, one after another, and end the process when it is closed."""
    try:
        use_one_thread()
        if memory is not None:
            limit_memory(memory)
        while True:
            task = connection.recv()
            seconds = task.processor_seconds
            limit_time(None if seconds is None else int(time.process_time()) + 1 + seconds)
            connection.send(_outcome(work, connection, task))
            release_memory()
    finally:
        os._exit(0)


def _outcome(work: Callable[..., Any], connection: Connection, task: _Task) -> _Outcome:
    """Call `work`, and keep what it returns or raises."""

    def ask(*question: Any) -> Any:
        connection.send(_Question(question))
        return connection.recv()

    try:
        return _Outcome(work(ask, *task.arguments))
    except MemoryError:
        return _Outcome(error=HelperDied("This took too much memory."))
    except DragomanError as error:
        return _Outcome(error=error)
    except Exception as error:  # it may hold objects that cannot be sent
        return _Outcome(error=RuntimeError(type(error).__name__))
