"""Translating documents: each text once, its codes put into the translation."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.alignment import word_spans
from dragoman.decoding.translation import Translation
from dragoman.decoding.translator import Translator
from dragoman.documents.document import Code, Content, Document, FormatError, Segment, has_words
from dragoman.documents.inline import Span, take_out
from dragoman.documents.literals import lacking, without_surplus
from dragoman.documents.projection import Projection
from dragoman.documents.review import Review, Verdict
from dragoman.text.tokenizers.placeholders import literal_spans


@dataclass(frozen=True)
class Engine:
    """A translator of plain texts, such as a model."""

    translate: Callable[[list[str]], Iterable[Translation]]
    """Translates texts, with alignments."""
    copies: bool
    """Whether placeholders are copied into translations whatever the model says."""
    known: Callable[[str], str | None] = lambda text: None
    """Returns the translation of a text that need not be translated, such as one that a translation memory has."""
    has_memory: bool = False
    """Whether there is a translation memory, from which bilingual documents say that a translation is."""
    has_confidence: bool = False
    """Whether translations have a confidence, which bilingual documents have beside them."""
    only_above: float | None = None
    """The confidence that a translation has to be above; others stay as they are."""


@dataclass
class Report:
    """Counts and remarks about a translated document, for the person who had it translated."""

    translated: int = 0
    """Number of texts that were translated, or known to the engine."""
    remembered: int = 0
    """Number of different texts whose translation is from a translation memory."""
    similar: int = 0
    """Number of different texts that were translated with the entry of a similar one."""
    done: int = 0
    """Number of texts that had a translation already and were left alone."""
    restored: int = 0
    """Number of placeholders that translations lacked, and that were put back where the source has them."""
    unplaced: int = 0
    """Number of formats whose words were not found in the translation, so that they stand there without words."""
    unplaced_in: list[str] = field(default_factory=list)
    """The texts with such formats."""
    dropped: int = 0
    """Number of formats that are left out, since the document's format cannot write them where their words are."""
    cut: int = 0
    """Number of texts with a sentence that had too many tokens and was translated in parts."""
    faults: list[str] = field(default_factory=list)
    """What seems to be wrong with translations, in words, if `checks` was asked for."""
    untranslated: list[dict[str, Any]] = field(default_factory=list)
    """The texts that stay as they are because their translation cannot be trusted, each with its `confidence`."""
    remarks: list[str] = field(default_factory=list)
    """The notes of the document's format."""
    is_in_target: bool = False
    """Whether the document was found to be in the target language, so that nothing is translated."""

    def note_untranslated(self, translations: Mapping[str, Translation]) -> None:
        """Note the texts that stay as they are, those that are noted already once."""
        noted = {left["text"] for left in self.untranslated}
        for text, translation in translations.items():
            if translation.untranslated and text not in noted:
                self.untranslated.append({"text": text, "confidence": translation.confidence})

    def outcome(self, document: str, output: str) -> str:
        """A sentence about the document as a whole."""
        if self.is_in_target:
            return f"{document} is in the other language already; {output} is the same document."
        if self.translated:
            return f"{output} is {document} in the other language{self._from_memory()}."
        if self.done:
            texts = _number(self.done, "text")
            return f"{document} has {texts} with a translation and none without; {output} is the same document."
        return f"{document} has no text to translate; {output} is the same document."

    def _from_memory(self) -> str:
        """What the translation memory had, as the end of a sentence; empty if it had nothing."""
        parts = []
        if self.remembered:
            parts.append(f"{_number(self.remembered, 'text')} from the translation memory")
        if self.similar:
            parts.append(f"{_number(self.similar, 'text')} translated with a similar entry of it")
        return f", {' and '.join(parts)}" if parts else ""

    def notes(self) -> list[str]:
        """Sentences about details, each of which follows the document's name."""
        notes = list(self.remarks)
        if self.restored:
            placeholders = _number(self.restored, "placeholder")
            notes.append(f"lacked {placeholders} in its translation, put back about where the source has them.")
        if self.unplaced:
            formats = _number(self.unplaced, "format")
            texts = _listed([_shown(text) for text in self.unplaced_in])
            notes.append(
                f"has {formats} whose words were not found in the translation, with nothing between their ends, in "
                f"{texts}."
            )
        if self.dropped:
            notes.append(
                f"lacks {_number(self.dropped, 'format')} in its translation, such as emphasis inside of a word,"
                " for which there was no place."
            )
        if self.faults:
            notes.append(f"has translations to look at: {_listed(self.faults, separator='; ')}.")
        if self.untranslated:
            texts = _listed([f"{_shown(left['text'])} ({left['confidence']:.3f})" for left in self.untranslated])
            notes.append(
                f"has {_number(len(self.untranslated), 'text')} whose translation cannot be trusted, left without one: "
                f"{texts}."
            )
        if self.cut:
            notes.append(
                f"has {_number(self.cut, 'text')} with a sentence that is too long for the model, translated in parts."
            )
        return notes

    def to_dict(self) -> dict[str, Any]:
        """All counts and the remarks, for JSON."""
        fields = asdict(self)
        fields["homeless"] = fields.pop("unplaced")  # the name that programs know
        del fields["is_in_target"]  # which servers alone find out
        return fields


