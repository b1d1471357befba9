"""Loads the library of kernels in C, each of which makes one pass over memory where its formula makes several.

The library is compiled from the C files in this folder when the package is built, if there is a C compiler. Where
there is none, the formulas run.
"""

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

LIBRARY = Path(__file__).with_name("libkernels.so")
INTERFACE = 17
"""Version of the functions; a library with another number was compiled from other sources."""
LANES = 16
"""Numbers that kernels read at a time; the width of a head must be a multiple of it."""
KINDS = "512", "avx2", "any"
"""Kinds of instructions that the kernels are compiled for (kernels.h), the quickest first."""

_POINTER, _SIZE, _FLAG, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_float
KERNELS: dict[str, list[Any]] = {
    "attention": [*[_POINTER] * 7, _FLAG],
    "rotate": [*[_POINTER] * 5, _FLOAT, _FLAG],
    "log_softmax": [_POINTER, _POINTER, _SIZE, _SIZE, _FLAG],
    "drop": [*[_POINTER] * 3, _SIZE, _POINTER, _FLAG],
    "normalise_rows": [*[_POINTER] * 3, _FLAG],
    "normalise_rows_back": [_POINTER, _POINTER, _FLAG],
    "masked_softmax_dropout": [*[_POINTER] * 7, _FLAG],
    "masked_softmax_dropout_backward": [*[_POINTER] * 7, _FLAG],
    "exponentiate": [*[_POINTER] * 3, _SIZE, _SIZE, *[_FLOAT] * 2, _FLAG],
    "best_continuations": [*[_POINTER] * 3, *[_SIZE] * 4, _POINTER, _POINTER],
    "repetitions": [_POINTER, _SIZE, _SIZE, *[_POINTER] * 4],
}
"""Types of the arguments of each kernel. Structures are passed by their address."""


def compiled() -> bool:
    """Whether the library was compiled and can be loaded."""
    return functions is not None


def address(structure: ctypes.Structure | None) -> Any:
    """The address of a structure; None, which C sees as NULL, for None."""
    return None if structure is None else ctypes.byref(structure)


def load() -> Any:
    """The library; None where it cannot be used."""
    try:
        library = ctypes.CDLL(str(LIBRARY))
        return library if library.interface() == INTERFACE else None
    except (OSError, AttributeError):
        return None


def kernels(kind: str) -> Any:
    """The kernels for one kind of instructions; None where this processor or this library has none."""
    if loaded is None or not loaded[f"runs_{kind}"]():
        return None
    functions_of_kind = {}
    for name, types in KERNELS.items():
        function = loaded[f"{name}_{kind}"]
        function.argtypes, function.restype = types, _SIZE
        functions_of_kind[name] = function
    return SimpleNamespace(**functions_of_kind)


def quickest_kernels() -> Any:
    """The kernels for the quickest instructions of this processor; None where there is no library."""
    for kind in KINDS:
        quickest = kernels(kind)
        if quickest is not None:
            return quickest
    return None


loaded: Any = load()
"""The library with the functions of all kinds; None where there is none."""
functions: Any = quickest_kernels()
"""The kernels for this processor; None where there is no library."""
