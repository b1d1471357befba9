"""The API of DeepL, version 2: texts, documents, languages and usage."""

import asyncio
import secrets
import uuid
from collections import OrderedDict
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dragoman.data.language_codes import english_name, two_letters
from dragoman.serving.asked import AUTO, Answer, Asked
from dragoman.serving.libretranslate import MOST_FILES, file_of, key_of, texts_of
from dragoman.serving.limits import Refusal
from dragoman.serving.metrics import log_failure
from dragoman.serving.openapi import BINARY, TEXT, TEXTS, body, documented, with_codes
from dragoman.serving.requests import read_fields, text_of, unless_gone
from dragoman.serving.server import Server

KNOWN = {"text", "source_lang", "target_lang", "tag_handling", "split_sentences", "auth_key"}
PREFIX = "/v2"


def router(server: Server) -> APIRouter:
    """The routes of DeepL."""
    routes = APIRouter(prefix=PREFIX, tags=["DeepL"])
    _Documents(server).add_to(routes)

    upper = {"source_lang": map(str.upper, server.sources), "target_lang": map(str.upper, server.all_targets)}
    asked_of = with_codes(TRANSLATE, {name: list(codes) for name, codes in upper.items()})

    @routes.post("/translate", **documented("Translate one text or several.", asked_of))
    async def translate(request: Request) -> JSONResponse:
        fields = await read_fields(request, server.limits.body)
        _check_key(server, request, fields)
        tags = fields.get("tag_handling") or ""
        if tags not in ("", "html", "xml"):
            raise Refusal(400, "Value for 'tag_handling' not supported.")
        options = {"split": False} if str(fields.get("split_sentences", "1")) == "0" else {}
        languages = two_letters(text_of(fields, "source_lang", AUTO)), two_letters(text_of(fields, "target_lang"))
        asked = Asked(texts_of(fields, "text"), *languages, html=bool(tags), options=options)
        answers = await unless_gone(request, server.translate(asked))
        return JSONResponse({"translations": _told(asked, answers)}, headers=_ignored(fields))

    @routes.get("/languages", **documented("The languages that are translated from, or to."))
    async def languages(request: Request) -> JSONResponse:
        _check_key(server, request, dict(request.query_params))
        kind = request.query_params.get("type", "source")
        if kind not in ("source", "target"):
            raise Refusal(400, "Value for 'type' not supported.")
        return JSONResponse(_languages(server, kind))

    @routes.get("/usage", **documented("How much has been translated."))
    async def usage(request: Request) -> JSONResponse:
        _check_key(server, request, dict(request.query_params))
        return JSONResponse({"character_count": server.characters, "character_limit": 10**12})

    return routes


class _Documents:
    """Documents that are being translated, or wait to be fetched."""

    def __init__(self, server: Server):
        self.server = server
        self.kept: OrderedDict[str, tuple[str, int, asyncio.Task[bytes]]] = OrderedDict()

    def add_to(self, routes: APIRouter) -> None:
        """Add the routes of documents."""
        for path, answer, summary, asked in (
            ("/document", self.upload, "Begin to translate a document.", FILE),
            ("/document/{number}", self.status, "How far a document is.", KEY),
            ("/document/{number}/result", self.result, "A translated document, once.", KEY),
        ):
            routes.add_api_route(path, answer, methods=["POST"], **documented(summary, asked))

    async def upload(self, request: Request) -> JSONResponse:
        fields = await read_fields(request, self.server.limits.file)
        _check_key(self.server, request, fields)
        content, name = file_of(fields)
        source, target = text_of(fields, "source_lang", AUTO), text_of(fields, "target_lang")
        number, key = uuid.uuid4().hex.upper(), secrets.token_hex(32)
        task = asyncio.create_task(self.server.document(content, name, source, target))
        task.add_done_callback(_look)
        self.kept[number] = key, len(content), task
        while len(self.kept) > MOST_FILES:
            self.kept.popitem(last=False)[1][2].cancel()
        return JSONResponse({"document_id": number, "document_key": key})

    async def status(self, request: Request, number: str) -> JSONResponse:
        _, size, task = await self._found(request, number)
        told: dict[str, Any] = {"document_id": number, "status": "translating", "seconds_remaining": 1}
        if task.done():
            told |= {"status": "done", "seconds_remaining": 0, "billed_characters": size}
            if error := task.exception():
                message = error.message if isinstance(error, Refusal) else "The server failed."
                told |= {"status": "error", "error_message": message}
        return JSONResponse(told)

    async def result(self, request: Request, number: str) -> Response:
        *_, task = await self._found(request, number)
        if not task.done():
            raise Refusal(503, "The document is not translated yet; ask for its status")
        del self.kept[number]
        return Response(task.result(), media_type="application/octet-stream")

    async def _found(self, request: Request, number: str) -> tuple[str, int, "asyncio.Task[bytes]"]:
        fields = await read_fields(request, self.server.limits.body)
        _check_key(self.server, request, fields)
        found = self.kept.get(number)
        if not found or not secrets.compare_digest(found[0].encode(), text_of(fields, "document_key").encode()):
            raise Refusal(404, "The document is not here any more, or its key is another one")
        return found


def _look(task: "asyncio.Task[bytes]") -> None:
    """Look at the failure of a document, which asyncio else logs with its message, and so with the document's name."""
    error = None if task.cancelled() else task.exception()
    if error and not isinstance(error, Refusal):
        log_failure(error)


def _languages(server: Server, kind: str) -> list[dict[str, Any]]:
    codes = server.sources if kind == "source" else server.all_targets
    more = {"supports_formality": False} if kind == "target" else {}
    return [{"language": code.upper(), "name": english_name(code)} | more for code in codes]


def _told(asked: Asked, answers: list[Answer]) -> list[dict[str, Any]]:
    return [
        {
            "detected_source_language": (answer.detected.language if answer.detected else asked.source).upper(),
            "text": answer.text,
            "billed_characters": len(text),
        }
        for text, answer in zip(asked.texts, answers, strict=True)
    ]


def _ignored(fields: dict[str, Any]) -> dict[str, str]:
    """A head that names the fields that change nothing."""
    names = ", ".join(sorted(name for name in fields.keys() - KNOWN if name.isascii() and name.isprintable()))
    return {"X-Ignored-Parameters": names} if names else {}


LANGUAGES = {"source_lang": TEXT, "target_lang": TEXT}
TAGS, SPLIT = TEXT | {"enum": ["html", "xml"]}, TEXT | {"enum": ["0", "1", "nonewlines"], "default": "1"}
TRANSLATE = body(
    {"text": TEXTS} | LANGUAGES | {"split_sentences": SPLIT, "tag_handling": TAGS}, required=["text", "target_lang"]
)
FILE = body({"file": BINARY} | LANGUAGES, required=["file", "target_lang"], kinds=("multipart/form-data",))
KEY = body({"document_key": TEXT}, required=["document_key"])


def _check_key(server: Server, request: Request, fields: dict[str, Any]) -> None:
    auth = fields.get("auth_key")
    try:
        server.check_key(key_of(request, fields) or (auth if isinstance(auth, str) else None))
    except Refusal:
        message = "Authorization failed. Please supply a valid DeepL-Auth-Key via the Authorization header."
        raise Refusal(403, message) from None


def shaped(refusal: Refusal) -> dict[str, Any]:
    """An error as DeepL says it."""
    return {"message": refusal.message}
