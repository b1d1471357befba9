"""Preprocessing of a sentence before it is encoded: normal form, characters, case, placeholders, final stops.

What it takes out of the sentence is put back into the translation.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel

from dragoman.errors import DataError, UsageError
from dragoman.system.optional import load
from dragoman.text.characters import cut_label, normalised
from dragoman.text.labels import label as label_of
from dragoman.text.labels import languages_in, several_languages
from dragoman.text.language_codes import two_letters
from dragoman.text.spelling import Speller, count_spellings, known_spellings
from dragoman.text.stops import Marks, StopCounts, with_mark, without_added_stop
from dragoman.text.tokenizers.placeholders import (
    CopyCounts,
    Prepared,
    mask,
    mask_pair,
    mask_translation,
    unmask,
    verbatim,
)
from dragoman.text.tokenizers.tokenizer import Tokenizer
from dragoman.text.transliteration import Transliteration
from dragoman.text.truecasing import CaseTable, Truecaser, in_capitals


class SourceStyle(BaseModel, extra="forbid"):
    """How the sources of the training pairs are written."""

    case: CaseTable = CaseTable()
    translated: list[str] = []
    """Texts like placeholders that the training pairs translate: "10", "TV", and "0,0" for all such numbers."""
    reading: Transliteration | None = None
    """How sources in the rarer of two scripts are read, if the training pairs have both."""
    punctuation: Literal["moses"] | None = None
    """Rules that make quotation marks, spaces around marks and the like the same: those of Moses, or none."""
    characters: list[str] = []
    """Characters that sources have often enough for a model to learn them, and sequences of them (see
    `dragoman.text.spelling`), the most frequent first. There are none where nobody counted."""
    stop: str = ""
    """The full stop of sources if nearly all end with a mark; a source without one is given it."""
    question: str = "?"
    """The question mark of sources; a question without one is given it."""
    questions: dict[str, bool] = {}
    """Signs by which a source without a mark is known to be a question, or none (`dragoman.text.stops`)."""
    adds_stops: bool = False
    """Whether most sources without a final stop have translations with one."""

    @classmethod
    def learn(cls, pairs: Iterable[tuple[str, str]]) -> Self:
        """Count in one pass over training pairs."""
        copies, stops, characters = CopyCounts(), StopCounts(), Counter[str]()
        num_sources = 0

        def counted_sources() -> Iterator[str]:
            nonlocal num_sources
            for source, target in pairs:
                num_sources += 1
                copies.add(source, target)
                text = cut_label(source)[1]
                stops.add(text, target)
                count_spellings(characters, text)
                yield source

        case = CaseTable.learn(counted_sources())
        marks = stops.marks()
        return cls(
            case=case,
            translated=copies.translated(),
            characters=known_spellings(characters, num_sources),
            stop=marks.stop,
            question=marks.question,
            questions=dict(marks.questions),
            adds_stops=stops.are_added(),
        )

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads a style from JSON; raises `DataError` for a file without one."""
        try:
            content = path.read_bytes()
        except OSError:
            content = b""
        return cls.from_json(content, path)

    @classmethod
    def from_json(cls, content: bytes, path: Path) -> Self:
        """The style that the content of a file describes; raises `DataError` that names `path` if there is none."""
        try:
            return cls.model_validate_json(content)
        except ValueError:
            raise DataError(f"{path} does not say how sources are written; copy the model again.") from None


MOST_AHEAD, LONGEST_AHEAD = 4096, 1_000
"""Most sentences that are kept after they were prepared ahead, and most characters of one."""


