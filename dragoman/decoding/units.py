"""Texts of any length: split into sentences, which are translated one by one and put together again."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Self

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.alignment import Alignment, word_spans
from dragoman.decoding.recall import MemoryMatch
from dragoman.decoding.search import length_normalised
from dragoman.decoding.translation import CheckedSentence, Translation
from dragoman.text.lines import ITEM, broken_like, stretches
from dragoman.text.sentences import cut, space_between, split

MOST_TOKENS = 256
"""Most tokens of a sentence, where a model does not say what it was trained on."""
LONGEST_TOKEN = 32
"""Average number of characters of a token that no text reaches: longer texts are cut without counting tokens."""
WINDOW = 4096
"""Most sentences that are translated at once, so that the memory for their hypotheses is bounded."""


@dataclass(frozen=True)
class Unit:
    """A part of a text: a sentence, or what stands between sentences, such as a line break or the number of an item."""

    text: str
    stays: bool = False
    """Whether this is no sentence and stays as it is."""


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
        tag = self.tag(text)
        position = len(tag)
        units: list[Unit] = []
        num_sentences = num_parts = 0
        for start, end in stretches(text, position):
            if not begun and (item := ITEM.match(text, start, end)):
                start = item.end()
            units.append(Unit(text[position:start], stays=True))
            for sentence in self._sentences(text[start:end]):
                parts = [sentence] if self.whole else cut(sentence, lambda part: self._fits(part, tag))
                units += [Unit(part) for part in parts]
                num_sentences += 1
                num_parts += len(parts)
            position = end
        units.append(Unit(text[position:], stays=True))
        units = [unit for unit in units if unit.text]
        if num_parts == num_sentences:
            return units, None
        return units, (
            f"a sentence of more than {self.most} tokens was cut at commas or spaces, {num_parts:,} parts in all; end "
            "sentences with a full stop, or raise `max_source_length` if the model knows longer ones."
        )

    def _sentences(self, text: str) -> list[str]:
        return [text] if self.whole else split(text, self.language)

    def _fits(self, text: str, tag: str) -> bool:
        # A byte is one token at most, besides a tag.
        if len(text.encode(errors="surrogatepass")) < self.most:
            return True
        return len(text) <= LONGEST_TOKEN * self.most and self.count(tag + text) <= self.most


def translate_texts(
    texts: Sequence[str],
    prefixes: Sequence[str],
    splitter: Splitter,
    translate: Callable[[list[str], list[str]], list[Translation]],
    *,
    config: DecodingConfig,
) -> list[Translation]:
    """The translation of each text; `translate` is given sentences of the texts and the prefix of each."""
    units = Units.of(texts, prefixes, splitter)
    translations: list[Translation] = []
    for start in range(0, len(units.texts), WINDOW):
        window = slice(start, start + WINDOW)
        translations += translate(units.texts[window], units.prefixes[window])
    return units.joined(translations, config)


@dataclass(frozen=True)
class Units:
    """Several texts as a list of sentences to translate, and the parts around them that stay as they are."""

    texts: list[str]
    """The sentences to translate, each with the tag of its text."""
    prefixes: list[str]
    """The beginning of each translation: the first sentence of a text has the prefix of the text, others have none."""
    parts: list[list[Unit]]
    """The units of each text, which put together are the text."""
    warnings: list[str | None]
    """For each text the warning that one of its sentences was cut, or None."""
    broken: bool = True
    """Whether the line breaks inside of a unit are put into its translation."""

    @classmethod
    def of(cls, texts: Sequence[str], prefixes: Sequence[str], splitter: Splitter) -> Self:
        """Texts split into sentences, or shorter parts."""
        sentences: list[str] = []
        sentence_prefixes: list[str] = []
        parts: list[list[Unit]] = []
        warnings: list[str | None] = []
        for text, prefix in zip(texts, prefixes, strict=True):
            units, warning = splitter.split(text, begun=bool(prefix))
            parts.append(units)
            warnings.append(warning)
            tag = splitter.tag(text)
            for unit in units:
                if not unit.stays:
                    sentences.append(tag + unit.text)
                    sentence_prefixes.append(prefix)
                    prefix = ""  # it is the beginning of the first sentence alone
        return cls(sentences, sentence_prefixes, parts, warnings)

    @classmethod
    def whole(cls, texts: Sequence[str], prefixes: Sequence[str]) -> Self:
        """Texts that are translated as they are."""
        return cls([*texts], [*prefixes], [[Unit(text)] for text in texts], [None] * len(texts), broken=False)

    def joined(self, translations: Sequence[Translation], config: DecodingConfig) -> list[Translation]:
        """The translations of the texts, from those of `self.texts`."""
        remaining = iter(translations)
        joined = []
        for units, warning in zip(self.parts, self.warnings, strict=True):
            translation = replace(self._join_units(units, remaining, config), warning=warning)
            if config.only_above is not None and (translation.confidence or 0.0) <= config.only_above:
                translation = _left(translation, "".join(unit.text for unit in units), config)
            joined.append(translation)
        return joined

    def _join_units(
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
        return join(parts, [unit.text for unit in units], config)


def unchanged(text: str, config: DecodingConfig) -> Translation:
    """A text as its own translation, with the fields that the options of the search ask for."""
    alignment = [(word, word) for word in range(len(word_spans(text)))] if config.alignments else None
    confidence, edit_probability = (1.0, 0.0) if config.needs_confidence else (None, None)
    return Translation(
        text,
        0.0,
        0.0,
        [],
        alignment,
        [] if config.n_best > 1 else None,
        confidence=confidence,
        edit_probability=edit_probability,
        sentences=[] if config.checks else None,
    )


def remembered(text: str, target: str, config: DecodingConfig) -> Translation:
    """The translation of a text that a translation memory has, with the fields that the options ask for."""
    body = text.strip()
    start = text.index(body) if body else 0
    whole = text[:start] + target.strip() + text[start + len(body) :]
    found = replace(unchanged(whole, config), memory=[MemoryMatch(body, target, 1.0)])
    return replace(found, alignment=[]) if config.alignments else found


def _left(translation: Translation, text: str, config: DecodingConfig) -> Translation:
    """A text that stays as it is, since its translation cannot be trusted."""
    return replace(
        unchanged(text, config),
        confidence=translation.confidence,
        edit_probability=translation.edit_probability,
        untranslated=True,
        sentences=translation.sentences,
        warning=translation.warning,
    )


def with_lines(translation: Translation, source: str) -> Translation:
    """A translation, and its alternatives, with the line breaks of the source."""
    text, breaks = broken_like(translation.text, source)
    alternatives = translation.alternatives
    if alternatives:
        alternatives = [with_lines(alternative, source) for alternative in alternatives]
    if text == translation.text and alternatives == translation.alternatives:
        return translation
    alignment = translation.alignment
    if alignment and breaks:
        # A word that is broken becomes two, and both have its links.
        old_words: list[int] = []  # for each word of the new text, its number in the old one
        for number, (start, end) in enumerate(word_spans(translation.text)):
            pieces = 1 + sum(start <= position < end for position in breaks)
            old_words += [number] * pieces
        links = alignment
        alignment = []
        for new_word, old_word in enumerate(old_words):
            alignment += [(source_word, new_word) for source_word, word in links if word == old_word]
    return replace(translation, text=text, alignment=alignment, alternatives=alternatives)


def join(parts: Sequence[Translation], sources: Sequence[str], config: DecodingConfig) -> Translation:
    """The translation of a text that consists of `sources`, from their translations.

    Its second-best translation has the second-best one of each part, and so on; a part with fewer gives its last one.
    """
    if len(parts) == 1:
        return parts[0]
    ranked = [[part, *(part.alternatives or [])] for part in parts]
    joined = []
    for rank in range(max(map(len, ranked))):
        parts_of_rank = [ranking[min(rank, len(ranking) - 1)] for ranking in ranked]
        joined.append(_join_parts(parts_of_rank, sources, config))
    if all(part.alternatives is None for part in parts):
        return joined[0]
    return replace(joined[0], alternatives=joined[1:])


def with_spaces(translations: Sequence[str], sources: Sequence[str]) -> list[str]:
    """The translations of the parts of a text, each with the spaces between it and the next one."""
    spaced: list[str] = []  # the last part first
    following, source_after = "", ""
    for text, source in zip(reversed(translations), reversed(sources), strict=True):
        body = text.rstrip()
        if text == source or source_after[:1].isspace():
            spaced.append(text)
        else:
            spaced.append(body + space_between(body, following, source))
        following, source_after = text if body else following, source
    return spaced[::-1]


def _join_parts(parts: Sequence[Translation], sources: Sequence[str], config: DecodingConfig) -> Translation:
    texts = with_spaces([part.text for part in parts], sources)
    tokens = [token for part in parts for token in part.tokens]
    log_prob = sum(part.log_prob for part in parts)
    ends = sum(part.log_prob < 0 for part in parts)  # a part that stays as it is has no end of sentence
    length = max(1, len(tokens) + ends)
    score = length_normalised(log_prob, length, penalty=config.length_penalty, offset=config.length_offset)
    alignment = None if parts[0].alignment is None else _joined_links(parts, sources, texts)
    confidence, edit_probability = _joined_confidence(parts, sources)
    return Translation(
        "".join(texts),
        score,
        log_prob,
        tokens,
        alignment,
        confidence=confidence,
        edit_probability=edit_probability,
        sentences=_joined_sentences(parts),
        memory=[match for part in parts for match in part.memory or ()] or None,
    )


def _joined_sentences(parts: Sequence[Translation]) -> list[CheckedSentence] | None:
    """The checked sentences of all parts; None if nobody asked for them."""
    if all(part.sentences is None for part in parts):
        return None
    return [sentence for part in parts for sentence in part.sentences or ()]


def _joined_confidence(parts: Sequence[Translation], sources: Sequence[str]) -> tuple[float | None, float | None]:
    """The mean confidence, by the lengths of the sentences, and the probability that any of them is edited."""
    if any(part.confidence is None for part in parts):  # as in alternatives
        return None, None
    # A sentence whose translation is empty counts, what stays as it is does not.
    lengths = [
        len(source) if part.tokens or not part.confidence else 0 for source, part in zip(sources, parts, strict=True)
    ]
    confidence = sum(length * (part.confidence or 0.0) for length, part in zip(lengths, parts, strict=True))
    unedited = math.prod(1 - (part.edit_probability or 0.0) for part in parts)
    return (confidence / sum(lengths) if any(lengths) else 1.0), 1 - unedited


def _joined_links(parts: Sequence[Translation], sources: Sequence[str], texts: Sequence[str]) -> Alignment:
    """The links of all parts; a word may go on in the next part."""
    links = []
    for part, first_source, first_target in zip(parts, _first_words(sources), _first_words(texts), strict=True):
        links += [(first_source + source, first_target + target) for source, target in part.alignment or ()]
    return list(dict.fromkeys(links))


def _first_words(parts: Sequence[str]) -> list[int]:
    """The number of the first word of each part of a text, which may have begun in the part before."""
    ends = [end for _, end in word_spans("".join(parts))]
    starts = accumulate(map(len, parts), initial=0)
    return [bisect_right(ends, start) for start, _ in zip(starts, parts, strict=False)]
