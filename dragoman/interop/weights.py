"""Files of weights that other programs saved, read as named tensors. Nothing in a file is run.

A pickle is opened in a process of its own with little memory: what it describes may be far larger than the file.
"""

import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from dragoman.errors import DataError, DragomanError
from dragoman.interop.files import INDEX, read_json
from dragoman.system import optional
from dragoman.system.processes import run_limited

WRAPPED = ("model_state_dict", "state_dict", "model")
"""Keys under which training loops save the weights, beside the epoch and the optimizer."""
WRAPPERS = ("module", "_orig_mod")
"""Parts that `DataParallel` and `torch.compile` add to every name."""
KERAS_STATE = ("optimizer/", "metrics/")
"""What Keras saves of a compiled model beside the weights."""
KERAS_WEIGHTS = "model.weights.h5"
"""The weights in a `.keras` archive."""
MOST_NAMES = 2**23
"""Bytes of what a file of PyTorch says of its weights beside their numbers, some hundred for each."""
_HDF5 = b"\x89HDF\r\n\x1a\n"


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a PyTorch file (`torch.save` of a `state_dict`), a .safetensors file, the index of several of
    either kind, a Keras `.weights.h5` or a `.keras` archive.

    Raises `DataError` for a file that is missing, damaged, or holds anything but tensors.
    """
    try:
        with path.open("rb") as file:
            content = _content(path, file)
    except (DragomanError, MemoryError):
        raise
    except Exception as error:  # a damaged file raises KeyError, zlib.error, UnicodeDecodeError and many others
        raise DataError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or error}; check the file."
        ) from None
    return named_tensors(content, str(path))


def named_tensors(content: Mapping[str, Any], origin: str) -> dict[str, Tensor]:
    """A `state_dict`, alone or as a training loop saves it, as float32 tensors under the model's own names.

    Raises `DataError`, which begins with `origin`, for anything but dense tensors of finite numbers.
    """
    tensors = {}
    for name, tensor in _dense(content, origin):
        if not tensor.isfinite().all():
            raise DataError(f"{origin}: `{name}` has NaN or infinity; save the weights of an earlier epoch.")
        tensors[".".join(part for part in name.split(".") if part not in WRAPPERS)] = tensor.detach().float()
    return tensors


def _dense(content: Mapping[str, Any], origin: str) -> Iterator[tuple[str, Tensor]]:
    """The names and tensors of a `state_dict`, alone or as a training loop saves it."""
    content = next((content[key] for key in WRAPPED if isinstance(content.get(key), Mapping)), content)
    for name, value in content.items():
        try:
            tensor = torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError):
            tensor = None
        if tensor is None or tensor.layout != torch.strided or not tensor.is_floating_point():
            raise DataError(f"{origin}: `{name}` is not a dense tensor of floats; save the weights alone.")
        yield str(name), tensor


def _content(path: Path, file: BinaryIO) -> Mapping[str, Any]:
    if path.name.endswith(INDEX):
        parts = read_json(path).get("weight_map")
        names = sorted(set(parts.values())) if isinstance(parts, dict) else []
        if not names or any(Path(name).name != name or name.endswith(INDEX) for name in names):
            raise DataError(f"{path} does not name files in its folder; copy the whole model again.")
        return {key: value for name in names for key, value in read_weights(path.with_name(name)).items()}
    if path.suffix == ".safetensors":
        return load_file(path)
    if file.read(len(_HDF5)) == _HDF5:
        return _read_hdf5(path, path)
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            if KERAS_WEIGHTS in archive.namelist():
                return _read_hdf5(path, archive.open(KERAS_WEIGHTS))
            if sum(part.file_size for part in archive.infolist() if part.filename.endswith("data.pkl")) > MOST_NAMES:
                raise DataError(f"{path} has more weights than any model; save `model.state_dict()`.")
    return _read_pickle(path)


def _read_pickle(path: Path) -> Mapping[str, Any]:
    with TemporaryDirectory() as folder:
        converted = Path(folder) / "weights.safetensors"
        allowed = 4 * path.stat().st_size + 2**30
        if not run_limited(allowed, _convert, path, converted):
            raise DataError(f"{path} takes more memory than {allowed >> 20} MB to read, which no such weights do.")
        return load_file(converted)


def _convert(path: Path, converted: Path) -> None:
    """Write the tensors of a pickle to a .safetensors file. Raises `MemoryError` for tensors that are too large."""
    try:
        tensors = dict(_dense(_unpickled(path), str(path)))
        save_file({name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}, converted)
    except RuntimeError as error:
        if "alloc" in str(error):
            raise MemoryError from None
        raise


def _unpickled(path: Path) -> Mapping[str, Any]:
    try:
        with warnings.catch_warnings(action="ignore"):  # about the form of the pickle: it is read or refused anyway
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # The message of PyTorch goes on with how to run the file nevertheless, so only the reason is taken from it.
        code = re.search(r"GLOBAL ([\w.]+)", str(error))
        reason = f"it asks to run `{code[1]}`" if code else "PyTorch finds no tensors in it"
        raise DataError(f"{path} is refused: {reason}; save `model.state_dict()` with `torch.save`.") from None
    if not isinstance(content, Mapping):
        raise DataError(f"{path} holds a {type(content).__name__}, not named tensors; save `model.state_dict()`.")
    return content


def _read_hdf5(path: Path, file: Any) -> dict[str, Any]:
    """The arrays of a Keras file: `path` itself, or a member of that archive."""
    h5py = optional.load("h5py", extra="keras", purpose="Reading weights of Keras")
    arrays: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        # External and virtual datasets would read files that the user did not name.
        if isinstance(item, h5py.Dataset) and not (item.is_virtual or item.external or item.dtype == "O"):
            arrays[name] = value = item[()]
            if item.attrs.get("dtype") == "bfloat16":  # HDF5 has no such type, so Keras writes two bytes a number
                arrays[name] = torch.as_tensor(value.view("int16")).view(torch.bfloat16)

    with h5py.File(file) as opened:
        if {"layer_names", "model_config"} & opened.attrs.keys():
            raise DataError(
                f"{path} is in the old HDF5 format of Keras, which names weights by their number in the session; "
                'load it in the notebook and save it with `save_weights("NAME.weights.h5")`.'
            )
        opened.visititems(visit)
    return {name: value for name, value in arrays.items() if not name.startswith(KERAS_STATE)}
