"""Compile the C files of dragoman/model while hatchling builds the package, in place as well as for a wheel.

Without a C compiler the package is built without the library, and its formulas run instead. CC names another compiler
than `cc`.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODEL = Path("dragoman/model")
SOURCES = [MODEL / name for name in ("kernels.c", "bfloat16.c", "int8_512.c", "int8_256.c", "int8_avx2.c")]
HEADERS, LIBRARY = [MODEL / name for name in ("vectors.h", "avx512.h", "avx2.h", "int8.h")], MODEL / "libkernels.so"
# No flag that lets sums change their order, or numbers that are none pass for some.
FLAGS = ("-std=gnu11", "-O3", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi", "-shared", "-fPIC")


class Kernels(BuildHookInterface):
    """What hatchling calls before it collects the files of a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if compiled(Path(self.root)):
            build_data["artifacts"].append(LIBRARY.as_posix())
            # It is for this system and processor, and for any Python.
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data |= {"pure_python": False, "tag": f"py3-none-{platform}"}


def compiled(root: Path) -> bool:
    """Compile the library below `root`; where that fails there is none, and a sentence says why."""
    (root / LIBRARY).unlink(missing_ok=True)
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if os.name != "posix" or not shutil.which(compiler[0]):
        return say("no C compiler")
    # What a broken-off compilation leaves must not be taken for a library.
    unfinished = root / LIBRARY.with_suffix(".tmp")
    older = "-DNO_AVX_VNNI"  # for the assembler of binutils 2.35, as in RHEL 9
    for more in ((), (older,), (older, "-DNO_AVX512_BF16")):  # and for GCC 8, as in RHEL 8
        command = [*compiler, *FLAGS, *more, *(str(root / each) for each in SOURCES), "-o", str(unfinished), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True)
        if not done.returncode:
            unfinished.replace(root / LIBRARY)
            return True
    unfinished.unlink(missing_ok=True)
    return say(f"`{shlex.join(command)}` failed:\n{done.stderr}")


def say(reason: str) -> bool:
    print(f"Dragoman is built without compiled kernels, which makes it slower: {reason}", file=sys.stderr)
    return False
