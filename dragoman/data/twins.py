"""Twins: training sentences that are nearly the same as a held-out one, so that a score on it flatters.

Sentences are compared by the sets of their character n-grams, without case, punctuation and the values of digits: their
similarity is the Jaccard index, the share of the n-grams of both that are common to both. All twins above a limit are
found, not only probable ones: a sentence with so many n-grams in common with a held-out one has at least one of its
rarest in common (prefix filtering; Bayardo, Ma and Srikant 2007, "Scaling Up All Pairs Similarity Search").
"""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, compress, islice
from typing import NamedTuple

import numpy as np

from dragoman.data.readers.types import Pair
from dragoman.system.processes import map_on_cores
from dragoman.text.characters import without_label
from dragoman.text.scripts import is_unspaced

SIMILAR = 0.6
"""Similarity from which on sentences are twins."""
LENGTH, UNSPACED_LENGTH = 4, 2
"""Characters of an n-gram, and of one where words are not separated by spaces."""
MOST_HELD_OUT = 20_000
"""Most held-out pairs that should be looked at: each is compared with many of each block."""
KNOWN = 0x20100
"""Characters that are told apart; those beyond are rare Chinese ones."""
PAIRS_AT_ONCE, MEETINGS_AT_ONCE = 20_000, 4_000_000
"""Training pairs that a process is given together, and pairs of a held-out and a training sentence in memory."""
PROBED_BITS = 22
"""Bits of a hash that are looked up before the hash itself."""
_LINE, _EDGE, EDGES = 10, 2, 2
"""Characters that end a sentence, and that stand around one, twice, so that the shortest has n-grams, too."""


class Twins(NamedTuple):
    """The similarity of each held-out pair to the training sentence that is nearest to it, from 0 to 1."""

    sources: np.ndarray
    targets: np.ndarray

    def indices(self, limit: float = SIMILAR) -> list[int]:
        """The pairs with a twin on either side."""
        return np.flatnonzero(np.maximum(self.sources, self.targets) >= limit).tolist()


def find_twins(held_out: Sequence[Pair], train: Iterable[Pair], *, limit: float = SIMILAR) -> Twins:
    """The similarity of each held-out pair to the training pairs. One below `limit` may be told as 0.

    Takes a pass over the training pairs, on all cores.
    """
    blocks = _blocks(train)
    first = next(blocks, ())
    indices = BothSides(held_out, usual=first, limit=limit)
    nearest = [np.zeros(len(held_out), np.float32) for _ in range(2)]
    for nearest_in_block in map_on_cores(indices.nearest, chain([first], blocks)):
        for best, of_side in zip(nearest, nearest_in_block, strict=True):
            np.maximum(best, of_side, out=best)
    return Twins(*nearest)


def training_twins(held_out: Sequence[Pair], train: Iterable[Pair], *, limit: float = SIMILAR) -> Iterator[Pair]:
    """The training pairs that are twins of a held-out pair, on either side, in their order.

    Takes a pass over the training pairs, on all cores.
    """
    if not held_out:
        return
    blocks = _blocks(train)
    first = next(blocks, ())
    indices = BothSides(held_out, usual=first, limit=limit)
    for twins_in_block in map_on_cores(indices.twins, chain([first], blocks)):
        yield from twins_in_block


class BothSides:
    """Indices of the source sentences and of the target sentences of held-out pairs. Labels of languages are ignored.

    Its methods take the pairs of a block as single arguments, as `map_on_cores` gives them.
    """

    def __init__(self, held_out: Sequence[Pair], *, usual: Sequence[Pair] = (), limit: float = SIMILAR) -> None:
        """`usual` are some pairs of the kind that will be compared, as in `TwinIndex`."""
        self.limit = limit
        self.indices = [
            TwinIndex(texts, usual=usual_texts, limit=limit)
            for texts, usual_texts in zip(_sides(held_out), _sides(usual), strict=True)
        ]

    def nearest(self, *pairs: Pair) -> list[np.ndarray]:
        """For each side the similarity of each held-out sentence to the nearest one of `pairs`."""
        return [index.nearest(texts) for index, texts in zip(self.indices, _sides(pairs), strict=True)]

    def twins(self, *pairs: Pair) -> list[Pair]:
        """The pairs among `pairs` that are twins of a held-out pair."""
        source_twins, target_twins = (
            index.are_twins(texts) for index, texts in zip(self.indices, _sides(pairs), strict=True)
        )
        return list(compress(pairs, source_twins | target_twins))


