"""Pairs as people download them: archives, UTF-16, and names of columns that few know."""

import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest

from dragoman.config.run import load_config
from dragoman.data.bitext import Bitext
from dragoman.data.prepared_folder import STATES, changed_files, file_states
from dragoman.data.readers import archives
from dragoman.errors import DataError

ENGLISH, FRENCH = "Go.\nThe house is old.\nWho is it?\n", "Va !\nLa maison est vieille.\nQui est-ce ?\n"
TABLE = "".join(
    f"{a}\t{b}\tCC-BY 2.0 (France) tatoeba.org #1\n"
    for a, b in zip(ENGLISH.split("\n")[:3], FRENCH.split("\n")[:3], strict=True)
)
PAIRS = list(zip(ENGLISH.split("\n")[:3], FRENCH.split("\n")[:3], strict=True))
MANYTHINGS = {"fra.txt": TABLE, "_about.txt": "** Info **\nCheck for newest version\n"}
MOSES = {
    "README": "A corpus.", "LICENSE": "Free.", "Tatoeba.en-fr.en": ENGLISH, "Tatoeba.en-fr.fr": FRENCH,
    "Tatoeba.en-fr.ids": "1\t2\n3\t4\n5\t6\n", "__MACOSX/._Tatoeba.en-fr.en": "x",
}  # fmt: skip


