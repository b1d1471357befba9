"""The result of a check: findings, sizes and a verdict. `cli/data.py` prints it."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import yaml

from dragoman.config.data import CleaningConfig
from dragoman.data_check.locations import Block, Location, Locations, Tally

RATIO_STEPS = 50
"""Steps in which length ratios are counted, for each power of e: a step is 2 %."""

Severity = Literal["problem", "note"]
Part = Literal["train", "valid", "test"]


def read_table(name: str) -> Any:
    """The content of a YAML file beside this one."""
    return yaml.safe_load(files("dragoman.data_check").joinpath(name).read_text(encoding="utf-8"))


class Kind(NamedTuple):
    """An entry of findings.yaml, which explains the fields."""

    what: str
    advice: str
    above: float | None = None
    kind: str | None = None


@cache
def finding_kinds() -> dict[str, Kind]:
    """All kinds of findings, by name."""
    return {name: Kind(**fields) for name, fields in read_table("findings.yaml").items()}


@dataclass(frozen=True)
class Finding:
    """A fault or a fact that a check has found: its kind, how often and where it occurs, and what to do."""

    kind: str
    severity: Severity
    what: str
    """A phrase that a number follows: "pairs with an empty target"."""
    count: int
    examples: list[Location]
    """Locations of the first ones."""
    total: int
    """Number of pairs that were looked at: all, or a sample."""
    advice: str
    part: Part = "train"

    @property
    def share(self) -> float:
        """Share of the pairs that were looked at, between 0 and 1."""
        return self.count / self.total if self.total else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The finding as it is written in JSON."""
        examples = [location._asdict() for location in self.examples]
        return asdict(self) | {"examples": examples, "share": round(self.share, 6)}


class Distribution(Counter[int]):
    """Counts of whole numbers: exact mean and percentiles, with memory for the different numbers alone."""

    @property
    def mean(self) -> float:
        """The mean; 0 if nothing was counted."""
        return sum(value * n for value, n in self.items()) / max(1, self.total())

    def percentile(self, percent: float) -> int:
        """The smallest value that at least `percent` % of all do not exceed; 0 if nothing was counted."""
        weights = list(self.values())
        if not weights:
            return 0
        return int(np.percentile(list(self), percent, weights=weights, method="inverted_cdf"))

    def histogram(self, num_bars: int, end: int) -> list[int]:
        """Counts in equal intervals from 0 to `end`; larger values are in the last one."""
        bars = [0] * num_bars
        for value, n in self.items():
            bars[min(num_bars - 1, value * num_bars // max(1, end))] += n
        return bars

    def to_dict(self) -> dict[str, float]:
        """Mean, percentiles and maximum as they are written in JSON."""
        quantiles = {f"p{percent}": self.percentile(percent) for percent in (5, 25, 50, 75, 95, 99)}
        return {"mean": round(self.mean, 2)} | quantiles | {"max": max(self, default=0)}


@dataclass
class Side:
    """One language of a part."""

    declared: str | None
    """The code in the name of the file."""
    detected: str | None = None
    """The code of the language that most of the text is in."""
    characters: Distribution = field(default_factory=Distribution)
    words: Distribution = field(default_factory=Distribution)
    """Numbers of words between white space; they mean little in languages that do not separate words."""

    def to_dict(self) -> dict[str, Any]:
        """The side as it is written in JSON."""
        lengths = {"characters": self.characters.to_dict(), "words": self.words.to_dict()}
        return {"declared": self.declared, "detected": self.detected} | lengths


@dataclass(frozen=True)
class Example:
    """A pair that was drawn at random, to be looked at."""

    source: str
    target: str
    location: Location

    def to_dict(self) -> dict[str, Any]:
        """The pair as it is written in JSON."""
        return {"source": self.source, "target": self.target} | self.location._asdict()


@dataclass
class PartResult:
    """The pairs to train on, or a part that is held out."""

    part: Part
    name: str
    source: Side
    target: Side
    rules: CleaningConfig | None = None
    """The rules by which `train` cleans these pairs."""
    locations: Locations = field(default_factory=Locations)
    pairs: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """Entries that `train` leaves out, by reason, including those that are no pairs."""
    usable: int = 0
    """Pairs that no cleaning rule drops, including repeated ones."""
    different: int = 0
    """Usable pairs that differ from one another."""
    different_sources: int = 0
    """Different source sentences of the usable pairs, however they are spaced and capitalised."""
    log_ratios: Distribution = field(default_factory=Distribution)
    """`RATIO_STEPS` times the natural logarithm of the ratio of target to source characters."""
    examples: list[Example] = field(default_factory=list)
    """Pairs drawn at random, as many as the caller wanted."""

    @property
    def entries(self) -> int:
        """Number of pairs and of entries that are no pairs."""
        return self.pairs + sum(tally.count for tally in self.locations.skipped.values())

    def finding(self, name: str, tally: Tally, total: int, words: Mapping[str, Any] | None = None) -> Finding:
        """A finding in `total` pairs of this part, worded by findings.yaml with `words` filled in."""
        kind = finding_kinds()[name]
        severity: Severity = "note"
        if kind.above is None or tally.count > max(2, kind.above * total):
            severity = "problem"
        words = words or {}
        what, advice = kind.what.format(**words), kind.advice.format(**words)
        examples = [example if isinstance(example, Location) else self.locations[example] for example in tally.examples]
        return Finding(kind.kind or name, severity, what, tally.count, examples, total, advice, self.part)

    def ratio(self, percent: float) -> float:
        """A percentile of the number of target characters for each source character."""
        return math.exp(self.log_ratios.percentile(percent) / RATIO_STEPS)

    def to_dict(self) -> dict[str, Any]:
        """The part as it is written in JSON."""
        names = ("part", "name", "pairs", "dropped", "usable", "different", "different_sources")
        sides = {"source": self.source.to_dict(), "target": self.target.to_dict()}
        ratio = {f"p{percent}": round(self.ratio(percent), 2) for percent in (5, 50, 95)}
        examples = {"examples": [example.to_dict() for example in self.examples]} if self.examples else {}
        return {name: getattr(self, name) for name in names} | sides | {"ratio": ratio} | examples


class Check:
    """Looks at the pairs of a part, block by block, and gives its findings at the end.

    A check that counts pairs by kind of finding needs `add` alone, which fills `tallies`.
    """

    words: ClassVar[Mapping[str, Any]] = {}
    """Words for the braces in findings.yaml."""

    def __init__(self, result: PartResult):
        self.result = result
        self.tallies: dict[str, Tally] = defaultdict(Tally)

    def add(self, block: Block) -> None:
        """Look at the next pairs."""
        raise NotImplementedError

    def findings(self) -> Iterator[Finding]:
        """Findings in the blocks so far."""
        for name in finding_kinds():
            if name in self.tallies:
                yield self.result.finding(name, self.tallies[name], self.result.pairs, self.words)


@dataclass
class CheckResult:
    """The result of all checks of all parts."""

    parts: list[PartResult]
    """The pairs to train on come first."""
    findings: list[Finding]
    trainable: bool
    verdict: list[str]
    """Sentences: whether there are enough pairs, what quality to expect, what to do next."""
    num_pairs: int
    """Number of different pairs to train on."""

    def to_dict(self) -> dict[str, Any]:
        """The whole result as it is written in JSON."""
        return {
            "trainable": self.trainable,
            "verdict": self.verdict,
            "findings": [finding.to_dict() for finding in self.findings],
            "parts": [part.to_dict() for part in self.parts],
        }
