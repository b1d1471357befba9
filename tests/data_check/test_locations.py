"""Findings name the file and the line, in every format, whatever the file has beside its pairs."""

import json
from pathlib import Path

import pytest

from dragoman.config.data import CleaningConfig, CorpusConfig, DataConfig
from dragoman.data.bitext import Bitext
from dragoman.data.corpora import open_corpora, open_held_out
from dragoman.data.readers.types import Skipped
from dragoman.data_check import check, locations
from dragoman.data_check.locations import Locations
from tests.data.readers.files import PACK, write
from tests.data_check.corpora import clean, only

PAIRS = [("House one.", "Maison un."), ("House two.", "Maison deux."), ("House three.", "Maison trois.")]


def tmx(pairs: list[tuple[str, str]]) -> str:
    """A memory in which every unit takes four lines, after one without French."""
    unit = '<tu>\n<tuv xml:lang="en"><seg>{}</seg></tuv>\n<tuv xml:lang="fr">\n<seg>{}</seg></tuv></tu>'
    units = [unit.format(*pair) for pair in pairs]
    alone = '<tu><tuv xml:lang="en"><seg>Alone.</seg></tuv></tu>'
    return "\n".join(["<tmx><body>", units[0], "<!-- a", "comment -->", alone, *units[1:], "</body></tmx>"])


def xliff(pairs: list[tuple[str, str]]) -> str:
    unit = '<trans-unit id="{}"><source>{}</source>\n\n<target>{}</target></trans-unit>'
    units = [unit.format(number, *pair) for number, pair in enumerate(pairs)]
    new = '<trans-unit id="n"><source>New.</source></trans-unit>'
    head = '<xliff version="1.2"><file source-language="en" target-language="fr"><body>'
    return "\n".join([head, units[0], new, *units[1:], "</body></file></xliff>"])


def po(pairs: list[tuple[str, str]]) -> str:
    messages = [f'#: menu.c:13\nmsgid "{s}"\nmsgstr ""\n"{t}"\n' for s, t in pairs]
    return "\n".join(['msgid ""\nmsgstr "Language: fr\\n"\n', messages[0], 'msgid "New."\nmsgstr ""\n', *messages[1:]])


def jsonl(pairs: list[tuple[str, str]]) -> str:
    return "\n\n".join(json.dumps({"en": source, "fr": target}) for source, target in pairs)


def tsv(pairs: list[tuple[str, str]]) -> str:
    return "\n".join(map("\t".join, pairs))


FORMATS = {"tmx": tmx, "xlf": xliff, "po": po, "jsonl": jsonl, "tsv": tsv}


@pytest.mark.parametrize("packed", ["", *PACK])
@pytest.mark.parametrize("suffix", FORMATS)
def test_an_entry_begins_on_its_line_and_ends_before_the_next(tmp_path: Path, suffix: str, packed: str):
    content = FORMATS[suffix](PAIRS)
    opened = Bitext.open(write(tmp_path / f"a.{suffix}{packed}", content))
    lines, entries = content.split("\n"), list(opened.entries())
    assert list(opened) == PAIRS
    assert [entry for _, entry in entries if not isinstance(entry, Skipped)] == PAIRS
    ends = [line for line, _ in entries[1:]] + [len(lines) + 1]
    for (line, entry), end in zip(entries, ends, strict=True):
        lines_of_entry = "\n".join(lines[line - 1 : end - 1])
        texts = ["Alone." if suffix == "tmx" else "New."] if isinstance(entry, Skipped) else entry
        assert all(text in lines_of_entry for text in texts)
        assert texts[0] in "\n".join(lines[line - 1 : line + 1])


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("suffix", FORMATS)
def test_numbers_of_pairs_lead_to_their_lines(tmp_path: Path, monkeypatch, suffix: str, size: int):
    monkeypatch.setattr(locations, "PAIRS_PER_BLOCK", size)
    files = [write(tmp_path / f"{name}.{suffix}", FORMATS[suffix](PAIRS)) for name in "ab"]
    opened = [Bitext.open(file) for file in files]
    where = Locations()
    blocks = list(where.blocks(opened))
    assert [pair[1:] for block in blocks for pair in block] == PAIRS * 2
    numbers = [number for block in blocks for number, _, _ in block]
    assert numbers == list(range(1, 7))
    expected = [
        ((str(file),), "line", line)
        for file, corpus in zip(files, opened, strict=True)
        for line, entry in corpus.entries()
        if not isinstance(entry, Skipped)
    ]
    assert [tuple(where[number]) for number in numbers] == expected
    assert where.starts == [1, 4]
    assert 4 in [block[0].number for block in blocks]


def test_findings_name_files_and_lines_and_what_was_no_pair(tmp_path: Path):
    pairs = [*clean(30), clean(30)[4]]
    memory, plain = write(tmp_path / "a.tmx", tmx(pairs)), write(tmp_path / "b.tsv", tsv(clean(60)[30:]) + "\nx\t\n")
    sides = [write(tmp_path / f"test.{n}", "\n".join(p[i] for p in pairs[7:9])) for i, n in enumerate(("en", "fr"))]
    data = DataConfig(
        corpora=[CorpusConfig(source=str(memory)), CorpusConfig(source=str(plain))],
        languages=("en", "fr"),
        test=list(map(str, sides)),
    )
    corpora = open_corpora(data)
    result = check(corpora, held_out=open_held_out(data, corpora.languages))
    (skipped, *_) = (finding for finding in result.findings if finding.kind == "skipped")
    assert (skipped.what, skipped.count, skipped.total) == ("entries that are no pairs (unit has no text in fr)", 1, 63)
    # A unit has four lines, the first begins on line 2, and three lines come between it and the second.
    assert skipped.examples == [((str(memory),), "line", 8)]
    assert only(result.findings, "duplicates").examples == [((str(memory),), "line", 2 + 4 * 30 + 3)]
    assert only(result.findings, "empty target").examples == [((str(plain),), "line", 31)]
    assert [location.number for location in only(result.findings, "overlap").examples] == [2 + 4 * 7 + 3, 2 + 4 * 8 + 3]
    held_out = check(corpora.cleaned(), held_out={"test": Bitext.open(*sides)}).parts[1].locations[2]
    assert held_out == (tuple(map(str, sides)), "line", 2)


def test_a_stretch_out_of_step_is_told_by_the_lines_of_its_file(tmp_path: Path):
    pairs = clean(2_003)
    late = [(source, pairs[line - (line > 1_000)][1]) for line, (source, _) in enumerate(pairs)]
    file = write(tmp_path / "a.jsonl", jsonl(late))
    (finding,) = (
        finding
        for finding in check(Bitext.open(file).cleaned(CleaningConfig())).findings
        if finding.kind == "misaligned"
    )
    (location,) = finding.examples
    assert abs(location.number - 2 * 1_001) < 30
    assert f"from about line {location.number:,} to the end, their targets 1 pair later" in finding.what
    assert f"look around line {location.number:,} for a target too many or a source missing" in finding.advice


def test_rows_and_made_up_pairs_have_no_lines():
    assert Bitext.open("builtin:grammar:13").unit == "pair"
    where = Locations()
    list(where.blocks([Bitext.open("builtin:grammar:13")]))
    assert where[7] == (("builtin:grammar:13",), "pair", 7)
