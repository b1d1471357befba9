"""Pieces joined from those of a pretrained vocabulary, for a language that it spells in too many.

They are learned as byte-pair encoding learns merges (Sennrich et al. 2016), with pieces where that has bytes: the most
frequent pair of neighbours inside of words becomes a piece, again and again. A text is split into the old pieces first,
and the longest runs that are known become one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

SPACE = "▁"
"""Spelling of a space in pieces, which begins a word."""
MOST, FEWEST = 1_000, 10
"""Most joined pieces, and how often each occurs in the texts, at least."""
Word = tuple[str, ...]


def learn_joined(texts: Iterable[Sequence[str]], known: Iterable[str], *, most: int = MOST) -> dict[str, Word]:
    """New pieces for texts, given as pieces, and the pieces of which each is made; none is `known`."""
    counts = Counter(word for pieces in texts for word in words(pieces))
    parts = {piece: (piece,) for word in counts for piece in word}
    taken = {*known}
    current = {word: word for word in counts}
    """Each word as it is spelled by now."""
    pairs: Counter[tuple[str, str]] = Counter()
    where: dict[tuple[str, str], dict[Word, None]] = defaultdict(dict)
    for word, count in counts.items():
        for pair in pairwise(word):
            pairs[pair] += count
            where[pair][word] = None
    heap = [(-count, pair) for pair, count in pairs.items()]
    heapify(heap)
    joined: dict[str, Word] = {}
    while heap and len(joined) < most:
        negative, pair = heappop(heap)
        count = pairs[pair]
        if count != -negative:  # it has changed since it was put there
            if count >= FEWEST:
                heappush(heap, (-count, pair))
            continue
        if count < FEWEST:
            break
        piece = pair[0] + pair[1]
        if piece in taken:  # the model has chosen not to use it there
            continue
        taken.add(piece)
        joined[piece] = parts[piece] = parts[pair[0]] + parts[pair[1]]
        changed: dict[tuple[str, str], None] = {}
        for word in where.pop(pair, {}):
            before = current[word]
            after = current[word] = _merged(before, pair)
            for old in pairwise(before):
                pairs[old] -= counts[word]
            for new in pairwise(after):
                pairs[new] += counts[word]
                where[new][word] = None
                changed[new] = None
        for new in changed:
            heappush(heap, (-pairs[new], new))
    return joined


def words(pieces: Sequence[str]) -> Iterable[Word]:
    """The pieces of each word; one begins with a space."""
    start = 0
    for index in range(1, len(pieces) + 1):
        if index == len(pieces) or pieces[index].startswith(SPACE):
            yield tuple(pieces[start:index])
            start = index


def with_joined(pieces: Sequence[str], joined: Mapping[str, Sequence[str]], longest: int) -> list[str]:
    """Pieces with the longest runs that are joined ones in their place; `longest` is the most parts of one."""
    result: list[str] = []
    position = 0
    while position < len(pieces):
        best, text = position + 1, pieces[position]
        run = text
        for end in range(position + 1, min(len(pieces), position + longest)):
            if pieces[end].startswith(SPACE):
                break
            run += pieces[end]
            if run in joined:
                best, text = end + 1, run
        result.append(text)
        position = best
    return result


def _merged(word: Word, pair: tuple[str, str]) -> Word:
    """A word with each occurrence of a pair as one piece."""
    merged: list[str] = []
    position = 0
    while position < len(word):
        is_pair = word[position : position + 2] == pair
        merged.append(pair[0] + pair[1] if is_pair else word[position])
        position += 1 + is_pair
    return tuple(merged)
