"""Codes, placeholders and formats of strangers' sentences: none is lost, doubled, cut apart or moved."""

import re
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.decoding.alignment import word_spans, words
from dragoman.decoding.translation import Translation
from dragoman.documents.document import Code, Document, FormatError, Segment
from dragoman.documents.inline import take_out
from dragoman.documents.projection import Projection
from dragoman.documents.translate import Engine, Report, translate_documents
from dragoman.text.tokenizers.placeholders import literal_spans
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.documents.engines import BACKWARDS, SAME, by_word


def tagged(text: str) -> list[str | Code]:
    """A text with simple tags as the content of a segment; `<code>` elements stand for words."""
    content: list[str | Code] = []
    for part in re.split(r"(<code>.*?</code>|<[^<>]*>)", text):
        name = part.strip("</>")
        if part.startswith("<code>"):
            content.append(Code(part, "word"))
        elif part in ("<br>", "<img>"):
            content.append(Code(part, "break" if part == "<br>" else "alone"))
        elif part.startswith("<"):
            content.append(Code(part, "close" if part[1] == "/" else "open", name))
        elif part:
            content.append(part)
    return content


def translated(text: str, engine: Engine, report: Report | None = None) -> str:
    return translate_documents([Document(text, [Segment(0, len(text), tagged(text))])], engine, report)[0]


def reading(target: str, links: list[tuple[int, int]]) -> Engine:
    """Gives one translation to every text."""
    return Engine(lambda texts: [Translation(target, 0.0, 0.0, [], links) for _ in texts], copies=True)


def seen(text: str) -> str:
    """The text that an engine is given."""
    return take_out(tagged(text), copied=True).text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See <a>the <code>foo</code></a>.", "<a><code>foo</code>. the</a> See"),
        ("Hi <b>{user}</b>, ok", "ok <b>{user}</b>, Hi"),
        ("Hi <b>%(user)s</b>", "<b>%(user)s</b> Hi"),
        ("big.<sup>[1]</sup> The cat", "cat The big.<sup>[1]</sup>"),
        ("Water is H<sub>2</sub>O here", "here H<sub>2</sub>O is Water"),
        ("on the 1<sup>st</sup> floor", "floor 1<sup>st</sup> the on"),
        ("an area of 50 m<sup>2</sup> now", "now m<sup>2</sup> 50 of area an"),
        ("<b>Un</b>happy people", "people <b>Un</b>happy"),
        ("a well-<i>known</i> man", "man well-<i>known</i> a"),
        ("Costs 10\u00a0EUR for <b>every</b> client", "client <b>every</b> for EUR\u00a010 Costs"),
        ("It costs <b>10</b> now", "now <b>10</b> costs It"),
        ("Say <b>it</b><br>twice", "twice <b>it</b><br>Say"),
        ("C<sub>6</sub>H<sub>12</sub>O<sub>6</sub> is sugar", "sugar is C<sub>6</sub>H<sub>12</sub>O<sub>6</sub>"),
        ("the cat<sup>1</sup> sat", "sat cat<sup>1</sup> the"),
        ("the <a><img></a> house", "<a><img></a> house the"),
    ],
)
def test_a_code_stays_with_its_word_when_words_change_places(text: str, expected: str):
    assert re.sub(r" +", " ", translated(text, BACKWARDS)) == expected
    assert translated(text, SAME) == text


def test_a_sign_and_its_number_move_together():
    assert translated("<b>$</b><b>10</b> only", BACKWARDS) == "only <b>$</b><b>10</b>"


def test_what_has_no_letters_is_not_shown_to_the_model():
    assert seen("big.<sup>[1]</sup> The cat") == "big. The cat"
    assert seen("the cat<sup>1</sup> sat") == "the cat sat"
    assert seen("Water is H<sub>2</sub>O here") == "Water is {1} here"
    assert seen("Hi <b>{user}</b>, ok") == "Hi {1}, ok"
    assert seen("50 km<sup>2</sup> of 10<sup>6</sup>") == "50 {1} of {2}"
    assert seen("<b>Un</b>happy {1}") == "Unhappy {1}"


