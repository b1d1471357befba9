"""The API of Google Translate, version 2: translations, languages, detection."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse

from dragoman.documents.html import read_html
from dragoman.serving.libretranslate import key_of, texts_of
from dragoman.serving.limits import Refusal
from dragoman.serving.openapi import TEXT, TEXTS, body, documented, parameters, with_codes
from dragoman.serving.requests import read_fields, text_of, unless_gone
from dragoman.serving.server import Server, in_turn
from dragoman.serving.text_request import AUTO, TextRequest
from dragoman.text.language_codes import english_name

PATH = "/language/translate/v2"
MODELS = ("base", "nmt")
"""Values of `model`, which both mean the model of the server."""
UNKNOWN = "und"
"""The language of a text without words."""


def router(server: Server) -> APIRouter:
    """The routes of Google, each for GET and POST."""
    routes, own = APIRouter(tags=["Google"]), _Google(server)
    codes = {"source": server.codes, "target": server.codes}
    for path, answer, summary, fields in (
        (PATH, own.translate, "Translate one text or several; HTML unless `format` is text.", TRANSLATE),
        (f"{PATH}/languages", own.languages, "The languages that are translated from or to.", LANGUAGES),
        (f"{PATH}/detect", own.detect, "The language of one text or of several.", DETECT),
    ):
        described = with_codes(fields, codes)
        routes.add_api_route(path, answer, methods=["POST"], **documented(summary, described))
        routes.add_api_route(path, answer, methods=["GET"], **documented(summary, parameters(described)))
        routes.add_api_route(f"{path}/", answer, methods=["GET", "POST"], include_in_schema=False)
    return routes


class _Google:
    """The answers of these routes."""

    def __init__(self, server: Server):
        self.server = server

    async def _fields(self, request: Request) -> dict[str, Any]:
        fields = await read_fields(request, self.server.limits)
        key = key_of(request, fields) or request.headers.get("x-goog-api-key")
        try:
            self.server.check_key(key)
        except Refusal:
            if key:
                raise Refusal(400, "API key not valid. Please pass a valid API key.") from None
            raise Refusal(403, "The request is missing a valid API key.") from None
        return fields

    async def translate(self, request: Request) -> JSONResponse:
        fields = await self._fields(request)
        kind, model = text_of(fields, "format", "html"), text_of(fields, "model", MODELS[-1])
        if kind not in ("html", "text"):
            raise Refusal(400, "Invalid Value: format")
        if model not in MODELS:
            raise Refusal(400, "Invalid Value: model")
        text_request = TextRequest(
            texts_of(fields, "q"),
            text_of(fields, "source", AUTO),
            text_of(fields, "target"),
            reader=read_html if kind == "html" else None,
        )
        translations = []
        for answer in await unless_gone(request, self.server.translate(text_request)):
            translation = {"translatedText": answer.text}
            if answer.detected:
                translation["detectedSourceLanguage"] = answer.detected.language
            if "model" in fields:
                translation["model"] = model
            translations.append(translation)
        return JSONResponse({"data": {"translations": translations}})

    async def languages(self, request: Request) -> JSONResponse:
        fields = await self._fields(request)
        text_of(fields, "model", "")
        named = text_of(fields, "target", "")  # the language in which the names are; they are always English here
        languages = [{"language": code} | ({"name": english_name(code)} if named else {}) for code in self.server.codes]
        return JSONResponse({"data": {"languages": languages}})

    async def detect(self, request: Request) -> JSONResponse:
        texts = texts_of(await self._fields(request), "q")
        self.server.check_texts(texts)
        detections = await unless_gone(request, in_turn(self._detection, texts))
        return JSONResponse({"data": {"detections": [[detection] for detection in detections]}})

    def _detection(self, text: str) -> dict[str, Any]:
        detected = self.server.detections(text)
        if not detected:
            return {"language": UNKNOWN, "confidence": 0.0, "isReliable": False}
        return {"language": detected[0].language, "confidence": detected[0].confidence, "isReliable": False}


FORMAT = TEXT | {"enum": ["html", "text"], "default": "html"}
MODEL = TEXT | {"enum": list(MODELS), "default": MODELS[-1]}
TRANSLATE = body(
    {"q": TEXTS, "source": TEXT, "target": TEXT, "format": FORMAT, "model": MODEL}, required=["q", "target"]
)
LANGUAGES = body({"target": TEXT}, required=[])
DETECT = body({"q": TEXTS}, required=["q"])
REASONS = {403: "forbidden", 404: "notFound", 405: "httpMethodNotAllowed", 500: "backendError", 503: "backendError"}


def shaped(refusal: Refusal) -> dict[str, Any]:
    """An error as Google says it."""
    reason = REASONS.get(refusal.status, "invalid")
    errors = [{"message": refusal.message, "domain": "global", "reason": reason}]
    return {"error": {"code": refusal.status, "message": refusal.message, "errors": errors}}
