"""The device to translate on, found out without loading torch where there is no GPU."""

import ctypes
import importlib.util
import sys
from pathlib import Path
from typing import Any

from dragoman.errors import UsageError

AMD = Path("/dev/kfd")
"""The device of AMD's driver, which PyTorch calls cuda too."""


def device_name(device: Any) -> str:
    """The name of a device to translate on, such as cpu, cuda:0 or mps; None: a CUDA GPU if there is one, else cpu.

    Raises `UsageError` for a device that this machine lacks.
    """
    if str(device) == "cpu" or (device is None and not may_have_gpu()):
        return "cpu"
    if importlib.util.find_spec("torch") is None:
        if device is None:
            return "cpu"
        raise UsageError(
            f"`device` is {str(device)!r}, but only PyTorch computes on a GPU: pip install 'dragoman[train]', or leave "
            "it out."
        )
    from dragoman.system.device import available_device

    return str(available_device(device))


def may_have_gpu() -> bool:
    """Whether a driver is there without which PyTorch finds no CUDA GPU."""
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return AMD.exists()
    return True
