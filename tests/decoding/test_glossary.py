"""Terms in files and sentences, and a forbidden term against models that insist on it."""

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.cli.files import read_glossary, read_terms
from dragoman.decoding.glossary import MOST_OCCURRENCES, MOST_REQUIRED, ForbiddenTerms, Glossary
from dragoman.decoding.rules import RuledStepper
from dragoman.decoding.search import Beams, Hypothesis, SearchOptions, beam_search, greedy_search
from dragoman.engine.engine import Stepper
from dragoman.engine.log_probs import ArrayLogProbs
from dragoman.errors import DataError
from dragoman.interop.imports.pretrained import import_pretrained
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.tokenizer import EOS_ID, Tokenizer
from tests.interop import pretrained_models as models

TEXTS = ["le chat noir et le château", "l'ordinateur voit un café", "New York, une pomme de terre", "chaton chats"] * 3
OPTIONS = SearchOptions([29], 2, EOS_ID)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, vocab_size=317)


def targets_in(glossary: Glossary, sentence: str) -> list[str]:
    """The different target terms of a sentence, in order."""
    return [*dict.fromkeys(occurrence.target for occurrence in glossary.occurrences(sentence))]


# ---- files -----------------------------------------------------------------------------------


def test_a_glossary_is_lines_of_two_terms(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("computer\tordinateur\n\nNew York \t New York\ncomputer\tordinateur\n", encoding="utf-8")
    assert read_glossary(path) == {"computer": "ordinateur", "New York": "New York"}
    as_table = tmp_path / "terms.csv"
    as_table.write_text('computer,ordinateur\n"house, old",maison\n', encoding="utf-8")
    assert read_glossary(as_table) == {"computer": "ordinateur", "house, old": "maison"}
    packed = as_table.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(as_table.read_bytes()))
    assert read_glossary(packed) == read_glossary(as_table)
    path.write_text("a\n\n b c \n", encoding="utf-8")
    assert read_terms(path) == ["a", "b c"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cat\tchat\ndog\n", "terms.tsv, line 2 is not a source term, a tab and a target term: 'dog'"),
        ("cat\tchat\tminou\n", "line 1 is not"),
        ("\tchat\n", "line 1 is not"),
        ("cat\tchat\n\ncat\tminou\n", "line 3 gives 'cat' a second translation"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_glossary(path)


@pytest.mark.parametrize("line", ['a,"b', "c\rd,e", "a,b,c"])
def test_a_line_that_is_no_row_of_a_table_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "terms.csv").write_text(f"cat,chat\n{line}\n", encoding="utf-8", newline="")
    with pytest.raises(DataError, match=r"line [23] is not a source term, a comma and a target term"):
        read_glossary(tmp_path / "terms.csv")


# ---- terms in sentences ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "targets"),
    [
        ("The cat sees a CAT.", ["chat"]),
        ("Concatenate the cats.", []),
        ("a cat-like cat", ["chat"]),
        ("An Apple a day", ["Apple"]),
        ("an apple a day", []),
        ("I live in New York City, not in Yorkshire.", ["New York"]),
        ("york, new york", ["ville"]),
        ("York and the cat", ["ville", "chat"]),
        ("pommes de terre", []),
        ("a caf\u00e9", ["café"]),
        ("", []),
    ],
)
def test_terms_are_whole_words_the_longest_first(tokenizer: Tokenizer, sentence: str, targets: list[str]) -> None:
    terms = {"cat": "chat", "Apple": "Apple", "New York City": "New York", "york": "ville", "cafe\u0301": "café"}
    assert targets_in(Glossary(terms, tokenizer), sentence) == targets


def test_words_have_no_spaces_around_them_in_some_scripts_and_marks_inside_in_others(tokenizer: Tokenizer) -> None:
    terms = {"苹果": "apple", "น้ำ": "water", "किताब": "book", "कि": "that", "iPhone": "iPhone"}
    sentences = {"我喜欢苹果。用iPhone吧": ["苹果", "iPhone"], "กินน้ำไหม": ["น้ำ"], "यह किताब।": ["किताब"]}
    for sentence, found in sentences.items():
        assert targets_in(Glossary(terms, tokenizer), sentence) == [terms[term] for term in found]
        assert [ForbiddenTerms([term], tokenizer).first_in(sentence) for term in found] == found
    assert ForbiddenTerms(["कि"], tokenizer).first_in("यह किताब।") is None


