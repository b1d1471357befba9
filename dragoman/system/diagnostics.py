"""Checks of whether this machine is ready. Each one that fails says what to type. Opens no connection."""

import importlib.metadata
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.errors import quoted
from dragoman.system import resources
from dragoman.system.figures import size
from dragoman.system.optional import is_installed, requirements

if TYPE_CHECKING:
    from packaging.requirements import Requirement

MEMORY = 2_000_000_000
"""Bytes of RAM that should be available. Training a `tiny` model takes 0.7 GB, and scoring it more for each core."""
DISK = 2_000_000_000
"""Bytes that should be free on the disk. A run of a `small` model keeps two checkpoints and eight snapshots."""


@dataclass(frozen=True)
class Diagnosis:
    """The result of one check."""

    name: str
    found: str
    """The state of what was checked, such as "2.8.0 on the CPU"."""
    fix: str | None = None
    """The command to type, or other advice; None if nothing is wrong."""


def examine(folder: Path) -> list[Diagnosis]:
    """Results of all checks. `folder` is where runs will be written."""
    return [
        Diagnosis("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        *check_torch(),
        check_memory(resources.memory_available()),
        check_disk(folder),
        check_encoding(sys.stdout.encoding),
        *check_packages(),
    ]


def check_torch() -> Iterator[Diagnosis]:
    """Checks that PyTorch loads, and that its build, threads, precision and kernels fit the machine."""
    if not is_installed("torch"):
        yield Diagnosis("PyTorch", f"not installed; translating needs none, and to learn: {install_extra('train')}")
        yield check_kernels()
        return
    try:
        import torch
    except (ImportError, OSError) as error:
        reason = str(error).split("\n")[0]
        yield Diagnosis("PyTorch", f"does not load: {reason}", install_torch("cuda" if has_nvidia_driver() else "cpu"))
        return
    from dragoman.system.device import choose_device, choose_precision

    device = choose_device()
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    yield check_build(torch.__version__, cuda=torch.version.cuda, gpu=gpu, driver=has_nvidia_driver())
    yield check_threads(torch.get_num_threads(), cores=resources.cores(), wanted=os.environ.get("OMP_NUM_THREADS"))
    yield Diagnosis("precision", str(choose_precision("auto", device)).removeprefix("torch."))
    yield check_kernels()


def check_build(version: str, *, cuda: str | None, gpu: str | None, driver: bool) -> Diagnosis:
    """Checks that the build of PyTorch fits the machine.

    `cuda` is the CUDA version that it was built for, `gpu` the name of the GPU that it can use, and `driver` tells
    whether there is a driver of NVIDIA.
    """
    if gpu:
        return Diagnosis("PyTorch", f"{version} on {gpu}")
    if driver and not cuda:
        return Diagnosis("PyTorch", f"{version}, a build without CUDA beside an NVIDIA driver", install_torch("cuda"))
    if driver:
        return Diagnosis(
            "PyTorch",
            f"{version} for CUDA {cuda}, which finds no GPU it can use",
            f"renew the driver (`nvidia-smi` names the CUDA version it knows), or: {install_torch('cpu')}",
        )
    # A build for CUDA computes on a CPU as well; it only takes some gigabytes more of the disk.
    built_for = f" (a build for CUDA {cuda})" if cuda else ""
    return Diagnosis("PyTorch", f"{version} on the CPU{built_for}")


def check_threads(threads: int, *, cores: int, wanted: str | None) -> Diagnosis:
    """Checks that there are as many threads as cores: more wait for each other, fewer leave cores idle.

    `wanted` is the value of OMP_NUM_THREADS.
    """
    counts = f"{threads} for {cores} core{'s' if cores > 1 else ''}"
    if threads > cores:
        return Diagnosis("threads", counts, set_variable("OMP_NUM_THREADS", str(cores)))
    if threads < cores and wanted:
        state = f"{counts}, since OMP_NUM_THREADS is {wanted}"
        return Diagnosis("threads", state, set_variable("OMP_NUM_THREADS", None))
    return Diagnosis("threads", counts)


def check_kernels() -> Diagnosis:
    """Tells whether the kernels for CPUs were compiled. Translating works without them, and takes longer."""
    from dragoman.native import library

    if library.compiled():
        return Diagnosis("kernels", "compiled")
    cost = "not compiled, so that translating on a CPU takes three times as long"
    if sys.platform == "win32":
        return Diagnosis("kernels", f"{cost}; they are for Linux and macOS")
    return Diagnosis("kernels", f"{cost}; with a C compiler, such as gcc: {install_again()}")


def check_memory(available: int | None) -> Diagnosis:
    """Checks that a small model can be trained in this many bytes."""
    if available is None:
        return Diagnosis("memory", "unknown on this system")
    fix = f"close other programs until {size(MEMORY)} are available, or: --size tiny training.max_tokens=1024"
    return Diagnosis("memory", f"{size(available)} available", fix if available < MEMORY else None)


def check_disk(folder: Path) -> Diagnosis:
    """Checks that runs may be written to a folder, and that its disk has room for one."""
    free = shutil.disk_usage(folder).free
    if not os.access(folder, os.W_OK):
        return Diagnosis("disk", f"{folder} may not be written to", "cd to a folder of yours, or give --output")
    fix = None if free >= DISK else f"make room for {size(DISK)}, or give --output on another disk"
    return Diagnosis("disk", f"{size(free)} free in {folder}", fix)


def check_encoding(encoding: str | None) -> Diagnosis:
    """Checks that translations can be printed in any script."""
    name = (encoding or "none").lower()
    fix = None if name.replace("-", "") == "utf8" else set_variable("PYTHONUTF8", "1")
    return Diagnosis("text", name, fix)


def check_packages() -> Iterator[Diagnosis]:
    """Checks that the packages which Dragoman always needs are installed and new enough, and tells which extras are."""
    dragoman = _distribution("dragoman")
    if dragoman is None:  # a source tree without an installation
        return
    if find_spec("packaging") is None:  # it comes with matplotlib, and compares the versions of the others
        yield Diagnosis("packages", "packaging is missing", pip("packaging"))
        return
    problems = unmet(dragoman.requires)
    if problems:
        listed = ", ".join(f"{requirement.name} {version or 'is missing'}" for requirement, version in problems)
        fix = pip(*(f"{requirement.name}{requirement.specifier}" for requirement, _ in problems))
        yield Diagnosis("packages", listed, fix)
    else:
        yield Diagnosis("packages", "all there")
    for extra in sorted(dragoman.metadata.get_all("Provides-Extra", [])):
        missing = ", ".join(requirement.name for requirement, _ in unmet(dragoman.requires, extra))
        state = f"not installed ({missing}); if you want it: {install_extra(extra)}" if missing else "installed"
        yield Diagnosis(f"extra {extra}", state)


def unmet(lines: Iterable[str], extra: str = "") -> list[tuple["Requirement", str | None]]:
    """Requirements that no installed package meets, each with the version that is installed instead, if any.

    `lines` are those of a `Requires-Dist` (PEP 508). Those of the extra count, too.
    """
    from packaging.requirements import Requirement

    unmet = []
    for requirement in map(Requirement, lines):
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        package = _distribution(requirement.name)
        version = package.version if package else None
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            unmet.append((requirement, version))
    return unmet


def _distribution(name: str) -> importlib.metadata.Distribution | None:
    """The installed package of this name, or None."""
    return next(iter(importlib.metadata.distributions(name=name)), None)


def pip(*arguments: str) -> str:
    """The command `pip install` with these arguments, for the Python that runs this."""
    return quoted(sys.executable, "-m", "pip", "install", *arguments)


def set_variable(name: str, value: str | None) -> str:
    """The command that sets an environment variable in the shell at hand, or deletes it if the value is None."""
    if sys.platform == "win32":  # in PowerShell
        return f"Remove-Item Env:{name}" if value is None else f'$env:{name} = "{value}"'
    return f"unset {name}" if value is None else f"export {name}={value}"


def install_extra(extra: str) -> str:
    """The command that installs an extra, by the Makefile in a checkout, else by pip."""
    return f"make install ARGS={extra}" if in_checkout() else pip(*requirements(extra))


def install_again() -> str:
    """The command that builds this package again from where it was installed from."""
    if in_checkout():
        return "make clean, make install"
    dragoman = _distribution("dragoman")
    origin = json.loads((dragoman and dragoman.read_text("direct_url.json")) or "{}")  # PEP 610
    if "vcs_info" in origin:
        source = f"{origin['vcs_info']['vcs']}+{origin['url']}"
    elif "dir_info" in origin:
        source = origin["url"]
    else:
        return "install a wheel that was built where there is one"
    return pip("--force-reinstall", "--no-deps", "--no-cache-dir", source)


def install_torch(build: str) -> str:
    """The command that installs the `cpu` or `cuda` build of PyTorch, by the Makefile in a checkout, else by pip."""
    if in_checkout():
        return f"TORCH={build} make install"
    index = ["--index-url", "https://download.pytorch.org/whl/cpu"] if build == "cpu" else []
    return pip("--force-reinstall", "torch", *index)


def in_checkout() -> bool:
    """Whether this runs from a clone, and there are Makefiles on this system."""
    return sys.platform != "win32" and (Path(__file__).parents[2] / "tools" / "bootstrap.py").exists()


def has_nvidia_driver() -> bool:
    """Whether a driver of NVIDIA is installed, as far as can be seen without loading it."""
    return bool(shutil.which("nvidia-smi")) or Path("/proc/driver/nvidia/version").exists()
