"""The lattice of the unigram model: chances and draws agree with listing all segmentations of a word."""

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from dragoman.text.tokenizers.unigram import Lattice, blocks

PIECES = {"a": 0.2, "b": 0.1, "n": 0.15, "an": 0.25, "na": 0.12, "ana": 0.08, "ban": 0.1}
IDS = {piece: id_ for id_, piece in enumerate(PIECES)}
LOG_PROBS = np.append(np.log(list(PIECES.values())), -np.inf)
WORDS = ["a", "ban", "nan", "banana", "ananab"]


def segmentations(word: str) -> Iterator[tuple[str, ...]]:
    """Every way to split a word into pieces."""
    if not word:
        yield ()
    for end in range(1, len(word) + 1):
        if word[:end] in PIECES:
            yield from ((word[:end], *rest) for rest in segmentations(word[end:]))


def probability(pieces: tuple[str, ...]) -> float:
    return math.prod(PIECES[piece] for piece in pieces)


def test_the_chance_of_a_last_piece_is_its_share_of_the_segmentations() -> None:
    found = Lattice(WORDS, IDS, width=3).last_pieces(LOG_PROBS)
    for row, word in enumerate(WORDS):
        for end in range(1, len(word) + 1):
            shares = Counter()
            for pieces in segmentations(word[:end]):
                shares[len(pieces[-1])] += probability(pieces)
            total = sum(shares.values())
            assert found[row, end - 1] == pytest.approx([shares[size] / total for size in (1, 2, 3)])


@pytest.mark.parametrize("alpha", [1.0, 0.2])
def test_samples_follow_the_probabilities(alpha: float) -> None:
    lattice, drawn = Lattice(["ban", "banana"], IDS, width=3), Counter()
    copies = 20_011
    names = list(PIECES)
    for row in lattice.sample(alpha * LOG_PROBS, np.array([1, copies]), np.random.default_rng(3))[1:]:
        drawn[tuple(names[id_] for id_ in row if id_ >= 0)] += 1
    expected = {pieces: probability(pieces) ** alpha for pieces in segmentations("banana")}
    assert drawn.keys() <= expected.keys()
    for pieces, weight in expected.items():
        share = weight / sum(expected.values())
        # Five standard deviations.
        assert abs(drawn[pieces] / copies - share) < 5 * math.sqrt(share * (1 - share) / copies)


def test_blocks_hold_all_words_and_few_cells() -> None:
    lengths = np.sort(np.random.default_rng(5).integers(1, 97, 30_011))
    found = list(blocks(lengths, 16))
    assert [index for block in found for index in range(len(lengths))[block]] == list(range(len(lengths)))
    assert len(found) > 5
    assert all(len(lengths[block]) * lengths[block].max() * 16 <= 1 << 21 for block in found)
    assert list(blocks(np.array([1 << 23]), 16)) == [slice(0, 1)]
