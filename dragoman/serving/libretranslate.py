"""The API of LibreTranslate, at the root: what Mastodon, Weblate and many others speak."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from dragoman.config.decoding import DecodingConfig
from dragoman.documents.html import read_html
from dragoman.documents.registry import ENDINGS, TranslatedDocument, format_of
from dragoman.documents.translate import Report
from dragoman.errors import DataError, ResourceError
from dragoman.serving.detection import Detected
from dragoman.serving.kept import KeptDocuments
from dragoman.serving.limits import Refusal
from dragoman.serving.openapi import BINARY, TEXT, TEXTS, body, documented, with_codes
from dragoman.serving.queue import BATCH, estimated_tokens
from dragoman.serving.requests import number_of, read_fields, text_of, unless_gone
from dragoman.serving.server import Server
from dragoman.serving.text_request import AUTO, Answer, TextRequest
from dragoman.storage.memory import WRITERS
from dragoman.text.language_codes import english_name

LINES = "application/x-ndjson"
MOST_STREAMED = 64
"""Texts of one client that wait at the same time while their translations are streamed."""
LINES_AT_ONCE = 500
"""Lines of a translation memory that are sent at once."""
OPTIONS = DecodingConfig.model_fields.keys() - {"n_best", "max_source_length", "max_tokens"}
"""Fields of the search that a request may set: not those of memory; `alternatives` stands for `n_best`."""


def router(server: Server) -> APIRouter:
    """The routes of LibreTranslate."""
    routes, own = APIRouter(tags=["LibreTranslate"]), _LibreTranslate(server)
    codes = {"source": [AUTO, *server.sources], "target": server.codes}
    for path, answer, summary, fields in (
        ("/translate", own.translate, "Translate a text, or a list of texts.", TRANSLATE),
        ("/detect", own.detect, "The likely languages of a text.", DETECT),
        ("/translate_file", own.translate_file, "Translate a document; the answer says where it is.", FILE),
        ("/suggest", own.suggest, "Keep a better translation.", SUGGEST),
    ):
        described = documented(summary, with_codes(fields, codes), kinds=[LINES] if path == "/translate" else ())
        routes.add_api_route(path, answer, methods=["POST"], **described)
    for path, answer, summary in (
        ("/languages", own.languages, "The languages that are translated from or to."),
        ("/download_file/{number}", own.download_file, "A translated document."),
        ("/memory.{ending}", own.memory, "The translation memory, as tsv or tmx."),
        ("/frontend/settings", own.settings, "What a page has to know."),
    ):
        routes.add_api_route(path, answer, methods=["GET"], **documented(summary))
    return routes


@dataclass(frozen=True)
class _File:
    """A translated document."""

    name: str
    content: bytes


class _LibreTranslate:
    """The answers of these routes."""

    def __init__(self, server: Server):
        self.server = server
        self.files = KeptDocuments[_File](
            server.limits, size=lambda file: len(file.content), is_translated=lambda file: True
        )

    async def _fields(self, request: Request, *, document: bool = False) -> dict[str, Any]:
        fields = await read_fields(request, self.server.limits, document=document)
        self.server.check_key(key_of(request, fields))
        return fields

    async def translate(self, request: Request) -> Response:
        fields = await self._fields(request)
        text_request = TextRequest(
            texts_of(fields, "q"),
            text_of(fields, "source"),
            text_of(fields, "target"),
            read_html if _format(fields) == "html" else None,
            number_of(fields, "alternatives"),
            _options(fields),
            number_of(fields, "similar"),
        )
        if fields.get("stream") in (True, "true"):
            lines = self._lines(self.server.check(text_request))
            return StreamingResponse(lines, media_type=LINES)
        answers = await unless_gone(request, self.server.translate(text_request))
        return JSONResponse(_written(answers, text_request, single=isinstance(fields["q"], str)))

    async def _lines(self, text_request: TextRequest) -> AsyncIterator[str]:
        """A line of JSON for each text, in order, as soon as it is translated."""
        longest = max(map(estimated_tokens, text_request.texts))  # a client's own texts wait for each other
        slots = asyncio.Semaphore(max(1, min(MOST_STREAMED, 2 * BATCH // longest)))

        async def translated(text: str) -> dict[str, Any]:
            async with slots:
                try:
                    answers = await self.server.translate(replace(text_request, texts=[text]))
                except (Refusal, ResourceError) as error:
                    return {"error": str(error)}
            return _written(answers, text_request, single=True)

        tasks = [asyncio.create_task(translated(text)) for text in text_request.texts]
        try:
            for index, task in enumerate(tasks):
                yield json.dumps({"index": index} | await task, ensure_ascii=False) + "\n"
        finally:  # the client may have gone
            for task in tasks:
                task.cancel()

    async def detect(self, request: Request) -> JSONResponse:
        fields = await self._fields(request)
        text = "\n".join(texts_of(fields, "q"))[: self.server.limits.characters]
        detected = await asyncio.to_thread(self.server.detections, text)
        return JSONResponse([*map(_language, detected)] or [{"confidence": 0.0, "language": "en"}])

    async def languages(self) -> JSONResponse:
        return JSONResponse(self.server.languages())

    async def translate_file(self, request: Request) -> JSONResponse:
        fields = await self._fields(request, document=True)
        content, name = file_of(fields)
        source, target = text_of(fields, "source"), text_of(fields, "target")
        translated = await unless_gone(request, self._translated_file(content, name, source, target))
        number = f"{uuid.uuid4().hex}.{name}"
        self.files.add(number, _File(name, translated.content))
        url = str(request.url_for("download_file", number=quote(number)))
        return JSONResponse({"translatedFileUrl": url, "report": report_of(translated, name)})

    async def _translated_file(self, content: bytes, name: str, source: str, target: str) -> TranslatedDocument:
        languages = await self.server.pair_of_document(content, name, source, target)
        if languages[0] == languages[1]:
            return TranslatedDocument(content, Report())
        return await self.server.document(content, name, languages)

    async def download_file(self, number: str) -> Response:
        file = self.files.by_number.get(number)
        if file is None:
            raise Refusal(404, "The file is not here any more; translate it again")
        head = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name)}"}
        return Response(file.content, media_type="application/octet-stream", headers=head)

    async def suggest(self, request: Request) -> JSONResponse:
        fields = await self._fields(request)
        if self.server.memory is None:
            raise Refusal(403, "Suggestions are disabled on this server.")
        texts = [text_of(fields, name) for name in ("q", "s")]
        if not all(map(str.strip, texts)):
            raise Refusal(400, "Invalid request: q and s must have text")
        languages = self.server.pair(text_of(fields, "source"), text_of(fields, "target"))
        self.server.check_texts(texts)
        if languages not in self.server.models:
            raise Refusal(400, f"{languages[0]} to {languages[1]} is not supported")
        who = fields.get("who")
        who = who[:100] if isinstance(who, str) else None
        await asyncio.to_thread(self.server.memory.add, languages, *texts, who)
        return JSONResponse({"success": True})

    async def memory(self, request: Request, ending: str) -> Response:
        self.server.check_key(key_of(request, dict(request.query_params)))
        if self.server.memory is None or ending not in WRITERS:
            raise Refusal(404, "Not Found")
        parts = WRITERS[ending](self.server.memory.pairs())
        blocks = iter(lambda: "".join(islice(parts, LINES_AT_ONCE)), "")
        first = await asyncio.to_thread(next, blocks, "")  # so it is said if the file cannot be read
        head = {"Content-Disposition": f"attachment; filename=memory.{ending}"}
        return StreamingResponse(chain([first], blocks), media_type="application/octet-stream", headers=head)

    async def settings(self) -> JSONResponse:
        target = next(iter(self.server.targets(self.server.sources[0])))
        return JSONResponse(
            {
                "apiKeys": bool(self.server.keys),
                "charLimit": self.server.limits.characters,
                "filesTranslation": True,
                "frontendTimeout": 500,
                "inspection": self.server.inspector is not None,
                "keyRequired": bool(self.server.keys),
                "language": {
                    "source": {"code": AUTO, "name": "Auto Detect"},
                    "target": {"code": target, "name": english_name(target)},
                },
                "suggestions": self.server.memory is not None,
                "supportedFilesFormat": list(ENDINGS),
            }
        )


LANGUAGES = {"source": TEXT, "target": TEXT}
TRANSLATE = body(
    {"q": TEXTS}
    | LANGUAGES
    | {
        "format": TEXT | {"enum": ["text", "html"], "default": "text"},
        "alternatives": {"type": "integer", "minimum": 0, "default": 0},
        "keep": {"type": "array", "items": TEXT},
        **{name: DecodingConfig.model_json_schema()["properties"][name] for name in sorted(OPTIONS)},
        "similar": {"type": "integer", "minimum": 0, "default": 0},
        "stream": {"type": "boolean", "default": False},
        "api_key": TEXT,
    },
    required=["q", "source", "target"],
)
DETECT = body({"q": TEXT, "api_key": TEXT}, required=["q"])
SUGGEST = body({"q": TEXT, "s": TEXT} | LANGUAGES | {"who": TEXT}, required=["q", "s", "source", "target"])
FILE = body({"file": BINARY} | LANGUAGES, required=["file", "source", "target"], kinds=("multipart/form-data",))


def key_of(request: Request, fields: dict[str, Any]) -> str | None:
    """The key that a request gives in a field or in its head."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() in ("bearer", "deepl-auth-key") and key.strip():
        return key.strip()
    given = (fields.get("api_key"), fields.get("key"))
    return next((key for key in given if isinstance(key, str) and key), None)


