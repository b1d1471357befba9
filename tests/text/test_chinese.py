"""Chinese in both kinds of characters is written in one."""

import pytest

from dragoman.text.respelling import learn_respelling

TRADITIONAL = ["我們沒有時間。", "這個門關了。", "他會說漢語。", "雞蛋很貴。", "老師來了。"] * 20
SIMPLIFIED = ["我们没有时间。", "这个门关了。", "他会说汉语。", "鸡蛋很贵。", "老师来了。"] * 20
EITHER = ["你好。", "他是我朋友。"] * 20


def test_the_characters_of_most_are_written():
    for most, others in ((SIMPLIFIED, TRADITIONAL), (TRADITIONAL, SIMPLIFIED)):
        learned = learn_respelling([*most * 2, *others, *EITHER])
        assert learned is not None
        assert [learned(text) for text in others] == most
        assert [learned(text) for text in [*most, *EITHER]] == [*most, *EITHER]


def test_nothing_is_converted_if_what_is_wanted_comes_in_both():
    assert learn_respelling([*SIMPLIFIED * 2, *TRADITIONAL], like=[*SIMPLIFIED, *TRADITIONAL[:20]]) is None


def test_other_texts_may_say_which_characters():
    learned = learn_respelling([*SIMPLIFIED * 2, *TRADITIONAL], like=TRADITIONAL[:5])
    assert learned is not None
    assert str(learned) == "simplified > traditional"
    assert [learned(text) for text in SIMPLIFIED] == TRADITIONAL


@pytest.mark.parametrize(
    ("language", "expected"), [("zh-TW", TRADITIONAL), ("zho_Hans", SIMPLIFIED), ("zh", SIMPLIFIED)]
)
def test_the_code_of_the_language_decides_if_it_names_the_characters(language: str, expected: list[str]):
    mixed = [*SIMPLIFIED * 2, *TRADITIONAL]
    learned = learn_respelling(mixed, language=language)
    assert learned is not None
    assert [learned(text) for text in mixed] == [*expected * 3]


def test_characters_that_taiwan_writes_like_simplified_ones_tell_nothing():
    written = ["很好吃。", "我的床。", "台北。", "一群人。"]
    learned = learn_respelling([*TRADITIONAL * 2, *SIMPLIFIED, *written])
    assert learned is not None
    assert [learned(text) for text in written] == written
    learned = learn_respelling([*SIMPLIFIED * 2, *TRADITIONAL, *written])
    assert learned is not None
    assert learned("我們住在台灣的床上。") == "我们住在台湾的床上。"


def test_other_texts_that_tell_nothing_leave_it_to_most():
    learned = learn_respelling([*TRADITIONAL * 2, *SIMPLIFIED], like=["你好。"])
    assert str(learned) == "simplified > traditional"


def test_a_damaged_text_stays():
    for damaged in ("說\ud800", "說\0話"):
        learned = learn_respelling([*SIMPLIFIED * 2, *TRADITIONAL, damaged])
        assert learned is not None
        assert learned(damaged) == damaged


def test_characters_of_other_languages_stay():
    assert learn_respelling([*SIMPLIFIED, *TRADITIONAL], language="ja") is None


@pytest.mark.parametrize(
    "texts",
    [
        [*SIMPLIFIED, *EITHER],
        [*SIMPLIFIED * 40, *TRADITIONAL],
        ["彼は学校に行った。", "國と会社の話です。", "私は学生です。"] * 50,
        [*SIMPLIFIED, *TRADITIONAL, *["It is raining."] * 900],
    ],
)
def test_one_kind_of_characters_a_few_others_and_other_languages_stay(texts: list[str]):
    assert learn_respelling(texts) is None
