"""Counts, lengths and their ratio; empty, equal, very long and disproportionate sides."""

import math
from typing import ClassVar

from dragoman.data.check.locations import Block
from dragoman.data.check.result import RATIO_STEPS, Check, PartResult

LONG = 1_000
"""Characters; about the 256 tokens that `data.max_length` allows."""
DISPROPORTIONATE = 3.0
"""Times longer or shorter than usual for the two languages."""
TOO_SHORT_TO_COMPARE = 40
"""Characters of the longer side: "Go." has many translations."""


class SizeCheck(Check):
    """Counts pairs and their lengths."""

    words: ClassVar = {"LONG": LONG, "DISPROPORTIONATE": DISPROPORTIONATE}

    def __init__(self, result: PartResult):
        super().__init__(result)
        self._source_sum = self._target_sum = 0

    def add(self, block: Block) -> None:
        self.result.pairs += len(block.sources)
        usable = []
        for number, source, target in block.numbered():
            if source and target:
                usable.append((number, source, target))
            else:
                self.tallies["empty source" if target else "empty target" if source else "empty"].add(number)
        sides = (self.result.source, [pair[1] for pair in usable]), (self.result.target, [pair[2] for pair in usable])
        for side, texts in sides:
            side.characters.counts.update(map(len, texts))
            side.words.counts.update(len(text.split()) for text in texts)
        self._source_sum += sum(len(source) for _, source, _ in usable)
        self._target_sum += sum(len(target) for _, _, target in usable)
        for number, source, target in usable:
            self._compare(number, source, target, usual=self._target_sum / self._source_sum)

    def _compare(self, number: int, source: str, target: str, *, usual: float) -> None:
        ratio, longest = len(target) / len(source), max(len(source), len(target))
        self.result.log_ratios.counts[round(RATIO_STEPS * math.log(ratio))] += 1
        if source == target and any(map(str.isalpha, source)):
            self.tallies["equal"].add(number)
        if longest > LONG:
            self.tallies["long"].add(number)
        if longest >= TOO_SHORT_TO_COMPARE and max(ratio / usual, usual / ratio) > DISPROPORTIONATE:
            self.tallies["ratio"].add(number)
