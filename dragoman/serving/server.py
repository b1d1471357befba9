"""The models of a server, and what every API asks of them: translations, languages, documents."""

import asyncio
import hmac
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.translation import Translation
from dragoman.decoding.translator import Translator
from dragoman.documents.document import Document, FormatError, has_words
from dragoman.documents.registry import TranslatedDocument, texts_of, translate_document
from dragoman.documents.translate import Engine, is_known, translate_documents
from dragoman.errors import DataError, DragomanError, ResourceError, UsageError
from dragoman.serving.background import DOCUMENTS, PAGES, Background
from dragoman.serving.detection import LIKELY, Detected, detect, detect_among, foreign_language, without_tags
from dragoman.serving.inspection import InspectionWorker
from dragoman.serving.limits import Limits, Refusal
from dragoman.serving.metrics import Metrics
from dragoman.serving.queue import DeadlinePassed, QueueFull, TranslationQueue
from dragoman.serving.text_request import AUTO, Answer, TextRequest
from dragoman.storage.memory import Memory, Similar
from dragoman.text.language_codes import close, english_name, served_language, standard_code, two_letters

T = TypeVar("T")
Pair = tuple[str, str]
"""Codes of the languages of source and target."""
DEFAULT = Limits()
CLEARLY, LEAST = 4, 0.1
"""How many times likelier than any other the target language has to be, and how likely, for a text to be left as it is.
Of 190 labels of a page in each of four languages, none is left then that is not in the target language."""


COMPARING = 1.0
"""Seconds in which the texts of a request are compared with entries of the memory."""


class UnsupportedLanguage(Refusal):
    """A request for a language that no model of the server has."""

    def __init__(self, side: str, code: str, detail: str = ""):
        """`side` is "source" or "target"; the `detail` says how the server came to think so."""
        super().__init__(400, f"{code} is not supported{detail}")
        self.side, self.detail = side, detail


