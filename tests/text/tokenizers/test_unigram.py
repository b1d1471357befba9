"""The unigram model: sums, expectations and draws agree with listing all segmentations of a word."""

import math
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dragoman.text.tokenizers.unigram import Lattice, blocks, train_unigram

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


def test_the_probability_of_a_word_is_the_sum_over_its_segmentations() -> None:
    sums, _ = Lattice(WORDS, IDS, width=3).sum(LOG_PROBS)
    assert np.exp(sums) == pytest.approx([sum(map(probability, segmentations(word))) for word in WORDS])


def test_without_the_unsplit_word_the_other_segmentations_are_left() -> None:
    sums, _ = Lattice(["ban", "ana"], IDS, width=3, unsplit=False).sum(LOG_PROBS)
    others = [sum(probability(pieces) for pieces in segmentations(word) if len(pieces) > 1) for word in ("ban", "ana")]
    assert np.exp(sums) == pytest.approx(others)


def test_expected_counts_weigh_the_pieces_of_all_segmentations() -> None:
    weights = [2.0, 3.0, 5.0, 7.0, 11.0]
    expected = Counter()
    for word, weight in zip(WORDS, weights, strict=True):
        total = sum(map(probability, segmentations(word)))
        for pieces in segmentations(word):
            for piece in pieces:
                expected[piece] += weight * probability(pieces) / total
    counts = Lattice(WORDS, IDS, width=3).expected_counts(LOG_PROBS, np.array(weights))
    assert counts == pytest.approx([expected[piece] for piece in PIECES])


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


def corpus(seed: int) -> Counter[str]:
    """Words of stems and endings, with their counts."""
    rng = random.Random(seed)
    stems = ["".join(rng.choices("abcdefgh", k=rng.randint(3, 6))) for _ in range(37)]
    return Counter(rng.choice(stems) + rng.choice(["", "ing", "ed", "s"]) for _ in range(2003))


def test_training_finds_the_parts_that_words_are_made_of() -> None:
    words = corpus(7)
    learned = dict(train_unigram(words, alphabet="abcdefghins", size=71))
    assert len(learned) <= 71
    assert {"ing", "ed"} <= learned.keys()
    assert set("abcdefghins") <= learned.keys()
    assert sum(map(math.exp, learned.values())) == pytest.approx(1, abs=1e-5)
    # A random vocabulary of the same size with its best probabilities explains the words worse.
    assert likelihood(words, learned) > likelihood(words, dict.fromkeys("abcdefghins", math.log(1 / 11)))


def likelihood(words: Counter[str], pieces: dict[str, float]) -> float:
    ids = {piece: id_ for id_, piece in enumerate(pieces)}
    log_probs = np.append(list(pieces.values()), -np.inf)
    sums, _ = Lattice(list(words), ids, width=max(map(len, pieces))).sum(log_probs)
    return float(sums @ list(words.values()))


def test_expectation_maximisation_reaches_a_fixed_point_where_no_piece_is_dropped() -> None:
    """Of "ab" and "a", "b" alone: by hand, the likelihood is greatest where "ab" takes all words "ab"."""
    learned = dict(train_unigram(Counter({"ab": 600, "a": 200, "b": 200}), alphabet="ab", size=3))
    # The first counts are 1 for a letter and the number of its occurrences for any other piece.
    a, b, ab = 1.0, 1.0, 600.0
    for _ in range(2):
        total = a + b + ab
        whole = (ab / total) / (ab / total + (a / total) * (b / total))
        a, b, ab = 200 + 600 * (1 - whole), 200 + 600 * (1 - whole), 600 * whole
    total = a + b + ab
    assert {piece: math.exp(score) for piece, score in learned.items()} == pytest.approx(
        {"a": a / total, "b": b / total, "ab": ab / total}, abs=1e-5
    )


def test_pieces_do_not_split_characters() -> None:
    # "é" and "è" are C3 A9 and C3 A8, spelled "Ã©" and "Ã¨".
    letters = sorted({*"aÃ©¨"})
    learned = dict(train_unigram(Counter({"aÃ©Ã¨": 31, "aÃ¨Ã©": 31}), alphabet=letters, size=11))
    assert all(piece in letters or (piece[0] not in "©¨" and piece[-1] != "Ã") for piece in learned)
    assert len(learned) > len(letters)


def test_no_words_leave_the_letters() -> None:
    assert [piece for piece, _ in train_unigram(Counter(), alphabet="ab", size=5)] == ["a", "b"]


TRAIN = """
import random, sys
from dragoman.text.tokenizers.tokenizer import Tokenizer
rng = random.Random(5)
words = ["".join(rng.choices("abcdefghij\u00e9\u3042", k=rng.randint(1, 7))) for _ in range(307)]
texts = [" ".join(rng.choices(words, k=rng.randint(1, 11))) for _ in range(2003)]
Tokenizer.train(texts[::int(sys.argv[2])], vocab_size=701, kind="unigram").save(sys.argv[1])
"""


@pytest.mark.slow
def test_training_gives_the_same_bytes_whatever_the_threads_and_the_order(tmp_path: Path) -> None:
    for run, (threads, hash_seed, step) in enumerate([("1", "1", "1"), ("2", "2", "-1")]):
        environment = os.environ | {
            "RAYON_NUM_THREADS": threads,
            "OMP_NUM_THREADS": threads,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": str(Path(__file__).parents[3]),
        }
        subprocess.run([sys.executable, "-c", TRAIN, str(tmp_path / f"{run}.json"), step], env=environment, check=True)
    assert (tmp_path / "0.json").read_bytes() == (tmp_path / "1.json").read_bytes()
