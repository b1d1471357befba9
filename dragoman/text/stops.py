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


class StopCounts:
    """Counts how sources end, and how often those without a mark at their end have translations with a stop."""

    def __init__(self) -> None:
        self.sources = self.unended = self.added = 0
        self.stops = Counter[str]()

    def add(self, source: str, target: str) -> None:
        """Count a pair of sentences."""
        self.sources += 1
        if _ends(source):
            _, stops, _ = _split_end(source)
            self.stops.update(stops[-1:])
        else:
            self.unended += 1
            _, stops, _ = _split_end(target)
            self.added += stops != ""

    def usual_stop(self) -> str:
        """The most frequent stop if nearly all sources end with a mark, or nothing."""
        if not self.stops or self.unended > RARELY * self.sources:
            return ""
        ((stop, _),) = self.stops.most_common(1)
        return stop

    def are_added(self) -> bool:
        """Whether translations mostly have a stop where their sources have none."""
        return self.unended >= FEWEST and 2 * self.added > self.unended


def with_stop(source: str, stop: str) -> str:
    """A source with this stop if it ends without any mark, as a title does, or with a comma or colon, as a label does.

    The model knows sentences, which end with a stop.
    """
    text = source.rstrip(_CLOSING)
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
