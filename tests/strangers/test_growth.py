"""What it costs to read what strangers send: as long as it is, and never the square of that.

`tests/strangers/growth.py` has the seeds and the readers. A reader gets seeds at random, since all in all would take
half an hour, and so also those whose marks mean nothing in it.
"""

import gc
import random
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from dragoman.data.bitext import Bitext
from dragoman.decoding.glossary import ForbiddenTerms
from dragoman.documents.document import Code
from dragoman.documents.inline import Span
from dragoman.documents.projection import Projection
from dragoman.documents.registry import translate_document
from dragoman.documents.translate import Engine
from dragoman.errors import DataError, UsageError
from dragoman.text.characters import normalised
from dragoman.text.tokenizers.algorithms import OURS
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.documents.engines import SAME
from tests.strangers.growth import DOCUMENTS, OFFICE, PAIRS, RULES, TEXTS, Seed, document, swapped

XML = ("HTML", "DOCX", "ODT", "TMX", "XLIFF")
"""What the names of readers have in which seeds of XML are tried."""
REFUSALS = (DataError, UsageError, yaml.YAMLError, RecursionError, ValueError)
"""What readers raise; the rules for texts raise nothing."""
MEASURED = 40
"""Seeds that are measured in each reader."""
LARGE, STEPS, MOST_GROWTH, LITTLE = 6_000, 4, 10, 0.15
"""Characters of a large text, how many times as large as a small one it is, how many times as long it may take at most,
and the seconds below which this is not asked. A cost that grows with the length takes 4 times as long, one that grows
with its square 16 times."""


def seeds_of(kind: str) -> list[Seed]:
    return [*TEXTS, *OFFICE] if any(word in kind for word in XML) else TEXTS


def reader(kind: str, folder: Path, engine: Engine) -> Callable[[str], object]:
    """What reads a text in a format, and writes it again if it is one of documents."""
    if kind in DOCUMENTS:
        return lambda text: translate_document(*reversed(document(kind, text)), ("en", "fr"), engine)
    if kind in PAIRS:
        name, form = PAIRS[kind]

        def read(text: str) -> None:
            (folder / name).write_bytes(form(text).encode(errors="replace"))
            list(Bitext.open(folder / name))

        return read
    return RULES[kind]


def seconds(read: Callable[[str], object], text: str) -> float:
    """Processor time to read a text, or to refuse it."""
    started = time.process_time()
    with suppress(*REFUSALS):
        read(text)
    return time.process_time() - started


