"""Pairs and sentences that occur more than once, within a part and across parts; remembers hashes alone.

Looks at the pairs that cleaning keeps, as training does, and so knows what else `train` leaves out.
"""

from array import array
from collections import Counter
from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Int64

from dragoman.config.data import CleaningConfig
from dragoman.data.check.places import NUM_EXAMPLES, Block, Tally
from dragoman.data.check.report import Finding, Part, PartReport, severity
from dragoman.data.filtering import HELD_OUT, REPEATED, reason_to_drop
from dragoman.data.text import folded

# Of two million sentences, two have the same 64-bit hash once in ten million runs.


class Repeats:
    """Hashes of the pairs of a part that `rules` keep: 24 bytes a pair."""

    def __init__(self, report: PartReport, rules: CleaningConfig | None = None):
        self.report, self.rules = report, rules
        self._numbers, self._sources, self._pairs = array("q"), array("q"), array("q")
        self._starts: dict[int, int] = {}
        """Where the pairs of each corpus begin."""

    def add(self, block: Block) -> None:
        """Remember a block."""
        usable = [pair for pair in block.numbered() if self._is_kept(pair[1], pair[2])]
        self.report.usable += len(usable)
        self._starts.setdefault(block.corpus, len(self._pairs))
        self._numbers.extend([number for number, _, _ in usable])
        self._sources.extend([hash(folded(source)) for _, source, _ in usable])
        self._pairs.extend([hash((source, target)) for _, source, target in usable])

    def _is_kept(self, source: str, target: str) -> bool:
        if reason := reason_to_drop(source, target, self.rules):
            self.report.dropped[reason] += 1
        return reason is None

    @property
    def sources(self) -> Int64[np.ndarray, " pairs"]:
        """Hashes of the folded source sentences."""
        return np.frombuffer(self._sources, np.int64)

    @property
    def pairs(self) -> Int64[np.ndarray, " pairs"]:
        """Hashes of the pairs."""
        return np.frombuffer(self._pairs, np.int64)

    @property
    def repeated_in_corpus(self) -> Bool[np.ndarray, " pairs"]:
        """Which pairs repeat one of the same corpus."""
        corpora = np.split(self.pairs, list(self._starts.values()))
        return np.concatenate([_seen_before(corpus) for corpus in corpora])

    def findings(self) -> Iterator[Finding]:
        """Repeated pairs, and sources with several translations."""
        report, pairs = self.report, self.pairs
        again = _seen_before(pairs)
        report.different = int((~again).sum())
        if again.any():
            tally, what = self._tally(again), "pairs that repeat another"
            serious = severity(tally.count, report.usable, above=0.05)
            yield report.finding("duplicates", serious, what, tally, report.usable, self._advice())
        sources = self.sources[~again]
        other = _seen_before(sources)
        report.different_sources = int((~other).sum())
        if other.any() and report.part == "train":
            # One translation each is the normal case; the others are counted.
            several = np.zeros(len(pairs), bool)
            several[np.flatnonzero(~again)] = other
            advice = "fine: `train` holds out all translations of a sentence together"
            what = "pairs with a further translation of the same source"
            yield report.finding("translations", "note", what, self._tally(several), report.usable, advice)

    def _advice(self) -> str:
        if self.report.part != "train":
            return "remove them: what stands twice counts twice in the scores"
        if self.rules and self.rules.drop_repeated:
            return "`train` keeps the first of them in each corpus, since copies would count more than the rest"
        return "remove them, or leave it to data.cleaning.drop_repeated: copies count more than the rest"

    def _tally(self, which: Bool[np.ndarray, " pairs"]) -> Tally:
        numbers = np.frombuffer(self._numbers, np.int64)[which]
        return Tally(len(numbers), numbers[:NUM_EXAMPLES].tolist())

    def shared(self, held_out: "Repeats") -> Tally:
        """The pairs whose source sentence is in the other part too."""
        return self._tally(np.isin(self.sources, held_out.sources))


def remaining(parts: dict[Part, Repeats]) -> int:
    """How many different pairs to train on are left without those whose source is in another part.

    Both are counted among what `train` leaves out.
    """
    train, *held_out = parts.values()
    free = np.ones(len(train.pairs), bool)
    for part in held_out:
        free &= ~np.isin(train.sources, part.sources)
    dropped = {HELD_OUT: int((~free).sum())}
    if train.rules and train.rules.drop_repeated:
        dropped[REPEATED] = int((free & train.repeated_in_corpus).sum())
    train.report.dropped += Counter(dropped)
    return int((free & ~_seen_before(train.pairs)).sum())


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
            serious, what = severity(tally.count, total, above=0.05), f"pairs whose source is also in the {name} data"
            yield parts["train"].report.finding("overlap", serious, what, tally, total, advice)
    if {"valid", "test"} <= parts.keys() and (tally := parts["test"].shared(parts["valid"])).count:
        total = parts["test"].report.usable
        advice = "take them out of one: the model is chosen on validation pairs, and test scores come out too high"
        serious, what = (
            severity(tally.count, total, above=0.01),
            "test pairs whose source is also in the validation data",
        )
        yield parts["test"].report.finding("leak", serious, what, tally, total, advice)
