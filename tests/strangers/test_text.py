"""Texts as people write them: their characters, lines, list numbers and titles come through every translation."""

import random
import unicodedata

import pytest

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.alignment import word_spans
from dragoman.decoding.translation import Translation
from dragoman.decoding.units import Splitter, translate_texts
from dragoman.text.characters import has_words
from dragoman.text.lines import broken_like, stretches
from dragoman.text.preprocessing import Preprocessor, SourceStyle
from dragoman.text.sentences import cut, split
from dragoman.text.spelling import Speller
from dragoman.text.stops import Marks, with_mark, without_added_stop
from dragoman.text.tokenizers.placeholders import SLOTS, Verbatim
from dragoman.text.tokenizers.tokenizer import Tokenizer

LETTERS = " etaonihsrdlucmygfpwbvkjxqzETAONIHSRDLUCMYGFPWBVKJXQZ0123456789.,:;?!-()"
STRAIGHT = Speller([*LETTERS, "'", '"', "..."])
CURLY = Speller([*LETTERS, "’", "‘", "“", "”", "…", "—"])
GUILLEMETS = Speller([*LETTERS, "’", "«", "»", "–"])


# ---- characters that training never had ------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "spelled"),
    [
        ("a\xa0b\u202fc\td\u3000e\u2009f", "a b c d e f"),
        ("soft\xadhyphen zero\u200bwidth \ufeffmark bell\x07", "softhyphen zerowidth mark bell"),
        ("“Yes,” ‘no’, „so“ «it» is", '"Yes," \'no\', "so" "it" is'),
        ("it’s don´t 5′ 3″", "it's don't 5' 3\""),
        ("wait… here—there – no\u2011break −5", "wait... here-there - no-break -5"),
        ("ﬁne oﬃce Ｆｕｌｌ，ｗｉｄｔｈ！", "fine office Full,width!"),
        ("naïve Łódź straße cafe\u0301", "naive Lodz strasse cafe"),
        ("№ 5 Ⅷ ㎏ ٣ ３", "No 5 VIII kg 3 3"),
        ("10² x₂ ½", "10² x₂ ½"),
        ("١٢٫٥ ● ▪ 3ʺ", '12.5 - - 3"'),
    ],
)
def test_unknown_characters_are_spelled_with_known_ones(written: str, spelled: str) -> None:
    assert STRAIGHT(unicodedata.normalize("NFC", written)) == spelled


@pytest.mark.parametrize(
    ("speller", "written", "spelled"),
    [
        (CURLY, '"It\'s so", \'he\' said... ("no")', "“It’s so”, ‘he’ said… (“no”)"),
        (CURLY, "“It’s so…” – yes", "“It’s so…” — yes"),
        (GUILLEMETS, '"It\'s so" — “no”', "«It’s so» – «no»"),
        (GUILLEMETS, "…", "..."),
        (Speller([]), "“\xa0”…", "“\xa0”…"),
    ],
)
def test_a_model_that_knows_other_marks_is_given_them(speller: Speller, written: str, spelled: str) -> None:
    assert speller(written) == spelled


@pytest.mark.slow
def test_spelling_keeps_the_number_of_words() -> None:
    dice = random.Random(3)
    odd = "ab .\"'“”«»‘’…—-\xa0\t\u200b\xad\u0301\u0302\x01\x1c\u2028\u3000"
    odd += "ﬁ½²Ａ\ufdfa\ufe70¨´ｶﾞłж中。\ufeff\ufe0f\u0640\u180e"
    for _ in range(1500):
        text = unicodedata.normalize("NFC", "".join(dice.choices(odd, k=dice.randint(0, 9))))
        for speller in (STRAIGHT, CURLY, GUILLEMETS):
            assert len(word_spans(speller(text))) == len(word_spans(text)), text


