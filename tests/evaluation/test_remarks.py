"""What is wrong with translations, in words: faults are named with a cause, and good translations get no remark."""

import random

import pytest

from dragoman.data.builtin.grammar import generate
from dragoman.evaluation.remarks import FEW_PAIRS, FEWEST, ScoredSet, Training, remarks_on
from dragoman.text.sketch import Sketch

PAIRS = [*dict(generate(900)).items()]
TEST = PAIRS[:120]
SOURCES, REFERENCES = [source for source, _ in TEST], [target for _, target in TEST]
CYRILLIC = str.maketrans("aeioulnrst", "аеиоулнрст")
SKETCH = Sketch.of(PAIRS[120:])


def nearly(references: list[str], *, wrong: float = 0.2) -> list[str]:
    """Translations with some words exchanged: not right, but nothing unusual."""
    dice = random.Random(5)
    words = sorted({word for text in references for word in text.split()})
    return [
        " ".join(dice.choice(words) if dice.random() < wrong else word for word in text.split()) for text in references
    ]


def said(translations: list[str], *, sources=SOURCES, references=REFERENCES, sketch=SKETCH, training=None) -> str:
    tested = ScoredSet(sources, references, translations, ("en", "fr"), sketch, training or Training(30_000, 10.0))
    return " ".join(remarks_on(tested).sentences)


def test_translations_as_one_would_expect_get_no_remark() -> None:
    assert said(REFERENCES) == ""
    assert said(nearly(REFERENCES)) == ""


@pytest.mark.parametrize(
    ("translations", "unusual", "cause"),
    [
        ([""] * 20 + REFERENCES[20:], "20 of 120 translations are empty", "learned to end at once"),
        (["le chat"] * 70 + REFERENCES[70:], '"le chat" stands for 70', "look whether both sides"),
        (SOURCES[:30] + REFERENCES[30:], "30 of 120 translations are copies", "teach to copy"),
        ([f"{text} vert vert vert vert" for text in REFERENCES[:30]] + REFERENCES[30:],
         "30 of 120 translations repeat", "look whether"),
        ([text.translate(CYRILLIC) for text in REFERENCES],
         "in the script Cyrillic, the references in Latin", "in another language than the model writes"),
        ([" ".join(text.split()[: len(text.split()) // 2]) for text in REFERENCES],
         "times as many characters", "--length-penalty"),
        ([f"{text} et {text}" for text in REFERENCES], "times as many characters", "lower --length-penalty"),
        ([text.upper() for text in REFERENCES], "Without capitals, BLEU would be", "differ in capitals"),
        ([f"{text} ; ; ;" for text in REFERENCES], "Without punctuation, BLEU would be", "differ in punctuation"),
    ],
)  # fmt: skip
def test_what_is_unusual_is_named_with_its_likeliest_cause(translations: list[str], unusual: str, cause: str) -> None:
    sentences = said(translations)
    assert unusual in sentences
    assert cause in sentences.split("The likeliest cause: ")[1]
    assert sentences.count("The likeliest cause") == 1


def test_a_test_of_another_kind_is_noticed_by_its_words_and_lengths() -> None:
    dice = random.Random(3)
    foreign = ["".join(dice.choices("qxwzjkvy", k=7)) for _ in range(50)]
    sources = [f"{source} {dice.choice(foreign)} {dice.choice(foreign)}" for source in SOURCES]
    sentences = said(nearly(REFERENCES), sources=sources)
    assert "were never seen in training, such as" in sentences
    assert "--finetune" in sentences
    long = [f"{source} and {source} and {source}" for source in SOURCES]
    sentences = said(nearly(REFERENCES), sources=long)
    assert "characters on average, those trained on" in sentences
    assert "sentences as long as those of the test are rare in training" in sentences


@pytest.mark.parametrize(
    ("training", "cause"),
    [(Training(30_000, 0.8), "seen only 0.8 times"), (Training(30_000, 9.0, is_rising=True), "still getting better"),
     (Training(900, 40.0), "900 training pairs are few"), (Training(30_000, 40.0), "the model has learned little")],
)  # fmt: skip
def test_a_poor_model_has_a_cause_even_if_nothing_is_unusual(training: Training, cause: str) -> None:
    assert cause in said(nearly(REFERENCES, wrong=0.75), training=training)


def test_with_few_pairs_the_words_and_lengths_to_write_next_are_named() -> None:
    sources = [f"{source} with a zebra" if index % 3 else source for index, source in enumerate(SOURCES)]
    translations = [text if len(text) < 40 else "le chat noir" for text in REFERENCES]
    sentences = said(translations, sources=sources, training=Training(FEW_PAIRS, 10.0))
    assert "To write next: " in sentences
    assert "words, whose chrF++ is" in sentences


def test_a_handful_of_sentences_says_nothing() -> None:
    few = FEWEST - 1
    assert said([""] * few, sources=SOURCES[:few], references=REFERENCES[:few]) == ""


def test_scores_are_those_of_the_target_language() -> None:
    """With words by spaces, a Chinese sentence with a wrong character would be wrong as a whole, and the model poor."""
    references = [
        f"今天下午{source.split()[1][0]}我们在公园里看见了很多红色的花和{index}只猫"
        for index, source in enumerate(SOURCES)
    ]
    translations = [text.replace("红色", "红的") for text in references]
    assert (
        remarks_on(ScoredSet(SOURCES, references, translations, ("en", "zh"), SKETCH, Training(30_000, 10.0))).sentences
        == []
    )
