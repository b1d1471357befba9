"""Final marks: a title, a label or an item of a menu has none, and its translation has none either.

A model that was trained on sentences ends nearly everything with a stop, and reads a question without its mark as a
statement, whose words it may order in another way. So a source without a mark is given one for the model, and a stop is
taken away from the translation. A question mark stays.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from dragoman.text.characters import FIRST_DENSE
from dragoman.text.scripts import is_unspaced

STOPS = ".。｡．।॥։።။។۔܀᙮…"
_OTHER_ENDS = "?!？！؟՞՜‽⁇⁈⁉፧"
"""Marks that end a sentence, other than stops."""
_EXCLAMATIONS, _PAUSES = "!！", ":,;：，；、"
_QUESTIONS = "?？؟՞፧"
_WORDS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_TO_WIDE_PAUSES = str.maketrans(",:;", "，：；")
_TO_NARROW_PAUSES = str.maketrans("，：；、", ",:;,")
_CLOSING = " \t\r\n\xa0\u202f\u2009\u3000\"'“”’‘»«›‹)]}>*_」』）］】〉》〕"
"""Spaces and marks that may stand between a stop and the end of a text."""
_ABBREVIATION = re.compile(
    # a.m., z. B., p. ej., EE. UU.
    r"(?<!\w)(?:([^\W\d_])\1?\.\s?)+[^\W\d_]{1,2}$"
    r"|(?<!\w)(?:etc|ect|usw|bzw|osv|etj|itd|atd|stb|inc|ltd|corp|bros|jr|sr|esq|dept|approx)$",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION = 20
RARELY = 0.1
"""Largest share of sources without a mark at their end that counts as exceptions."""
FEWEST = 20
"""Fewest sources without a stop from which to tell whether their translations have one."""
MOSTLY = 0.8
"""Smallest share of questions among the sentences with a sign, such as "where" at their beginning."""
MOST_SIGNS, MOST_COUNTED = 500, 200_000
"""Most signs of questions that are kept, and most different signs that are counted."""


@dataclass(frozen=True)
class Marks:
    """The marks that sources end with, given those without one."""

    stop: str = ""
    """The usual stop; empty: sources without a mark stay as they are."""
    question: str = "?"
    """The usual question mark."""
    questions: Mapping[str, bool] = field(default_factory=dict)
    """Whether sentences with each of these signs, such as one or two words at their beginning, are questions."""

    def is_question(self, source: str) -> bool:
        """Whether a source without a mark at its end is probably a question."""
        known = [self.questions[sign] for sign in _signs(source) if sign in self.questions]
        return known[-1] if known else False


class StopCounts:
    """Counts how sources end, and how often those without a mark at their end have translations with a stop."""

    def __init__(self) -> None:
        self.sources = self.unended = self.added = 0
        self.stops, self.question_marks = Counter[str](), Counter[str]()
        self.signs, self.of_questions = Counter[str](), Counter[str]()
        """Number of sources, and of questions, that have each of the `_signs`."""

    def add(self, source: str, target: str) -> None:
        """Count a pair of sentences."""
        self.sources += 1
        if _ends(source):
            _, stops, _ = _split_end(source)
            self.stops.update(stops[-1:])
            self._count_signs(source)
        else:
            self.unended += 1
            _, stops, _ = _split_end(target)
            self.added += stops != ""

    def _count_signs(self, source: str) -> None:
        end = source.rstrip(_CLOSING)[-1]
        is_question = end in _QUESTIONS
        if is_question:
            self.question_marks[end] += 1
        for sign in _signs(source):
            if sign in self.signs or len(self.signs) < MOST_COUNTED:
                self.signs[sign] += 1
                self.of_questions[sign] += is_question

    def marks(self) -> Marks:
        """The most frequent marks, and signs of questions. No stop unless nearly all sources end with a mark."""
        if not self.stops or self.unended > RARELY * self.sources:
            return Marks()
        ((stop, _),) = self.stops.most_common(1)
        question = max(self.question_marks, key=self.question_marks.__getitem__, default="?")
        return Marks(stop, question, self._questions())

    def _questions(self) -> dict[str, bool]:
        """Signs of questions, and longer ones of other sentences, such as "what a" beside "what"."""
        questions: dict[str, bool] = {}
        for sign, count in self.signs.most_common():
            if count < FEWEST or len(questions) == MOST_SIGNS:
                break
            is_question = self.of_questions[sign] >= MOSTLY * count
            first, _, _ = sign.partition(" ")
            # A longer one is as frequent as its first word at most, so that comes before it.
            if is_question != questions.get(first, False):
                questions[sign] = is_question
        return questions

    def are_added(self) -> bool:
        """Whether translations mostly have a stop where their sources have none."""
        return self.unended >= FEWEST and 2 * self.added > self.unended


def with_mark(source: str, marks: Marks) -> str:
    """A source with a mark if it ends without any, as a title does, or with a comma or colon, as a label does.

    The model knows sentences, which end with a stop or, if its words say so, with a question mark.
    """
    text = source.rstrip(_CLOSING)
    stop = marks.question if marks.stop and marks.is_question(source) else marks.stop
    if not stop or len(text) < 2:  # a letter is no title
        return source
    if text[-1] in _PAUSES:
        body = text.rstrip(_PAUSES)
        return body + stop + source[len(text) :] if body.strip() else source
    return source + stop if unicodedata.category(text[-1])[0] in "LMNS" else source


def without_added_stop(translation: str, source: str) -> str:
    """A translation without the stop or exclamation mark at its end if its source ends without any mark.

    A comma or colon at the end of the source takes its place. The stop of an abbreviation stays.
    """
    if _ends(source):
        return translation
    text, stops, closing = _split_end(translation, STOPS + _EXCLAMATIONS)
    if not stops or not text:
        return translation
    if stops == "." and _ABBREVIATION.search(text[-_LONGEST_ABBREVIATION:]):
        return translation
    if stops[-1] in _EXCLAMATIONS and "¡" in text:
        before, _, after = text.rpartition("¡")
        text = before + after
    pause = source.rstrip(_CLOSING)[-1:]
    if pause and pause in _PAUSES and text[-1] not in _PAUSES:
        text += _pause_after(text, pause)
    return text + closing


def _signs(source: str) -> list[str]:
    """What may say that a source is a question, the longer sign last.

    The first word, and the first two if they stand together, in small letters. Without spaces between words, the last
    character that is no mark, after "…": Chinese and Japanese end their questions with a word.
    """
    first = _WORDS.search(source)
    if not first:
        return []
    last = source.rstrip(_CLOSING + STOPS + _OTHER_ENDS)[-1:]
    if is_unspaced(last):
        return [f"…{last}"]
    second = _WORDS.match(source, first.end() + 1)
    words = [first[0].casefold()]
    return [words[0], f"{words[0]} {second[0].casefold()}"] if second else words


def _ends(text: str) -> bool:
    """Whether a text has a mark at its end that ends a sentence."""
    end = text.rstrip(_CLOSING)[-1:]
    return end != "" and end in STOPS + _OTHER_ENDS


def _pause_after(text: str, pause: str) -> str:
    """A comma, colon or semicolon as the script of a text writes it."""
    is_wide = text[-1] >= FIRST_DENSE and not "\uac00" <= text[-1] <= "\ud7a3"  # Korean has narrow marks
    return pause.translate(_TO_WIDE_PAUSES if is_wide else _TO_NARROW_PAUSES)


def _split_end(text: str, stops: str = STOPS) -> tuple[str, str, str]:
    """A text up to the stops at its end, these stops, and the marks and spaces behind them."""
    open_end = text.rstrip(_CLOSING)
    body = open_end.rstrip(stops)
    return body.rstrip(), open_end[len(body) :], text[len(open_end) :]
