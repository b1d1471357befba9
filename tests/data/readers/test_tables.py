"""Tables as people have them: which columns are the sides, what is quoted, what is a name; the same for every row."""

import csv
import io
import json
from pathlib import Path

import pytest

from dragoman.data.bitext import Bitext
from dragoman.data.readers import tables
from dragoman.data.readers.types import Skipped
from dragoman.errors import DataError
from dragoman.text.characters import cut_label
from dragoman.text.labels import label
from tests.data.readers.files import PACK, languages, refusal, write

PAIRS = [
    ("Go.", "Va !"), ("I see.", "Je vois."), ('"No," he said.', "« Non », dit-il."), ("Yes, sir.", "Oui, monsieur."),
    ('She said "yes".', 'Elle a dit "oui".'), ("It is 5 o'clock.", "Il est 5 heures."), ("1984", "1984"),
    ("Who is there?", "Qui est là ?"),
]  # fmt: skip
ATTRIBUTION = "CC-BY 2.0 (France) Attribution: tatoeba.org #2877272 (CM) & #{} (Wittydev)"


def tsv(rows: list[tuple[str, ...]]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


def csv_text(rows: list[tuple[str, ...]], **options) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n", **options).writerows(rows)
    return file.getvalue()


def excel(field: str) -> str:
    """A cell of tab-separated text as spreadsheets write it."""
    return '"' + field.replace('"', '""') + '"' if any(mark in field for mark in '",\n') else field


def skipped(path: Path, **options) -> list[tuple[int, str]]:
    """Number and reason of the entries that are no pairs."""
    entries = Bitext.open(path, **options).entries()
    return [(number, entry.reason) for number, entry in entries if isinstance(entry, Skipped)]


COLUMNS = {
    "attribution last": lambda n, s, t: (s, t, ATTRIBUTION.format(n)),
    "attribution first": lambda n, s, t: (ATTRIBUTION.format(n), s, t),
    "ids": lambda n, s, t: (str(n), s, t),
    "ids of both": lambda n, s, t: (str(n), s, str(7 * n), t),
    "ids of letters and digits": lambda n, s, t: (f"sent-{n}", s, t, f"0.{n}"),
    "languages": lambda n, s, t: ("en", s, "fr", t),
    "addresses": lambda n, s, t: ("https://a.org/en", "www.b.fr", s, t),
    "empty columns": lambda n, s, t: ("", s, "", t),
    "remarks": lambda n, s, t: (s, t, f"a remark on {s}"),
    "keys": lambda n, s, t: (f"MENU_{'abcdefgh'[n % 8]}", s, t),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_found_by_what_they_hold(tmp_path: Path, name: str):
    rows = [COLUMNS[name](n, *pair) for n, pair in enumerate(PAIRS)]
    path = write(tmp_path / "a.tsv", tsv(rows))
    assert list(Bitext.open(path)) == PAIRS
    assert skipped(path) == []


def test_a_row_without_the_columns_of_most_rows_is_counted_and_never_a_pair(tmp_path: Path):
    rows = [(*pair, ATTRIBUTION.format(n)) for n, pair in enumerate(PAIRS)]
    rows[2] = rows[5] = ("We try. Nous essayons.", ATTRIBUTION.format(2))
    path = write(tmp_path / "a.txt", tsv(rows))
    for columns in (None, (1, 2)):
        assert list(Bitext.open(path, columns=columns)) == PAIRS[:2] + PAIRS[3:5] + PAIRS[6:]
        assert skipped(path, columns=columns) == [(n, "other columns than most rows") for n in (3, 6)]


def test_a_stray_tab_is_no_third_column_but_several_remarks_are(tmp_path: Path):
    rows = [*PAIRS * 2, ("Hello", "you.", "Salut toi.")]
    assert skipped(write(tmp_path / "a.tsv", tsv(rows))) == [(17, "other columns than most rows")]
    rows[3:5] = [("A.", "B.", "remark"), ("C.", "D.", "remark")]
    path = write(tmp_path / "b.tsv", tsv(rows))
    assert skipped(path) == []
    assert list(Bitext.open(path))[3:5] == [("A.", "B."), ("C.", "D.")]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("source", "target"), (None, None)),
        (("English", "French"), ("en", "fr")),
        (("text_en", "text_fr"), ("en", "fr")),
        (("en-US", "fr_CA"), ("en-US", "fr_CA")),
        (("Source Text", "Target Text"), (None, None)),
    ],
)
@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".csv.gz"])
def test_a_row_of_names_is_no_pair_and_may_tell_the_languages(
    tmp_path: Path, names: tuple, expected: tuple, suffix: str
):
    rows = [names, *PAIRS]
    path = write(tmp_path / f"a{suffix}", tsv(rows) if suffix == ".tsv" else csv_text(rows))
    assert list(Bitext.open(path)) == PAIRS
    assert languages(Bitext.open(path)) == expected
    assert skipped(path) == [(1, "row that names the columns")]


