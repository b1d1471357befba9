"""Translating documents: each text once, its codes put into the translation."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter, itemgetter

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.alignment import word_spans
from dragoman.decoding.translation import Translation
from dragoman.decoding.translator import Translator
from dragoman.documents.document import Code, Content, Document, FormatError, Segment, has_words
from dragoman.documents.inline import Projection, Span, lacking, take_out, without_surplus
from dragoman.text.tokenizers.placeholders import literal_spans


@dataclass(frozen=True)
class Engine:
    """What translates."""

    translate: Callable[[list[str]], Iterable[Translation]]
    """Translates texts, with alignments."""
    copies: bool
    """Whether placeholders are copied into translations whatever the model says."""
    known: Callable[[str], str | None] = lambda text: None
    """The translation of a text that need not be translated, such as one that a translation memory has."""


@dataclass
class Report:
    """What became of the texts of a document, for the person who had it translated."""

    translated: int = 0
    """Texts that were translated, or known to the engine."""
    done: int = 0
    """Texts that had a translation already and were left alone."""
    restored: int = 0
    """Placeholders that translations lacked, and that were put back where the source has them."""
    homeless: int = 0
    """Formats whose words were not found in the translation, so that they stand there without words."""
    dropped: int = 0
    """Formats that are left out, since the document's format cannot write them where their words are."""
    remarks: list[str] = field(default_factory=list)
    """What the format has to say."""

    def outcome(self, document: str, output: str) -> str:
        """A sentence about the document as a whole."""
        if self.translated:
            return f"{output} is {document} in the other language."
        if self.done:
            texts = _number(self.done, "text")
            return f"{document} has {texts} with a translation and none without; {output} is the same document."
        return f"{document} has no text to translate; {output} is the same document."

    def notes(self) -> list[str]:
        """What else a person should know, each a sentence that follows the document's name."""
        notes = list(self.remarks)
        if self.restored:
            placeholders = _number(self.restored, "placeholder")
            notes.append(f"lacked {placeholders} in its translation, put back about where the source has them.")
        if self.homeless:
            formats = _number(self.homeless, "format")
            notes.append(
                f"has {formats} whose words were not found in the translation, with nothing between their ends."
            )
        if self.dropped:
            notes.append(
                f"lacks {_number(self.dropped, 'format')} in its translation, such as emphasis inside of a word,"
                " for which there was no place."
            )
        return notes


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + "s" * (count != 1)


Done = Callable[[], None]
WINDOW = 256
"""Texts that are translated at once."""
MOST_CHARACTERS = 2**20
"""Longest paragraph that is translated, in characters."""
_STAND_IN = re.compile(r"(\{\d+\})")


def engine_of(translator: Translator, config: DecodingConfig | None = None, *, done: Done = lambda: None) -> Engine:
    """A model, with the search of `config` or its own; `done` is called after each text."""
    config = (config or translator.decoding).model_copy(update={"alignments": True, "n_best": 1})

    def translate(texts: list[str]) -> Iterator[Translation]:
        for translation in translator.stream(texts, config, window=WINDOW):
            done()
            yield translation

    return Engine(translate, copies=translator.source_tokenizer.placeholders)


def translate_documents(documents: Sequence[Document], engine: Engine, report: Report | None = None) -> list[str]:
    """The texts of documents in the other language; what became of them is added to the `report`."""
    report = report or Report()
    parts = [[_Part(segment.content, engine.copies) for segment in document.segments] for document in documents]
    texts = _texts(part for own in parts for part in own)
    if max(map(len, texts), default=0) > MOST_CHARACTERS:
        raise FormatError(f"has a text of more than {MOST_CHARACTERS:,} characters; divide it into paragraphs.")
    known = ((text, engine.known(text)) for text in texts)
    found = {text: _linked_evenly(text, target) for text, target in known if target is not None}
    if asked := [text for text in texts if text not in found]:
        found |= zip(asked, engine.translate(asked), strict=True)
    for document, own in zip(documents, parts, strict=True):
        report.translated += sum(part.plain.text in found for part in own)
        report.done += document.done
        report.remarks += [note for note in document.notes if note not in report.remarks]
    return [
        document.filled(
            [
                part.filled(segment, found.get(part.plain.text), report)
                for segment, part in zip(document.segments, own, strict=True)
            ]
        )
        for document, own in zip(documents, parts, strict=True)
    ]


