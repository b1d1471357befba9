"""Bitexts: what is read from which file, what is refused, cleaned and held out."""

import gzip
import random
import tracemalloc
from collections import Counter
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.config.run import load_config
from dragoman.config.settings import parse_settings
from dragoman.data.bitext import Bitext
from dragoman.data.pair_file import Counts, write_pairs
from dragoman.data.splitting import default_held_out, sizes_to_hold_out, split
from dragoman.errors import DataError
from dragoman.text.language_codes import language_of

pytestmark = pytest.mark.usefixtures("annotations_unchecked")

PAIRS = [("Go.", "Va !"), ("Run!", "Cours\u202f!"), ("I see.", "Je vois.")]

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)


def write(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def bitext(pairs: list[tuple[str, str]]) -> Bitext:
    return Bitext(lambda: pairs, name="list")


def tsv(*lines: str) -> str:
    return "".join(line + "\n" for line in lines)


# ---- reading ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.txt.gz", "pairs"])
def test_a_tab_separated_file_gives_its_pairs_on_every_pass(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / name, tsv(*map("\t".join, PAIRS)))
    opened = Bitext.open(file)
    assert list(opened) == PAIRS
    assert list(opened) == PAIRS
    assert list(zip(opened, opened, strict=True)) == list(zip(PAIRS, PAIRS, strict=True))


@pytest.mark.parametrize(("source", "target"), [("a.en", "a.fr.gz"), ("a.en.gz", "a.fr")])
def test_two_files_give_the_same_pairs(tmp_path: Path, source: str, target: str) -> None:
    sources, targets = zip(*PAIRS, strict=True)
    write(tmp_path / source, tsv(*sources))
    write(tmp_path / target, tsv(*targets).removesuffix("\n"))
    assert list(Bitext.open(str(tmp_path / source), str(tmp_path / target))) == PAIRS


def test_a_third_column_is_ignored_and_quotes_are_text(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv", '"Go.\tVa !\tCC-BY 2.0 #2877272\tmore\n"x\t\ty\n')
    assert list(Bitext.open(file)) == [('"Go.', "Va !"), ('"x', "")]


def test_tabs_inside_the_lines_of_two_files_stay(tmp_path: Path) -> None:
    source = write(tmp_path / "a.en", "one\ttwo\n")
    target = write(tmp_path / "a.fr", "un\tdeux\ttrois\n")
    assert list(Bitext.open(source, target)) == [("one\ttwo", "un\tdeux\ttrois")]


@pytest.mark.parametrize("mark", [*"\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"])
def test_only_line_feed_ends_a_line(tmp_path: Path, mark: str) -> None:
    source = write(tmp_path / "a.en", f"one{mark}two\nthree\n")
    target = write(tmp_path / "a.fr", f"un\ndeux{mark}trois\n")
    assert list(Bitext.open(source, target)) == [
        (f"one{mark}two", "un"),
        ("three", f"deux{mark}trois"),
    ]


def test_bom_and_carriage_returns_of_windows_are_no_text(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv", b"\xef\xbb\xbfGo.\tVa !\r\nRun!\tCours !\r\r\nHi\tOh\r")
    assert list(Bitext.open(file)) == [("Go.", "Va !"), ("Run!", "Cours !\r"), ("Hi", "Oh")]
    file = write(tmp_path / "b.tsv", "\ufeffa\tb\n\ufeffc\t\ufeffd\n")
    assert list(Bitext.open(file)) == [("a", "b"), ("\ufeffc", "\ufeffd")]


text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\0"))


def begins_with_codes(pairs: list[tuple[str, str]]) -> bool:
    """Whether the first pair is two languages, which the reader takes for names of columns, whatever is around them."""
    return all(language_of(side.strip()) for side in pairs[0])


@pytest.mark.slow
@given(pairs=st.lists(st.tuples(text, text), min_size=1).filter(lambda pairs: not begins_with_codes(pairs)))
@same_folder
def test_what_is_written_as_tsv_is_read_again(tmp_path: Path, pairs: list[tuple[str, str]]) -> None:
    first = pairs[0][0].removeprefix("\ufeff")
    file = write(tmp_path / "a.tsv", tsv(*map("\t".join, pairs)))
    assert list(Bitext.open(file)) == [(first, pairs[0][1]), *pairs[1:]]


@given(content=st.binary(min_size=1, max_size=211))
@same_folder
def test_arbitrary_bytes_are_one_pair_a_line_or_a_data_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.tsv").write_bytes(content)
    with suppress(DataError):
        pairs = list(Bitext.open(tmp_path / "a.tsv"))
        assert len(pairs) == content.count(b"\n") + (not content.endswith(b"\n"))


@pytest.mark.slow
def test_a_pass_needs_no_memory_for_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.data.blocks.CHARACTERS_AT_ONCE", 4_999)
    lines = (f"sentence number {number}\tphrase numéro {number}" for number in range(20_011))
    file = write(tmp_path / "a.tsv.gz", tsv(*lines))
    train = split(Bitext.open(file).cleaned(), valid=5, test=3, seed=1).train
    tracemalloc.start()
    try:
        assert sum(1 for _ in train) == 20_003
        assert tracemalloc.get_traced_memory()[1] < 200_000  # the text has 900,000 bytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("files", "name", "languages"),
    [
        (["train.en.gz", "train.fr.gz"], "train", ("en", "fr")),
        (["news.2019.deu", "news.2019.eng"], "news.2019", ("deu", "eng")),
        (["corpus.zh_CN.txt", "corpus.en.txt"], "corpus", ("zh_CN", "en")),
        (["en", "fr"], "en", ("en", "fr")),
        (["train.src", "train.tgt"], "train", (None, None)),
        (["source.txt", "target.txt"], "source", (None, None)),
        (["eng-fra.3col-5000.txt.gz"], "eng-fra.3col-5000", ("eng", "fra")),
        (["my_en-fr.tsv"], "my_en-fr", ("en", "fr")),
        (["tatoeba_de-en.tsv"], "tatoeba_de-en", ("de", "en")),
        (["my-data.tsv"], "my-data", (None, None)),
        (["my-tm.tsv"], "my-tm", (None, None)),
        (["swg-deu.tsv"], "swg-deu", ("swg", "deu")),
        (["fra.txt.gz"], "fra", (None, None)),
        (["top-ten.tsv"], "top-ten", (None, None)),
        (["a.in", "a.out"], "a", (None, None)),
        (["train_en.txt", "train_fr.txt"], "train_en", ("en", "fr")),
    ],
)
def test_names_tell_the_languages(
    tmp_path: Path, files: list[str], name: str, languages: tuple[str | None, str | None]
) -> None:
    opened = Bitext.open(*(write(tmp_path / file, "a\tb\n") for file in files))
    assert opened.name == name
    assert (opened.source_language, opened.target_language) == languages
    cleaned = opened.cleaned()
    assert (cleaned.source_language, cleaned.target_language) == languages


def test_the_built_in_grammar_needs_no_file() -> None:
    opened = Bitext.open("builtin:grammar:5")
    assert (opened.name, opened.source_language, opened.target_language) == ("grammar", "en", "fr")
    assert len(list(opened)) == 5
    assert list(opened) == list(islice(Bitext.open("builtin:grammar"), 5))


# ---- refusals --------------------------------------------------------------------------------


def refusal(*paths: Path | str) -> str:
    with pytest.raises(DataError) as caught:
        list(Bitext.open(*paths))
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_wrong_name_gets_the_nearest_one(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", "a\tb\n")
    message = refusal(tmp_path / "trian.tsv")
    assert f"no file {tmp_path / 'trian.tsv'}; did you mean {tmp_path / 'train.tsv'}?" in message
    assert "did you mean" not in refusal(tmp_path / "zzz")
    assert "no file" in refusal(tmp_path / "nowhere" / "train.tsv")
    assert "no file" in refusal("x" * 5_003)


def test_folders_devices_and_twice_the_same_file_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "a.en", "a\n")
    (tmp_path / "link.fr").symlink_to(file)
    assert f"{tmp_path} is a folder" in refusal(tmp_path)
    assert "/dev/null cannot be read twice" in refusal("/dev/null")
    assert f"same file {file}" in refusal(file, tmp_path / "link.fr")


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_an_empty_file_is_refused(tmp_path: Path, name: str) -> None:
    assert f"{name} is empty" in refusal(write(tmp_path / name, b""))


def test_a_line_without_tab_is_named(tmp_path: Path) -> None:
    message = refusal(write(tmp_path / "a.tsv", "a\tb\n\nno tab here\n"))
    assert "a.tsv, line 3 has no tab" in message


@pytest.mark.parametrize(("left", "right"), [(3, 5), (5, 3), (4, 3)])
def test_unequal_line_counts_are_both_told(tmp_path: Path, left: int, right: int) -> None:
    source = write(tmp_path / "a.en", "x\n" * left)
    target = write(tmp_path / "a.fr", "y\n" * right)
    assert f"{source} has {left} lines but {target} has {right};" in refusal(source, target)


def test_invalid_utf_8_is_located(tmp_path: Path) -> None:
    message = refusal(write(tmp_path / "a.tsv", b"a\tb\ncaf\xe9\tc\n"))
    assert "a.tsv, line 2 is not valid UTF-8 (byte 0xE9 at position 4)" in message


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_utf_16_is_read(tmp_path: Path, encoding: str, name: str) -> None:
    file = write(tmp_path / name, "\nGo.\tVa !\n".encode(encoding))
    assert list(Bitext.open(file)) == [("", ""), ("Go.", "Va !")]


@pytest.mark.slow
def test_a_gzip_file_that_breaks_off_is_refused_wherever_it_does(tmp_path: Path) -> None:
    whole = gzip.compress(tsv(*(f"{number}\t{number}" for number in range(101))).encode())
    for length in range(1, len(whole)):
        (tmp_path / "a.gz").write_bytes(whole[:length])
        assert "a.gz cannot be read after line" in refusal(tmp_path / "a.gz")


@pytest.mark.slow
def test_a_gzip_file_with_a_wrong_byte_is_refused_or_read_right(tmp_path: Path) -> None:
    pairs = [(str(number), str(-number)) for number in range(101)]
    whole = gzip.compress(tsv(*map("\t".join, pairs)).encode())
    num_refused = 0
    for place in range(len(whole)):
        flipped = bytes([whole[place] ^ 0xFF])
        (tmp_path / "a.gz").write_bytes(whole[:place] + flipped + whole[place + 1 :])
        try:
            assert list(Bitext.open(tmp_path / "a.gz")) == pairs
        except DataError:
            num_refused += 1
    # Time stamp and system in the header, 6 bytes, say nothing about the content.
    assert num_refused >= len(whole) - 6


def test_text_that_is_called_gzip_is_refused_with_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"a\tb\n")
    assert "a.gz cannot be read after line 0: Not a gzipped file" in refusal(tmp_path / "a.gz")
    assert "check that the file is whole, that it is packed as its name says" in refusal(tmp_path / "a.gz")


@pytest.mark.parametrize(
    "source",
    ["builtin:gramar", "builtin:grammar:many", "builtin:grammar:0", "builtin:grammar:-3", "builtin:grammar:5:dev"],
)
def test_other_built_in_names_are_refused(source: str) -> None:
    message = refusal(source)
    assert source in message
    assert "builtin:grammar:500:test" in message
    assert "leave out b.fr" in refusal("builtin:grammar", "b.fr")


# ---- cleaning --------------------------------------------------------------------------------


def test_cleaning_composes_strips_and_counts_what_it_drops() -> None:
    blank = " \t\u00a0\u2028\x85"
    cleaned = bitext(
        [
            ("  Go. ", "\u202fVa !\n"),
            (blank, "x"),
            ("", "y"),
            ("x", blank),
            (blank, ""),
            ("cafe\u0301", "a  b"),
        ]
    ).cleaned()
    assert list(cleaned) == [("Go.", "Va !"), ("caf\u00e9", "a  b")]
    assert cleaned.report.read == 6
    assert cleaned.report.dropped == Counter({"source is empty": 3, "target is empty": 1})


def test_the_report_is_of_the_last_whole_pass_and_does_not_add_up() -> None:
    cleaned = bitext([("a", "b"), ("", "c")]).cleaned()
    assert cleaned.report.read == 0
    next(iter(cleaned))
    assert cleaned.report.read == 0
    for _ in range(2):
        list(cleaned)
        assert (cleaned.report.read, cleaned.report.dropped.total()) == (2, 1)


def test_training_pairs_whose_source_is_held_out_are_dropped_and_counted() -> None:
    valid, test = bitext([("Go.", "Va.")]), bitext([("Cafe\u0301  noir", "x"), ("Else", "y")])
    corpus = bitext(
        [
            ("go.", "Marche."),
            ("Stay.", "Va."),
            ("GO.", "x"),
            ("caf\u00e9 noir", "z"),
            ("Gone.", "w"),
        ]
    )
    cleaned = corpus.cleaned(held_out=[valid, test])
    assert [source for source, _ in cleaned] == ["Stay.", "Gone."]
    assert cleaned.report.dropped == Counter({"source is in held-out data": 3})


# ---- splitting -------------------------------------------------------------------------------

# 97 source sentences with 1, 2 or 3 translations each, not side by side.
REPEATED = [
    (f"source {number}", f"target {number}.{version}")
    for version in range(3)
    for number in range(97)
    if number % 3 >= version
]


def sources(part: Bitext) -> set[str]:
    return {source for source, _ in part}


def test_a_split_has_the_exact_sizes_and_shares_no_source() -> None:
    parts = split(bitext(REPEATED), valid=13, test=7, seed=3)
    assert [len(sources(part)) for part in parts] == [97 - 13 - 7, 13, 7]
    assert Counter(pair for part in parts for pair in part) == Counter(REPEATED)
    assert list(parts.train) == [pair for pair in REPEATED if pair[0] in sources(parts.train)]
    assert list(parts.valid) == list(parts.valid)
    assert [part.name for part in parts] == ["list.train", "list.valid", "list.test"]


def test_a_split_depends_on_the_seed_and_not_on_the_order() -> None:
    shuffled = random.Random(5).sample(REPEATED, len(REPEATED))
    one, same, other = (
        split(bitext(pairs), valid=13, test=7, seed=seed)
        for pairs, seed in [(REPEATED, 3), (shuffled, 3), (REPEATED, 4)]
    )
    assert [sources(part) for part in one] == [sources(part) for part in same]
    assert sources(one.valid) != sources(other.valid)
    assert sources(one.test) != sources(other.test)


def test_every_source_is_drawn_about_equally_often() -> None:
    # 211 draws of 13 of 97: 28 on average, standard deviation 4.9.
    drawn = Counter(
        source for seed in range(211) for source in sources(split(bitext(REPEATED), valid=13, test=0, seed=seed).valid)
    )
    assert len(drawn) == 97
    assert min(drawn.values()) > 28 - 5 * 4.9
    assert max(drawn.values()) < 28 + 5 * 4.9


def test_sentences_that_differ_in_case_spacing_or_normalisation_stay_together() -> None:
    same = ["Caf\u00e9 au lait", "cafe\u0301  AU lait", " CAFÉ\u00a0au lait\n"]
    pairs = [(variant, str(place)) for place, variant in enumerate(same)] + REPEATED
    held = [set(same) & sources(split(bitext(pairs), valid=31, test=31, seed=seed).valid) for seed in range(11)]
    assert {len(variants) for variants in held} == {0, 3}


@pytest.mark.parametrize(("valid", "test"), [(96, 1), (97, 0), (200, 0)])
def test_a_split_that_leaves_nothing_to_train_on_is_refused(valid: int, test: int) -> None:
    with pytest.raises(DataError, match=f"list has 97 .* hold out {valid} . {test} "):
        split(bitext(REPEATED), valid=valid, test=test, seed=3)
    assert len(sources(split(bitext(REPEATED), valid=95, test=1, seed=3).train)) == 1


def test_a_split_by_line_has_the_exact_sizes_in_pairs_and_leaks_sentences() -> None:
    by_line, by_sentence = (split(bitext(REPEATED), valid=41, test=37, seed=3, by=by) for by in ("line", "sentence"))
    assert [len(list(part)) for part in by_line] == [len(REPEATED) - 41 - 37, 41, 37]
    assert Counter(pair for part in by_line for pair in part) == Counter(REPEATED)
    assert sources(by_line.test) & sources(by_line.train)
    assert sources(by_line.test) & sources(by_line.valid)
    assert not sources(by_sentence.test) & (sources(by_sentence.train) | sources(by_sentence.valid))


def test_a_line_is_drawn_by_all_of_it_and_its_copies_stay_together() -> None:
    pairs = [(source.upper(), target) for source, target in REPEATED] + REPEATED * 2
    parts = split(bitext(pairs), valid=97, test=0, seed=3, by="line")
    assert len(set(parts.valid)) == 97
    assert not set(parts.valid) & set(parts.train)
    with pytest.raises(DataError, match=rf"list has {2 * len(REPEATED)} different pairs, too few"):
        split(bitext(pairs), valid=2 * len(REPEATED), test=0, seed=3, by="line")


@pytest.mark.parametrize(
    ("held_out", "by", "sizes"),
    [
        # 97 source sentences; 97 + 65 + 32 pairs of them.
        ((0.2, 0.1), "sentence", (19, 10)),
        ((0.2, 0.1), "line", (39, 19)),
        ((13, 0.25), "sentence", (13, 24)),
        ((5, 7), "line", (5, 7)),
        ((0.001, 0.5), "sentence", (1, 48)),
    ],
)
def test_shares_are_of_what_is_held_out(tmp_path: Path, held_out: tuple, by: str, sizes: tuple[int, int]) -> None:
    config = load_config({}, parse_settings([f"data.held_out={list(held_out)}", f"data.split={by}"]))
    counts = write_pairs(bitext(REPEATED).cleaned(), config, near=tmp_path).counts
    assert counts[:2] == (len(REPEATED), sum(len(text) for pair in REPEATED for text in pair) / 4)
    assert sizes_to_hold_out(counts, config.data, "list") == sizes


def test_without_a_size_five_percent_are_held_out() -> None:
    assert sizes_to_hold_out(Counts(len(REPEATED), 0.0, 0, [1.0]), load_config({}, {}).data, "list") == (9, 9)


def test_nothing_may_be_held_out() -> None:
    parts = split(bitext(REPEATED), valid=0, test=0, seed=3)
    assert [list(part) for part in parts] == [REPEATED, [], []]


@pytest.mark.parametrize(
    ("num_pairs", "held_out"),
    [(10, 1), (39, 1), (40, 2), (1_000, 50), (40_000, 2_000), (167_130, 2_000)],
)
def test_a_twentieth_is_held_out_between_1_and_2000(num_pairs: int, held_out: int) -> None:
    assert default_held_out(num_pairs) == held_out


def test_fewer_than_ten_pairs_are_too_few() -> None:
    with pytest.raises(DataError, match=r"9 sentence pairs are too few .* at least 10"):
        default_held_out(9)