def _sides(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    """The source sentences, without labels, and the target sentences."""
    return [without_label(source) for source, _ in pairs], [target for _, target in pairs]


def _blocks(pairs: Iterable[Pair]) -> Iterator[tuple[Pair, ...]]:
    remaining = iter(pairs)
    while block := tuple(islice(remaining, PAIRS_AT_ONCE)):
        yield block


class _Matches(NamedTuple):
    """Held-out sentences and others that may be their twins, by index, and the similarity of each such two."""

    held_out: np.ndarray
    others: np.ndarray
    similarity: np.ndarray


class TwinIndex:
    """Held-out sentences by their n-grams."""

    def __init__(self, texts: Sequence[str], *, usual: Sequence[str] = (), limit: float = SIMILAR):
        """`usual` are some texts of the kind that will be compared: n-grams that are rare in them are looked up."""
        self.count, self.limit = len(texts), limit
        self._grams = _grams(texts)
        self._known = _key(*self._grams)
        """All n-grams of all sentences, sorted by sentence."""
        self._sizes = self._grams.sizes(self.count)
        indexed = self._rarest(_grams(usual))
        order = np.argsort(indexed.hashes, kind="stable")
        self._hashes, starts = np.unique(indexed.hashes[order], return_index=True)
        """The hashes that are looked up, sorted."""
        self._ends = np.append(starts, len(order))
        """Positions in `_sentences` at which the sentences of each hash begin; behind them that of the end."""
        self._sentences = indexed.sentences[order]
        """The sentences that have each hash, one hash after the other."""
        self._indexed_sizes = indexed.sizes(self.count)
        self._may_be_there = np.zeros(1 << PROBED_BITS, bool)
        self._may_be_there[_probed(self._hashes)] = True

    def nearest(self, texts: Sequence[str]) -> np.ndarray:
        """For each held-out sentence the similarity of the nearest of `texts`; below the limit it may be 0."""
        nearest = np.zeros(self.count, np.float32)
        for matches in self._matches(texts):
            np.maximum.at(nearest, matches.held_out, matches.similarity)
        return nearest

    def are_twins(self, texts: Sequence[str]) -> np.ndarray:
        """For each of `texts`, whether it is a twin of a held-out sentence."""
        are_twins = np.zeros(len(texts), bool)
        for matches in self._matches(texts):
            are_twins[matches.others[matches.similarity >= self.limit]] = True
        return are_twins

    def _matches(self, texts: Sequence[str]) -> Iterator[_Matches]:
        """All twins, and some that are less similar, a part of `texts` at a time."""
        at_once = max(1, MEETINGS_AT_ONCE // max(1, self.count))
        for first in range(0, len(texts), at_once):
            matches = self._matches_of_part(texts[first : first + at_once])
            yield matches._replace(others=matches.others + first)

    def _matches_of_part(self, texts: Sequence[str]) -> _Matches:
        grams = _grams(texts)
        sizes = grams.sizes(len(texts))
        ours, theirs, shared = self._meetings(grams, len(texts))
        # Twins have at least so many n-grams in common. So both are that long, and the other sentence lacks at most the
        # rest of those of the held-out one, and shares all others that are indexed.
        lengths = self._sizes[ours] + sizes[theirs]
        needed = _at_least(lengths * self.limit / (1 + self.limit))
        are_long = np.minimum(self._sizes[ours], sizes[theirs]) >= needed
        is_possible = are_long & (shared >= self._indexed_sizes[ours] - (self._sizes[ours] - needed))
        ours, theirs = ours[is_possible], theirs[is_possible]
        common = self._common(ours, theirs, grams, sizes)
        similarity = common / (self._sizes[ours] + sizes[theirs] - common)
        return _Matches(ours, theirs, similarity.astype(np.float32))

    def _rarest(self, usual: "_Grams") -> "_Grams":
        """So many n-grams of each sentence, the rarest in `usual` ones, that a twin has at least one of them."""
        known = np.sort(np.concatenate([usual.hashes, self._grams.hashes]))
        counts = np.searchsorted(known, self._grams.hashes, "right") - np.searchsorted(known, self._grams.hashes)
        order = np.lexsort((counts, self._grams.sentences))
        sentences, hashes = self._grams.sentences[order], self._grams.hashes[order]
        firsts = np.cumsum(self._sizes) - self._sizes
        rank = np.arange(len(sentences)) - firsts[sentences]
        kept = rank <= self._sizes[sentences] - _at_least(self.limit * self._sizes[sentences])
        return _Grams(sentences[kept], hashes[kept])

    def _meetings(self, grams: "_Grams", others_count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Held-out sentences, other sentences, and the number of indexed n-grams that they share, if there are any."""
        probable = self._may_be_there[_probed(grams.hashes)]
        hashes, others = grams.hashes[probable], grams.sentences[probable]
        places = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        is_indexed = self._hashes[places] == hashes if len(self._hashes) else np.zeros(len(hashes), bool)
        places, others = places[is_indexed], others[is_indexed]
        starts, counts = self._ends[places], self._ends[places + 1] - self._ends[places]
        ours = self._sentences[_ranges(starts, counts)]
        shared = np.bincount(np.repeat(others, counts) * self.count + ours, minlength=others_count * self.count)
        meetings = np.flatnonzero(shared)
        return meetings % self.count, meetings // self.count, shared[meetings]

    def _common(self, ours: np.ndarray, theirs: np.ndarray, grams: "_Grams", sizes: np.ndarray) -> np.ndarray:
        """The number of n-grams that each held-out sentence shares with the other one."""
        firsts = np.cumsum(sizes) - sizes
        wanted = grams.hashes[_ranges(firsts[theirs], sizes[theirs])]
        meetings = np.repeat(np.arange(len(ours)), sizes[theirs])
        keys = _key(np.repeat(ours, sizes[theirs]), wanted)
        places = np.minimum(np.searchsorted(self._known, keys), len(self._known) - 1)
        return np.bincount(meetings[self._known[places] == keys], minlength=len(ours))


class _Grams(NamedTuple):
    """The different n-grams of some sentences, by sentence."""

    sentences: np.ndarray
    hashes: np.ndarray

    def sizes(self, count: int) -> np.ndarray:
        """The number of n-grams of each of `count` sentences."""
        return np.bincount(self.sentences, minlength=count)


def _grams(texts: Sequence[str]) -> _Grams:
    """The n-grams of texts, sorted by text and hash."""
    edge = chr(_EDGE) * EDGES
    joined = f"{edge}\n{edge}".join(text.replace("\n", " ") for text in texts)
    joined = f"{edge}{joined}{edge}" + "\n" * LENGTH  # so that the shorter n-grams at the end have what may follow
    codes = np.frombuffer(joined.encode("utf-32-le", errors="surrogatepass"), np.uint32)
    table, is_unspaced = _tables()
    codes = table[np.minimum(codes, len(table) - 1)]
    codes = _with_single_spaces(codes)
    is_end = codes == _LINE
    sentences = np.cumsum(is_end)
    count = len(codes) - LENGTH + 1
    is_short = is_unspaced[codes[:count]]
    last = sentences[LENGTH - 1 :].copy()
    last[is_short] = sentences[UNSPACED_LENGTH - 1 :][:count][is_short]
    hashes = np.zeros(count, np.uint32)
    for offset in range(LENGTH):
        following = codes[offset : offset + count]
        if offset >= UNSPACED_LENGTH:
            following = np.where(is_short, np.uint32(0), following)
        hashes = (hashes ^ following) * np.uint32(0x9E3779B1)
        hashes ^= hashes >> np.uint32(15)
    # What has no letter, such as a mark or a number, is near to nothing.
    is_letter = ~np.isin(codes, [ord(" "), ord("0"), _EDGE, _LINE])
    has_letter = np.zeros(count, bool)
    for offset in range(LENGTH):
        has_letter |= is_letter[offset : offset + count] & ~(is_short & (offset >= UNSPACED_LENGTH))
    inside = (sentences[:count] == last) & ~is_end[:count] & has_letter
    keys = np.sort(_key(sentences[:count][inside], hashes[inside]))
    keys = keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys
    return _Grams((keys >> np.uint64(32)).astype(np.int64), keys.astype(np.uint32))


def _with_single_spaces(codes: np.ndarray) -> np.ndarray:
    """One space instead of several, and then none beside an edge."""
    codes = codes[~((codes == ord(" ")) & (np.roll(codes, 1) == ord(" ")))]
    beside_edge = (np.roll(codes, 1) == _EDGE) | (np.roll(codes, -1) == _EDGE)
    return codes[~((codes == ord(" ")) & beside_edge)]


@lru_cache(maxsize=1)
def _tables() -> tuple[np.ndarray, np.ndarray]:
    """For each character the one that it counts as: its small letter, 0 for a digit, a space for what is no word.

    And whether it is of a script without spaces between words.
    """
    table = np.arange(KNOWN, dtype=np.uint32)
    for code in range(len(table)):
        character = chr(code)
        kind = unicodedata.category(character)
        if kind[0] == "N":
            table[code] = ord("0")
        elif kind[0] in "PSZC" and code not in (_LINE, _EDGE):
            table[code] = ord(" ")
        elif kind[0] == "L":
            table[code] = ord(character.lower()[0])
    without_spaces = np.array([is_unspaced(chr(code)) for code in range(len(table))])
    return table, without_spaces


def _key(sentences: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """A number for each sentence and hash."""
    return sentences.astype(np.uint64) << np.uint64(32) | hashes


def _at_least(bound: np.ndarray) -> np.ndarray:
    """The smallest whole numbers that reach a bound, which rounding may have raised."""
    return np.ceil(bound - 1e-9)


def _probed(hashes: np.ndarray) -> np.ndarray:
    return hashes >> np.uint32(32 - PROBED_BITS)


def _ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The numbers start, start + 1 ... of each range, one range after the other."""
    before = np.repeat(np.cumsum(counts) - counts, counts)
    return np.arange(counts.sum()) - before + np.repeat(starts, counts)
