"""Compile the C files of dragoman/native while hatchling builds the package, in place as well as for a wheel.

Without a C compiler the package is built without the library, and its formulas run instead. These variables are heeded:
CC names another compiler than `cc`; CFLAGS and LDFLAGS are passed to it; DRAGOMAN_REQUIRE_KERNELS=1 makes it an error
if there is no library at the end, for those who build packages for others.
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

FOLDER = Path("dragoman/native")
HEADERS = [FOLDER / name for name in ("vectors.h", "avx512.h", "avx2.h", "portable.h", "kernels.h", "int8.h")]
SOURCES = [
    *(FOLDER / f"{name}.c" for name in ("kernels_any", "kernels_avx2", "kernels_512", "bfloat16")),
    *(FOLDER / f"int8_{kind}.c" for kind in ("512", "256", "avx2", "dot", "neon", "any")),
]
LIBRARY = FOLDER / "libkernels.so"
OPTIMIZE = ("-O3",)  # CFLAGS may say otherwise
FLAGS = (
    "-std=gnu11",
    "-fno-fast-math",  # sums keep their order, and NaN is found, whatever CFLAGS say
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Wno-psabi",
    "-shared",
    "-fPIC",
)
REQUIRE = "DRAGOMAN_REQUIRE_KERNELS"


class Kernels(BuildHookInterface):
    """What hatchling calls before it collects the files of a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if compiled(Path(self.root)):
            build_data["artifacts"].append(LIBRARY.as_posix())
            # It is for this system and processor, and for any Python.
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data |= {"pure_python": False, "tag": f"py3-none-{platform}"}


def compiled(root: Path) -> bool:
    """Compile the library below `root`; where that fails there is none, and a sentence says why.

    Raises `SystemExit` with that sentence if the environment requires the library.
    """
    (root / LIBRARY).unlink(missing_ok=True)
    compiler = shlex.split(os.environ.get("CC") or "cc")
    if os.name != "posix":
        return without("they are compiled on Linux and macOS only")
    if not shutil.which(compiler[0]):
        return without(f"there is no C compiler ({compiler[0]}); install gcc or clang, or name one in CC")
    c_flags, linker_flags = (shlex.split(os.environ.get(name, "")) for name in ("CFLAGS", "LDFLAGS"))
    # What a broken-off compilation leaves must not be taken for a library.
    unfinished = root / LIBRARY.with_suffix(".tmp")
    older = "-DNO_AVX_VNNI"  # for the assembler of binutils 2.35, as in RHEL 9
    oldest = "-DNO_AVX512_BF16", "-DNO_DOT_PRODUCT"  # for GCC 8, as in RHEL 8, and older ones of clang
    for more in ((), (older,), (older, *oldest)):
        flags = [*OPTIMIZE, *c_flags, *FLAGS, *more]
        sources = [str(root / source) for source in SOURCES]
        command = [*compiler, *flags, *sources, *linker_flags, "-o", str(unfinished), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True)
        if not done.returncode:
            unfinished.replace(root / LIBRARY)
            return True
    unfinished.unlink(missing_ok=True)
    return without(f"`{shlex.join(command)}` failed:\n{done.stderr}")


def without(reason: str) -> bool:
    """Say that there is no library, and why; an error if the environment requires it."""
    if os.environ.get(REQUIRE, "0") not in ("", "0"):
        raise SystemExit(f"{REQUIRE} is set, and the kernels of Dragoman could not be compiled: {reason}")
    print(f"Dragoman is built without compiled kernels, which makes it slower: {reason}", file=sys.stderr)
    return False
