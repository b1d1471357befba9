"""A model directory is judged by its files alone: what ends too early, is missing or is of another version."""

import json
import os
from pathlib import Path

import pytest

from dragoman.data.bitext import Bitext
from dragoman.errors import DataError
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.validate import check_files
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.small import small_directory


@pytest.fixture
def model(tmp_path: Path) -> Path:
    tokenizer = Tokenizer.train((s for s, _ in Bitext.open("builtin:grammar:50")), vocab_size=300)
    small_directory(tokenizer).save(tmp_path / "model")
    return tmp_path / "model"


def test_a_whole_model_is_fine(model):
    check_files(model)


def test_weights_that_end_anywhere_too_early_or_late_are_seen(model):
    weights = model / "model.safetensors"
    whole = weights.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    for length in (0, 5, 8, 100, header - 1, header, header + 7, len(whole) - 1):
        weights.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"model\.safetensors is (cut short|damaged).*copy the model again"):
            check_files(model)
    weights.write_bytes(whole + b"x")
    with pytest.raises(DataError, match=r"is cut short or damaged.*not fully covered"):
        check_files(model)


@pytest.mark.parametrize(
    "header", [b"[]", b"{", b'{"a": 1}', b'{"a": {"data_offsets": [0]}}', b"\xff\xfe", b"[" * 9999]
)
def test_a_header_that_is_none_is_seen(model, header):
    (model / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(DataError, match="damaged"):
        check_files(model)


def test_missing_files_are_named(model):
    (model / "tokenizer.json").rename(model / "other.json")
    with pytest.raises(DataError, match=r"tokenizer\.json is missing"):
        check_files(model)
    (model / "other.json").rename(model / "tokenizer.json")
    (model / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"model\.safetensors is missing"):
        check_files(model)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, "format 2, but this version"),
        ({"model": {"d_modle": 8}}, "d_modle"),
        ({"model": None}, "does not describe a model: `model` is missing, not an object"),
        ({"model": [1]}, r"does not describe a model: `model` is \[1\], not an object"),
        ({"model": "x" * 10_000}, r"`model` is 'x{59} \.\.\., not an object"),
        ({"decoding": 7}, "`decoding` is 7, not an object"),
        ({"source_tokenizer": "../tokenizer.json"}, "not a file in the same folder"),
        ({"target_language": 7}, "not a language"),
    ],
)
def test_a_config_of_others_is_refused(model, change, words):
    file = model / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(DataError, match=words):
        check_files(model)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_what_has_no_end_is_not_read(model, name):
    (model / name).unlink()
    os.mkfifo(model / name)
    with pytest.raises(DataError, match=rf"{name} is no file"):
        check_files(model)
    (model / name).unlink()
    (model / name).symlink_to("/dev/zero")
    with pytest.raises(DataError, match=rf"{name} is no file"):
        ModelDirectory.load(model)


@pytest.mark.parametrize(("name", "most"), [("config.json", 1), ("tokenizer.json", 32)])
def test_what_would_fill_the_memory_is_not_read(model, name, most):
    with open(model / name, "r+b") as file:
        file.truncate((most << 20) + 1)
    with pytest.raises(DataError, match=rf"{name} has more than {most} MiB"):
        check_files(model)