class Server:
    """Models by the pair of their languages, and one queue for all."""

    def __init__(
        self,
        translators: Sequence[Translator],
        *,
        limits: Limits = DEFAULT,
        keys: Sequence[str] = (),
        memory: Memory | None = None,
        inspector: InspectionWorker | None = None,
        queue: TranslationQueue | None = None,
        background: Background | None = None,
    ):
        """`inspector` look into models, if that is wanted. A `queue` is given if its thread loaded the models, and
        `background` if it was started before.

        Raises `UsageError` for a model that does not know its languages, and for two of one pair.
        """
        self.models: dict[tuple[str, str], Translator] = {}
        for translator in translators:
            pair = languages_of(translator)
            if pair in self.models:
                raise UsageError(f"Two models translate from {pair[0]} to {pair[1]}; give one of them.")
            self.models[pair] = translator
        self.limits, self.keys, self.memory = limits, [key.encode() for key in keys], memory
        self.queue, self.metrics, self.characters = queue or TranslationQueue(), Metrics(), 0
        self.background, self.inspector = background or Background(self.queue), inspector
        kept = memory.languages() if memory else []
        self._remembered = {
            pair: [pair, *(other for other in kept if self._means(other, pair))] for pair in self.models
        }
        """For each pair, the codes with which the memory has entries for it: its own first."""

    @property
    def sources(self) -> list[str]:
        """The codes of the languages that are translated from."""
        return list(dict.fromkeys(source for source, _ in self.models))

    @property
    def all_targets(self) -> list[str]:
        """The codes of all languages that are translated to."""
        return list(dict.fromkeys(target for _, target in self.models))

    def targets(self, source: str) -> list[str]:
        """The codes of the languages that `source` is translated to."""
        return [target for other, target in self.models if other == source]

    @property
    def codes(self) -> list[str]:
        """The codes of all languages that are translated from or to."""
        return list(dict.fromkeys([*self.sources, *self.all_targets]))

    def languages(self) -> list[dict[str, Any]]:
        """Code, name and targets of every language; clients look for their target among the codes."""
        return [
            {"code": code, "name": english_name(code), "targets": sorted({code, *self.targets(code)})}
            for code in self.codes
        ]

    def pair(self, source: str, target: str) -> Pair:
        """The languages of a request by the codes that the models have, or `AUTO` and the target. Raises `Refusal`."""
        if source.casefold() == AUTO:
            own_source = AUTO
        elif (own_source := served_language(source, self.codes, reads=True)) is None:
            raise UnsupportedLanguage("source", source)
        own_target = served_language(target, self.targets(own_source)) or served_language(target, self.codes)
        if own_target is None:
            raise UnsupportedLanguage("target", target)
        return own_source, own_target

    def check_key(self, key: str | None) -> None:
        """Raise `Refusal` unless the key is one of those that the server was given, if it was."""
        if not self.keys:
            return
        if not key:
            raise Refusal(400, "Please contact the server operator to get an API key")
        given = key.encode(errors="surrogatepass")
        if not any([hmac.compare_digest(given, known) for known in self.keys]):  # all, in constant time
            raise Refusal(403, "Invalid API key")

    def detect(self, text: str, target: str) -> Detected:
        """The source language of a text: one that is translated to the target, or the target itself.

        Raises `Refusal` for a text that is surely in none of these.
        """
        detected = self._likely_language(text, target)
        if self._is_foreign(detected, target):
            raise self._refusal_of(detected, target)
        return detected

    async def detect_each(self, texts: Sequence[str], target: str) -> list[Detected]:
        """The languages of several texts, as `detect` gives them; those of some may be foreign.

        Raises `Refusal` if no text with words can be translated.
        """
        languages = await in_turn(partial(self._likely_language, target=target), texts)
        worded = [language for text, language in zip(texts, languages, strict=True) if has_words([text])]
        if worded and all(self._is_foreign(language, target) for language in worded):
            raise self._refusal_of(worded[0], target)
        return languages

    def _sources(self, target: str) -> list[str]:
        """The codes of the languages that are translated to the target."""
        return [source for source, other in self.models if other == target]

    def _is_foreign(self, detected: Detected, target: str) -> bool:
        return detected.language not in (target, *self._sources(target))

    def _likely_language(self, text: str, target: str) -> Detected:
        """The language of a text: one that is translated to the target, the target, or one that it surely is in."""
        sources = self._sources(target)
        languages = list(dict.fromkeys([*sources, target]))
        if foreign := foreign_language(text, languages):
            return foreign
        detected = detect_among(text, languages)
        if detected.language == target and sources:
            best = detect_among(text, sources)
            return detected if detected.confidence >= max(LEAST, CLEARLY * best.confidence) else best
        return detected

    def _refusal_of(self, foreign: Detected, target: str) -> Refusal:
        """Why a text is not translated that is in another language than those that are translated to the target."""
        if foreign.confidence < LIKELY:
            detail = f": the text is in no language from which this server translates to {english_name(target)}"
            return UnsupportedLanguage("source", AUTO, detail)
        served = next((code for code in self.codes if close(two_letters(code), foreign.language)), None)
        if served is not None:
            return not_available(served, target)
        name = english_name(foreign.language)
        detail = f": the text seems to be in {name}; if it is not, say its language instead of {AUTO}"
        return UnsupportedLanguage("source", foreign.language, detail)

    def detections(self, text: str) -> list[Detected]:
        """The likely languages of a text, best first: those of the server, unless it is surely in none of them."""
        likely = detect(text)
        if not likely or foreign_language(text, self.codes):
            return likely
        served = {served_language(language, self.codes, reads=True): share for language, share in likely}
        best = detect_among(text, self.codes)
        others = [Detected(code, share) for code, share in served.items() if code and code != best.language]
        return [best, *others]

    async def translate(self, request: TextRequest) -> list[Answer]:
        """The translations of all texts. Raises `Refusal`.

        With `AUTO`, a text in a language that is not translated to the target is left as it is, if others are not.
        """
        request = self.check(request)
        languages: list[Detected] | None = None
        sources = [request.source] * len(request.texts)
        if request.source == AUTO:
            texts = [*map(without_tags, request.texts)] if request.reader else request.texts
            languages = await self.detect_each(texts, request.target)
            sources = [detected.language for detected in languages]
        rows: dict[str, list[int]] = {}
        for row, source in enumerate(sources):
            rows.setdefault(source, []).append(row)
        answers = await _together(
            self._translated(source, [request.texts[row] for row in numbers], request)
            for source, numbers in rows.items()
        )
        by_row = dict(zip(chain(*rows.values()), chain(*answers), strict=True))
        if languages is None:
            return [by_row[row] for row in range(len(sources))]
        return [replace(by_row[row], detected=detected) for row, detected in enumerate(languages)]

    async def document(self, content: bytes, name: str, languages: Pair) -> TranslatedDocument:
        """A document in the other language, as `pair_of_document` gives them. Raises `Refusal`."""
        name, seconds = Path(name).name, self.limits.document_seconds
        translator = self.model(*languages)
        work = partial(_document, content, name, languages)
        known = self._memory_of(languages) if self.memory else None
        run = self.background.run(DOCUMENTS, work, translator, translator.decoding, seconds=seconds, known=known)
        return await _answered(run)

    async def pair_of_document(self, content: bytes, name: str, source: str, target: str) -> Pair:
        """The languages of the translation of a document, its own found if it is `AUTO`. Raises `Refusal`."""
        source, target = self.pair(source, target)
        if source != AUTO:
            return source, target
        read = partial(texts_of, content, Path(name).name)
        texts = await _answered(self.background.read(DOCUMENTS, read, seconds=self.limits.document_seconds))
        text = "\n".join(texts)[:20_000]
        return (await asyncio.to_thread(self.detect, text, target)).language, target

    async def translations(
        self, translator: Translator, texts: Sequence[str], config: DecodingConfig, prefixes: Sequence[str] = ()
    ) -> list[Translation]:
        """The translations of texts by the queue. Raises `Refusal`."""
        seconds = self.limits.seconds

        async def work() -> list[Translation]:
            future = self.queue.submit(translator, texts, config, seconds=seconds, prefixes=prefixes)
            # A batch that is being computed does not end in time; nobody waits for it longer than others.
            return await asyncio.wait_for(asyncio.wrap_future(future), seconds)

        return await _answered(work())

    def check(self, request: TextRequest) -> TextRequest:
        """The request with the server's own codes of its languages.

        Raises `Refusal` for what is too much, or not supported.
        """
        limits = self.limits
        self.check_texts(request.texts)
        self._check_terms(request.options)
        if request.similar < 0:
            raise Refusal(400, "Invalid request: similar must be 0 or more")
        if not 0 <= request.alternatives <= limits.alternatives:
            raise Refusal(400, f"Invalid request: alternatives must be from 0 to {limits.alternatives}")
        source, target = self.pair(request.source, request.target)
        if source not in (AUTO, target):
            self._config(self.model(source, target), request)
        return replace(request, source=source, target=target)

    def _check_terms(self, options: dict[str, Any]) -> None:
        """Raise `Refusal` for too many or too long terms, or a too long prefix."""
        glossary, forbidden, prefix = (options.get(name) for name in ("glossary", "forbid", "prefix"))
        self.check_texts([str(option) for option in (glossary, forbidden, prefix) if option])
        limits = self.limits
        for terms in (glossary, forbidden):
            if not isinstance(terms, dict | list):
                continue  # the search says what it must be
            if len(terms) > limits.terms:
                raise Refusal(
                    400, f"Invalid request: a glossary may have {limits.terms} terms, and so may what is forbidden"
                )
            texts = chain(terms, terms.values()) if isinstance(terms, dict) else terms
            if max((len(str(text)) for text in texts), default=0) > limits.term:
                raise Refusal(400, f"Invalid request: a term of glossary or forbid may have {limits.term} characters")

    def check_texts(self, texts: Sequence[str]) -> None:
        """Raise `Refusal` for too many texts, or too long ones."""
        longest = max(map(len, texts), default=0)
        for size, limit in ((len(texts), self.limits.texts), (longest, self.limits.characters)):
            if size > limit:
                raise Refusal(400, f"Invalid request: request ({size}) exceeds text limit ({limit})")

    def model(self, source: str, target: str) -> Translator:
        """The model from one language to another, by the server's codes. Raises `Refusal`."""
        if (source, target) not in self.models:
            raise not_available(source, target)
        return self.models[source, target]

    async def _translated(self, source: str, texts: list[str], request: TextRequest) -> list[Answer]:
        """The answers to texts of one language: from the memory, or from the model."""
        pair = source, request.target
        if pair not in self.models:  # the target language, or one that is not translated to it
            return [Answer(text, []) for text in texts]
        known: list[str | None] = [None] * len(texts)
        if self.memory and not request.reader:
            find = self._memory_of(pair)
            known = await asyncio.to_thread(lambda: list(map(find, texts)))
        unknown = [text for text, target in zip(texts, known, strict=True) if target is None]
        computed = iter(await self._computed(source, unknown, request))
        answers = [next(computed) if target is None else Answer(target, [], from_memory=True) for target in known]
        if self.memory and request.similar:
            most, until = min(request.similar, self.limits.alternatives), time.monotonic() + COMPARING
            similar = await in_turn(partial(self._similar, languages=pair, most=most, until=until), texts)
            answers = [replace(answer, similar=entries) for answer, entries in zip(answers, similar, strict=True)]
        return answers

    def _memory_of(self, languages: Pair) -> Callable[[str], str | None]:
        """A function that gives the translation which the memory has of a text."""
        if self.memory is None:
            return lambda text: None
        memory, pairs = self.memory, self._remembered[languages]

        def find(text: str) -> str | None:
            found = (memory.find(pair, text) for pair in pairs)
            return next((target for target in found if target is not None), None)

        return find

    def _means(self, other: Pair, pair: Pair) -> bool:
        """Whether a request with other codes, such as those of an earlier model, is one for this pair."""
        source = served_language(other[0], self.codes, reads=True)
        return other != pair == (source, served_language(other[1], self.targets(pair[0])))

    def _similar(self, text: str, *, languages: Pair, most: int, until: float) -> list[Similar]:
        """The entries of the memory that are closest to a text, of those that can be compared until a time."""
        entries: list[Similar] = []
        for pair in self._remembered[languages]:
            seconds = until - time.monotonic()
            entries += self.memory.similar(pair, text, most, seconds=seconds) if seconds > 0 else []
        return sorted(entries, key=lambda entry: -entry.similarity)[:most]

    async def _computed(self, source: str, texts: list[str], request: TextRequest) -> list[Answer]:
        translator = self.model(source, request.target)
        config = self._config(translator, request)
        characters = sum(map(len, texts))
        self.characters += characters
        self.metrics.characters.labels(source, request.target).inc(characters)
        if request.reader:
            known = self._memory_of((source, request.target)) if self.memory else None
            work, seconds = partial(_pages, texts, request.reader), self.limits.seconds
            return await _answered(self.background.run(PAGES, work, translator, config, seconds=seconds, known=known))
        translations = await self.translations(translator, texts, config)
        return [Answer(found.text, _others(found), found.score, found.alignment) for found in translations]

    def _config(self, translator: Translator, request: TextRequest) -> DecodingConfig:
        if not request.options and not request.alternatives:
            return translator.decoding
        number = 1 if request.reader else request.alternatives + 1
        options = translator.decoding.model_dump() | {"n_best": 1} | request.options
        diversity = options.pop("diversity")
        try:
            config = DecodingConfig.validate(options)
            beams = math.ceil(config.beam_size / number) * number if diversity else max(config.beam_size, number)
            return DecodingConfig.validate(options | {"n_best": number, "beam_size": beams, "diversity": diversity})
        except UsageError as error:
            raise Refusal(400, f"Invalid request: {error}") from None

    def close(self) -> None:
        """Finish what was accepted, and take nothing more."""
        if self.inspector:
            self.inspector.close()
        self.background.close()
        self.queue.close()


