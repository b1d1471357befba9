"""Terms that must appear in a translation, and terms that must not, as tokens."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial

import torch
from jaxtyping import Int
from torch import Tensor

from dragoman.data.scripts import WORD, whole
from dragoman.data.text import normalised
from dragoman.data.tokenizers.placeholders import mask
from dragoman.data.tokenizers.tokenizer import Tokenizer
from dragoman.decoding.terms import Term
from dragoman.errors import DataError, UsageError

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
        self._end = tokenizer.special_ids.eos
        spellings = {spelling for term in terms for spelling in _cases(normalised(term).replace(" ", "▁"))}
        self._pattern = re.compile("|".join(whole(_early(s), s) for s in sorted(spellings, reverse=True)))
        self._beginnings = {spelling[:end] for spelling in spellings for end in range(1, len(spelling))}
        self._longest = max(map(len, spellings)) + 1
        self._banned_after = lru_cache(maxsize=10_000)(self._completing)

    def found(self, text: str) -> str | None:
        """The first forbidden term in a text."""
        match = self._pattern.search(normalised(text).replace(" ", "▁"))
        return match and match.group().replace("▁", " ")

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

    def _completed(self, tail: str, piece: str) -> str | None:
        """The first term, the longest if several begin there, that `piece` completes."""
        match = self._pattern.search(text := tail + piece)
        while match and match.end() <= len(tail):
            match = self._pattern.search(text, match.start() + 1)
        return match and match.group()

    def _tail(self, ids: list[int]) -> str:
        """The end of a text that may become a term: the beginning of the term, and the character before it."""
        text = "".join(self._pieces[id_] for id_ in ids)[-self._longest :]
        for start in range(len(text)):
            if text[start:] in self._beginnings:
                return text[max(0, start - 1) :]
        return text[-1:]

    def _completing(self, tail: str) -> Int[Tensor, " banned"]:
        """The tokens that complete a term after this tail."""
        # Within a term, tokens without text could move its beginning out of sight.
        silent = "" if any(tail[start:] in self._beginnings for start in range(len(tail))) else None
        banned = [
            i for i, piece in enumerate(self._pieces)
            if (piece == silent and i != self._end) or self._completed(tail, piece)
        ]  # fmt: skip
        return torch.tensor(banned, dtype=torch.long)


def _cases(term: str) -> list[str]:
    return [term, term.capitalize(), term.title(), term.upper()] if term == term.lower() else [term]


def _early(spelling: str) -> str:
    """A pattern that matches a spelling, or its beginning up to the first byte of a character spelled in bytes."""
    pattern = ""
    for character in reversed(spelling):
        pattern = re.escape(character) + pattern
        if not character.isascii() and character != "▁":
            pattern = f"(?:{pattern}|<{character.encode()[0]:02X}>)"
    return pattern


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
