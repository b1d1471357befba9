"""An API of our own, which the page uses: how sure a translation is, other words for one of it, and its inside."""

from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse

from dragoman.decoding.translator import Translator
from dragoman.decoding.units import with_spaces
from dragoman.serving.inspection import InspectedSentence, others
from dragoman.serving.libretranslate import key_of
from dragoman.serving.limits import Refusal
from dragoman.serving.openapi import TEXT, body, documented, with_codes
from dragoman.serving.requests import read_fields, text_of, unless_gone
from dragoman.serving.server import Server
from dragoman.serving.text_request import AUTO

Pair = tuple[str, str]
POLICY = "sandbox allow-scripts allow-downloads; frame-ancestors 'self'"
"""Content policy of the page of an inspection, which says itself what it may run and load."""


def router(server: Server) -> APIRouter:
    """The routes of this API."""
    routes, own = APIRouter(tags=["Dragoman"]), _Explore(server)
    codes = {"source": [AUTO, *server.sources], "target": server.all_targets}
    for path, answer, summary, more in (
        ("/explore", own.explore, "The sentences of a text, and how sure each translated word is.", ("translation",)),
        ("/words", own.words, "Words that could follow the beginning of a sentence's translation.", ("prefix",)),
        ("/inspect", own.inspect, "A page with everything inside the translation of a sentence.", ("translation",)),
    ):
        names = ("q", "source", "target", *more, "api_key")
        fields = body(dict.fromkeys(names, TEXT), required=("q", "source", "target"))
        kind = HTMLResponse if path == "/inspect" else JSONResponse
        described = documented(summary, with_codes(fields, codes))
        routes.add_api_route(path, answer, methods=["POST"], response_class=kind, **described)
    return routes


class _Explore:
    """The answers of these routes."""

    def __init__(self, server: Server):
        self.server, self.seconds = server, server.limits.seconds

    async def explore(self, request: Request) -> JSONResponse:
        fields, translator, pair = await self._read(request)
        return JSONResponse(await unless_gone(request, self._explored(fields, translator, pair)))

    async def words(self, request: Request) -> JSONResponse:
        fields, translator, pair = await self._read(request)
        return JSONResponse(await unless_gone(request, self._words(fields, translator, pair)))

    async def inspect(self, request: Request) -> HTMLResponse:
        fields, _, pair = await self._read(request)
        page = await unless_gone(request, self._ask(pair, "page", fields["q"], fields.get("translation")))
        return HTMLResponse(page, headers={"Content-Security-Policy": POLICY})

    async def _read(self, request: Request) -> tuple[dict[str, Any], Translator, Pair]:
        server, fields = self.server, await read_fields(request, self.server.limits)
        server.check_key(key_of(request, fields))
        given = [name for name in ("translation", "prefix") if fields.get(name) not in (None, "")]  # they may be empty
        texts = [text_of(fields, name) for name in ("q", *given)]
        server.check_texts(texts)
        source, target = server.pair(text_of(fields, "source"), text_of(fields, "target"))
        pair = server.detect(texts[0], target).language if source == AUTO else source, target
        translator = server.model(*pair)
        if server.inspector is None or pair not in server.inspector.models:
            raise Refusal(404, "This server does not show the insides of this model")
        return fields, translator, pair

    async def _ask(self, pair: Pair, question: str, *arguments: Any) -> Any:
        return await self.server.inspector.ask(pair, question, *arguments, seconds=self.seconds)

    async def _explored(self, fields: dict[str, Any], translator: Translator, pair: Pair) -> dict[str, Any]:
        units, translations = [fields["q"]], [fields.get("translation")]
        sentences = translator.split(fields["q"])
        if translations == [None] or len(sentences) > 1:
            config = translator.decoding.model_copy(update={"split": False})
            own = [found.text for found in await self.server.translations(translator, sentences, config)]
            if translations in ([None], ["".join(with_spaces(own, sentences))]):
                units, translations = sentences, own
        return {"sentences": [sentence._asdict() async for sentence in self._sentences(pair, units, translations)]}

    async def _sentences(
        self, pair: Pair, units: list[str], translations: list[str]
    ) -> AsyncIterator[InspectedSentence]:
        """Each sentence of a text with its translation; others may ask between two of them."""
        spaced = with_spaces(translations, units)
        for unit, text, full in zip(units, translations, spaced, strict=True):
            words = [word._asdict() for word in await self._ask(pair, "words", unit, text)]
            yield InspectedSentence(unit, text, words, full[len(text) :])

    async def _words(self, fields: dict[str, Any], translator: Translator, pair: Pair) -> dict[str, Any]:
        text, prefix = fields["q"], fields.get("prefix") or ""
        begun = await self._ask(pair, "likely_next", text, prefix)
        config = translator.decoding.model_copy(update={"split": False})
        prefixes = [text for text, _ in begun]
        translations = await self.server.translations(translator, [text] * len(begun), config, prefixes)
        return {"words": [word._asdict() for word in others(begun, prefix, translations)]}
