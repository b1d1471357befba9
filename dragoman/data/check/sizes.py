"""Counts, lengths and their ratio; empty, equal, very long and disproportionate sides."""

import math
from collections.abc import Iterator

from dragoman.data.check.places import Block
from dragoman.data.check.report import RATIO_STEPS, Finding, Kind, PartReport, Tallies

LONG = 1_000
"""Characters; about the 256 tokens that `data.max_length` allows."""
DISPROPORTIONATE = 3.0
"""Times longer or shorter than usual for the two languages."""
TOO_SHORT_TO_COMPARE = 40
"""Characters of the longer side: "Go." may be said in many ways."""

KINDS = (
    Kind("empty source", "pairs with an empty source", 0.01, "`train` leaves them out"),
    Kind("empty target", "pairs with an empty target", 0.01, "`train` leaves them out"),
    Kind("empty", "empty lines", 0.05, "`train` leaves them out"),
    Kind(
        "equal",
        "pairs with equal sides",
        0.05,
        "translate or remove them: from those that data.cleaning.max_copied lets pass, a model learns to copy",
    ),
    Kind(
        "long",
        f"pairs with more than {LONG:,} characters on a side",
        0.01,
        "split them into sentences; `train` leaves out what exceeds data.max_length or data.cleaning.max_characters",
    ),
    Kind(
        "ratio",
        f"pairs with a side over {DISPROPORTIONATE:.0f} times longer than is usual beside the other",
        0.01,
        "see whether one side holds more than the other; `train` leaves out those above data.cleaning.max_ratio",
    ),
)


class Sizes:
    """Counts into `report`."""

    def __init__(self, report: PartReport):
        self.report = report
        self.tallies = Tallies(report, KINDS)
        self._source_sum = self._target_sum = 0

    def add(self, block: Block) -> None:
        """Count a block."""
        self.report.pairs += len(block.sources)
        usable = [(n, s, t) for n, s, t in block.numbered() if self._both_sides(n, s, t)]
        for side, texts in (
            (self.report.source, [source for _, source, _ in usable]),
            (self.report.target, [target for _, _, target in usable]),
        ):
            side.characters.counts.update(map(len, texts))
            side.words.counts.update(len(text.split()) for text in texts)
        self._source_sum += sum(len(source) for _, source, _ in usable)
        self._target_sum += sum(len(target) for _, _, target in usable)
        for number, source, target in usable:
            self._compare(number, source, target, usual=self._target_sum / self._source_sum)

    def _both_sides(self, number: int, source: str, target: str) -> bool:
        if not source or not target:
            self.tallies.add("empty source" if target else "empty target" if source else "empty", number)
        return bool(source and target)

    def _compare(self, number: int, source: str, target: str, *, usual: float) -> None:
        ratio, longest = len(target) / len(source), max(len(source), len(target))
        self.report.log_ratios.counts[round(RATIO_STEPS * math.log(ratio))] += 1
        if source == target and any(map(str.isalpha, source)):
            self.tallies.add("equal", number)
        if longest > LONG:
            self.tallies.add("long", number)
        if longest >= TOO_SHORT_TO_COMPARE and max(ratio / usual, usual / ratio) > DISPROPORTIONATE:
            self.tallies.add("ratio", number)

    def findings(self) -> Iterator[Finding]:
        """What is wrong with sizes."""
        return self.tallies.findings()
