"""Lines of packed files, lines without an end, and texts that must become one line."""

import gzip
import io
import sys
from pathlib import Path

import pytest

from dragoman.errors import DataError, ResourceError
from dragoman.formats import text_files
from dragoman.formats.text_files import read_file, read_lines
from dragoman.text.characters import one_line
from tests.data.readers.files import PACK, write

TEXTS = [f"line {number} \u2028 é" for number in range(1009)]


@pytest.mark.parametrize("suffix", ["", *PACK])
def test_packed_files_have_the_lines_of_plain_ones(tmp_path: Path, suffix: str):
    assert list(read_file(write(tmp_path / f"a.txt{suffix}", "\n".join(TEXTS)))) == TEXTS


@pytest.mark.parametrize("suffix", PACK)
def test_two_packed_files_one_after_the_other_are_one(tmp_path: Path, suffix: str):
    path = write(tmp_path / f"a.txt{suffix}", "one\ntw")
    path.write_bytes(path.read_bytes() + PACK[suffix](b"o\nthree\n"))
    assert list(read_file(path)) == ["one", "two", "three"]


@pytest.mark.parametrize("suffix", PACK)
def test_a_packed_file_that_breaks_off_or_is_none_is_refused(tmp_path: Path, suffix: str):
    path = write(tmp_path / f"a.txt{suffix}", "\n".join(TEXTS))
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 3], whole[:-1], b"\n".join(t.encode() for t in TEXTS)):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a.txt\.\w+ cannot be read after line \d+"):
            list(read_file(path))


def test_line_ends_of_old_macs_are_refused_with_the_remedy(tmp_path: Path):
    with pytest.raises(DataError, match=r"a.txt ends its lines with CR alone; convert them, such as with `tr"):
        list(read_file(write(tmp_path / "a.txt", "one\rtwo\rthree\r")))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path, monkeypatch, suffix: str):
    monkeypatch.setattr(text_files, "MAX_LINE", 1 << 20)
    size = 1 << 20
    path = write(tmp_path / f"a.txt{suffix}", b"short\n" + b"x" * (size - 1) + b"\n")
    assert [len(line) for line in read_file(path)] == [5, size - 1]
    path = write(tmp_path / f"a.txt{suffix}", b"short\n" + b"x" * size + b"\n")
    with pytest.raises(DataError, match=r"line 2 is longer than 1 MiB"):
        list(read_file(path))


def test_a_missing_library_is_named_with_what_installs_it(tmp_path: Path, monkeypatch):
    path = write(tmp_path / "a.zst", "x")
    module = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ResourceError, match=r"\.zst files needs .*pip install .backports.zstd>="):
        list(read_file(path))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nb", "a b"),
        ("a \r\n\t b\n\n\nc", "a b c"),
        ("a\u00a0\nb \u202fc", "a\u00a0 b \u202fc"),
        ("a  b\u2028c\rd", "a  b\u2028c\rd"),
        ("他来了。 \n你呢？\nOK\n好", "他来了。你呢？ OK 好"),
    ],
)
def test_line_breaks_become_one_space_or_none_between_chinese_characters(text: str, line: str):
    assert one_line(text) == line


def test_a_packed_stream_is_told_from_other_encodings():
    with pytest.raises(DataError, match="<stdin> is packed; unpack it first"):
        list(read_lines(io.BufferedReader(io.BytesIO(gzip.compress(b"A dog.\n"))), "<stdin>"))
