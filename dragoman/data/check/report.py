"""What a check found: findings, sizes and a verdict, as values; how they look is in `cli/data.py`."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from dragoman.data.check.places import Place, Places, Tally

RATIO_STEPS = 50
"""Ratios are counted in steps of 2 %: as whole numbers, this many for each power of e."""

Severity = Literal["problem", "note"]
Part = Literal["train", "valid", "test"]


def severity(count: int, total: int, *, above: float) -> Severity:
    """A problem if more than this share of `total` has it, and more than one or two."""
    return "problem" if count > max(2, above * total) else "note"


@dataclass(frozen=True)
class Finding:
    """One thing that was found: what, how often, where first, what to do."""

    kind: str
    severity: Severity
    what: str
    """A phrase that a number follows: "pairs with an empty target"."""
    count: int
    examples: list[Place]
    """Where it was seen first."""
    total: int
    """The number of pairs that were looked at: all, or a sample."""
    advice: str
    part: Part = "train"

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.count / self.total if self.total else 0.0

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        examples = [place._asdict() for place in self.examples]
        return asdict(self) | {"examples": examples, "share": round(self.share, 6)}


class Kind(NamedTuple):
    """A kind of finding that pairs are counted for."""

    name: str
    what: str
    above: float
    """The share of all pairs from which on it is a problem."""
    advice: str


class Tallies:
    """A tally for each of some kinds."""

    def __init__(self, report: "PartReport", kinds: tuple[Kind, ...]):
        self.report, self._kinds = report, kinds
        self._tallies = {kind.name: Tally() for kind in kinds}

    def add(self, name: str, number: int) -> None:
        """The pair of this number is of the kind of this name."""
        self._tallies[name].add(number)

    def findings(self) -> Iterator[Finding]:
        """The kinds that were seen."""
        total = self.report.pairs
        for kind in self._kinds:
            if (tally := self._tallies[kind.name]).count:
                serious = severity(tally.count, total, above=kind.above)
                yield self.report.finding(kind.name, serious, kind.what, tally, total, kind.advice)


@dataclass
class Distribution:
    """Whole numbers, counted: exact mean and percentiles in the memory of the different values."""

    counts: Counter[int] = field(default_factory=Counter)

    @property
    def mean(self) -> float:
        """0 if nothing was counted."""
        return sum(value * n for value, n in self.counts.items()) / max(1, self.counts.total())

    def percentile(self, percent: float) -> int:
        """The smallest value that at least this share of all do not exceed; 0 if nothing was counted."""
        left = percent / 100 * self.counts.total()
        for value in sorted(self.counts):
            left -= self.counts[value]
            if left <= 0:
                return value
        return 0

    def histogram(self, num_bars: int, end: int) -> list[int]:
        """How many are in each of equal intervals from 0 to `end`; those above are in the last."""
        bars = [0] * num_bars
        for value, n in self.counts.items():
            bars[min(num_bars - 1, value * num_bars // max(1, end))] += n
        return bars

    def to_dict(self) -> dict[str, float]:
        """For JSON."""
        quantiles = {f"p{percent}": self.percentile(percent) for percent in (5, 25, 50, 75, 95, 99)}
        return {"mean": round(self.mean, 2)} | quantiles | {"max": max(self.counts, default=0)}


@dataclass
class Side:
    """One language of a part."""

    declared: str | None
    """The code in the name of the file."""
    detected: str | None = None
    """The code that most of the text looks like."""
    characters: Distribution = field(default_factory=Distribution)
    words: Distribution = field(default_factory=Distribution)
    """Separated by white space; of little meaning for languages that do not separate them."""


@dataclass
class PartReport:
    """The pairs to train on, or a part that was held out."""

    part: Part
    name: str
    source: Side
    target: Side
    places: Places = field(default_factory=Places)
    pairs: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """Entries that `train` leaves out, by reason, and those of the files that are no pairs."""
    usable: int = 0
    """Pairs that no rule of cleaning leaves out; repeated ones are among them."""
    different: int = 0
    """Usable pairs that differ from one another."""
    different_sources: int = 0
    log_ratios: Distribution = field(default_factory=Distribution)
    """Of target to source characters, as RATIO_STEPS times the natural logarithm."""

    @property
    def entries(self) -> int:
        """Pairs, and what the files have instead of one."""
        return self.pairs + sum(tally.count for tally in self.places.skipped.values())

    def finding(self, kind: str, severity: Severity, what: str, tally: Tally, total: int, advice: str) -> Finding:
        """What was found in pairs of this part, with their places."""
        examples = [self.places[number] for number in tally.examples]
        return Finding(kind, severity, what, tally.count, examples, total, advice, self.part)

    def ratio(self, percent: float) -> float:
        """A percentile of the target characters for each source character."""
        return math.exp(self.log_ratios.percentile(percent) / RATIO_STEPS)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        sides = {}
        for name, side in (("source", self.source), ("target", self.target)):
            lengths = {"characters": side.characters.to_dict(), "words": side.words.to_dict()}
            sides[name] = {"declared": side.declared, "detected": side.detected} | lengths
        ratio = {f"p{percent}": round(self.ratio(percent), 2) for percent in (5, 50, 95)}
        names = ("part", "name", "pairs", "dropped", "usable", "different", "different_sources")
        return {name: getattr(self, name) for name in names} | sides | {"ratio": ratio}


@dataclass
class Report:
    """All of it."""

    parts: list[PartReport]
    """First the pairs to train on."""
    findings: list[Finding]
    trainable: bool
    verdict: list[str]
    """Sentences: enough data or not, what quality to expect, what to do next."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "trainable": self.trainable,
            "verdict": self.verdict,
            "findings": [finding.to_dict() for finding in self.findings],
            "parts": [part.to_dict() for part in self.parts],
        }