def grows_too_fast(read: Callable[[str], object], seed: Seed) -> str:
    """What a seed costs if that grows faster than the seed, or nothing."""
    for size in (LARGE, 2 * LARGE):  # something may have disturbed the first measurement
        large = seconds(read, seed.grown(size))
        if large < LITTLE:
            return ""
        middle, small = (seconds(read, seed.grown(size // parts)) for parts in (STEPS // 2, STEPS))
        if large < MOST_GROWTH * max(small, middle / 2):
            return ""
    return f"{seed}: {small:.3f} s, {middle:.3f} s, {large:.3f} s"


def refusal(read: Callable[[str], object], text: str) -> str:
    """The sentence that refuses a text, or nothing."""
    try:
        read(text)
    except DataError as error:
        return str(error)
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*DOCUMENTS, *PAIRS, *RULES])
def test_costs_grow_with_the_length_of_a_text(kind, tmp_path):
    gc.collect()
    gc.freeze()  # what is searched for garbage is then what the reader made
    read = reader(kind, tmp_path, Engine(swapped, copies=True))
    chosen = random.Random(kind).sample(seeds_of(kind), MEASURED)
    assert not [found for seed in chosen if (found := grows_too_fast(read, seed))]


@pytest.mark.parametrize("kind", [*DOCUMENTS, *PAIRS])
def test_what_is_repeated_is_read_or_refused_in_one_sentence(kind, tmp_path):
    read, dice = reader(kind, tmp_path, SAME), random.Random(kind)
    for seed in dice.sample(seeds_of(kind), 40):
        assert "\n" not in refusal(read, seed.grown(60)), seed


# ---- what is faster than its formula is equal to it -------------------------------------------------


def best_words(own: set[int], sources: dict[int, set[int]], words: int) -> tuple[int, int] | None:
    """The best stretch of target words, by looking at each of them."""
    best, best_score, score, first = None, 0, 0, 0
    for word in range(words):
        if score <= 0:
            score, first = 0, word
        linked = sources.get(word, set())
        score += 10 if linked & own else -10 if linked else -1
        if score > best_score:
            best, best_score = (first, word), score
    return best


def test_the_best_stretch_is_that_of_the_formula():
    dice = random.Random(41)
    for _ in range(300):
        words = dice.randint(1, 30)
        text = " ".join("a" * words)
        links = [(dice.randrange(words), dice.randrange(words)) for _ in range(dice.randint(0, 40))]
        projection, sources = Projection(text, text, links), dict[int, set[int]]()
        for source, target in links:
            sources.setdefault(target, set()).add(source)
        own = range(start := dice.randrange(words), dice.randint(start + 1, words))
        found = projection._best_words(own, 0, len(text), [])
        assert found == best_words(set(own), sources, words)


def test_nested_formats_take_as_many_steps_as_there_are_words(monkeypatch):
    steps = dict[int, int]()
    for depth in (200, 400, 800):
        count = 0
        clipped = Projection._clipped

        def counted(self, *arguments):
            nonlocal count
            count += 1
            return clipped(self, *arguments)  # noqa: B023

        words = 2 * depth + 1
        text = " ".join("a" * words)
        root = inner = Span(0, len(text))
        for level in range(1, depth):
            inner.children.append(
                Span(2 * level, len(text) - 2 * level, [Code("<b>", "open")], [Code("</b>", "close")])
            )
            inner = inner.children[0]
        with monkeypatch.context() as patch:
            patch.setattr(Projection, "_clipped", counted)
            content = Projection(text, text, [(word, word) for word in range(words)]).put_in(root)
        assert "".join(each for each in content if isinstance(each, str)) == text
        steps[depth] = count
    assert steps[400] < 2.5 * steps[200]
    assert steps[800] < 2.5 * steps[400]


class Letters(Tokenizer):
    """The vocabulary of a tokenizer: tokens of some letters, of bytes, and one without text."""

    special_ids = OURS

    def __init__(self, alphabet: str, number: int):
        dice = random.Random(7)
        texts = {"".join(dice.choices(alphabet, k=dice.randint(1, 4))) for _ in range(number)}
        self._pieces = ["<pad>", "<unk>", "<s>", "</s>", "<C3>", "<E6>", "<A9>", "", *sorted(texts)]

    @property
    def vocab_size(self) -> int:
        return len(self._pieces)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._pieces[id_] for id_ in ids]


def test_tokens_that_complete_a_forbidden_term_are_those_of_the_formula():
    dice, tokenizer = random.Random(8), Letters("abé▁日-<C3>BÉ", 150)
    banned = 0
    for _ in range(60):
        terms = ["".join(dice.choices("abé日 ", k=dice.randint(1, 5))) for _ in range(dice.randint(1, 4))]
        terms = [term for term in terms if normalised(term)] or ["ab"]
        forbidden = ForbiddenTerms(terms, tokenizer)
        for _ in range(8):
            tail = forbidden._tail([dice.randrange(tokenizer.vocab_size) for _ in range(dice.randint(0, 6))])
            begun = any(tail[start:] in forbidden._by_beginning for start in range(len(tail)))
            formula = [
                id_
                for id_, piece in enumerate(forbidden._pieces)
                if forbidden._completed_term(tail, piece) or (begun and not piece and id_ != 3)
            ]
            assert forbidden._completing_tokens(tail).tolist() == formula, (terms, tail)
            banned += len(formula)
    assert banned > 1_000


def test_few_tokens_are_looked_at_for_a_forbidden_term(monkeypatch):
    tokenizer, looks = Letters("abcdefghé", 6_000), 0
    terms = ["".join(random.Random(number).choices("abcdefghé", k=100)) for number in range(50)]
    forbidden = ForbiddenTerms(terms, tokenizer)
    for name in ("_completed_term", "_term_at"):
        original = getattr(ForbiddenTerms, name)

        def counted(self, *arguments, original=original):
            nonlocal looks
            looks += 1
            return original(self, *arguments)

        monkeypatch.setattr(ForbiddenTerms, name, counted)
    for term in terms:
        forbidden._completing_tokens("▁" + term[:60])
    assert tokenizer.vocab_size > 2_000
    assert looks < 10 * len(terms)  # of 50 times the vocabulary
