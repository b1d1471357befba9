"""Languages that are certain: real ones are named, few, mixed and unknown texts are not."""

import random

import pytest

from dragoman.data.builtin.grammar import generate
from dragoman.text.identification import certain_language

SPANISH = "El viejo caminaba despacio por la orilla del río mientras los niños jugaban con una pelota en el parque."
PAIRS = [*generate(400)]


def shuffled(sentence: str, count: int, *, seed: int = 1) -> list[str]:
    """Lines of words of a sentence, in other orders."""
    dice, words = random.Random(seed), sentence.split()
    return [" ".join(dice.sample(words, 9)) for _ in range(count)]


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        (shuffled(SPANISH, 300), "es"),
        ([source for source, _ in PAIRS], "en"),
        ([target for _, target in PAIRS], "fr"),
        (["私たちは昨日、駅の近くの小さな店で友達と一緒に夕食を食べました。"] * 300, "ja"),
        (shuffled(SPANISH, 60), None),
        ([], None),
        (["123 456"] * 300, None),
    ],
    ids=["spanish", "english", "french", "japanese", "few lines", "none", "numbers"],
)
def test_a_language_is_certain_with_enough_text(texts: list[str], language: str | None) -> None:
    assert certain_language(texts) == language


def test_mixed_texts_have_no_certain_language() -> None:
    assert certain_language([side for pair in PAIRS for side in pair]) is None


def test_made_up_words_have_no_certain_language() -> None:
    dice = random.Random(3)
    syllables = ["xe", "ka", "mbo", "tli", "yua", "hue", "ni", "sha", "rin", "que"]
    words = ["".join(dice.choices(syllables, k=dice.randint(2, 4))) for _ in range(500)]
    assert certain_language([" ".join(dice.sample(words, 9)) for _ in range(400)]) is None
