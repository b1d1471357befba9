"""Data sets through the library `datasets`, from folders: no socket is needed, and none opened."""

import json
import socket
import sys
from pathlib import Path

import pytest

from dragoman.data.bitext import Bitext
from dragoman.errors import DataError, ResourceError
from tests.data.readers.files import languages

PAIRS = [(f"I see {number} cats.", f"Je vois {number} chats.") for number in range(1_013)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """A place for data sets; what the library makes of them stays there too."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))

    def refuse(*_):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    (tmp_path / "books").mkdir()
    return tmp_path / "books"


@pytest.mark.slow
def test_the_column_translation_is_read_as_data_sets_store_it(folder: Path):
    import datasets

    rows = {"id": [str(n) for n in range(len(PAIRS))], "translation": [{"en": s, "fr": t} for s, t in PAIRS]}
    features = datasets.Features({"id": datasets.Value("string"), "translation": datasets.Translation(["en", "fr"])})
    datasets.Dataset.from_dict(rows, features).to_parquet(folder / "train-00000-of-00001.parquet")
    opened = Bitext.open(f"hf:{folder}")
    assert list(opened) == list(opened) == PAIRS
    assert languages(opened) == ("en", "fr")
    assert opened.name.endswith("books")
    assert "/" not in opened.name
    swapped = Bitext.open(f"hf:{folder}", languages=("fr", "en"))
    assert next(iter(swapped)) == PAIRS[0][::-1]


def test_config_and_split_are_chosen_behind_colons(folder: Path):
    for name, text in (("train", "a"), ("validation", "b")):
        (folder / f"{name}.jsonl").write_text(json.dumps({"source": text, "target": text.upper()}), encoding="utf-8")
    assert list(Bitext.open(f"hf:{folder}")) == [("a", "A")]
    assert list(Bitext.open(f"hf:{folder}:default:validation")) == [("b", "B")]
    assert list(Bitext.open(f"hf:{folder}::validation")) == [("b", "B")]
    with pytest.raises(DataError, match=r"split dev\) cannot be loaded: .*dev"):
        Bitext.open(f"hf:{folder}::dev")


@pytest.mark.parametrize("name", ["hf:", "hf:a:b:c:d"])
def test_other_names_are_refused(name: str):
    with pytest.raises(DataError, match=f"{name} names no data set; write hf:NAME"):
        Bitext.open(name)


def test_a_folder_without_data_is_refused_in_one_line(folder: Path):
    with pytest.raises(DataError, match=r"books .* cannot be loaded: ") as caught:
        Bitext.open(f"hf:{folder}")
    assert "\n" not in str(caught.value)


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ResourceError, match=r"Reading hf:x needs .*pip install 'datasets>="):
        Bitext.open("hf:x")
