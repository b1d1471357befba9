"""Python on an emulated AArch64 with all that translating needs, to try the engine's C for it on another processor.

    .venv/bin/python tools/emulate.py [--cpu cortex-a72] -- -m dragoman translate MODEL "The red house."

It needs Debian's packages `qemu-user` and `gcc-aarch64-linux-gnu`. Debian's Python, the wheels of the index and a copy
of the package with its library, compiled for AArch64, are put into build/aarch64. Emulation says what is computed, and
nothing of how long that takes. `max` has the dot product of eight bits, `cortex-a72` (a Raspberry Pi 4) has not.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "aarch64"
EMULATOR, COMPILER = "qemu-aarch64", "aarch64-linux-gnu-gcc"
CPUS = "max", "cortex-a72"
DEBIAN = (
    *("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libc6", "libgcc-s1", "libstdc++6"),
    *("zlib1g", "libexpat1", "libssl3", "libffi8", "libbz2-1.0", "liblzma5", "libuuid1", "libsqlite3-0"),
)
"""Packages of Debian 12 with Python and what it loads."""
PLATFORMS = "manylinux_2_17_aarch64", "manylinux2014_aarch64", "manylinux_2_28_aarch64", "manylinux_2_34_aarch64"
FETCHING = 600
"""Seconds in which packages have to be fetched and unpacked."""
SERVER = {"fastapi", "httptools", "prometheus-client", "python-multipart", "starlette", "uvicorn"}
"""Packages that translating without a server does without."""


class CannotEmulate(Exception):
    """Something that the emulation needs is not there; the message says what."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", choices=CPUS, default=CPUS[0])
    parser.add_argument("arguments", nargs="*", help="of Python")
    options = parser.parse_args()
    try:
        command, environment = emulated_python(options.cpu)
    except CannotEmulate as error:
        print(error, file=sys.stderr)
        return 4
    return subprocess.run([*command, *options.arguments], env=environment, cwd=FOLDER, check=False).returncode


def emulated_python(cpu: str) -> tuple[list[str], dict[str, str]]:
    """The command of Python on a processor, and its environment; prepares both where they are not there.

    Raises `CannotEmulate`.
    """
    for program in (EMULATOR, COMPILER, "apt-get", "dpkg"):
        if not shutil.which(program):
            raise CannotEmulate(f"There is no {program}: apt-get install qemu-user gcc-aarch64-linux-gnu (Debian 12).")
    try:
        _add_python(FOLDER / "root")
        _add_wheels(FOLDER / "site")
    except subprocess.CalledProcessError as error:
        raise CannotEmulate(f"`{' '.join(error.cmd)}` failed: {error.stderr.strip()[-500:]}") from error
    except subprocess.TimeoutExpired as error:
        raise CannotEmulate(f"`{' '.join(error.cmd)}` took more than {FETCHING} s.") from error
    _add_package(FOLDER / "package")
    environment = os.environ | {
        "PYTHONHOME": str(FOLDER / "root" / "usr"),
        "PYTHONPATH": os.pathsep.join(str(FOLDER / part) for part in ("package", "site")),
    }
    python = FOLDER / "root" / "usr" / "bin" / "python3.11"
    return [EMULATOR, "-cpu", cpu, "-L", str(FOLDER / "root"), str(python)], environment


def _add_python(root: Path) -> None:
    """Unpack Debian's packages for AArch64, without touching those of this machine."""
    if (root / "usr" / "bin" / "python3.11").exists():
        return
    lists, packages = FOLDER / "apt", FOLDER / "packages"
    for folder in (lists / "partial", packages / "partial"):
        folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "root",
        "Dir::State::Lists": lists,
        "Dir::State::Status": "/dev/null",
        "Dir::Cache": FOLDER / "cache",
    }
    options = [f"-o{name}={value}" for name, value in settings.items()]
    _run("apt-get", "--quiet", *options, "update", cwd=packages)
    _run("apt-get", "--quiet", *options, "download", *DEBIAN, cwd=packages)
    unfinished = root.with_name("root.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    for package in packages.glob("*.deb"):
        _run("dpkg", "--extract", package, unfinished)
    unfinished.rename(root)


def _add_wheels(site: Path) -> None:
    """Install what translating needs, as wheels for AArch64."""
    if site.exists():
        return
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [one.partition(";")[0] for one in project["dependencies"] if one.partition(">")[0] not in SERVER]
    platforms = [f"--platform={platform}" for platform in PLATFORMS]
    unfinished = site.with_name("site.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    _run(
        sys.executable, "-m", "pip", "install", "--quiet", "--target", unfinished, "--only-binary=:all:",
        "--python-version=3.11", "--implementation=cp", "--abi=cp311", "--abi=abi3", "--abi=none", *platforms, *needed,
    )  # fmt: skip
    unfinished.rename(site)


def _add_package(folder: Path) -> None:
    """Copy the package as it is now, and compile its C."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "dragoman", folder / "dragoman", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    program = "import sys, pathlib; import build_kernels as b; sys.exit(not b.compiled(pathlib.Path(sys.argv[1])))"
    environment = os.environ | {"CC": COMPILER, "DRAGOMAN_REQUIRE_KERNELS": "1"}
    subprocess.run([sys.executable, "-c", program, folder], cwd=ROOT / "tools", env=environment, check=True)


def _run(*command: object, cwd: Path = ROOT) -> None:
    words = [str(part) for part in command]
    subprocess.run(words, cwd=cwd, check=True, capture_output=True, text=True, timeout=FETCHING)


if __name__ == "__main__":
    sys.exit(main())
