"""Build what Google Colab needs for the notebooks of the walk, in dist/: the wheel, and walk.zip with their files.

python -m tools.make_colab
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile

from tools.pages import CHAPTERS, ROOT

DIST = ROOT / "dist"


def build(folder: Path) -> None:
    """Write both files into `folder`."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("dragoman-*.whl"):
        old.unlink()  # Colab would install whichever comes first
    with TemporaryDirectory() as copy:  # in place, the build would first delete the kernels of this checkout
        for name in ("dragoman", "tools"):
            shutil.copytree(ROOT / name, Path(copy, name), ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, copy)
        # Kernels only where they are compiled for Colab's machines.
        compiler = {} if sysconfig.get_platform() == "linux-x86_64" else {"CC": "none"}
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder.resolve())]
        subprocess.run(command, cwd=copy, env=os.environ | compiler, check=True)
    with ZipFile(folder / "walk.zip", "w", ZIP_DEFLATED) as archive:
        for path in sorted(CHAPTERS.rglob("*.*")):
            if path.suffix in (".py", ".ipynb", ".json", ".gif", ".svg", ".html"):
                archive.write(path, path.relative_to(CHAPTERS))


if __name__ == "__main__":
    build(DIST)
    (wheel,) = DIST.glob("dragoman-*.whl")
    print(f"In {DIST.name}/: {wheel.name} and walk.zip. Upload both to Colab.")
