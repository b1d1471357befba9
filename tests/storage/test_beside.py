"""Files beside a model: they belong to its weights, and damaged ones are refused by name."""

import os
import random
from pathlib import Path

import pytest

from dragoman.errors import DataError
from dragoman.storage import beside
from dragoman.storage.beside import SKETCH, read_sketch, write_sketch
from dragoman.text.sketch import LARGEST, MOST_PARTS, SEAL, Sketch
from tests.cli.test_translation import save_model

DICE = random.Random(5)
SOURCES = [" ".join(DICE.choices("abcdefghijklmnop", k=9)) for _ in range(4000)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("beside") / "model", seed=7)


@pytest.fixture
def sketch(model: Path) -> Sketch:
    sketch = Sketch.of([(source, source) for source in SOURCES])
    write_sketch(model, sketch)
    return sketch


def test_a_sketch_is_read_again(model: Path, sketch: Sketch) -> None:
    assert read_sketch(model).to_bytes() == sketch.to_bytes()
    (model / SKETCH).unlink()
    assert read_sketch(model) is None


def test_the_sketch_of_a_model_that_was_replaced_does_not_count(model: Path, sketch: Sketch, tmp_path: Path) -> None:
    other = save_model(tmp_path / "other", seed=11)
    (other / SKETCH).write_bytes((model / SKETCH).read_bytes())
    assert read_sketch(other) is None


@pytest.mark.parametrize("position", [0, 33, 45, -1])
def test_a_changed_byte_is_damage(model: Path, sketch: Sketch, position: int) -> None:
    content = bytearray((model / SKETCH).read_bytes())
    content[position] ^= 1
    (model / SKETCH).write_bytes(content)
    with pytest.raises(DataError, match=r"sketch\.bin is damaged"):
        read_sketch(model)


@pytest.mark.parametrize("kind", ["empty", "folder", "pipe", "huge"])
def test_what_is_no_sketch_is_refused(model: Path, kind: str) -> None:
    file = model / SKETCH
    file.unlink(missing_ok=True)
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.write_bytes(b"")
        os.truncate(file, (1 << 31) if kind == "huge" else 0)
    with pytest.raises(DataError, match=r"sketch\.bin"):
        read_sketch(model)
    file.rmdir() if kind == "folder" else file.unlink()


def test_the_largest_sketches_are_read(model: Path, sketch: Sketch) -> None:
    """As many parts as a model may have; a file of so many of the largest is admitted, too."""
    whole = sketch
    for _ in range(MOST_PARTS + 3):
        whole = sketch.after(whole)
    assert len(whole.parts) == MOST_PARTS
    write_sketch(model, whole)
    assert read_sketch(model).to_bytes() == whole.to_bytes()
    assert beside.LARGEST[SKETCH] >= MOST_PARTS * (LARGEST + SEAL) + SEAL