def zipped(path: Path, members: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def tarred(path: Path, members: dict[str, str]) -> Path:
    mode = {".tgz": "w:gz", ".gz": "w:gz", ".bz2": "w:bz2"}.get(path.suffix, "w")
    with tarfile.open(path, mode) as archive:
        for name, text in members.items():
            content = text.encode()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize(
    "members",
    [
        MANYTHINGS,
        MOSES,
        {f"corpus/v1/{name}": text for name, text in MOSES.items()},
        {f"./{name}": text for name, text in MOSES.items()},
        MOSES | {"Tatoeba.en-fr.xml": "<cesAlign/>"},
        MANYTHINGS | {".git/a.tsv": "x", "Thumbs.db": "x"},
    ],
)
@pytest.mark.parametrize(
    ("pack", "name"),
    [(zipped, "a.zip"), (tarred, "a.tar.gz"), (tarred, "a.tgz"), (tarred, "a.tar"), (tarred, "a.tar.bz2")],
)
def test_the_pairs_in_an_archive_are_found(tmp_path: Path, pack, name: str, members: dict[str, str]):
    bitext = Bitext.open(pack(tmp_path / name, members))
    assert list(bitext) == PAIRS
    assert bitext.files == (str(tmp_path / name),)
    if "README" in members:
        assert bitext.languages == ("en", "fr")


@pytest.mark.parametrize(
    ("names", "languages"),
    [
        (("en/text.txt", "fr/text.txt"), ("en", "fr")),
        (("en/text.en", "fr/text.fr"), ("en", "fr")),
        (("english.txt", "french.txt"), ("en", "fr")),
        (("v1/src.txt", "v1/tgt.txt"), None),
        (("train.source", "train.target"), None),
    ],
)
def test_two_texts_are_known_by_their_names_and_folders(tmp_path: Path, names: tuple[str, str], languages):
    bitext = Bitext.open(zipped(tmp_path / "a.zip", dict(zip(reversed(names), (FRENCH, ENGLISH), strict=True))))
    if languages:
        assert {bitext.source_language, bitext.target_language} == {*languages}
        bitext = Bitext.open(tmp_path / "a.zip", languages=languages)
    assert list(bitext) == PAIRS


def test_texts_in_other_languages_are_not_taken_for_those_that_are_asked_for(tmp_path: Path):
    path = zipped(tmp_path / "a.zip", MOSES)
    with pytest.raises(DataError, match=r"name one, such as .* or two texts, such as .*\.en .*\.fr"):
        Bitext.open(path, languages=("en", "de"))
    assert list(Bitext.open(path, languages=("fr_CA", "eng"))) == [(b, a) for a, b in PAIRS]


def test_the_languages_that_are_asked_for_choose_the_texts_and_their_order(tmp_path: Path):
    members = MOSES | {"Tatoeba.en-fr.de": "Geh.\nDas Haus ist alt.\nWer ist es?\n"}
    path = zipped(tmp_path / "a.zip", members)
    assert list(Bitext.open(path, languages=("fr", "en"))) == [(b, a) for a, b in PAIRS]
    with pytest.raises(
        DataError, match=r"a.zip has 3 files .*name one, such as .*a.zip/Tatoeba.en-fr.en, or two texts"
    ):
        Bitext.open(path)
    inside = path / "Tatoeba.en-fr.en", path / "Tatoeba.en-fr.fr"
    assert list(Bitext.open(*inside)) == PAIRS


def test_a_file_in_an_archive_has_a_name(tmp_path: Path):
    path = zipped(tmp_path / "a.zip", {"train.tsv": TABLE, "test.tsv": TABLE[::-1]})
    with pytest.raises(DataError, match=r"has 2 files that may hold sentence pairs \(train.tsv, test.tsv\); name one"):
        Bitext.open(path)
    assert list(Bitext.open(path / "train.tsv")) == PAIRS
    with pytest.raises(DataError, match=r"a.zip has no file valid.tsv, but train.tsv, test.tsv"):
        Bitext.open(path / "valid.tsv")
    with pytest.raises(DataError, match="has no files with sentence pairs in it, only README"):
        Bitext.open(zipped(tmp_path / "b.zip", {"README": "x"}))
    with pytest.raises(DataError, match="has no files with sentence pairs in it; give another one"):
        Bitext.open(zipped(tmp_path / "c.zip", {}))


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archives, "LEAST_BYTES", 10_000)
    bomb = {"a.tsv": "a\tb\n" * 100_000}
    for path in (zipped(tmp_path / "a.zip", bomb), tarred(tmp_path / "a.tar.gz", bomb)):
        with pytest.raises(DataError, match="unpacks to more than 100 times its size"):
            Bitext.open(path)
    content = zipped(tmp_path / "b.zip", bomb).read_bytes()
    (tmp_path / "b.zip").write_bytes(content.replace((400_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(DataError, match=r"b\.zip"):
        list(Bitext.open(tmp_path / "b.zip"))
    monkeypatch.setattr(archives, "MOST_FILES", 3)
    with pytest.raises(DataError, match="more than 3 files"):
        Bitext.open(zipped(tmp_path / "c.zip", {f"{number}.tsv": "a\tb" for number in range(5)}))


def test_a_damaged_archive_is_a_sentence(tmp_path: Path):
    for path in (
        zipped(tmp_path / "a.zip", MOSES),
        tarred(tmp_path / "a.tar.gz", MOSES),
        tarred(tmp_path / "a.tar", MOSES),
    ):
        content = path.read_bytes()
        for cut in (40, len(content) // 8, len(content) - (8_000 if path.suffix == ".tar" else 30)):
            path.write_bytes(content[:cut])
            with pytest.raises(DataError, match=r"a\.(zip|tar)"):
                list(Bitext.open(path))


def test_a_run_notices_that_the_archive_of_its_pairs_has_changed(tmp_path: Path):
    name = str(zipped(tmp_path / "a.zip", {"train.tsv": TABLE, "test.tsv": TABLE}) / "train.tsv")
    states = file_states(load_config({"data": {"source": name}}, {}))
    (tmp_path / STATES).write_text(json.dumps(states))
    assert changed_files(tmp_path) == []
    zipped(tmp_path / "a.zip", {"train.tsv": TABLE + TABLE, "test.tsv": TABLE})
    assert changed_files(tmp_path) == [name]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.tsv", "a.jsonl"])
def test_unicode_text_of_excel_is_read(tmp_path: Path, encoding: str, name: str):
    rows = [*PAIRS, ("It is a café.", "C'est un café.")]
    if name == "a.jsonl":
        text = "".join(f'{{"en": "{a}", "fr": "{b}"}}\n' for a, b in rows)
    else:
        text = "".join(f"{a}\t{b}\r\n" for a, b in rows)
    (tmp_path / name).write_bytes(text.encode(encoding))
    assert list(Bitext.open(tmp_path / name)) == rows
    packed = zipped(tmp_path / "a.zip", {})
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, text.encode(encoding))
    assert list(Bitext.open(packed)) == rows


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("first", ["", "sep={}\r\n"])
def test_the_separator_of_a_csv_file_is_found_or_read(tmp_path: Path, delimiter: str, first: str):
    rows = [("en", "fr"), *PAIRS]
    text = first.format(delimiter) + "".join(f'"{a}"{delimiter}{b}\r\n' for a, b in rows)
    (tmp_path / "a.csv").write_bytes(text.encode("utf-8-sig"))
    bitext = Bitext.open(tmp_path / "a.csv")
    assert [pair for pair in bitext if any(pair)] == PAIRS
    assert bitext.languages == ("en", "fr")


def test_two_texts_in_utf_16_are_read(tmp_path: Path):
    (tmp_path / "a.en").write_text(ENGLISH, encoding="utf-16")
    (tmp_path / "a.fr").write_text(FRENCH, encoding="utf-8")
    assert list(Bitext.open(tmp_path / "a.en", tmp_path / "a.fr")) == PAIRS
    (tmp_path / "a.en").write_bytes(ENGLISH.encode("utf-16") + b"\0\xd8\0\0")
    with pytest.raises(DataError, match="is no valid UTF-16-LE at byte"):
        Bitext.open(tmp_path / "a.en", tmp_path / "a.fr")


@pytest.mark.parametrize("names", [("eng", "luo"), ("es", "shp"), ("spa", "hch"), ("English", "Luo")])
def test_names_of_columns_in_rarer_codes_are_no_pair(tmp_path: Path, names: tuple[str, str]):
    rows = [f"This is sentence {n}.\tOwacho ni mano {n}." for n in range(9)]
    (tmp_path / "a.tsv").write_text("\n".join(["\t".join(names), *rows]) + "\n")
    assert len(list(Bitext.open(tmp_path / "a.tsv"))) == 9
    (tmp_path / "b.tsv").write_text("\n".join(["no\tnon", "yes\toui", "go\tva", "run\tcours"]) + "\n")
    assert len(list(Bitext.open(tmp_path / "b.tsv"))) == 4
