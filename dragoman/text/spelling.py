"""Characters that a model has not learnt, spelled with those that it has: quotes, dashes, spaces, ligatures and others.

A model knows a character if its training sources had it often enough. One no-break space or curly quote that they
lacked is enough to spoil a translation, and word processors, phones and the web write them all the time.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache

from dragoman.text.characters import INVISIBLE

SHARE, ENOUGH = 1e-3, 500
"""A mark or a space is known if this share of the sources has it, or so many: a model that had seen 36 curly
apostrophes in 167,130 English sentences lost 10 of 26 points of BLEU where it met one."""
FEWEST_LETTERS = 5
"""Sources that have a letter, a vowel sign or a digit which is known; it is a part of words that the model knows."""
SEQUENCES = ("...", "--")
"""Sequences that are counted like characters, since single characters are respelled with them, and they with these."""
DOUBLE_QUOTES = (('"', '"'), ("“", "”"), ("«", "»"), ("„", "“"), ("”", "”"), ("「", "」"), ("『", "』"))
SINGLE_QUOTES = (("'", "'"), ("‘", "’"), ("‹", "›"), ("‚", "‘"))
APOSTROPHES = ("'", "’", "ʼ", "‘")
_DOUBLE, _SINGLE = '"“”„‟«»″ʺ〝〞〟❝❞「」『』', "'‘’‚‛‹›′´`ʼʹʻ❛❜"
_OPENING = "“„‟«〝❝「『‘‚‛‹❛"
_BEFORE_QUOTES, _AFTER_QUOTES = "([{<¿¡—–―", ")]}>.,;:!?…—–―"
_HYPHENS, _DASHES = "-‐‑⁃−﹣", "—–―‒⸺⸻﹘"
_SPELLINGS = {
    **dict.fromkeys(_HYPHENS, tuple("-‐–")),
    **dict.fromkeys(_DASHES, ("—", "–", "―", "--", "-")),
    "…": ("...",),
    "⋯": ("…", "..."),
    "‽": ("?!",),
    "。": (".",),
    "｡": ("。", "."),
    "、": (",",),
    "،": (",",),
    "؛": (";",),
    "؟": ("?",),
    "।": (".",),
    "॥": ("।", "."),
    "۔": (".",),
    "⁄": ("/",),
    "∕": ("/",),
    "∶": (":",),
    "〜": ("～", "~"),
    "∼": ("~",),
    "【": ("[",),
    "】": ("]",),
    "×": ("x",),
    "٫": (".",),
    "٬": (",",),
    "٪": ("%",),
    "º": ("°",),
    "˚": ("°",),
    **dict.fromkeys("•‣◦▪●■∙⋅・", ("•", "·", "-")),
    # Letters that Unicode does not take apart.
    "ł": ("l",), "Ł": ("L",), "ø": ("o",), "Ø": ("O",), "đ": ("d",), "Đ": ("D",), "ħ": ("h",), "Ħ": ("H",),
    "ı": ("i",), "ŧ": ("t",), "Ŧ": ("T",), "ß": ("ss",), "ẞ": ("ß", "SS"), "æ": ("ae",), "Æ": ("Ae",), "œ": ("oe",),
    "Œ": ("Oe",), "ð": ("d",), "Ð": ("D",), "þ": ("th",), "Þ": ("Th",), "ə": ("e",), "Ə": ("E",),
}  # fmt: skip
"""What may stand in place of a character, the best first."""
_COMPATIBLE = re.compile(r"<(?:compat|wide|narrow|small|font|square|vertical|noBreak|initial|medial|final|isolated)> ")
"""What Unicode calls the same text in another form. Not superscripts and fractions: 10² is not 102."""
_SPACES = re.compile(" {2,}")
_INVISIBLE = re.compile(f"[{INVISIBLE}]")
_DOTS = re.compile(r"\.{3,}")


def count_spellings(counts: Counter[str], source: str) -> None:
    """Count a source for each of its characters."""
    counts.update({*source})
    counts.update(sequence for sequence in SEQUENCES if sequence in source)


def known_spellings(counts: Counter[str], sources: int) -> list[str]:
    """The characters, and sequences of them, that a model of so many sources has learnt, the most frequent first."""
    mark = min(SHARE * sources, ENOUGH)
    letter = min(FEWEST_LETTERS, mark)
    known = [spelling for spelling, count in counts.items() if count >= (letter if _is_letter(spelling) else mark)]
    return sorted(known, key=lambda spelling: (-counts[spelling], spelling))


def _is_letter(spelling: str) -> bool:
    """Whether a character is a part of words: a letter, a digit, or a sign that combines with letters."""
    return len(spelling) == 1 and unicodedata.category(spelling)[0] in "LMN"


class Speller:
    """Spells texts with known characters. The words of a text, which spaces separate, stay as many as they are."""

    def __init__(self, known: Sequence[str], *, knows: Callable[[str], bool] | None = None, verbatim: str = ""):
        """`known` are characters and sequences, the most frequent first. Without them, `knows` tells known characters,
        and without both, no text is respelled. `verbatim` is a verbose pattern of what stays as it is."""
        self._active = bool(known) or knows is not None
        self._rank = {spelling: rank for rank, spelling in enumerate(known)}
        self._knows = self._rank.__contains__ if known or not knows else knows
        self._verbatim = re.compile(verbatim, re.VERBOSE) if verbatim else None
        self._known, self._lacking = set[str](), set[str]()
        self._plain, self._pair = cache(self._plainly), cache(self._known_pair)
        self._apostrophe = cache(self._known_apostrophe)

    def __call__(self, text: str) -> str:
        if not self._active:
            return text
        if lacking := self._lacked(text):
            text = unicodedata.normalize("NFC", self._respelled(text, lacking))
        if not self._rank:
            return text
        if "..." in text and "..." not in self._rank and "…" in self._rank:
            text = _DOTS.sub("…", text)
        return _SPACES.sub(" ", text)

    def _lacked(self, text: str) -> set[str]:
        """The characters of a text that are not known."""
        for character in {*text} - self._known - self._lacking:
            (self._known if self._knows(character) else self._lacking).add(character)
        return {*text} & self._lacking

    def _respelled(self, text: str, lacking: set[str]) -> str:
        found, done = [], 0
        # In „German“ the mark that opens an “English” quotation closes one.
        lacking = lacking | {close for open_, close in (("„", "“"), ("‚", "‘")) if open_ in lacking}
        runs = _runs("".join(sorted(lacking)))
        stays = [match.span() for match in self._verbatim.finditer(text)] if self._verbatim else []
        for start, end in [*stays, (len(text), len(text))]:
            for match in runs.finditer(text, done, start):
                found += [text[done : match.start()], self._run_respelled(match)]
                done = match.end()
            found.append(text[done:end])
            done = end
        return "".join(found)

    def _run_respelled(self, match: re.Match[str]) -> str:
        """A run of unknown characters as known ones."""
        if match[0].isspace():
            return " " * len(match[0])
        text, (start, end) = match.string, match.span()
        new = "".join(self._character(text, index) for index in range(start, end))
        # A word does not vanish.
        beside = text[max(0, start - 1) : start].strip() + text[end : end + 1].strip()
        return new if _INVISIBLE.sub("", new + beside) or not _INVISIBLE.sub("", match[0]) else match[0]

    def _character(self, text: str, index: int) -> str:
        character = text[index]
        quotes = DOUBLE_QUOTES if character in _DOUBLE else SINGLE_QUOTES if character in _SINGLE else ()
        if not quotes:
            return self._plain(character)
        before, after = text[index - 1 : index], text[index + 1 : index + 2]
        if quotes is SINGLE_QUOTES and before.isalnum() and after.isalnum():
            return self._apostrophe() or character
        begins, ends = not before or before.isspace() or before in _BEFORE_QUOTES, not after or after in _AFTER_QUOTES
        ends = ends or after.isspace()
        opens = begins if begins != ends else character in _OPENING
        pair = self._pair(quotes)
        return pair[not opens] if pair else character

    def _known_pair(self, quotes: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
        """The most frequent quotation marks of these, or else of the others, that are known."""
        for pairs in (quotes, SINGLE_QUOTES if quotes is DOUBLE_QUOTES else DOUBLE_QUOTES):
            known = [pair for pair in pairs if all(map(self._is_known, pair))]
            if known:
                return min(known, key=lambda pair: self._rank.get(pair[0], 0))
        return None

    def _known_apostrophe(self) -> str | None:
        return min(filter(self._is_known, APOSTROPHES), key=lambda mark: self._rank.get(mark, 0), default=None)

    def _plainly(self, character: str) -> str:
        """A character as known ones, whatever stands around it; as it is if there is no such spelling."""
        return next((spelling for spelling in _plainer(character) if self._is_known(spelling)), character)

    def _is_known(self, spelling: str) -> bool:
        return spelling in self._rank or (spelling not in SEQUENCES[1:] and not self._lacked(spelling))


@lru_cache(maxsize=1000)
def _runs(characters: str) -> re.Pattern[str]:
    """Matches a run of spaces, or of others, among these characters."""
    spaces, others = (
        "".join(re.escape(each) for each in characters if each.isspace() == wanted) for wanted in (True, False)
    )
    return re.compile("|".join(f"[{some}]+" for some in (spaces, others) if some))


def _plainer(character: str) -> Iterator[str]:
    """Other spellings of a character, the best first."""
    yield from (each for each in _SPELLINGS.get(character, ()) if each != character)
    decomposition = unicodedata.decomposition(character)
    compatible = unicodedata.normalize("NFKC", character)
    if _COMPATIBLE.match(decomposition) and not any(map(str.isspace, compatible)):
        yield compatible
        if compatible in _SPELLINGS:
            yield from _SPELLINGS[compatible]
    if (digit := unicodedata.decimal(character, None)) is not None:
        yield str(digit)
    if _can_be_spared(character):
        yield ""
    letter = unicodedata.normalize("NFD", character)[0]
    if letter != character and unicodedata.name(letter, "").startswith(("LATIN", "GREEK")):
        yield letter
        yield from _SPELLINGS.get(letter, ())


def _can_be_spared(character: str) -> bool:
    """Whether a text says the same without a character: an invisible one, an accent, a vowel point of Arabic or Hebrew,
    or what draws out Arabic words. The vowel signs of India and Thailand are letters."""
    if unicodedata.category(character) in ("Mn", "Me"):
        return unicodedata.name(character, "").startswith(("COMBINING", "ARABIC", "HEBREW", "VARIATION"))
    return unicodedata.category(character) in ("Cc", "Cf") or character == "ـ" or bool(_INVISIBLE.match(character))
