"""Dragoman's own API, which its web page uses: probabilities of words, words to replace one, and inspections."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from dragoman.decoding.translator import Translator
from dragoman.decoding.units import with_spaces
from dragoman.serving.inspection import InspectedModel, InspectedSentence, replacements
from dragoman.serving.libretranslate import key_of
from dragoman.serving.limits import Refusal
from dragoman.serving.openapi import TEXT, body, documented, with_codes
from dragoman.serving.requests import read_fields, text_of, unless_gone
from dragoman.serving.server import Pair, Server
from dragoman.serving.text_request import AUTO

POLICY = "sandbox allow-scripts allow-downloads; frame-ancestors 'self'"
"""Content security policy of the page of an inspection. The page itself says what it may run and load."""
T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]


def router(server: Server) -> APIRouter:
    """The routes of this API."""
    routes = APIRouter(tags=["Dragoman"])
    handlers = _Handlers(server)
    codes = {"source": [AUTO, *server.sources], "target": server.all_targets}

    def post(
        path: str, handler: Handler, summary: str, *, optional: str, answer: type[Response] = JSONResponse
    ) -> None:
        names = ("q", "source", "target", optional, "api_key")
        fields = body(dict.fromkeys(names, TEXT), required=("q", "source", "target"))
        description = documented(summary, with_codes(fields, codes))
        routes.add_api_route(path, handler, methods=["POST"], response_class=answer, **description)

    post(
        "/explore",
        handlers.explore,
        "The sentences of a text, and how sure each translated word is.",
        optional="translation",
    )
    post(
        "/words",
        handlers.words,
        "Words that could follow the beginning of a sentence's translation.",
        optional="prefix",
    )
    post(
        "/inspect",
        handlers.inspect,
        "A page with everything inside the translation of a sentence.",
        optional="translation",
        answer=HTMLResponse,
    )
    return routes


@dataclass(frozen=True)
class _Question:
    """A question about a text, and maybe about its translation or the beginning of that."""

    text: str
    translation: str | None
    """None if the request gives none, which is not the same as an empty one."""
    prefix: str
    """Beginning of a translation; empty if the request gives none."""
    pair: Pair
    """Codes of the languages, as the models have them."""
    translator: Translator


class _Handlers:
    """One method for each route."""

    def __init__(self, server: Server):
        self.server = server

    async def explore(self, request: Request) -> JSONResponse:
        question = await self._read(request)
        return JSONResponse(await unless_gone(request, self._explored(question)))

    async def words(self, request: Request) -> JSONResponse:
        question = await self._read(request)
        return JSONResponse(await unless_gone(request, self._words(question)))

    async def inspect(self, request: Request) -> HTMLResponse:
        question = await self._read(request)
        asking = self._ask(question.pair, InspectedModel.page, question.text, question.translation)
        page = await unless_gone(request, asking)
        return HTMLResponse(page, headers={"Content-Security-Policy": POLICY})

    async def _read(self, request: Request) -> _Question:
        """The question of a request. Raises `Refusal`."""
        server = self.server
        fields = await read_fields(request, server.limits)
        server.check_key(key_of(request, fields))
        text = text_of(fields, "q")
        optional = [text_of(fields, name) for name in ("translation", "prefix") if fields.get(name) not in (None, "")]
        server.check_texts([text, *optional])
        source, target = server.pair(text_of(fields, "source"), text_of(fields, "target"))
        if source == AUTO:
            source = server.detect(text, target).language
        translator = server.model(source, target)
        if server.inspector is None or (source, target) not in server.inspector.models:
            raise Refusal(404, "This server does not show the insides of this model")
        prefix = fields.get("prefix") or ""
        return _Question(text, fields.get("translation"), prefix, (source, target), translator)

    async def _ask(self, pair: Pair, question: Callable[..., T], *arguments: str | None) -> T:
        """The result of a method of `InspectedModel`."""
        return await self.server.inspector.ask(pair, question, *arguments, seconds=self.server.limits.seconds)

    async def _explored(self, question: _Question) -> dict[str, Any]:
        """JSON content about each sentence of a text.

        A translation that is given is split like the text if it is the one that the model gives. Another one is
        compared with the text as a whole.
        """
        units, translations = [question.text], [question.translation]
        sentences = question.translator.split(question.text)
        if question.translation is None or len(sentences) > 1:
            config = question.translator.decoding.model_copy(update={"split": False})
            computed = await self.server.translations(question.translator, sentences, config)
            texts = [translation.text for translation in computed]
            if question.translation in (None, "".join(with_spaces(texts, sentences))):
                units, translations = sentences, texts
        inspected = self._inspected_sentences(question.pair, units, translations)
        return {"sentences": [sentence._asdict() async for sentence in inspected]}

    async def _inspected_sentences(
        self, pair: Pair, units: list[str], translations: list[str]
    ) -> AsyncIterator[InspectedSentence]:
        """Each sentence of a text with its translation. Other requests may be answered between two of them."""
        spaced = with_spaces(translations, units)
        for unit, translation, with_space in zip(units, translations, spaced, strict=True):
            words = await self._ask(pair, InspectedModel.words, unit, translation)
            yield InspectedSentence(
                unit, translation, [word._asdict() for word in words], after=with_space[len(translation) :]
            )

    async def _words(self, question: _Question) -> dict[str, Any]:
        """JSON content about the words that could follow the prefix."""
        text, prefix = question.text, question.prefix
        continuations = await self._ask(question.pair, InspectedModel.likely_next, text, prefix)
        prefixes = [continued for continued, _probability in continuations]
        probabilities = [probability for _continued, probability in continuations]
        config = question.translator.decoding.model_copy(update={"split": False})
        texts = [text] * len(prefixes)
        translations = await self.server.translations(question.translator, texts, config, prefixes)
        return {"words": [word._asdict() for word in replacements(probabilities, prefix, translations)]}
