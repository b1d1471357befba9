"""Makes Dragoman believe that it runs on macOS or Windows, in every Python process that has this folder on its path.

DRAGOMAN_TEST_PLATFORM is `darwin` or `win32`. Modules of Dragoman get stand-ins of `os`, `sys` and others, which
lack what the platform lacks; its libraries, which are those of Linux, keep theirs. There is no /proc, and processes can
only be spawned. Windows also refuses to delete or to replace a file that is open or mapped, to rename over what is
there, and some letters in names; and descriptors have to be opened as binary.
"""

import builtins
import fcntl
import importlib.machinery
import multiprocessing.context
import os
import select
import shutil
import signal
import socket
import sys
import types

PLATFORM = os.environ["DRAGOMAN_TEST_PLATFORM"]
WINDOWS = PLATFORM == "win32"

# What Linux has alone, and then what Windows lacks as well.
FUNCTIONS = [
    "copy_file_range", "eventfd", "getrandom", "memfd_create", "pidfd_open", "posix_fadvise", "posix_fallocate",
    "sched_getaffinity", "sched_setaffinity", "setns", "splice", "unshare", "O_TMPFILE", "O_PATH", "O_DIRECT",
]  # fmt: skip
ONLY_POSIX = [
    "chown", "fchmod", "fchown", "fork", "forkpty", "getegid", "geteuid", "getgid", "getgroups", "getloadavg",
    "getpgid", "getpgrp", "getpriority", "getsid", "getuid", "initgroups", "killpg", "lchown", "mkfifo", "mknod",
    "nice", "openpty", "pread", "preadv", "pwrite", "pwritev", "readv", "sched_yield", "sendfile", "setpgid",
    "setpriority", "setsid", "setuid", "statvfs", "sync", "sysconf", "uname", "wait", "wait3", "wait4", "writev",
    "O_CLOEXEC", "O_DIRECTORY", "O_DSYNC", "O_NDELAY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC",
]  # fmt: skip
MODULES = ["crypt", "fcntl", "grp", "nis", "ossaudiodev", "pty", "pwd", "resource", "spwd", "syslog", "termios", "tty"]
SIGNALS = {"SIGINT", "SIGTERM", "SIGABRT", "SIGFPE", "SIGILL", "SIGSEGV"}
BINARY = 0x8000


class StandIn(types.ModuleType):
    """A module without some of its names, and with others instead."""

    def __init__(self, module: types.ModuleType, missing=(), **instead):
        super().__init__(module.__name__)
        vars(self).update(_module=module, _missing=frozenset(missing), _instead=instead)

    def __getattr__(self, name):
        if name in self._instead:
            return self._instead[name]
        if name in self._missing:
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}' on {PLATFORM}")
        return getattr(self._module, name)

    def __setattr__(self, name, value):
        setattr(self._module, name, value)


def import_there(name, globals_=None, locals_=None, from_list=(), level=0):
    """What `import` gives to a module of Dragoman."""
    if WINDOWS and name in MODULES:
        raise ModuleNotFoundError(f"No module named '{name}' on {PLATFORM}", name=name)
    if name in STAND_INS:
        return STAND_INS[name]
    module = builtins.__import__(name, globals_, locals_, from_list, level)
    return module if from_list else STAND_INS.get(module.__name__, module)


class Loader(importlib.machinery.SourceFileLoader):
    """Loads modules of Dragoman, which see another platform; nothing is kept of what is compiled."""

    def path_stats(self, path):
        raise OSError("there is no cache")

    def source_to_code(self, data, path, *, _optimize=-1):
        text = data.decode().replace('"/proc', '"/no/proc').replace('"/sys/', '"/no/sys/')
        return super().source_to_code(text.encode(), path, _optimize=_optimize)

    def exec_module(self, module):
        vars(module)["__builtins__"] = vars(builtins) | {"__import__": import_there}
        super().exec_module(module)


class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.split(".")[0] != "dragoman":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


def get_context(method=None):
    if method in ("fork", "forkserver"):
        raise ValueError(f"cannot find context for {method!r}")
    return multiprocessing.get_context("spawn")


def be_like_windows() -> None:
    """Have files behave as those of Windows, for whoever touches them."""
    shutil._use_fd_functions = False
    here = os.path.dirname(os.path.abspath(__file__))
    listdir, readlink = os.listdir, os.readlink

    def in_use(path):
        """Whether this process has a file open, or mapped, or one below a folder."""
        path = os.path.realpath(path)
        names = []
        for number in listdir("/proc/self/fd"):
            try:
                names.append(readlink(f"/proc/self/fd/{number}"))
            except OSError:
                continue
        with open("/proc/self/maps") as maps:
            names += [line.split(maxsplit=5)[5].strip() for line in maps if line.count(" ") > 5 and "/" in line]
        return any(name == path or name.startswith(path + os.sep) for name in names)

    def refusing(function, *, over=False, target=False):
        def call(path, *more, **others):
            for each in (path, *more[:1] * target):
                if in_use(each):
                    raise PermissionError(13, "The process cannot access the file because it is being used", str(each))
            if over and os.path.lexists(more[0]):
                raise FileExistsError(17, "Cannot create a file when that file already exists", str(more[0]))
            return function(path, *more, **others)

        return call

    os.unlink = os.remove = refusing(os.unlink)
    os.rmdir = refusing(os.rmdir)
    os.rename = refusing(os.rename, over=True)
    os.replace = refusing(os.replace, target=True)

    def hear(event, arguments):
        if event not in ("open", "os.mkdir", "os.rename") or not isinstance(arguments[0], str):
            return
        name = os.path.basename(arguments[event == "os.rename"])
        writes = event != "open" or (isinstance(arguments[1], str) and arguments[1][:1] in "wax")
        if writes and here not in arguments[0] and set(name) & set('<>:"|?*\\'):
            raise OSError(22, "The filename, directory name, or volume label syntax is incorrect", name)

    sys.addaudithook(hear)


def open_binary(path, flags, *more, **others):
    if path != os.devnull and not flags & BINARY:
        raise AssertionError(f"{path} is opened as text")
    return os.open(path, flags & ~BINARY, *more, **others)


def select_sockets(read, write, error, *timeout):
    for each in (*read, *write, *error):
        if not isinstance(each, socket.socket):
            raise OSError(10038, "An operation was attempted on something that is not a socket")
    return select.select(read, write, error, *timeout)


def lock_byte(descriptor, mode, size):
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


STAND_INS = {
    "sys": StandIn(sys, platform=PLATFORM),
    "os": StandIn(os, FUNCTIONS),
    "multiprocessing": StandIn(multiprocessing, get_context=get_context),
}
if WINDOWS:
    signals = {name for name in vars(signal) if name.startswith("SIG") and name.isupper()} - SIGNALS
    STAND_INS |= {
        "os": StandIn(os, FUNCTIONS + ONLY_POSIX, name="nt", O_BINARY=BINARY, open=open_binary),
        "signal": StandIn(signal, {*signals, "alarm", "pause", "pthread_sigmask", "setitimer", "sigwait"}),
        "socket": StandIn(socket, ["AF_UNIX", "SOCK_SEQPACKET", "recv_fds", "send_fds"]),
        "select": StandIn(select, ["poll", "epoll"], select=select_sockets),
        "msvcrt": StandIn(types.ModuleType("msvcrt"), locking=lock_byte, LK_NBLCK=2),
    }
    be_like_windows()
multiprocessing.set_start_method("spawn")
sys.meta_path.insert(0, Finder)
