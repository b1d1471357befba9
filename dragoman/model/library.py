"""The library of kernels in C, each of which makes one pass over memory where its formula makes several.

It is compiled from the C files in this folder when the package is built where there is a C compiler. Where there is
none, the formulas run.
"""

import ctypes
from pathlib import Path
from typing import Any

LIBRARY = Path(__file__).with_name("libkernels.so")
INTERFACE = 11
"""Version of the functions; a library with another number was compiled from other sources."""
LANES = 16
"""Numbers that are read at a time; the width of a head must be a multiple of it."""


def compiled() -> bool:
    """Whether the library was compiled and can be loaded."""
    return functions is not None


def address(structure: ctypes.Structure | None) -> Any:
    """Where a structure is, or NULL."""
    return None if structure is None else ctypes.byref(structure)


def load() -> Any:
    """The functions, with the types of arguments that are not pointers or int; None where they cannot be used."""
    try:
        found = ctypes.CDLL(str(LIBRARY))
        if found.interface() != INTERFACE:
            return None
    except (OSError, AttributeError):
        return None
    pointer, size, flag = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    found.attention.argtypes = [*[pointer] * 7, flag]
    found.rotate.argtypes = [*[pointer] * 5, ctypes.c_float, flag]
    found.log_softmax.argtypes = [pointer, pointer, size, size, flag]
    found.drop.argtypes = [*[pointer] * 3, size, pointer, flag]
    found.normalise_rows.argtypes = [*[pointer] * 3, flag]
    found.masked_softmax_dropout.argtypes = [*[pointer] * 7, flag]
    found.masked_softmax_dropout_backward.argtypes = [*[pointer] * 7, flag]
    found.exponentiate.argtypes = [pointer, pointer, pointer, size, size, *[ctypes.c_float] * 2, flag]
    found.best_continuations.argtypes = [pointer, pointer, size, size, size, size, pointer, pointer]
    return found


functions: Any = load()
"""None where there is no library."""
