"""Validation and test pairs, split off by the hashes of their sentences."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from dragoman.config.data import DataConfig
from dragoman.data.bitext import Bitext, CleanedBitext
from dragoman.data.filtering import Seen
from dragoman.data.readers.types import Pair
from dragoman.data.text import split_key, text_hash
from dragoman.errors import DataError

MIN_PAIRS = 10
MAX_HELD_OUT = 2_000
FIRST_DENSE = "\u2e80"
"""Behind it Unicode has Chinese, Japanese and Korean, whose characters are words or syllables, not letters."""
CHARACTERS, DENSE_CHARACTERS = 4.0, 1.7
"""Characters in a token: 3.1 to 4.8 were measured in ten languages with letters, 1.4 in Chinese, 2.0 in Japanese."""


class Splits(NamedTuple):
    """Three bitexts, no two of which share a source sentence, or, if split by line, a pair."""

    train: Bitext
    valid: Bitext
    test: Bitext


def split(bitext: Bitext, *, valid: int, test: int, seed: int, by: str = "sentence") -> Splits:
    """Holds out exactly `valid` and `test` different source sentences, with all their translations.

    Sentences that differ only in case, spacing or normalisation count as one. By "line", different pairs are held out
    instead, and a sentence with several translations may come to be in all parts, as if lines had been shuffled.
    Which ones are drawn depends on `seed` and on the sentences, not on their order: those with the smallest hashes are.
    Drawing makes one pass, with memory for the drawn ones alone; what is left to train on is weighted.
    Raises `DataError` if nothing is.
    """
    key = str(seed).encode()

    def digest(pair: Pair) -> bytes:
        return text_hash(split_key(pair, by), key)

    drawn = _smallest(((digest(pair), pair) for pair in bitext), valid + test + 1)
    if len(drawn) <= valid + test:
        what = "source sentences" if by == "sentence" else "pairs"
        raise DataError(
            f"{bitext.name} has {len(drawn)} different {what}, too few to hold out "
            f"{valid} + {test} and train on others; add pairs or hold out fewer."
        )
    hashes = sorted(drawn)
    held_out = frozenset(hashes[: valid + test])

    def part(name: str, read: Callable[[], Iterable[Pair]]) -> Bitext:
        return Bitext(read, name=f"{bitext.name}.{name}", languages=(bitext.source_language, bitext.target_language))

    def train() -> Iterator[Pair]:
        pairs = bitext.weighted() if isinstance(bitext, CleanedBitext) else bitext
        return (pair for pair in pairs if digest(pair) not in held_out)

    return Splits(
        train=part("train", train),
        valid=part("valid", lambda: [pair for each in hashes[:valid] for pair in drawn[each]]),
        test=part("test", lambda: [pair for each in hashes[valid : valid + test] for pair in drawn[each]]),
    )


class Survey(NamedTuple):
    """What one pass over sentence pairs counts."""

    pairs: int
    tokens: float
    """About how many both sides have."""
    held_out: tuple[int, int]
    """Source sentences, or lines, to hold out for validation and for test."""


def survey(bitext: Bitext, data: DataConfig) -> Survey:
    """Count pairs, and what to hold out of them.

    One pass over the pairs; where the config gives shares, 8 bytes of memory a pair. Raises `DataError` for too few.
    """
    sizes, seen = data.held_out, Seen()
    shares = sizes is not None and min(sizes) < 1
    num_pairs, distinct, tokens = 0, 0, 0.0
    for pair in bitext:
        num_pairs += 1
        tokens += expected_tokens(pair[0]) + expected_tokens(pair[1])
        distinct += shares and seen.add(split_key(pair, data.split))
    if not num_pairs:
        raise DataError(f"{bitext.name} has no pairs to train on; `dragoman data check` says why each is left out.")
    if sizes is None:
        held_out = 0 if data.valid and data.test else default_held_out(num_pairs)
        return Survey(num_pairs, tokens, (held_out, held_out))
    valid, test = (max(1, round(size * distinct)) if size < 1 else size for size in sizes)
    return Survey(num_pairs, tokens, (valid, test))


def expected_tokens(text: str) -> float:
    """About how many tokens a vocabulary of some thousands makes of a text."""
    return len(text) / (DENSE_CHARACTERS if max(text, default="") >= FIRST_DENSE else CHARACTERS)


def default_held_out(num_pairs: int) -> int:
    """How many source sentences to hold out for each of validation and test: 5 %, 1 to 2,000."""
    if num_pairs < MIN_PAIRS:
        raise DataError(
            f"{num_pairs} sentence pairs are too few to hold some out for validation and test; "
            f"give at least {MIN_PAIRS}, or validation and test data of their own."
        )
    return min(MAX_HELD_OUT, max(1, num_pairs // 20))


def _smallest(hashed: Iterable[tuple[bytes, Pair]], count: int) -> dict[bytes, list[Pair]]:
    """The pairs with the `count` smallest different hashes."""
    kept: dict[bytes, list[Pair]] = {}
    bound = b"\xff" * 9  # above every hash, which has 8 bytes
    for digest, pair in hashed:
        if digest <= bound:
            kept.setdefault(digest, []).append(pair)
            if len(kept) == 2 * count:
                kept = {digest: kept[digest] for digest in sorted(kept)[:count]}
                bound = max(kept)
    return {digest: kept[digest] for digest in sorted(kept)[:count]}