def texts_of(fields: dict[str, Any], name: str) -> list[str]:
    """A field that is a text or several."""
    value = fields.get(name)
    if value is None or value == "" or value == []:
        raise Refusal(400, f"Invalid request: missing {name} parameter")
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise Refusal(400, f"Invalid request: {name} must be a text, or a list of texts")
    return texts


def file_of(fields: dict[str, Any]) -> tuple[bytes, str]:
    """The content and the name, without folders, of a document. Raises `Refusal`."""
    content, name = fields.get("file"), fields.get("file.name") or fields.get("filename")
    if isinstance(content, str) and "filename" in fields:  # a part of a form that is named beside it is no file
        content = content.encode()
    if not isinstance(content, bytes) or not isinstance(name, str) or not name:
        raise Refusal(400, "Invalid request: missing file parameter")
    name = name.replace("\\", "/").rpartition("/")[2][-100:]
    try:
        format_of(name)
    except DataError as error:
        raise Refusal(400, f"Invalid request: file format not supported. {error}") from None
    return content, name


def report_of(translated: TranslatedDocument, name: str) -> dict[str, Any]:
    """What became of a document, for the person who had it translated."""
    report = translated.report
    counts = {"translated": report.translated, "done": report.done}
    return counts | {"outcome": report.outcome(name, "The result"), "notes": report.notes()}


