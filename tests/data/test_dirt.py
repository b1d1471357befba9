"""What people have in their files, a row each: what training keeps of it, what it counts, what it refuses.

Line N of one side stays with line N of the other in every case.
"""

import os
import pickle
from pathlib import Path

import pytest

from dragoman.config.data import DataConfig
from dragoman.data.corpora import open_corpora, open_held_out
from dragoman.data.readers.two_files import UnequalFiles
from dragoman.errors import DataError
from tests.data.readers.files import write

GOOD = [("One.", "Un."), ("Two.", "Deux.")]

# Sides of the pair between two good ones, and the reason why it is dropped, or what is kept of it.
LINES = {
    "source empty": ("", "x", "source is empty"),
    "target empty": ("x", "", "target is empty"),
    "both empty": ("", "", "source is empty"),
    "whitespace only": (" \u00a0\u3000", "x", "source is empty"),
    "NUL": ("x\0", "y", "damaged characters (control characters, U+FFFD)"),
    "control character": ("x", "y\x1b[0m", "damaged characters (control characters, U+FFFD)"),
    "bytes lost in an older conversion": ("x", "y\ufffd", "damaged characters (control characters, U+FFFD)"),
    "a line of a megabyte": ("x" * 1_000_003, "y" * 1_000_003, "a side is longer than 5,000 characters"),
    "lengths that do not match": ("x" * 211, "y", "one side is more than 6 times as long as the other"),
    "same on both sides": ("left as it was " * 7, "left as it was " * 7, "both sides are the same text"),
    "a duplicate": ("One.", "Un.", "repeats another pair"),
    "Windows line end": ("x\r", "y\r", ("x", "y")),
    "old Mac line end inside": ("x\rx", "y", ("x\rx", "y")),
    "U+2028 inside": ("x\u2028x", "y\u2029y", ("x\u2028x", "y\u2029y")),
    "U+0085 inside": ("x\u0085x", "y", "damaged characters (control characters, U+FFFD)"),
    "BOM in the middle": ("\ufeffx", "y", ("x", "y")),
    "quotes": ('"x', 'y"""', ('"x', 'y"""')),
    "decomposed letters": ("cafe\u0301", "cafe\u0301s", ("caf\u00e9", "caf\u00e9s")),
    "private use": ("\uf8d0\uf8d1", "y", ("\uf8d0\uf8d1", "y")),
    "marks of direction": ("\u200fx\u202e", "\u200ey", ("\u200fx\u202e", "\u200ey")),
    "a name that is the same": ("Paris!", "Paris!", ("Paris!", "Paris!")),
}


@pytest.mark.parametrize("row", LINES)
@pytest.mark.parametrize("form", ["tsv", "two files"])
def test_a_dirty_pair_is_kept_or_counted_and_moves_no_other(tmp_path: Path, row: str, form: str):
    source, target, outcome = LINES[row]
    if form == "two files" or row == "Windows line end":
        sides = list(zip(GOOD[0], (source, target), GOOD[1], strict=True))
        paths = [write(tmp_path / f"a.{n}", "\n".join(side)) for n, side in zip(("en", "fr"), sides, strict=True)]
        corpus = open_corpora(DataConfig(source=str(paths[0]), target=str(paths[1])))
    else:
        pairs = [GOOD[0], (source, target), GOOD[1]]
        corpus = open_corpora(DataConfig(source=str(write(tmp_path / "a.tsv", "\n".join(map("\t".join, pairs))))))
    if isinstance(outcome, str):
        assert list(corpus) == GOOD
        assert corpus.report.dropped == {outcome: 1}
    else:
        assert list(corpus) == [GOOD[0], outcome, GOOD[1]]
        assert not corpus.report.dropped


def test_half_a_character_from_json_is_dropped(tmp_path: Path):
    content = '{"src": "One.", "tgt": "Un."}\n{"src": "x\\ud83d", "tgt": "y"}\n{"src": "Two.", "tgt": "Deux."}\n'
    corpus = open_corpora(DataConfig(source=str(write(tmp_path / "a.jsonl", content))))
    assert list(corpus) == GOOD
    assert corpus.report.dropped.total() == 1


def test_a_bom_and_tabs_of_other_columns_are_no_text(tmp_path: Path):
    content = b"\xef\xbb\xbf" + b"One.\tUn.\tCC-BY\t7\nTwo.\tDeux.\t\n"
    assert list(open_corpora(DataConfig(source=str(write(tmp_path / "a.tsv", content))))) == GOOD


def test_sides_that_are_swapped_in_some_units_are_put_in_order(tmp_path: Path):
    def unit(*variants: tuple[str, str]) -> str:
        return "<tu>" + "".join(f'<tuv xml:lang="{c}"><seg>{t}</seg></tuv>' for c, t in variants) + "</tu>"

    (one, un), (two, deux) = GOOD
    units = unit(("en", one), ("fr", un)) + unit(("fr", deux), ("en", two))
    assert list(open_corpora(DataConfig(source=str(write(tmp_path / "a.tmx", f"<tmx>{units}</tmx>"))))) == GOOD


