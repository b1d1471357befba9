"""Pairs and sentences that occur more than once, within a part and across parts; remembers hashes alone."""

from array import array
from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Int64

from dragoman.data.bitext import folded
from dragoman.data.check.report import NUM_EXAMPLES, Block, Finding, Part, PartReport, Tally

# Of two million sentences, two have the same 64-bit hash once in ten million runs.


class Repeats:
    """Hashes of the usable pairs of a part: 24 bytes a pair."""

    def __init__(self, report: PartReport):
        self.report = report
        self._numbers, self._sources, self._pairs = array("q"), array("q"), array("q")

    def add(self, block: Block) -> None:
        """Remember a block."""
        usable = [pair for pair in block.numbered() if pair[1] and pair[2]]
        self._numbers.extend([number for number, _, _ in usable])
        self._sources.extend([hash(folded(source)) for _, source, _ in usable])
        self._pairs.extend([hash((source, target)) for _, source, target in usable])

    @property
    def sources(self) -> Int64[np.ndarray, " pairs"]:
        """Hashes of the folded source sentences."""
        return np.frombuffer(self._sources, np.int64)

    @property
    def pairs(self) -> Int64[np.ndarray, " pairs"]:
        """Hashes of the pairs."""
        return np.frombuffer(self._pairs, np.int64)

    def findings(self) -> Iterator[Finding]:
        """Repeated pairs, and sources with several translations."""
        report, pairs = self.report, self.pairs
        again = _seen_before(pairs)
        report.different = int((~again).sum())
        if again.any():
            tally = self._tally(again)
            advice = "remove them: copies teach nothing new and count more than the rest"
            severity, what = tally.serious(report.usable, above=0.05), "pairs that repeat another"
            yield Finding("duplicates", severity, what, tally, report.usable, advice, report.part)
        sources = self.sources[~again]
        other = _seen_before(sources)
        report.different_sources = int((~other).sum())
        if other.any() and report.part == "train":
            # One translation each is the normal case; the others are counted.
            several = np.zeros(len(pairs), bool)
            several[np.flatnonzero(~again)] = other
            advice = "fine: `train` holds out all translations of a sentence together"
            what = "pairs with a further translation of the same source"
            yield Finding("translations", "note", what, self._tally(several), report.usable, advice, report.part)

    def _tally(self, which: Bool[np.ndarray, " pairs"]) -> Tally:
        numbers = np.frombuffer(self._numbers, np.int64)[which]
        return Tally(len(numbers), numbers[:NUM_EXAMPLES].tolist())

    def shared(self, held_out: "Repeats") -> Tally:
        """The pairs whose source sentence is in the other part too."""
        return self._tally(np.isin(self.sources, held_out.sources))


def remaining(parts: dict[Part, Repeats]) -> int:
    """How many different pairs to train on are left without those whose source is in another part."""
    train, *held_out = parts.values()
    free = ~_seen_before(train.pairs)
    for part in held_out:
        free &= ~np.isin(train.sources, part.sources)
    return int(free.sum())


def _seen_before(hashes: Int64[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """For each, whether it occurs further in front."""
    order = np.argsort(hashes, kind="stable")
    again = np.zeros(len(hashes), bool)
    again[order[1:]] = hashes[order[1:]] == hashes[order[:-1]]
    return again


def overlaps(parts: dict[Part, Repeats]) -> Iterator[Finding]:
    """Sentences that two of the parts `train`, `valid` and `test` share."""
    for name in ("valid", "test"):
        if name in parts and (tally := parts["train"].shared(parts[name])).count:
            total = parts["train"].report.usable
            advice = f"`train` leaves them out, so that the scores stay honest: {total - tally.count:,} pairs remain"
            what = f"pairs whose source is also in the {name} data"
            yield Finding("overlap", tally.serious(total, above=0.05), what, tally, total, advice)
    if {"valid", "test"} <= parts.keys() and (tally := parts["test"].shared(parts["valid"])).count:
        total = parts["test"].report.usable
        advice = "take them out of one: the model is chosen on validation pairs, and test scores come out too high"
        what = "test pairs whose source is also in the validation data"
        severity = tally.serious(total, above=0.01)
        yield Finding("leak", severity, what, tally, total, advice, "test")
