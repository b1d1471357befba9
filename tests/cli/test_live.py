"""Lines that come slowly: each is given as soon as it has arrived, and None before each one that has not."""

import io
import os

import pytest

from dragoman.cli import live
from dragoman.cli.live import live_lines
from dragoman.errors import DataError
from dragoman.formats import text_files as module


@pytest.fixture
def pipe():
    """The reading end as a stream, and a function that writes to the other; b'' closes it."""
    reading, writing = os.pipe()

    def write(content: bytes) -> None:
        os.write(writing, content) if content else os.close(writing)

    with open(reading, "rb") as stream:
        yield stream, write


def test_a_line_is_given_before_the_next_is_written(pipe) -> None:
    stream, write = pipe
    write(b"one\ntwo\nthr")
    lines = live_lines(stream, "pipe")
    assert [next(lines) for _ in range(3)] == ["one", "two", None]
    write(b"ee\r\n\nla")
    assert [next(lines) for _ in range(3)] == ["three", "", None]  # half a line is none yet
    write(b"st")
    write(b"")
    assert list(lines) == ["last"]


def test_nothing_at_all_is_no_line(pipe) -> None:
    stream, write = pipe
    write(b"")
    assert list(live_lines(stream, "pipe")) == []


def test_what_is_all_there_has_no_pauses(tmp_path) -> None:
    text = b"\xef\xbb\xbfone\n" + b"x" * 100_003 + b"\n" + b"\xe2\x80\xa8 two\n" * 3
    expected = ["one", "x" * 100_003, *["\u2028 two"] * 3]
    (tmp_path / "lines.txt").write_bytes(text)
    with (tmp_path / "lines.txt").open("rb") as stream:
        assert list(live_lines(stream, "file")) == expected
    assert list(live_lines(io.BufferedReader(io.BytesIO(text)), "memory")) == expected


def test_bytes_that_are_no_text_name_their_line(pipe) -> None:
    stream, write = pipe
    write(b"good\nCaf\xe9\n")
    lines = live_lines(stream, "stdin")
    assert next(lines) == "good"
    with pytest.raises(DataError, match="stdin, line 2"):
        next(lines)


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch) -> None:
    for reader in (module, live):
        monkeypatch.setattr(reader, "MAX_LINE", 1 << 20)
    path = tmp_path / "endless.txt"
    path.write_bytes(b"x" * (1 << 25))
    with path.open("rb") as stream:
        with pytest.raises(DataError, match="line 1 is longer than 1 MiB"):
            next(live_lines(stream, "stdin"))
        assert stream.tell() < 1 << 21
