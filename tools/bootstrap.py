"""Set up `.venv` in this checkout and run one verb there. Needs nothing but Python 3.11 or newer.

    python3 tools/bootstrap.py demo|test|test-lowest|test-newest|slow|lint|docs|walk|site|colab [more arguments for it]
    python3 tools/bootstrap.py install [extra ...]
    python3 tools/bootstrap.py clean

Every command that it runs is printed, so that it can be typed without this script. The first call
installs the versions of constraints.txt; later ones see that nothing has changed and start at once.

TORCH=cpu|cuda|auto in the environment chooses the build of PyTorch. `auto`, the default, takes the
index's own build where there is an NVIDIA driver, and otherwise the CPU build, which is some ten
times smaller on Linux. The choice is remembered in `.venv` until another one is made.
"""

import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

# Older Pythons must get as far as this line: no newer syntax in this file than theirs.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(
        "Dragoman needs Python 3.11 or newer, and this is {}.{}; install one and name it, as in "
        "`make demo PYTHON=python3.11`.".format(*sys.version_info[:2])
    )

ROOT = Path(__file__).resolve().parent.parent
VENV = Path(".venv")
PYTHON = str(VENV / ("Scripts" if os.name == "nt" else "bin") / ("python.exe" if os.name == "nt" else "python"))
STAMP = VENV / "dragoman-setup.json"
KERNELS = Path("dragoman/native/libkernels.so")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
MADE_HERE = (".venv", "build", "dist", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache")


ALWAYS = ("train",)
"""Extras that an environment of a clone has in any case."""


class Verb(NamedTuple):
    """The extras that a verb needs installed, and the Python modules that it then runs, with their arguments."""

    extras: tuple[str, ...]
    modules: tuple[tuple[str, ...], ...]


# A process a core, and each file in one of them, for the models that its tests share, in the order of conftest.py.
PARALLEL = ("-n", "auto", "--maxprocesses", "8", "--dist", "loadfile", "--no-loadscope-reorder")
VERBS = {
    "demo": Verb((), (("dragoman", "demo"),)),
    "test": Verb(("test",), (("ruff", "check", "."), ("mypy",), ("pytest", "-q", *PARALLEL))),
    "test-lowest": Verb((), (("tools.other_versions", "lowest"),)),
    "test-newest": Verb((), (("tools.other_versions", "newest"),)),
    "slow": Verb(("test",), (("pytest", "-q", "-m", "slow"),)),
    "lint": Verb(("test",), (("ruff", "check", "."), ("mypy",))),
    "docs": Verb(("test",), (("tools.make_docs",),)),
    "walk": Verb(("test",), (("tools.make_walk",),)),
    "site": Verb(("docs", "test"), (("tools.make_site",),)),
    "colab": Verb(("test",), (("tools.make_colab",),)),
}


class Setup(NamedTuple):
    """The state of an installation in `.venv`, which the stamp file keeps as JSON."""

    fingerprint: str = ""
    extras: tuple[str, ...] = ()
    torch: str = ""
    compiled: bool = False
    """Whether there was a compiler: then the kernels have to be there, too."""

    def covers(self, wanted: "Setup") -> bool:
        """Whether nothing has to be installed to reach the state `wanted`."""
        same = (self.fingerprint, self.torch) == (wanted.fingerprint, wanted.torch)
        return same and set(wanted.extras) <= set(self.extras) and (KERNELS.exists() or not self.compiled)


def main(arguments: list[str]) -> int:
    """Run the verb, and return its exit code where it does not take over this process."""
    name, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if name in ("", "-h", "--help"):
        print(__doc__)
        return 0 if name else 2
    if name not in {*VERBS, "install", "clean"}:
        fail(f"'{name}' is not one of {', '.join(VERBS)}, install and clean.", code=2)
    os.chdir(ROOT)
    # Images of containers set it; the tests' many commands would then compile the package anew, each for itself.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if name == "clean":
        return clean()
    if name == "install":
        prepare(known_extras(rest))
        print(f"Ready. Try: {PYTHON} -m dragoman --help")
        return 0
    prepare(VERBS[name].extras)
    *first, last = commands(VERBS[name], rest)
    for command in first:
        code = run(command)
        if code:
            return code
    return hand_over(last)


def commands(verb: Verb, rest: list[str]) -> list[list[str]]:
    """The command lines of a verb; further arguments go to the last."""
    lines = [[PYTHON, "-m", *module] for module in verb.modules]
    return [*lines[:-1], lines[-1] + rest]


# --- the environment -----------------------------------------------------------------------------


def prepare(extras: tuple[str, ...]) -> None:
    """Make `.venv` hold this package with the extras, unless it does already."""
    installed = read_stamp()
    torch = torch_flavour(os.environ.get("TORCH", ""), installed.torch, has_nvidia_driver)
    if Path(PYTHON).exists() and installed.covers(Setup(fingerprint(), extras, torch)):
        return
    make_environment()
    STAMP.unlink(missing_ok=True)  # what is interrupted from here on is not complete
    if installed.torch not in ("", torch):
        run([*pip("uninstall"), "--yes", "torch"])
    install_torch(torch)
    extras = tuple(sorted({*extras, *installed.extras}))
    target = f".[{','.join((*ALWAYS, *extras))}]"
    if run([*pip("install"), "-c", "constraints.txt", "-e", target]):
        fail("pip could not install Dragoman; see its message above, then run the same again.")
    if torch == "cuda" and not works("import torch; assert torch.version.cuda"):
        say("The PyTorch that pip chose has no CUDA; pytorch.org names the index that has one.")
    if not KERNELS.exists() and os.name == "posix":
        say(
            "The kernels were not compiled, so translating on a CPU takes three times as long. Install a C compiler "
            f"({compiler_remedy()}), then type: make clean, make install"
        )
    setup = Setup(fingerprint(), extras, torch, KERNELS.exists())
    STAMP.write_text(json.dumps(setup._asdict()), encoding="utf-8")


def read_stamp() -> Setup:
    """The state that the last complete set-up left in `.venv`; an empty one if there was none."""
    try:
        stamp: dict[str, Any] = json.loads(STAMP.read_text(encoding="utf-8"))
        return Setup(stamp["fingerprint"], tuple(stamp["extras"]), stamp["torch"], stamp["compiled"])
    except (OSError, ValueError, LookupError, TypeError):
        return Setup()


def fingerprint() -> str:
    """A hash of what an installation depends on: requirements, kernels, Python, place of the checkout."""
    digest = hashlib.sha256(str(Path.cwd()).encode())
    kernels = [*sorted(Path("dragoman/native").glob("*.[ch]")), Path("tools/build_kernels.py")]
    for path in (Path("pyproject.toml"), Path("constraints.txt"), *kernels, VENV / "pyvenv.cfg"):
        content = path.read_bytes() if path.exists() else b""
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def make_environment() -> None:
    """Make `.venv` with pip in it; one that works is kept, one that does not is replaced."""
    if works("import pip, sys; assert sys.version_info >= (3, 11)"):
        return
    if works("import ensurepip, sys; assert sys.version_info >= (3, 11)"):
        code = run([PYTHON, "-m", "ensurepip"])  # `uv venv` leaves pip out
    else:
        shutil.rmtree(VENV, ignore_errors=True)
        code = run(venv_command())
    if code:
        fail("The virtual environment .venv could not be made; remove it and run the same again.")


def works(statement: str) -> bool:
    """Whether the Python of `.venv` is there and runs the statement."""
    try:
        return subprocess.run([PYTHON, "-c", statement], capture_output=True).returncode == 0
    except OSError:
        return False


def venv_command() -> list[str]:
    """The command that makes `.venv` here; some Linux distributions ship Python without venv."""
    if find_spec("venv") and find_spec("ensurepip"):
        return [sys.executable, "-m", "venv", str(VENV)]
    if shutil.which("uv"):
        return ["uv", "venv", "--seed", "--python", sys.executable, str(VENV)]
    fail(f"This Python cannot make virtual environments; run `{venv_remedy()}`, then this again.")


def venv_remedy() -> str:
    """Command that installs venv with the package manager at hand."""
    minor = f"3.{sys.version_info[1]}"
    if shutil.which("apt-get"):
        return f"sudo apt-get install python{minor}-venv"
    if shutil.which("dnf"):
        return "sudo dnf reinstall python3-libs python3-pip-wheel"
    if shutil.which("brew"):
        return f"brew reinstall python@{minor}"
    return f"{sys.executable} -m pip install --user uv"


def compiler_remedy() -> str:
    """Command that installs a C compiler with the package manager at hand."""
    if shutil.which("apt-get"):
        return "sudo apt-get install gcc libc6-dev"
    if shutil.which("dnf"):
        return "sudo dnf install gcc"
    if platform.system() == "Darwin":
        return "xcode-select --install"
    return "gcc or clang"


def known_extras(names: list[str]) -> tuple[str, ...]:
    """The names, if pyproject.toml declares each; pip would only warn of one that it does not."""
    import tomllib

    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for name in names:
        if name not in extras:
            fail(f"There is no extra '{name}'; choose from {', '.join(extras)}.", code=2)
    return tuple(names)


# --- which PyTorch -------------------------------------------------------------------------------


def has_nvidia_driver() -> bool:
    return bool(shutil.which("nvidia-smi")) or Path("/proc/driver/nvidia/version").exists()


def torch_flavour(setting: str, remembered: str, has_driver: Callable[[], bool]) -> str:
    """`cpu` or `cuda`: what TORCH says, else what the last set-up took, else by the driver."""
    if setting not in ("", "auto", "cpu", "cuda"):
        fail(f"TORCH is '{setting}'; set it to cpu, cuda or auto.", code=2)
    if setting in ("cpu", "cuda"):
        return setting
    if remembered and not setting:
        return remembered
    return "cuda" if has_driver() else "cpu"


def install_torch(flavour: str) -> None:
    """Install torch alone where the index's own build is not the one that is wanted."""
    if flavour == "cuda" or platform.system() != "Linux":
        return
    if offers_cpu_build(listed_versions(), Path("constraints.txt").read_text(encoding="utf-8")):
        return
    # Its own step, because pip has no index for one requirement only; the rest stays on the usual.
    only = ["--index-url", CPU_INDEX, "--no-deps"]
    if run([*pip("install"), *only, "-c", "constraints.txt", "torch"]):
        fail(
            f"PyTorch for the CPU could not be installed; check that {CPU_INDEX} can be reached, "
            "or set TORCH=cuda for the default build (some 3 GB)."
        )


def listed_versions() -> str:
    """Output of pip, as it is configured here, about the versions of torch that it can install."""
    command = [*pip("index"), "versions", "torch"]
    return subprocess.run(command, capture_output=True, text=True).stdout


def offers_cpu_build(listed: str, constraints: str) -> bool:
    """Whether `pip index versions torch` lists a CPU build of the version in the constraints.

    pip takes it without being told: a version with a local part sorts above the same without.
    """
    pin = re.search(r"^torch==([\d.]+)\.\*$", constraints, re.MULTILINE)
    return bool(pin and re.search(rf"(?<![\d.]){re.escape(pin[1])}\.[\w.]+\+cpu\b", listed))


# --- processes -----------------------------------------------------------------------------------


def pip(verb: str) -> list[str]:
    return [PYTHON, "-m", "pip", "--disable-pip-version-check", verb]


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def fail(sentence: str, *, code: int = 1) -> NoReturn:
    say(sentence)
    raise SystemExit(code)


def show(command: list[str]) -> None:
    say("$ " + shlex.join(command))


def run(command: list[str]) -> int:
    show(command)
    return subprocess.call(command)


def hand_over(command: list[str]) -> int:
    """Let the command take this process's place: terminal, signals and exit code are its own."""
    show(command)
    if os.name == "posix":
        os.execv(command[0], command)
    process = subprocess.Popen(command)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # Windows sends it to both; the command decides when to end
            continue


def clean() -> int:
    """Remove what the other verbs have made, except what was trained."""
    for name in (*MADE_HERE, *Path("benchmarks").glob(".venv-*")):
        shutil.rmtree(name, ignore_errors=True)
    for library in Path("dragoman").rglob("*.so"):
        library.unlink()
    for package in ("dragoman", "tests", "tools", "benchmarks"):
        for cache in Path(package).rglob("__pycache__"):
            shutil.rmtree(cache, ignore_errors=True)
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        say("\nStopped; the same command goes on from here.")
        raise SystemExit(130) from None