def _listed(items: Sequence[str], *, separator: str = ", ") -> str:
    """The first items of a list, and how many more there are."""
    others = len(items) - MOST_LISTED
    return separator.join(items[:MOST_LISTED]) + (f" and {others:,} more" if others > 0 else "")


def _shown(text: str) -> str:
    """The beginning of a text, in quotation marks."""
    text = " ".join(text.split())
    return f'"{text}"' if len(text) <= MOST_SHOWN else f'"{text[:MOST_SHOWN]}…"'


def _number(count: int, noun: str) -> str:
    """A count with its noun, as in "1 text" and "2,000 texts"."""
    return f"{count:,} {noun}" + "s" * (count != 1)


MOST_LISTED, MOST_SHOWN = 20, 60
"""Most texts that a note lists, and most characters of each."""
TEXTS_AT_ONCE = 256
"""Number of texts that are translated at once."""
LONGEST_TEXT = 2**20
"""Most characters of a paragraph."""
_STAND_IN = re.compile(r"(\{\d+\})")


def engine_of(
    translator: Translator, config: DecodingConfig | None = None, *, done: Callable[[], None] = lambda: None
) -> Engine:
    """The engine of a model, with the search of `config` or its own, for one translation of each text.

    `done` is called after each text.
    """
    config = (config or translator.decoding).for_one().model_copy(update={"alignments": True})

    def translate(texts: list[str]) -> Iterator[Translation]:
        for translation in translator.translate_windows(texts, config, window=TEXTS_AT_ONCE):
            done()
            yield translation

    return Engine(
        translate,
        copies=translator.source_tokenizer.placeholders,
        known=partial(remembered, translator, config),
        has_memory=translator.recall is not None,
        has_confidence=config.needs_confidence,
        only_above=config.only_above,
    )


def remembered(translator: Translator, config: DecodingConfig, text: str) -> str | None:
    """The translation of a text that the memory has, if that keeps to the terms of the search.

    With a prefix, nothing is looked up: the translation is to begin with that.
    """
    target = translator.recall.find(text) if translator.recall and not config.prefix else None
    return target if target is not None and translator.keeps_to_terms(text, target, config) else None


def reviewed(document: Document, engine: Engine, report: Report) -> tuple[Review, Engine]:
    """The review of a document, and an engine that knows its translations.

    Translates all texts of the document. The document is then read again, since what is written beside a translation
    depends on its confidence, and on whether a memory had it. Texts that stay untranslated are in the `report`: they
    are no segments any more.
    """
    texts = _bounded_texts(_sources(document, engine))
    unknown = [text for text in texts if engine.known(text) is None]
    translations = dict(zip(unknown, engine.translate(unknown), strict=True)) if unknown else {}
    report.note_untranslated(translations)

    in_memory = {*texts} - {*unknown}

    def review(segments: Sequence[Segment]) -> Verdict:
        sources = [_Source(segment, engine.copies).text for segment in segments]
        made = [translations.get(source) for source in sources]
        confidences = [translation.confidence for translation in made if translation]
        known = [confidence for confidence in confidences if confidence is not None]
        return Verdict(
            min(known, default=None),
            is_untranslated=any(translation.untranslated for translation in made if translation),
            is_trusted=engine.only_above is not None and bool(known) and len(known) == len(made),
            is_remembered=bool(sources) and in_memory.issuperset(sources),
        )

    return review, replace(engine, translate=lambda texts: [translations[text] for text in texts])


def translate_documents(documents: Sequence[Document], engine: Engine, report: Report | None = None) -> list[str]:
    """The texts of documents in the other language. Adds counts and remarks to the `report`.

    Raises `FormatError` for a document with a paragraph that is too long.
    """
    report = report or Report()
    sources = [_sources(document, engine) for document in documents]
    texts = _bounded_texts(source for document_sources in sources for source in document_sources)
    translations: dict[str, Translation] = {}
    for text in texts:
        known = engine.known(text)
        if known is not None:
            translations[text] = _linked_evenly(text, known)
    report.remembered += len(translations)
    unknown = [text for text in texts if text not in translations]
    if unknown:
        translations |= zip(unknown, engine.translate(unknown), strict=True)
    report.similar += sum(_has_similar(translation) for translation in translations.values())
    report.note_untranslated(translations)
    for text, translation in translations.items():
        report.faults += [f"{_shown(text)}: {fault}" for fault in translation.faults]
    report.cut += sum(translation.warning is not None for translation in translations.values())
    for document, document_sources in zip(documents, sources, strict=True):
        report.translated += sum(
            source.text in translations and not source.segment.is_copy for source in document_sources
        )
        report.done += document.done
        report.remarks += [note for note in document.notes if note not in report.remarks]
    return [
        document.filled(
            [
                source.translated(translations.get(source.text), Report() if source.segment.is_copy else report)
                for source in document_sources
            ]
        )
        for document, document_sources in zip(documents, sources, strict=True)
    ]


