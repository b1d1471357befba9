"""Terms that must appear in a translation, and terms that must not, as tokens."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from itertools import accumulate, takewhile

import torch
from jaxtyping import Int
from torch import Tensor

from dragoman.decoding.terms import Term
from dragoman.errors import DataError, UsageError
from dragoman.text.characters import normalised
from dragoman.text.scripts import WORD, whole
from dragoman.text.tokenizers.placeholders import mask
from dragoman.text.tokenizers.tokenizer import Tokenizer

MOST_OCCURRENCES = 8
"""How often a term is required in one sentence; each costs the model a few more looks at the whole translation."""


class Glossary:
    """Finds source terms in sentences and gives their target terms as tokens.

    Terms are whole words, the longest first. A term in small letters is found in any case, others as they are written.
    """

    def __init__(self, terms: dict[str, str], tokenizer: Tokenizer):
        self._terms: dict[tuple[str, ...], list[tuple[tuple[str, ...], str]]] = {}
        for source, target in terms.items():
            words = tuple(WORD.findall(normalised(source)))
            self._terms.setdefault(_folded(words), []).append((words, normalised(target)))
        self._lengths = sorted({*map(len, self._terms)}, reverse=True)
        self._spelled = cache(partial(_spelled, tokenizer=tokenizer))

    def occurrences(self, sentence: str) -> list[tuple[str, tuple[int, int]]]:
        """The target terms of a sentence, each with the characters of its source term.

        A term that occurs more often than `MOST_OCCURRENCES` is left to the model from there on.
        """
        words = list(WORD.finditer(sentence))
        occurrences: list[tuple[str, tuple[int, int]]] = []
        counts = Counter[str]()
        start = 0
        while start < len(words):
            for length in self._lengths:
                run = words[start : start + length]
                target = self._target(tuple(word[0] for word in run))
                if target is not None:
                    counts[target] += 1
                    if counts[target] <= MOST_OCCURRENCES:
                        occurrences.append((target, (run[0].start(), run[-1].end())))
                    start += length - 1
                    break
            start += 1
        return occurrences

    def terms(self, sentence: str) -> list[Term]:
        """The same as tokens. Raises `DataError` for a term that the vocabulary cannot spell."""
        size = len(sentence)
        return [
            replace(self._spelled(target), words=len(sentence[start:end].split()), span=(start / size, end / size))
            for target, (start, end) in self.occurrences(sentence)
        ]

    def _target(self, words: tuple[str, ...]) -> str | None:
        for written, target in self._terms.get(_folded(words), ()):
            if words == written or written == _folded(written):
                return target
        return None


def _folded(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word.lower() for word in words)


def _spelled(term: str, tokenizer: Tokenizer) -> Term:
    spelling = tokenizer.encode(term)
    if term not in tokenizer.decode(spelling):
        raise DataError(f"The vocabulary of this model cannot spell the term '{term}'; take it out of the glossary.")
    mark, marked = tokenizer.encode("'"), tokenizer.encode("'" + term)
    joined = marked[: len(mark)] == mark and tokenizer.decode(marked) == "'" + term
    return Term(term, spelling, marked[len(mark) :] if joined else None)


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
        self._silent = {id_ for id_, piece in enumerate(self._pieces) if not piece and id_ != tokenizer.special_ids.eos}
        self._index = _PrefixIndex(self._pieces)
        spellings = {spelling for term in terms for spelling in _cases(normalised(term).replace(" ", "▁"))}
        ordered = [_Spelling(spelling) for spelling in sorted(spellings, reverse=True)]
        self._by_first: dict[str, list[_Spelling]] = defaultdict(list)
        self._by_beginning: dict[str, list[_Spelling]] = defaultdict(list)
        for spelling in ordered:
            for first in dict.fromkeys((spelling.text[:1], spelling.marks.get(0, "")[:1])):
                self._by_first[first].append(spelling)
            for end in range(1, len(spelling.text)):
                self._by_beginning[spelling.text[:end]].append(spelling)
        self._marks = {mark for spelling in ordered for mark in spelling.marks.values()}
        self._longest = max(map(len, spellings)) + 1
        self._complete_alone = {id_ for id_ in self._index.having(spellings | self._marks) if self._completes("", id_)}
        self._banned_after = lru_cache(maxsize=10_000)(self._completing)

    def found(self, text: str) -> str | None:
        """The first forbidden term in a text."""
        text = normalised(text).replace(" ", "▁")
        term = next(filter(None, (self._term_at(text, start) for start in range(len(text)))), None)
        return term and term.replace("▁", " ")

    def __call__(self, history: Int[Tensor, "rows length"], sentences: Int[Tensor, " rows"]) -> tuple[Tensor, Tensor]:
        banned = [self._banned_after(self._tail(row)) for row in history[:, -self._longest :].tolist()]
        rows = torch.arange(len(banned)).repeat_interleave(torch.tensor([len(tokens) for tokens in banned]))
        return rows, torch.cat(banned)

    def stopped(self, ids: list[int]) -> str | None:
        """The forbidden term that one of these tokens is taken to complete, although their text may continue it."""
        for position, id_ in enumerate(ids):
            if term := self._completed(self._tail(ids[:position]), self._pieces[id_]):
                return term.replace("▁", " ").strip()
        return None

    def _completed(self, tail: str, piece: str, begin: int = 0) -> str | None:
        """The first term, the longest if several begin there, that `piece` completes; it begins at `begin` or later."""
        text = tail + piece
        for start in range(begin, len(text)):
            if (term := self._term_at(text, start)) and start + len(term) > len(tail):
                return term
        return None

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

    def _completing(self, tail: str) -> Int[Tensor, " banned"]:
        """The tokens that complete a term after this tail."""
        banned = {id_ for id_ in self._complete_alone if self._completed(tail, self._pieces[id_], len(tail))}
        for mark in self._marks:
            for end in range(1, len(mark)):
                if tail.endswith(mark[:end]):
                    banned.update(id_ for id_ in self._index.beginning(mark[end:]) if self._completes(tail, id_))
        within = False
        for start in range(len(tail)):
            for spelling in self._by_beginning.get(tail[start:], ()):
                within = True
                if spelling.may_begin(tail, start):
                    banned.update(self._completing_spelling(spelling, len(tail) - start))
        if within:  # tokens without text could move the beginning of the term out of sight
            banned |= self._silent
        return torch.tensor(sorted(banned), dtype=torch.long)

    def _completing_spelling(self, spelling: "_Spelling", begun: int) -> Iterator[int]:
        """The tokens that complete a spelling after so many of its characters."""
        for rest in spelling.rests(begun, self._index.longest):
            for id_ in self._index.beginning(rest):
                if spelling.may_end(self._pieces[id_], len(rest)):
                    yield id_

    def _completes(self, tail: str, id_: int) -> bool:
        return self._completed(tail, self._pieces[id_]) is not None


class _Spelling:
    """A term as texts may have it, which a vocabulary without one of its characters spells in bytes such as <C3>."""

    def __init__(self, text: str):
        self.text = text
        self.marks = {
            index: f"<{character.encode()[0]:02X}>"
            for index, character in enumerate(text)
            if not character.isascii() and character != "▁"
        }
        """The first byte of each character that may be spelled so, by its position."""
        self._begins, self._ends = (re.compile(whole(pattern, text)) for pattern in (r"[\s\S]*\Z", ""))

    def at(self, text: str, start: int) -> str | None:
        """What a text has of it from `start` on: all, or its beginning up to the first byte of a character.

        None if it has neither, or if it is not a whole word.
        """
        if text.startswith(self.text, start):
            found = self.text
        else:
            part = text[start : start + len(self.text)]
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self.text, part, strict=False)))
            mark = self.marks.get(same)
            if mark is None or not text.startswith(mark, start + same):
                return None
            found = self.text[:same] + mark
        return found if self.may_begin(text, start) and self.may_end(text, start + len(found)) else None

    def may_begin(self, text: str, start: int) -> bool:
        """Whether a word may begin at a position of a text."""
        return self._begins.match(text, start) is not None

    def may_end(self, text: str, end: int) -> bool:
        """Whether a word may end at a position of a text."""
        return self._ends.match(text[end:]) is not None

    def rests(self, begun: int, longest: int) -> Iterator[str]:
        """What may complete it after so many of its characters, in at most `longest` characters."""
        if len(self.text) - begun <= longest:
            yield self.text[begun:]
        for index in range(begun, min(len(self.text), begun + longest)):
            if mark := self.marks.get(index):
                yield self.text[begun:index] + mark


class _PrefixIndex:
    """The tokens of a vocabulary, found by what their texts begin with."""

    def __init__(self, pieces: Sequence[str]):
        self._ids = sorted(range(len(pieces)), key=pieces.__getitem__)
        self._texts = [pieces[id_] for id_ in self._ids]
        self.longest = max(map(len, pieces), default=0)
        """Characters of the longest text."""

    def beginning(self, prefix: str) -> list[int]:
        """The tokens whose texts begin with a prefix."""
        first = bisect_left(self._texts, prefix)
        last = bisect_right(self._texts, prefix, first, key=lambda text: text[: len(prefix)])
        return self._ids[first:last]

    def having(self, parts: Iterable[str]) -> set[int]:
        """The tokens whose texts have one of these texts anywhere, none of which has a line break."""
        joined, starts = "\n".join(self._texts), [0, *accumulate(len(text) + 1 for text in self._texts)]
        found: set[int] = set()
        for part in parts:
            position = joined.find(part)
            while position >= 0:
                index = bisect_right(starts, position) - 1
                found.add(self._ids[index])
                position = joined.find(part, starts[index + 1])
        return found


def _cases(term: str) -> list[str]:
    return [term, term.capitalize(), term.title(), term.upper()] if term == term.lower() else [term]


def read_terms(
    glossary: tuple[tuple[str, str], ...], forbid: tuple[str, ...], tokenizer: Tokenizer
) -> tuple[Glossary, set[str]]:
    """The glossary, and what looks like a placeholder in terms; raises `UsageError` if they contradict each other."""
    terms = dict(glossary)
    if terms and forbid:
        refuse_contradictions(terms.values(), forbid, tokenizer)
    excluded = {value for term in (*terms, *forbid) for text in (term, term.upper()) for value in mask(text).values}
    return Glossary(terms, tokenizer), excluded


def refuse_contradictions(targets: Iterable[str], forbid: Sequence[str], tokenizer: Tokenizer) -> None:
    """Raise `UsageError` for a target term of the glossary that is forbidden."""
    forbidden = ForbiddenTerms(forbid, tokenizer)
    for target in targets:
        if (term := forbidden.found(target)) is not None:
            raise UsageError(f"The glossary asks for '{target}', but '{term}' is forbidden; take one of them out.")
        if (term := forbidden.stopped(tokenizer.encode(normalised(target)))) is not None:
            raise UsageError(
                f"The glossary asks for '{target}', which this model spells with a token that ends in '{term}', and "
                "that is forbidden; take one of them out."
            )
