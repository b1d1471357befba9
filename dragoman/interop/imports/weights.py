"""Files of weights that other programs saved, read as named tensors. Nothing in a file is run.

Pickles, archives and HDF5 are read in a process of their own with limited memory and time, since their content may be
far larger than the file. If a file says how large its content is, that is checked before anything is read.
"""

import math
import re
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from dragoman.errors import DataError, DragomanError
from dragoman.interop.files import INDEX, check_promise, read_json
from dragoman.storage.weights_file import opened
from dragoman.system import optional
from dragoman.system.processes import limit_further, run_limited

WRAPPED = ("model_state_dict", "state_dict", "model")
"""Keys under which training loops save the weights, beside the epoch and the optimizer."""
WRAPPERS = ("module", "_orig_mod")
"""Parts of names that `DataParallel` and `torch.compile` add to every weight."""
KERAS_STATE = ("optimizer/", "metrics/")
"""Groups that Keras saves of a compiled model beside the weights."""
KERAS_WEIGHTS = "model.weights.h5"
"""Member of a `.keras` archive that holds the weights."""
CONVERTED = "weights.safetensors"
"""File into which the process that reads a file of strangers writes its tensors."""
MOST_NAMES = 2**23
"""Most bytes of names, shapes and types in a file of PyTorch. Each weight takes some hundred."""
SPARE = 2**28
"""Bytes of memory that reading an HDF5 file may take besides its numbers."""
MOST_DEPTH = 100
"""Most levels of groups in an HDF5 file, since each group is looked up from the outermost one. Nested layers of Keras
have a dozen."""
HDF5_FILTERS = {1: "deflate", 2: "shuffle", 3: "fletcher32"}
"""Filters of HDF5 that weights may be packed by, under their numbers. For others, HDF5 would look for libraries."""
_HDF5 = b"\x89HDF\r\n\x1a\n"


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a PyTorch file (`torch.save` of a `state_dict`), a .safetensors file, the index of several of
    either kind, a Keras `.weights.h5` or a `.keras` archive.

    Raises `DataError` for a file that is missing, damaged, or holds anything but tensors.
    """
    try:
        content = _read_content(path)
    except (DragomanError, MemoryError):
        raise
    except Exception as error:  # a damaged file raises KeyError, zlib.error, UnicodeDecodeError and many others
        raise DataError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or error}; check the file."
        ) from None
    return named_tensors(content, str(path))


def read_limited(path: Path, read: Callable[[Path, Path], Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors that `read(path, folder)` returns. It is called in a process with limited memory and time, with an
    empty folder.

    Raises the errors of `read`, and `DataError` if memory or time did not suffice.
    """
    with TemporaryDirectory() as folder:
        allowed = 4 * path.stat().st_size + 2**30
        if not run_limited(allowed, _convert, read, path, Path(folder)):
            raise DataError(
                f"{path} takes more time, or more memory than {allowed >> 20} MB, to read, which no such weights do."
            )
        return load_file(Path(folder) / CONVERTED)


def named_tensors(content: Mapping[str, Any], origin: str) -> dict[str, Tensor]:
    """A `state_dict`, alone or as a training loop saves it, as float32 tensors under the model's own names.

    Raises `DataError`, which begins with `origin`, for anything but dense tensors of finite numbers.
    """
    tensors = {}
    for name, tensor in _dense_tensors(content, origin):
        if not tensor.isfinite().all():
            raise DataError(f"{origin}: `{name}` has NaN or infinity; save the weights of an earlier epoch.")
        tensors[".".join(part for part in name.split(".") if part not in WRAPPERS)] = tensor.detach().float()
    return tensors


def _dense_tensors(content: Mapping[str, Any], origin: str) -> Iterator[tuple[str, Tensor]]:
    """The names and tensors of a `state_dict`, alone or as a training loop saves it."""
    for key in WRAPPED:
        if isinstance(content.get(key), Mapping):
            content = content[key]
            break
    for name, value in content.items():
        try:
            tensor = torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError):
            tensor = None
        if tensor is None or tensor.layout != torch.strided or not tensor.is_floating_point():
            raise DataError(f"{origin}: `{name}` is not a dense tensor of floats; save the weights alone.")
        yield str(name), tensor


def _read_content(path: Path) -> Mapping[str, Any]:
    """The tensors of a file of any kind, before they are checked."""
    if path.name.endswith(INDEX):
        return _read_indexed(path)
    if path.suffix == ".safetensors":
        with opened(path) as (_, header):
            check_promise(path, sum(tensor.size for tensor in header.tensors))
        return load_file(path)
    with path.open("rb"):  # for a file that is missing, before there is a process for it
        return read_limited(path, _read_foreign)


