"""Sketches: what was trained on is known, little else is, they are small, and no text is in them."""

import random

import numpy as np
import pytest

from dragoman.data.builtin.grammar import generate
from dragoman.text import sketch as module
from dragoman.text.labels import label
from dragoman.text.sketch import SEAL, SHARE, Sketch, _SmallestHashes

DICE = random.Random(3)
LETTERS = "abcdefghijklmnoprstuvz"
WORDS = ["".join(DICE.choices(LETTERS, k=DICE.randint(2, 9))) for _ in range(3000)]
UNSPACED = [chr(0x4E00 + number) for number in range(600)]


def sentences(count: int, *, seed: int, words: list[str] = WORDS, space: str = " ") -> list[str]:
    dice = random.Random(seed)
    return [space.join(dice.choices(words, k=dice.randint(4, 14))) for _ in range(count)]


def paired(sources: list[str]) -> list[tuple[str, str]]:
    return [(source, source.upper()) for source in sources]


def sketch_of(sources: list[str]) -> Sketch:
    sketch = Sketch.of(paired(sources))
    assert sketch is not None
    return sketch


TRAINED, NEW = sentences(3000, seed=5), sentences(3000, seed=7)
SKETCH = sketch_of(TRAINED)


def told(answers: list) -> list:
    return [answer for answer in answers if answer is not None]


def test_a_sentence_that_was_trained_on_is_known_and_a_new_one_by_chance_alone() -> None:
    known, new = told(SKETCH.knows(TRAINED)), told(SKETCH.knows(NEW))
    assert all(known)
    assert len(known) > 0.15 * len(TRAINED)
    assert len(new) > 0.15 * len(NEW)
    assert sum(new) / len(new) < 0.05
    assert SKETCH.false_share == pytest.approx(0.02, abs=0.01)


def test_case_punctuation_spaces_numbers_and_labels_do_not_matter() -> None:
    source = next(text for text, known in zip(TRAINED, SKETCH.knows(TRAINED), strict=True) if known)
    variants = [source.upper(), f"  {source.replace(' ', ',  ')} !", f"{label('en', 'de')}{source}"]
    assert SKETCH.knows(variants) == [True] * 3
    numbered = sketch_of([f"{text} {index}" for index, text in enumerate(TRAINED)])
    assert numbered.knows([f"{text} 9999" for text in TRAINED]) == numbered.knows([f"{text} 7" for text in TRAINED])


def test_sentences_of_words_in_new_order_are_less_familiar_and_new_words_least() -> None:
    seen = told(SKETCH.familiarity(TRAINED))
    new_order = told(SKETCH.familiarity(NEW))
    foreign = told(SKETCH.familiarity([text.replace("a", "x") + "q" for text in NEW]))
    assert sum(seen) / len(seen) == 1
    assert sum(new_order) / len(new_order) < 0.3
    assert sum(foreign) / len(foreign) < 0.3
    grammar = [source for source, _ in generate(2000)]
    half = sketch_of(grammar[::2])
    familiar = told(half.familiarity(grammar[1::2]))
    assert sum(familiar) / len(familiar) > 0.8


def test_scripts_without_spaces_are_read_by_characters() -> None:
    trained, new = (sentences(3000, seed=seed, words=UNSPACED, space="") for seed in (11, 13))
    sketch = sketch_of(trained)
    assert all(told(sketch.knows(trained)))
    assert sum(told(sketch.knows(new))) < 0.05 * len(new)


@pytest.mark.parametrize("count", [1000, 3000, 20_000])
def test_a_sketch_has_one_percent_of_the_size_of_the_pairs(count: int) -> None:
    pairs = paired(sentences(count, seed=17))
    sketch = Sketch.of(pairs)
    size = sum(len(source) + len(target) + 2 for source, target in pairs)
    assert 0.9 * SHARE * size <= len(sketch.to_bytes()) + SEAL <= SHARE * size


def test_few_pairs_have_none_and_blank_texts_are_not_told() -> None:
    assert Sketch.of([]) is None
    assert Sketch.of(paired(TRAINED[:100])) is None
    assert SKETCH.knows(["", "one two", "..."]) == [None] * 3
    assert SKETCH.familiarity([]) == SKETCH.knows([]) == []


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", 271)
    assert sketch_of(TRAINED).to_bytes() == SKETCH.to_bytes()


def test_no_text_is_in_a_sketch_and_it_comes_back_from_its_bytes() -> None:
    content = SKETCH.to_bytes()
    assert not any(word.encode() in content for word in WORDS if len(word) > 4)
    restored = Sketch.from_bytes(content)
    assert restored.to_bytes() == content
    assert restored.knows(NEW) == SKETCH.knows(NEW)
    assert restored.familiarity(NEW) == SKETCH.familiarity(NEW)


def test_a_model_that_goes_on_from_another_knows_what_both_were_trained_on() -> None:
    both = sketch_of(NEW).after(SKETCH)
    assert all(told(both.knows(TRAINED)))
    assert all(told(both.knows(NEW)))
    third = sentences(3000, seed=19)
    assert sum(told(both.knows(third))) < 0.1 * len(third)
    assert both.false_share == pytest.approx(0.04, abs=0.015)
    assert Sketch.from_bytes(both.to_bytes()).knows(third) == both.knows(third)
    assert SKETCH.after(None) is SKETCH


@pytest.mark.parametrize("damage", [b"", b"DSK1", b"x" * 40, SKETCH.to_bytes()[:-1], SKETCH.to_bytes() + b"DSK1",
                                    b"DSK1" + b"\xff" * 30, b"DSK1" + bytes(16)])  # fmt: skip
def test_other_bytes_are_refused(damage: bytes) -> None:
    with pytest.raises(ValueError, match=r"^it (is|has|lacks|was|ends) "):
        Sketch.from_bytes(damage)


def test_new_words_are_counted_and_named() -> None:
    texts = [*TRAINED[:50], "Zyxwvut zyxwvut qqqqqqqq again", "Schmetterling"]
    new = SKETCH.new_words(texts)
    assert set(new.words) <= {"zyxwvut", "qqqqqqqq", "again", "schmetterling"}
    assert new.words[:1] in ([], ["zyxwvut"]) or "zyxwvut" not in new.words
    assert 0 < new.total <= sum(len(text.split()) for text in texts)
    whole = Sketch.of([(f"{word} {word} {word}", "x" * 500) for word in WORDS])
    assert whole.new_words([" ".join(WORDS)]).count == 0
    unseen = whole.new_words(["Zyxwvut zyxwvut qqqqqqqq", *WORDS[:6]])
    assert unseen.words == ["zyxwvut", "qqqqqqqq"]
    assert (unseen.count, unseen.total) == (3, 9)
    assert unseen.share == pytest.approx(1 / 3)


def test_the_smallest_hashes_are_those_of_all_at_once() -> None:
    rng = np.random.default_rng(5)
    parts = [rng.integers(0, 2**32, 300, dtype=np.uint64).astype(np.uint32) for _ in range(40)]
    parts += parts[:5]
    kept = _SmallestHashes(1000)
    for part in parts:
        kept.add(part)
        assert sum(map(len, kept._parts)) <= 2000
    np.testing.assert_array_equal(kept.different(), np.unique(np.concatenate(parts))[:1000])