class Preprocessor:
    """Prepares sentences for a model, and restores in translations what preparing took out."""

    def __init__(
        self,
        style: SourceStyle,
        tokenizer: Tokenizer,
        languages: tuple[str | None, str | None],
        *,
        target_tokenizer: Tokenizer | None = None,
        directions: Iterable[tuple[str | None, str]] = (),
    ):
        """`tokenizer` is the one of the sources; placeholders are masked if it has slots for them.

        `target_tokenizer` and `directions` matter where labels name languages: what sentences without one can be
        translated into, for the error message.
        """
        source_language, self._target_language = languages
        self._normalised = source_rules(style, source_language, tokenizer)
        self._marks = Marks(style.stop, style.question, style.questions)
        self._adds_stops = style.adds_stops
        self._truecaser = Truecaser(style.case, source_language, tokenizer.symbols)
        self._tokenizers = tokenizer, target_tokenizer or tokenizer
        self._directions = [*directions] or [(None, target) for target in tokenizer.targets]
        self._needs_label = bool(self._directions) and any(labelled_sides(*self._tokenizers))
        self._masks_placeholders = tokenizer.placeholders
        self._excluded = {*tokenizer.symbols, *style.translated}
        self._ahead: dict[str, Prepared] = {}
        """Sentences that were prepared ahead, each until it is asked for or there are too many."""

    def __call__(self, sentence: str, excluded: Collection[str] = ()) -> Prepared:
        """The sentence as it is encoded; placeholders that are `excluded` stay text."""
        if not excluded and (ahead := self._ahead.pop(sentence, None)):
            return ahead
        (label, target_label), sentence = self._cut_label(sentence)
        text = with_mark(self._normalised(sentence), self._marks)
        text, capitals = self._truecaser(text)
        prepared = mask(text, self._excluded.union(excluded)) if self._masks_placeholders else Prepared(text)
        return replace(prepared, text=label + prepared.text, capitals=capitals, target_label=target_label)

    def ahead(self, sentence: str) -> Prepared:
        """The sentence as it is encoded. It is kept until it is asked for again, as one that is first counted is."""
        prepared = self(sentence)
        if len(sentence) <= LONGEST_AHEAD:
            if len(self._ahead) >= MOST_AHEAD:
                self._ahead.clear()
            self._ahead[sentence] = prepared
        return prepared

    def _cut_label(self, sentence: str) -> tuple[tuple[str, str], str]:
        """The labels that both tokenizers need, and the sentence. Raises `UsageError` if nothing names its target."""
        label, text = cut_label(sentence)
        if self._needs_label and not label and not self._tokenizers[0].tag(text):
            raise UsageError(several_languages(self._directions, self._target_language))
        source_tokenizer, target_tokenizer = self._tokenizers
        labels = labels_of_sides(label, source_tokenizer, target_tokenizer)
        if label and target_tokenizer.languages and source_tokenizer.reads_labels and not labels[0]:
            raise UsageError(several_languages(self._directions, languages_in(label)[1]))
        return labels, text

    def pair(self, source: str, target: str) -> tuple[str, str]:
        """Both sides of a pair as they are encoded."""
        (label, target_label), source = self._cut_label(source)
        source, target = self._truecaser(self._normalised(source))[0], normalised(target)
        if self._masks_placeholders:
            source, target = mask_pair(source, target, self._excluded)
        return label + source, target_label + target

    def prefix(self, text: str, source: Prepared) -> str:
        """The beginning of a translation as it is encoded."""
        text = mask_translation(normalised(text), source) if self._masks_placeholders else normalised(text)
        return source.target_label + text

    def restored(self, translation: str, source: Prepared) -> str:
        """A decoded translation with the values of its slots, in capitals if its source was."""
        if source.capitals:
            translation = in_capitals(translation, self._target_language)
        return unmask(translation, source) if self._masks_placeholders else translation

    def finished(self, translation: str, source: str) -> str:
        """A whole translation without a final stop that its source does not have."""
        # A pretrained model, whose style has no stop, keeps the stops that it writes elsewhere.
        return without_added_stop(translation, source) if self._marks.stop and not self._adds_stops else translation


def labelled_sides(source_tokenizer: Tokenizer, target_tokenizer: Tokenizer) -> tuple[bool, bool]:
    """Whether sources, and whether targets, need labels: those of models that are set to their languages do not."""
    return source_tokenizer.reads_labels, bool(target_tokenizer.languages) and target_tokenizer.reads_labels


def labels_of_sides(label: str, source_tokenizer: Tokenizer, target_tokenizer: Tokenizer) -> tuple[str, str]:
    """The labels before source and target from which the tokenizers make the tokens that a model needs.

    Models that were trained here, and those of Marian, have a token of the target language before the source. Those of
    M2M and NLLB have a token of its own language before each side.
    """
    if not label:
        return "", ""
    source_language, target_language = languages_in(label)
    is_source_labelled, is_target_labelled = labelled_sides(source_tokenizer, target_tokenizer)
    named = label_of(None, target_language)
    if not target_tokenizer.languages:
        return named if is_source_labelled else "", ""
    own = label_of(None, source_language) if source_language and is_source_labelled else ""
    return own, named if is_target_labelled else ""


def source_rules(style: SourceStyle, language: str | None, tokenizer: Tokenizer) -> Callable[[str], str]:
    """Function that normalises a source, by which training and translating prepare sources in the same way.

    It writes a language with two scripts in one, and respells unknown characters; or it applies the rules for
    punctuation of a style, some of which depend on the language.
    """
    if style.punctuation is None:
        kept = verbatim(tuple(tokenizer.symbols)) if tokenizer.placeholders else None
        speller = Speller(style.characters, knows=tokenizer.spells, verbatim=kept)
        if in_one_script := style.reading:
            return lambda text: speller(in_one_script(normalised(text)))
        return lambda text: speller(normalised(text))
    library = load("sacremoses", extra="pretrained", purpose="This model's rules of punctuation")
    rules = library.MosesPunctNormalizer(two_letters(language) if language else "en")
    return lambda text: rules.normalize(normalised(text))
