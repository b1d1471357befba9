"""Terms that must appear in a translation, and terms that must not, as tokens."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import accumulate

import numpy as np

from dragoman.decoding.terms import Term
from dragoman.engine.log_probs import Rows, Tokens
from dragoman.engine.shapes import Int
from dragoman.errors import DataError, UsageError
from dragoman.text.characters import normalised
from dragoman.text.scripts import WORD, whole
from dragoman.text.tokenizers.placeholders import mask
from dragoman.text.tokenizers.tokenizer import Tokenizer

MOST_OCCURRENCES = 8
"""How often a term is required in one sentence; each costs the model a few more looks at the whole translation."""
MOST_REQUIRED = 50
"""Terms that are required in one sentence, however large the glossary is."""


@dataclass(frozen=True)
class Occurrence:
    """A source term in a sentence."""

    source: str
    """The source term, as the glossary spells it."""
    target: str
    """The target term."""
    start: int
    """Index of the first character of the source term."""
    stop: int
    """Index after its last character."""


@dataclass(frozen=True)
class _Entry:
    """A line of a glossary."""

    term: str
    """The source term."""
    source: tuple[str, ...]
    """The words of the source term."""
    target: str

    def matches(self, words: tuple[str, ...]) -> bool:
        """Whether words that are equal to the source term but for their case are this term."""
        return words == self.source or self.source == _lower(self.source)


class Glossary:
    """Finds source terms in sentences and gives their target terms as tokens.

    Terms are whole words, the longest first. A term in small letters is found in any case, others as they are written.
    """

    def __init__(self, terms: dict[str, str], tokenizer: Tokenizer):
        self._entries: dict[tuple[str, ...], list[_Entry]] = defaultdict(list)
        for source, target in terms.items():
            words = tuple(WORD.findall(normalised(source)))
            self._entries[_lower(words)].append(_Entry(source, words, normalised(target)))
        self._lengths = sorted({*map(len, self._entries)}, reverse=True)
        self._as_term = cache(partial(_as_term, tokenizer=tokenizer))

    def occurrences(self, sentence: str, most: int = MOST_REQUIRED) -> list[Occurrence]:
        """The source terms in a sentence, in order; no two overlap.

        A term that occurs more often than `MOST_OCCURRENCES` is left to the model from there on, and so are all terms
        after the first `most`.
        """
        words = list(WORD.finditer(sentence))
        occurrences: list[Occurrence] = []
        counts = Counter[str]()
        position = 0
        while position < len(words) and len(occurrences) < most:
            occurrence, length = self._longest_at(words, position)
            if occurrence is not None:
                counts[occurrence.target] += 1
                if counts[occurrence.target] <= MOST_OCCURRENCES:
                    occurrences.append(occurrence)
            position += length
        return occurrences

    def without_those_of(self, others: Iterable[str]) -> dict[str, str]:
        """The terms, but for those with the same words as the source terms of another glossary, in any case."""
        taken = {_lower(tuple(WORD.findall(normalised(source)))) for source in others}
        left = (entry for words, entries in self._entries.items() if words not in taken for entry in entries)
        return {entry.term: entry.target for entry in left}

    def check_spelling(self) -> None:
        """Raise `DataError` for a target term that the vocabulary cannot spell."""
        for entries in self._entries.values():
            for entry in entries:
                self._as_term(entry.target)

    def terms(self, sentence: str) -> list[Term]:
        """The target terms of a sentence as tokens. Raises `DataError` for one that the vocabulary cannot spell."""
        size = len(sentence)
        terms = []
        for occurrence in self.occurrences(sentence):
            source = sentence[occurrence.start : occurrence.stop]
            span = occurrence.start / size, occurrence.stop / size
            terms.append(replace(self._as_term(occurrence.target), words=len(source.split()), span=span))
        return terms

    def _longest_at(self, words: list[re.Match[str]], position: int) -> tuple[Occurrence | None, int]:
        """The longest term that begins with the word at a position, or None, and the number of words to go on by."""
        for length in self._lengths:
            run = words[position : position + length]
            entry = self._entry(tuple(word[0] for word in run))
            if entry is not None:
                return Occurrence(entry.term, entry.target, run[0].start(), run[-1].end()), length
        return None, 1

    def _entry(self, words: tuple[str, ...]) -> _Entry | None:
        return next((entry for entry in self._entries.get(_lower(words), ()) if entry.matches(words)), None)


def _lower(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word.lower() for word in words)


def _as_term(text: str, tokenizer: Tokenizer) -> Term:
    """A target term as tokens. Raises `DataError` if the vocabulary cannot spell it."""
    given = len(tokenizer.begin_ids)  # such as the token of the language
    spelling = tokenizer.encode(text)[given:]
    if text not in tokenizer.decode(spelling):
        raise DataError(f"The vocabulary of this model cannot spell the term '{text}'; take it out of the glossary.")
    mark, marked = (tokenizer.encode(text)[given:] for text in ("'", "'" + text))
    can_be_joined = marked[: len(mark)] == mark and tokenizer.decode(marked) == "'" + text
    return Term(text, spelling, marked[len(mark) :] if can_be_joined else None)


class ForbiddenTerms:
    """Bans the tokens that would complete a forbidden term, however it is split into tokens.

    A term counts as a whole word, although its last token might be continued: if `chat` is forbidden, `château` stays
    possible, and `chaton` only where the vocabulary does not spell it with the token `chat`. A term in small letters is
    forbidden in any case.
    """

    def __init__(self, terms: Sequence[str], tokenizer: Tokenizer):
        special = {*tokenizer.special_ids}  # which are no text
        pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        self._pieces = ["" if id_ in special else piece for id_, piece in enumerate(pieces)]
        self._without_text = {id_ for id_, piece in enumerate(self._pieces) if not piece} - {tokenizer.special_ids.eos}
        self._index = _PrefixIndex(self._pieces)
        texts = {text for term in terms for text in _cases(normalised(term).replace(" ", "▁"))}
        # Longer spellings come before those that they begin with.
        spellings = [_Spelling(text) for text in sorted(texts, reverse=True)]
        self._by_first: dict[str, list[_Spelling]] = defaultdict(list)
        """Spellings by their first character, as itself and as the mark of its first byte."""
        self._by_beginning: dict[str, list[_Spelling]] = defaultdict(list)
        """Spellings by each text that they begin with and go on from."""
        for spelling in spellings:
            for first in dict.fromkeys((spelling.text[:1], spelling.byte_marks.get(0, "")[:1])):
                self._by_first[first].append(spelling)
            for end in range(1, len(spelling.text)):
                self._by_beginning[spelling.text[:end]].append(spelling)
        self._byte_marks = {mark for spelling in spellings for mark in spelling.byte_marks.values()}
        self._longest = max(map(len, texts)) + 1
        containing = self._index.containing(texts | self._byte_marks)
        self._complete_alone = {id_ for id_ in containing if self._completes("", id_)}
        self._banned_after = lru_cache(maxsize=10_000)(self._completing_tokens)

    def first_in(self, text: str) -> str | None:
        """The first forbidden term in a text."""
        text = normalised(text).replace(" ", "▁")
        for start in range(len(text)):
            if term := self._term_at(text, start):
                return term.replace("▁", " ")
        return None

    def __call__(
        self, history: Int[np.ndarray, "rows length"], sentences: Int[np.ndarray, " rows"]
    ) -> tuple[Rows, Tokens]:
        banned = [self._banned_after(self._tail(row)) for row in history[:, -self._longest :].tolist()]
        rows = np.arange(len(banned)).repeat([len(tokens) for tokens in banned])
        return rows, np.concatenate(banned)

    def completed_by(self, ids: list[int]) -> str | None:
        """The forbidden term that one of these tokens is taken to complete, although their text may continue it."""
        for position, id_ in enumerate(ids):
            if term := self._completed_term(self._tail(ids[:position]), self._pieces[id_]):
                return term.replace("▁", " ").strip()
        return None

    def _completed_term(self, tail: str, piece: str, begin: int = 0) -> str | None:
        """The first term, the longest if several begin there, that `piece` completes; it begins at `begin` or later."""
        text = tail + piece
        for start in range(begin, len(text)):
            if (term := self._term_at(text, start)) and start + len(term) > len(tail):
                return term
        return None

    def _completes(self, tail: str, id_: int) -> bool:
        return self._completed_term(tail, self._pieces[id_]) is not None

    def _term_at(self, text: str, start: int) -> str | None:
        """The term that begins at a position of a text, as a whole word; the longest if there are several."""
        for spelling in self._by_first.get(text[start], ()):
            if term := spelling.at(text, start):
                return term
        return None

    def _tail(self, ids: list[int]) -> str:
        """The end of a text that may become a term: the beginning of the term, and the character before it."""
        text = "".join(self._pieces[id_] for id_ in ids)[-self._longest :]
        for start in range(len(text)):
            if text[start:] in self._by_beginning:
                return text[max(0, start - 1) :]
        return text[-1:]

    def _completing_tokens(self, tail: str) -> Int[np.ndarray, " banned"]:
        """The tokens that complete a term after this tail."""
        begin = len(tail)
        banned = {id_ for id_ in self._complete_alone if self._completed_term(tail, self._pieces[id_], begin)}
        for mark in self._byte_marks:
            for end in range(1, len(mark)):
                if tail.endswith(mark[:end]):
                    banned.update(id_ for id_ in self._index.beginning_with(mark[end:]) if self._completes(tail, id_))
        is_inside_term = False
        for start in range(len(tail)):
            for spelling in self._by_beginning.get(tail[start:], ()):
                is_inside_term = True
                if spelling.may_begin(tail, start):
                    banned.update(self._tokens_completing(spelling, len(tail) - start))
        if is_inside_term:  # tokens without text could move the beginning of the term out of sight
            banned |= self._without_text
        return np.array(sorted(banned), np.int64)

    def _tokens_completing(self, spelling: "_Spelling", written: int) -> Iterator[int]:
        """The tokens that complete a spelling of which so many characters are written."""
        for rest in spelling.rests(written, self._index.longest):
            for id_ in self._index.beginning_with(rest):
                if spelling.may_end(self._pieces[id_], len(rest)):
                    yield id_


class _Spelling:
    """A term as it is written in texts.

    A vocabulary that lacks one of its characters spells that in bytes, which pieces show as <C3>: a byte mark.
    """

    def __init__(self, text: str):
        self.text = text
        self.byte_marks = {
            index: f"<{character.encode()[0]:02X}>"
            for index, character in enumerate(text)
            if not character.isascii() and character != "▁"
        }
        """By the position of each character that may be spelled in bytes: the mark of its first byte."""
        self._begins = re.compile(whole(r"[\s\S]*\Z", text))
        self._ends = re.compile(whole("", text))

    def at(self, text: str, start: int) -> str | None:
        """The part of a text from `start` on that is this term as a whole word, or None.

        It is the term, or its beginning up to a character whose first byte follows as a mark.
        """
        term = self._beginning_at(text, start)
        if term and self.may_begin(text, start) and self.may_end(text, start + len(term)):
            return term
        return None

    def _beginning_at(self, text: str, start: int) -> str | None:
        if text.startswith(self.text, start):
            return self.text
        part = text[start : start + len(self.text)]
        common = 0
        while common < len(part) and part[common] == self.text[common]:
            common += 1
        mark = self.byte_marks.get(common)
        if mark is None or not text.startswith(mark, start + common):
            return None
        return self.text[:common] + mark

    def may_begin(self, text: str, start: int) -> bool:
        """Whether a word may begin at a position of a text."""
        return self._begins.match(text, start) is not None

    def may_end(self, text: str, end: int) -> bool:
        """Whether a word may end at a position of a text."""
        return self._ends.match(text[end:]) is not None

    def rests(self, written: int, longest: int) -> Iterator[str]:
        """Texts of at most `longest` characters that complete the term after so many of its characters."""
        if len(self.text) - written <= longest:
            yield self.text[written:]
        for index in range(written, min(len(self.text), written + longest)):
            if mark := self.byte_marks.get(index):
                yield self.text[written:index] + mark


class _PrefixIndex:
    """The tokens of a vocabulary, to be looked up by the beginning of their texts."""

    def __init__(self, pieces: Sequence[str]):
        self._ids = sorted(range(len(pieces)), key=pieces.__getitem__)
        self._texts = [pieces[id_] for id_ in self._ids]
        self.longest = max(map(len, pieces), default=0)
        """Characters of the longest text."""

    def beginning_with(self, prefix: str) -> list[int]:
        """The tokens whose texts begin with a prefix."""
        first = bisect_left(self._texts, prefix)
        last = bisect_right(self._texts, prefix, first, key=lambda text: text[: len(prefix)])
        return self._ids[first:last]

    def containing(self, parts: Iterable[str]) -> set[int]:
        """The tokens whose texts contain one of these parts, none of which has a line break."""
        joined = "\n".join(self._texts)
        starts = [0, *accumulate(len(text) + 1 for text in self._texts)]
        ids: set[int] = set()
        for part in parts:
            position = joined.find(part)
            while position >= 0:
                index = bisect_right(starts, position) - 1
                ids.add(self._ids[index])
                position = joined.find(part, starts[index + 1])
        return ids


def _cases(term: str) -> list[str]:
    """A term in small letters in each case that it may be written in; others as they are."""
    return [term, term.capitalize(), term.title(), term.upper()] if term == term.lower() else [term]


def read_terms(
    glossary: tuple[tuple[str, str], ...], forbid: tuple[str, ...], tokenizer: Tokenizer
) -> tuple[Glossary, set[str]]:
    """The glossary, and the parts of all terms that look like placeholders.

    Raises `UsageError` if glossary and forbidden terms contradict each other.
    """
    terms = dict(glossary)
    if terms and forbid:
        refuse_contradictions(terms.values(), forbid, tokenizer)
    placeholders: set[str] = set()
    for term in (*terms, *forbid):
        placeholders.update(mask(term).values, mask(term.upper()).values)
    return Glossary(terms, tokenizer), placeholders


def refuse_contradictions(targets: Iterable[str], forbid: Sequence[str], tokenizer: Tokenizer) -> None:
    """Raise `UsageError` for a target term of the glossary that is forbidden."""
    forbidden = ForbiddenTerms(forbid, tokenizer)
    for target in targets:
        term = forbidden.first_in(target)
        if term is not None:
            raise UsageError(f"The glossary asks for '{target}', but '{term}' is forbidden; take one of them out.")
        term = forbidden.completed_by(tokenizer.encode(normalised(target)))
        if term is not None:
            raise UsageError(
                f"The glossary asks for '{target}', which this model spells with a token that ends in '{term}', and "
                "that is forbidden; take one of them out."
            )