def _read_indexed(path: Path) -> dict[str, Tensor]:
    """The tensors of all files that an index names."""
    file_of = read_json(path).get("weight_map")
    names = sorted(set(file_of.values())) if isinstance(file_of, dict) else []
    if not names or any(Path(name).name != name or name.endswith(INDEX) for name in names):
        raise DataError(f"{path} does not name files in its folder; copy the whole model again.")
    tensors: dict[str, Tensor] = {}
    for name in names:
        tensors |= read_weights(path.with_name(name))
    return tensors


def _convert(read: Callable[[Path, Path], Mapping[str, Tensor]], path: Path, folder: Path) -> None:
    """Write the tensors that `read` returns to a .safetensors file. Raises `MemoryError` if they are too large."""
    scratch = folder / "scratch"
    scratch.mkdir()
    try:
        tensors = read(path, scratch)
        save_file({name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}, folder / CONVERTED)
    except (RuntimeError, OSError) as error:
        if "alloc" in str(error):
            raise MemoryError from None
        raise


def _read_foreign(path: Path, folder: Path) -> Mapping[str, Tensor]:
    """The tensors of a pickle, an HDF5 file, or an archive of either."""
    hdf5_file = _hdf5_file(path, folder)
    content = _unpickled(path) if hdf5_file is None else _read_hdf5(path, hdf5_file)
    return dict(_dense_tensors(content, str(path)))


def _hdf5_file(path: Path, folder: Path) -> Path | None:
    """The HDF5 file of Keras: `path` itself, or a member of that archive, which is unpacked into `folder`. None for a
    file of PyTorch.

    Raises `ValueError` or `DataError` for an archive whose content is too large.
    """
    with path.open("rb") as file:
        if file.read(len(_HDF5)) == _HDF5:
            return path
        if not zipfile.is_zipfile(file):
            return None
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            check_promise(path, sum(member.file_size for member in members))
            if any(member.filename == KERAS_WEIGHTS for member in members):
                # HDF5 seeks, and to seek in a member means to read all before that position again and again.
                with archive.open(KERAS_WEIGHTS) as packed, (folder / KERAS_WEIGHTS).open("wb") as unpacked:
                    shutil.copyfileobj(packed, unpacked)
                return folder / KERAS_WEIGHTS
            if sum(member.file_size for member in members if member.filename.endswith("data.pkl")) > MOST_NAMES:
                raise DataError(f"{path} has more weights than any model; save `model.state_dict()`.")
    return None


def _unpickled(path: Path) -> Mapping[str, Any]:
    """The mapping in a file of PyTorch. Raises `DataError` for anything else."""
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


def _read_hdf5(path: Path, file: Path) -> dict[str, Any]:
    """The arrays in an HDF5 `file` of Keras: `path` itself, or a member of that archive.

    A file may promise more numbers than it holds, so the sizes are added up and checked before any number is read.
    """
    h5py = optional.load("h5py", extra="keras", purpose="Reading weights of Keras")
    datasets: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        if name.count("/") > MOST_DEPTH:
            raise ValueError(f"it has more than {MOST_DEPTH} groups inside of each other")
        # External and virtual datasets would read files that the user did not name; links are not followed.
        if isinstance(item, h5py.Dataset) and not (item.is_virtual or item.external or item.dtype == "O"):
            datasets[name] = item

    with h5py.File(file, "r") as root:
        if {"layer_names", "model_config"} & root.attrs.keys():
            raise DataError(
                f"{path} is in the old HDF5 format of Keras, which names weights by their number in the session; "
                'load it in the notebook and save it with `save_weights("NAME.weights.h5")`.'
            )
        root.visititems(visit)
        wanted = {name: dataset for name, dataset in datasets.items() if not name.startswith(KERAS_STATE)}
        promised = sum(map(_bytes_to_read, wanted.values()))
        check_promise(path, promised)
        # A packed chunk may hold more than it says. Numbers are there twice while they become float32, and are saved.
        limit_further(6 * promised + SPARE)
        return {name: _read_numbers(dataset, name) for name, dataset in wanted.items()}


def _bytes_to_read(dataset: Any) -> int:
    """Bytes of memory that reading a dataset of HDF5 takes: those of its numbers, or of one chunk if that is larger."""
    return dataset.dtype.itemsize * max(math.prod(dataset.shape or ()), math.prod(dataset.chunks or ()))


def _read_numbers(dataset: Any, name: str) -> Any:
    """The numbers of a dataset. Raises `ValueError` if HDF5 would need another library to unpack them."""
    layout = dataset.id.get_create_plist()
    filters = {layout.get_filter(index)[0] for index in range(layout.get_nfilters())}
    if unknown := filters - HDF5_FILTERS.keys():
        raise ValueError(f"`{name}` is packed by filter {min(unknown)} of HDF5, which Keras does not use")
    value = dataset[()]
    if dataset.attrs.get("dtype") == "bfloat16":  # HDF5 has no such type, so Keras writes two bytes a number
        return torch.as_tensor(value.view("int16")).view(torch.bfloat16)
    return value
