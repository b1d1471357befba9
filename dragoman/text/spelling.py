"""Characters that a model has not learned, spelled with those that it has: quotes, dashes, spaces, ligatures, others.

A model knows a character if its training sources had it often enough. One no-break space or curly quote that they
lacked is enough to spoil a translation, and word processors, phones and the web write them all the time.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache

from dragoman.text.characters import INVISIBLE
from dragoman.text.tokenizers.placeholders import Verbatim

SHARE, ENOUGH = 1e-3, 500
"""A mark or a space is known if this share of the sources has it, or so many: a model that had seen 36 curly
apostrophes in 167,130 English sentences lost 10 of 26 points of BLEU where it met one."""
FEWEST_LETTERS = 5
"""Sources that must have a letter, a vowel sign or a digit for it to be known: it is a part of known words."""
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
"""Spellings that may replace a character, the best first."""
_COMPATIBLE = re.compile(r"<(?:compat|wide|narrow|small|font|square|vertical|noBreak|initial|medial|final|isolated)> ")
"""Pattern of decompositions that Unicode marks as the same text in another form.

Superscripts and fractions are not among them: 10² is not 102.
"""
_SPACES = re.compile(" {2,}")
_INVISIBLE = re.compile(f"[{INVISIBLE}]")
_DOTS = re.compile(r"\.{3,}")


def count_spellings(counts: Counter[str], source: str) -> None:
    """Count a source for each of its characters."""
    counts.update({*source})
    counts.update(sequence for sequence in SEQUENCES if sequence in source)


def known_spellings(counts: Counter[str], sources: int) -> list[str]:
    """The characters, and sequences of them, that a model of so many sources has learned, the most frequent first."""
    fewest = min(SHARE * sources, ENOUGH)
    fewest_letters = min(FEWEST_LETTERS, fewest)
    known = []
    for spelling, count in counts.items():
        if count >= (fewest_letters if _is_letter(spelling) else fewest):
            known.append(spelling)
    return sorted(known, key=lambda spelling: (-counts[spelling], spelling))


def _is_letter(spelling: str) -> bool:
    """Whether a character is a part of words: a letter, a digit, or a sign that combines with letters."""
    return len(spelling) == 1 and unicodedata.category(spelling)[0] in "LMN"


class Speller:
    """Spells texts with known characters. The words of a text, which spaces separate, stay as many as they are."""

    def __init__(
        self, known: Sequence[str], *, knows: Callable[[str], bool] | None = None, verbatim: Verbatim | None = None
    ):
        """`known` are characters and sequences, the most frequent first.

        Without them, `knows` tells which characters are known; without both, no text is respelled. What is `verbatim`
        stays as it is.
        """
        self._is_active = bool(known) or knows is not None
        self._rank = {spelling: rank for rank, spelling in enumerate(known)}
        """Rank of each known spelling by its frequency."""
        self._knows = self._rank.__contains__ if known or not knows else knows
        self._verbatim = verbatim
        self._known, self._unknown = set[str](), set[str]()  # characters that were looked up so far
        self._plain_spelling = cache(self._find_plain_spelling)
        self._quotation_marks = cache(self._find_quotation_marks)
        self._apostrophe = cache(self._find_apostrophe)

    def __call__(self, text: str) -> str:
        """The text in known characters."""
        if not self._is_active:
            return text
        if unknown := self._unknown_in(text):
            text = unicodedata.normalize("NFC", self._respelled(text, unknown))
        if not self._rank:
            return text
        if "..." in text and "..." not in self._rank and "…" in self._rank:
            text = _DOTS.sub("…", text)
        return _SPACES.sub(" ", text)

    def _unknown_in(self, text: str) -> set[str]:
        """The characters of a text that are not known."""
        for character in {*text} - self._known - self._unknown:
            (self._known if self._knows(character) else self._unknown).add(character)
        return {*text} & self._unknown

    def _respelled(self, text: str, unknown: set[str]) -> str:
        """The text with all runs of unknown characters respelled, except where it is verbatim."""
        # In „German“ the mark that opens an “English” quotation closes one.
        unknown = unknown | {closing for opening, closing in (("„", "“"), ("‚", "‘")) if opening in unknown}
        runs = _runs("".join(sorted(unknown)))
        verbatim = self._verbatim.spans(text) if self._verbatim else []
        parts: list[str] = []
        position = 0
        for start, end in [*verbatim, (len(text), len(text))]:
            for match in runs.finditer(text, position, start):
                parts += [text[position : match.start()], self._run_respelled(match)]
                position = match.end()
            parts.append(text[position:end])
            position = end
        return "".join(parts)

    def _run_respelled(self, match: re.Match[str]) -> str:
        """A run of unknown characters as known ones."""
        if match[0].isspace():
            return " " * len(match[0])
        text, (start, end) = match.string, match.span()
        respelled = "".join(self._character(text, index) for index in range(start, end))
        # A word does not vanish: the run, or what is beside it, must leave something visible.
        beside = text[max(0, start - 1) : start].strip() + text[end : end + 1].strip()
        would_vanish = not _INVISIBLE.sub("", respelled + beside)
        is_visible = _INVISIBLE.sub("", match[0]) != ""
        return match[0] if is_visible and would_vanish else respelled

    def _character(self, text: str, index: int) -> str:
        """An unknown character as known ones."""
        character = text[index]
        if character in _DOUBLE:
            quotes = DOUBLE_QUOTES
        elif character in _SINGLE:
            quotes = SINGLE_QUOTES
        else:
            return self._plain_spelling(character)
        before, after = text[index - 1 : index], text[index + 1 : index + 2]
        if quotes is SINGLE_QUOTES and before.isalnum() and after.isalnum():
            return self._apostrophe() or character
        pair = self._quotation_marks(quotes)
        if pair is None:
            return character
        opening, closing = pair
        return opening if _opens_quotation(character, before, after) else closing

    def _find_quotation_marks(self, quotes: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
        """The most frequent quotation marks of these, or else of the others, that are known."""
        for pairs in (quotes, SINGLE_QUOTES if quotes is DOUBLE_QUOTES else DOUBLE_QUOTES):
            known = [pair for pair in pairs if all(map(self._is_known, pair))]
            if known:
                return min(known, key=lambda pair: self._rank.get(pair[0], 0))
        return None

    def _find_apostrophe(self) -> str | None:
        """The most frequent apostrophe."""
        return min(filter(self._is_known, APOSTROPHES), key=lambda mark: self._rank.get(mark, 0), default=None)

    def _find_plain_spelling(self, character: str) -> str:
        """A character as known ones, whatever stands around it; as it is if there is no such spelling."""
        for spelling in _other_spellings(character):
            if self._is_known(spelling):
                return spelling
        return character

    def _is_known(self, spelling: str) -> bool:
        if spelling in self._rank:
            return True
        # Known full stops may be three in a row, but known hyphens are no dash.
        return spelling != "--" and not self._unknown_in(spelling)


def _opens_quotation(character: str, before: str, after: str) -> bool:
    """Whether a quotation mark opens a quotation, by the characters around it, or by itself if these do not tell."""
    may_open = not before or before.isspace() or before in _BEFORE_QUOTES
    may_close = not after or after.isspace() or after in _AFTER_QUOTES
    return may_open if may_open != may_close else character in _OPENING


@lru_cache(maxsize=1000)
def _runs(characters: str) -> re.Pattern[str]:
    """Pattern of a run of spaces, or of others, among these characters."""
    spaces = "".join(re.escape(character) for character in characters if character.isspace())
    others = "".join(re.escape(character) for character in characters if not character.isspace())
    return re.compile("|".join(f"[{group}]+" for group in (spaces, others) if group))


def _other_spellings(character: str) -> Iterator[str]:
    """Other spellings of a character, the best first."""
    yield from (spelling for spelling in _SPELLINGS.get(character, ()) if spelling != character)
    decomposition = unicodedata.decomposition(character)
    compatible = unicodedata.normalize("NFKC", character)
    if _COMPATIBLE.match(decomposition) and not any(map(str.isspace, compatible)):
        yield compatible
        if compatible in _SPELLINGS:
            yield from _SPELLINGS[compatible]
    if (digit := unicodedata.decimal(character, None)) is not None:
        yield str(digit)
    if _can_be_left_out(character):
        yield ""
    letter = unicodedata.normalize("NFD", character)[0]
    if letter != character and unicodedata.name(letter, "").startswith(("LATIN", "GREEK")):
        yield letter
        yield from _SPELLINGS.get(letter, ())


def _can_be_left_out(character: str) -> bool:
    """Whether a text says the same without a character.

    Such characters are invisible, an accent, a vowel point of Arabic or Hebrew, or the dash that draws out Arabic
    words. The vowel signs of India and Thailand are letters.
    """
    category = unicodedata.category(character)
    if category in ("Mn", "Me"):
        return unicodedata.name(character, "").startswith(("COMBINING", "ARABIC", "HEBREW", "VARIATION"))
    return category in ("Cc", "Cf") or character == "ـ" or _INVISIBLE.match(character) is not None
