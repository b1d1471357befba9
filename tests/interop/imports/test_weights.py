"""Files of weights: whatever wraps the tensors is taken off, and nothing that is not tensors is read or run."""

import io
import pickle
import resource
import sys
import zipfile
import zlib
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from dragoman.errors import DataError, ResourceError
from dragoman.interop import files
from dragoman.interop.imports import marian
from dragoman.interop.imports import weights as module
from dragoman.interop.imports.notebooks import from_notebook
from dragoman.interop.imports.weights import named_tensors, read_weights
from tests.interop.notebook_models import Sizes, random_weights
from tests.interop.notebooks import save


@pytest.fixture(scope="module")
def weights() -> dict[str, torch.Tensor]:
    return random_weights("prenorm", Sizes(encoder_layers=1, decoder_layers=1))


def assert_equal(tensors: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert tensors.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(tensors[name], value.float(), rtol=0, atol=0)


@pytest.mark.first_is_quick
@pytest.mark.parametrize("key", [None, "model_state_dict", "state_dict", "model"])
def test_what_training_loops_wrap_around_the_weights_is_taken_off(tmp_path, weights, key):
    for prefix in ("", "module.", "_orig_mod.", "module._orig_mod."):
        state = OrderedDict((prefix + name, value) for name, value in weights.items())
        optimizer = {"state": {0: {"step": torch.tensor(3)}}, "param_groups": [{"lr": 0.1}]}
        wrapped = {"epoch": 3, key: state, "optimizer_state_dict": optimizer}
        torch.save(wrapped if key else state, tmp_path / "w.pt")
        assert_equal(read_weights(tmp_path / "w.pt"), weights)


def test_wrappers_of_single_modules_are_taken_off():
    tensors = named_tensors({"encoder._orig_mod.layers.0.module.bias": torch.ones(1)}, "x")
    assert list(tensors) == ["encoder.layers.0.bias"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_any_precision_becomes_float32(tmp_path, weights, dtype):
    converted = {name: value.to(dtype) for name, value in weights.items()}
    torch.save(converted, tmp_path / "w.pt")
    assert_equal(read_weights(tmp_path / "w.pt"), converted)


def test_parameters_of_a_live_model_are_copied(weights):
    live = {name: torch.nn.Parameter(value.clone()) for name, value in weights.items()}
    model = from_notebook(live, style="prenorm", num_heads=3)
    with torch.no_grad():
        live["projection_layer.proj.bias"].add_(1)
    torch.testing.assert_close(model.projection.bias.data, weights["projection_layer.proj.bias"])


class Hostile:
    def __reduce__(self):
        return (Path.touch, (Path("ran-on-load"),))


def test_a_hostile_pickle_is_refused_without_running(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("model.pt").write_bytes(pickle.dumps({"a": Hostile()}))
    torch.save({"fc.weight": Hostile()}, "zipped.pt")
    torch.save({"model_state_dict": {"fc.weight": torch.ones(2)}, "epoch": Hostile()}, "beside.pt")
    torch.save({"fc.weight": Hostile()}, "old.pt", _use_new_zipfile_serialization=False)
    for file in ("model.pt", "zipped.pt", "beside.pt", "old.pt"):
        with pytest.raises(DataError, match=f"{file} is refused"):
            from_notebook(file, style="postnorm", num_heads=2)
        assert not Path("ran-on-load").exists()
        if file != "model.pt":
            # The trap is a real one.
            torch.load(file, weights_only=False)
            Path("ran-on-load").unlink()


def test_a_pickled_model_is_refused_with_what_to_save_instead(tmp_path):
    torch.save(torch.nn.Linear(2, 3), tmp_path / "whole.pt")
    with pytest.raises(DataError, match=r"run `torch.nn.modules.linear.Linear`; save `model.state_dict\(\)`"):
        read_weights(tmp_path / "whole.pt")
    torch.save([torch.ones(2)], tmp_path / "list.pt")
    with pytest.raises(DataError, match=r"list.pt holds a list, not named tensors; save `model.state_dict\(\)`"):
        read_weights(tmp_path / "list.pt")


def test_a_file_that_holds_no_weights_is_refused(tmp_path):
    for content in (b"", b"just text", b"PK\x03\x04 torn"):
        (tmp_path / "weights").write_bytes(content)
        with pytest.raises(DataError, match="is refused"):
            read_weights(tmp_path / "weights")
    with pytest.raises(DataError, match=r"none\.pt cannot be read: No such file"):
        read_weights(tmp_path / "none.pt")
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read_weights(tmp_path)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (torch.eye(2).to_sparse(), "is not a dense tensor"),
        (torch.ones(2, dtype=torch.int64), "is not a dense tensor"),
        (torch.ones(2, dtype=torch.complex64), "is not a dense tensor"),
        ("0.25", "is not a dense tensor"),
        (None, "is not a dense tensor"),
        ({"a": 1}, "is not a dense tensor"),
        (torch.tensor([1.0, float("nan")]), "NaN or infinity"),
        (torch.tensor([1.0, float("inf")], dtype=torch.float16), "NaN or infinity"),
    ],
)
def test_a_value_that_is_not_a_dense_tensor_of_finite_numbers_is_named(value, problem):
    with pytest.raises(DataError, match=f"here: `fc.bias` .*{problem}"):
        named_tensors({"fc.weight": torch.ones(2, 2), "fc.bias": value}, "here")


@pytest.mark.slow
@pytest.mark.parametrize("number", [5, pytest.param(19, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["model.pt", "model.weights.h5", "model.keras"])
def test_a_damaged_file_is_refused_or_read(tmp_path, name, number):
    """Whatever byte is wrong, and wherever the file ends."""
    if name == "model.pt":
        torch.save({f"fc{number}.weight": torch.randn(3, 5) for number in range(3)}, tmp_path / name)
    else:
        pytest.importorskip("h5py")
        save({f"layers/dense_{number}/vars/0": torch.randn(3, 5) for number in range(3)}, tmp_path / "model.weights.h5")
        with zipfile.ZipFile(tmp_path / "model.keras", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(tmp_path / "model.weights.h5", "model.weights.h5")
    content, file, refused = (tmp_path / name).read_bytes(), tmp_path / "damaged", 0
    # The end of a ZIP file is its list of contents.
    step = 190 // number
    for index in [*range(0, len(content), len(content) // number), *range(len(content) - 190, len(content), step)]:
        flipped = content[:index] + bytes([content[index] ^ 0xFF]) + content[index + 1 :]
        for damaged in (flipped, content[:index]):
            file.write_bytes(damaged)
            try:
                read_weights(file)
            except DataError:
                refused += 1
    assert refused > 1.5 * number


# ---- Keras -----------------------------------------------------------------------------------


@pytest.fixture
def keras(tmp_path) -> tuple[Path, dict[str, torch.Tensor]]:
    """A file as Keras writes it of a compiled model, and what it holds of the model."""
    h5py = pytest.importorskip("h5py")
    weights = random_weights("keras", Sizes())
    save(weights, tmp_path / "model.weights.h5")
    with h5py.File(tmp_path / "model.weights.h5", "a") as file:
        file["optimizer/vars/0"] = np.int64(7)
        file["optimizer/vars/1"] = np.ones((2, 3), np.float32)
        file["metrics/mean/vars/0"] = np.float32(0.5)
    return tmp_path / "model.weights.h5", weights


def test_keras_files_and_archives_are_read_without_the_optimizer(keras, tmp_path):
    path, weights = keras
    with zipfile.ZipFile(tmp_path / "model.keras", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata.json", "{}")
        archive.write(path, "model.weights.h5")
    for file in (path, tmp_path / "model.keras"):
        assert_equal(read_weights(file), weights)


def test_bfloat16_of_keras_is_two_bytes_a_number(tmp_path):
    h5py = pytest.importorskip("h5py")
    value = torch.randn(3, 5).bfloat16()
    with h5py.File(tmp_path / "half.weights.h5", "w") as file:
        written = file.create_dataset("layers/dense/vars/0", data=value.view(torch.int16).numpy().view("V2"))
        written.attrs["dtype"] = "bfloat16"
    assert_equal(read_weights(tmp_path / "half.weights.h5"), {"layers/dense/vars/0": value})


@pytest.mark.parametrize("attribute", ["layer_names", "model_config"])
def test_the_old_format_of_keras_is_explained(tmp_path, attribute):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "old.h5", "w") as file:
        file["dense_33/dense_33/kernel:0"] = np.ones((2, 3), np.float32)
        file.attrs[attribute] = "x"
    with pytest.raises(DataError, match=r"old HDF5 format of Keras.*save_weights\(\"NAME.weights.h5\"\)"):
        read_weights(tmp_path / "old.h5")


def test_a_keras_file_that_points_elsewhere_is_not_followed(keras, tmp_path):
    h5py = pytest.importorskip("h5py")
    path, weights = keras
    np.ones(5, np.float32).tofile(tmp_path / "elsewhere")
    with h5py.File(path, "a") as file:
        file.create_dataset("stolen", (5,), "f4", external=[(str(tmp_path / "elsewhere"), 0, 20)])
        file["linked"] = h5py.ExternalLink(str(path), "layers/dense/vars/0")
        layout = h5py.VirtualLayout((5,), "f4")
        layout[:] = h5py.VirtualSource(str(path), "stolen", (5,))
        file.create_virtual_dataset("virtual", layout)
    assert_equal(read_weights(path), weights)


def test_without_h5py_the_extra_is_named(keras, monkeypatch):
    def refuse(name, **_):
        raise ResourceError(f"{name}: pip install")

    monkeypatch.setattr(module.optional, "load", refuse)
    with pytest.raises(ResourceError, match="h5py: pip install"):
        read_weights(keras[0])


# ---- files that promise more than they have --------------------------------------------------------


def one_dataset(file) -> None:
    file.create_dataset("a", (18_000, 18_000), "f4")


def packed_chunks(file) -> None:
    file.create_dataset("a", data=np.zeros((4_000, 4_000), np.float32), compression="gzip")


def one_huge_chunk(file) -> None:
    file.create_dataset("a", (1,), "f4", chunks=(2**28,), maxshape=(None,))


def many_groups(file) -> None:
    for number in range(300):
        file.create_dataset(f"{number}/a", (300, 300), "f4")


def wide_numbers(file) -> None:
    file.create_dataset("a", (1,), np.dtype(("f4", (2_000_000,))))


@pytest.mark.first_is_quick
@pytest.mark.parametrize("build", [one_dataset, packed_chunks, one_huge_chunk, many_groups, wide_numbers])
def test_sizes_that_hdf5_cannot_hold_are_refused_before_anything_is_read(tmp_path, monkeypatch, build):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "model.weights.h5", "w") as file:
        build(file)
    with zipfile.ZipFile(tmp_path / "model.keras", "w") as archive:
        archive.write(tmp_path / "model.weights.h5", "model.weights.h5")
    monkeypatch.delattr(h5py.Dataset, "__getitem__")
    for name in ("model.weights.h5", "model.keras"):
        with pytest.raises(DataError, match="more than 20 times as large in memory"):
            read_weights(tmp_path / name)


def test_groups_of_hdf5_inside_of_each_other_are_not_followed_forever(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "model.weights.h5", "w") as file:
        group = file
        for _ in range(2_000):
            group = group.create_group("a")
        group.create_dataset("b", data=[1.0])
    with pytest.raises(DataError, match="more than 100 groups inside of each other"):
        read_weights(tmp_path / "model.weights.h5")


@pytest.mark.parametrize("name", ["model.keras", "model.pt"])
def test_archives_of_zeros_are_refused_by_their_list(tmp_path, name):
    with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.weights.h5" if name == "model.keras" else "x/data.pkl", bytes(2**22))
    with pytest.raises(DataError, match="more than 20 times as large in memory"):
        read_weights(tmp_path / name)


def test_filters_that_hdf5_would_load_a_library_for_are_refused(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "model.weights.h5", "w") as file:
        file.create_dataset("a", data=np.arange(1000.0), scaleoffset=2)
    monkeypatch.delattr(h5py.Dataset, "__getitem__")
    with pytest.raises(DataError, match="`a` is packed by filter 6 of HDF5"):
        read_weights(tmp_path / "model.weights.h5")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux")
def test_a_chunk_of_hdf5_that_holds_more_than_it_says_ends_its_process(tmp_path):
    h5py = pytest.importorskip("h5py")
    packer = zlib.compressobj(1)
    packed = b"".join(packer.compress(bytes(2**24)) for _ in range(2**6)) + packer.flush()  # 1 GiB of zeros
    with h5py.File(tmp_path / "model.weights.h5", "w") as file:
        dataset = file.create_dataset("a", (2**18,), "f4", chunks=(2**18,), compression="gzip")
        dataset.id.write_direct_chunk((0,), packed)
    before = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF))
    with pytest.raises(DataError, match=r"cannot be read|more memory than"):
        read_weights(tmp_path / "model.weights.h5")
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < before + 2**19  # in KiB


def test_links_of_hdf5_lead_nowhere_twice(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "model.weights.h5", "w") as file:
        file["layers/a"] = np.ones(3, np.float32)
        file["layers/again"] = file["layers/a"]
        file["layers/up"] = file["layers"]
        file["layers/soft"], file["layers/none"] = h5py.SoftLink("/layers/soft"), h5py.SoftLink("/nowhere")
    assert_equal(read_weights(tmp_path / "model.weights.h5"), {"layers/a": torch.ones(3)})


def test_what_does_not_fit_in_memory_is_said_before_it_is_read(tmp_path, monkeypatch):
    save_file({"a": torch.zeros(2**18)}, tmp_path / "model.safetensors")
    torch.save({"a": torch.zeros(2**18)}, tmp_path / "model.pt")
    monkeypatch.setattr(files, "memory_available", lambda: 1000)
    for name in ("model.safetensors", "model.pt"):
        with pytest.raises(ResourceError, match="has 1 MB of weights, but only 0 MB of memory"):
            read_weights(tmp_path / name)


def test_arrays_of_marian_are_as_large_as_they_say(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (10**9,)})
    with zipfile.ZipFile(tmp_path / "model.npz", "w") as archive:
        archive.writestr("Wemb.npy", header.getvalue() + bytes(64))
    with pytest.raises(DataError, match=r"`Wemb\.npy` says that it is larger than it is"):
        marian.read_npz([tmp_path / "model.npz"], tmp_path)


@pytest.mark.parametrize("content", ["[" * 100_000, "a: {b: 1}", "? " * 10_000, "- a", "a: 1\nb", "a: x", "&a a: *a"])
def test_a_vocabulary_of_marian_is_flat(tmp_path, content):
    (tmp_path / "model.vocab.yml").write_text(content)
    with pytest.raises(DataError, match="is no vocabulary of tokens and their numbers"):
        marian._vocabulary(tmp_path / "model.vocab.yml")
