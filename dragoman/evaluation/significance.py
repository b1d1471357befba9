"""Whether systems differ on the same sentences, and how to say it."""

import math
from collections.abc import Mapping
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
    """By the names of the metrics."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        tests = {name: test.to_dict() for name, test in self.tests.items()}
        return {"baseline": self.baseline, "system": self.system, "tests": tests}

    def sentence(self, metric: str = MAIN.name) -> str:
        """What one metric shows, in words."""
        test, label = self.tests[metric], METRICS[metric].label
        if test.difference == 0:
            return f"{self.baseline} and {self.system} have the same {label}."
        size = METRICS[metric].write(abs(test.difference))
        p_value = f"p < {LEAST_P}" if test.p_value < LEAST_P else f"p = {test.p_value:.3f}"
        if not test.is_significant:
            return (
                f"Between {self.baseline} and {self.system} no difference can be shown with {test.sentences:,} "
                f"sentences ({label} {size} apart, {p_value}); {_said(test.needed)} would be needed."
            )
        is_better = METRICS[metric].sort_key(test.difference) > 0
        better, worse = (self.system, self.baseline) if is_better else (self.baseline, self.system)
        return f"{better} is better than {worse} by {size} {label} ({p_value})."


def compare_systems(systems: Mapping[str, Mapping[str, Score]]) -> list[SystemComparison]:
    """A test of each pair of systems, whose `Score.statistics` are of the same sentences in the same order."""
    comparisons = []
    for baseline, system in combinations(systems, 2):
        tests = {
            name: approximate_randomization(systems[baseline][name].statistics, systems[system][name].statistics)
            for name in systems[baseline]
        }
        comparisons.append(SystemComparison(baseline, system, tests))
    return comparisons


def _said(needed: int | None) -> str:
    """A number of sentences with two digits, such as "some 2,900"."""
    if needed is None or needed > MOST_NEEDED:
        return "more than a million"
    unit = 10 ** max(0, math.floor(math.log10(needed)) - 1)
    return f"some {math.ceil(needed / unit) * unit:,}"
