"""Pieces that are joined from those of a pretrained vocabulary."""

import random
from collections import Counter
from itertools import pairwise

from dragoman.text.tokenizers.joined import FEWEST, learn_joined, with_joined, words

TEXTS = [["▁mb", "o", "ja", "pe", "▁o", "ja", "po"], ["▁mb", "o", "ja", "▁che"]] * 10


def test_words_begin_with_a_space() -> None:
    assert list(words(TEXTS[0])) == [("▁mb", "o", "ja", "pe"), ("▁o", "ja", "po")]
    assert list(words([])) == []
    assert list(words(["a", "b", "▁c"])) == [("a", "b"), ("▁c",)]


def test_the_most_frequent_neighbours_are_joined_first_and_never_across_words() -> None:
    joined = learn_joined(TEXTS, ["▁oja"])
    assert next(iter(joined.items())) in [("▁mbo", ("▁mb", "o")), ("oja", ("o", "ja"))]
    assert joined["▁mboja"] == ("▁mb", "o", "ja")
    assert joined["▁mbojape"] == ("▁mb", "o", "ja", "pe")
    assert "▁oja" not in joined  # which is known
    assert all("▁" not in piece[1:] for piece in joined)
    assert learn_joined(TEXTS, [], most=1).keys() <= joined.keys()
    assert not learn_joined(TEXTS[: FEWEST - 1], [])


def by_definition(texts: list[list[str]], most: int) -> list[int]:
    """How often the most frequent pair occurs at each merge, all pairs counted anew."""
    spelled = Counter(word for text in texts for word in words(text))
    counts = []
    for _ in range(most):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in spelled.items():
            for pair in pairwise(word):
                pairs[pair] += count
        if not pairs or max(pairs.values()) < FEWEST:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        counts.append(pairs[best])
        merged: Counter[tuple[str, ...]] = Counter()
        for word, count in spelled.items():
            pieces = [*word]
            place = 0
            while place + 1 < len(pieces):
                if (pieces[place], pieces[place + 1]) == best:
                    pieces[place : place + 2] = [best[0] + best[1]]
                place += 1
            merged[tuple(pieces)] += count
        spelled = merged
    return counts


def test_merges_are_those_of_counting_all_pairs_each_time() -> None:
    rng = random.Random(5)
    texts = [["▁", *rng.choices("abcd", k=rng.randrange(2, 7))] for _ in range(200)]
    joined = learn_joined(texts, [], most=12)
    assert len(joined) == len(by_definition(texts, 12)) == 12
    # The same number of pieces is left of the texts.
    longest = max(map(len, joined.values()))
    assert sum(len(with_joined(text, joined, longest)) for text in texts) < 0.8 * sum(map(len, texts))


def test_the_longest_known_run_of_a_word_is_taken() -> None:
    joined = {"ab": ["a", "b"], "abc": ["a", "b", "c"], "▁ab": ["▁a", "b"]}
    assert with_joined(["a", "b", "c", "a", "b", "▁a", "b", "c", "x"], joined, 3) == ["abc", "ab", "▁ab", "c", "x"]
    assert with_joined(["a", "b", "c"], joined, 2) == ["ab", "c"]
    assert with_joined(["a", "▁b"], {"a▁b": ["a", "▁b"]}, 2) == ["a", "▁b"]
    assert with_joined([], joined, 3) == []
