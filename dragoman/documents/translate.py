"""Translating documents: each text once, its codes put into the translation."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from dragoman.config.decoding import DecodingConfig
from dragoman.data.tokenizers.placeholders import mask
from dragoman.decoding.alignment import word_spans
from dragoman.decoding.translation import Translation
from dragoman.decoding.translator import Translator
from dragoman.documents.document import Code, Content, Document, FormatError, has_words
from dragoman.documents.inline import Projection, Span, take_out


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
    notes: list[str] = field(default_factory=list)
    """What else a person should know, each a sentence that follows the document's name."""


Done = Callable[[], None]
WINDOW = 256
"""Texts that are translated at once."""
MOST_CHARACTERS = 2**20
"""Of a paragraph."""
_LITERAL = re.compile(r"[{}%<>@/\\&$]|\bwww\.")
"""Tells placeholders that mean nothing in any language from numbers and names."""


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
        report.translated += sum(part.text in found for part in own)
        report.done += document.done
        report.notes += [note for note in document.notes if note not in report.notes]
    return [
        document.filled([part.filled(found.get(part.text)) for part in own])
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
        self.content = content
        self.text, self.root, self.words = take_out(content, copied=copied)

    def filled(self, translation: Translation | None) -> Content:
        """A translation with the codes of its source, and with placeholders that it has lost."""
        if translation is None:
            return self.content
        root, lost = self.root, []
        for value in mask(self.text).values:
            if _LITERAL.search(value) and value not in translation.text:
                start = self.text.index(value)
                lost.append(Span(start, start, value, spaces="around", is_text=True))
        root = replace(root, children=sorted([*root.children, *lost], key=lambda each: each.start))
        if not root.children and not self.words:
            return [translation.text]
        content = Projection(self.text, translation.text, translation.alignment or ()).put_in(root)
        return [part for each in content for part in self._with_words(each)]

    def _with_words(self, each: str | Code) -> Content:
        """The codes that words stand for, in their place."""
        if isinstance(each, Code):
            return [replace(each, markup=self.words.get(each.markup.strip(), each.markup))]
        if not self.words:
            return [each]
        parts = re.split("(" + "|".join(map(re.escape, self.words)) + ")", each)
        return [Code(self.words[part]) if part in self.words else part for part in parts]


def _texts(parts: Iterable[_Part]) -> list[str]:
    """What is translated of some parts, each text once."""
    return list(dict.fromkeys(part.text for part in parts if has_words([part.text])))
