"""Final stops: a title, a label or an item of a menu has none, and its translation has none either.

A model that was trained on sentences ends nearly everything with a stop.
"""

import re
import unicodedata
from collections import Counter

from dragoman.text.characters import FIRST_DENSE

STOPS = ".。｡．।॥։።။។۔܀᙮…"
_OTHER_ENDS = "?!？！؟՞՜‽⁇⁈⁉፧"
"""Marks that end a sentence, other than stops."""
_EXCLAMATIONS, _PAUSES = "!！", ":,;：，；、"
_CLOSING = " \t\r\n\xa0\u202f\u2009\u3000\"'“”’‘»«›‹)]}>*_」』）］】〉》〕"
"""Spaces, and what may stand between a stop and the end of a text."""
_ABBREVIATION = re.compile(
    # a.m., z. B., p. ej., EE. UU.
    r"(?<!\w)(?:([^\W\d_])\1?\.\s?)+[^\W\d_]{1,2}$"
    r"|(?<!\w)(?:etc|ect|usw|bzw|osv|etj|itd|atd|stb|inc|ltd|corp|bros|jr|sr|esq|dept|approx)$",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION = 20
RARELY = 0.1
"""Share of sources without a mark at their end up to which these are thought of as exceptions."""
FEWEST = 20
"""Sources without a stop that tell whether their translations have one."""


class StopCounts:
    """Counts how sources end, and how often those without a mark at their end have translations with a stop."""

    def __init__(self) -> None:
        self.sources = self.without = self.added = 0
        self.stops = Counter[str]()

    def add(self, source: str, target: str) -> None:
        self.sources += 1
        if _ends(source):
            self.stops.update(_taken_apart(source)[1][-1:])
        else:
            self.without += 1
            self.added += _taken_apart(target)[1] != ""

    def usual_stop(self) -> str:
        """The most frequent stop if nearly all sources end with a mark, or nothing."""
        often = self.stops and self.without <= RARELY * self.sources
        return self.stops.most_common(1)[0][0] if often else ""

    def are_added(self) -> bool:
        """Whether translations mostly have a stop where their sources have none."""
        return self.without >= FEWEST and 2 * self.added > self.without


def with_stop(source: str, stop: str) -> str:
    """A source with this stop if it ends without any mark, as a title does, or with a comma or colon, as a label does:
    sentences are what the model knows."""
    text = source.rstrip(_CLOSING)
    if not stop or len(text) < 2:  # a letter is no title
        return source
    if text[-1] in _PAUSES:
        return text.rstrip(_PAUSES) + stop + source[len(text) :] if text.rstrip(_PAUSES).strip() else source
    return source + stop if unicodedata.category(text[-1])[0] in "LMNS" else source


def without_added_stop(translation: str, source: str) -> str:
    """A translation without the stop or exclamation mark at its end if its source ends without any mark.

    A comma or colon at the end of the source takes its place. The stop of an abbreviation stays.
    """
    if _ends(source):
        return translation
    text, stops, closing = _taken_apart(translation, STOPS + _EXCLAMATIONS)
    if not stops or not text or (stops == "." and _ABBREVIATION.search(text[-_LONGEST_ABBREVIATION:])):
        return translation
    if stops[-1] in _EXCLAMATIONS and "¡" in text:
        before, _, after = text.rpartition("¡")
        text = before + after
    pause = source.rstrip(_CLOSING)[-1:]
    if pause and pause in _PAUSES and text[-1] not in _PAUSES:
        text += _pause_after(text, pause)
    return text + closing


def _ends(text: str) -> bool:
    """Whether a text has a mark at its end that ends a sentence."""
    end = text.rstrip(_CLOSING)[-1:]
    return end != "" and end in STOPS + _OTHER_ENDS


def _pause_after(text: str, pause: str) -> str:
    """A comma, colon or semicolon as the script of a text writes it."""
    wide = text[-1] >= FIRST_DENSE and not "\uac00" <= text[-1] <= "\ud7a3"  # Korean has narrow marks
    return pause.translate(str.maketrans(*((",:;、", "，：；、") if wide else ("，：；、", ",:;,"))))


def _taken_apart(text: str, stops: str = STOPS) -> tuple[str, str, str]:
    """A text up to the stops at its end, these stops, and the marks and spaces behind them."""
    open_end = text.rstrip(_CLOSING)
    body = open_end.rstrip(stops)
    return body.rstrip(), open_end[len(body) :], text[len(open_end) :]
