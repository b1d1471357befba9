"""The device and the precision to compute with, and the memory that they use."""

import os

import torch

from dragoman.errors import UsageError
from dragoman.system import resources

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def choose_device() -> torch.device:
    """A CUDA GPU if there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def available_device(name: torch.device | str | None) -> torch.device:
    """The device of this name, such as cpu, cuda, cuda:1 or mps; None: the one that `choose_device` chooses.

    Raises `UsageError` for a name that PyTorch does not know, and for a device that this machine lacks.
    """
    if name is None:
        return choose_device()
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise UsageError(f"There is no device {str(name)!r}; give cpu, cuda, cuda:1 or mps.") from None
    if device.type == "cuda":
        gpus = torch.cuda.device_count()
        if gpus <= (device.index or 0):
            there = f"{gpus} GPU{'s' * (gpus > 1)}" if gpus else "no CUDA GPU"
            raise UsageError(f"`device` is {str(device)!r}, but PyTorch finds {there} here; leave it out, or give cpu.")
    elif device.type == "mps" and not torch.backends.mps.is_available():
        raise UsageError("`device` is 'mps', but PyTorch finds no GPU of Apple here; leave it out, or give cpu.")
    return device


def choose_precision(name: str, device: torch.device) -> torch.dtype:
    """The type for `float32`, `bfloat16` or `auto`, which is bfloat16 if the processor multiplies that natively."""
    if name in PRECISIONS:
        return PRECISIONS[name]
    if name != "auto":
        raise UsageError(f"The precision {name!r} is unknown; choose auto, {' or '.join(PRECISIONS)}.")
    if device.type == "cuda":
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        native = device.type == "cpu" and torch.cpu._is_avx512_bf16_supported()
    return torch.bfloat16 if native else torch.float32


def machine() -> str:
    """Name of the GPU, or the number of CPU threads, for people to read."""
    device, threads = choose_device(), torch.get_num_threads()
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{threads} CPU thread{'s' if threads > 1 else ''}"


def limit_kernel_caches(kept: int) -> None:
    """Limit the number of kernels that oneDNN keeps; it compiles one for each shape of a matrix product on a CPU.

    Batches have so many shapes that the 1,024 it keeps by default grow to over a gigabyte in a hundred steps, and a
    step is no faster for it. Has an effect only before the first product. An environment variable that the user has set
    stays.
    """
    for variable in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(variable, str(kept))


def memory_in_use() -> dict[str, int]:
    """Bytes in use, 0 if unknown: `memory` of all processes of this command, and what torch holds on a `GPU`."""
    gpu = torch.cuda.memory_reserved() if torch.cuda.is_initialized() else 0
    return {"memory": resources.memory_in_use(), "GPU": gpu}