@pytest.mark.parametrize(
    ("text", "target", "links", "expected"),
    [
        ("on the 1<sup>st</sup> floor", "au premier étage", [(0, 0), (2, 1), (3, 2)], "au premier<sup></sup> étage"),
        ("on the 1<sup>st</sup> floor", "au 1er étage", [(0, 0), (2, 1), (3, 2)], "au 1<sup>er</sup> étage"),
        ("<b>Un</b>happy people", "des gens tristes", [(1, 1), (0, 2)], "<b></b>des gens tristes"),
        ("<b>Unh</b>ap people", "des gens tristes", [(1, 1), (0, 2)], "des gens <b>tristes</b>"),
        ("see <b>(the house)</b> now", "voir (la maison) ici", [(0, 0), (1, 1), (2, 2), (3, 3)],
         "voir <b>(la maison)</b> ici"),
        ("see (<b>the house</b>) now", "voir (la maison) ici", [(0, 0), (1, 1), (2, 2), (3, 3)],
         "voir (<b>la maison</b>) ici"),
        ("take <b>{a} and more</b>, now", "prends {a} et plus, là", [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)],
         "prends <b>{a} et plus</b>, là"),
    ],
)  # fmt: skip
def test_a_format_on_a_part_of_a_word_does_not_take_others(text, target, links, expected):
    assert translated(text, reading(target, links)) == expected


def test_placeholders_that_a_translation_doubles_or_loses_are_as_many_as_before():
    report = Report()
    text = "Open <b>%s</b> in <code>vim</code>, {user} <i>please</i> now"
    target = "{user} ouvre {1} {1} dans là s'il {user} te plaît"
    found = translated(text, reading(target, [(6, 7), (0, 1), (5, 0)]), report)
    for value in ("%s", "<b>", "</b>", "<code>vim</code>", "{user}", "<i>", "</i>"):
        assert found.count(value) == 1
    assert "{1}" not in found
    assert "{2}" not in found
    assert report.restored == 1
    assert "1 placeholder" in " ".join(report.notes())


def test_a_format_whose_words_are_nowhere_is_reported():
    report = Report()
    assert translated("the <b>very old</b> house", reading("la maison", [(0, 0), (3, 1)]), report).count("<b></b>") == 1
    assert report.unplaced == 1
    assert "1 format" in " ".join(report.notes())


@pytest.mark.parametrize("text", ["the 2 %s<b>2</b>", "the %s<sub>2</sub>", "the H<sub>2</sub>me@example.org"])
def test_a_letter_of_a_placeholder_is_no_part_of_a_formula(text):
    (placeholder,) = re.findall(r"%s|me@example.org", text)
    assert translated(text, reading("", [])).count(placeholder) == 1
    assert translated(text, SAME) == text


WORDS = ["the", "house.", "H", "2", "10", "{user}", "%s", "«old»", "[1]", "\u00a0", "cat,", "é", "$", " ", "  "]


def contents() -> st.SearchStrategy[str]:
    """Texts with tags, nested, side by side, glued to words or not."""
    word = st.sampled_from(WORDS)
    piece = st.one_of(word, st.sampled_from(["<br>", "<img>", "<code>x y</code>"]))
    return st.recursive(
        st.lists(piece, max_size=5).map("".join) | st.lists(word, max_size=5).map(" ".join),
        lambda inner: st.tuples(inner, st.sampled_from("bi"), inner, inner).map(
            lambda parts: f"{parts[0]}<{parts[1]}>{parts[2]}</{parts[1]}>{parts[3]}"
        ),
        max_leaves=6,
    )


NONSENSE = ["x", "y.", "{1}", "{2}", "{user}", "%s", "10", ",", "«z»"]


@settings(max_examples=60)
@given(contents(), st.lists(st.sampled_from(NONSENSE), max_size=8), st.data())
def test_codes_and_placeholders_occur_as_often_whatever_a_model_says(text: str, words: list[str], data: st.DataObject):
    target = " ".join(words)
    links = data.draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, max(0, len(words) - 1))), max_size=9))
    translation = translated(text, reading(target, links))
    for code in ("<b>", "</b>", "<i>", "</i>", "<br>", "<img>", "<code>x y</code>"):
        assert translation.count(code) == text.count(code)
    if "the" in text or "cat" in text or "old" in text or "é" in text:
        plain = seen(text)
        placeholders = {plain[start:end] for start, end in literal_spans(plain)}
        for value in ("{user}", "%s"):
            # In %sthe, all of it is the placeholder, and a %s that a model invents may be text.
            is_part = any(value in placeholder and value != placeholder for placeholder in placeholders)
            if value in text and not is_part:
                assert translation.count(value) == text.count(value)


