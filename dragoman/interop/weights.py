"""Files of weights that other programs saved, read as named tensors. Nothing in them is run."""

import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.errors import DataError
from dragoman.system import optional

WRAPPED = ("model_state_dict", "state_dict", "model")
"""Where training loops put the weights, beside the epoch and the optimizer."""
WRAPPERS = ("module", "_orig_mod")
"""What `DataParallel` and `torch.compile` put into every name."""
KERAS_STATE = ("optimizer/", "metrics/")
"""What Keras saves of a compiled model beside the weights."""
KERAS_WEIGHTS = "model.weights.h5"
_OLD_KERAS = {"layer_names", "model_config"}
_HDF5 = b"\x89HDF\r\n\x1a\n"


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a PyTorch file (`torch.save` of a `state_dict`), a Keras `.weights.h5` or a `.keras` archive.

    Raises `DataError` for a file that is missing, damaged, or holds anything but tensors.
    """
    try:
        with path.open("rb") as file:
            hdf5 = file.read(len(_HDF5)) == _HDF5
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; check the path.") from None
    if hdf5:
        return named_tensors(_read_hdf5(path, path), str(path))
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if KERAS_WEIGHTS in archive.namelist():
                with archive.open(KERAS_WEIGHTS) as member:
                    return named_tensors(_read_hdf5(path, member), str(path))
    return named_tensors(_read_pickle(path), str(path))


def named_tensors(content: Mapping[str, Any], origin: str) -> dict[str, Tensor]:
    """A `state_dict`, as it is or as a training loop wraps it, as float32 tensors under the model's own names.

    Raises `DataError`, which begins with `origin`, for what is no dense tensor of finite numbers.
    """
    for key in WRAPPED:
        if isinstance(content.get(key), Mapping):
            content = content[key]
            break
    tensors = {}
    for name, value in content.items():
        try:
            tensor = torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError):
            tensor = None
        if tensor is None or tensor.layout != torch.strided or not tensor.is_floating_point():
            raise DataError(f"{origin}: `{name}` is no dense tensor of floating-point numbers; save the weights alone.")
        if not tensor.isfinite().all():
            raise DataError(
                f"{origin}: `{name}` has numbers that are not finite; save the weights of an earlier epoch."
            )
        tensors[_own_name(str(name))] = tensor.detach().float()
    return tensors


def _own_name(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


def _read_pickle(path: Path) -> Mapping[str, Any]:
    try:
        with warnings.catch_warnings(action="ignore"):  # of pickles written otherwise: read or refused all the same
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the class for what is refused is in a module that is imported nowhere here
        # The library's own words go on to say how to run it nevertheless.
        asked = re.search(r"GLOBAL ([\w.]+)", str(error))
        why = f"it asks to run `{asked[1]}`" if asked else "PyTorch finds no tensors in it"
        raise DataError(
            f"{path} is refused: {why}; in the notebook, save `model.state_dict()` with `torch.save`."
        ) from None
    if not isinstance(content, Mapping):
        raise DataError(f"{path} holds a {type(content).__name__}, not named tensors; save `model.state_dict()`.")
    return content


def _read_hdf5(path: Path, file: Any) -> dict[str, Any]:
    """The arrays of a Keras file: `path`, or a member of that archive."""
    h5py = optional.load("h5py", extra="keras", purpose="Reading weights of Keras")
    arrays: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        # A link to another file or a virtual dataset would read what the user did not name.
        if isinstance(item, h5py.Dataset) and not (item.is_virtual or item.external or item.dtype == "O"):
            arrays[name] = _array(item)

    try:
        with h5py.File(file) as opened:
            if _OLD_KERAS & opened.attrs.keys():
                raise DataError(
                    f"{path} is in the old HDF5 format of Keras, which names weights by their number in the session; "
                    'load it in the notebook and save it with `save_weights("NAME.weights.h5")`.'
                )
            opened.visititems(visit)
    except (OSError, RuntimeError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read: {error}; check that the file is whole.") from None
    return {name: value for name, value in arrays.items() if not name.startswith(KERAS_STATE)}


def _array(dataset: Any) -> Any:
    value = dataset[()]
    if dataset.attrs.get("dtype") == "bfloat16":  # which HDF5 does not know: Keras writes two bytes a number
        return torch.as_tensor(value.view("int16")).view(torch.bfloat16)
    return value
