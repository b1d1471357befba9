"""Looks at a sample of the pairs for what people regret in translations: other numbers, units, negations and names."""

from collections import defaultdict
from collections.abc import Iterator

from dragoman.data_check.languages import LanguageCheck
from dragoman.data_check.locations import Block, Tally
from dragoman.data_check.result import Check, Finding, PartResult
from dragoman.text.characters import without_label
from dragoman.text.faults import faults

LOOKED_FOR = ("number", "unit", "negation", "name", "untranslated", "repetition")
"""Kinds of faults that are reported; other checks look at lengths and at empty sides."""
NOT_BY_CHANCE = 3
"""Fewest pairs with a fault that are reported: single ones may be right."""


class FaultCheck(Check):
    """Compares the sides of sampled pairs at the end, when their languages are known."""

    def __init__(self, result: PartResult, languages: LanguageCheck):
        super().__init__(result)
        self.languages = languages
        """The check whose sample is looked at, after it has identified the languages."""

    def add(self, block: Block) -> None:
        """The check of languages samples the pairs."""

    def findings(self) -> Iterator[Finding]:
        """The pairs with each kind of fault."""
        source, target = self.result.source, self.result.target
        languages = source.declared or source.detected, target.declared or target.detected
        pairs = self.languages.pairs
        numbers: dict[str, list[int]] = defaultdict(list)
        for pair in pairs:
            for kind in {fault.kind for fault in faults(without_label(pair.source), pair.target, languages)}:
                numbers[kind].append(pair.number)
        for kind in LOOKED_FOR:
            if len(numbers[kind]) >= NOT_BY_CHANCE:
                yield self.result.finding(f"fault {kind}", Tally.of(numbers[kind]), len(pairs))
