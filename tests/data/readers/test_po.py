"""Catalogues of gettext: which messages are pairs, and what is refused."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.data.bitext import Bitext
from tests.data.readers.files import PACK, languages, refusal, write

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
HEADER = '# A catalogue\nmsgid ""\nmsgstr ""\n"Project-Id-Version: x 1\\n"\n"Language: {}\\n"\n\n'
CATALOGUE = (
    HEADER.format("fr")
    + r"""
#. A comment of the programmer
#: menu.c:13
#, c-format
msgctxt "menu"
msgid "Open \"%s\"\n"
msgstr ""
"Ouvrir "
"\"%s\"\n"

#, fuzzy, c-format
#| msgid "Shut"
msgid "Close"
msgstr "Fermer"
msgid "Save"
msgstr ""

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d fichier"
msgstr[1] "%d fichiers"

msgctxt ""
msgid "C:\\temp\tx"
msgstr "C:\\temp\ty"

#~ msgid "Old"
#~ msgstr "Vieux"
"""
)
PAIRS = [
    ('Open "%s"', 'Ouvrir "%s"'),
    ("%d file", "%d fichier"),
    ("%d files", "%d fichiers"),
    ("C:\\temp\tx", "C:\\temp\ty"),
]


@pytest.mark.parametrize("suffix", ["", *PACK])
def test_translated_messages_are_pairs(tmp_path: Path, suffix: str):
    cleaned = Bitext.open(write(tmp_path / f"a.po{suffix}", CATALOGUE)).cleaned()
    assert list(cleaned) == PAIRS
    assert cleaned.report.dropped == {"fuzzy translation": 1, "not translated yet": 1, "obsolete message": 1}
    assert languages(cleaned) == (None, "fr")


def test_asking_for_the_language_of_the_translations_first_swaps_the_sides(tmp_path: Path):
    file = write(tmp_path / "a.po", CATALOGUE)
    assert list(Bitext.open(file, languages=("fr", "en")).cleaned()) == [pair[::-1] for pair in PAIRS]
    assert list(Bitext.open(file, languages=("en", "fr")).cleaned()) == PAIRS


@pytest.mark.parametrize(
    ("forms", "pairs"),
    [
        (["fichier"], [("files", "fichier")]),
        (["jeden", "dva", "pet"], [("file", "jeden"), ("files", "pet")]),
        (["", "dva"], [("files", "dva")]),
    ],
)
def test_the_first_and_the_last_plural_form_are_pairs(tmp_path: Path, forms: list[str], pairs: list):
    content = 'msgid "file"\nmsgid_plural "files"\n' + "".join(f'msgstr[{n}] "{t}"\n' for n, t in enumerate(forms))
    assert list(Bitext.open(write(tmp_path / "a.po", content))) == pairs


text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"), min_size=1)


@given(pairs=st.lists(st.tuples(text, text), min_size=1), width=st.integers(1, 11))
@same_folder
def test_what_is_written_as_a_catalogue_is_read_again(tmp_path: Path, pairs: list[tuple[str, str]], width: int):
    def quoted(side: str) -> str:
        parts = (side[start : start + width] for start in range(0, len(side), width))
        return "\n".join(
            '"' + part.replace("\\", r"\\").replace('"', r"\"").replace("\t", r"\t") + '"' for part in parts
        )

    content = "".join(f"msgid {quoted(s)}\nmsgstr {quoted(t)}\n" for s, t in pairs)
    assert list(Bitext.open(write(tmp_path / "a.po", content))) == pairs


CHARSET = 'msgid ""\nmsgstr "Content-Type: text/plain\\n"\n"Content-Type: text/plain; charset={}\\n"\n\n'


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("ISO-8859-1", "Été"), ("Shift_JIS", "表示"), ("utf8", "Été"), ("CHARSET", "Été"), ("ASCII", "Été"),
        ("KOI8-R", "Да"),
    ],
)  # fmt: skip
def test_the_charset_that_the_header_declares_is_read(tmp_path: Path, charset: str, text: str):
    content = CHARSET.format(charset) + f'msgid "x"\nmsgstr "{text}"\n'
    # In the first line of the header, too.
    for catalogue in (content, content.replace('"Content-Type: text/plain\\n"\n', "")):
        file = write(tmp_path / "a.po", catalogue.encode("utf-8" if charset in ("CHARSET", "ASCII") else charset))
        assert list(Bitext.open(file)) == [("x", text)]


@pytest.mark.parametrize("charset", ["KLINGON", "UTF-16", "hex"])
def test_other_charsets_are_refused(tmp_path: Path, charset: str):
    content = CHARSET.format(charset) + 'msgid "x"\nmsgstr "y"\n'
    assert f"declares the charset {charset}, in which it cannot be" in refusal(write(tmp_path / "a.po", content))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('msgid "a"\nmsgstr "b"\nnonsense\n', "a.po, line 3 does not belong there"),
        ('msgid "a"\nmsgstr "b" c\n', "a.po, line 2 does not"),
        ('msgid "a"\n\nmsgid "b"\nmsgstr "c"\n', "a.po, line 3 does not"),
        ('msgid "a"\nmsgstr "b\\"\n', "a.po, line 2 does not"),
        ('"a"\n', "a.po, line 1 does not"),
        ('msgid "a"\nmsgstr "b"\n\nmsgid "c"\n', "a.po, line 4 ends inside a message"),
        (
            'msgid ""\n' + '"words words words"\n' * 70_000,
            "a.po, line 61682: the message has more than 1,048,576 characters",
        ),
        (b'msgid "a"\nmsgstr "caf\xe9"\n', "a.po, line 2 is not valid UTF-8"),
        ('msgid "a"\nmsgstr ""\n', "a.po holds no sentence pairs"),
    ],
)
def test_what_is_no_catalogue_is_refused_by_its_line(tmp_path: Path, content: str | bytes, words: str):
    assert words in refusal(write(tmp_path / "a.po", content))
