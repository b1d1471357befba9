"""Files that are no text are known by their first bytes, whatever their names say; packed ones are read."""

import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest

from dragoman.data.bitext import Bitext
from tests.data.readers.files import PACK, refusal

TEXT = b"Go.\tVa !\nYes.\tOui.\n"


def zipped(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, TEXT)
    return file.getvalue()


def tarred() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("fra.txt")
        member.size = len(TEXT)
        archive.addfile(member, io.BytesIO(TEXT))
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (zipped("[Content_Types].xml", "xl/workbook.xml"), "a document of an office program; save its table there as"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a document of an office program"),
        (b"7z\xbc\xaf\x27\x1c", "an archive that is not opened here; unpack it and give the file inside"),
        (b"Rar!\x1a\x07\x00", "an archive that is not opened here; unpack it"),
        (b"%PDF-1.7\n", "a PDF; copy its text into a text file"),
        (b"\n<!DOCTYPE HTML>\n<title>fra.txt</title>", "a web page; download the file itself"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
    ],
)
@pytest.mark.parametrize("name", ["a.tsv", "a.xlsx", "a.csv", "a.jsonl", "a.po", "a.zip"])
def test_what_is_no_text_is_refused_with_the_remedy(tmp_path: Path, content: bytes, words: str, name: str):
    (tmp_path / name).write_bytes(content)
    assert f"{name} is {words}" in refusal(tmp_path / name)


@pytest.mark.parametrize(
    "content", [zipped("fra.txt", "_about.txt"), gzip.compress(tarred()), lzma.compress(zipped("a.tsv"))]
)
def test_archives_are_known_by_their_bytes(tmp_path: Path, content: bytes):
    (tmp_path / "a.tsv").write_bytes(content)
    assert len(list(Bitext.open(tmp_path / "a.tsv"))) == 2


@pytest.mark.parametrize("pack", PACK.values())
@pytest.mark.parametrize("name", ["a.tsv", "a", "a.txt.gz", "a.xz", "a.zst"])
def test_packed_files_are_read_whatever_their_names_say(tmp_path: Path, pack, name: str):
    (tmp_path / name).write_bytes(pack(TEXT))
    assert list(Bitext.open(tmp_path / name)) == [("Go.", "Va !"), ("Yes.", "Oui.")]
