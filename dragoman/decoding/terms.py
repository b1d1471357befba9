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

from jaxtyping import Float
from torch import Tensor

from dragoman.text.scripts import is_unspaced, whole
from dragoman.text.tokenizers.tokenizer import Tokenizer

NEARLY = 0.65
"""Words next to the one that attends most to a source term may be replaced too if they attend this much as strongly."""
_LETTER = re.compile(r"\w|<[89AB][0-9A-F]>")  # or a byte within a character
_JOINTS = "'’-–/([{“„"


@dataclass(frozen=True)
class Term:
    """What must appear, in one of its spellings."""

    text: str
    spelling: list[int]
    """Its tokens after a space."""
    joined: list[int] | None = None
    """Its tokens without a space before it, such as after an apostrophe; None if it cannot be joined."""
    words: int = 1
    """Words of its source."""
    span: tuple[float, float] = (0.0, 1.0)
    """Start and end of the source term, as shares of the characters of the sentence."""

    def count(self, text: str) -> int:
        """How often a text contains the term, as a whole word where the script has spaces between words."""
        return len(re.findall(whole(re.escape(self.text), self.text), text)) if self.text in text else 0


Edit = tuple[int, int, list[int]]
"""Start and stop of the tokens that are replaced, and the new tokens."""


def placed(terms: Sequence[Term], edits: Sequence[Edit | None], missing: Mapping[str, int]) -> list[Edit]:
    """The edits of terms, each of which has one or none, that put in what is missing.

    Where two occurrences of one term would replace the same words, the translation says both with one word.
    """
    kept: list[tuple[str, Edit]] = []
    for term, edit in zip(terms, edits, strict=True):
        same = [other for text, other in kept if text == term.text]
        if edit and len(same) < missing[term.text] and not any(_overlap(edit, other) for other in same):
            kept.append((term.text, edit))
    return [edit for _, edit in kept]


def _overlap(first: Edit, second: Edit) -> bool:
    return first[0] < second[1] and second[0] < first[1]


def edited(tokens: list[int], edits: Iterable[Edit]) -> list[int]:
    """The tokens with all edits; of those that overlap, the later one comes after the earlier one."""
    found: list[int] = []
    done = 0
    for start, stop, new in sorted(edits):
        found += [*tokens[done:start], *new]
        done = max(done, stop)
    return found + tokens[done:]


class TermPlacer:
    """Finds out which tokens of a translation a term may replace."""

    def __init__(self, source: Tokenizer, target: Tokenizer):
        self.source, self.target = source, target
        pieces = target.pieces(range(target.vocab_size))
        self._spaces = {index for index, piece in enumerate(pieces) if piece == "▁"}
        self._is_word = [bool(_LETTER.match(piece.lstrip("▁"))) for piece in pieces]
        self._is_joint = [piece == "▁" or piece[-1:] in _JOINTS for piece in pieces]
        self._is_attached = [not piece.startswith("▁") and not is_unspaced(piece[:1]) for piece in pieces]

    def missing(self, terms: Sequence[Term], tokens: list[int]) -> Counter[str]:
        """How often each term, by its text, is lacking in a translation: it should occur as often as in the source."""
        text = self.target.decode(tokens) if terms else ""
        wanted = Counter(term.text for term in terms)
        for term in {term.text: term for term in terms}.values():
            own = term.spelling
            wanted[term.text] -= max(term.count(text), tokens.count(own[0]) if len(own) == 1 else 0)
        return +wanted

    def slot(self, source: list[int], own: int, new: int) -> Term:
        """The token `new` of the target as the term for the token `own` of the source."""
        index, sizes = source.index(own), self._sizes(source)
        before, total = sum(sizes[:index]), sum(sizes)
        return Term(self.target.decode([new]), [new], span=(before / total, (before + sizes[index]) / total))

    def edits(
        self, term: Term, source: list[int], tokens: list[int], weights: Float[Tensor, "tgt_len src_len"], begin: int
    ) -> list[Edit]:
        """The replacements that may put a term into a translation, given its attention to the source.

        The tokens before `begin` stay as they are. There is none where the translation has the term already.
        """
        words = [index for index, token in enumerate(tokens) if index >= begin and self._is_word[token]]
        if not words:
            return [(len(tokens), len(tokens), term.spelling)]
        own = self._positions(source, term)
        attention = weights[:, own].sum(1).tolist()
        best = max(words, key=attention.__getitem__)
        near = {self._word(tokens, i, begin) for i in words if attention[i] >= NEARLY * attention[best]}
        if term.words > 1:
            near |= {self._word(tokens, i, begin) for i in words if int(weights[i].argmax()) in own}
        start, stop = self._word(tokens, best, begin)
        while beside := [w for w in near if w[0] == self._after(tokens, stop) or self._after(tokens, w[1]) == start]:
            start, stop = min(start, beside[0][0]), max(stop, beside[0][1])
        if term.count(self.target.decode(tokens[start:stop])):
            return []
        joined = [i > 0 and self._is_joint[tokens[i - 1]] for i in range(stop)]
        inside = [i for i in range(start, stop) if tokens[i] not in self._spaces]
        begins = [i for i in inside if i == start or joined[i] or not self._is_attached[tokens[i]]]
        replaced = sorted(word for word in near if start <= word[0] < stop)
        last = replaced[-min(term.words, len(replaced))]  # at least as many words are replaced as the source term has
        begins = [i for i in begins if i < last[1]]
        return [(i, stop, term.joined if joined[i] and term.joined else term.spelling) for i in begins]

    def _positions(self, source: list[int], term: Term) -> list[int]:
        """The source tokens of a term; a token has a character if it has its first byte."""
        sizes = self._sizes(source)
        start, stop = (round(share * sum(sizes), 6) for share in term.span)
        ends = enumerate(zip(sizes, accumulate(sizes), strict=True))
        return [index for index, (size, end) in ends if end - size < stop and end > start]

    def _sizes(self, source: list[int]) -> list[int]:
        """Characters of each token."""
        return [sum(byte & 0xC0 != 0x80 for byte in each) for each in self.source.token_bytes(source)]

    def _after(self, tokens: list[int], stop: int) -> int:
        """The token that the word after one which ends at `stop` may begin with."""
        return stop + (tokens[stop : stop + 1] != [] and tokens[stop] in self._spaces)

    def _word(self, tokens: list[int], index: int, begin: int) -> tuple[int, int]:
        """The first token of the word that a token is part of, and the one after its last, joined ones included."""
        start, stop = index, index + 1
        while start > begin and self._is_attached[tokens[start]] and tokens[start - 1] not in self._spaces:
            start -= 1
        for end, token in enumerate(tokens[stop:], start=stop + 1):
            if not self._is_attached[token] or not (self._is_word[token] or self._is_joint[token]):
                break
            stop = end if self._is_word[token] else stop
        return start, stop
