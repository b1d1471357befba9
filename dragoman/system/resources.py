"""Cores and memory that the operating system grants, within the limits of a container. Knows nothing of GPUs.

Reads Linux's /proc and control groups. Elsewhere, figures that are unknown are None or 0.
"""

import ctypes
import gc
import multiprocessing
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dragoman.errors import UsageError

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


def cores() -> int:
    """Number of cores that this process may keep busy: those it is bound to, or fewer if its container has a quota."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([bound, *_quotas()]))


def processor_has(flag: str) -> bool:
    """Whether Linux says that the processor has instructions of this name, such as avx2; False elsewhere."""
    flags = re.search(r"^flags\s*:(.*)$", _text(Path("/proc/cpuinfo")), re.MULTILINE)
    return flags is not None and flag in flags[1].split()


def started_together() -> tuple[int, int]:
    """Number of processes that torchrun or its like has started for this command: on all machines, and on this one."""
    return _number_of("WORLD_SIZE"), _number_of("LOCAL_WORLD_SIZE")


def _number_of(variable: str) -> int:
    """The number in a variable of the environment, 1 if it is empty. Raises `UsageError` if it is no number."""
    value = os.environ.get(variable) or "1"
    if not value.isdecimal() or not int(value):
        raise UsageError(f"{variable} is '{value}' in the environment, and no number of processes; unset it.")
    return int(value)


def memory_in_use() -> int:
    """Bytes of RAM that this process and its workers hold, shared pages counted once; 0 if unknown."""
    processes = [os.getpid(), *(worker.pid for worker in multiprocessing.active_children())]
    return 1024 * sum(_table(PROC / str(process) / "smaps_rollup").get("Pss:", 0) for process in processes)


def release_memory() -> None:
    """Give memory that is no longer in use back to the system. glibc would keep it; other C libraries do not."""
    gc.collect()
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def memory_available() -> int | None:
    """Bytes of RAM that can still be had, on the machine and within the limit of a container."""
    available = []
    kilobytes = _table(PROC / "meminfo").get("MemAvailable:")
    if kilobytes is not None:
        available.append(kilobytes * 1024)
    for group in _groups("memory"):
        for limit_file, used_file, cache_name in (
            ("memory.max", "memory.current", "inactive_file"),  # version 2 of control groups
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),  # version 1
        ):
            limit, used = _number(_text(group / limit_file)), _number(_text(group / used_file))
            if limit is not None and used is not None:
                # Cached files count as used, but the system drops them when memory is asked for.
                cache = _table(group / "memory.stat").get(cache_name, 0)
                available.append(max(0, limit - used + cache))
    return min(available, default=None)


def _quotas() -> Iterator[int]:
    """Number of whole cores that each control group around this process may use, if it has a quota."""
    for group in _groups("cpu"):
        fields = _text(group / "cpu.max").split()
        if not fields:  # version 1 of control groups
            fields = [_text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us")]
        quota, period = map(_number, fields)
        if quota and period:
            yield quota // period


def _groups(controller: str) -> Iterator[Path]:
    """The control groups of this process for `controller`, from its own outwards (cgroups(7): versions 2 and 1)."""
    for line in _text(PROC / "self/cgroup").split("\n"):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if line and (not controllers or controller in controllers.split(",")):
            root = CGROUPS / controller if controllers else CGROUPS
            innermost = root / path.lstrip("/")
            yield innermost
            yield from (group for group in innermost.parents if group.is_relative_to(root))


def _table(file: Path) -> dict[str, int]:
    """The numbers of a file with lines of `name number ...`, by their names."""
    table = {}
    for line in _text(file).split("\n"):
        words = line.split()
        if len(words) > 1 and words[1].isdecimal():
            table[words[0]] = int(words[1])
    return table


def _number(text: str) -> int | None:
    """The number, or None where there is no limit, which is written as `max` or -1."""
    return int(text) if text.strip().isdecimal() else None


def _text(file: Path) -> str:
    """The text of a file; empty if it cannot be read, as on other systems."""
    try:
        return file.read_text()
    except OSError:
        return ""