def test_terms_give_way_to_those_of_another_glossary_with_the_same_words(tokenizer: Tokenizer) -> None:
    glossary = Glossary({"cat": "chat", "New York": "ville", "Cat": "Chat", "dog": "chien"}, tokenizer)
    assert glossary.without_those_of(["CAT", "new  york"]) == {"dog": "chien"}
    assert [found.source for found in glossary.occurrences("the Cat and the new york dog")] == ["cat", "dog"]


def test_a_term_knows_where_its_source_is(tokenizer: Tokenizer) -> None:
    sentence = "the cat of New York sees a cat"
    occurrences = Glossary({"cat": "chat", "new york": "ville"}, tokenizer).occurrences(sentence)
    assert [(found.target, sentence[found.start : found.stop]) for found in occurrences] == [
        ("chat", "cat"),
        ("ville", "New York"),
        ("chat", "cat"),
    ]
    assert (occurrences[0].start, occurrences[0].stop) == (4, 7)
    assert len(Glossary({"cat": "chat"}, tokenizer).occurrences("cat " * 1_000)) == MOST_OCCURRENCES
    words = [f"{first}{second}" for first in "abcdefgh" for second in "abcdefgh"]
    large = Glossary({word: word.upper() for word in words}, tokenizer)
    assert [found.target for found in large.occurrences(" ".join(words))] == [
        word.upper() for word in words[:MOST_REQUIRED]
    ]


def test_terms_are_spelled_as_within_a_sentence_and_after_an_apostrophe(tokenizer: Tokenizer) -> None:
    (term,) = Glossary({"computer": "ordinateur"}, tokenizer).terms("a computer")
    whole = tokenizer.encode("l'ordinateur voit ordinateur")
    for ids, text in ((term.spelling, "ordinateur"), (term.joined, "'ordinateur")):
        assert any(whole[i : i + len(ids)] == ids for i in range(len(whole)))
        assert tokenizer.decode([*tokenizer.encode("'"), *ids]).endswith(text)


# ---- forbidden terms -------------------------------------------------------------------------


class Insists:
    """A stepper that goes on with any token that spells more of a text, the likelier the longer it is."""

    def __init__(self, tokenizer: Tokenizer, text: str, rows: int):
        self.pieces = [tokenizer.decode([i]).encode() if i > EOS_ID else b"" for i in range(tokenizer.vocab_size)]
        names = tokenizer.pieces(range(tokenizer.vocab_size))
        for i, name in enumerate(names):  # a stray byte has no text of its own
            if match := re.fullmatch("<([0-9A-F]{2})>", name):
                self.pieces[i] = bytes.fromhex(match[1])
            elif i > EOS_ID:
                self.pieces[i] = name.replace("▁", " ").encode()
        self.text, self.written = (" " + text).encode(), [b""] * rows

    def step(self, tokens: np.ndarray) -> ArrayLogProbs:
        self.written = [w + self.pieces[t] for w, t in zip(self.written, tokens.tolist(), strict=True)]
        scores = torch.full((len(tokens), len(self.pieces)), -20.0)
        for row, written in enumerate(self.written):
            # Wherever it left the text, it takes it up again.
            starts = [i for i in range(len(written) + 1) if self.text.startswith(written[i:])]
            rest = self.text[len(written) - starts[0] :]
            for token, piece in enumerate(self.pieces):
                if piece and rest.startswith(piece):
                    scores[row, token] = 3.0 * len(piece)
            if not rest:
                scores[row, EOS_ID] = 30.0
        return ArrayLogProbs(scores.log_softmax(-1).numpy())

    def reorder(self, rows: np.ndarray) -> None:
        self.written = [self.written[row] for row in rows.tolist()]


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize(
    ("text", "forbidden"),
    [
        ("le chat noir", "chat"),
        ("Chat noir", "chat"),
        ("le CHAT", "chat"),
        ("un café, un", "café"),
        ("l'ordinateur voit", "ordinateur"),
        ("New York, une", "New York"),
        ("une pomme de terre", "pomme de terre"),
        ("é a", "é"),
    ],
)
def test_a_forbidden_term_is_not_said_in_any_spelling(
    tokenizer: Tokenizer, text: str, forbidden: str, beam_size: int
) -> None:
    def search(stepper: Stepper) -> list[Hypothesis]:
        return beam_search(stepper, Beams(4, OPTIONS))[0] if beam_size > 1 else greedy_search(stepper, OPTIONS)[0]

    free, *_ = search(Insists(tokenizer, text, 1))
    assert tokenizer.decode(free.tokens) == text
    word = re.compile(rf"(?<!\w){re.escape(forbidden)}(?!\w)", re.IGNORECASE)
    assert word.search(text)
    ban = ForbiddenTerms([forbidden, "unrelated"], tokenizer)
    for h in search(RuledStepper(Insists(tokenizer, text, 1), bans=[ban], prefixes=[[]])):
        assert not word.search(tokenizer.decode(h.tokens))


