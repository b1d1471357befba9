"""Validation and test pairs, split off by the hashes of their sentences."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from dragoman.config.data import DataConfig
from dragoman.data.bitext import Bitext, CleanedBitext
from dragoman.data.pair_file import Counts, PairFile, parsed
from dragoman.data.readers.types import Pair
from dragoman.errors import DataError
from dragoman.text.characters import split_key, text_hash

MIN_PAIRS = 10
MAX_HELD_OUT = 2_000
Item = TypeVar("Item")


class Splits(NamedTuple):
    """Three bitexts that share no source sentence, or, if split by line, no pair."""

    train: Bitext
    valid: Bitext
    test: Bitext


def split(bitext: Bitext, *, valid: int, test: int, seed: int, by: str = "sentence") -> Splits:
    """Holds out exactly `valid` and `test` different source sentences, with all their translations.

    Sentences that differ only in case, spacing or normalisation count as one. By "line", different pairs are held out
    instead, and a sentence with several translations may come to be in all parts, as if lines had been shuffled.
    Held out are the sentences with the smallest hashes, which depend on `seed` but not on the order of the corpus. A
    `PairFile` has its hashes already: they follow from the seed and the split of its config. Drawing takes one pass,
    with memory for the drawn pairs alone. Only training pairs are repeated by their weights. Raises `DataError` if no
    pair is left to train on.
    """
    key = str(seed).encode()

    def digest(pair: Pair) -> str:
        return text_hash(split_key(pair, by), key).hex()

    if isinstance(bitext, PairFile):
        lines_by_hash = smallest(bitext.hashed(), valid + test + 1)
        drawn = {hash_: [parsed(line)[0] for line in lines] for hash_, lines in lines_by_hash.items()}
    else:
        drawn = smallest(((digest(pair), pair) for pair in bitext), valid + test + 1)
    if len(drawn) <= valid + test:
        counted = "source sentences" if by == "sentence" else "pairs"
        raise DataError(
            f"{bitext.name} has {len(drawn)} different {counted}, too few to hold out {valid} + {test} and train on "
            "others; add pairs or hold out fewer."
        )
    hashes = sorted(drawn)
    held_out = frozenset(hashes[: valid + test])

    def part(name: str, read: Callable[[], Iterable[Pair]]) -> Bitext:
        return Bitext(read, name=f"{bitext.name}.{name}", languages=(bitext.source_language, bitext.target_language))

    def train() -> Iterator[Pair]:
        pairs = bitext.weighted() if isinstance(bitext, CleanedBitext) else bitext
        return (pair for pair in pairs if digest(pair) not in held_out)

    def pairs_of(hashes: list[str]) -> list[Pair]:
        return [pair for hash_ in hashes for pair in drawn[hash_]]

    return Splits(
        train=bitext.without(held_out) if isinstance(bitext, PairFile) else part("train", train),
        valid=part("valid", lambda: pairs_of(hashes[:valid])),
        test=part("test", lambda: pairs_of(hashes[valid : valid + test])),
    )


def sizes_to_hold_out(counts: Counts, data: DataConfig, name: str) -> tuple[int, int]:
    """Number of source sentences, or lines, to hold out for validation and for test.

    Raises `DataError` for too few pairs.
    """
    if not counts.pairs:
        raise DataError(f"{name} has no pairs to train on; `dragoman data check` says why each is left out.")
    if data.held_out is None:
        held_out = 0 if data.holds_out_all else default_held_out(counts.pairs)
        return held_out, held_out
    valid, test = (max(1, round(size * counts.distinct)) if size < 1 else size for size in data.held_out)
    return valid, test


def default_held_out(num_pairs: int) -> int:
    """Number of source sentences to hold out for each of validation and test: 5 % of the pairs, 1 to 2,000."""
    if num_pairs < MIN_PAIRS:
        raise DataError(
            f"{num_pairs} sentence pairs are too few to hold some out for validation and test; "
            f"give at least {MIN_PAIRS}, or validation and test data of their own."
        )
    return min(MAX_HELD_OUT, max(1, num_pairs // 20))


def smallest(hashed: Iterable[tuple[str, Item]], count: int) -> dict[str, list[Item]]:
    """The pairs, or their lines, with the `count` smallest different hashes, by their hash in ascending order."""
    kept: dict[str, list[Item]] = {}
    bound = "g"  # above every hash, which has hexadecimal digits
    for digest, item in hashed:
        if digest <= bound:
            kept.setdefault(digest, []).append(item)
            if len(kept) == 2 * count:
                kept = {digest: kept[digest] for digest in sorted(kept)[:count]}
                bound = max(kept)
    return {digest: kept[digest] for digest in sorted(kept)[:count]}