def languages_of(translator: Translator) -> tuple[str, str]:
    """The codes of the languages of a model. Raises `UsageError` for one that does not know them."""
    source, target = translator.languages
    if not source or not target:
        raise UsageError("A model does not know its languages; give them as MODEL:en,fr.")
    return standard_code(source), standard_code(target)


def not_available(source: str, target: str) -> Refusal:
    """The refusal of a pair of languages of which the server has both, but no model between them."""
    names = [f"{english_name(code)} ({code})" for code in (target, source)]
    return Refusal(400, f"{names[0]} is not available as a target language from {names[1]}")


def _others(translation: Translation) -> list[Translation]:
    """The alternatives of a translation whose texts differ from it and from each other."""
    different = {translation.text: translation}
    for other in translation.alternatives or []:
        different.setdefault(other.text, other)
    return [other for text, other in different.items() if text and text != translation.text]


def _document(content: bytes, name: str, languages: Pair, engine: Engine) -> TranslatedDocument:
    return translate_document(content, name, languages, engine)


def _pages(texts: Sequence[str], reader: Callable[[str], Document], engine: Engine) -> list[Answer]:
    """The answers to texts with tags. Raises `DataError`."""
    try:
        pages = list(map(reader, texts))
        translated = translate_documents(pages, engine)
        pairs = zip(translated, pages, strict=True)
        return [Answer(text, [], from_memory=is_known(page, engine)) for text, page in pairs]
    except RecursionError:
        raise DataError("The text has too many elements inside of each other.") from None
    except FormatError as error:
        raise DataError(f"The text {error}") from None


def busy(seconds: int) -> Refusal:
    """What is said when there is too much to do, for so long."""
    return Refusal(503, "The server has more to translate than it can; try again later", retry_after=seconds)


async def in_turn(work: Callable[[str], T], texts: Sequence[str]) -> list[T]:
    """The results of `work` in a thread, one after another. If it is cancelled, no other begins."""
    return [await asyncio.to_thread(work, text) for text in texts]


async def _together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of `work` at the same time. If one fails, nobody waits for the others, and they are cancelled."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def _answered(work: Awaitable[T]) -> T:
    """The result of a translation. Raises `Refusal`."""
    try:
        return await work
    except QueueFull as error:
        raise busy(error.seconds) from None
    except (DeadlinePassed, TimeoutError):
        raise Refusal(504, "The translation took too long; send shorter texts") from None
    except ResourceError:
        raise
    except DragomanError as error:
        raise Refusal(400, str(error)) from None
