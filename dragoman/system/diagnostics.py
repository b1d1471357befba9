"""Checks whether this machine is ready; each one that fails says what to type. Opens no connection."""

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
from dragoman.system.optional import requirements

if TYPE_CHECKING:
    from packaging.requirements import Requirement

MEMORY = 2_000_000_000
"""Bytes of RAM. Training a `tiny` model takes 0.7 GB, and scoring it some more for each core."""
DISK = 2_000_000_000
"""Bytes of disk. A run of a `small` model keeps two checkpoints and eight snapshots."""


@dataclass(frozen=True)
class Diagnosis:
    """The result of one check."""

    name: str
    found: str
    fix: str | None = None
    """What to type or do; None if nothing is wrong."""


def examine(folder: Path) -> list[Diagnosis]:
    """All checks; `folder` is where runs will be written."""
    return [
        Diagnosis("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        *check_torch(),
        check_memory(resources.memory_available()),
        check_disk(folder),
        check_encoding(sys.stdout.encoding),
        *check_packages(),
    ]


def check_torch() -> Iterator[Diagnosis]:
    """Whether PyTorch loads, and its build, threads, precision and kernels fit the machine."""
    try:
        import torch
    except (ImportError, OSError) as error:
        reason = str(error).split("\n")[0]
        yield Diagnosis("PyTorch", f"does not load: {reason}", install_torch("cuda" if has_nvidia_driver() else "cpu"))
        return
    from dragoman.system.device import choose_device, choose_precision

    device = choose_device()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    yield check_build(torch.__version__, cuda=torch.version.cuda, gpu=name, driver=has_nvidia_driver())
    yield check_threads(torch.get_num_threads(), cores=resources.cores(), wanted=os.environ.get("OMP_NUM_THREADS"))
    yield Diagnosis("precision", str(choose_precision("auto", device)).removeprefix("torch."))
    yield check_kernels()


def check_build(version: str, *, cuda: str | None, gpu: str | None, driver: bool) -> Diagnosis:
    """Whether the build of PyTorch fits the machine.

    `cuda` is the CUDA version that it was built for, `gpu` the name of the GPU that it can use.
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
    return Diagnosis("PyTorch", f"{version} on the CPU" + (f" (a build for CUDA {cuda})" if cuda else ""))


def check_threads(threads: int, *, cores: int, wanted: str | None) -> Diagnosis:
    """Whether there are as many threads as cores: more wait for each other, fewer leave cores idle.

    `wanted` is the value of OMP_NUM_THREADS.
    """
    found = f"{threads} for {cores} core{'s' if cores > 1 else ''}"
    if threads > cores:
        return Diagnosis("threads", found, set_variable("OMP_NUM_THREADS", str(cores)))
    if threads < cores and wanted:
        return Diagnosis(
            "threads", f"{found}, since OMP_NUM_THREADS is {wanted}", set_variable("OMP_NUM_THREADS", None)
        )
    return Diagnosis("threads", found)


def check_kernels() -> Diagnosis:
    """Whether the kernels for CPUs were compiled. Without them, translating works and takes longer."""
    from dragoman.model.fast import library

    if library.compiled():
        return Diagnosis("kernels", "compiled")
    if sys.platform == "win32":
        return Diagnosis("kernels", "not compiled, as they are on Linux and macOS")
    slower = "not compiled, so that translating on a CPU takes 3.5 times as long"
    return Diagnosis("kernels", f"{slower}; with a C compiler, such as gcc: {install_again()}")


def check_memory(available: int | None) -> Diagnosis:
    """Whether a small model can be trained in this many bytes."""
    if available is None:
        return Diagnosis("memory", "unknown on this system")
    fix = f"close other programs until {size(MEMORY)} are available, or: --size tiny training.max_tokens=1024"
    return Diagnosis("memory", f"{size(available)} available", fix if available < MEMORY else None)


def check_disk(folder: Path) -> Diagnosis:
    """Whether runs may be written to a folder and have enough space there."""
    free = shutil.disk_usage(folder).free
    if not os.access(folder, os.W_OK):
        return Diagnosis("disk", f"{folder} may not be written to", "cd to a folder of yours, or give --output")
    fix = None if free >= DISK else f"make room for {size(DISK)}, or give --output on another disk"
    return Diagnosis("disk", f"{size(free)} free in {folder}", fix)


def check_encoding(encoding: str | None) -> Diagnosis:
    """Whether translations can be printed in any script."""
    found = (encoding or "none").lower()
    return Diagnosis("text", found, None if found.replace("-", "") == "utf8" else set_variable("PYTHONUTF8", "1"))


def check_packages() -> Iterator[Diagnosis]:
    """Whether the packages that Dragoman needs are installed and new enough: those of always, then those of extras."""
    about = _distribution("dragoman")
    if about is None:  # run from its source, without having been installed
        return
    if find_spec("packaging") is None:  # which comes with matplotlib, and judges the others
        yield Diagnosis("packages", "packaging is missing", pip("packaging"))
        return
    wrong = unmet(about.requires)
    found = ", ".join(f"{each.name} {version or 'is missing'}" for each, version in wrong)
    fix = pip(*(f"{each.name}{each.specifier}" for each, _ in wrong)) if wrong else None
    yield Diagnosis("packages", found or "all there", fix)
    for extra in sorted(about.metadata.get_all("Provides-Extra", [])):
        missing = ", ".join(each.name for each, _ in unmet(about.requires, extra))
        how = f"not installed ({missing}); if you want it: {install_extra(extra)}"
        yield Diagnosis(f"extra {extra}", how if missing else "installed")


def unmet(requirements: Iterable[str], extra: str = "") -> list[tuple["Requirement", str | None]]:
    """The requirements, with those of an extra, that no installed package meets; and the version that is installed."""
    from packaging.requirements import Requirement

    found = []
    for each in map(Requirement, requirements):
        needed = each.marker is None or each.marker.evaluate({"extra": extra})
        package = _distribution(each.name)
        if needed and (package is None or not each.specifier.contains(package.version, prereleases=True)):
            found.append((each, package and package.version))
    return found


def _distribution(name: str) -> importlib.metadata.Distribution | None:
    """A package, if it is installed."""
    return next(iter(importlib.metadata.distributions(name=name)), None)


def pip(*what: str) -> str:
    """The command that installs something for the Python that runs this."""
    return quoted(sys.executable, "-m", "pip", "install", *what)


def set_variable(name: str, value: str | None) -> str:
    """The command that sets a variable of the environment in the shell at hand, or deletes it."""
    if sys.platform == "win32":  # in PowerShell
        return f"Remove-Item Env:{name}" if value is None else f'$env:{name} = "{value}"'
    return f"unset {name}" if value is None else f"export {name}={value}"


def install_extra(extra: str) -> str:
    """The command that installs an extra; in a checkout, the one of its Makefile."""
    return f"make install ARGS={extra}" if in_checkout() else pip(*requirements(extra))


def install_again() -> str:
    """The command that builds this package again, from where it was installed from."""
    if in_checkout():
        return "make clean, make install"
    about = _distribution("dragoman")
    origin = json.loads((about and about.read_text("direct_url.json")) or "{}")  # PEP 610
    if "vcs_info" in origin:
        source = f"{origin['vcs_info']['vcs']}+{origin['url']}"
    elif "dir_info" in origin:
        source = origin["url"]
    else:
        return "install a wheel that was built where there is one"
    return pip("--force-reinstall", "--no-deps", "--no-cache-dir", source)


def install_torch(build: str) -> str:
    """The command that installs the `cpu` or the `cuda` build of PyTorch; in a checkout, the one of its Makefile."""
    if in_checkout():
        return f"TORCH={build} make install"
    index = ["--index-url", "https://download.pytorch.org/whl/cpu"] if build == "cpu" else []
    return pip("--force-reinstall", "torch", *index)


def in_checkout() -> bool:
    """Whether this runs from a clone, and there are Makefiles on this system."""
    return sys.platform != "win32" and (Path(__file__).parents[2] / "tools" / "bootstrap.py").exists()


def has_nvidia_driver() -> bool:
    return bool(shutil.which("nvidia-smi")) or Path("/proc/driver/nvidia/version").exists()
