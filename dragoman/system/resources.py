"""What the operating system grants: cores and memory, within the limits of a container. Knows nothing of GPUs.

Reads Linux's /proc and control groups; elsewhere the figures that are unknown are None.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


def cores() -> int:
    """Cores that this process may keep busy: those it is bound to, or fewer where a container has a quota."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([bound, *map(math.floor, _quotas())]))


def memory_in_use() -> int | None:
    """Bytes of RAM that this process and its children hold, shared pages counted once.

    Alone, a process knows its size at once; with forked children the kernel has to go through their pages.
    """
    own = os.getpid()
    children = list(_descendants(own))
    try:
        if not children:
            return int((PROC / str(own) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return sum(_proportional_share(process) for process in [own, *children])
    except (OSError, ValueError, IndexError):
        return None


def memory_available() -> int | None:
    """Bytes of RAM that can still be had, on the machine and within the limit of a container."""
    on_machine = _table(PROC / "meminfo").get("MemAvailable:")
    limits = [] if on_machine is None else [on_machine * 1024]
    for group in _groups("memory"):
        for limit, used, cache in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            most, now = _number(group / limit), _number(group / used)
            if most is not None and now is not None:
                # Files that were read count as used, but are given up when memory is asked for.
                limits.append(max(0, most - now + _table(group / "memory.stat").get(cache, 0)))
    return min(limits, default=None)


def _quotas() -> Iterator[float]:
    """Cores' worth of time that each control group around this process may use."""
    for group in _groups("cpu"):
        quota, period = _number(group / "cpu.cfs_quota_us"), _number(group / "cpu.cfs_period_us")
        if quota is None:
            quota, period = [*map(_whole, _text(group / "cpu.max").split()), None, None][:2]
        if quota and period and quota > 0:
            yield quota / period


def _groups(controller: str) -> Iterator[Path]:
    """The control groups of this process for `controller`, from its own outwards (cgroups(7): versions 2 and 1)."""
    for line in _text(PROC / "self/cgroup").split("\n"):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if line and (not controllers or controller in controllers.split(",")):
            root = CGROUPS / controller if controllers else CGROUPS
            own = root / path.lstrip("/")
            yield own
            yield from (each for each in own.parents if each.is_relative_to(root))


def _descendants(process: int) -> Iterator[int]:
    for file in (PROC / str(process) / "task").glob("*/children"):
        for child in map(int, _text(file).split()):
            yield child
            yield from _descendants(child)


def _proportional_share(process: int) -> int:
    """What a process holds alone, and its share of what it shares; 0 if it has ended."""
    return _table(PROC / str(process) / "smaps_rollup").get("Pss:", 0) * 1024


def _table(file: Path) -> dict[str, int]:
    """The lines `name number ...` of a file."""
    words = (line.split() for line in _text(file).split("\n"))
    return {each[0]: int(each[1]) for each in words if len(each) > 1 and each[1].isdecimal()}


def _number(file: Path) -> int | None:
    return _whole(_text(file).strip())


def _whole(text: str) -> int | None:
    """The number, or None for what is none, such as the `max` of a group without limit."""
    return int(text) if text.removeprefix("-").isdecimal() else None


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
