"""SentencePiece models of strangers: damaged, absurdly large, or not files at all; none ends an import otherwise than
in one sentence."""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sentencepiece.sentencepiece_model_pb2 as form

from dragoman.interop.imports import pretrained_vocabulary
from dragoman.storage.model_directory import ModelDirectory
from tests.interop import pretrained_models


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return pretrained_models.marian(tmp_path_factory.mktemp("marian") / "model")


def huge(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(2**40)  # no more on disk than before


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def edited(change: Callable[[form.ModelProto], object]) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        model = form.ModelProto.FromString(path.read_bytes())
        change(model)
        path.write_bytes(model.SerializeToString())

    return edit


def without_pieces(model: form.ModelProto) -> None:
    del model.pieces[:]


def with_a_wrong_map(model: form.ModelProto) -> None:
    model.normalizer_spec.precompiled_charsmap = b"\xff" * 64


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"no model"),
        lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
        huge,
        pipe,
        edited(without_pieces),
        edited(with_a_wrong_map),
    ],
)
def test_a_model_that_is_damaged_or_no_file_ends_in_one_sentence(folder, tmp_path, dragoman, damage):
    shutil.copytree(folder, tmp_path / "theirs")
    damage(tmp_path / "theirs/source.spm")
    code, out, err = dragoman("import", tmp_path / "theirs", tmp_path / "ours")
    assert (code, out, (tmp_path / "ours").exists()) == (3, "", False)
    assert err.startswith(f"Error: {tmp_path / 'theirs/source.spm'} cannot be read: "), err
    assert err.endswith("; copy the whole model again.\n")
    assert err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("places", [2, pytest.param(9, marks=pytest.mark.slow)])
def test_any_wrong_byte_is_refused_or_harmless(folder, tmp_path, dragoman, places):
    content, codes = (folder / "source.spm").read_bytes(), set()
    for index in [*range(0, len(content), len(content) // places), *range(len(content) - 90, len(content), 45)]:
        shutil.copytree(folder, tmp_path / "theirs", dirs_exist_ok=True)
        flipped = content[:index] + bytes([content[index] ^ 0xFF]) + content[index + 1 :]
        (tmp_path / "theirs/source.spm").write_bytes(flipped)
        code, _, err = dragoman("import", tmp_path / "theirs", tmp_path / str(index))
        assert code in (0, 3), err
        codes.add(code)
        if code == 0:
            assert ModelDirectory.load(tmp_path / str(index)).source_tokenizer.encode("The old men.")
    assert codes == {0, 3}


def ends_the_program(model: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fills_the_memory(model: str) -> None:
    bytearray(2**31)


@pytest.mark.skipif(sys.platform != "linux", reason="memory of a process is limited on Linux alone")
@pytest.mark.parametrize("hostile", [ends_the_program, fills_the_memory])
def test_a_hostile_model_is_read_in_a_process_of_its_own(folder, tmp_path, dragoman, monkeypatch, hostile):
    monkeypatch.setattr(pretrained_vocabulary, "_try_model", hostile)
    code, _, err = dragoman("import", folder, tmp_path / "ours")
    assert (code, "takes more than 1024 MB of memory, or ends the program" in err) == (3, True), err
