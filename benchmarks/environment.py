"""An environment for each benchmark: made once, with pinned versions, beside the one that Dragoman is developed in.

environments/NAME.txt says what is installed into `benchmarks/.venv-NAME`. What it does not ask for, torch first, is
found where it is already installed: in the environment of the interpreter that the command was started with, which is
left as it is. Dragoman is the one of this checkout.
"""

import hashlib
import os
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONSTRAINTS = HERE.parent / "constraints.txt"


class Unavailable(Exception):
    """The packages of an environment cannot be installed."""


def enter(name: str) -> None:
    """Replace this process by the same command in the environment `name`, unless it runs there already."""
    path = python(name)
    if Path(sys.prefix) != path.parents[1]:
        sys.stdout.flush()
        os.execv(path, [str(path), *sys.argv])


def python(name: str) -> Path:
    """The interpreter of the environment `name`, which is made if it is missing or its list has changed.

    Raises `Unavailable` if it cannot be made.
    """
    folder = HERE / f".venv-{name}"
    interpreter = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if Path(sys.prefix) == folder:
        return interpreter
    # Where torch is, the rest of the running environment is too.
    outside = Path(find_spec("torch").origin).parents[1]
    requirements = HERE / "environments" / f"{name}.txt"
    parts = [requirements.read_bytes(), CONSTRAINTS.read_bytes(), f"{outside} {sys.version}".encode()]
    stamp, digest = folder / "made-of", hashlib.sha256(b"\0".join(parts)).hexdigest()
    if not stamp.is_file() or stamp.read_text() != digest:
        print(f"Making {folder} from {requirements}: once, for some minutes.", file=sys.stderr)
        _run([sys._base_executable, "-m", "venv", "--clear", folder])
        (_packages(folder) / "outside.pth").write_text(f"{HERE.parent}\n{outside}\n", encoding="utf-8")
        _run([interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements])
        stamp.write_text(digest)
    return interpreter


def _packages(folder: Path) -> Path:
    return Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))


def _run(command: list[str | Path]) -> None:
    process = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if process.returncode:
        output = f"{process.stdout}{process.stderr}".strip()
        raise Unavailable(f"`{' '.join(map(str, command))}` failed:\n{output}")
