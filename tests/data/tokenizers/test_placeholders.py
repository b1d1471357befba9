"""Placeholders: found, kept to the letter, put back, and numbered alike on both sides."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config.run import load_config
from dragoman.data.bitext import Bitext
from dragoman.data.preparation import PreparedData, prepare
from dragoman.data.tokenizers.placeholders import SLOTS, MaskedPairs, mask, mask_pair, restored, unmask

A, B, C = SLOTS[:3]


@pytest.mark.parametrize(
    "value",
    [
        *("{}", "{0}", "{name}", "{user.name}", "{items[0]}", "{0:.2f}", "{name!r}", "{n, number}", "{d, date, short}"),
        *("${x}", "#{x}", "%{x}", "{{name}}", "{{ name }}"),
        *("%s", "%d", "%1$s", "%2$d", "%(name)s", "%.2f", "%-10s", "%05d", "%ld", "%@", "%*d", "%%", "%PATH%"),
        *("<b>", "</b>", "<br/>", "<br />", "<0>", "</0>", '<a href="x y">', "<a href='x' id=\"y\">", "<x:y>"),
        *("&nbsp;", "&#160;", "&#xA0;", "https://example.org/a?b=c#d", "name@example.org"),
    ],
)
def test_what_software_and_web_texts_hold_is_kept_whole(value: str) -> None:
    assert mask(f"So {value} is") == (f"So {A} is", [value])
    assert mask(f"({value}), {value}.") == (f"({A}), {A}.", [value])


@pytest.mark.parametrize(
    "text",
    [
        *("100% sure", "100%off", "5 % of it", "a < b and c > d", "a <b and c> d", "1<2 and 3>2", "<>", "&", "AT&T"),
        *("{count, plural, one {# file} other {# files}}", "{ a b }", "a@b", "http://", "$5", "[NAME]", "x^2"),
    ],
)
def test_what_only_looks_like_one_stays_text(text: str) -> None:
    assert mask(text) == (text, [])


def test_an_address_ends_before_the_marks_of_its_sentence() -> None:
    assert mask("See (https://x.org/a.b), or b@x.org.") == (f"See ({A}), or {B}.", ["https://x.org/a.b", "b@x.org"])


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


@given(text=st.lists(st.sampled_from(PARTS) | st.text(max_size=3), max_size=30).map("".join))
@settings(max_examples=300, deadline=None)
def test_unmasking_gives_back_every_text(text: str) -> None:
    masked, values = mask(text)
    assert len(values) <= len(SLOTS)
    # A slot that somebody typed is no character.
    expected = "".join("\N{REPLACEMENT CHARACTER}" if each in SLOTS else each for each in text)
    assert unmask(masked, values) == expected


def test_a_typed_slot_is_not_taken_for_one() -> None:
    many = " ".join(f"{{{i}}}" for i in range(11))
    masked, values = mask(f"{B} {many} {A}")
    assert unmask(masked, values) == f"\ufffd {many} \ufffd"
    assert mask_pair(A, B) == ("\ufffd", "\ufffd")


def test_more_placeholders_than_slots_stay_text() -> None:
    many = [f"{{{i}}}" for i in range(11)]
    masked, values = mask(" ".join(many))
    assert masked.split(" ") == [*SLOTS, "{9}", "{10}"]
    assert values == many[:9]


def test_both_sides_number_by_the_source_and_what_one_side_alone_has_stays_text() -> None:
    source, target = mask_pair("%d of {name} in <b>all</b>", "{name} : %d sur %s</b>")
    assert source == f"{A} of {B} in <b>all{C}"
    assert target == f"{B} : {A} sur %s{C}"


def test_slots_of_a_pair_are_not_wasted_on_what_one_side_alone_has() -> None:
    alone = " ".join(f"{{{i}}}" for i in range(9))
    assert mask_pair(f"{alone} %s", "%s") == (f"{alone} {A}", A)


def test_symbols_of_the_user_are_no_placeholders() -> None:
    assert mask("<2de> {name}", ["<2de>"]) == (f"<2de> {A}", ["{name}"])
    assert mask_pair("<2de> %s", "%s <2de>", ["<2de>"]) == (f"<2de> {A}", f"{A} <2de>")
    assert restored(f"<2de> {A}", "<2de> %s", ["<2de>"]) == "<2de> %s"


def test_a_translation_is_given_the_values_of_its_source() -> None:
    source = "Hello {name}, <b>%d</b> files"
    assert restored(f"{B}{C} {SLOTS[3]}, salut {A}", source) == "<b>%d </b>, salut {name}"
    assert restored(f"{A} {A} {SLOTS[8]}", source) == "{name} {name} "


def test_pairs_can_be_read_twice() -> None:
    pairs = MaskedPairs([("%s a", "b %s"), ("%d", "x")])
    assert list(pairs) == list(pairs) == [(f"{A} a", f"b {A}"), ("%d", "x")]


def test_training_pairs_are_masked_and_held_out_pairs_are_kept_raw(tmp_path: Path) -> None:
    lines = [f"{word} {{name}} of %d <2de>\t%d {word} {{name}} %s <2de>\n" for word in map(str, range(41))]
    (tmp_path / "pairs.tsv").write_text("".join(lines), encoding="utf-8")
    settings = ["vocab_size=307", "placeholders=true", "symbols=['<2de>']"]
    config = load_config({"data": {"held_out": 5}}, [f"tokenizer.{each}" for each in settings])
    prepare(Bitext.open(str(tmp_path / "pairs.tsv")).cleaned(), config, tmp_path)
    data = PreparedData.open(tmp_path, config)
    tokenizer = data.source_tokenizer
    for batches in (data.train, data.valid):
        sides = (batches.source, batches.target)
        source, target = ("".join(tokenizer.pieces(side[0].tolist())) for side in sides)
        # Each run between symbols is a text of its own, with a space before its first word.
        assert re.fullmatch(r"▁\d+▁<ph1>▁▁of▁<ph2>▁▁<2de>", source)
        assert re.fullmatch(r"<ph2>▁▁\d+▁<ph1>▁▁%s▁<2de>", target)
    assert all("{name}" in source and "%d" in target for source, target in data.valid_pairs + data.test_pairs)


@pytest.mark.parametrize(
    "part", ["%0", "<a ", "{a", "{{", "a.", "http://.", "&a", "<a b='", "%(", "{a:", "{a,  ", "<a:"]
)
def test_no_long_line_takes_long(part: str) -> None:
    started = time.perf_counter()
    mask(part + part[-1] * 50_000 + part * 20_000)
    assert time.perf_counter() - started < 2
