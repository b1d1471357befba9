"""Test with the lowest or the newest versions of everything that Dragoman needs, in an environment of their own.

    make test-lowest      # the versions that pyproject.toml begins with
    make test-newest      # those of today

It takes some tests of each part, with the commands. `TORCH=cpu` takes the CPU builds of PyTorch; without it come those
of the index, which on Linux bring some 3 GB of CUDA. Warnings of others' versions are no errors here.
"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}
LEFT_OUT = {"docs", "ray", "test"}
"""Extras without a part that the tests below enter."""
TOOLS = ("pytest", "beartype", "hypothesis", "hatchling", "nbformat", "polib", "python-docx", "odfpy")
TESTS = (
    "tests/cli/test_cli.py",
    "tests/cli/test_data.py",
    "tests/cli/test_interop.py",
    "tests/cli/test_serving.py",
    "tests/cli/test_translation.py",
    "tests/data/readers/test_huggingface.py",
    "tests/interop/imports/test_weights.py",
)


def main(which: str, *arguments: str) -> int:
    """Install the versions and run the tests with them; further arguments are for pytest."""
    folder = ROOT / "build" / f"versions-{which}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    has_pip = python.exists() and subprocess.run([python, "-c", "import pip"], capture_output=True).returncode == 0
    if not has_pip:  # such as after an interruption
        run(sys.executable, "-m", "venv", "--clear", folder)
    run(python, "-m", "pip", "install", "--quiet", "uv")
    uv = [python, "-m", "uv", "--quiet", "pip"]
    build = [f"--torch-backend={os.environ['TORCH']}"] if os.environ.get("TORCH") else []
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    chosen = [f"--extra={extra}" for extra in extras if extra not in LEFT_OUT]
    # Packages that have to be built would need the tools of their time.
    resolution = ["--resolution", RESOLUTIONS[which], "--only-binary", ":all:", "--python", python, *build]
    run(*uv, "compile", "pyproject.toml", *chosen, *resolution, "--output-file", folder / "requirements.txt")
    if which == "lowest" and (wrong := without_floors(folder / "requirements.txt")):
        print(f"Raise floors of pyproject.toml that cannot be installed: {', '.join(wrong)}", file=sys.stderr)
        return 1
    run(*uv, "install", "--python", python, *build, "--requirement", folder / "requirements.txt", *TOOLS)
    run(*uv, "install", "--python", python, "--no-deps", "--editable", ".")
    tests = [python, "-m", "pytest", "-q", "-o", "filterwarnings=default", *(arguments or TESTS)]
    print("$", *tests, file=sys.stderr)
    return subprocess.call(list(map(str, tests)), cwd=ROOT)


def without_floors(locked: Path) -> list[str]:
    """Requirements whose lowest version cannot be installed, each with the version that would be installed."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name
    from packaging.version import Version

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name: lines for name, lines in project["optional-dependencies"].items() if name not in LEFT_OUT}
    pins = re.findall(r"^([\w.-]+)==([^\s;+]+)", locked.read_text(encoding="utf-8"), re.MULTILINE)
    installed = {canonicalize_name(name): Version(version) for name, version in pins}
    wrong = []
    for requirement in map(
        Requirement, [*project["dependencies"], *(line for lines in extras.values() for line in lines)]
    ):
        (floor,) = (Version(clause.version) for clause in requirement.specifier if clause.operator == ">=")
        locked_version = installed.get(canonicalize_name(requirement.name), floor)
        if locked_version != floor:
            wrong.append(f"{requirement} ({locked_version})")
    return wrong


def run(*command: object) -> None:
    print("$", *command, file=sys.stderr)
    subprocess.run(list(map(str, command)), cwd=ROOT, check=True)


if __name__ == "__main__":
    try:
        raise SystemExit(main(*sys.argv[1:]))
    except subprocess.CalledProcessError as error:
        raise SystemExit(error.returncode) from None
