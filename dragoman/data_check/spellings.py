"""Finds sides that come in two spellings of their language."""

from collections.abc import Iterator

from dragoman.data_check.languages import LanguageCheck, spelled
from dragoman.data_check.locations import Block, Tally
from dragoman.data_check.result import Check, Finding, PartResult


class SpellingCheck(Check):
    """Says at the end what the check of languages has found about the spellings of each side."""

    def __init__(self, result: PartResult, languages: LanguageCheck):
        super().__init__(result)
        self.languages = languages
        """The check that looks at the letters of sampled texts."""

    def add(self, block: Block) -> None:
        """The check of languages samples the pairs."""

    def findings(self) -> Iterator[Finding]:
        """The texts of a side that are in another spelling than most."""
        pairs = self.languages.pairs
        for index, respelling in enumerate(self.languages.respellings, start=1):
            if respelling:
                texts = ((pair.number, spelled(pair[index])) for pair in pairs)
                numbers = [number for number, text in texts if respelling(text) != text]
                name = f"spelling of {('source', 'target')[index - 1]}s"
                yield self.result.finding(name, Tally.of(numbers), len(pairs), {"letters": str(respelling)})
