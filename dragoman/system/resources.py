"""What the operating system grants: cores and memory, within the limits of a container. Knows nothing of GPUs.

Reads Linux's /proc and control groups; elsewhere the figures that are unknown are None or 0.
"""

import ctypes
import gc
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


def cores() -> int:
    """Cores that this process may keep busy: those it is bound to, or fewer where a container has a quota."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([bound, *_quotas()]))


def started_together() -> tuple[int, int]:
    """Processes that torchrun or its like has started for this command, on all machines and on this one."""
    everywhere, here = (int(os.environ.get(name, 1)) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    return everywhere, here


def memory_in_use() -> int:
    """Bytes of RAM that this process and its workers hold, shared pages counted once; 0 if unknown."""
    processes = [os.getpid(), *(worker.pid for worker in multiprocessing.active_children())]
    return 1024 * sum(_table(PROC / str(process) / "smaps_rollup").get("Pss:", 0) for process in processes)


def release_memory() -> None:
    """Give memory that is no longer in use back to the system, where the C library is glibc, which would keep it."""
    gc.collect()
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def memory_available() -> int | None:
    """Bytes of RAM that can still be had, on the machine and within the limit of a container."""
    on_machine = _table(PROC / "meminfo").get("MemAvailable:")
    limits = [] if on_machine is None else [on_machine * 1024]
    for group in _groups("memory"):
        for limit, used, cache in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            most, now = _number(_text(group / limit)), _number(_text(group / used))
            if most is not None and now is not None:
                # Files that were read count as used, but are given up when memory is asked for.
                limits.append(max(0, most - now + _table(group / "memory.stat").get(cache, 0)))
    return min(limits, default=None)


def _quotas() -> Iterator[int]:
    """Whole cores whose time each control group around this process may use."""
    for group in _groups("cpu"):
        version_1 = group / "cpu.cfs_quota_us", group / "cpu.cfs_period_us"
        quota, period = map(_number, _text(group / "cpu.max").split() or map(_text, version_1))
        if quota and period:
            yield quota // period


def _groups(controller: str) -> Iterator[Path]:
    """The control groups of this process for `controller`, from its own outwards (cgroups(7): versions 2 and 1)."""
    for line in _text(PROC / "self/cgroup").split("\n"):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if line and (not controllers or controller in controllers.split(",")):
            root = CGROUPS / controller if controllers else CGROUPS
            own = root / path.lstrip("/")
            yield own
            yield from (each for each in own.parents if each.is_relative_to(root))


def _table(file: Path) -> dict[str, int]:
    """The lines `name number ...` of a file."""
    words = (line.split() for line in _text(file).split("\n"))
    return {each[0]: int(each[1]) for each in words if len(each) > 1 and each[1].isdecimal()}


def _number(text: str) -> int | None:
    """The number, or None where there is no limit, which is written as `max` or -1."""
    return int(text) if text.strip().isdecimal() else None


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
