"""Terms that a translation must contain: each replaces the word that the model has for its source.

The attention of the model shows which word that is. Where it shows several, such as an article and its noun, the
replacement that the model finds most probable counts. A search that must produce the terms by itself (Post & Vilar,
2018) puts those that the model does not expect at the end, often after a second copy of the sentence.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from dragoman.engine.shapes import Float
from dragoman.text.scripts import is_unspaced, whole
from dragoman.text.tokenizers.tokenizer import Tokenizer
from dragoman.text.word_forms import count_forms

NEARLY = 0.65
"""Words next to the one that attends most to a source term may be replaced too if they attend this much as strongly."""
_LETTER = re.compile(r"\w|<[89AB][0-9A-F]>")  # or a byte within a character
_JOINTS = "'’-–/([{“„"


@dataclass(frozen=True)
class Term:
    """A text that must appear in a translation, in one of its spellings."""

    text: str
    spelling: list[int]
    """Its tokens where it follows a space."""
    joined: list[int] | None = None
    """Its tokens without a space before it, such as after an apostrophe; None if it cannot be joined."""
    words: int = 1
    """Number of words of the source term."""
    span: tuple[float, float] = (0.0, 1.0)
    """Start and end of the source term, as shares of the characters of the sentence."""

    def count(self, text: str, *, inflected: bool = False) -> int:
        """How often a text contains the term, as a whole word where the script has spaces between words.

        It may be `inflected`: forms of its words count, too.
        """
        exact = len(re.findall(whole(re.escape(self.text), self.text), text)) if self.text in text else 0
        return max(exact, count_forms(self.text, text)) if inflected else exact


class Edit(NamedTuple):
    """The replacement of some tokens of a translation by others."""

    start: int
    stop: int
    """Index after the last token that is replaced."""
    tokens: list[int]
    """The new tokens."""

    def overlaps(self, other: "Edit") -> bool:
        """Whether both replace the same token."""
        return self.start < other.stop and other.start < self.stop


def needed_edits(terms: Sequence[Term], edits: Sequence[Edit | None], missing: Mapping[str, int]) -> list[Edit]:
    """The edits of terms, each of which has one or none, that put in what is missing.

    Where two occurrences of one term would replace the same words, the translation says both with one word.
    """
    kept: dict[str, list[Edit]] = {term.text: [] for term in terms}
    needed = []
    for term, edit in zip(terms, edits, strict=True):
        same_term = kept[term.text]
        if edit is None or len(same_term) >= missing[term.text]:
            continue
        if not any(edit.overlaps(earlier) for earlier in same_term):
            same_term.append(edit)
            needed.append(edit)
    return needed


def with_edits(tokens: list[int], edits: Iterable[Edit]) -> list[int]:
    """The tokens with all edits; of those that overlap, the later one comes after the earlier one."""
    result: list[int] = []
    copied = 0  # tokens that are in the result already, or replaced
    for edit in sorted(edits):
        result += [*tokens[copied : edit.start], *edit.tokens]
        copied = max(copied, edit.stop)
    return result + tokens[copied:]


class TermPlacer:
    """Finds out which tokens of a translation a term may replace."""

    def __init__(self, source: Tokenizer, target: Tokenizer):
        self.source, self.target = source, target
        pieces = target.pieces(range(target.vocab_size))
        # Of each target token: whether it is a space, has a letter, joins words, or follows without a space.
        self._spaces = {index for index, piece in enumerate(pieces) if piece == "▁"}
        self._is_word = [bool(_LETTER.match(piece.lstrip("▁"))) for piece in pieces]
        self._is_joint = [piece == "▁" or piece[-1:] in _JOINTS for piece in pieces]
        self._is_attached = [not piece.startswith("▁") and not is_unspaced(piece[:1]) for piece in pieces]

    def missing(self, terms: Sequence[Term], tokens: list[int], *, inflected: bool = False) -> Counter[str]:
        """How often each term, by its text, is lacking in a translation: it should occur as often as in the source.

        It may be `inflected`, if that is so.
        """
        text = self.target.decode(tokens) if terms else ""
        wanted = Counter(term.text for term in terms)
        for term in {term.text: term for term in terms}.values():
            as_token = tokens.count(term.spelling[0]) if len(term.spelling) == 1 else 0
            wanted[term.text] -= max(term.count(text, inflected=inflected), as_token)
        return +wanted

    def slot_term(self, source: list[int], source_slot: int, target_slot: int) -> Term:
        """The token of a slot in the target as the term for the slot in the source."""
        index, sizes = source.index(source_slot), self._sizes(source)
        before, total = sum(sizes[:index]), sum(sizes)
        span = before / total, (before + sizes[index]) / total
        return Term(self.target.decode([target_slot]), [target_slot], span=span)

    def edits(
        self,
        term: Term,
        source: list[int],
        tokens: list[int],
        weights: Float[np.ndarray, "tgt_len src_len"],
        begin: int,
    ) -> list[Edit]:
        """The replacements that may put a term into a translation, given its attention to the source.

        The tokens before `begin` stay as they are. There is none where the translation has the term already.
        """
        words = [index for index, token in enumerate(tokens) if index >= begin and self._is_word[token]]
        if not words:
            return [Edit(len(tokens), len(tokens), term.spelling)]
        source_tokens = self._positions(source, term)
        attention = weights[:, source_tokens].sum(1).tolist()
        best = max(words, key=attention.__getitem__)
        near = {self._word(tokens, i, begin) for i in words if attention[i] >= NEARLY * attention[best]}
        if term.words > 1:
            near |= {self._word(tokens, i, begin) for i in words if int(weights[i].argmax()) in source_tokens}
        start, stop = self._with_adjacent(self._word(tokens, best, begin), near, tokens)
        if term.count(self.target.decode(tokens[start:stop])):
            return []
        # At least as many words are replaced as the source term has.
        replaced = sorted(word for word in near if start <= word[0] < stop)
        _, last_stop = replaced[-min(term.words, len(replaced))]
        edits = []
        for index in range(start, min(stop, last_stop)):
            token = tokens[index]
            is_joined = index > 0 and self._is_joint[tokens[index - 1]]
            begins_word = index == start or is_joined or not self._is_attached[token]
            if begins_word and token not in self._spaces:
                spelling = term.joined if is_joined and term.joined else term.spelling
                edits.append(Edit(index, stop, spelling))
        return edits

    def _with_adjacent(self, word: tuple[int, int], near: set[tuple[int, int]], tokens: list[int]) -> tuple[int, int]:
        """The tokens of a word and of those of `near` that are next to it, or next to one of these."""
        start, stop = word
        while beside := [w for w in near if w[0] == self._after(tokens, stop) or self._after(tokens, w[1]) == start]:
            start, stop = min(start, beside[0][0]), max(stop, beside[0][1])
        return start, stop

    def _positions(self, source: list[int], term: Term) -> list[int]:
        """The source tokens of a term; a token has a character if it has its first byte."""
        sizes = self._sizes(source)
        start, stop = (round(share * sum(sizes), 6) for share in term.span)
        positions = []
        for position, (size, end) in enumerate(zip(sizes, accumulate(sizes), strict=True)):
            if end - size < stop and end > start:
                positions.append(position)
        return positions

    def _sizes(self, source: list[int]) -> list[int]:
        """Number of characters of each token; bytes from 0x80 to 0xBF continue one."""
        return [sum(byte & 0xC0 != 0x80 for byte in token) for token in self.source.token_bytes(source)]

    def _after(self, tokens: list[int], stop: int) -> int:
        """Index of the token with which the next word begins, if a word ends before `stop`."""
        is_space = stop < len(tokens) and tokens[stop] in self._spaces
        return stop + is_space

    def _word(self, tokens: list[int], index: int, begin: int) -> tuple[int, int]:
        """Start and stop of the word that a token is part of; words that are joined to each other count as one."""
        start, stop = index, index + 1
        while start > begin and self._is_attached[tokens[start]] and tokens[start - 1] not in self._spaces:
            start -= 1
        for end, token in enumerate(tokens[stop:], start=stop + 1):
            if not self._is_attached[token] or not (self._is_word[token] or self._is_joint[token]):
                break
            if self._is_word[token]:
                stop = end
        return start, stop