def test_names_choose_the_columns_and_wanted_languages_their_order(tmp_path: Path):
    rows = [("id", "fr", "de", "en"), *((str(n), t, f"Satz {n}.", s) for n, (s, t) in enumerate(PAIRS))]
    path = write(tmp_path / "a.tsv", tsv(rows))
    assert "a.tsv has 3 languages (fr, de, en); choose" in refusal(path)
    assert list(Bitext.open(path, languages=("en", "fr"))) == PAIRS
    assert list(Bitext.open(path, columns=("EN", "fr"))) == PAIRS
    assert list(Bitext.open(path, columns=(4, 2))) == PAIRS


def test_unknown_names_are_known_by_the_numbers_below(tmp_path: Path):
    rows = [("Nr", "Frage", "Antwort"), *((str(n), *pair) for n, pair in enumerate(PAIRS))]
    path = write(tmp_path / "a.csv", csv_text(rows, delimiter=";"))
    assert list(Bitext.open(path)) == PAIRS
    assert list(Bitext.open(path, columns=("antwort", "Frage"))) == [pair[::-1] for pair in PAIRS]


def test_sentences_are_no_names(tmp_path: Path):
    rows = [("No", "Non"), ("English", "Anglais"), ("it", "le chat")]
    assert list(Bitext.open(write(tmp_path / "a.tsv", tsv(rows)))) == rows


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ((2, 9), "a.tsv has no column 9; give two of 1, 2 as --columns"),
        (("en", "fr"), "a.tsv has no column en; give two of go., va ! as --columns"),
    ],
)
def test_columns_that_are_not_there_are_refused(tmp_path: Path, columns: tuple, words: str):
    path = write(tmp_path / "a.tsv", tsv(PAIRS))
    with pytest.raises(DataError) as caught:
        Bitext.open(path, columns=columns)
    assert words in str(caught.value)


def test_names_that_are_not_above_their_columns_choose_none(tmp_path: Path):
    for names in (("id", "en", "fr", "remark"), ("en", "fr")):
        path = write(tmp_path / "a.csv", csv_text([names, *((str(n), *pair) for n, pair in enumerate(PAIRS))]))
        with pytest.raises(DataError, match=r"a.csv has no column en; give two of 1, 2, 3 as --columns"):
            Bitext.open(path, columns=("en", "fr"))


def test_a_column_is_one_side_only(tmp_path: Path):
    with pytest.raises(DataError, match="--columns names 1 twice"):
        Bitext.open(write(tmp_path / "a.tsv", tsv(PAIRS)), columns=(1, 1))


def test_languages_in_the_name_of_a_file_decide_which_column_is_the_source(tmp_path: Path):
    path = write(tmp_path / "a.fr-en.tsv", tsv([pair[::-1] for pair in PAIRS]))
    assert list(Bitext.open(path, languages=("en", "fr"))) == PAIRS
    assert languages(Bitext.open(path)) == ("fr", "en")
    assert list(Bitext.open(path, languages=("fr", "en"))) == [pair[::-1] for pair in PAIRS]


def test_what_has_no_columns_takes_no_choice(tmp_path: Path):
    path = write(tmp_path / "a.po", 'msgid "a"\nmsgstr "b"\n')
    for paths in ([path], [path, path], ["builtin:grammar:5"]):
        with pytest.raises(DataError, match=r"(has no columns to choose from|both languages already)"):
            Bitext.open(*paths, columns=(1, 2))


def test_columns_without_two_texts_are_left_to_the_user(tmp_path: Path):
    path = write(tmp_path / "a.tsv", tsv([(str(n), str(n * n), s) for n, (s, _) in enumerate(PAIRS)]))
    assert "a.tsv has 3 columns, but no two of text; choose two, such as --columns 1,2" in refusal(path)
    one_sided = write(tmp_path / "b.tsv", tsv([(str(n), "eng", s) for n, (s, _) in enumerate(PAIRS)]))
    assert "b.tsv has 3 columns, but no two of text" in refusal(one_sided)
    assert len(list(Bitext.open(path, columns=(1, 3)))) == len(PAIRS)


# ---- quotation marks -------------------------------------------------------------------------


WITHOUT = [pair for pair in PAIRS if '"' not in pair[0]] * 2
QUOTED = {
    "only where needed": (PAIRS, csv_text(PAIRS, delimiter="\t")),
    "everywhere": (WITHOUT, csv_text(WITHOUT, delimiter="\t", quoting=csv.QUOTE_ALL)),
    "by a spreadsheet": (PAIRS, tsv([tuple(map(excel, pair)) for pair in PAIRS]).replace("\n", "\r\n")),
    "for commas alone": (WITHOUT, tsv([tuple(map(excel, pair)) for pair in WITHOUT])),
}


