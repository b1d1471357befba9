"""Blocks of entries, which are cleaned one by one, in any process."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from dragoman.config.data import CleaningConfig
from dragoman.data.filtering import HELD_OUT, reason_to_drop
from dragoman.data.readers.types import Entry, Pair, Skipped
from dragoman.text.characters import cut_label, normalised, sentence_hash, share
from dragoman.text.labels import languages_in
from dragoman.text.language_codes import Languages

CHARACTERS_AT_ONCE = 500_000
"""Characters in a block of entries. One block for each core, and its tokens, must fit into memory."""
Piece = TypeVar("Piece", bound=Entry)
Describe = Callable[[Pair, int], Any]
"""Function that turns a pair and the number of its corpus into whatever the caller wants to keep."""


class CorpusFacts(NamedTuple):
    """Facts about a corpus that the cleaning of its blocks needs; sent to other processes with each block."""

    number: int
    languages: Languages
    weight: float
    label: str | None


class JudgedBlock(NamedTuple):
    """Result of cleaning a block of entries on its own; which of its pairs repeat earlier ones is not known yet."""

    corpus: int
    """Number of the corpus that the block is from."""
    dropped: Counter[str]
    """Entries that are left out, by reason."""
    hashes: array
    """Hash of each pair that is not left out."""
    counts: list[int]
    """How often each of these pairs occurs in an epoch."""
    descriptions: list[Any]
    """Result of `Describe` for each of these pairs."""


def judge_block(
    describe: Describe,
    rules: CleaningConfig | None,
    held_out: frozenset[bytes],
    corpus: CorpusFacts,
    entries: list[Entry],
) -> JudgedBlock:
    """Normalise the entries of a block, and drop those that are no pairs, break the rules or are held out."""
    judged = JudgedBlock(corpus.number, Counter(), array("q"), [], [])
    for entry in entries:
        if isinstance(entry, Skipped):
            judged.dropped[entry.reason] += 1
            continue
        source, target = entry
        prefix = corpus.label
        if prefix is None:
            prefix, source = cut_label(source)
        source, target = normalised(source), normalised(target)
        languages = languages_in(prefix) if prefix else corpus.languages
        reason = reason_to_drop(source, target, rules, languages)
        if reason is None and held_out and sentence_hash(source) in held_out:
            reason = HELD_OUT
        if reason:
            judged.dropped[reason] += 1
            continue
        pair = prefix + source, target
        judged.hashes.append(hash(pair))
        judged.counts.append(copies(pair, corpus.weight))
        judged.descriptions.append(describe(pair, corpus.number))
    return judged


def blocks(entries: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Consecutive entries or pairs, with about `CHARACTERS_AT_ONCE` characters.

    A new block begins where the characters of all entries so far pass a multiple of that.
    """
    block: list[Piece] = []
    size, number = 0, 0
    for entry in entries:
        size += 1 if isinstance(entry, Skipped) else len(entry[0]) + len(entry[1])
        if size // CHARACTERS_AT_ONCE > number:
            if block:
                yield block
            block, number = [], size // CHARACTERS_AT_ONCE
        block.append(entry)
    if block:
        yield block


def copies(pair: Pair, weight: float) -> int:
    """How often a pair occurs in an epoch: of weight 2.25, one pair in four three times and the others twice.

    Which ones follows from the pair alone.
    """
    whole = int(weight)
    if whole == weight:
        return whole
    return whole + (share(pair, "copies") < weight - whole)
