"""Adapters: low-rank changes of a model in a file of their own."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save, save_file

from dragoman.errors import DataError
from dragoman.storage.adapter import (
    ADAPTER,
    BASE,
    DOWN,
    UP,
    adapter_path,
    check_adapter,
    identity,
    run_of,
    with_adapter,
    write_adapter,
)
from dragoman.storage.weights_file import SUMS, sealed

MATRIX, OTHER, BIAS = "encoder.weight", "decoder.weight", "encoder.bias"


@pytest.fixture
def base() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    shapes = {MATRIX: (29, 23), OTHER: (11, 31), BIAS: (29,)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def adapted(base: dict[str, np.ndarray], *, rank: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    rows, columns = base[MATRIX].shape
    change = rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns))
    return base | {MATRIX: (base[MATRIX] + 0.1 * change).astype(np.float32)}


@pytest.mark.parametrize("rank", [1, 3, 7, 23])
def test_it_turns_the_model_into_the_adapted_one_even_if_its_rank_is_higher_than_it_was_to_be(base, tmp_path, rank):
    expected = adapted(base, rank=rank)
    write_adapter(tmp_path / ADAPTER, base, expected, rank=3)
    result = with_adapter(base, tmp_path).weights
    assert result.keys() == base.keys()
    np.testing.assert_allclose(result[MATRIX], expected[MATRIX], rtol=0, atol=2e-5)
    for name in (OTHER, BIAS):
        assert result[name] is base[name]
    stored = load_file(tmp_path / ADAPTER)
    assert stored.keys() == {MATRIX + UP, MATRIX + DOWN}
    assert stored[MATRIX + UP].shape[1] == {1: 3, 3: 3, 7: 12, 23: 23}[rank]


def test_it_knows_how_well_the_adapted_model_translates_in_eight_bits(base, tmp_path):
    """What holds for the model that it changes says nothing about it."""
    for bleu in (None, 98.25):
        write_adapter(tmp_path / ADAPTER, base, adapted(base, rank=2), rank=2, int8_bleu=bleu)
        assert with_adapter(base, tmp_path).int8_bleu == bleu


def test_it_is_the_same_file_each_time(base, tmp_path):
    for name in ("one", "two"):
        write_adapter(tmp_path / name, base, adapted(base, rank=2), rank=2)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_changes_of_what_is_no_matrix_are_not_lost_in_silence(base, tmp_path):
    with pytest.raises(ValueError, match=BIAS):
        write_adapter(tmp_path / ADAPTER, base, base | {BIAS: base[BIAS] + 1}, rank=2)


def test_another_model_is_refused(base, tmp_path):
    write_adapter(tmp_path / ADAPTER, base, adapted(base, rank=2), rank=2)
    other = base | {BIAS: base[BIAS] + np.float32(1e-3)}
    with pytest.raises(DataError, match="belongs to another model"):
        with_adapter(other, tmp_path / ADAPTER)


def test_a_flipped_bit_is_found_or_changes_nothing(base, tmp_path):
    write_adapter(tmp_path / ADAPTER, base, adapted(base, rank=2), rank=2)
    expected = with_adapter(base, tmp_path).weights[MATRIX]
    content = (tmp_path / ADAPTER).read_bytes()
    for position in np.random.default_rng(11).integers(0, len(content), 97):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (int(position) % 8)
        (tmp_path / ADAPTER).write_bytes(damaged)
        try:
            result = with_adapter(base, tmp_path / ADAPTER).weights[MATRIX]
        except DataError:
            continue
        np.testing.assert_array_equal(result, expected)  # the name of a checksum that need not be there
    (tmp_path / ADAPTER).write_bytes(content[:-1])
    with pytest.raises(DataError, match="cut short"):
        check_adapter(tmp_path)


@pytest.mark.parametrize(
    ("tensors", "value", "words"),
    [
        ({"unknown.weight.up": (3, 1), "unknown.weight.down": (1, 3)}, 1, "do not fit"),
        ({MATRIX + UP: (29, 1)}, 1, "do not fit"),
        ({MATRIX + UP: (29, 1), MATRIX + DOWN: (2, 23)}, 1, "do not fit"),
        ({MATRIX + UP: (23, 1), MATRIX + DOWN: (1, 29)}, 1, "do not fit"),
        ({BIAS + UP: (29, 1), BIAS + DOWN: (1, 1)}, 1, "do not fit"),
        ({MATRIX + UP: (29, 1), MATRIX + DOWN: (1, 23)}, np.inf, "no finite numbers"),
    ],
    ids=str,
)
def test_changes_that_do_not_fit_are_refused(base, tmp_path, tensors, value, words):
    """A file whose checksums are right, as somebody may have made it."""
    arrays = {name: np.full(shape, value, np.float32) for name, shape in tensors.items()}
    (tmp_path / ADAPTER).write_bytes(sealed(arrays, save, {BASE: identity(base)}, name=ADAPTER))
    with np.errstate(invalid="ignore"), pytest.raises(DataError, match=words):
        with_adapter(base, tmp_path)


def test_weights_that_are_no_adapter_are_refused_by_their_header(base, tmp_path):
    save_file(base, tmp_path / ADAPTER)
    for read in (check_adapter, lambda path: with_adapter(base, path)):
        with pytest.raises(DataError, match=r"is no adapter; a run with finetune\.lora writes one"):
            read(tmp_path)
    save_file(base, tmp_path / ADAPTER, metadata={SUMS: json.dumps({ADAPTER: "0"})})
    with pytest.raises(DataError, match="is no adapter"):
        check_adapter(tmp_path)
    with pytest.raises(DataError, match="is no adapter"):
        check_adapter(tmp_path / "missing.safetensors")


def test_a_run_stands_for_its_adapter(tmp_path):
    assert adapter_path(tmp_path) == tmp_path / ADAPTER
    assert adapter_path(tmp_path / "law.safetensors") == tmp_path / "law.safetensors"


def test_only_the_run_that_wrote_an_adapter_describes_it(tmp_path: Path) -> None:
    model, run, elsewhere = (tmp_path / name for name in ("model", "run", "elsewhere"))
    for folder in (model, run, elsewhere):
        folder.mkdir()
        (folder / ADAPTER).touch()
    for folder in (model, run):
        (folder / "config.json").touch()
    assert run_of(run, model) == run_of(run / ADAPTER, model) == run
    assert run_of(model / ADAPTER, model) is None
    assert run_of(elsewhere / ADAPTER, model) is None


def test_what_it_knows_of_eight_bits_is_not_rounded_and_sealed(base, tmp_path):
    path = tmp_path / ADAPTER
    write_adapter(path, base, adapted(base, rank=2), rank=2, int8_bleu=97.996)
    assert with_adapter(base, path).int8_bleu == 97.996
    content = path.read_bytes()
    assert content.count(b"97.996") == 1
    for other in (b"98.996", b"-7.996", b"   nan", b"999999"):
        path.write_bytes(content.replace(b"97.996", other))
        with pytest.raises(DataError, match="damaged"):
            with_adapter(base, path)
