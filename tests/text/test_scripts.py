"""Texts of many scripts come through preparation, tokenizers and placeholders as they are."""

import unicodedata

import pytest

from dragoman.text.characters import expected_tokens, normalised
from dragoman.text.preprocessing import Preprocessor, SourceStyle
from dragoman.text.tokenizers.placeholders import SLOTS
from dragoman.text.tokenizers.tokenizer import Tokenizer

TEXTS = {
    "Chinese": "我在2024年去过北京，看了NASA的展览。你呢？",
    "Japanese": "私は１９９９年に東京で生まれました。（Wi-Fiはありますか）",
    "Korean": "저는 서울에서 태어났어요. 2024년에 NASA는 갔다.",
    "Thai": "ฉันรักภาษาไทย น้ำ กำลัง ๒๕๖๗",
    "Hindi": "हिन्दी में क्‍या ड़ ज़्यादा लड़का २०२४ है।",
    "Arabic": "\u200fرأيتُ القِطّة في ٢٠٢٤، هل تعرف NASA؟\u200e (نعم)",
    "Hebrew": "שָׁלוֹם, ראיתי אותו ב-2024.",
    "Persian": "می‌خواهم کتاب‌ها را در ۱۴۰۳ ببینم.",
    "Khmer": "ខ្ញុំ\u200bស្រឡាញ់\u200bភាសា\u200bខ្មែរ។",
    "Turkish": "Iğdır'da ılık bir İstanbul akşamı.",
    "Finnish": "Näin USA:ssa yön, 24 °C ja NASAn.",
    "Russian": "В 2024 году «НАТО» и съешь ещё этих булок.",
    "Vietnamese": "Tôi đã thấy NASA ở đường Nguyễn Huệ 24/7.",
    "emoji": "ok 👨‍👩‍👧‍👦👍🏽 🇩🇪 ☺️!",
}


@pytest.fixture(scope="module", params=["bpe", "unigram", "char"])
def tokenizer(request) -> Tokenizer:
    return Tokenizer.train(map(normalised, TEXTS.values()), vocab_size=420, kind=request.param, symbols=SLOTS)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_nothing_is_invented_or_lost(text: str, tokenizer: Tokenizer) -> None:
    # NFC changes how characters are stored, not which they are; joiners and marks of direction stay.
    assert unicodedata.normalize("NFD", normalised(text)) == unicodedata.normalize("NFD", text)
    preprocessor = Preprocessor(
        SourceStyle.learn(zip(TEXTS.values(), TEXTS.values(), strict=True)), tokenizer, ("tr", "en")
    )
    source = preprocessor(text)
    back = tokenizer.decode(tokenizer.encode(source.text))
    assert preprocessor.restored(back, source) == normalised(text)
    assert tokenizer.decode(tokenizer.encode(normalised(text))) == normalised(text)


@pytest.mark.parametrize(
    "text",
    [
        "Where did you buy that red book?",
        "Где ты купил эту красную книгу?",
        "तुमने वह लाल किताब कहाँ से खरीदी?",
        "من أين اشتريت ذلك الكتاب الأحمر؟",
        "你在哪里买的那本红色的书？",
        "あの赤い本はどこで買ったのですか？",
        "그 빨간 책을 어디서 샀어요?",
    ],
)
def test_a_sentence_is_expected_to_have_about_as_many_tokens_in_each_script(text: str) -> None:
    """However many bytes: 32 in English, 85 in Hindi."""
    assert 6 <= expected_tokens(text) <= 11
