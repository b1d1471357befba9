"""Finds sides that come in two spellings of their language."""

from collections.abc import Iterator

from dragoman.data_check.languages import LanguageCheck
from dragoman.data_check.locations import Block, Tally
from dragoman.data_check.result import Check, Finding, PartResult
from dragoman.text.characters import normalised, without_label
from dragoman.text.respelling import learn_respelling


class SpellingCheck(Check):
    """Compares the letters of sampled texts at the end, side by side."""

    def __init__(self, result: PartResult, languages: LanguageCheck):
        super().__init__(result)
        self.languages = languages
        """The check whose sample is looked at."""

    def add(self, block: Block) -> None:
        """The check of languages samples the pairs."""

    def findings(self) -> Iterator[Finding]:
        """The texts of a side that are in another spelling than most."""
        pairs = sorted(pair for pair in self.languages.sample.items if pair.source and pair.target)
        for index, side in enumerate(("source", "target"), start=1):
            texts = [normalised(without_label(pair[index])) for pair in pairs]
            respelling = learn_respelling(texts, language=getattr(self.result, side).declared)
            if respelling:
                numbers = [pair.number for pair, text in zip(pairs, texts, strict=True) if respelling(text) != text]
                yield self.result.finding(
                    f"spelling of {side}s", Tally.of(numbers), len(pairs), {"letters": str(respelling)}
                )