@pytest.mark.parametrize("style", QUOTED)
@pytest.mark.parametrize("suffix", ["", *PACK])
def test_quotation_marks_of_csv_are_no_text(tmp_path: Path, style: str, suffix: str):
    pairs, content = QUOTED[style]
    assert list(Bitext.open(write(tmp_path / f"a.tsv{suffix}", content))) == pairs


def test_marks_that_first_come_far_behind_are_those_of_csv_too(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(tables, "BLOCK", 1 << 10)
    rows = [(f"sentence {n}", f"phrase {n}") for n in range(2_003)] + PAIRS * 307
    assert list(Bitext.open(write(tmp_path / "a.tsv.gz", csv_text(rows, delimiter="\t")))) == rows


@pytest.mark.parametrize(
    "pair",
    [
        ('"Hello," he said.', '"Bonjour", dit-il.'),
        ('"Go away!"', '"Va-t\'en !"'),
        ('a 5" pipe', "un tuyau"),
        ('"lone', 'marks"'),
        ('""', '"'),
        ('He said ""no"".', "Il a dit non."),
    ],
)
def test_quotation_marks_in_other_text_stay_to_the_byte(tmp_path: Path, pair: tuple[str, str]):
    rows = [*PAIRS, pair, *PAIRS]
    assert list(Bitext.open(write(tmp_path / "a.tsv", tsv(rows)))) == rows
    assert list(Bitext.open(write(tmp_path / "b.tsv", tsv([pair])))) == [pair]


@pytest.mark.parametrize("delimiter", ",;\t")
def test_csv_is_read_whatever_separates_its_columns(tmp_path: Path, delimiter: str):
    rows = [("two\nlines", "deux\n lignes"), *PAIRS, ("", "x"), ("a;b,c", "d,e;f")]
    path = write(tmp_path / "a.csv", "\ufeff" + csv_text(rows, delimiter=delimiter))
    assert list(Bitext.open(path)) == [("two lines", "deux lignes"), *rows[1:]]
    numbers = [number for number, _ in Bitext.open(path).entries()]
    assert numbers == [1, *range(4, len(rows) + 3)]  # the first row begins on line 1 and has three


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('a,b\n"No," he said,Non\n', """line 2 is not CSV (',' expected after '"'); write a field with"""),
        ('a,b\nc,d\n"no end,e\n', "line 3 is not CSV (unexpected end of data)"),
        ("only text\nno comma\n", "line 1 has no tab between source and target (or comma, if its name ends in .csv)"),
        ("", "a.csv is empty"),
    ],
)
def test_broken_csv_is_refused_by_its_line(tmp_path: Path, content: str, words: str):
    assert words in refusal(write(tmp_path / "a.csv", content))


def test_json_is_known_by_its_beginning(tmp_path: Path):
    records = [{"English": s, "French": t} for s, t in PAIRS]
    for indent in (None, 1, "\t"):
        assert list(Bitext.open(write(tmp_path / "a.txt", json.dumps(records, indent=indent)))) == PAIRS
    assert (
        list(Bitext.open(write(tmp_path / "a.txt", "".join(json.dumps(record) + "\n" for record in records)))) == PAIRS
    )
    assert list(Bitext.open(write(tmp_path / "b.tsv", '{"a": 1}\tb\n'))) == [('{"a": 1}', "b")]


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl"])
def test_a_column_tells_the_target_language_of_each_pair(tmp_path: Path, form: str):
    """In any style; a pair without a language is left out, and what a user may type is no label."""
    names = "source", "target", "into"
    codes = ["fr", "deu", "pt_BR", "German", "", "of no language", "fr", "fr"]
    rows = [(f"<2de>{source}", target, code) for (source, target), code in zip(PAIRS, codes, strict=True)]
    records = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    text = {"tsv": tsv([names, *rows]), "csv": csv_text([names, *rows]), "jsonl": records}[form]
    path, kept = write(tmp_path / f"a.{form}", text), [row for row in rows if len(row[2]) in range(1, 7)]
    labels = [label("en", code) for code in ("fr", "de", "pt-br", "de", "fr", "fr")]
    for column in ("into", 3):
        bitext = Bitext.open(path, language_column=column, languages=("en", "xx"))
        cut = [(cut_label(source), target) for source, target in bitext]
        assert cut == [((code, source), target) for code, (source, target, _) in zip(labels, kept, strict=True)]
        assert (bitext.source_language, bitext.target_language) == ("en", None)
    assert [reason for _, reason in skipped(path, language_column="into")][-2:] == ["no language in its column"] * 2
    with pytest.raises(DataError, match=r"(one of source, target, into|but source, target, into; give one)"):
        Bitext.open(path, language_column="from")
