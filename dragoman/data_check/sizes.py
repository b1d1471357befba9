"""Counts pairs, lengths and their ratios, and finds empty, equal, very long and disproportionate sides."""

import math
from typing import ClassVar

from dragoman.data_check.locations import Block
from dragoman.data_check.result import RATIO_STEPS, Check

LONG = 1_000
"""Characters of a side that is called long: about the 256 tokens that `data.max_length` allows."""
DISPROPORTIONATE = 3.0
"""A side is called disproportionate if it is more than this many times longer or shorter than is usual."""
TOO_SHORT_TO_COMPARE = 40
"""Characters of the longer side below which lengths are not compared: "Go." has many translations."""


class SizeCheck(Check):
    """Counts pairs and their lengths."""

    words: ClassVar = {"LONG": LONG, "DISPROPORTIONATE": DISPROPORTIONATE}

    def add(self, block: Block) -> None:
        self.result.pairs += len(block)
        usable = [pair for pair in block if pair.source and pair.target]
        for index, side in enumerate((self.result.source, self.result.target), start=1):
            side.characters.update(len(pair[index]) for pair in usable)
            side.words.update(len(pair[index].split()) for pair in usable)
        usual = self.result.target.characters.mean / (self.result.source.characters.mean or 1)
        for number, source, target in block:
            if source and target:
                self._compare(number, source, target, usual=usual)
            elif target:
                self.tallies["empty source"].add(number)
            elif source:
                self.tallies["empty target"].add(number)
            else:
                self.tallies["empty"].add(number)

    def _compare(self, number: int, source: str, target: str, *, usual: float) -> None:
        """Compare the sides of a pair; `usual` is the ratio of target to source characters in the corpus."""
        ratio, longest = len(target) / len(source), max(len(source), len(target))
        self.result.log_ratios[round(RATIO_STEPS * math.log(ratio))] += 1
        if source == target and any(map(str.isalpha, source)):
            self.tallies["equal"].add(number)
        if longest > LONG:
            self.tallies["long"].add(number)
        if longest >= TOO_SHORT_TO_COMPARE and max(ratio / usual, usual / ratio) > DISPROPORTIONATE:
            self.tallies["ratio"].add(number)
