"""Texts of any length: split into sentences, which are translated one by one and put together again."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Self

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.alignment import Alignment, word_spans
from dragoman.decoding.translation import Translation
from dragoman.text.lines import ITEM, broken_like, stretches
from dragoman.text.sentences import cut, space_between, split

MOST_TOKENS = 256
"""Most tokens of a sentence, where a model does not say what it was trained on."""
LONGEST_TOKEN = 32
"""Characters of a token, on average, that no text reaches: what is longer is cut without counting."""
WINDOW = 4096
"""Sentences that are translated at once, so that the memory for their hypotheses is bounded."""


@dataclass(frozen=True)
class Unit:
    """A part of a text: a sentence, or what stands between sentences, such as a line break or the number of an item."""

    text: str
    stays: bool = False
    """Whether it is no sentence but stays as it is."""


class Splitter:
    """Splits texts of a language into sentences of at most `most` tokens, which `count` counts.

    `tag` finds the language that a text asks for at its beginning; every sentence of the text has to ask for it. With
    `whole`, each of its lines is one sentence.
    """

    def __init__(
        self,
        language: str | None,
        most: int,
        *,
        count: Callable[[str], int],
        tag: Callable[[str], str],
        whole: bool = False,
    ):
        self.language, self.most, self.count, self.tag, self.whole = language, most, count, tag, whole

    def split(self, text: str, *, begun: bool = False) -> tuple[list[Unit], str | None]:
        """The units of a text, which put together are the text without its tag, and a warning if a sentence had to be
        cut. The translation of a text that is `begun` has a prefix, which may begin with the number of an item."""
        tag = len(self.tag(text))
        units, parts, sentences = list[Unit](), 0, 0
        done = tag
        for start, end in stretches(text, tag):
            if not begun and (item := ITEM.match(text, start, end)):
                start = item.end()
            units.append(Unit(text[done:start], stays=True))
            done = start
            for sentence in self._sentences(text[start:end]):
                sentences += 1
                for part in [sentence] if self.whole else cut(sentence, self._fits):
                    parts += 1
                    units.append(Unit(part))
            done = end
        units.append(Unit(text[done:], stays=True))
        units = [unit for unit in units if unit.text]
        if parts == sentences:
            return units, None
        return units, (
            f"a sentence of more than {self.most} tokens was cut at commas or spaces, {parts:,} parts in all; end "
            "sentences with a full stop, or raise `max_source_length` if the model knows longer ones."
        )

    def _sentences(self, text: str) -> list[str]:
        return [text] if self.whole else split(text, self.language)

    def _fits(self, text: str) -> bool:
        # A byte is one token at most, besides a label.
        if len(text.encode(errors="surrogatepass")) < self.most:
            return True
        return len(text) <= LONGEST_TOKEN * self.most and self.count(text) <= self.most


def translate_texts(
    texts: Sequence[str],
    prefixes: Sequence[str],
    splitter: Splitter,
    translate: Callable[[list[str], list[str]], list[Translation]],
    *,
    config: DecodingConfig,
) -> list[Translation]:
    """The translation of each text; `translate` is given units of them, with prefixes."""
    units = Units.of(texts, prefixes, splitter)
    windows = [slice(start, start + WINDOW) for start in range(0, len(units.texts), WINDOW)]
    found = [each for window in windows for each in translate(units.texts[window], units.prefixes[window])]
    return units.joined(found, config)


@dataclass(frozen=True)
class Units:
    """What is translated of several texts, one after another, and what puts the translations together again."""

    texts: list[str]
    """What is translated: the units that do not stay as they are, each with the tag of its text."""
    prefixes: list[str]
    """The beginning of each translation: the first of these units has that of its text."""
    parts: list[list[Unit]]
    """The units of each text, which put together are the text."""
    warnings: list[str | None]
    broken: bool = True
    """Whether the line breaks inside of a unit are put into its translation."""

    @classmethod
    def of(cls, texts: Sequence[str], prefixes: Sequence[str], splitter: Splitter) -> Self:
        """Texts split into sentences, or shorter parts."""
        split_texts = [splitter.split(text, begun=bool(prefix)) for text, prefix in zip(texts, prefixes, strict=True)]
        translated, begun = list[str](), list[str]()
        for text, prefix, (units, _) in zip(texts, prefixes, split_texts, strict=True):
            tag = splitter.tag(text)
            sentences = [tag + unit.text for unit in units if not unit.stays]
            translated += sentences
            begun += [prefix, *[""] * (len(sentences) - 1)][: len(sentences)]
        return cls(translated, begun, [units for units, _ in split_texts], [warning for _, warning in split_texts])

    @classmethod
    def whole(cls, texts: Sequence[str], prefixes: Sequence[str]) -> Self:
        """Texts that are translated as they are."""
        return cls([*texts], [*prefixes], [[Unit(text)] for text in texts], [None] * len(texts), broken=False)

    def joined(self, translations: Sequence[Translation], config: DecodingConfig) -> list[Translation]:
        """The translations of the texts, from those of `self.texts`."""
        remaining = iter(translations)
        return [
            replace(self._joined(units, remaining, config), warning=warning)
            for units, warning in zip(self.parts, self.warnings, strict=True)
        ]

    def _joined(
        self, units: Sequence[Unit], translations: Iterator[Translation], config: DecodingConfig
    ) -> Translation:
        """The translation of one text, whose units have the next `translations`."""
        if not units:
            return unchanged("", config)
        parts = []
        for unit in units:
            if unit.stays:
                parts.append(unchanged(unit.text, config))
            else:
                translation = next(translations)
                parts.append(with_lines(translation, unit.text) if self.broken else translation)
        return join(parts, [unit.text for unit in units], config.length_penalty)


def unchanged(text: str, config: DecodingConfig) -> Translation:
    """A text as its own translation, as the options of a search ask for it."""
    alignment = [(word, word) for word in range(len(word_spans(text)))] if config.alignments else None
    return Translation(text, 0.0, 0.0, [], alignment, [] if config.n_best > 1 else None)


def with_lines(translation: Translation, source: str) -> Translation:
    """A translation, and its alternatives, with the line breaks of the source."""
    text, within = broken_like(translation.text, source)
    alternatives = translation.alternatives and [with_lines(each, source) for each in translation.alternatives]
    if text == translation.text and alternatives == translation.alternatives:
        return translation
    alignment = translation.alignment
    if alignment and within:
        # A word that is broken becomes two, and both have its links.
        spans = word_spans(translation.text)
        numbers = [n for n, (start, end) in enumerate(spans) for at in [start, *within] if start <= at < end]
        alignment = [(source, new) for new, old in enumerate(numbers) for source, target in alignment if target == old]
    return replace(translation, text=text, alignment=alignment, alternatives=alternatives)


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
    return found[0] if all(part.alternatives is None for part in parts) else replace(found[0], alternatives=found[1:])


def with_spaces(translations: Sequence[str], sources: Sequence[str]) -> list[str]:
    """The translations of the parts of a text, each with the spaces between it and the next one."""
    found: list[str] = []
    following, source_after = "", ""
    for text, source in zip(reversed(translations), reversed(sources), strict=True):
        body = text.rstrip()
        if text == source or source_after[:1].isspace():
            found.append(text)
        else:
            found.append(body + space_between(body, following, source))
        following, source_after = text if body else following, source
    return found[::-1]


def _join(parts: Sequence[Translation], sources: Sequence[str], length_penalty: float) -> Translation:
    texts = with_spaces([part.text for part in parts], sources)
    tokens = [token for part in parts for token in part.tokens]
    log_prob = sum(part.log_prob for part in parts)
    ends = sum(part.log_prob < 0 for part in parts)  # of sentences, which what stays as it is does not have
    score = log_prob / max(1, len(tokens) + ends) ** length_penalty
    alignment = None if parts[0].alignment is None else _joined_links(parts, sources, texts)
    return Translation("".join(texts), score, log_prob, tokens, alignment)


def _joined_links(parts: Sequence[Translation], sources: Sequence[str], texts: Sequence[str]) -> Alignment:
    """The links of all parts; a word may go on in the next part."""
    links = []
    for part, source, target in zip(parts, _first_words(sources), _first_words(texts), strict=True):
        links += [(s + source, t + target) for s, t in part.alignment or ()]
    return list(dict.fromkeys(links))


def _first_words(parts: Sequence[str]) -> list[int]:
    """The number of the first word of each part of a text, which may have begun in the part before."""
    ends = [end for _, end in word_spans("".join(parts))]
    starts = accumulate(map(len, parts), initial=0)
    return [bisect_right(ends, start) for start, _ in zip(starts, parts, strict=False)]
