"""The models of a server, and what all APIs need of them: translations, languages, documents."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding import units
from dragoman.decoding.recall import Recall, means
from dragoman.decoding.translation import Translation
from dragoman.decoding.translator import Translator
from dragoman.documents.document import Document, FormatError, has_words
from dragoman.documents.registry import TranslatedDocument, texts_of, translate_document
from dragoman.documents.translate import Engine, distinct_texts, is_known, remembered, translate_documents
from dragoman.errors import DataError, DragomanError, ResourceError, UsageError
from dragoman.serving.background import DOCUMENTS, PAGES, Background
from dragoman.serving.detection import LIKELY, Detected, detect, detect_among, foreign_language, without_tags
from dragoman.serving.inspection import InspectionWorker
from dragoman.serving.keys import ApiKeys
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
CLEARLY = 4
"""A text is left as it is if the target language is this many times likelier than any other. With this and `LEAST`, of
190 labels of a page in each of four languages, all that are left are in the target language."""
LEAST = 0.1
"""Probability that the target language needs at least for a text to be left as it is."""
MOST_DETECTED = 20_000
"""Characters of a document from which its language is detected."""
MOST_FOUND = 500
"""Terms of the server's glossary that are looked for in a text of a request with a glossary of its own."""
COMPARING = 1.0
"""Seconds in which the texts of a request are compared with entries of the memory."""


class UnsupportedLanguage(Refusal):
    """Refusal of a language that no model of the server has."""

    def __init__(self, side: str, code: str, detail: str = ""):
        """`side` is "source" or "target". `detail` continues the message, for instance if the language was detected."""
        super().__init__(400, f"{code} is not supported{detail}")
        self.side, self.detail = side, detail


