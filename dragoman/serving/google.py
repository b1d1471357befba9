"""The API of Google Translate, version 2: one route."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse

from dragoman.serving.asked import AUTO, Asked
from dragoman.serving.libretranslate import key_of, texts_of
from dragoman.serving.limits import Refusal
from dragoman.serving.openapi import TEXT, TEXTS, body, documented, with_codes
from dragoman.serving.requests import read_fields, text_of, unless_gone
from dragoman.serving.server import Server

PATH = "/language/translate/v2"


def router(server: Server) -> APIRouter:
    """The route of Google."""
    routes = APIRouter(tags=["Google"])

    asked_of = with_codes(TRANSLATE, {"source": server.sources, "target": server.all_targets})

    @routes.post(PATH, **documented("Translate one text or several; HTML unless `format` is text.", asked_of))
    async def translate(request: Request) -> JSONResponse:
        fields = await read_fields(request, server.limits.body)
        server.check_key(key_of(request, fields))
        if fields.get("format", "html") not in ("html", "text"):
            raise Refusal(400, "Invalid Value: format")
        asked = Asked(
            texts_of(fields, "q"),
            text_of(fields, "source", AUTO),
            text_of(fields, "target"),
            html=fields.get("format", "html") == "html",
        )
        answers = await unless_gone(request, server.translate(asked))
        translations = [
            {"translatedText": answer.text}
            | ({"detectedSourceLanguage": answer.detected.language} if answer.detected else {})
            for answer in answers
        ]
        return JSONResponse({"data": {"translations": translations}})

    return routes


FORMAT = TEXT | {"enum": ["html", "text"], "default": "html"}
TRANSLATE = body({"q": TEXTS, "source": TEXT, "target": TEXT, "format": FORMAT}, required=["q", "target"])


def shaped(refusal: Refusal) -> dict[str, Any]:
    """An error as Google says it."""
    errors = [{"message": refusal.message, "domain": "global", "reason": "invalid"}]
    return {"error": {"code": refusal.status, "message": refusal.message, "errors": errors}}