@pytest.mark.slow
@given(contents())
def test_an_engine_that_changes_nothing_gives_the_same_text(text: str):
    assert translated(text, SAME) == text


@given(st.lists(st.sampled_from(["the", "old", "house", "is", "far", "away"]), min_size=1, max_size=9), st.data())
def test_words_in_other_places_keep_their_formats(words: list[str], data: st.DataObject):
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    text = " ".join([*words[:first], "<b>" + " ".join(words[first : last + 1]) + "</b>", *words[last + 1 :]])
    turned = translated(text, BACKWARDS)
    bold = re.search("<b>(.*)</b>", turned)
    assert bold
    assert Counter(bold[1].split()) == Counter(words[first : last + 1])


def test_segments_that_overlap_are_found_when_a_document_is_built():
    with pytest.raises(FormatError, match="texts inside of each other at character 2"):
        Document("abcdef", [Segment(0, 4, ["abcd"]), Segment(2, 6, ["cdef"])])
    with pytest.raises(FormatError, match="texts inside of each other"):
        Document("abcdef", [Segment(0, 6, ["abcdef"]), Segment(2, 4, ["cd"])])
    code = Code("<a t='x y'>", "open", "a", start=2)
    text = "a <a t='x y'>b</a>"
    outer = Segment(0, len(text), ["a ", code, "b", Code("</a>", "close", "a", start=14)])
    document = Document(text, [outer, Segment(8, 11, ["x y"])])
    assert translate_documents([document], by_word(str.upper)) == ["A <a t='X Y'>B</a>"]
    assert translate_documents([document], SAME) == [text]


def test_words_are_what_any_space_separates():
    assert [text for text in ("a\u00a0b", "a\u200bb", "a \u200b b", "\u00ad", "a\u3000b", "a\u00adb")
            if len(word_spans(text)) != {"a\u00a0b": 2, "a\u200bb": 1, "a \u200b b": 2, "\u00ad": 0, "a\u3000b": 2,
                                         "a\u00adb": 1}[text]] == []  # fmt: skip


class InPieces(Tokenizer):
    """A tokenizer whose tokens are these bytes."""

    def __init__(self, *tokens: bytes):
        self.tokens = tokens

    def token_bytes(self, ids: list[int]) -> list[bytes]:
        return [self.tokens[number] for number in ids]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ((b"10", b"\xc2\xa0", b"EUR"), [[0], [1, 2]]),
        ((b"10", b"\xc2", b"\xa0", b"EUR"), [[0], [1, 2, 3]]),
        ((b"caf", b"\xc3", b"\xa9", b" x"), [[0, 1, 2], [3]]),
        ((b"\xc3", b"\xa9t", b"\xe2\x80\x8b", b" x"), [[0, 1, 2], [3]]),
        ((b"a", b" ", b"\xe2\x80\x8b", b" b"), [[0], [1, 2, 3]]),
    ],
)
def test_tokens_belong_to_words_also_where_they_end_inside_of_a_character(tokens, expected):
    assert words(InPieces(*tokens), list(range(len(tokens)))) == expected
    text = b"".join(tokens).decode()
    assert len(word_spans(text)) == len(expected)


def many(count: int) -> Iterator[str | Code]:
    for number in range(count):
        yield f"word{number} "
        yield Code(f"<x{number}/>", "word")


@pytest.mark.slow
def test_thousands_of_codes_take_no_time_to_speak_of():
    content = list(many(16_000))
    document = Document("", [Segment(0, 0, content, in_place=False)])
    found = translate_documents([document], BACKWARDS)[0]
    assert len(re.findall(r"<x\d+/>", found)) == 16_000
    plain = take_out(content, copied=True)
    assert len(plain.stand_ins) < 100
    assert len(Projection(plain.text, plain.text, ()).put_in(plain.root)) > 16_000
