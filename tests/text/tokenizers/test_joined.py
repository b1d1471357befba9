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


def by_definition(texts: list[list[str]], most: int) -> list[str]:
    """The pieces in the order of their merges, all pairs counted anew each time."""
    spelled = Counter(word for text in texts for word in words(text))
    found: list[str] = []
    while len(found) < most:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in spelled.items():
            for pair in pairwise(word):
                if pair[0] + pair[1] not in found:  # as other parts spell it
                    pairs[pair] += count
        if not pairs or max(pairs.values()) < FEWEST:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        found.append(best[0] + best[1])
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
    return found


def test_merges_are_those_of_counting_all_pairs_each_time() -> None:
    rng = random.Random(5)
    texts = [["▁", *rng.choices("abcd", (5, 3, 2, 1), k=rng.randrange(2, 7))] for _ in range(500)]
    joined = learn_joined(texts, [], most=40)
    assert list(joined) == by_definition(texts, 40)
    assert len(joined) > 30
    longest = max(map(len, joined.values()))
    assert sum(len(with_joined(text, joined, longest)) for text in texts) < 0.7 * sum(map(len, texts))
    rare = [["▁x", "y"]] * 20 + [["▁q", "r"]] * 9
    assert "▁abc" in learn_joined([["▁a", "b", "c"]] * 1000 + rare, [])


def test_the_longest_known_run_of_a_word_is_taken() -> None:
    joined = {"ab": ["a", "b"], "abc": ["a", "b", "c"], "▁ab": ["▁a", "b"]}
    assert with_joined(["a", "b", "c", "a", "b", "▁a", "b", "c", "x"], joined, 3) == ["abc", "ab", "▁ab", "c", "x"]
    assert with_joined(["a", "b", "c"], joined, 2) == ["ab", "c"]
    assert with_joined(["a", "▁b"], {"a▁b": ["a", "▁b"]}, 2) == ["a", "▁b"]
    assert with_joined([], joined, 3) == []
