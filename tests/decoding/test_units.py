"""Texts of several sentences: each sentence is translated as if it were alone, and put in its place."""

import pytest

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.translation import Translation
from dragoman.decoding.translator import Translator
from dragoman.decoding.units import join
from dragoman.errors import SentenceCut
from tests.decoding.test_translator import TARGETS, taught, tokenizer  # noqa: F401

pytestmark = pytest.mark.usefixtures("annotations_unchecked")
SEARCH = DecodingConfig()
TEXT = "The dog sleeps.  Is it a cat? Yes. No!"


def test_no_sentence_of_a_text_is_lost(taught: Translator) -> None:  # noqa: F811
    texts = [TEXT, "", *TARGETS, " Yes.  No! ", "Yes.\n\nThe cat sleeps."]
    found = taught.translate(texts)
    assert [t.text for t in found] == [
        "Le chien dort.  Est-ce un chat\u202f? Oui. Non\u202f!",
        "",
        *TARGETS.values(),
        " Oui.  Non\u202f! ",
        "Oui.\n\nLe chat dort.",
    ]
    assert [t.warning for t in found] == [None] * len(texts)
    assert taught.translate([TEXT], split=False)[0].text != found[0].text
    assert [t.text for t in taught.stream(texts, window=2)] == [t.text for t in found]


def test_scores_tokens_and_links_are_those_of_the_sentences(taught: Translator) -> None:  # noqa: F811
    options = {"length_penalty": 0.6, "length_offset": 5.0, "alignments": True}
    (whole,) = taught.translate([TEXT], **options)
    parts = taught.translate(["The dog sleeps.", "Is it a cat?", "Yes.", "No!"], **options)
    assert whole.tokens == [token for part in parts for token in part.tokens]
    assert whole.log_prob == pytest.approx(sum(part.log_prob for part in parts), abs=1e-4)
    assert whole.score == pytest.approx(whole.log_prob / ((5 + len(whole.tokens) + 4) / 6) ** 0.6, abs=1e-4)
    source, target = TEXT.split(), whole.text.split()
    links = [(source[s], target[t]) for s, t in whole.alignment]
    sources = [text.split() for text in ("The dog sleeps.", "Is it a cat?", "Yes.", "No!")]
    targets = [part.text.split() for part in parts]
    assert links == [(s[i], t[j]) for s, t, p in zip(sources, targets, parts, strict=True) for i, j in p.alignment]


def test_links_count_words_that_have_no_space_between_them() -> None:
    parts = [Translation("a b", 0.0, 0.0, [], [(0, 0), (0, 1)]), Translation("c", 0.0, 0.0, [], [(0, 0)])]
    assert join(parts, ["他来了。", "你呢？"], SEARCH).alignment == [(0, 0), (0, 1), (0, 2)]
    assert join(parts, ["他来了。 ", "你呢？"], SEARCH).alignment == [(0, 0), (0, 1), (1, 2)]
    parts = [Translation("他来了。", 0.0, 0.0, [], [(1, 0)]), Translation("你呢？", 0.0, 0.0, [], [(0, 0)])]
    joined = join(parts, ["He came. ", "And you?"], SEARCH)
    assert (joined.text, joined.alignment) == ("他来了。你呢？", [(1, 0), (2, 0)])
    parts = [Translation(text, 0.0, 0.0, []) for text in ("One.", "", "Three.")]
    assert join(parts, ["一。", "二。", "三。"], SEARCH).text == "One. Three."


def test_the_second_best_translation_has_the_second_best_sentences(taught: Translator) -> None:  # noqa: F811
    (whole,) = taught.translate(["The dog sleeps. Yes."], n_best=3)
    parts = taught.translate(["The dog sleeps.", "Yes."], n_best=3)
    ranked = zip(*([part, *part.alternatives] for part in parts), strict=True)
    assert [t.text for t in (whole, *whole.alternatives)] == [f"{first.text} {second.text}" for first, second in ranked]
    few = [Translation("a", 0.0, 0.0, [], None, []), parts[0]]
    assert [t.text[0] for t in join(few, ["A ", "b"], SEARCH).alternatives] == ["a", "a"]


def test_a_prefix_is_the_beginning_of_the_first_sentence(taught: Translator) -> None:  # noqa: F811
    (found,) = taught.translate(["A dog sees the black cat. Yes."], prefix="Un chat")
    assert found.text.startswith("Un chat ")
    assert found.text.endswith(" Oui.")
    assert taught.translate([TEXT, "Yes."], prefixes=["Le", ""])[1].text == "Oui."


def test_a_sentence_that_is_too_long_is_cut_and_that_is_said(taught: Translator) -> None:  # noqa: F811
    long, short = "the dog and the cat " * 500, "The dog sleeps. Yes."
    with pytest.warns(SentenceCut, match="Text 0: a sentence of more than 30 tokens"):
        cut, whole = taught.translate([long, short], max_source_length=30, beam_size=1)
    assert "more than 30 tokens" in cut.warning
    assert "`max_source_length`" in cut.warning
    assert '"warning"' in cut.to_json()
    assert len(cut.tokens) > 500
    assert (whole.text, whole.warning) == ("Le chien dort. Oui.", None)