def _bounded_texts(sources: Iterable["_Source"]) -> list[str]:
    """The different texts of some segments. Raises `FormatError` if one is too long."""
    texts = _distinct_texts(sources)
    if max(map(len, texts), default=0) > LONGEST_TEXT:
        raise FormatError(f"has a text of more than {LONGEST_TEXT:,} characters; divide it into paragraphs.")
    return texts


def _has_similar(translation: Translation) -> bool:
    """Whether an entry of a similar text, and not only of the same one, was used."""
    return any(match.similarity < 1 for match in translation.memory or ())


def distinct_texts(document: Document, engine: Engine) -> list[str]:
    """The texts of a document that an engine is asked to translate, each once."""
    return _distinct_texts(_sources(document, engine))


def is_known(document: Document, engine: Engine) -> bool:
    """Whether a document has texts, and none of them needs to be translated."""
    texts = distinct_texts(document, engine)
    return bool(texts) and all(engine.known(text) is not None for text in texts)


def _linked_evenly(text: str, known: str) -> Translation:
    """A known translation with an alignment.

    No attention tells which words belong together, so those at the same share of both texts do.
    """
    sources, targets = len(word_spans(text)), len(word_spans(known))
    links = {(word, word * targets // sources) for word in range(sources)}
    links |= {(word * sources // targets, word) for word in range(targets)}
    return Translation(known, 0.0, 0.0, [], sorted(links))


class _Source:
    """A segment, with its text apart from its codes."""

    def __init__(self, segment: Segment, copied: bool):
        self.segment = segment
        plain = take_out(segment.content, copied=copied)
        self.text, self.root, self.stand_ins = plain.text, plain.root, plain.stand_ins

    def translated(self, translation: Translation | None, report: Report) -> Content:
        """The translation with the codes of the source, each as often, and with as many placeholders.

        Only codes that the format of the segment cannot write are left out.
        """
        if translation is None or translation.text == self.text:
            return self.segment.content
        spans = literal_spans(self.text)
        if not spans and not self.root.children and not self.stand_ins:
            return [translation.text]
        placeholders, expected = self._placeholders(spans)
        target, alignment = without_surplus(translation.text, translation.alignment or (), expected)
        lost = [Span(start, start, [value], spaces="around") for start, value in lacking(target, placeholders)]
        report.restored += len(lost)
        root = replace(self.root, children=sorted([*self.root.children, *lost], key=attrgetter("start")))
        if not root.children and not self.stand_ins:
            return [target]
        projection = Projection(self.text, target, alignment)
        content = [part for piece in projection.put_in(root) for part in self._with_codes(piece)]
        writable = self.segment.writable(content)
        dropped = (_count_codes(content) - _count_codes(writable)) // 2
        report.dropped += dropped
        unplaced = max(0, projection.unplaced - dropped)
        report.unplaced += unplaced
        if unplaced and self.text not in report.unplaced_in[-1:]:
            report.unplaced_in.append(self.text)
        return writable

    def _placeholders(self, spans: Sequence[tuple[int, int]]) -> tuple[dict[int, str], Counter[str]]:
        """The placeholders of the text by their positions, and how often each is expected in the translation.

        They are those in the `spans` of the text, and the words that stand for codes.
        """
        placeholders = {start: self.text[start:end] for start, end in spans}
        for match in _STAND_IN.finditer(self.text):
            # One in another placeholder, such as ${1}, comes and goes with that.
            if match[0] in self.stand_ins and not _is_within(spans, match.start()):
                placeholders[match.start()] = match[0]
        expected = Counter(dict.fromkeys(self.stand_ins, 0))
        expected.update(placeholders.values())
        texts = [part for part in self.segment.content if isinstance(part, str)]
        between_codes = {text[start:end] for text in texts for start, end in literal_spans(text)}
        for value in between_codes.difference(expected):
            # Between codes there may be a placeholder that is none in the whole text, as %s in 2<b></b>%sthe. One in a
            # code is not in the text, and a model may have invented it all the same.
            expected[value] = 0
            position = self.text.find(value)
            if position >= 0:
                placeholders[position] = value
                expected[value] = 1
        return placeholders, expected

    def _with_codes(self, piece: str | Code) -> Content:
        """A text with codes in the place of the words that stand for them."""
        if isinstance(piece, Code) or not self.stand_ins:
            return [piece]
        parts: list[str | Code] = []
        for part in _STAND_IN.split(piece):
            parts += self.stand_ins.get(part, [part])
        return parts


def _sources(document: Document, engine: Engine) -> list[_Source]:
    """The segments of a document, with their texts apart from their codes."""
    return [_Source(segment, engine.copies) for segment in document.segments]


def _distinct_texts(sources: Iterable[_Source]) -> list[str]:
    """The texts with words, each once."""
    return list(dict.fromkeys(source.text for source in sources if has_words([source.text])))


def _count_codes(content: Content) -> int:
    return sum(isinstance(part, Code) for part in content)


def _is_within(spans: Sequence[tuple[int, int]], position: int) -> bool:
    """Whether a position is inside of one of some spans in order, and not at its beginning."""
    index = bisect_left(spans, position, key=itemgetter(0)) - 1
    return index >= 0 and position < spans[index][1]
