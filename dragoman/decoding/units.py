"""Texts of any length: split into sentences, which are translated one by one and put together again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Self

from dragoman.data.sentences import cut, space_between, split
from dragoman.decoding.alignment import count_ended_words
from dragoman.decoding.translation import Translation

MOST_TOKENS = 256
"""Of a sentence, where a model does not say what it was trained on."""
WINDOW = 4096
"""Sentences that are translated at once, so that the memory for their hypotheses is bounded."""


class Splitter:
    """Splits texts of a language into sentences of at most `most` tokens, which `count` counts.

    `tag` finds the language that a text asks for at its beginning; every sentence of the text has to ask for it.
    """

    def __init__(self, language: str | None, most: int, *, count: Callable[[str], int], tag: Callable[[str], str]):
        self.language, self.most, self.count, self.tag = language, most, count, tag

    def split(self, text: str) -> tuple[list[str], str | None]:
        """The units of a text, which put together are the text, and a warning if a sentence had to be cut."""
        sentences = split(text, self.language)
        units = [part for sentence in sentences for part in cut(sentence, self._fits)]
        if len(units) == len(sentences):
            return units, None
        return units, (
            f"a sentence of more than {self.most} tokens was cut at commas or spaces, {len(units):,} parts in all; end "
            "sentences with a full stop, or raise `max_source_length` if the model knows longer ones."
        )

    def _fits(self, text: str) -> bool:
        # A byte is one token at most, besides a label.
        return len(text.encode(errors="surrogatepass")) < self.most or self.count(text) <= self.most


def translate_texts(
    texts: Sequence[str],
    prefixes: Sequence[str],
    splitter: Splitter,
    translate: Callable[[list[str], list[str]], list[Translation]],
    *,
    length_penalty: float,
) -> list[Translation]:
    """The translation of each text; `translate` is given units of them, with prefixes. The first unit has that of its
    text."""
    units = Units.of(texts, prefixes, splitter)
    windows = [slice(start, start + WINDOW) for start in range(0, len(units.texts), WINDOW)]
    found = [each for window in windows for each in translate(units.texts[window], units.prefixes[window])]
    return units.joined(found, length_penalty=length_penalty)


@dataclass(frozen=True)
class Units:
    """The units of several texts, one after another, and what puts their translations together again."""

    texts: list[str]
    """What is translated."""
    prefixes: list[str]
    """The beginning of each translation: the first unit has that of its text."""
    sources: list[list[str]]
    """The units of each text, which put together are the text."""
    warnings: list[str | None]

    @classmethod
    def of(cls, texts: Sequence[str], prefixes: Sequence[str], splitter: Splitter) -> Self:
        """Texts split into sentences, or shorter parts."""
        found = [splitter.split(text) for text in texts]
        flat, begun = [], []
        for text, prefix, (units, _) in zip(texts, prefixes, found, strict=True):
            flat += [units[0], *(splitter.tag(text) + unit for unit in units[1:])]
            begun += [prefix, *[""] * (len(units) - 1)]
        return cls(flat, begun, [units for units, _ in found], [warning for _, warning in found])

    @classmethod
    def whole(cls, texts: Sequence[str], prefixes: Sequence[str]) -> Self:
        """Texts that are translated as they are."""
        return cls([*texts], [*prefixes], [[text] for text in texts], [None] * len(texts))

    def joined(self, translations: Sequence[Translation], *, length_penalty: float) -> list[Translation]:
        """The translations of the texts, from those of their units."""
        found = iter(translations)
        parts = [[next(found) for _ in units] for units in self.sources]
        return [
            replace(join(own, units, length_penalty), warning=warning)
            for own, units, warning in zip(parts, self.sources, self.warnings, strict=True)
        ]


def join(parts: Sequence[Translation], sources: Sequence[str], length_penalty: float) -> Translation:
    """The translation of a text that consists of `sources`, from their translations.

    Its second-best translation has the second-best one of each part, and so on; a part with fewer gives its last one.
    """
    if len(parts) == 1:
        return parts[0]
    ranked = [[part, *(part.alternatives or [])] for part in parts]
    found = [
        _join([each[min(rank, len(each) - 1)] for each in ranked], sources, length_penalty)
        for rank in range(max(map(len, ranked)))
    ]
    return found[0] if parts[0].alternatives is None else replace(found[0], alternatives=found[1:])


def with_spaces(translations: Sequence[str], sources: Sequence[str]) -> list[str]:
    """The translations of the parts of a text, each with the spaces between it and the next one."""
    found = []
    for number, (text, source) in enumerate(zip(translations, sources, strict=True), start=1):
        following = next((each for each in islice(translations, number, None) if each), "")
        found.append(text + space_between(text, following, source))
    return found


def _join(parts: Sequence[Translation], sources: Sequence[str], length_penalty: float) -> Translation:
    texts = with_spaces([part.text for part in parts], sources)
    links, source_words, target_words = [], 0, 0
    for part, source, text in zip(parts, sources, texts, strict=True):
        links += [(s + source_words, t + target_words) for s, t in part.alignment or ()]
        source_words += count_ended_words(source)
        target_words += count_ended_words(text)
    tokens = [token for part in parts for token in part.tokens]
    log_prob = sum(part.log_prob for part in parts)
    score = log_prob / (len(tokens) + len(parts)) ** length_penalty  # each part has an end of sentence
    alignment = None if parts[0].alignment is None else list(dict.fromkeys(links))
    return Translation("".join(texts), score, log_prob, tokens, alignment)