class Server:
    """Models for pairs of languages, with one queue for all of them."""

    def __init__(
        self,
        translators: Sequence[Translator],
        *,
        limits: Limits = DEFAULT,
        keys: ApiKeys | Sequence[str] = (),
        memory: Memory | None = None,
        inspector: InspectionWorker | None = None,
        queue: TranslationQueue | None = None,
        background: Background | None = None,
    ):
        """`inspector` answers questions about what is inside the models, if that is wanted. Give the `queue` if its
        thread loaded the models, and `background` if it has started already.

        Raises `UsageError` for a model that does not know its languages, and for two of one pair.
        """
        self.models: dict[Pair, Translator] = {}
        for translator in translators:
            pair = languages_of(translator)
            if pair in self.models:
                raise UsageError(f"Two models translate from {pair[0]} to {pair[1]}; give one of them.")
            self.models[pair] = translator
        self.has_confidence = all(translator.has_confidence for translator in translators)
        """Whether every model has a calibrated confidence."""
        self.limits = limits
        self.keys = keys if isinstance(keys, ApiKeys) else ApiKeys(keys)
        self.memory = memory
        self.inspector = inspector
        self.queue = queue or TranslationQueue()
        self.background = background or Background(self.queue)
        self.metrics = Metrics()
        self.characters = 0
        """Characters that models have translated."""
        remembered = memory.languages() if memory else []
        self._recalls: dict[Pair, Recall] = {}
        """For each pair of languages, what looks texts up under all codes with which the memory has entries for it."""
        if memory:
            for pair, translator in self.models.items():
                codes = [pair, *(other for other in remembered if self._is_translated_by(other, pair))]
                self._recalls[pair] = translator.recall = Recall(memory, codes, lenient=True)

    @property
    def sources(self) -> list[str]:
        """Codes of the languages that are translated from."""
        return list(dict.fromkeys(source for source, _ in self.models))

    @property
    def all_targets(self) -> list[str]:
        """Codes of all languages that are translated to."""
        return list(dict.fromkeys(target for _, target in self.models))

    def targets(self, source: str) -> list[str]:
        """Codes of the languages that `source` is translated to."""
        return [target for code, target in self.models if code == source]

    @property
    def codes(self) -> list[str]:
        """Codes of all languages that are translated from or to."""
        return list(dict.fromkeys([*self.sources, *self.all_targets]))

    def languages(self) -> list[dict[str, Any]]:
        """Code, name and targets of every language, as LibreTranslate lists them.

        Languages that are only translated to are listed, too: clients look for their target among the codes.
        """
        return [
            {"code": code, "name": english_name(code), "targets": sorted({code, *self.targets(code)})}
            for code in self.codes
        ]

    def pair(self, source: str, target: str) -> Pair:
        """The languages of a request by the codes of the models; `AUTO` stays as the source. Raises `Refusal`."""
        is_auto = source.casefold() == AUTO
        served_source = AUTO if is_auto else served_language(source, self.codes, reads=True)
        if served_source is None:
            raise UnsupportedLanguage("source", source)
        served_target = served_language(target, self.targets(served_source)) or served_language(target, self.codes)
        if served_target is None:
            raise UnsupportedLanguage("target", target)
        return served_source, served_target

    def check_key(self, key: str | None) -> None:
        """Raise `Refusal` if the server was given API keys and this is none of them."""
        if not self.keys:
            return
        if not key:
            raise Refusal(400, "Please contact the server operator to get an API key")
        if key not in self.keys:
            raise Refusal(403, "Invalid API key")

    def detect(self, text: str, target: str) -> Detected:
        """The most likely language of a text among those that are translated to the target, and the target itself.

        Raises `Refusal` for a text that is surely in none of these.
        """
        detected = self._likely_language(text, target)
        if self._is_foreign(detected, target):
            raise self._refusal_of(detected, target)
        return detected

    async def detect_each(self, texts: Sequence[str], target: str) -> list[Detected]:
        """The languages of several texts, as `detect` gives them. Some may be languages that are not translated.

        Raises `Refusal` if no text with words can be translated.
        """
        languages = await in_turn(partial(self._likely_language, target=target), texts)
        of_words = [language for text, language in zip(texts, languages, strict=True) if has_words([text])]
        if of_words and all(self._is_foreign(language, target) for language in of_words):
            raise self._refusal_of(of_words[0], target)
        return languages

    def _sources(self, target: str) -> list[str]:
        """Codes of the languages that are translated to the target."""
        return [source for source, code in self.models if code == target]

    def _is_foreign(self, detected: Detected, target: str) -> bool:
        """Whether a language is neither the target nor translated to it."""
        return detected.language not in (target, *self._sources(target))

    def _likely_language(self, text: str, target: str) -> Detected:
        """The most likely language of a text among those that are translated to the target, and the target itself; or
        another language if the text surely is in none of them."""
        sources = self._sources(target)
        languages = list(dict.fromkeys([*sources, target]))
        foreign = foreign_language(text, languages)
        if foreign:
            return foreign
        detected = detect_among(text, languages)
        if detected.language != target or not sources:
            return detected
        best_source = detect_among(text, sources)
        is_clear = detected.confidence >= max(LEAST, CLEARLY * best_source.confidence)
        return detected if is_clear else best_source

    def _refusal_of(self, foreign: Detected, target: str) -> Refusal:
        """The refusal of a text in a language that is not translated to the target."""
        if foreign.confidence < LIKELY:
            detail = f": the text is in no language from which this server translates to {english_name(target)}"
            return UnsupportedLanguage("source", AUTO, detail)
        for code in self.codes:
            if close(two_letters(code), foreign.language):
                return not_available(code, target)
        name = english_name(foreign.language)
        detail = f": the text seems to be in {name}; if it is not, say its language instead of {AUTO}"
        return UnsupportedLanguage("source", foreign.language, detail)

    def detections(self, text: str) -> list[Detected]:
        """The likely languages of a text, most likely first: only those of the server, unless it is surely in none of
        them."""
        likely = detect(text)
        if not likely or foreign_language(text, self.codes):
            return likely
        shares = {served_language(language, self.codes, reads=True): share for language, share in likely}
        best = detect_among(text, self.codes)
        others = [Detected(code, share) for code, share in shares.items() if code and code != best.language]
        return [best, *others]

    async def detected(self, request: TextRequest) -> list[Detected] | None:
        """The language of each text of a request that was checked; None if it names the language. Raises `Refusal`."""
        if request.source != AUTO:
            return None
        texts = [without_tags(text) for text in request.texts] if request.reader else request.texts
        return await self.detect_each(texts, request.target)

    async def translate(self, request: TextRequest, detected: Sequence[Detected] | None = None) -> list[Answer]:
        """The answers to all texts of a request, in their order. Raises `Refusal`.

        With `AUTO`, a text in a language that is not translated to the target is left as it is, if others are not. The
        languages may have been `detected` before.
        """
        request = self.check(request)
        if detected is None:
            detected = await self.detected(request)
        if detected is None:  # the request names the language
            return await self._translated(request.source, request.texts, request)
        rows_of_language: dict[str, list[int]] = {}
        for row, (language, _confidence) in enumerate(detected):
            rows_of_language.setdefault(language, []).append(row)
        answers_of_languages = await _gather(
            self._translated(language, [request.texts[row] for row in rows], request)
            for language, rows in rows_of_language.items()
        )
        answers: dict[int, Answer] = {}
        for rows, language_answers in zip(rows_of_language.values(), answers_of_languages, strict=True):
            answers.update(zip(rows, language_answers, strict=True))
        return [replace(answers[row], detected=language) for row, language in enumerate(detected)]

    async def document(
        self, content: bytes, name: str, languages: Pair, options: Mapping[str, Any] | None = None
    ) -> TranslatedDocument:
        """A translated document, for `languages` as `pair_of_document` gives them. Raises `Refusal`.

        `options` are fields of `DecodingConfig` that the request sets.
        """
        self._check_terms(options or {})
        translator = self.model(*languages)
        config = self._config(translator, TextRequest([], *languages, options=dict(options or {})))
        translation = self.background.run(
            DOCUMENTS,
            partial(_translate_document, content, Path(name).name, languages, config),
            translator,
            config,
            seconds=self.limits.document_seconds,
            known=self._memory_lookup(languages, config),
        )
        return await _result_or_refusal(translation)

    async def pair_of_document(self, content: bytes, name: str, source: str, target: str) -> Pair:
        """The languages of the translation of a document. With `AUTO`, its language is detected. Raises `Refusal`."""
        source, target = self.pair(source, target)
        if source != AUTO:
            return source, target
        read = partial(texts_of, content, Path(name).name)
        reading = self.background.read(DOCUMENTS, read, seconds=self.limits.document_seconds)
        texts = await _result_or_refusal(reading)
        text = "\n".join(texts)[:MOST_DETECTED]
        detected = await asyncio.to_thread(self.detect, text, target)
        return detected.language, target

    async def translations(
        self, translator: Translator, texts: Sequence[str], config: DecodingConfig, prefixes: Sequence[str] = ()
    ) -> list[Translation]:
        """The translations of texts, through the queue. Raises `Refusal`."""
        seconds = self.limits.seconds

        async def submit() -> list[Translation]:
            future = self.queue.submit(translator, texts, config, seconds=seconds, prefixes=prefixes)
            # A batch that is being computed may end later. Its client does not wait for it any longer than others.
            return await asyncio.wait_for(asyncio.wrap_future(future), seconds)

        return await _result_or_refusal(submit())

    def check(self, request: TextRequest) -> TextRequest:
        """The request, its languages given by the codes of the models.

        Raises `Refusal` for a request that is too large or asks for something that is not supported.
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

    def _check_terms(self, options: Mapping[str, Any]) -> None:
        """Raise `Refusal` for too many or too long terms, or a prefix that is too long."""
        glossary, forbidden, prefix = options.get("glossary"), options.get("forbid"), options.get("prefix")
        self.check_texts([str(option) for option in (forbidden, prefix) if option])
        limits = self.limits
        # `DecodingConfig` says what must be a dict or a list.
        texts: list[str] = []
        if isinstance(glossary, dict):
            if len(glossary) > limits.terms:
                raise Refusal(400, f"Invalid request: a glossary may have {limits.terms} terms")
            texts = [str(text) for text in chain(glossary, glossary.values())]
            if sum(map(len, texts)) > limits.terms_characters:
                raise Refusal(400, f"Invalid request: a glossary may have {limits.terms_characters:,} characters")
        if isinstance(forbidden, list):
            if len(forbidden) > limits.forbidden:
                raise Refusal(400, f"Invalid request: {limits.forbidden} terms may be forbidden")
            texts += map(str, forbidden)
        if max(map(len, texts), default=0) > limits.term:
            raise Refusal(400, f"Invalid request: a term of glossary or forbid may have {limits.term} characters")

    def check_texts(self, texts: Sequence[str]) -> None:
        """Raise `Refusal` for too many texts, or too long ones."""
        longest = max(map(len, texts), default=0)
        for size, limit in ((len(texts), self.limits.texts), (longest, self.limits.characters)):
            if size > limit:
                raise Refusal(400, f"Invalid request: request ({size}) exceeds text limit ({limit})")

    def model(self, source: str, target: str) -> Translator:
        """The model from one language to another, by the codes of the models. Raises `Refusal`."""
        if (source, target) not in self.models:
            raise not_available(source, target)
        return self.models[source, target]

    async def _translated(self, source: str, texts: Sequence[str], request: TextRequest) -> list[Answer]:
        """The answers to texts of one language: from the memory, or from the model."""
        pair = source, request.target
        if pair not in self.models:  # the target language, or one that is not translated to it
            return [Answer(text, []) for text in texts]
        known: list[str | None] = [None] * len(texts)
        config = self._config(self.model(*pair), request)
        find = self._memory_lookup(pair, config)
        if find and not request.reader:  # the parts of texts with tags are looked up one by one
            known = await asyncio.to_thread(lambda: [find(text) for text in texts])
        unknown = [text for text, translation in zip(texts, known, strict=True) if translation is None]
        computed = iter(await self._computed(source, unknown, request, config))
        answers = []
        for text, translation in zip(texts, known, strict=True):
            if translation is None:
                answers.append(next(computed))
            else:
                answers.append(_remembered_answer(text, translation, config))
        if self.memory and request.similar:
            most = min(request.similar, self.limits.alternatives)
            compare = partial(self._similar, languages=pair, most=most, until=time.monotonic() + COMPARING)
            similar = await in_turn(compare, texts)
            answers = [replace(answer, similar=entries) for answer, entries in zip(answers, similar, strict=True)]
        return answers

    def _memory_lookup(self, languages: Pair, config: DecodingConfig) -> Callable[[str], str | None] | None:
        """A function that returns the translation of a text which the memory has, if that keeps to the terms of the
        search; None for a server without memory."""
        if not self._recalls:
            return None
        return partial(remembered, self.models[languages], config)

    def _is_translated_by(self, codes: Pair, pair: Pair) -> bool:
        """Whether requests with other codes, such as those of an earlier model, go to the model of `pair`."""
        if codes == pair:
            return False
        return means(codes, pair, self.codes, self.targets(pair[0]))

    def _similar(self, text: str, *, languages: Pair, most: int, until: float) -> list[Similar]:
        """The entries of the memory that are most similar to a text, among those that can be compared by `until`, a
        time of `time.monotonic`."""
        entries: list[Similar] = []
        recall = self._recalls[languages]
        for pair in recall.languages:
            seconds = until - time.monotonic()
            if seconds > 0:
                entries += recall.memory.similar(pair, text, most, seconds=seconds)
        return sorted(entries, key=lambda entry: -entry.similarity)[:most]

    async def _computed(
        self, source: str, texts: list[str], request: TextRequest, config: DecodingConfig
    ) -> list[Answer]:
        """The answers of the model to texts of one language, with the search of the request."""
        translator = self.model(source, request.target)
        characters = sum(map(len, texts))
        self.characters += characters
        self.metrics.characters.labels(source, request.target).inc(characters)
        if request.reader:
            pages = self.background.run(
                PAGES,
                partial(_translate_pages, texts, request.reader),
                translator,
                config,
                seconds=self.limits.seconds,
                known=self._memory_lookup((source, request.target), config),
            )
            return await _result_or_refusal(pages)
        return [_text_answer(translation) for translation in await self.translations(translator, texts, config)]

    def _config(self, translator: Translator, request: TextRequest) -> DecodingConfig:
        """The search of a model with the options of a request. Raises `Refusal`."""
        if not request.options and not request.alternatives:
            return translator.decoding
        n_best = 1 if request.reader else request.alternatives + 1
        own = translator.decoding
        own_terms = {"glossary": own.glossary, "forbid": own.forbid}  # which may be many
        beside = own.fields_beside(request.options | {"n_best": n_best}, without=own_terms.keys())
        options = beside | {"n_best": 1} | request.options
        options |= _with_terms_of(translator, request)
        diversity = options.pop("diversity", 0.0)
        if diversity and n_best < 2:
            raise Refusal(400, "Invalid request: diversity is for several translations; ask for alternatives as well")
        try:
            beam_size = DecodingConfig.validate(options).beam_size
            # With diversity, each of the `n_best` groups has as many hypotheses.
            beam_size = max(n_best, beam_size // n_best * n_best) if diversity else max(beam_size, n_best)
            config = DecodingConfig.validate(
                options | {"n_best": n_best, "beam_size": beam_size, "diversity": diversity}
            )
        except UsageError as error:
            raise Refusal(400, f"Invalid request: {error}") from None
        config = config.model_copy(update={name: own_terms[name] for name in own_terms.keys() - options.keys()})
        if config.needs_confidence and not translator.has_confidence:
            raise Refusal(400, "Invalid request: this model has no calibrated confidence")
        return config

    def close(self) -> None:
        """Accept no more requests, and finish those that were accepted."""
        if self.inspector:
            self.inspector.close()
        self.background.close()
        self.queue.close()


def _with_terms_of(translator: Translator, request: TextRequest) -> dict[str, Any]:
    """Glossary and forbidden terms of a request that has any, with those of the model's own search that do not
    contradict them.

    Of the model's glossary, a request with texts gets the terms that are in them: the search then has few. For a
    document, whose texts are not read yet, it gets all.
    """
    own = translator.decoding
    glossary, forbidden = request.options.get("glossary", {}), request.options.get("forbid", [])
    if not (glossary or forbidden) or not isinstance(glossary, dict) or not isinstance(forbidden, list):
        return {}  # `DecodingConfig` says what they must be
    known = {*own.forbid}
    unknown = [term for term in forbidden if not isinstance(term, str) or term not in known]
    terms: dict[str, Any] = {"glossary": glossary, "forbid": [*own.forbid, *unknown]}
    if own.glossary:
        operators = translator.glossary(own)
        others = operators.without_those_of(map(str, glossary))
        if request.texts:
            in_texts = chain.from_iterable(operators.occurrences(text, MOST_FOUND) for text in request.texts)
            others = {term.source: term.target for term in in_texts if term.source in others}
        against = [str(term).lower() for term in forbidden]
        others = {
            source: target for source, target in others.items() if not any(term in target.lower() for term in against)
        }
        terms["glossary"] = glossary | others
    return terms


def languages_of(translator: Translator) -> Pair:
    """Codes of the languages of a model. Raises `UsageError` for one that does not know them."""
    source, target = translator.languages
    if not source or not target:
        raise UsageError("A model does not know its languages; give them as MODEL:en,fr.")
    return standard_code(source), standard_code(target)


def not_available(source: str, target: str) -> Refusal:
    """The refusal of a pair of languages that the server both has, but without a model between them."""
    target_name, source_name = (f"{english_name(code)} ({code})" for code in (target, source))
    return Refusal(400, f"{target_name} is not available as a target language from {source_name}")


def _distinct_alternatives(translation: Translation) -> list[Translation]:
    """The alternatives of a translation whose texts differ from it and from each other. Empty ones are left out."""
    texts = {"", translation.text}
    distinct = []
    for alternative in translation.alternatives or []:
        if alternative.text not in texts:
            texts.add(alternative.text)
            distinct.append(alternative)
    return distinct


def _translate_pages(texts: Sequence[str], reader: Callable[[str], Document], engine: Engine) -> list[Answer]:
    """The answers to texts with tags. Raises `DataError`."""
    made: dict[str, Translation] = {}

    def translate(texts: list[str]) -> Iterator[Translation]:
        for text, translation in zip(texts, engine.translate(texts), strict=True):
            made[text] = translation
            yield translation

    try:
        pages = [reader(text) for text in texts]
        translated = translate_documents(pages, replace(engine, translate=translate))
        pairs = zip(translated, pages, strict=True)
        return [_page_answer(text, page, engine, made) for text, page in pairs]
    except RecursionError:
        raise DataError("The text has too many elements inside of each other.") from None
    except FormatError as error:
        raise DataError(f"The text {error}") from None


def _remembered_answer(text: str, translation: str, config: DecodingConfig) -> Answer:
    """The answer to a text whose translation the memory has: no model has scored it."""
    return replace(_text_answer(units.remembered(text, translation, config)), score=None, from_memory=True)


def _text_answer(translation: Translation) -> Answer:
    """The answer to a text without tags."""
    return Answer(
        translation.text,
        _distinct_alternatives(translation),
        translation.score,
        translation.alignment,
        translation.confidence,
        translation.edit_probability,
        bool(translation.untranslated),
        translation.sentences,
    )


def _page_answer(text: str, page: Document, engine: Engine, made: Mapping[str, Translation]) -> Answer:
    """The answer to a text with tags, whose parts have the translations `made`."""
    parts = [made[part] for part in distinct_texts(page, engine) if part in made]
    confidences = [part.confidence for part in parts if part.confidence is not None]
    edits = [part.edit_probability for part in parts if part.edit_probability is not None]
    is_checked = any(part.sentences is not None for part in parts)
    return Answer(
        text,
        [],
        confidence=min(confidences, default=None),
        edit_probability=1 - math.prod(1 - edit for edit in edits) if edits else None,
        is_untranslated=any(part.untranslated for part in parts),
        sentences=[sentence for part in parts for sentence in part.sentences or ()] if is_checked else None,
        from_memory=is_known(page, engine),
    )


def _translate_document(
    content: bytes, name: str, languages: Pair, config: DecodingConfig, engine: Engine
) -> TranslatedDocument:
    """A translated document, with the confidence of its translations if the search has one."""
    engine = replace(engine, has_confidence=config.needs_confidence, only_above=config.only_above)
    return translate_document(content, name, languages, engine)


def busy(seconds: int) -> Refusal:
    """The refusal of a request for which there is no time; the client may try again in so many seconds."""
    return Refusal(503, "The server has more to translate than it can; try again later", retry_after=seconds)


async def in_turn(work: Callable[[str], T], texts: Sequence[str]) -> list[T]:
    """The results of `work` for each text, in threads, one after another. After a cancellation no other one begins."""
    return [await asyncio.to_thread(work, text) for text in texts]


async def _gather(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of coroutines that run at the same time. If one fails, the others are cancelled."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def _result_or_refusal(translation: Awaitable[T]) -> T:
    """The result of a translation, its errors turned into `Refusal`. Raises `ResourceError`, too."""
    try:
        return await translation
    except QueueFull as error:
        raise busy(error.seconds) from None
    except (DeadlinePassed, TimeoutError):
        raise Refusal(504, "The translation took too long; send shorter texts") from None
    except ResourceError:
        raise
    except DragomanError as error:
        raise Refusal(400, str(error)) from None
