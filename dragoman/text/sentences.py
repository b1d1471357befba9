"""Text split into sentences or shorter parts, and the spaces between their translations."""

import re
from collections.abc import Callable
from itertools import accumulate

import sentencex

from dragoman.text.characters import WIDE, well_formed
from dragoman.text.language_codes import two_letters
from dragoman.text.patterns import LazyPattern
from dragoman.text.scripts import is_unspaced

BLOCK = 4_000
"""Most characters that sentencex reads at once: among quotation marks, its time grows with their square."""
# Text that sentencex misreads: other spaces, as in "A\u202f.", the apostrophe of "l'art. 3", and words that it takes
# for states, such as Maine.
_MISREAD = re.compile(r"[^\S \n]|(?<=\b[dlDL])['’](?=\w)|\b(?:fed|ill|mag|may|me|mich|miss)(?=\.)")
_KHMER_STOPS = str.maketrans("។៕", "。。")  # which sentencex does not know
# Languages that write ordinal numbers with a full stop; a sentence seldom ends in such a small number.
_ORDINALS = {
    "bs", "cs", "da", "de", "et", "eu", "fi", "hr", "hu", "is", "lb", "lv", "nb", "nn", "no", "pl", "sk", "sl", "sr",
    "tr",
}  # fmt: skip
_ORDINAL = re.compile(r"\b\d{1,2}\.\s*$")
_CLAUSE_NUMBER = re.compile(r"(?<!\S)\(?\d{1,3}[.)]\s*$")
_VOLUME = re.compile(r"(?<!\w)[^\W\d_a-z][^\W\d_]{0,5}\.\s+(?=\d)(?!\d{1,3}[.)]\s)")  # Vol. 3, Fig. 2
# Abbreviations before a number: of volumes, pages, articles, figures, months. A full stop after it may end a sentence.
_NUMBERED = re.compile(
    r"(?<!\w)(?:vols?|nos?|nr|nrs|núms?|nums?|pp?|pgs?|pags?|págs?|arts?|figs?|abb|bd|bde|s|chs?|chaps?|caps?|kap|secs?"
    r"|sects?|eqs?|tabs?|t|pts?|par|pars|ex|op|app|ser|ed|ver|rev|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
    r"|т|стр|с|рис|гл|ст|п|пп|табл)\.\s+(?=\d)",
    re.IGNORECASE,
)
_LETTER = re.compile(r"[^\W\d_]")
_CLAUSE = re.compile(r"[,;:)،؛–—]\s+(?=\S)|[，、；：](?=\S)")
_SPACE = re.compile(r"(?<=\S)\s+(?=\S)")
_CLOSING, _OPENING = "」』”’》）", "「『“‘《（"
_WIDE = LazyPattern(WIDE)


def split(text: str, language: str | None) -> list[str]:
    """The sentences of a text, each with the whitespace after it: put together, they are the text.

    The rules are those of sentencex for the language, or for English if it knows no others. A boundary in doubt is
    none: a sentence too long is translated better than half a sentence.
    """
    language = two_letters(language) if language else "en"
    readable = _MISREAD.sub(_harmless, well_formed(text)).translate(_KHMER_STOPS)
    ends = _ends(readable, language)
    if len(ends) < 2:
        return [text]
    # The lists of abbreviations differ: the French one lacks "M." and "Dr.", which the English one has.
    sure_ends = set(ends if language == "en" else _ends(readable, "en"))
    before_numbers = {match.end() for pattern in (_VOLUME, _NUMBERED) for match in pattern.finditer(text)}
    ends = _before_clause_numbers(readable, ends, sure_ends - before_numbers)
    is_lower = text.islower()
    parts: list[str] = []
    start, has_words = 0, False
    for before, end, after in zip([0, *ends], ends, ends[1:], strict=False):
        has_words = has_words or _LETTER.search(text, before, end) is not None
        left = text[max(start, end - 99) : end]
        is_ordinal = language in _ORDINALS and _ORDINAL.search(left)
        is_doubtful = left.rstrip()[-1:] == "." and (is_ordinal or end not in sure_ends or end in before_numbers)
        words_follow = _LETTER.search(text, end, after)
        if has_words and words_follow and not is_doubtful and _is_boundary(left, text[end], is_lower):
            parts.append(text[start:end])
            start, has_words = end, False
    return [*parts, text[start:]]


def _harmless(match: re.Match[str]) -> str:
    """Text of the same length in place of what sentencex misreads."""
    character = "x" if match[0].isalpha() else " "
    return character * len(match[0])


def _before_clause_numbers(text: str, ends: list[int], sure_ends: set[int]) -> list[int]:
    """The ends of sentences, moved before the number of a clause, as in "2. The", which belongs to what follows."""
    moved: set[int] = set()
    for end in ends:
        number = _CLAUSE_NUMBER.search(text, max(0, end - 99), end)
        moved.add(number.start() if number and number.start() in sure_ends else end)
    return sorted(moved)


def _ends(text: str, language: str) -> list[int]:
    """The positions at which sentencex ends sentences; the last one is the end of the text."""
    ends: list[int] = []
    start = 0
    try:
        while start < len(text):
            sentences = sentencex.segment(language, text[start : start + BLOCK])
            if start + BLOCK < len(text):  # the last sentence of a block goes on in the next one
                sentences = sentences[:-1]
            ends += list(accumulate(map(len, sentences), initial=start))[1:]
            start = ends[-1] if sentences else start + BLOCK
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # what Rust raises for a bug, no subclass of `Exception`
            raise
        return [len(text)]
    return ends


def _is_boundary(left: str, following: str, is_lower: bool) -> bool:
    """Whether a sentence may end with `left`; `is_lower` tells that the text has small letters only."""
    if left[-1].isspace():
        return "\n" in left[len(left.rstrip()) :] or is_lower or not following.islower()
    if left[-1] in _CLOSING:
        return following in _OPENING  # otherwise the sentence goes on after a quotation
    return max(left[-1], following) >= "\u2e80" or is_unspaced(following)


def cut(text: str, fits: Callable[[str], bool]) -> list[str]:
    """A text cut into parts that fit. Each cut is near the middle, after a comma if there is one, or after a space.

    Put together, the parts are the text.
    """
    begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
    if end - begin < 2 or fits(text):
        return [text]
    position = _near_middle(text, (begin + end) // 2)
    return [*cut(text[:position], fits), *cut(text[position:], fits)]


def _near_middle(text: str, middle: int) -> int:
    """The best position to cut a text: in its inner half after a comma or a space, or else anywhere after a space."""
    quarter = len(text) // 4
    choices = [(_CLAUSE, quarter), (_SPACE, quarter)]
    if not is_unspaced(text):  # words that fill half of the text are left whole, if there are words
        choices.append((_SPACE, 0))
    for pattern, margin in choices:
        positions = [match.end() for match in pattern.finditer(text, margin, len(text) - margin)]
        if positions:
            return min(positions, key=lambda position: abs(position - middle))
    return middle


def space_between(left: str, right: str, source: str) -> str:
    """The space between two translations: the whitespace at the end of the source of the first.

    Chinese and Japanese translations have none, unless it breaks the line. Others have at least a space.
    """
    space = source[len(source.rstrip()) :]
    if "\n" in space:
        return space
    if not left or not right or _WIDE.search(left[-2:]) or _WIDE.search(right[:2]):
        return ""
    return space.replace("\u3000", " ") or " "
