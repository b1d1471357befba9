"""A stranger's model directory is refused in one sentence, or translates; it never crashes the process."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dragoman.engine.parameters import SCALE, restored, without_scales
from dragoman.errors import DataError
from dragoman.storage.validate import WEIGHTS, check_files
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.small import small_directory
from tests.storage.fuzzed_models import file_of, packed, unpacked

WORDS = ["the", "red", "house", "is", "old", "a", "cat", "sees", "two", "dogs"]
EIGHT_BITS = {"d_model": 32, "num_heads": 2, "d_ff": 48}
"""Widths that suit products of eight bits."""
PROGRAM = "tests.storage.fuzzed_models"
SECONDS = 900
"""Time for all cases; ten thousand take some two minutes."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models: weights in float32 and in eight bits, and widths that do not suit eight bits."""
    path, tokenizer = tmp_path_factory.mktemp("models"), Tokenizer.train(WORDS, vocab_size=271)
    others = {"share_embeddings": True, "activation": "swiglu", "positions": "rotary", "norm": "rms"}
    small_directory(tokenizer, **EIGHT_BITS).save(path / "float32")
    small_directory(tokenizer, **EIGHT_BITS, **others).save(path / "int8", int8=True)
    learned = {"positions": "learned", "max_positions": 64, "tie_projection": False, "norm_order": "post"}
    small_directory(tokenizer, **learned).save(path / "other-widths")
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by /proc")
@pytest.mark.parametrize("number", [30, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_damaged_model_is_refused_or_translates(models: Path, tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-m", PROGRAM, models, tmp_path / "damaged", "0", str(number)]
    root = Path(__file__).parents[2]
    process = subprocess.run(command, cwd=root, env=os.environ, capture_output=True, text=True, timeout=SECONDS)
    lines = process.stdout.splitlines()
    assert process.returncode == 0, f"exit code {process.returncode} at {lines[-1:]}:\n{process.stderr[-3000:]}"
    outcomes = [json.loads(line.partition(" ")[2]) for line in lines]
    assert len(outcomes) == number
    for kind, message in outcomes:
        assert kind == "loaded" or re.fullmatch(r"[^\0-\x1f\x7f-\x9f\u2028\u2029]{9,2000}", message), message
    kinds = Counter(kind for kind, _ in outcomes)
    assert kinds.keys() == {"loaded", "data"}
    assert min(kinds.values()) > number / 50


def test_a_sparse_file_of_a_terabyte_is_refused_by_its_header(models: Path) -> None:
    file = models / "float32" / WEIGHTS
    whole = file.read_bytes()
    header, body = packed(unpacked(whole))
    header["x"] = {"dtype": "I8", "shape": [2**40], "data_offsets": [len(body), len(body) + 2**40]}
    content = file_of(json.dumps(header).encode(), body)
    try:
        file.write_bytes(content)
        os.truncate(file, len(content) + 2**40)
        with pytest.raises(DataError, match="has the weights 'x' that config"):
            check_files(file.parent)
    finally:
        file.write_bytes(whole)


def test_a_million_dimensions_are_refused_before_they_are_multiplied(models: Path, tmp_path: Path) -> None:
    entry = {"dtype": "F32", "shape": [2] * 1_000_000, "data_offsets": [0, 0]}
    (tmp_path / WEIGHTS).write_bytes(file_of(json.dumps({"x": entry}).encode(), b""))
    for file in (models / "float32").iterdir():
        if file.name != WEIGHTS:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(DataError, match="'x' has 1,000,000 dimensions"):
        check_files(tmp_path)


@pytest.mark.parametrize("shapes", [((), ()), ((3,), (3,)), ((2, 3, 2), (2,)), ((2, 3), ()), ((2, 3), (3,))])
def test_only_a_matrix_has_scales_and_one_for_each_row(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """A vector of a million numbers, scaled as rows, would become four terabytes."""
    arrays = {"w": np.ones(shapes[0], np.int8), f"w{SCALE}": np.ones(shapes[1], np.float32)}
    assert restored(arrays).keys() == without_scales(arrays).keys() == arrays.keys()
    assert restored(arrays)["w"].shape == shapes[0]


def test_a_matrix_is_multiplied_by_the_scales_of_its_rows() -> None:
    arrays = {"w": np.array([[1, -2], [3, 4]], np.int8), f"w{SCALE}": np.array([0.5, 2], np.float32)}
    assert without_scales(arrays).keys() == {"w"}
    np.testing.assert_array_equal(restored(arrays)["w"], np.array([[0.5, -1], [6, 8]], np.float32))