def is_known(document: Document, engine: Engine) -> bool:
    """Whether a document has texts, and none of them needs to be translated."""
    texts = _texts(_Part(segment.content, engine.copies) for segment in document.segments)
    return bool(texts) and all(engine.known(text) is not None for text in texts)


def _linked_evenly(text: str, known: str) -> Translation:
    """A known translation. No attention tells which words belong together; those at the same share of the texts do."""
    sources, targets = len(word_spans(text)), len(word_spans(known))
    links = {(word, word * targets // sources) for word in range(sources)}
    links |= {(word * sources // targets, word) for word in range(targets)}
    return Translation(known, 0.0, 0.0, [], sorted(links))


class _Part:
    """The content of a segment, taken apart."""

    def __init__(self, content: Content, copied: bool):
        self.content, self.plain = content, take_out(content, copied=copied)

    def filled(self, segment: Segment, translation: Translation | None, report: Report) -> Content:
        """A translation with the codes of its source, each as often, and with as many placeholders.

        Only codes that the format of the segment cannot write are left out.
        """
        source = self.plain.text
        if translation is None or translation.text == source:
            return self.content
        spans = literal_spans(source)
        if not spans and not self.plain.root.children and not self.plain.stand_ins:
            return [translation.text]
        literals = {start: source[start:end] for start, end in spans}
        expected = Counter(dict.fromkeys(self.plain.stand_ins, 0))
        for match in _STAND_IN.finditer(source):
            # One in another placeholder, such as ${1}, comes and goes with that.
            if match[0] in self.plain.stand_ins and not _is_within(spans, match.start()):
                literals[match.start()] = match[0]
        expected.update(literals.values())
        own = {part[start:end] for part in self.content if isinstance(part, str) for start, end in literal_spans(part)}
        for value in own.difference(expected):
            # Between codes there may be a placeholder that is none in the whole text, as %s in 2<b></b>%sthe. One in a
            # code is not in the text, and a model may have invented it all the same.
            expected[value] = 0
            if (position := source.find(value)) >= 0:
                literals[position], expected[value] = value, 1
        target, alignment = without_surplus(translation.text, translation.alignment or (), expected)
        lost = [Span(start, start, [value], spaces="around") for start, value in lacking(target, literals)]
        report.restored += len(lost)
        root = self.plain.root
        root = replace(root, children=sorted([*root.children, *lost], key=attrgetter("start")))
        if not root.children and not self.plain.stand_ins:
            return [target]
        projection = Projection(source, target, alignment)
        content = projection.put_in(root)
        content = [part for piece in content for part in self._with_codes(piece)]
        writable = segment.writable(content)
        dropped = (_count_codes(content) - _count_codes(writable)) // 2
        report.dropped += dropped
        report.homeless += max(0, projection.homeless - dropped)
        return writable

    def _with_codes(self, piece: str | Code) -> Content:
        """A text with codes in the place of the words that stand for them."""
        if isinstance(piece, Code) or not self.plain.stand_ins:
            return [piece]
        parts: list[str | Code] = []
        for part in _STAND_IN.split(piece):
            parts += self.plain.stand_ins.get(part, [part])
        return parts


def _count_codes(content: Content) -> int:
    return sum(isinstance(part, Code) for part in content)


def _is_within(spans: Sequence[tuple[int, int]], position: int) -> bool:
    """Whether a position is inside of one of some spans in order, and not at its beginning."""
    index = bisect_left(spans, position, key=itemgetter(0)) - 1
    return index >= 0 and position < spans[index][1]


def _texts(parts: Iterable[_Part]) -> list[str]:
    """What is translated of some parts, each text once."""
    return list(dict.fromkeys(part.plain.text for part in parts if has_words([part.plain.text])))
