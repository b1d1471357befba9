"""The device to translate on, found out without loading torch where there is no GPU."""

import ctypes
import sys
from pathlib import Path
from typing import Any

from dragoman.system.optional import is_installed, require

AMD = Path("/dev/kfd")
"""The device of AMD's driver, which PyTorch calls cuda too."""


def device_name(device: Any) -> str:
    """The name of a device to translate on, such as cpu, cuda:0 or mps; None: a CUDA GPU if there is one, else cpu.

    Raises `UsageError` for a device that this machine lacks, and `ResourceError` without the torch that it needs.
    """
    if str(device) == "cpu" or (device is None and not may_have_gpu()):
        return "cpu"
    if not is_installed("torch"):
        if device is None:
            return "cpu"
        require("torch", extra="train", purpose=f"`device` {str(device)!r}")
    from dragoman.system.device import available_device

    return str(available_device(device))


def may_have_gpu() -> bool:
    """Whether a driver is there without which PyTorch finds no CUDA GPU."""
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return AMD.exists()
    return True
