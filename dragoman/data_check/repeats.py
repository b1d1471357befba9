"""Finds pairs and sentences that occur more than once, within a part and across parts; stores only hashes.

Like training, it looks only at the pairs that cleaning keeps, and so it also counts those that `train` leaves out.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from dragoman.data.bitext import Bitext
from dragoman.data.filtering import HELD_OUT, REPEATED, reason_to_drop
from dragoman.data_check.locations import Block, Tally
from dragoman.data_check.result import Check, Finding, Part, PartResult
from dragoman.engine.shapes import Bool, Int64
from dragoman.text.characters import folded, without_label

# Of two million sentences, two have the same 64-bit hash once in ten million runs.


class RepeatCheck(Check):
    """Hashes the pairs of a part that its rules keep: 24 bytes a pair."""

    def __init__(self, result: PartResult):
        super().__init__(result)
        # For each pair its number, the hash of its folded source and the hash of the pair.
        self._rows = array("q")

    def add(self, block: Block) -> None:
        languages = self.result.source.declared, self.result.target.declared
        for number, source, target in block:
            if reason := reason_to_drop(source, target, self.result.rules, languages):
                self.result.dropped[reason] += 1
            else:
                self._rows.extend((number, hash(folded(source)), hash((source, target))))
                self.result.usable += 1

    @property
    def columns(self) -> Int64[np.ndarray, "3 pairs"]:
        """Pair numbers, hashes of the folded source sentences, hashes of the pairs."""
        return np.frombuffer(self._rows, np.int64).reshape(-1, 3).T

    @property
    def repeated_in_corpus(self) -> Bool[np.ndarray, " pairs"]:
        """Mask of the pairs that repeat one of the same corpus."""
        numbers, _, pairs = self.columns
        corpora = np.split(pairs, np.searchsorted(numbers, self.result.locations.starts))
        return np.concatenate([_seen_before(corpus) for corpus in corpora])

    def findings(self) -> Iterator[Finding]:
        """Repeated pairs, and sources with several translations."""
        _, sources, pairs = self.columns
        result, again = self.result, _seen_before(pairs)
        result.different = int((~again).sum())
        if again.any():
            if result.part != "train":
                name = "duplicates held out"
            elif result.rules and result.rules.drop_repeated:
                name = "duplicates"
            else:
                name = "duplicates kept"
            yield result.finding(name, self._tally(again), result.usable)
        retranslated = _seen_before(sources[~again])
        result.different_sources = int((~retranslated).sum())
        if retranslated.any() and result.part == "train":
            several = np.zeros(len(again), bool)
            several[~again] = retranslated
            yield result.finding("translations", self._tally(several), result.usable)

    def _tally(self, mask: Bool[np.ndarray, " pairs"]) -> Tally:
        """The pairs in a mask."""
        return Tally.of(self.columns[0, mask].tolist())

    def shared(self, held_out: "RepeatCheck") -> Tally:
        """The pairs whose source sentence is also in the other part."""
        return self._tally(np.isin(self.columns[1], held_out.columns[1]))


def source_hashes(bitexts: Iterable[Bitext]) -> Int64[np.ndarray, " pairs"]:
    """Hashes of folded source sentences, as `RepeatCheck` has them, without labels."""
    hashes = array("q", (hash(folded(without_label(source))) for bitext in bitexts for source, _ in bitext))
    return np.frombuffer(hashes, np.int64)


def remaining(parts: dict[Part, RepeatCheck], elsewhere: Int64[np.ndarray, " pairs"] | None = None) -> int:
    """Number of different pairs to train on, without those whose source is in another part, or held out `elsewhere`.

    Adds the repeated pairs and those of other parts to the pairs that `train` leaves out.
    """
    train, *held_out = parts.values()
    _, sources, pairs = train.columns
    free = np.ones(len(pairs), bool)
    for part in held_out:
        free &= ~np.isin(sources, part.columns[1])
    if elsewhere is not None:
        free &= ~np.isin(sources, elsewhere)
    dropped = {HELD_OUT: int((~free).sum())}
    if train.result.rules and train.result.rules.drop_repeated:
        dropped[REPEATED] = int((free & train.repeated_in_corpus).sum())
    train.result.dropped += Counter(dropped)
    return int((free & ~_seen_before(pairs)).sum())


def _seen_before(hashes: Int64[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """Mask of the hashes that occur earlier as well."""
    order = np.argsort(hashes, kind="stable")
    again = np.zeros(len(hashes), bool)
    again[order[1:]] = hashes[order[1:]] == hashes[order[:-1]]
    return again


def overlaps(parts: dict[Part, RepeatCheck]) -> Iterator[Finding]:
    """Sentences that two of the parts `train`, `valid` and `test` share."""
    train = parts["train"]
    for name in ("valid", "test"):
        if name in parts:
            tally = train.shared(parts[name])
            if tally.count:
                words = {"part": name, "remaining": train.result.usable - tally.count}
                yield train.result.finding("overlap", tally, train.result.usable, words)
    if "valid" in parts and "test" in parts:
        test = parts["test"]
        tally = test.shared(parts["valid"])
        if tally.count:
            yield test.result.finding("leak", tally, test.result.usable)