def test_the_training_sources_say_which_characters_are_known() -> None:
    pairs = [("It's “fine” at the café.", "x.")] * 1000 + [("Rare: it’s\xa0so.", "x.")]
    tokenizer = Tokenizer.train([source for source, _ in pairs], vocab_size=300)
    prepare = Preprocessor(SourceStyle.learn(pairs), tokenizer, ("en", "fr"))
    assert prepare("It’s\xa0„fine“ at the café.").text == "It's “fine” at the café."
    assert Preprocessor(SourceStyle(), tokenizer, ("en", "fr"))("It’s\xa0so").text == "It’s\xa0so"


@pytest.mark.parametrize(
    ("written", "value"), [("１２３", "123"), ("٣٤", "34"), ("−４０", "-40"), ("१२.५ %", "12.5 %"), ("٣٤٫٥", "34.5")]
)
def test_digits_that_training_never_had_are_copied_as_those_that_it_had(written: str, value: str) -> None:
    pairs = [("It costs 0123456789 - 12.5 % or so.", "x.")] * 20
    tokenizer = Tokenizer.train([source for source, _ in pairs], vocab_size=300, symbols=SLOTS)
    prepared = Preprocessor(SourceStyle.learn(pairs), tokenizer, ("en", "fr"))(f"It costs {written} or so.")
    assert prepared.values == [value]


def test_what_is_copied_is_not_respelled() -> None:
    pairs = [("Plain words only.", "x.")] * 20
    tokenizer = Tokenizer.train([source for source, _ in pairs], vocab_size=300)
    style = SourceStyle.learn(pairs)
    speller = Speller(style.characters, verbatim=Verbatim(r"https?://\S+"))
    assert speller("see\xa0https://example.org/“é” only") == "see https://example.org/“é” only"
    assert Preprocessor(style, tokenizer, ("en", "fr"))("See\xa0words").text == "See words."


# ---- titles without a final stop -------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "translation", "finished"),
    [
        ("Annual report", "Informe anual.", "Informe anual"),
        ("“Annual report”", "«Informe anual.»", "«Informe anual»"),
        ("Annual report", "年度报告。", "年度报告"),
        ("Report", "रिपोर्ट।", "रिपोर्ट"),
        ("Loading", "Cargando...", "Cargando"),
        ("Save", "¡Guarda!", "Guarda"),
        ("Save", "Sauve\u202f!", "Sauve"),
        ("Name:", "Nombre.", "Nombre:"),
        ("Name:", "名称。", "名称："),
        ("It is late.", "Es tarde.", "Es tarde."),
        ("Really?", "De verdad.", "De verdad."),
        ("Apples and so on", "Manzanas, etc.", "Manzanas, etc."),
        ("At five in the afternoon", "A las 5 p. m.", "A las 5 p. m."),
        ("Vitamin C", "Vitamina C.", "Vitamina C"),
        ("In the USA", "En EE. UU.", "En EE. UU."),
        ("By plane", "En vol.", "En vol"),
        ("It is", "C'est.", "C'est"),
        ("Where is it", "¿Dónde está?", "¿Dónde está?"),
        ("See", ".", "."),
    ],
)
def test_a_translation_has_no_stop_that_its_source_lacks(source: str, translation: str, finished: str) -> None:
    assert without_added_stop(translation, source) == finished


@pytest.mark.parametrize(
    ("source", "given"),
    [
        ("A title", "A title."),
        ("Name:", "Name."),
        ("Why?", "Why?"),
        ("So...", "So..."),
        ("(a)", "(a)."),
        ("-", "-"),
        ("x", "x"),
    ],
)
def test_the_model_is_given_a_sentence_for_a_title(source: str, given: str) -> None:
    assert with_mark(source, Marks(".")) == given
    assert with_mark(source, Marks()) == source


def test_training_pairs_say_whether_stops_are_added() -> None:
    added = SourceStyle.learn([("a title here", "un titre ici.")] * 30)
    assert (added.adds_stops, added.stop) == (True, "")
    usual = SourceStyle.learn([("A sentence.", "Une phrase.")] * 30 + [("A title", "Un titre")])
    assert (usual.adds_stops, usual.stop) == (False, ".")


