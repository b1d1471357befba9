"""Near copies of held-out sentences: all of them are found, and only they, in any script."""

import random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.data import twins
from dragoman.data.builtin.grammar import generate
from dragoman.data.twins import SIMILAR, TwinIndex, find_twins
from dragoman.text.labels import label
from dragoman.text.scripts import is_unspaced

PAIRS = [*dict(generate(700)).items()]
WORDS = sorted({word for source, _ in PAIRS for word in source.split()})


def grams(text: str) -> set[str]:
    """The n-grams of a text, spelled out."""
    kept = []
    for character in text:
        if character.isalpha() or character in "\u0301\u0e35":
            kept.append(character.lower()[0])
        else:
            kept.append("0" if character.isnumeric() else " ")
    padded = "<<" + " ".join("".join(kept).split()) + ">>"
    found = set()
    for start, character in enumerate(padded):
        end = start + (2 if is_unspaced(character) else 4)
        gram = padded[start:end]
        if end <= len(padded) and gram.strip("0 <>"):
            found.add(gram)
    return found


def similarity(one: str, other: str) -> float:
    first, second = grams(one), grams(other)
    return len(first & second) / max(1, len(first | second))


TEXTS = st.lists(st.text("ab cD1,é我不知道ครี", max_size=14), min_size=1, max_size=12)


@settings(deadline=None)  # the first case makes the table of characters
@example(["D"], ["D,,"], 0.2)  # several spaces beside an edge
@example([" ,D"], ["D"], 0.2)
@example(["Dคค"], ["1D1คค"], 0.2)  # exactly at the limit
@given(TEXTS, TEXTS, st.sampled_from([0.2, 0.5, SIMILAR, 0.9]))
def test_each_sentence_above_the_limit_has_the_similarity_of_its_nearest(held_out, train, limit) -> None:
    nearest = TwinIndex(held_out, usual=train, limit=limit).nearest(train)
    for text, found in zip(held_out, nearest, strict=True):
        wanted = max(similarity(text, other) for other in train)
        if wanted >= limit:
            assert found == pytest.approx(wanted)
        else:
            assert found < limit


def test_blocks_and_processes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = find_twins(PAIRS[:50], PAIRS[50:], limit=0.3)
    monkeypatch.setattr(twins, "PAIRS_AT_ONCE", 97)
    monkeypatch.setattr(twins, "MEETINGS_AT_ONCE", 700)
    parts = find_twins(PAIRS[:50], iter(PAIRS[50:]), limit=0.3)
    np.testing.assert_array_equal(np.where(whole.sources >= 0.3, whole.sources, 0),
                                  np.where(parts.sources >= 0.3, parts.sources, 0))  # fmt: skip
    assert whole.indices(0.3) == parts.indices(0.3)


def test_labels_of_languages_do_not_count() -> None:
    labelled = [(label("en", "de") + source, target) for source, target in PAIRS[:40]]
    plain = find_twins(PAIRS[:20], PAIRS[20:40], limit=0.2)
    np.testing.assert_array_equal(find_twins(labelled[:20], labelled[20:], limit=0.2).sources, plain.sources)


def changed_word(words: list[str], dice: random.Random) -> list[str]:
    words[dice.randrange(len(words))] = dice.choice(WORDS)
    return words


def turned(words: list[str], dice: random.Random) -> list[str]:
    start = dice.randrange(1, len(words))
    return words[start:] + words[:start]


CHANGES = {
    "word": changed_word,
    "case": lambda words, dice: [dice.choice([str.upper, str.title])(word) for word in words],
    "punctuation": lambda words, dice: [*words[:-1], words[-1].rstrip(".") + dice.choice(["!", " ...", "?"])],
    "number": lambda words, dice: ["12" if word == "7" else word for word in words],
    "order": turned,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_long_sentence_is_found_whatever_was_changed(change: str) -> None:
    dice = random.Random(7)
    sentence = "the old man with 7 blue hats walks slowly beside a river that nobody in this town has seen."
    words = sentence.removesuffix(".").split(" ")
    copies = [" ".join(CHANGES[change](words.copy(), dice)) + "." for _ in range(20)]
    assert all(TwinIndex([sentence]).nearest([copy])[0] >= SIMILAR for copy in copies)


def test_nothing_is_near_to_nothing() -> None:
    assert find_twins([("a sentence", "une phrase")], []).indices() == []
    assert find_twins([("", ""), ("12 ...", "?!")], [("", ""), (" .", "!"), ("34", "😀")]).indices() == []
    lone = "\ud800 a lone surrogate"
    assert TwinIndex([lone]).nearest([lone, ""]).tolist() == [1.0]
