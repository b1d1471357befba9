"""The API of Google Translate, version 2: translations, languages, detection."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dragoman.documents.html import read_html
from dragoman.serving.detection import Detected
from dragoman.serving.libretranslate import key_of, texts_of
from dragoman.serving.limits import Refusal
from dragoman.serving.openapi import TEXT, TEXTS, body, documented, field_names, parameters, with_codes
from dragoman.serving.requests import ignored_fields, read_fields, text_of, unless_gone
from dragoman.serving.server import Server, in_turn
from dragoman.serving.text_request import AUTO, TextRequest
from dragoman.text.language_codes import english_name

Handler = Callable[[Request], Awaitable[Response]]

PATH = "/language/translate/v2"
MODELS = ("base", "nmt")
"""Values of the field `model`. Both mean the model of the server."""
UNKNOWN = "und"
"""Code of the language of a text without words."""


FORMAT = TEXT | {"enum": ["html", "text"], "default": "html"}
MODEL = TEXT | {"enum": list(MODELS), "default": MODELS[-1]}
TRANSLATE = body(
    {"q": TEXTS, "source": TEXT, "target": TEXT, "format": FORMAT, "model": MODEL}, required=["q", "target"]
)
ALSO_KNOWN = {"key", "alt", "fields", "prettyPrint", "quotaUser", "userIp", "callback"}
"""Fields that any route of Google has. Other fields that the description lacks are named in the header
`X-Ignored-Parameters` of the answer."""
LANGUAGES = body({"target": TEXT}, required=[])
DETECT = body({"q": TEXTS}, required=["q"])


def router(server: Server) -> APIRouter:
    """The routes of Google, each for GET and POST."""
    routes = APIRouter(tags=["Google"])
    handlers = _Handlers(server)
    codes = {"source": server.codes, "target": server.codes}

    def get_or_post(path: str, handler: Handler, summary: str, fields: dict[str, Any]) -> None:
        fields = with_codes(fields, codes)
        routes.add_api_route(path, handler, methods=["POST"], **documented(summary, fields))
        routes.add_api_route(path, handler, methods=["GET"], **documented(summary, parameters(fields)))
        routes.add_api_route(f"{path}/", handler, methods=["GET", "POST"], include_in_schema=False)

    get_or_post(PATH, handlers.translate, "Translate one text or several; HTML unless `format` is text.", TRANSLATE)
    get_or_post(f"{PATH}/languages", handlers.languages, "The languages that are translated from or to.", LANGUAGES)
    get_or_post(f"{PATH}/detect", handlers.detect, "The language of one text or of several.", DETECT)
    return routes


class _Handlers:
    """One method for each route."""

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
        headers = ignored_fields(fields, field_names(TRANSLATE) | ALSO_KNOWN)
        return JSONResponse({"data": {"translations": translations}}, headers=headers)

    async def languages(self, request: Request) -> JSONResponse:
        fields = await self._fields(request)
        text_of(fields, "model", "")  # refused if it is no text
        languages: list[dict[str, str]] = [{"language": code} for code in self.server.codes]
        # The target is the language for the names, which are always English here; without it they are left out.
        if text_of(fields, "target", ""):
            for language in languages:
                language["name"] = english_name(language["language"])
        return JSONResponse({"data": {"languages": languages}})

    async def detect(self, request: Request) -> JSONResponse:
        texts = texts_of(await self._fields(request), "q")
        self.server.check_texts(texts)
        detections = await unless_gone(request, in_turn(self._detection, texts))
        return JSONResponse({"data": {"detections": [[detection] for detection in detections]}})

    def _detection(self, text: str) -> dict[str, Any]:
        """JSON content about the most likely language of a text."""
        detections = self.server.detections(text)
        best = detections[0] if detections else Detected(UNKNOWN, 0.0)
        return {"language": best.language, "confidence": best.confidence, "isReliable": False}


REASONS = {403: "forbidden", 404: "notFound", 405: "httpMethodNotAllowed", 500: "backendError", 503: "backendError"}


def error_content(refusal: Refusal) -> dict[str, Any]:
    """JSON content of an error, as Google writes it."""
    reason = REASONS.get(refusal.status, "invalid")
    errors = [{"message": refusal.message, "domain": "global", "reason": reason}]
    return {"error": {"code": refusal.status, "message": refusal.message, "errors": errors}}
