"""The models of a server, and what every API asks of them: translations, languages, documents."""

import asyncio
import hmac
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from dragoman.config.decoding import DecodingConfig
from dragoman.data.language_codes import english_name, served_language, standard_code
from dragoman.data.readers.memory import Memory
from dragoman.decoding.translation import Translation
from dragoman.decoding.translator import Translator
from dragoman.documents.document import Document, FormatError
from dragoman.documents.formats import TranslatedDocument, texts_of, translate_document
from dragoman.documents.translate import Engine, is_known, translate_documents
from dragoman.errors import DataError, DragomanError, ResourceError, UsageError
from dragoman.serving.asked import AUTO, Answer, Asked
from dragoman.serving.background import DOCUMENTS, PAGES, Background
from dragoman.serving.detection import LIKELY, Detected, detect, detect_among, foreign_language, without_tags
from dragoman.serving.insides import Lookers
from dragoman.serving.limits import Limits, Refusal
from dragoman.serving.metrics import Metrics
from dragoman.serving.queue import DeadlinePassed, QueueFull, TranslationQueue

T = TypeVar("T")
Pair = tuple[str, str]
"""Codes of the languages of source and target."""
DEFAULT = Limits()
CLEARLY, LEAST = 4, 0.1
"""How many times likelier than any other the target language has to be, and how likely, for a text to be left as it is.
Of 190 labels of a page in each of four languages, none is left then that is not in the target language."""


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
        lookers: Lookers | None = None,
        queue: TranslationQueue | None = None,
        background: Background | None = None,
    ):
        """`lookers` look into models, if that is wanted. A `queue` is given if its thread loaded the models, and
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
        self.background, self.lookers = background or Background(self.queue), lookers

    @property
    def sources(self) -> list[str]:
        """The codes of the languages that are translated from."""
        return list(dict.fromkeys(source for source, _ in self.models))

    @property
    def all_targets(self) -> list[str]:
        """Those that are translated to."""
        return list(dict.fromkeys(target for _, target in self.models))

    def targets(self, source: str) -> list[str]:
        """Those that `source` is translated to."""
        return [target for other, target in self.models if other == source]

    @property
    def codes(self) -> list[str]:
        """Those that are translated from or to."""
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
        sources = [source for source, other in self.models if other == target]
        languages = list(dict.fromkeys([*sources, target]))
        if foreign := foreign_language(text, languages):
            raise self._refusal_of(foreign, target)
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
        served = served_language(foreign.language, self.codes, reads=True)
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

    async def translate(self, asked: Asked) -> list[Answer]:
        """The translations of all texts. Raises `Refusal`."""
        asked = self.check(asked)
        detected: list[Detected | None] = [None] * len(asked.texts)
        if asked.source == AUTO:
            texts = map(without_tags, asked.texts) if asked.reader else asked.texts
            detected = await asyncio.to_thread(lambda: [self.detect(text, asked.target) for text in texts])
        sources = [each.language if each else asked.source for each in detected]
        found: dict[int, Answer] = {}
        futures = []
        for source in dict.fromkeys(sources):
            rows = [row for row, other in enumerate(sources) if other == source]
            futures.append((rows, self._translated(source, [asked.texts[row] for row in rows], asked)))
        for (rows, _), group in zip(futures, await asyncio.gather(*(each for _, each in futures)), strict=True):
            for row, answer in zip(rows, group, strict=True):
                found[row] = replace(answer, detected=detected[row])
        return [found[row] for row in range(len(asked.texts))]

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

    def check(self, asked: Asked) -> Asked:
        """The request with the server's own codes of its languages.

        Raises `Refusal` for what is too much, or not supported.
        """
        limits = self.limits
        self.check_texts(asked.texts)
        terms = asked.options.get("glossary"), asked.options.get("forbid"), asked.options.get("prefix")
        self.check_texts([str(each) for each in terms if each])
        if max((len(each) for each in terms if isinstance(each, dict | list)), default=0) > limits.terms:
            raise Refusal(
                400, f"Invalid request: a glossary may have {limits.terms} terms, and so may what is forbidden"
            )
        if not 0 <= asked.alternatives <= limits.alternatives:
            raise Refusal(400, f"Invalid request: alternatives must be from 0 to {limits.alternatives}")
        source, target = self.pair(asked.source, asked.target)
        if source not in (AUTO, target):
            self._config(self.model(source, target), asked)
        return replace(asked, source=source, target=target)

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

    async def _translated(self, source: str, texts: list[str], asked: Asked) -> list[Answer]:
        """The answers to texts of one language: from the memory, or from the model."""
        pair = source, asked.target
        if source == asked.target:
            return [Answer(text, []) for text in texts]
        known: list[str | None] = [None] * len(texts)
        if self.memory and not asked.reader:
            find = self._memory_of(pair)
            known = await asyncio.to_thread(lambda: list(map(find, texts)))
        unknown = [text for text, target in zip(texts, known, strict=True) if target is None]
        computed = iter(await self._computed(source, unknown, asked))
        answers = [next(computed) if each is None else Answer(each, [], from_memory=True) for each in known]
        if self.memory and asked.similar:
            most = min(asked.similar, self.limits.alternatives)
            similar = partial(self.memory.similar, pair, most=most)
            entries = await asyncio.to_thread(lambda: list(map(similar, texts)))
            answers = [replace(answer, similar=found) for answer, found in zip(answers, entries, strict=True)]
        return answers

    def _memory_of(self, languages: Pair) -> Callable[[str], str | None]:
        """The translation that the memory has of a text."""
        return partial(self.memory.find, languages) if self.memory else lambda text: None

    async def _computed(self, source: str, texts: list[str], asked: Asked) -> list[Answer]:
        translator = self.model(source, asked.target)
        config = self._config(translator, asked)
        characters = sum(map(len, texts))
        self.characters += characters
        self.metrics.characters.labels(source, asked.target).inc(characters)
        if asked.reader:
            known = self._memory_of((source, asked.target)) if self.memory else None
            work, seconds = partial(_pages, texts, asked.reader), self.limits.seconds
            return await _answered(self.background.run(PAGES, work, translator, config, seconds=seconds, known=known))
        translations = await self.translations(translator, texts, config)
        return [Answer(each.text, _others(each), each.score, each.alignment) for each in translations]

    def _config(self, translator: Translator, asked: Asked) -> DecodingConfig:
        if not asked.options and not asked.alternatives:
            return translator.decoding
        number = 1 if asked.reader else asked.alternatives + 1
        options = translator.decoding.model_dump() | {"n_best": 1} | asked.options
        diversity = options.pop("diversity")
        try:
            config = DecodingConfig.validate(options)
            beams = math.ceil(config.beam_size / number) * number if diversity else max(config.beam_size, number)
            return DecodingConfig.validate(options | {"n_best": number, "beam_size": beams, "diversity": diversity})
        except UsageError as error:
            raise Refusal(400, f"Invalid request: {error}") from None

    def close(self) -> None:
        """Finish what was accepted, and take nothing more."""
        if self.lookers:
            self.lookers.close()
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
        found = translate_documents(pages, engine)
        pairs = zip(found, pages, strict=True)
        return [Answer(text, [], from_memory=is_known(page, engine)) for text, page in pairs]
    except RecursionError:
        raise DataError("The text has too many elements inside of each other.") from None
    except FormatError as error:
        raise DataError(f"The text {error}") from None


def busy(seconds: int) -> Refusal:
    """What is said when there is too much to do, for so long."""
    return Refusal(503, "The server has more to translate than it can; try again later", retry_after=seconds)


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
