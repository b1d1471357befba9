"""Cores and memory as Linux tells them, from folders that stand for /proc and /sys/fs/cgroup."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.errors import ResourceError, UsageError
from dragoman.system import resources
from dragoman.system.helpers import Helpers
from dragoman.system.resources import started_together
from tests.waiting import wait_until


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A function that writes the files of a system: path -> text."""
    monkeypatch.setattr(resources, "PROC", tmp_path / "proc")
    monkeypatch.setattr(resources, "CGROUPS", tmp_path / "cgroup")

    def write(files: dict[str, str]) -> None:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 7),
        ({"proc/self/cgroup": "0::/job\n", "cgroup/job/cpu.max": "max 100000\n"}, 7),
        ({"proc/self/cgroup": "0::/job\n", "cgroup/job/cpu.max": "350000 100000\n"}, 3),
        ({"proc/self/cgroup": "0::/a/b\n", "cgroup/a/cpu.max": "200000 100000\n", "cgroup/a/b/cpu.max": "max 1\n"}, 2),
        ({"proc/self/cgroup": "0::/host/path\n", "cgroup/cpu.max": "500000 100000\n"}, 5),  # as a container sees it
        ({"proc/self/cgroup": "0::/job\n", "cgroup/job/cpu.max": "50000 100000\n"}, 1),
        (
            {
                "proc/self/cgroup": "3:cpuset:/\n1:cpu,cpuacct:/job\n",
                "cgroup/cpu/job/cpu.cfs_quota_us": "400000\n",
                "cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
            },
            4,
        ),
        (
            {
                "proc/self/cgroup": "1:cpu:/\n",
                "cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            7,
        ),
    ],
)
def test_cores_follow_the_quota_of_a_container(files, cores, system, monkeypatch):
    system(files)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(7)), raising=False)
    assert resources.cores() == cores


@pytest.mark.parametrize(
    ("files", "available"),
    [
        ({}, None),
        ({"proc/meminfo": "MemTotal: 24000 kB\nMemAvailable:   17 kB\n"}, 17 * 1024),
        (
            {
                "proc/meminfo": "MemAvailable: 17 kB\n",
                "proc/self/cgroup": "0::/job\n",
                "cgroup/job/memory.max": "9000\n",
                "cgroup/job/memory.current": "5000\n",
                "cgroup/job/memory.stat": "anon 3000\ninactive_file 700\n",
            },
            4700,  # 9000 - 5000 + 700 of cached files
        ),
        (
            {
                "proc/meminfo": "MemAvailable: 17 kB\n",
                "proc/self/cgroup": "4:memory:/job\n",
                "cgroup/memory/job/memory.limit_in_bytes": "6000\n",
                "cgroup/memory/job/memory.usage_in_bytes": "7000\n",
                "cgroup/memory/job/memory.stat": "inactive_file 1\ntotal_inactive_file 400\n",
            },
            0,
        ),
    ],
)
def test_available_memory_is_the_least_that_machine_and_container_have(files, available, system):
    system(files)
    assert resources.memory_available() == available


WORKER = """
import multiprocessing
from dragoman.system.resources import memory_in_use

def work():
    more = bytearray(30_000_000)
    more[::4096] = b"x" * len(more[::4096])
    ready.set()
    measured.wait()

ballast = bytearray(80_000_000)
ballast[::4096] = b"x" * len(ballast[::4096])  # touched, so that it is there
alone = memory_in_use()
fork = multiprocessing.get_context("fork")
ready, measured = fork.Event(), fork.Event()
worker = fork.Process(target=work)
worker.start()
ready.wait()
print(alone, memory_in_use())
measured.set()
worker.join()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_in_use_is_that_of_all_processes_and_counts_shared_pages_once():
    out = subprocess.run([sys.executable, "-c", WORKER], capture_output=True, text=True, check=True).stdout
    alone, together = map(int, out.split())
    assert 80e6 < alone < 200e6
    # The child shares the first 80 MB and has 30 MB of its own.
    assert 20e6 < together - alone < 60e6


@pytest.mark.parametrize(("value", "told"), [("", None), ("2", None), ("x", "WORLD_SIZE is 'x'"), ("0", "is '0'")])
def test_an_environment_that_another_program_left_is_told_in_words(value, told, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", value)
    if told:
        with pytest.raises(UsageError, match=told):
            started_together()
    else:
        assert started_together()[0] == int(value or 1)


@pytest.mark.skipif(os.name != "posix", reason="forks")
@pytest.mark.parametrize("count", [1, 3])
def test_helpers_that_died_while_they_waited_are_replaced(count):
    """For want of memory, several may be killed."""
    helpers = Helpers(lambda ask, number: number + 1)
    helpers.start()
    try:
        idle = [helpers._take() for _ in range(count)]
        for helper in idle:
            helpers._give_back(helper)
            os.kill(helper.process, signal.SIGKILL)
        wait_until(lambda: all(_is_gone(helper.process) for helper in idle))
        assert helpers.job().run(2) == 3
    finally:
        helpers.close()


def _is_gone(process: int) -> bool:
    status = Path(f"/proc/{process}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] in "ZX"


@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_after_a_fork_that_failed_others_go_on(monkeypatch):
    fork, failures = os.fork, iter([OSError(11, "Resource temporarily unavailable")])
    helpers = Helpers(lambda ask, number: number + 1)

    def failing() -> int:
        if os.getpid() != here and (error := next(failures, None)):
            raise error
        return fork()

    here = os.getpid()
    monkeypatch.setattr(os, "fork", failing)
    helpers.start()
    try:
        with pytest.raises(ResourceError, match="No more processes can be started now"):
            helpers.job().run(1)
        assert helpers.job().run(1) == 2
    finally:
        helpers.close()
