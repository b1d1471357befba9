"""Placeholders: found, kept to the letter, put back, and numbered alike on both sides."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config.run import load_config
from dragoman.config.settings import parse_settings
from dragoman.data.bitext import Bitext
from dragoman.data.preparation import PreparedData, prepare
from dragoman.text.tokenizers.placeholders import SLOTS, CopyCounts, mask, mask_pair, spaced, unmask

A, B, C = SLOTS[:3]


@pytest.mark.parametrize(
    "value",
    [
        *("{}", "{0}", "{name}", "{user.name}", "{items[0]}", "{0:.2f}", "{name!r}", "{n, number}", "{d, date, short}"),
        *("${x}", "#{x}", "%{x}", "{{name}}", "{{ name }}"),
        *("%s", "%d", "%1$s", "%2$d", "%(name)s", "%.2f", "%-10s", "%05d", "%ld", "%@", "%*d", "%%", "%PATH%"),
        *("<b>", "</b>", "<br/>", "<br />", "<0>", "</0>", '<a href="x y">', "<a href='x' id=\"y\">", "<x:y>"),
        *("&nbsp;", "&#160;", "&#xA0;", "https://example.org/a?b=c#d", "name@example.org", "www.example.org"),
        *("@name", "#tag", "/usr/bin/env", "C:\\Users\\me", "~/a/b", "v1.2.3", "192.168.1.1"),
        *("42", "1984", "1,234.56", "1 234,5", "1\u202f234", "2024-05-06", "12:30", "12h30", "3.5", "+49 30 1234"),
        *("1'234'567", "NASA", "COVID-19", "A380", "3M", "AT&T", "MAX_VALUE", "ÖBB", "II", "12PM"),
        *(
            "-40",
            "−15 °C",
            "-$250",
            "€204.72",
            "US$ 5",
            "5 €",
            "£1.5m",
            "±5",
            "$5",
            "-5",
            "#5",
            "№5",
            "7%",
            "5 %",
            "20%-30%",
        ),
        *("5km", "10 kg", "60 km/h", "21st", "1990s", "12:30 am", "5 p.m.", "2 + 2 = 4", "1/2", "½", "2½", "1 1/2"),
        *("2.0.1-beta", "1.0.0-rc.1", "1e-9", "6.02 × 10²³", "3–5", "0xFF", "#ff0000", "fe80::1", "a:b", ".5", "10+"),
        *("2024-05-06T12:30:00Z", "6'2\"", "45°", "%50", "123e4567-e89b-12d3-a456-426614174000"),
        *("[X7X]", "@a@b.c", ":smile:", "%count%", "$t(key)", "@:key", "@.lower:key", "%1", "%L1", "$HOME", "$x$"),
        *("%<name>s", "%{x}", "{{ x | y }}", "{{n, number}}", "<%= x %>", "{% if x %}", "%Y", "%APPDATA%"),
        *(
            "%count",
            "%title",
            "%%name%%",
            "##name##",
            "###NAME###",
            "@@name@@",
            "*|NAME|*",
            "$(name)",
            "%[1]d",
            "{{{x}}}",
        ),
        *("{ $name }", "{ -brand }", "{0:d MMM yyyy}", "{0,-10}", "{user['name']}", "${a.b()}", "<?= $x->name ?>"),
        *("mailto:a@b.org", "ftp://example.org/a", "./run.sh", "~/.profile", "C:\\x", "3f2a1bc9d8e7", "IPv4", "iOS17"),
        *("H₂O", "CO₂", "km²", "x²", "GPL-3.0", "V1.2", "UTC+2", "3 ½", "\u201140", "± 5", "≥ 15", "§§ 5–7", "→", "≠"),
        *("🎉", "👨‍👩‍👧‍👦", "👍🏽👍🏽", "🇩🇪", "☺️", "1️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"),
    ],
)
def test_what_a_small_model_cannot_know_is_kept_whole(value: str) -> None:
    masked = mask(f"So {value} is")
    assert (spaced(masked.text), masked.values) == (f"So {A} is", [value])
    masked = mask(f"({value}), {value}.")
    assert (spaced(masked.text), masked.values) == (f"({A}), {A}.", [value])


@pytest.mark.parametrize("value", ["NASA", "2024", "1,234.56", "🎉", "name@example.org", "https://example.org/a"])
def test_placeholders_are_found_in_text_without_spaces(value: str) -> None:
    masked = mask(f"我们在{value}见。")
    assert masked.text == f"我们在{A}见。"
    assert masked.values == [value]


@pytest.mark.parametrize(
    "text",
    [
        *("a < b and c > d", "a <b and c> d", "1<2 and 3>2", "<>", "&", "X&y"),
        *("{count, plural, one {# file} other {# files}}", "{ a b }", "a@b", "http://", "x^2", "and/or", "km/h"),
        *(
            "I am A.",
            "DON'T",
            "T-shirt",
            "CDs",
            "C#",
            "U.S.",
            "the sun¹",
            "Table1",
            "## A title ##",
            '{"text"}',
            "НАТО",
            "snake_case",
            "5, 6",
            "x12",
        ),
    ],
)
def test_what_only_looks_like_one_stays_text(text: str) -> None:
    assert mask(text).text == text


def test_an_address_ends_before_the_marks_of_its_sentence() -> None:
    assert mask("See (https://x.org/a.b), or b@x.org.").values == ["https://x.org/a.b", "b@x.org"]


PARTS = [
    "{name}",
    "%s",
    "<b>",
    "</b>",
    "%%",
    "{{x}}",
    "%1$d",
    "a@b.c",
    "&amp;",
    "{",
    "}",
    "%",
    "<",
    ">",
    " ",
    "ab",
    "7",
]


def test_many_placeholders_take_linear_time() -> None:
    def seconds(number: int) -> float:
        begun = time.process_time()
        masked = mask("½" * number)
        assert unmask(masked.text, masked) == "½" * number
        return time.process_time() - begun

    small = min(seconds(1 << 12) for _ in range(3))
    assert seconds(1 << 16) < 80 * small


@pytest.mark.slow
@given(text=st.lists(st.sampled_from(PARTS) | st.text(max_size=3), max_size=30).map("".join))
@settings(max_examples=300, deadline=None)
def test_unmasking_gives_back_every_text(text: str) -> None:
    masked = mask(text)
    assert len(masked.values) <= len(SLOTS)
    # A slot that somebody typed is no character.
    expected = "".join("\N{REPLACEMENT CHARACTER}" if character in SLOTS else character for character in text)
    assert unmask(masked.text, masked) == expected


def test_a_typed_slot_is_not_taken_for_one() -> None:
    many = " ".join(f"{{{i}}}" for i in range(11))
    masked = mask(f"{B} {many} {A}")
    assert unmask(masked.text, masked) == f"\ufffd {many} \ufffd"
    assert mask_pair(A, B) == ("\ufffd", "\ufffd")


def test_more_placeholders_than_slots_stay_text() -> None:
    many = [f"{{{i}}}" for i in range(11)]
    masked = mask(" ".join(many))
    assert spaced(masked.text).split(" ") == [*SLOTS, "{9}", "{10}"]
    assert masked.values == many[:9]


def test_both_sides_number_by_the_source_and_what_one_side_alone_has_stays_text() -> None:
    source, target = map(spaced, mask_pair("%d of {name} in <b> all </b>", "{name} : %d sur %s </b>"))
    assert source == f"{A} of {B} in <b> all {C}"
    assert target == f"{B} : {A} sur %s {C}"


def test_slots_of_a_pair_are_not_wasted_on_what_one_side_alone_has() -> None:
    alone = " ".join(f"{{{i}}}" for i in range(9))
    assert mask_pair(f"{alone} %s", "%s") == (f"{alone} {A}", A)


def test_symbols_of_the_user_are_no_placeholders() -> None:
    assert mask("<2de> {name}", ["<2de>"]).values == ["{name}"]
    assert mask_pair("<2de> %s", "%s <2de>", ["<2de>"]) == (f"<2de> {A}", f"{A} <2de>")


def test_a_translation_is_given_the_values_of_its_source() -> None:
    source = mask("Hello {name}, <b>%d</b> files")
    assert unmask(f"{B}{C} {SLOTS[3]}, salut {A}", source) == "<b>%d </b>, salut {name}"
    assert unmask(f"{A}, {SLOTS[8]}", source) == "{name}, "


def test_slots_have_their_usual_spaces_unless_the_source_joins_them() -> None:
    source = mask("A NASA shirt and 30Minuten to NASA")
    assert source.text == f"A{A}shirt and {B}Minuten to{A}"
    # A model need not learn where the spaces of slots are.
    assert unmask(f"Ein{A}Hemd ({A}), {B}er", source) == "Ein NASA Hemd (NASA), 30er"
    assert unmask(f"那{A}衬衫", source) == "那NASA衬衫"


def test_what_the_target_alone_joins_to_a_word_stays_text() -> None:
    assert mask_pair("in the USA today", "USAssa tänään") == ("in the USA today", "USAssa tänään")
    assert mask_pair("the USA today", "USA tänään") == (f"the{A}today", f"{A}tänään")


def test_what_the_training_pairs_translate_is_told_from_what_they_copy() -> None:
    counts = CopyCounts()
    for pair in [("10 TV", "dix télés"), ("10 in 1999", "dix, 1999"), ("NASA TV", "NASA"), ("99", "nonante-neuf")]:
        counts.add(*pair)
    # What occurs once only tells little.
    assert counts.translated() == ["10", "TV"]


def test_numbers_are_not_copied_where_the_training_pairs_write_them_otherwise() -> None:
    counts = CopyCounts()
    for n in range(1, 30):
        counts.add(f"{n},600 men on 2024-05-{n}", f"{n}.600 Männer am 2024-05-{n}")
    assert counts.translated() == ["0,0"]
    assert mask("3,700 men, 1,234.5 on 2023-01-02", counts.translated()).values == ["1,234.5", "2023-01-02"]


def test_some_pairs_practise_copying() -> None:
    pairs = [(f"We saw Anna {word}.", f"Nous avons vu Anna {word}.") for word in map(str.lower, dir(str))]
    pairs += [(f"the {word} sleeps", f"le {word} dort") for word in dir(str)]
    masked = [mask_pair(*pair, practice=True) for pair in pairs]
    practised = [masked_pair for masked_pair, pair in zip(masked, pairs, strict=True) if masked_pair != pair]
    assert [mask_pair(*pair) for pair in pairs] == pairs
    assert 3 < len(practised) < len(pairs) / 4
    for source, target in practised:
        assert re.findall(f"[{''.join(SLOTS)}]", source) == re.findall(f"[{''.join(SLOTS)}]", target) != []
    assert any(source.startswith("We saw") and "Anna" not in source + target for source, target in practised)


def test_training_pairs_are_masked_and_held_out_pairs_are_kept_raw(tmp_path: Path) -> None:
    lines = [f"{word} {{name}} of %d <2de>\t%d {word} {{name}} %s <2de>\n" for word in dir(str)[-41:]]
    (tmp_path / "pairs.tsv").write_text("".join(lines), encoding="utf-8")
    settings = ["vocab_size=307", "placeholders=true", "symbols=['<2de>']"]
    config = load_config({"data": {"held_out": 5}}, parse_settings([f"tokenizer.{setting}" for setting in settings]))
    prepare(Bitext.open(str(tmp_path / "pairs.tsv")).cleaned(), config, tmp_path)
    data = PreparedData.open(tmp_path, config)
    tokenizer = data.source_tokenizer
    for batches in (data.train, data.valid):
        sides = (batches.source, batches.target)
        source, target = ("".join(tokenizer.pieces(side[0].tolist())) for side in sides)
        # Each run between symbols is a text of its own, with a space before its first word.
        assert re.fullmatch(r"▁[a-z]+<ph1>▁of<ph2>▁▁<2de>", source)
        assert re.fullmatch(r"<ph2>▁[a-z]+<ph1>▁▁%s▁<2de>", target)
    assert all("{name}" in source and "%d" in target for source, target in data.valid_pairs + data.test_pairs)


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    "part", ["%0", "<a ", "{a", "{{", "a.", "http://.", "&a", "<a b='", "%(", "{a:", "{a,  ", "<a:", "1&"]
)
def test_no_long_line_takes_long(part: str) -> None:
    started = time.process_time()
    mask(part + part[-1] * 50_000 + part * 20_000)
    assert time.process_time() - started < 10  # minutes, if each part were looked at from each beginning