@pytest.mark.parametrize("text", ["le château", "un achat", "chats", "York, New", "New", "pomme de", "terre"])
def test_what_is_not_forbidden_can_be_said(tokenizer: Tokenizer, text: str) -> None:
    ban = ForbiddenTerms(["chat", "New York", "pomme de terre"], tokenizer)
    stepper = RuledStepper(Insists(tokenizer, text, 1), bans=[ban], prefixes=[[]])
    ((best, *_),) = beam_search(stepper, Beams(4, OPTIONS))
    assert tokenizer.decode(best.tokens) == text


@pytest.mark.parametrize("text", ["pizza de", "pizza. un", "la pizza", "deja vu"])
def test_a_word_may_end_in_a_forbidden_letter(tokenizer: Tokenizer, text: str) -> None:
    ban = ForbiddenTerms(["a", "é"], tokenizer)
    stepper = RuledStepper(Insists(tokenizer, text, 1), bans=[ban], prefixes=[[]])
    ((best, *_),) = beam_search(stepper, Beams(4, OPTIONS))
    assert tokenizer.decode(best.tokens) == text


def test_a_term_that_is_only_spelled_with_a_forbidden_token_is_told(tokenizer: Tokenizer) -> None:
    ban = ForbiddenTerms(["new york", "chat"], tokenizer)
    spelled = {piece: tokenizer.encode(piece) for piece in ("chat", "chaton", "un")}
    assert len(spelled["chaton"]) == 1  # the whole word is a token
    assert ban.completed_by(spelled["chaton"]) is None
    assert ban.completed_by(spelled["un"]) is None
    assert ban.completed_by([*spelled["chat"], *tokenizer.encode("on")]) == "chat"


def test_a_term_with_capitals_is_forbidden_as_it_is_written(tokenizer: Tokenizer) -> None:
    ban = ForbiddenTerms(["New York"], tokenizer)
    assert ban.first_in("in New York.") == "New York"
    assert ban.first_in("in new york.") is None
    assert ForbiddenTerms(["new york"], tokenizer).first_in("in New York.") == "New York"


def test_the_token_of_a_language_is_no_part_of_a_term(tmp_path: Path) -> None:
    import_pretrained(models.m2m(tmp_path / "theirs"), tmp_path / "model", languages=("en", "de"))
    tokenizer = ModelDirectory.load(tmp_path / "model").target_tokenizer
    (term,) = Glossary({"house": "Hund"}, tokenizer).terms("the house")
    assert tokenizer.begin_ids
    assert [*tokenizer.begin_ids, *term.spelling] == tokenizer.encode("Hund")
    assert tokenizer.decode(term.spelling) == "Hund"
