"""What Dragoman costs besides time: memory of a command with all its processes, and time to import.

    .venv/bin/python benchmarks/resources.py memory dragoman translate MODEL --input FILE --output OUT
    .venv/bin/python benchmarks/resources.py imports

Memory is read from /proc (Linux) every 50 ms: the sum over the processes of their proportional set sizes, in which
a page that several share counts once. Other programs that have the same libraries open lower it: measure alone.
"""

import os
import statistics
import subprocess
import sys
import time

IMPORTS = {
    "python alone": "pass",
    "import torch": "import torch",
    "import dragoman": "import dragoman",
    "from dragoman import Transformer": "from dragoman import Transformer",
    "from dragoman import Transformer, Translator": "from dragoman import Transformer, Translator",
    "dragoman --help": "import sys; sys.argv = ['dragoman', '--help']; from dragoman.cli import main; main()",
}


def memory(command: list[str]) -> int:
    """Run a command and print its peak memory in MB; returns its exit code."""
    process = subprocess.Popen(command)
    print(f"peak memory {peak_memory(process):,.0f} MB: {' '.join(command[:3])}", file=sys.stderr)
    return process.returncode


def peak_memory(process: subprocess.Popen, interval: float = 0.05) -> float:
    """Wait for a process and return the peak memory in MB of it and its descendants, read every `interval` seconds."""
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(_proportional_kilobytes, _family(process.pid))))
        time.sleep(interval)
    return peak / 1024


def imports(rounds: int = 11) -> None:
    """Print medians of the wall-clock time of fresh interpreters, in turn."""
    times: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for _ in range(rounds):
        for name, code in IMPORTS.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
            times[name].append(time.perf_counter() - started)
    for name, values in times.items():
        print(f"{name:46} {statistics.median(values):6.2f} s   ({min(values):.2f} to {max(values):.2f})")


def _family(pid: int) -> list[int]:
    processes = [pid]
    for process in processes:
        try:
            with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as file:
                processes += map(int, file.read().split())
        except OSError:
            continue
    return processes


def _proportional_kilobytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    except OSError:
        return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["memory"]:
        sys.exit(memory(sys.argv[2:]))
    if sys.argv[1:2] == ["imports"]:
        os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
        imports()
    else:
        sys.exit(__doc__)
