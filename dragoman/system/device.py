"""The device and the precision to compute with, and the memory that they use."""

import os

import torch

from dragoman.errors import UsageError
from dragoman.system import resources

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def choose_device() -> torch.device:
    """A CUDA GPU if there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def choose_precision(name: str, device: torch.device) -> torch.dtype:
    """`float32`, `bfloat16`, or `auto`: bfloat16 where the processor multiplies it natively, else float32."""
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
    """Let oneDNN, which compiles a kernel for each shape of a product on a CPU, keep this many of them.

    Batches have so many shapes that the 1,024 it keeps by default grow to over a gigabyte in a hundred steps,
    and a step is no faster for it. Has an effect only before the first product; a setting of the user's stays.
    """
    for variable in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(variable, str(kept))


def memory_in_use() -> dict[str, int]:
    """Bytes in use, 0 if unknown: `memory` of all processes of this command, and what torch has taken on a `GPU`."""
    gpu = torch.cuda.memory_reserved() if torch.cuda.is_initialized() else 0
    return {"memory": resources.memory_in_use(), "GPU": gpu}
