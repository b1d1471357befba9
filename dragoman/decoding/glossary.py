"""Terms: which must appear in a translation, and which must not, from files and as tokens."""

import re
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from dragoman.data.text import normalised
from dragoman.data.tokenizers.tokenizer import EOS_ID, Tokenizer
from dragoman.decoding.constrained import Term
from dragoman.errors import DataError

_WORD = re.compile(r"\w+|[^\w\s]")
_JOINTS = "'’-–/([{“„"
_KEPT_MASKS = 10_000


class Glossary:
    """Finds source terms in sentences and gives their target terms as tokens.

    Terms are whole words, the longest first. One in small letters is found in any case, others as they are written.
    """

    def __init__(self, terms: dict[str, str], tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self._terms: dict[tuple[str, ...], list[tuple[tuple[str, ...], str]]] = {}
        for source, target in terms.items():
            words = tuple(_WORD.findall(normalised(source)))
            self._terms.setdefault(_folded(words), []).append((words, normalised(target)))
        self._longest = max(map(len, self._terms), default=0)
        self._spelled: dict[str, Term] = {}

    def targets(self, sentence: str) -> list[str]:
        """The target terms of a sentence, in the order of the source terms, each once."""
        words = tuple(_WORD.findall(normalised(sentence)))
        found: dict[str, None] = {}
        start = 0
        while start < len(words):
            for length in range(self._longest, 0, -1):
                target = self._target(words[start : start + length], length)
                if target is not None:
                    found[target] = None
                    start += length - 1
                    break
            start += 1
        return list(found)

    def terms(self, sentence: str) -> list[Term]:
        """The same as tokens. Raises `DataError` for one that the vocabulary cannot spell."""
        targets = self.targets(sentence)
        for target in targets:
            if target not in self._spelled:
                self._spelled[target] = _spelled(target, self.tokenizer)
        return [self._spelled[target] for target in targets]

    def _target(self, words: tuple[str, ...], length: int) -> str | None:
        if len(words) < length:
            return None
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
    return Term(spelling, marked[len(mark) :] if joined else None)


def joints(tokenizer: Tokenizer) -> Bool[Tensor, " vocab"]:
    """The tokens that a word may follow without a space."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    return torch.tensor([piece[-1:] in _JOINTS for piece in pieces])


class ForbiddenTerms:
    """Bans the tokens that would complete a forbidden term, however it is cut into tokens.

    A term counts as a whole word, and so does one whose token may yet be continued: if `chat` is forbidden, `château`
    stays possible, and `chaton` where the vocabulary does not spell it with the token `chat`. A term in small letters
    is forbidden in any case.
    """

    def __init__(self, terms: Sequence[str], tokenizer: Tokenizer):
        words = range(EOS_ID + 1, tokenizer.vocab_size)  # the special tokens are no text
        self._pieces = [""] * words.start + tokenizer.pieces(words)
        spellings = {spelling for term in terms for spelling in _cases(normalised(term).replace(" ", "▁"))}
        self._pattern = re.compile(rf"(?<!\w)(?:{'|'.join(_early(s) for s in sorted(spellings, reverse=True))})(?!\w)")
        self._beginnings = {spelling[:end] for spelling in spellings for end in range(1, len(spelling))}
        self._longest = max(map(len, spellings)) + 1
        self._masks: dict[str, Tensor] = {}

    def found(self, text: str) -> str | None:
        """The first forbidden term in a text."""
        match = self._pattern.search(normalised(text).replace(" ", "▁"))
        return match and match.group().replace("▁", " ")

    def __call__(self, history: Int[Tensor, "rows length"], sentences: Int[Tensor, " rows"]) -> tuple[Tensor, Tensor]:
        tails = [self._tail(row) for row in history[:, -self._longest :].tolist()]
        masks = [self._completing(tail) for tail in tails]
        rows = torch.arange(len(tails)).repeat_interleave(torch.tensor([len(mask) for mask in masks]))
        return rows, torch.cat(masks)

    def stopped(self, ids: list[int]) -> str | None:
        """The forbidden term that one of these tokens is taken to complete, though a text has it within a word."""
        for place, id_ in enumerate(ids):
            if term := self._completed(self._tail(ids[:place]), self._pieces[id_]):
                return term.replace("▁", " ").strip()
        return None

    def _completed(self, tail: str, piece: str) -> str | None:
        """The term that ends in `piece` or behind it; longer ones go first."""
        match = self._pattern.search(text := tail + piece)
        while match and match.end() <= len(tail):
            match = self._pattern.search(text, match.start() + 1)
        return match and match.group()

    def _tail(self, ids: list[int]) -> str:
        """What matters of a text for its continuation: the beginning of a term, and the character before it."""
        text = "".join(self._pieces[id_] for id_ in ids)[-self._longest :]
        for start in range(len(text)):
            if text[start:] in self._beginnings:
                return text[max(0, start - 1) :]
        return text[-1:]

    def _completing(self, tail: str) -> Int[Tensor, " banned"]:
        """The tokens that complete a term after this tail."""
        mask = self._masks.get(tail)
        if mask is None:
            # Within a term, tokens without text could move its beginning out of sight.
            silent = "" if any(tail[start:] in self._beginnings for start in range(len(tail))) else None
            banned = [
                i for i, piece in enumerate(self._pieces)
                if (piece == silent and i != EOS_ID) or self._completed(tail, piece)
            ]  # fmt: skip
            mask = torch.tensor(banned, dtype=torch.long)
            if len(self._masks) < _KEPT_MASKS:
                self._masks[tail] = mask
        return mask


def _cases(term: str) -> list[str]:
    return [term, term.capitalize(), term.title(), term.upper()] if term == term.lower() else [term]


def _early(spelling: str) -> str:
    """A pattern of a spelling, which also matches where a character begins that is spelled byte by byte."""
    pattern = ""
    for character in reversed(spelling):
        escaped = re.escape(character)
        first = f"<{character.encode()[0]:02X}>"
        pattern = (
            f"{escaped}{pattern}" if character.isascii() or character == "▁" else f"(?:{escaped}{pattern}|{first})"
        )
    return pattern
