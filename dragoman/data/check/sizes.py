"""Counts, lengths and their ratio; empty, equal, very long and disproportionate sides."""

import math
from collections import Counter
from collections.abc import Iterator

from dragoman.data.check.report import Block, Finding, PartReport, Tally

LONG = 1_000
"""Characters; about the 256 tokens that `data.max_length` allows."""
DISPROPORTIONATE = 3.0
"""Times longer or shorter than usual for these two languages."""
TOO_SHORT_TO_COMPARE = 40
"""Characters of the longer side: "Go." may be said in many ways."""
RATIO_STEPS = 20
"""Steps of the histogram of ratios for each power of e: a resolution of 5 %."""


class Sizes:
    """Fills in the lengths of `report`."""

    def __init__(self, report: PartReport):
        self.report = report
        self.ratios: Counter[int] = Counter()
        self.sums = [1, 1]  # characters of the sources and of the targets; 1: no division by 0
        self.empty_source, self.empty_target, self.both_empty = Tally(), Tally(), Tally()
        self.equal, self.long, self.disproportionate = Tally(), Tally(), Tally()

    def add(self, block: Block) -> None:
        """Count a block."""
        usable = [(n, s, t) for n, s, t in block.numbered() if self._both_sides(n, s, t)]
        self.report.pairs += len(block.sources)
        self.report.usable += len(usable)
        for index, side in ((1, self.report.source), (2, self.report.target)):
            texts = [pair[index] for pair in usable]
            lengths = list(map(len, texts))
            side.characters.counts.update(lengths)
            side.words.counts.update(len(text.split()) for text in texts)
            self.sums[index - 1] += sum(lengths)
        usual = self.sums[1] / self.sums[0]
        for number, source, target in usable:
            self._compare(number, source, target, usual)

    def _both_sides(self, number: int, source: str, target: str) -> bool:
        if source and target:
            return True
        (self.empty_source if target else self.empty_target if source else self.both_empty).add(number)
        return False

    def _compare(self, number: int, source: str, target: str, usual: float) -> None:
        if source == target and any(map(str.isalpha, source)):
            self.equal.add(number)
        ratio = len(target) / len(source)
        self.ratios[round(RATIO_STEPS * math.log(ratio))] += 1
        longest = max(len(source), len(target))
        if longest > LONG:
            self.long.add(number)
        off = max(ratio / usual, usual / ratio)
        if off > DISPROPORTIONATE and longest >= TOO_SHORT_TO_COMPARE:
            self.disproportionate.add(number)

    def findings(self) -> Iterator[Finding]:
        """What is wrong with sizes."""
        report = self.report
        report.ratio = {f"p{percent}": round(self._ratio(percent), 2) for percent in (5, 50, 95)}
        kinds = [
            ("empty source", "pairs with an empty source", self.empty_source, 0.01, "`train` leaves them out"),
            ("empty target", "pairs with an empty target", self.empty_target, 0.01, "`train` leaves them out"),
            ("empty", "empty lines", self.both_empty, 0.05, "`train` leaves them out"),
            ("equal", "pairs with equal sides", self.equal, 0.02, "a model learns to copy from them; remove or translate"),
            ("long", f"pairs with more than {LONG:,} characters on a side", self.long, 0.01,
             "split them into sentences; `train` leaves out what exceeds data.max_length"),
            ("ratio", f"pairs with a side over {DISPROPORTIONATE:.0f} times longer than usual beside the other",
             self.disproportionate, 0.01, "see whether one side holds more than the other, and remove them"),
        ]  # fmt: skip
        for kind, what, tally, above, advice in kinds:
            if tally.count:
                severity = tally.serious(report.pairs, above=above)
                yield Finding(kind, severity, what, tally, report.pairs, advice, report.part)

    def _ratio(self, percent: float) -> float:
        left = percent / 100 * self.ratios.total()
        for step in sorted(self.ratios):
            left -= self.ratios[step]
            if left <= 0:
                return math.exp(step / RATIO_STEPS)
        return 0.0
