"""Validation and test pairs, split off by the hashes of their sentences.

By "groups", near-duplicates of held-out pairs are neither trained on nor held out, but left out. With the default sizes
these are 0.7 % of the training pairs of Multi30k, 2.6 % of 167,000 pairs of Tatoeba English-French, and 5.3 % of 29,000
English-Chinese ones. To hold them out as well costs more, because their own near-duplicates would have to follow, and
those of these: training would lose 12 % of the English-French pairs. The test pairs are the same as by "sentence", so
that the scores of both can be compared.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from dragoman.config.data import DataConfig
from dragoman.data.bitext import Bitext, CleanedBitext
from dragoman.data.pair_file import Counts, PairFile, pair_hash, parsed, split_hash
from dragoman.data.readers.types import Pair
from dragoman.data.twins import MOST_HELD_OUT, training_twins
from dragoman.errors import DataError

MIN_PAIRS = 10
MAX_HELD_OUT = 2_000
Item = TypeVar("Item")


class Splits(NamedTuple):
    """Three bitexts that share no source sentence, or, if split by line, no pair.

    If split by groups, no pair has a twin in another part either.
    """

    train: Bitext
    valid: Bitext
    test: Bitext


def split(bitext: Bitext, *, valid: int, test: int, seed: int, by: str = "sentence") -> Splits:
    """Holds out exactly `valid` and `test` different source sentences, with all their translations.

    Sentences that differ only in case, spacing or normalisation count as one. By "line", different pairs are held out
    instead, and a sentence with several translations may come to be in all parts, as if lines had been shuffled. By
    "groups", the same source sentences are held out as by "sentence". Training pairs that are twins (see
    `dragoman.data.twins`) of held-out pairs are left out, and so are validation pairs that are twins of test pairs.
    This takes another pass, on all cores.

    Held out are the sentences with the smallest hashes, which depend on `seed` but not on the order of the corpus. A
    `PairFile` has its hashes already: they follow from the seed and the split of its config. Drawing takes one pass,
    with memory for the drawn pairs alone. Only training pairs are repeated by their weights. Raises `DataError` if no
    pair is left to train on, or, by "groups", none to validate on or more than `MOST_HELD_OUT` are held out.
    """

    def digest(pair: Pair) -> str:
        return split_hash(pair, by, seed)

    if isinstance(bitext, PairFile):
        lines_by_hash = smallest(bitext.hashed(), valid + test + 1)
        drawn = {hash_: [parsed(line)[0] for line in lines] for hash_, lines in lines_by_hash.items()}
    else:
        drawn = smallest(((digest(pair), pair) for pair in bitext), valid + test + 1)
    if len(drawn) <= valid + test:
        counted = "pairs" if by == "line" else "source sentences"
        raise DataError(
            f"{bitext.name} has {len(drawn)} different {counted}, too few to hold out {valid} + {test} and train on "
            "others; add pairs or hold out fewer."
        )
    hashes = sorted(drawn)
    held_out = frozenset(hashes[: valid + test])
    valid_pairs = [pair for hash_ in hashes[:valid] for pair in drawn[hash_]]
    test_pairs = [pair for hash_ in hashes[valid : valid + test] for pair in drawn[hash_]]

    def part(name: str, read: Callable[[], Iterable[Pair]]) -> Bitext:
        return Bitext(read, name=f"{bitext.name}.{name}", languages=(bitext.source_language, bitext.target_language))

    def unweighted() -> Iterator[Pair]:
        if isinstance(bitext, PairFile):
            return (parsed(line)[0] for line in bitext.without(held_out).lines())
        return (pair for pair in bitext if digest(pair) not in held_out)

    left_out: frozenset[str] = frozenset()
    if by == "groups":
        _check_number(valid_pairs + test_pairs, bitext.name)
        twins = {pair_hash(pair) for pair in training_twins(valid_pairs + test_pairs, unweighted())}
        valid_twins = set(training_twins(test_pairs, valid_pairs))
        valid_pairs = [pair for pair in valid_pairs if pair not in valid_twins]
        left_out = frozenset(twins.union(map(pair_hash, valid_twins)))

    def train() -> Iterator[Pair]:
        pairs = bitext.weighted() if isinstance(bitext, CleanedBitext) else bitext
        kept = (pair for pair in pairs if digest(pair) not in held_out)
        return (pair for pair in kept if pair_hash(pair) not in left_out) if left_out else kept

    parts = Splits(
        train=bitext.without(held_out, left_out) if isinstance(bitext, PairFile) else part("train", train),
        valid=part("valid", lambda: valid_pairs),
        test=part("test", lambda: test_pairs),
    )
    if left_out:
        _check_remainder(parts, validates=valid > 0, name=bitext.name)
    return parts


def without_twins(pairs: Bitext, held_out: list[Pair]) -> Bitext:
    """The pairs that are no twins of held-out ones. Finding these takes a pass, now."""
    _check_number(held_out, pairs.name)
    left_out = {pair_hash(pair) for pair in training_twins(held_out, pairs)}
    if not left_out:
        return pairs
    return pairs.where(lambda pair: pair_hash(pair) not in left_out)


def _check_number(held_out: list[Pair], name: str) -> None:
    """Raise `DataError` if there are too many held-out pairs to compare them with all others."""
    if len(held_out) > MOST_HELD_OUT:
        raise DataError(
            f"{len(held_out):,} pairs would be held out of {name}, but data.split=groups compares at most "
            f"{MOST_HELD_OUT:,} with the training pairs; hold out fewer (data.held_out), or set data.split=sentence."
        )


def _check_remainder(parts: Splits, *, validates: bool, name: str) -> None:
    """Raise `DataError` if near-duplicates were all that there is to train or to validate on."""
    remedy = "add pairs, hold out fewer (data.held_out), or set data.split=sentence."
    if next(iter(parts.train), None) is None:
        raise DataError(f"All other pairs of {name} are nearly the same as held-out ones (data.split=groups); {remedy}")
    if validates and next(iter(parts.valid), None) is None:
        raise DataError(
            f"All validation pairs of {name} are nearly the same as test pairs (data.split=groups); {remedy}"
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
