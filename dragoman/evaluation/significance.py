"""Whether systems differ on the same sentences, and how to say it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from dragoman.metrics import MAIN, METRICS
from dragoman.metrics.metric import Score
from dragoman.metrics.resampling import PairedTest, approximate_randomization

MOST_NEEDED = 1_000_000
"""A number of sentences that nobody has."""
LEAST_P = 0.001
"""The smallest p-value that is said to the digit."""


@dataclass(frozen=True)
class SystemComparison:
    """Two systems that translated the same sentences."""

    baseline: str
    system: str
    tests: dict[str, PairedTest]
    """By the names of the metrics; without those whose settings differ between the systems."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        tests = {name: test.to_dict() for name, test in self.tests.items()}
        return {"baseline": self.baseline, "system": self.system, "tests": tests}

    def sentence(self, metric: str = MAIN.name) -> str:
        """What one metric shows, in words."""
        label = METRICS[metric].label
        if metric not in self.tests:
            return (
                f"{self.baseline} and {self.system} are scored by {label} with other settings, and cannot be compared."
            )
        test = self.tests[metric]
        if test.difference == 0:
            return f"{self.baseline} and {self.system} have the same {label}."
        size = METRICS[metric].write(abs(test.difference), more_digits=1)
        p_value = f"p < {LEAST_P}" if test.p_value < LEAST_P else f"p = {test.p_value:.4f}"
        if not test.is_significant:
            return (
                f"Between {self.baseline} and {self.system} no difference can be shown with {test.sentences:,} "
                f"sentences ({label} {size} apart, {p_value}){_said(test.needed)}."
            )
        is_better = METRICS[metric].sort_key(test.difference) > 0
        better, worse = (self.system, self.baseline) if is_better else (self.baseline, self.system)
        return f"{better} is better than {worse} by {size} {label} ({p_value})."


def compare_systems(systems: Mapping[str, Mapping[str, Score]]) -> list[SystemComparison]:
    """A test of each pair of systems, whose `Score.statistics` are of the same sentences in the same order."""
    comparisons = []
    for baseline, system in combinations(systems, 2):
        tests = {}
        for name, before in systems[baseline].items():
            after = systems[system][name]
            if before.signature == after.signature:
                tests[name] = approximate_randomization(before.statistics, after.statistics)
        comparisons.append(SystemComparison(baseline, system, tests))
    return comparisons


def sentences(comparisons: Sequence[SystemComparison]) -> list[str]:
    """What tests show, in words, and how far to believe many of them."""
    lines = [comparison.sentence() for comparison in comparisons]
    if len(lines) > 1:
        lines.append(f"{len(lines)} pairs were tested: of equal systems, one pair in twenty would seem to differ.")
    return lines


def _said(needed: int | None) -> str:
    """The number of sentences that would be needed, with two digits, such as "; some 2,900 would be needed"."""
    if needed is None:
        return ""
    if needed > MOST_NEEDED:
        return "; more than a million would be needed"
    unit = 10 ** max(0, math.floor(math.log10(needed)) - 1)
    return f"; some {math.ceil(needed / unit) * unit:,} would be needed"
