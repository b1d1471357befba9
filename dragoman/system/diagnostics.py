"""Is this machine ready? Each check finds something and says what to type if it is not as it should be. Offline."""

import importlib.metadata
import os
import platform
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.system import resources
from dragoman.terminal.figures import size

OLDEST_PYTHON = (3, 11)
MEMORY = 2_000_000_000
"""Bytes of RAM: training a `tiny` model takes 0.7 GB, scoring it some more for each core; the rest is room."""
DISK = 2_000_000_000
"""Bytes of disk: a run of a `small` model keeps two checkpoints and eight snapshots."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    found: str
    fix: str | None = None
    """What to type or do; None: it is as it should be."""


def examine(folder: Path) -> list[Check]:
    """All checks; `folder` is where runs will be written."""
    return [
        check_python(sys.version_info[:2]),
        *check_packages(),
        *check_torch(),
        check_memory(resources.memory_available()),
        check_disk(folder),
        check_encoding(sys.stdout.encoding),
        *check_extras(),
    ]


def check_python(version: tuple[int, int]) -> Check:
    """Whether it is new enough."""
    wanted = ".".join(map(str, OLDEST_PYTHON))
    fix = (
        None
        if version >= OLDEST_PYTHON
        else f"install Python {wanted} or newer, then: make install PYTHON=python{wanted}"
    )
    return Check("Python", f"{'.'.join(map(str, version))} on {platform.system()} {platform.machine()}", fix)


def check_packages() -> Iterator[Check]:
    """The packages that Dragoman cannot do without, each at least as new as it has to be."""
    wrong = [requirement for requirement in requirements() if not requirement.met()]
    if wrong:
        found = ", ".join(f"{each.name} {each.installed() or 'is missing'}" for each in wrong)
        yield Check("packages", found, pip(*map(str, wrong)))
    else:
        yield Check("packages", "all there")


def check_torch() -> Iterator[Check]:
    """PyTorch: whether it loads, its build, its threads, its precision."""
    try:
        import torch
    except (ImportError, OSError) as error:
        reason = str(error).split("\n")[0]
        yield Check("PyTorch", f"does not load: {reason}", install_torch("cuda" if has_nvidia_driver() else "cpu"))
        return
    from dragoman.system.device import choose_device, choose_precision

    device = choose_device()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    yield check_build(torch.__version__, cuda=torch.version.cuda, gpu=name, driver=has_nvidia_driver())
    yield check_threads(torch.get_num_threads(), cores=resources.cores(), wanted=os.environ.get("OMP_NUM_THREADS"))
    precision = str(choose_precision("auto", device)).removeprefix("torch.")
    why = "multiplied by the hardware" if precision == "bfloat16" else "this hardware does not multiply bfloat16"
    yield Check("precision", f"{precision}: {why}")
    yield check_kernels()


def check_build(version: str, *, cuda: str | None, gpu: str | None, driver: bool) -> Check:
    """Whether the build of PyTorch fits the machine: `cuda` is its CUDA version, `gpu` the name of what it can use."""
    if gpu:
        return Check("PyTorch", f"{version} on {gpu}")
    if driver and not cuda:
        return Check("PyTorch", f"{version}, a build without CUDA beside an NVIDIA driver", install_torch("cuda"))
    if driver:
        return Check(
            "PyTorch",
            f"{version} for CUDA {cuda}, which finds no GPU it can use",
            f"renew the driver (`nvidia-smi` names the CUDA version it knows), or: {install_torch('cpu')}",
        )
    # A build for CUDA computes on a CPU as well: it only takes some gigabytes more of the disk.
    return Check("PyTorch", f"{version} on the CPU" + (f" (a build for CUDA {cuda})" if cuda else ""))


def check_threads(threads: int, *, cores: int, wanted: str | None) -> Check:
    """As many threads as cores: more wait for each other, fewer leave cores idle; `wanted` is OMP_NUM_THREADS."""
    found = f"{threads} for {cores} core{'s' if cores > 1 else ''}"
    if threads > cores:
        return Check("threads", found, f"export OMP_NUM_THREADS={cores}")
    if threads < cores and wanted:
        return Check("threads", f"{found}, since OMP_NUM_THREADS is {wanted}", "unset OMP_NUM_THREADS")
    return Check("threads", found)


def check_kernels() -> Check:
    """Whether those of CPUs were compiled; nothing is wrong without them."""
    from dragoman.model import kernels

    if kernels.compiled():
        return Check("kernels", "compiled")
    again = "make clean, make install" if in_checkout() else pip("--force-reinstall", "--no-deps", "dragoman")
    how = f"not compiled, so that translating on a CPU takes longer; with a C compiler: {again}"
    return Check("kernels", how)


def check_memory(available: int | None) -> Check:
    """Whether a small model can be trained in it."""
    if available is None:
        return Check("memory", "unknown on this system")
    if available < MEMORY:
        fix = f"close other programs until {size(MEMORY)} are available, or: --size tiny training.max_tokens=1024"
        return Check("memory", f"{size(available)} available", fix)
    return Check("memory", f"{size(available)} available")


def check_disk(folder: Path) -> Check:
    """Whether runs have room in a folder, and may be written there."""
    free = shutil.disk_usage(folder).free
    if not os.access(folder, os.W_OK):
        return Check("disk", f"{folder} may not be written to", "cd to a folder of yours, or give --output")
    fix = None if free >= DISK else f"make room for {size(DISK)}, or give --output on another disk"
    return Check("disk", f"{size(free)} free in {folder}", fix)


def check_encoding(encoding: str | None) -> Check:
    """Whether translations can be printed in any script."""
    found = (encoding or "none").lower()
    return Check("text", found, None if found.replace("-", "") == "utf8" else "export PYTHONUTF8=1")


def check_extras() -> Iterator[Check]:
    """What is optional, and how to get it; nothing is wrong if it is not there."""
    extras: dict[str, list[Requirement]] = {}
    for each in requirements(extras=True):
        extras.setdefault(each.extra, []).append(each)
    for extra, wanted in sorted(extras.items()):
        missing = [each.name for each in wanted if not each.met()]
        how = f"not installed ({', '.join(missing)}); if you want it: {install_extra(extra)}"
        yield Check(f"extra {extra}", how if missing else "installed")


@dataclass(frozen=True)
class Requirement:
    """`name>=floor`, the only form in our pyproject.toml, with the extra it belongs to, if any."""

    name: str
    floor: str
    extra: str

    def __str__(self) -> str:
        return f"{self.name}>={self.floor}" if self.floor else self.name

    def installed(self) -> str | None:
        """The version that is there."""
        try:
            return importlib.metadata.version(self.name)
        except importlib.metadata.PackageNotFoundError:
            return None

    def met(self) -> bool:
        """Whether it is there and new enough."""
        found = self.installed()
        return found is not None and _numbers(found) >= _numbers(self.floor)


def requirements(*, extras: bool = False) -> list[Requirement]:
    """What the installed package asks for: always, or for its extras."""
    try:
        lines = importlib.metadata.requires("dragoman") or []
    except importlib.metadata.PackageNotFoundError:
        return []  # run from its source, without having been installed
    form = re.compile(r"""([\w.-]+)(?:\[[^]]*\])?(?:>=([\w.]+))?(?:\s*;.*extra\s*==\s*["']([\w-]+)["'])?""")
    found = [Requirement(*(part or "" for part in form.match(line).groups())) for line in lines]
    return [each for each in found if bool(each.extra) == extras]


def pip(*what: str) -> str:
    """The command that installs something for the Python that runs this."""
    return shlex.join([sys.executable, "-m", "pip", "install", *what])


def install_extra(extra: str) -> str:
    """The command that installs what is optional, in a checkout the one of its Makefile."""
    return f"make install ARGS={extra}" if in_checkout() else pip(f"dragoman[{extra}]")


def install_torch(build: str) -> str:
    """The command that installs the `cpu` or the `cuda` build of PyTorch, in a checkout the one of its Makefile."""
    if in_checkout():
        return f"TORCH={build} make install"
    index = ["--index-url", "https://download.pytorch.org/whl/cpu"] if build == "cpu" else []
    return pip("--force-reinstall", "torch", *index)


def in_checkout() -> bool:
    return (Path(__file__).parents[2] / "tools" / "bootstrap.py").exists()


def has_nvidia_driver() -> bool:
    return bool(shutil.which("nvidia-smi")) or Path("/proc/driver/nvidia/version").exists()


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version.split("+")[0])]