def test_validation_sentences_in_the_training_data_are_dropped(tmp_path: Path):
    corpus = open_corpora(DataConfig(source=str(write(tmp_path / "a.tsv", "\n".join(map("\t".join, GOOD))))))
    kept = corpus.cleaned(held_out=[open_corpora(DataConfig(source=str(write(tmp_path / "b.tsv", "ONE.\tx\n"))))])
    assert list(kept) == GOOD[1:]
    assert kept.report.dropped == {"source is in held-out data": 1}


REFUSED = {
    "fewer lines on one side": (
        [b"a long line of text\nb\nc\n", b"a\nb\n"],
        "a.en has 3 lines but {}/a.fr has 2; ",
    ),
    "invalid UTF-8": ([b"a\tb\n\xff\tb\n"], "a.tsv, line 2 is not valid UTF-8 (byte 0xFF at position 1)"),
    "no tab": ([b"a\tb\nc d\n"], "a.tsv, line 2 has no tab"),
    "empty file": ([b""], "a.tsv is empty"),
}


@pytest.mark.parametrize("row", REFUSED)
def test_a_file_that_cannot_be_right_is_refused_with_its_line(tmp_path: Path, row: str):
    contents, words = REFUSED[row]
    names = ["a.tsv"] if len(contents) == 1 else ["a.en", "a.fr"]
    paths = [str(write(tmp_path / name, content)) for name, content in zip(names, contents, strict=True)]
    with pytest.raises(DataError) as caught:
        list(open_corpora(DataConfig(source=paths[0], target=paths[1] if paths[1:] else None)))
    assert words.format(tmp_path) in str(caught.value)


LATIN1 = "caf\u00e9".encode("latin-1")
BAD_BYTES = {
    "a.tsv": b"One.\tUn.\n" + LATIN1 + b"\tx\nTwo.\tDeux.\n",
    "a.jsonl": b'{"src": "One.", "tgt": "Un."}\n{"src": "' + LATIN1 + b'", "tgt": "x"}\n'
    b'{"src": "Two.", "tgt": "Deux."}',
    "a.po": b'msgid "One."\nmsgstr "Un."\n\nmsgid "' + LATIN1 + b'"\nmsgstr "x"\n\nmsgid "Two."\nmsgstr "Deux."\n',
}


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("name", BAD_BYTES)
def test_bytes_that_are_no_utf_8_cost_their_pair_alone_when_the_user_says_so(tmp_path: Path, name: str, packed: str):
    file = str(write(tmp_path / (name + packed), BAD_BYTES[name]))
    with pytest.raises(DataError, match=r"line \d is not valid UTF-8 .*, or leave .* data.replace_bad_bytes=true\."):
        list(open_corpora(DataConfig(source=file)))
    corpus = open_corpora(DataConfig(source=file, replace_bad_bytes=True))
    assert list(corpus) == GOOD
    assert corpus.report.dropped == {"damaged characters (control characters, U+FFFD)": 1}


def test_bytes_that_are_no_utf_8_shift_no_line_of_two_files(tmp_path: Path):
    source = write(tmp_path / "a.en", b"One.\n\xff\xfe\xff\nTwo.\n")
    target = write(tmp_path / "a.fr", b"Un.\nx\nDeux.\n")
    files = {"source": str(source), "target": str(target)}
    assert list(open_corpora(DataConfig(**files, replace_bad_bytes=True))) == GOOD
    held_out = open_held_out(DataConfig(test=list(files.values()), replace_bad_bytes=True), None)["test"]
    assert list(held_out) == [GOOD[0], ("\ufffd\ufffd\ufffd", "x"), GOOD[1]]


def test_files_of_unequal_length_are_refused_in_any_process(tmp_path: Path):
    source, target = write(tmp_path / "a.en", "a\nb\nc"), write(tmp_path / "a.fr", "d\n")
    with pytest.raises(UnequalFiles, match=r"a.en has 3 lines but .*a.fr has 1; line N") as caught:
        list(open_corpora(DataConfig(source=str(source), target=str(target))))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.source_lines, again.target) == (str(caught.value), 3, target)


def test_a_packed_file_that_breaks_off_is_refused(tmp_path: Path):
    file = write(tmp_path / "a.tsv.gz", "".join(f"{number}\t{number}\n" for number in range(1_009)))
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"a.tsv.gz cannot be read after line \d+"):
        list(open_corpora(DataConfig(source=str(file))))


def test_a_file_that_changes_after_it_was_opened_is_refused(tmp_path: Path):
    file = write(tmp_path / "a.tsv", "\n".join(map("\t".join, GOOD)))
    corpus = open_corpora(DataConfig(source=str(file)))
    assert list(corpus) == GOOD
    status = file.stat()
    file.write_text("One.\tUn.\nTwo.\tUne.\n", encoding="utf-8")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_003))
    with pytest.raises(DataError, match=r"a.tsv changed while it was read"):
        list(corpus)
