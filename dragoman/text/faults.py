"""Finds what people regret in a translation: lost numbers, units, negations and names, words left or repeated.

All checks compare surface forms, with word lists from faults.yaml. A check that cannot decide for a language is silent.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from dragoman.text.characters import (
    CHARACTERS,
    DENSE_CHARACTERS,
    FIRST_DENSE,
    OPEN,
    WIDE,
    has_letters,
    has_words,
    without_label,
)
from dragoman.text.language_codes import close, two_letters
from dragoman.text.patterns import LazyPattern

KINDS = {
    "empty": "nothing was translated",
    "number": "a number is missing or another",
    "unit": "a unit or currency is missing or another",
    "negation": "only one side is negated",
    "name": "a name is missing or another",
    "untranslated": "words were left in the source language",
    "length": "the translation is far too short or far too long",
    "repetition": "words are repeated that the source does not repeat",
}
"""Kinds of faults, each with a phrase for people."""
MOST_CHARACTERS = 4000
"""Most characters on a side for which sentences are compared word by word.

Of longer texts only the length is compared, and repetition is looked for in their beginning.
"""
FEWEST_WORDS = 4
"""Texts with fewer words may be much shorter or longer than their translations."""
FEWEST_ADDED = 12
"""From so many words on, a translation may be too long for a text of fewer than `FEWEST_WORDS`."""
SHORTEST, LONGEST = 0.52, 2.0
"""Usual ratios of the size of a translation to that of its source, both with `SPARE_TOKENS` more."""
SIZES = {"fr": 1.13, "de": 1.1, "nl": 1.06, "it": 1.05, "es": 1.03, "cs": 0.94, "zh": 0.77, "ja": 1.15, "ko": 0.9}
"""Usual sizes of texts in tokens, as estimated from their characters, relative to English; 1 for other languages."""
SPARE_TOKENS = 1.0
"""Tokens added to both sides before their lengths are compared, since short sentences differ more."""
FEWEST_COPIED = 3
"""Words in a row that are the same on both sides and count as untranslated."""
FEWEST_COPIED_CLOSE = 5
"""The same for related languages, such as Spanish and Portuguese, which share many words."""
MOST_REPEATED = 4
"""Words of the longest phrase whose repetition is looked for."""
MOST_COMPARED = 20
"""Most numbers, and most names, of a side that are looked for on the other, so that the time is bounded."""
LONGEST_NAME = 40
"""Letters of the longest word that may be a name: to compare spellings takes the square of their length."""
LEAST_SIMILAR = 0.6
"""Share of letters in common from which two spellings may be of one name."""
LEAST_SURE_NUMBER = 20
"""Numbers up to here may be spelled out in a language whose number words are not known."""


@dataclass(frozen=True)
class Fault:
    """A likely fault of a translation."""

    kind: str
    """One of `KINDS`."""
    text: str
    """The words or the number in question, from either side; empty if it concerns the whole text."""


_RELATED = [
    frozenset(group.split())
    for group in (
        "es pt gl ca it oc ast",
        "da no nb nn sv",
        "cs sk",
        "ru uk be bg mk",
        "hr sr bs sl",
        "id ms",
        "af nl",
        "zh ja",
    )
]
"""Groups of languages that share so many words that three words in a row may be the same."""
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0dff\u0e31-\u0e4e\u0eb1-\u0ece"
"""Vowels and accents that `\\w` leaves out, as a part of a character class."""
_NAME_LANGUAGES = frozenset(["en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "no", "pl", "cs"])
"""Languages that spell names alike."""
_FIRST_MARK = "\u0300"
_WORD = re.compile(r"\w+")
_MARKED_WORD = LazyPattern(rf"[\w{_MARKS}]+")
_DENSE_RUN = LazyPattern(f"{WIDE}+")
_DENSE_CHARACTER = LazyPattern(f"[{FIRST_DENSE}-\uffff\U00020000-\U0003ffff]")
_DIGIT = re.compile(r"\d")
_NUMBER = LazyPattern(r"\d{1,3}(?:[.,'’٬\xa0\u202f\u2009 ]\d{3}(?!\d))+(?:[.,٫]\d+)?|\d+(?:[.,٫]\d+)*")
_NO_DIGITS = LazyPattern(r"\D+")
_CAPITALS = "A-ZÀ-ÖØ-ÞĀĂĄĆĈĊČĎĐĒĖĘĚĜĞĠĢĤĦĨĪĬĮİĴĶĹĻĽŁŃŅŇŌŎŐŒŔŖŘŚŜŞŠŢŤŦŨŪŬŮŰŲŴŶŸŹŻŽ"
# The capital comes first in the pattern, since this is fast to search.
_NAME = LazyPattern(rf"[{_CAPITALS}](?:(?<=[\w,;] .)|(?<=\w['’].))[^\W\d_]+")
_CAPITALISED = LazyPattern(rf"\b[{_CAPITALS}][^\W\d_]*")
_NATIONALITY = LazyPattern(r"(?:ese|ish|[ie]ans?|cans?|[ao]is(?:es?)?|iennes?|iens?|ains?|aines?)$")
_ROMAN = LazyPattern(r"\b[IVXLC]+(?=[eè]?\b|ème\b|er\b)")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_CLOCK = LazyPattern(
    r"\d ?[:h]|\b(?:o'clock|[ap]\.? ?m\b|uhr|heures?|hora|horas|uur|ore|час\w*)"
    r"|\b(?:afternoon|evening|night|morning|noon|half past)"
    "|[点點時时]"
)
_DENSE_DIGITS = dict(zip("零〇一二三四五六七八九两兩", [0, 0, *range(1, 10), 2, 2], strict=True))
_DENSE_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "萬": 10_000, "億": 10**8, "亿": 10**8}
_DENSE_NUMBER = LazyPattern("[零〇一二三四五六七八九两兩十百千万萬億亿]+")
_DENSE_HINTS = {
    "双": "2", "雙": "2", "对": "2", "對": "2", "俩": "2", "倆": "2", "再": "2", "兄弟": "2", "半": "30", "朝": "4",
    "翌": "2", "夫婦": "2", "ふた": "2", "ひと": "1", "みっ": "3", "よっ": "4", "いつつ": "5", "とお": "10", "つ": "2",
    "ダース": "12", "打": "12", "正午": "12", "中午": "12", "午夜": "12", "お昼": "12", "仨": "3", "刻": "15",
    "次": "2", "ツー": "2", "スリー": "3",
}  # fmt: skip
"""Chinese and Japanese words that stand for numbers, beside the numerals."""
_HIDING_NUMERALS = LazyPattern(
    "星期.|[礼禮]拜.|[周週][一二三四五六]|十分|千万|万一|四川|九州|三明治|四国|一一|三角|百[货貨]|七夕"
)
_REPEATED_DENSE = LazyPattern(rf"({WIDE}{{2,8}}?)\1\1|([\u3041-\u3096\u30a1-\u30fa\u3400-\u9fff\uac00-\ud7a3])\2{{4}}")


_COMPOUND_NUMBERS = {
    "de": ("und", "ein", "hundert", "tausend"),
    "nl": ("en", "een", "honderd", "duizend"),
    "da": ("og", "en", "hundrede", "tusind"),
}
"""The word between units and tens, and those for 1, 100 and 1000, where such numbers are one word."""


@dataclass(frozen=True)
class _Language:
    """Word lists of one language; all empty for a language that is not known."""

    code: str | None = None
    numbers: dict[str, int] = field(default_factory=dict)
    """Values of words that are always numbers."""
    scales: dict[str, int] = field(default_factory=dict)
    """Values of words that multiply the number before them."""
    number_hints: dict[str, set[int]] = field(default_factory=dict)
    """Values of words that may stand for a number."""
    joins: frozenset[str] = frozenset()
    """Words between the parts of a number, such as "and"."""
    units: dict[str, str] = field(default_factory=dict)
    """Units by their words."""
    is_negated: frozenset[str] = frozenset()
    """Words that negate a sentence."""
    may_negate: frozenset[str] = frozenset()
    """Words whose translation may be negated."""
    negating: LazyPattern | None = None
    not_negating: LazyPattern | None = None
    """Phrases with negating words that do not negate."""
    maybe_negating: LazyPattern | None = None
    no_names: frozenset[str] | None = None
    """Words with a capital that are no names; None if names are not compared."""

    @cached_property
    def number_words(self) -> frozenset[str]:
        """Words of which some number is made."""
        return frozenset(self.numbers) | frozenset(self.scales)

    @property
    def is_dense(self) -> bool:
        """Whether the language writes numbers with Chinese numerals."""
        return self.code in ("zh", "ja")

    @property
    def has_numbers(self) -> bool:
        """Whether spelled-out numbers are recognised in this language."""
        return bool(self.numbers) or self.is_dense

    @property
    def has_negation(self) -> bool:
        """Whether negation is recognised in this language."""
        return bool(self.is_negated or self.negating)


@dataclass(frozen=True)
class _Number:
    """A number as one side has it."""

    text: str
    values: frozenset[str]
    """Possible values: 1.500 is 1500 or 1.5."""
    pieces: tuple[str, ...] = ()
    """Groups of digits, if there are several."""
    is_digits: bool = True


@dataclass(frozen=True)
class _Evidence:
    """What one side says about numbers."""

    values: set[str]
    digits: set[str]
    """The values without the zeros at their end, since 2.5 million is 2,500,000."""
    has_scale: bool
    """Whether a word such as million stands there."""


class _Side:
    """One side of a pair, with its words."""

    def __init__(self, text: str, language: _Language):
        self.text, self.language = text, language
        self.folded = text.casefold()
        last = ""
        if not text.isascii():
            last = max(text)
            self.folded = self.folded.replace("’", "'")
        self.is_dense = last >= FIRST_DENSE
        spaced = _DENSE_RUN.sub(" ", self.folded) if self.is_dense else self.folded
        self.words: list[str] = (_WORD if last < _FIRST_MARK else _MARKED_WORD).findall(spaced)
        self.vocabulary = frozenset(self.words)
        self.has_digits = _DIGIT.search(text) is not None

    @cached_property
    def dense(self) -> str:
        """The text without spaces, which some data has between Japanese words."""
        return "".join(self.folded.split())

    @property
    def plain(self) -> str:
        """The text in which phrases are looked for: in small letters, and without spaces where a script has none."""
        return self.dense if self.language.is_dense else self.folded

    @property
    def tokens(self) -> float:
        """Estimate of the number of tokens, relative to what is usual in the language."""
        text = self.dense if self.language.is_dense else self.text
        return _tokens(text, self.is_dense) / SIZES.get(self.language.code or "", 1)

    @cached_property
    def numbers(self) -> list[_Number]:
        """All numbers that the other side should have as well."""
        numbers = []
        if self.has_digits:
            # The minutes of 9:00 need not be translated.
            numbers += [_digit_number(match[0]) for match in _NUMBER.finditer(self.text) if match[0] != "00"]
        if not self.vocabulary.isdisjoint(self.language.number_words):
            numbers += _spelled_numbers(self.words, self.language)
        if self.is_dense and self.language.is_dense:
            numbers += _dense_numbers(self.dense)
        return numbers

    @cached_property
    def evidence(self) -> _Evidence:
        """All that may stand for a number of the other side."""
        values: set[str] = set()
        for number in self.numbers:
            values.update(number.values, number.pieces)
        language = self.language
        has_scale = not self.vocabulary.isdisjoint(language.scales)
        previous = 0
        for word in self.words:
            value = language.numbers.get(word) or language.scales.get(word)
            hints = language.number_hints.get(word, ())
            if value:
                values.add(str(value))
            values.update(map(str, hints))
            if previous >= 20 and previous % 10 == 0:
                values.update(str(previous + hint) for hint in hints if hint < 10)
            previous = value or 0
        if self.is_dense:
            for run in _DENSE_NUMBER.findall(self.dense):
                values.update(_dense_values(run))
                has_scale = has_scale or not _DENSE_SCALES.keys().isdisjoint(run)
            values.update(value for word, value in _DENSE_HINTS.items() if word in self.dense)
        values.update(str(_roman(numeral)) for numeral in _ROMAN.findall(self.text))
        return _Evidence(values, {_bare(value) for value in values}, has_scale)


def faults(source: str, target: str, languages: tuple[str | None, str | None] = (None, None)) -> list[Fault]:
    """Finds likely faults of a translation; an empty list if there are none.

    `languages` are codes of the source and the target in any spelling, or None where they are not known. Never raises
    an exception for a text. The time is linear in the length of the texts, and bounded for long ones.
    """
    if source.startswith(OPEN):
        source = without_label(source)
    if max(len(source), len(target)) > MOST_CHARACTERS:
        return _faults_of_long_texts(source, target)
    first, second = _Side(source, _language(languages[0])), _Side(target, _language(languages[1]))
    if not second.words and not has_letters(target) and has_words(source):
        return [Fault("empty", "")]
    results = []
    if first.numbers or second.numbers:
        results += _number_faults(first, second)
    if first.has_digits or second.has_digits or _names_unit(first) or _names_unit(second):
        results += _unit_faults(first, second)
    results += _negation_faults(first, second)
    results += _name_faults(first, second)
    results += _untranslated(first, second)
    results += _length_faults(first, second)
    results += _repetitions(first, second)
    return results


def _faults_of_long_texts(source: str, target: str) -> list[Fault]:
    """Faults that can be told from the length and the beginning of two texts."""
    first, second = (_Side(text[:MOST_CHARACTERS], _language(None)) for text in (source, target))
    if not has_words(target[:MOST_CHARACTERS]) and has_words(source[:MOST_CHARACTERS]) and len(target) < len(source):
        return [Fault("empty", "")]
    results = _repetitions(first, second)
    ratio = (_tokens(target, second.is_dense) + SPARE_TOKENS) / (_tokens(source, first.is_dense) + SPARE_TOKENS)
    return results if SHORTEST <= ratio <= LONGEST else [Fault("length", ""), *results]


def _tokens(text: str, is_dense: bool) -> float:
    dense = sum(1 for _ in _DENSE_CHARACTER.finditer(text)) if is_dense else 0
    return dense / DENSE_CHARACTERS + (len(text) - dense) / CHARACTERS


# Numbers


def _number_faults(first: _Side, second: _Side) -> Iterator[Fault]:
    """The numbers of each side that the other does not have, without those that may be fine."""
    missing: dict[_Side, list[_Number]] = {first: [], second: []}
    for side, other in ((first, second), (second, first)):
        for number in side.numbers[:MOST_COMPARED]:
            if not _has_number(number, side, other):
                missing[side].append(number)
    are_exchanged = all(any(number.is_digits for number in numbers) for numbers in missing.values())
    for side, other in ((first, second), (second, first)):
        for number in missing[side]:
            if _must_match(number, other.language) or (are_exchanged and number.is_digits):
                yield Fault("number", number.text)


def _must_match(number: _Number, language: _Language) -> bool:
    """Whether a number would be recognised in this language."""
    if language.has_numbers:
        return True
    if not number.is_digits or (language.code is None and number.pieces):
        return False
    (value, *others) = number.values
    is_round = len(_bare(value)) == 1
    return not others and value.isdecimal() and int(value[:9]) > LEAST_SURE_NUMBER and not is_round


def _has_number(number: _Number, side: _Side, other: _Side) -> bool:
    evidence = other.evidence
    if not number.values.isdisjoint(evidence.values):
        return True
    if number.pieces and evidence.values.issuperset(number.pieces):
        return True
    has_scale = evidence.has_scale or side.evidence.has_scale
    if has_scale and not evidence.digits.isdisjoint(map(_bare, number.values)):
        return True
    small = [int(value) for value in number.values if value.isdecimal() and len(value) <= 2]
    if any(value <= 24 for value in small) and (_CLOCK.search(side.folded) or _CLOCK.search(other.folded)):
        hours = {str(value + shift) for value in small for shift in (-12, 12)}
        if not evidence.values.isdisjoint(hours):
            return True
    months = _months()
    return any(months.get(word) in small for word in other.words)


def _digit_number(text: str) -> _Number:
    """A number that is written with digits of any script and with separators."""
    digits = text if text.isascii() else _ascii_digits(text)
    if digits.isdecimal():
        return _Number(text, frozenset([digits.lstrip("0") or "0"]))
    pieces = _NO_DIGITS.split(digits)
    values = set()
    if all(len(piece) == 3 for piece in pieces[1:]):
        values.add("".join(pieces).lstrip("0") or "0")
    whole = "".join(pieces[:-1]).lstrip("0") or "0"
    fraction = pieces[-1].rstrip("0")
    values.add(f"{whole}.{fraction}" if fraction else whole)
    return _Number(text, frozenset(values), tuple(piece.lstrip("0") or "0" for piece in pieces))


def _ascii_digits(text: str) -> str:
    return "".join(str(unicodedata.decimal(letter)) if letter.isdecimal() else letter for letter in text)


def _spelled_numbers(words: list[str], language: _Language) -> list[_Number]:
    """Numbers in words: "two hundred and five" is 205. A scale after digits, as in 5 million, belongs to them."""
    numbers: list[_Number] = []
    parts: list[str] = []
    total = current = 0
    is_after_digits = False

    def finish(*following: str) -> None:
        nonlocal total, current
        if parts:
            values = {str(total + current)}
            # "One" is an article in many languages, but may end a number: thirty-one, trente et un.
            may_end = current >= 20 and current % 10 == 0
            if may_end and any(1 in language.number_hints.get(word, ()) for word in following):
                values.add(str(total + current + 1))
            numbers.append(_Number(" ".join(parts), frozenset(values), is_digits=False))
        parts.clear()
        total = current = 0

    for index, word in enumerate(words):
        value, scale = language.numbers.get(word), language.scales.get(word)
        if value is not None:
            if current == 4 and value == 20 and language.code == "fr":
                current = 80
            elif _can_add(current, value):
                current += value
            else:
                finish()
                current = value
            parts.append(word)
        elif scale is not None and not is_after_digits:
            if current >= scale:
                finish()
            current = max(current, 1) * scale
            if scale >= 1000:
                total, current = total + current, 0
            parts.append(word)
        else:
            following = words[index + 1 : index + 2]
            is_join = word in language.joins and bool(following)
            if not (is_join and parts and following[0] in language.number_words):
                finish(*(following if is_join else [word]))
        is_after_digits = word[0].isdecimal() or (is_after_digits and scale is not None)
    finish()
    return numbers


def _can_add(current: int, value: int) -> bool:
    """Whether a smaller number may follow a larger one, as in twenty-five and soixante-quinze."""
    if current == 0:
        return True
    if value < 10:
        return current % 10 == 0
    return current % 100 == 0 or (value < 20 and current % 100 in (60, 80))


def _dense_values(numerals: str) -> list[str]:
    """Possible values of Chinese numerals: 二十五 is 25, 一九九〇 is 1990."""
    plain = "".join(str(_DENSE_DIGITS[numeral]) for numeral in numerals if numeral in _DENSE_DIGITS)
    total = section = digit = 0
    for numeral in numerals:
        scale = _DENSE_SCALES.get(numeral)
        if scale is None:
            digit = _DENSE_DIGITS[numeral]
        elif scale < 10_000:
            section, digit = section + max(digit, 1) * scale, 0
        else:
            total, section, digit = total + max(section + digit, 1) * scale, 0, 0
    values = [str(total + section + digit)]
    if len(plain) == len(numerals):
        values += [plain.lstrip("0") or "0", *plain]
    return values


def _dense_numbers(text: str) -> Iterator[_Number]:
    """Chinese numerals that are surely numbers: those of several characters, of which one is not the first scale."""
    for match in _DENSE_NUMBER.finditer(_HIDING_NUMERALS.sub(" ", text)):
        numerals = match[0]
        if 2 <= len(numerals) <= 12 and numerals[0] not in "千万萬億亿〇零":
            before = text[: match.start()][-1:]
            if not before.isdecimal():
                yield _Number(numerals, frozenset(_dense_values(numerals)[:2]), is_digits=False)


def _bare(value: str) -> str:
    return value.replace(".", "").strip("0")


def _roman(numeral: str) -> int:
    values = [_ROMAN_VALUES[letter] for letter in numeral]
    signs = [-1 if value < following else 1 for value, following in zip(values, [*values[1:], 0], strict=True)]
    return sum(value * sign for value, sign in zip(values, signs, strict=True))


# Units


def _names_unit(side: _Side) -> bool:
    return not side.vocabulary.isdisjoint(side.language.units)


def _unit_faults(first: _Side, second: _Side) -> Iterator[Fault]:
    """Units of each side that the other does not have."""
    signs, other_signs = _unit_signs(first), _unit_signs(second)
    sure, other_sure = signs | _unit_words(first), other_signs | _unit_words(second)
    if sure == other_sure:
        return
    for side_sure, other, mine, others in (
        (sure, second, signs, other_signs),
        (other_sure, first, other_signs, signs),
    ):
        missing = side_sure - others - _possible_units(other)
        if not other.language.units and not other.is_dense:
            # Units in words are not recognised there; but another sign is no translation of this one.
            missing = missing & mine if others - mine else frozenset()
        for unit in sorted(missing):
            yield Fault("unit", unit)


def _unit_signs(side: _Side) -> frozenset[str]:
    """Units that stand with a number as signs, such as % and km."""
    if not side.has_digits:
        return frozenset()
    table = _units()
    return frozenset(table.by_sign[match[1] or match[2]] for match in table.pattern.finditer(side.text))


def _unit_words(side: _Side) -> frozenset[str]:
    """Units that stand after a number as words that always mean a unit."""
    units = side.language.units
    if side.vocabulary.isdisjoint(units):
        return frozenset()
    ambiguous = _units().ambiguous
    number_words = side.language.number_words
    named_units = set()
    for before, word in zip(side.words, side.words[1:], strict=False):
        if word in units and word not in ambiguous and (before[0].isdecimal() or before in number_words):
            named_units.add(units[word])
    return frozenset(named_units)


def _possible_units(side: _Side) -> frozenset[str]:
    """All units that the words of a side may mean."""
    named_units = {side.language.units[word] for word in side.vocabulary if word in side.language.units}
    if side.is_dense:
        named_units.update(unit for word, unit in _units().dense if word in side.dense)
    table = _units()
    named_units.update(table.by_sign[sign] for sign in table.currencies if sign in side.text)
    return frozenset(named_units)


# Negation


def _negation_faults(first: _Side, second: _Side) -> Iterator[Fault]:
    """A negation if one side has it and the other has nothing that may stand for it."""
    if not (first.language.has_negation and second.language.has_negation):
        return
    negation, other_negation = _negating_word(first), _negating_word(second)
    if (negation is None) == (other_negation is None):
        return
    negated, affirmative = (second, first) if negation is None else (first, second)
    if not _is_ambiguous(negated) and not _may_be_negated(affirmative):
        yield Fault("negation", negation or other_negation or "")


def _negating_word(side: _Side) -> str | None:
    """A negating word of a side, or None."""
    language = side.language
    if not side.vocabulary.isdisjoint(language.is_negated):
        return min(side.vocabulary & language.is_negated)
    if language.negating is not None and (match := language.negating.search(side.plain)):
        return str(match[0])
    return None


def _is_ambiguous(side: _Side) -> bool:
    """Whether the negating words of a side all belong to phrases that do not negate, such as "not only"."""
    exceptions = side.language.not_negating
    if exceptions is None:
        return False
    remaining, count = exceptions.subn(" ", side.plain)
    return count > 0 and _negating_word(_Side(remaining, side.language)) is None


def _may_be_negated(side: _Side) -> bool:
    """Whether a side without negation has a word such as "hardly", "unless" or "impossible"."""
    language = side.language
    if not side.vocabulary.isdisjoint(language.may_negate):
        return True
    return language.maybe_negating is not None and language.maybe_negating.search(side.plain) is not None


# Names


def _name_faults(first: _Side, second: _Side) -> Iterator[Fault]:
    """Names of each side without a similar word on the other; both must be written in letters of the same script."""
    if first.language.no_names is None and second.language.no_names is None:
        return
    if first.is_dense or second.is_dense:
        return
    for side, other in ((first, second), (second, first)):
        if side.language.no_names is not None and other.language.code in _NAME_LANGUAGES:
            for name in _names(side):
                if not _has_name(name, other):
                    yield Fault("name", name)


def _names(side: _Side) -> list[str]:
    """Words inside of sentences that are names by their capital."""
    names = _NAME.findall(side.text)
    if not names:
        return names
    no_names = side.language.no_names or frozenset()
    kept = [
        name for name in names
        if len(name) <= LONGEST_NAME and not name[1].isupper()
        and name.casefold() not in no_names and not _NATIONALITY.search(name)
    ]  # fmt: skip
    if kept and len(_CAPITALISED.findall(side.text)) > len(side.words) / 2:
        return []  # a title, or a list of names
    return list(dict.fromkeys(kept[:MOST_COMPARED]))


def _has_name(name: str, other: _Side) -> bool:
    """Whether the other side has this name, or one with a similar spelling: Maria, Marie; Tom, Toms."""
    if name in other.text:
        return True
    plain = _without_accents(name.casefold())
    capitalised = {_without_accents(word.casefold()) for word in _CAPITALISED.findall(other.text)}
    if any(_are_similar(plain, word) for word in capitalised):
        return True
    # An adjective of a longer name, such as californien.
    return len(plain) >= 5 and any(_without_accents(word)[:4] == plain[:4] for word in other.words)


def _are_similar(name: str, other: str) -> bool:
    """Whether two spellings may be of one name."""
    shortest = min(len(name), len(other))
    if shortest < 3 or name[0] != other[0]:
        return False
    if name[:3] == other[:3]:
        return True
    return SequenceMatcher(None, name, other, autojunk=False).ratio() >= LEAST_SIMILAR


@lru_cache(4096)
def _without_accents(word: str) -> str:
    if word.isascii():
        return word
    return "".join(letter for letter in unicodedata.normalize("NFD", word) if not unicodedata.combining(letter))


# Words that are left, lengths and repetition


def _untranslated(first: _Side, second: _Side) -> list[Fault]:
    """The first words in a row that the translation has in common with the source."""
    source_language, target_language = first.language.code, second.language.code
    if source_language and target_language and close(source_language, target_language):
        return []
    if first.is_dense and target_language and not _is_written_densely(target_language):
        for run in _DENSE_RUN.findall(second.text):
            if len(run) >= 2 and has_words(run) and run in first.text:
                return [Fault("untranslated", run[:40])]
    if len(first.vocabulary & second.vocabulary) < FEWEST_COPIED:
        return _copied_dense(first, second)
    are_related = any({source_language, target_language} <= group for group in _RELATED)
    fewest = FEWEST_COPIED_CLOSE if are_related else FEWEST_COPIED
    shared = _shared_words(first, second, fewest)
    if shared:
        return [Fault("untranslated", shared)]
    words = [word for word in first.words if not word[0].isdecimal()]
    has_small = any(word[0].islower() for word in _WORD.findall(first.text)[1:])
    if first.words == second.words and len(words) >= fewest and has_small:
        return [Fault("untranslated", "")]
    return []


def _copied_dense(first: _Side, second: _Side) -> list[Fault]:
    """A copied sentence of a script without spaces."""
    is_copied = first.is_dense and len(first.dense) >= 6 and first.dense == second.dense
    return [Fault("untranslated", "")] if is_copied and has_words(first.text) else []


def _is_written_densely(language: str) -> bool:
    return language in ("zh", "ja", "ko", "yue", "wuu")


def _shared_words(first: _Side, second: _Side, fewest: int) -> str:
    """Words of small letters in a row that both sides have, or nothing."""
    runs = {tuple(run) for run in _runs(first, fewest)}
    if not runs:
        return ""
    for run in _runs(second, fewest):
        if tuple(run) in runs:
            return " ".join(run)
    return ""


def _runs(side: _Side, length: int) -> Iterator[list[str]]:
    """All sequences of so many words of three or more small letters."""
    words = (_WORD if side.text.isascii() else _MARKED_WORD).findall(side.text)
    begin = 0
    for end, word in enumerate(words, 1):
        if len(word) < 3 or not word.islower() or not word.isalpha():
            begin = end
        elif end - begin >= length:
            yield words[end - length : end]


def _length_faults(first: _Side, second: _Side) -> list[Fault]:
    """The length, if the translation is far too short or long for a source of some words."""
    source, target = first.tokens, second.tokens
    ratio = (target + SPARE_TOKENS) / (source + SPARE_TOKENS)
    if SHORTEST <= ratio <= LONGEST:
        return []
    has_enough = _count_words(first) >= FEWEST_WORDS
    if not has_enough and (ratio < 1 or _count_words(second) < FEWEST_ADDED):
        return []
    return [Fault("length", "")]


def _count_words(side: _Side) -> float:
    if not side.is_dense:
        return len(side.words)
    return len(side.words) + sum(1 for _ in _DENSE_CHARACTER.finditer(side.text)) / DENSE_CHARACTERS


def _repetitions(first: _Side, second: _Side) -> list[Fault]:
    """A phrase that the translation has three times in a row, or a word more frequent than all of the source."""
    if second.is_dense:
        repeated = _REPEATED_DENSE.search(second.dense)
        if repeated and has_words(repeated[0]) and not _is_repetitive(first):
            return [Fault("repetition", repeated[1] or repeated[2])]
    if len(second.words) - len(second.vocabulary) < 2:
        return []
    phrase = _phrase_in_a_row(second.words)
    if phrase and not _is_repetitive(first):
        return [Fault("repetition", phrase)]
    ((word, count),) = Counter(word for word in second.words if len(word) >= 4).most_common(1) or [("", 0)]
    if count > 3 and count > max(Counter(first.words).values(), default=0) and not first.is_dense:
        return [Fault("repetition", word)]
    return []


def _is_repetitive(side: _Side) -> bool:
    return bool(_phrase_in_a_row(side.words) or (side.is_dense and _REPEATED_DENSE.search(side.dense)))


def _phrase_in_a_row(words: list[str]) -> str:
    """A phrase of few words that stands there three times in a row, or nothing. Numbers are none."""
    for length in range(1, MOST_REPEATED + 1):
        same = 0
        for index, (word, following) in enumerate(zip(words, words[length:], strict=False)):
            same = same + 1 if word == following and not word[0].isdecimal() else 0
            if same == 2 * length:
                return " ".join(words[index - length + 1 : index + 1])
    return ""


# Tables


@dataclass(frozen=True)
class _Units:
    """Signs and words of units."""

    by_sign: dict[str, str]
    pattern: re.Pattern[str]
    """Signs beside digits, after them in the first group, before them in the second."""
    currencies: tuple[str, ...]
    """Signs that are no letters."""
    dense: tuple[tuple[str, str], ...]
    """Chinese, Japanese and Korean words with their units."""
    ambiguous: frozenset[str]


@lru_cache(1)
def _table() -> dict[str, Any]:
    import yaml  # takes some milliseconds, which importing this module should not

    table: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("faults.yaml").read_text(encoding="utf-8"))
    return table


@lru_cache(1)
def _units() -> _Units:
    table = _table()
    by_sign = {sign: unit for unit, words in table["units"].items() for sign in words["signs"].split()}
    signs = "|".join(map(re.escape, sorted(by_sign, key=len, reverse=True)))
    pattern = re.compile(rf"\d[ \xa0\u202f]?({signs})(?![^\W_])|(?<![^\W_])({signs})[ \xa0\u202f]?(?=\d)")
    dense = tuple((word, unit) for unit, words in table["units"].items() for word in words["dense"].split())
    currencies = tuple(sign for sign in by_sign if not sign.isalpha())
    return _Units(by_sign, pattern, currencies, dense, frozenset(table["ambiguous_units"].casefold().split()))


@lru_cache(1)
def _months() -> dict[str, int]:
    """The number of each month by its names in all languages."""
    return {name: number for names in _table()["months"].values() for number, name in enumerate(names.split(), 1)}


@lru_cache(256)
def _language(code: str | None) -> _Language:
    """The word lists of the language that a code means."""
    return _word_lists(two_letters(code)) if code else _Language()


@lru_cache(64)
def _word_lists(code: str) -> _Language:
    code = "no" if code in ("nb", "nn") else code
    table = _table()
    numbers, negation = table["numbers"].get(code, {}), table["negation"].get(code, {})
    names = table["names"].get(code)
    units = {word: unit for unit, words in table["units"].items() for word in words.get(code, "").casefold().split()}
    values = _by_word(numbers.get("words", {}))
    hints: dict[str, set[int]] = {}
    for value, words in numbers.get("hints", {}).items():
        for word in words.casefold().split():
            hints.setdefault(word, set()).add(value)
    return _Language(
        code=code,
        numbers=values | dict(_compounds(code, numbers.get("words", {}))),
        scales=_by_word(numbers.get("scales", {})),
        number_hints=hints,
        joins=frozenset(numbers.get("joins", "").split()),
        units=units,
        is_negated=frozenset(negation.get("words", "").casefold().split()),
        may_negate=frozenset(negation.get("maybe", "").casefold().split()),
        negating=_pattern(negation.get("patterns")),
        not_negating=_pattern(negation.get("except")),
        maybe_negating=_pattern(negation.get("maybe_patterns")),
        no_names=None if names is None else frozenset(chain(names.split(), _month_names(code))),
    )


def _month_names(code: str) -> Iterable[str]:
    return _table()["months"].get(code, "").split()


def _pattern(pattern: str | None) -> LazyPattern | None:
    return LazyPattern(pattern) if pattern else None


def _by_word(words_of_values: dict[int, str]) -> dict[str, int]:
    return {word: value for value, words in words_of_values.items() for word in words.casefold().split()}


def _compounds(code: str, words_of_values: dict[int, str]) -> Iterator[tuple[str, int]]:
    """Numbers that are written as one word in Germanic languages and Italian, such as fünfundzwanzig, zweihundert."""
    words = {value: words.casefold().split()[0] for value, words in words_of_values.items()}
    units = {value: word for value, word in words.items() if value < 10}
    tens = {value: word for value, word in words.items() if 20 <= value < 100}
    if code in _COMPOUND_NUMBERS:
        join, one, hundred, thousand = _COMPOUND_NUMBERS[code]
        for value, unit in (units | {1: one}).items():
            # The n of Dutch has a dieresis after an e: tweeëntwintig.
            joined = unit + ("ën" if code == "nl" and unit.endswith("e") else join)
            yield from ((joined + ten, ten_value + value) for ten_value, ten in tens.items())
            yield unit + hundred, 100 * value
            yield unit + thousand, 1000 * value
    if code in ("sv", "no"):
        yield from ((ten + unit, ten_value + value) for ten_value, ten in tens.items() for value, unit in units.items())
    if code == "it":
        for ten_value, ten in tens.items():
            for value, unit in (units | {1: "uno"}).items():
                # A vowel is dropped before another: ventuno, ventotto. At the end, tre has an accent: ventitré.
                stem = ten[:-1] if unit[0] in "uo" else ten
                yield stem + unit.replace("tre", "tré"), ten_value + value