QUESTIONS = {"where": True, "what": True, "what a": False, "are you": True, "l'as tu": True}


@pytest.mark.parametrize(
    ("source", "given"),
    [
        ("where is the station", "where is the station?"),
        ("“Where is it”", "“Where is it”?"),
        ("What is it", "What is it?"),
        ("What a pity", "What a pity."),
        ("What", "What?"),
        ("Are you tired", "Are you tired?"),
        ("Are they", "Are they."),
        ("L'as tu vu", "L'as tu vu?"),
        ("Where is it.", "Where is it."),
        ("Where:", "Where?"),
        ("12 where", "12 where?"),
        ("12", "12."),
    ],
)
def test_a_question_without_a_mark_is_given_one_by_its_first_words(source: str, given: str) -> None:
    assert with_mark(source, Marks(".", "?", QUESTIONS)) == given
    assert with_mark(source, Marks("", "?", QUESTIONS)) == source


def test_training_pairs_say_which_sentences_are_questions() -> None:
    questions = ["Where is it?", "What is it?", "Are you late?", "Is it late?"]
    others = ["What a pity.", "Are those late.", "Is it late!", "It is late."]
    style = SourceStyle.learn([(text, text) for text in (questions * 50 + others * 25)])
    assert style.question == "?"
    assert style.questions["where"]
    assert style.questions["are you"]
    assert style.questions["what is"]
    # Two in three are no most, and what is said by one word already is not said again.
    assert not {"what", "what a", "are", "are those", "is", "is it", "it", "where is"} & style.questions.keys()
    rare = SourceStyle.learn([("Where is it?", "Où ?")] * 19 + [("It is.", "Ça.")] * 30)
    assert rare.questions == {}


def test_questions_of_other_scripts_have_their_marks() -> None:
    arabic = SourceStyle.learn([("أين الكتاب؟", "Where is the book?")] * 20 + [("هذا كتاب.", "It is a book.")] * 20)
    assert with_mark("أين البيت", Marks(arabic.stop, arabic.question, arabic.questions)) == "أين البيت؟"
    chinese = SourceStyle.learn([("你好吗？", "How are you?")] * 20 + [("我很好。", "I am well.")] * 20)
    marks = Marks(chinese.stop, chinese.question, chinese.questions)
    assert [with_mark(text, marks) for text in ("“他在吗”", "他在")] == ["“他在吗”？", "他在。"]


# ---- lines, spaces, list numbers, texts without words ----------------------------------------


def shouted(texts: list[str], *, split_sentences: bool = True, **options: object) -> list[Translation]:
    """Translations by an engine that writes capitals, and ends what has no stop with one."""
    splitter = Splitter("en", 256, count=len, tag=lambda text: "", whole=not split_sentences)

    def translate(units: list[str], prefixes: list[str]) -> list[Translation]:
        assert all(unit.strip() for unit in units)
        found = []
        for unit in units:
            text = " ".join(unit.upper().split())
            links = [(word, word) for word in range(len(text.split()))]
            found.append(Translation(text, -1.0, -1.0, text.split(), links if config.alignments else None))
        return found

    config = DecodingConfig(alignments=True, **options)
    return translate_texts(texts, [""] * len(texts), splitter, translate, config=config)


LAID_OUT = [
    "Name: Tom\nCity: Boston",
    "  I am here.  ",
    "One.\r\n\r\n\tTwo.\rThree. ",
    "1. Open the door.\n2) Close it.\n(3) Go.\n[4] Come.\na) Look.\niv) Listen.",
    "- one\n* two\n• three\n– four",
    "One.\tTwo.   Three.",
    "\n\n\na\n\n \n",
    "A long line of text that goes on and on until\nit ends here. Another one\tfollows.",
    "\ufeffYes.",
    "",
    " \n ",
]


