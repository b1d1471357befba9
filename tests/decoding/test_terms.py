"""Where a required term goes: it replaces the word that attends to its source, whole and once."""

import numpy as np
import pytest

from dragoman.decoding.glossary import Glossary
from dragoman.decoding.terms import Edit, TermPlacer, needed_edits, with_edits
from dragoman.text.tokenizers.tokenizer import Tokenizer

TEXTS = [
    "le chat noir voit l'ordinateur",
    "un chien (vert) et le petit garçon.",
    "the cat sees a computer",
    "他看见猫了",
] * 3


def tokenizers() -> list[Tokenizer]:
    return [Tokenizer.train(TEXTS, vocab_size=340), Tokenizer.train(TEXTS, vocab_size=300, kind="char")]


def replacements(
    tokenizer: Tokenizer, source: str, target: str, links: dict[str, str], glossary: dict[str, str]
) -> set[str]:
    """The texts that a term may lead to, if each target word in `links` looks at its source word alone."""
    source_ids, tokens = tokenizer.encode(source), tokenizer.encode(target)
    weights = np.full((len(tokens) + 1, len(source_ids) + 1), 0.001, np.float32)
    for target_word, source_word in links.items():
        for row in positions(tokenizer, tokens, target_word):
            weights[row, positions(tokenizer, source_ids, source_word)] = 1.0
    placer = TermPlacer(tokenizer, tokenizer)
    (term,) = Glossary(glossary, tokenizer).terms(source)
    assert placer.missing([term], tokens) == {term.text: 1}
    texts = set()
    for edit in placer.edits(term, source_ids, tokens, weights, 0):
        new = with_edits(tokens, [edit])
        texts.add(tokenizer.decode(new))
        assert not placer.missing([term], new)
    return texts


def positions(tokenizer: Tokenizer, ids: list[int], word: str) -> list[int]:
    """The tokens that spell a word."""
    text = b"".join(tokenizer.token_bytes(ids)).decode()
    start, stop, end, positions = text.index(word), text.index(word) + len(word), 0, []
    for index, content in enumerate(tokenizer.token_bytes(ids)):
        begin, end = end, end + len(content.decode())
        if begin < stop and end > start:
            positions.append(index)
    return positions


@pytest.mark.parametrize("kind", [0, 1], ids=["bpe", "char"])
@pytest.mark.parametrize(
    ("target", "links", "term", "texts"),
    [
        ("le chat noir voit.", {"chat": "cat"}, "zyx", {"le zyx noir voit."}),
        ("le voit chat.", {"chat": "cat"}, "Acme Cloud", {"le voit Acme Cloud."}),
        # An article may look at the noun as well: the model decides.
        ("le chat voit", {"le": "cat", "chat": "cat"}, "zyx", {"le zyx voit", "zyx voit"}),
        ("l'ordinateur voit", {"ordinateur": "cat"}, "zyx", {"l'zyx voit", "zyx voit"}),
        ("un petit (chat) noir", {"chat": "cat"}, "zyx", {"un petit (zyx) noir", "un petit zyx) noir"}),
        # What is far from it stays, however much it looks there.
        ("le chat voit un garçon", {"chat": "cat", "garçon": "cat"}, "zyx", {"le zyx voit un garçon"}),
    ],
)
def test_a_term_replaces_the_word_of_its_source(kind, target, links, term, texts) -> None:
    found = replacements(tokenizers()[kind], "the cat sees a computer", target, links, {"cat": term})
    assert found == texts


def test_a_term_replaces_characters_where_words_have_no_spaces() -> None:
    found = replacements(tokenizers()[1], "the cat sees a computer", "他看见猫了", {"猫": "cat"}, {"cat": "老虎"})
    assert found == {"他看见老虎了"}


def test_several_terms_keep_their_order_and_do_not_delete_each_other() -> None:
    tokens = [1, 2, 3, 4]
    assert with_edits(tokens, [Edit(2, 3, [9, 9]), Edit(0, 1, [7])]) == [7, 2, 9, 9, 4]
    assert with_edits(tokens, [Edit(1, 3, [9]), Edit(1, 3, [7])]) == [1, 7, 9, 4]
    assert with_edits(tokens, [Edit(1, 3, [9]), Edit(2, 3, [7])]) == [1, 9, 7, 4]


def test_a_term_occurs_as_often_as_in_the_source() -> None:
    tokenizer = tokenizers()[0]
    placer, terms = TermPlacer(tokenizer, tokenizer), Glossary({"cat": "zyx"}, tokenizer).terms("the cat sees the cat")
    first, second = terms
    assert (first.span, second.span) == ((4 / 20, 7 / 20), (17 / 20, 20 / 20))
    for text, number in (("le chat voit le chat", 2), ("le zyx voit le chat", 1), ("zyx zyx zyx", 0), ("zyxzyx", 2)):
        assert placer.missing(terms, tokenizer.encode(text))["zyx"] == number
    left, right = Edit(1, 2, [7]), Edit(4, 5, [7])
    assert needed_edits(terms, [left, right], {"zyx": 2}) == [left, right]
    assert needed_edits(terms, [None, right], {"zyx": 1}) == [right]
    assert needed_edits(terms, [left, left], {"zyx": 2}) == [left]  # the translation says it once
    assert needed_edits(terms, [left, right], {"zyx": 1}) == [left]


def test_a_word_that_is_the_term_already_stays() -> None:
    tokenizer = tokenizers()[0]
    source, tokens = tokenizer.encode("the cat"), tokenizer.encode("le zyx voit le chat")
    weights = np.full((len(tokens) + 1, len(source) + 1), 0.001, np.float32)
    weights[positions(tokenizer, tokens, "zyx")] = 1.0
    (term,) = Glossary({"cat": "zyx"}, tokenizer).terms("the cat")
    assert TermPlacer(tokenizer, tokenizer).edits(term, source, tokens, weights, 0) == []


def test_a_term_in_an_empty_translation_or_after_a_prefix_is_put_at_its_end() -> None:
    tokenizer = tokenizers()[0]
    (term,) = Glossary({"cat": "zyx"}, tokenizer).terms("the cat")
    placer, source, weights = TermPlacer(tokenizer, tokenizer), tokenizer.encode("the cat"), np.ones((9, 9), np.float32)
    for tokens in ([], tokenizer.encode("le petit")):
        (edit,) = placer.edits(term, source, tokens, weights, len(tokens))
        assert edit == (len(tokens), len(tokens), term.spelling)