def _options(fields: dict[str, Any]) -> dict[str, Any]:
    """What a request sets of the search; terms to `keep` are those of a glossary that stay as they are."""
    options = {name: fields[name] for name in OPTIONS if fields.get(name) is not None}
    if fields.get("keep"):
        kept = {term: term for term in texts_of(fields, "keep")}
        glossary = options.get("glossary", {})
        options["glossary"] = kept | glossary if isinstance(glossary, dict) else glossary
    return options


def _format(fields: dict[str, Any]) -> str:
    value = fields.get("format") or "text"
    if value not in ("text", "html"):
        raise Refusal(400, f"{value} format is not supported")
    return value


def _scores(answer: Answer) -> list[float]:
    """The scores of the translation and of its alternatives; none for a text that was not translated by a model."""
    scores = [answer.score, *(other.score for other in answer.alternatives)]
    return [round(score, 4) for score in scores if score is not None]


def _percent(confidence: float) -> float:
    return round(100 * confidence, 1)


def _language(detected: Detected) -> dict[str, Any]:
    return {"confidence": _percent(detected.confidence), "language": detected.language}


def _written(answers: list[Answer], text_request: TextRequest, *, single: bool) -> dict[str, Any]:
    """The content of the response for one text, or for a list of texts."""
    content: dict[str, list[Any]] = {"translatedText": [answer.text for answer in answers]}
    if text_request.source == AUTO:
        content["detectedLanguage"] = [_language(answer.detected) for answer in answers if answer.detected]
    if text_request.alternatives:
        content["alternatives"] = [[other.text for other in answer.alternatives] for answer in answers]
        content["scores"] = [_scores(answer) for answer in answers]
    if any(answer.alignment is not None for answer in answers):
        content["alignments"] = [answer.alignment or [] for answer in answers]
    if any(answer.from_memory for answer in answers):
        content["fromMemory"] = [answer.from_memory for answer in answers]
    if text_request.similar:
        content["similar"] = [[entry._asdict() for entry in answer.similar] for answer in answers]
    return {name: values[0] for name, values in content.items()} if single else content