@pytest.mark.parametrize("split_sentences", [True, False])
@pytest.mark.parametrize("text", LAID_OUT)
def test_lines_and_outer_spaces_come_back(text: str, split_sentences: bool) -> None:
    (found,) = shouted([text], split_sentences=split_sentences)
    expected = text.upper() if split_sentences else found.text
    assert found.text.replace("\t", " ") == expected.replace("A)", "a)").replace("IV)", "iv)").replace("\t", " ")
    assert [line.strip() == "" for line in found.text.splitlines()] == [not line.strip() for line in text.splitlines()]
    assert found.text[: len(found.text) - len(found.text.lstrip())] == text[: len(text) - len(text.lstrip())]
    sources, targets = word_spans(text), word_spans(found.text)
    for source, target in found.alignment:
        assert text[slice(*sources[source])].upper() == found.text[slice(*targets[target])].upper()


def test_only_running_text_goes_across_lines() -> None:
    wrapped = "A line that has been wrapped at some column by\nan editor, and which goes on.\nAnother line."
    assert [wrapped[slice(*span)] for span in stretches(wrapped)] == [wrapped[:-14], "Another line."]
    listed = "A rather long line of a list, with many words\n- and an item\nKey: and a long value\nb: c"
    assert len(list(stretches(listed))) == 4


@pytest.mark.parametrize(
    ("source", "translation", "broken"),
    [
        ("one two\nthree four", "un deux trois quatre", "un deux\ntrois quatre"),
        ("one\n  two\r\nthree", "un deux trois", "un\n  deux\r\ntrois"),
        ("one\ntwo\nthree", "un", "un\n\n"),
        ("one two\nthree four", "一二三四五六。", "一二三\n四五六。"),
        ("one\u2028two", "un\u2028deux", "un\u2028deux"),
    ],
)
def test_a_translation_has_as_many_lines_as_its_source(source: str, translation: str, broken: str) -> None:
    assert broken_like(translation, source)[0] == broken


WORDLESS = ["***", "#", "1", "---", "\u200b", "😀", "12:30", "3.5 %", "½", "5 º", "A", "B2", "(C)", "A4/B5"]


@pytest.mark.parametrize("text", WORDLESS)
def test_a_text_without_words_has_none(text: str) -> None:
    assert not has_words(text)


@pytest.mark.parametrize("text", ["a", "I am", "我", "я", "OK", "10 km", "é"])
def test_a_text_with_a_word_has_one(text: str) -> None:
    assert has_words(text)


# ---- sentences -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("en", ["See vol. 4. ", "It is good."]),
        ("en", ["Chap. 3. ", "The end begins."]),
        ("en", ["No. 5 is here. ", "It is good."]),
        ("en", ["Fig. 2a shows it. ", "Art. 3 says no."]),
        ("en", ["J. Smith of the U.S. Army came, e.g. at 5 p.m. ", "He left."]),
        ("en", ["Really?! ", "Yes... ", "No."]),
        ("en", ["It is here. ", "4. It is there."]),
        ("es", ["¿Vienes? ", "¡Claro! ", "Tengo p. ej. esto."]),
        ("it", ["Vedi pag. 4. ", "È buono."]),
        ("ru", ["См. т. 4. ", "Это хорошо."]),
        ("zh", ["他来了。", "“你好！”他说。"]),
        ("hi", ["मैं घर जा रहा हूँ। ", "तुम आओ।"]),
        ("ar", ["هل أنت هنا؟ ", "نعم."]),
        ("en", ["3.5"]),
    ],
)
def test_numbers_and_abbreviations_do_not_end_sentences(language: str, sentences: list[str]) -> None:
    assert split("".join(sentences), language) == sentences


@pytest.mark.first_is_quick
@pytest.mark.parametrize("part", [" ", ".", '"', "a", ", ", "a. ", "“a. ”", "。", "ab "])
def test_long_texts_are_taken_apart_without_loss(part: str) -> None:
    text = part * (100_000 // len(part))
    assert "".join(split(text, "en")) == text
    assert "".join(cut(text, lambda piece: len(piece) < 500)) == text
    STRAIGHT(text)
