"""Sentences of a text: what is a boundary, what is none, and that no character is lost."""

import random
import time

import pytest

from dragoman.text.sentences import cut, space_between, split

ODD = [
    *"aAé.!?。！？ \n\t\u3000\xa0\u202f\u2028\x85「」“”\"'(),;:1…\ud800中か؟।",
    "Mr. ",
    "...",
    "\r\n",
    "👩‍👩‍👧",
    "me.",
]


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("en", ["A man is riding a bike. ", "Two children play.  ", "Really?! ", "Yes..."]),
        ("en", ["Mr. Smith, e.g. J. R. Smith, came at 5.30 from www.example.com. ", "He left."]),
        ("en", ['"Why?" she asked. ', "Listen to me. ", "I know."]),
        ("en", ["1. First item"]),
        ("en", ["1. The tenant pays. ", "2. See Vol. 3, the owner repairs. ", "He won. ", "5 people came."]),
        ("de", ["1. Der Mieter zahlt. ", "2. Der Vermieter wohnt im 3. Stock."]),
        ("fr", ["L'art. 3 dispose. ", "Oui."]),
        ("tr", ["Bu 2. Dünya Savaşı."]),
        ("en", ["Word " * 5000]),
        ("en", ["hello there. ", "how are you?"]),
        ("en", ["So... i went home. ", "Hi! :-)"]),
        ("en", ["Use System.Text and ASP.NET here."]),
        ("en", ["A title\n\n", "The text begins."]),
        ("de", ["Das sind z. B. zwei am 3. Mai im 2. Stock. ", "Dr. Weiß schläft."]),
        ("fra", ["M. Dupont et Mme. Durand dorment.\u202f", "Ça va ? ", "Oui."]),
        ("zh-Hans", ["他来了。", "你呢？", "我们走吧！"]),
        ("ja", ["今日は天気がいい。", "明日は雨が降る。"]),
        ("ja", ["「本当ですか？」と彼は言った。"]),
        ("zho", ["“我想打牌。”", "“我也是。”"]),
        ("ar", ["مرحبا. ", "كيف حالك؟ ", "أنا بخير."]),
        ("hi", ["मैं घर जा रहा हूँ। ", "तुम कहाँ हो?"]),
        ("km", ["ខ្ញុំទៅផ្ទះ។ ", "អ្នកមកទីនេះ៕"]),
        ("ko", ["안녕하세요. ", "잘 지내세요?"]),
        (None, ["One is here. ", "Two is there."]),
        ("tlh", ["One is here. ", "Two is there."]),
        ("en", [""]),
        ("en", [" \n "]),
    ],
)
def test_texts_are_split_at_the_ends_of_sentences(language: str | None, sentences: list[str]) -> None:
    assert split("".join(sentences), language) == sentences


@pytest.mark.first_is_quick
@pytest.mark.parametrize("language", ["en", "fr", "ja", None])
def test_no_text_is_lost_or_ends_the_program(language: str | None) -> None:
    dice = random.Random(5)
    texts = ["".join(dice.choices(ODD, k=dice.randint(0, 30))) for _ in range(2000)]
    for text in [*texts, "A\u202f. B", "x" * 30_000, "“A man. " * 5000]:
        parts = split(text, language)
        assert "".join(parts) == text
        assert len(parts) == 1 or all(part.strip() for part in parts)
        pieces = cut(text, lambda piece: len(piece.strip()) <= 9)
        assert "".join(pieces) == text
        assert len(pieces) == 1 or all(0 < len(piece.strip()) <= 9 for piece in pieces)


@pytest.mark.slow
def test_a_very_long_line_is_split_in_linear_time() -> None:
    text = "He said: «No. Two children play. " * 20_000
    started = time.process_time()
    assert len(split(text, "fr")) > 1
    assert time.process_time() - started < 20  # minutes, if all were read at once


def test_long_sentences_are_cut_after_commas_or_else_spaces_near_the_middle() -> None:
    assert cut("one two, three four five", lambda text: len(text) < 20) == ["one two, ", "three four five"]
    assert cut("one two three four", lambda text: len(text) < 11) == ["one two ", "three four"]
    assert cut("一二三，四五六七", lambda text: len(text) < 6) == ["一二三，", "四五六七"]
    assert cut("abcdefgh", lambda text: len(text) < 5) == ["abcd", "efgh"]
    assert cut("a 一二三四五六七", lambda text: len(text) < 6) == ["a 一二", "三四五六七"]
    assert cut(f"See {'x' * 40} now.", lambda text: len(text) < 46) == ["See ", f"{'x' * 40} now."]


@pytest.mark.parametrize(
    ("left", "right", "source", "space"),
    [
        ("Oui.", "Non.", "Yes.  ", "  "),
        ("Yes.", "No.", "是。", " "),
        ("Yes.", "No.", "是。\u3000", " "),
        ("是。", "不。", "Yes. ", ""),
        ("OK.", "不。", "Yes. ", ""),
        ("“好。”", "2024 年。", "Yes. ", ""),
        ("네.", "아니요.", "是。", " "),
        ("是。", "不。", "Yes.\n\n", "\n\n"),
        ("", "No.", "x ", ""),
    ],
)
def test_translations_are_put_together_as_their_script_is_written(left, right, source, space) -> None:
    assert space_between(left, right, source) == space
