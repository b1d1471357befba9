"""The API of LibreTranslate, at the root of the server. Mastodon, Weblate and many others speak it."""

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import chain, islice
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from dragoman.config.decoding import DecodingConfig
from dragoman.documents.document import Document
from dragoman.documents.html import read_html
from dragoman.documents.registry import ENDINGS, TranslatedDocument, format_of
from dragoman.documents.translate import Report
from dragoman.errors import DataError, ResourceError
from dragoman.serving.detection import Detected
from dragoman.serving.kept_documents import KeptDocuments
from dragoman.serving.limits import Refusal
from dragoman.serving.openapi import BINARY, TEXT, TEXTS, body, documented, field_names, with_codes
from dragoman.serving.queue import BATCH
from dragoman.serving.queued import estimated_tokens
from dragoman.serving.requests import ignored_fields, json_of, number_of, read_fields, text_of, unless_gone
from dragoman.serving.server import Server
from dragoman.serving.text_request import AUTO, Answer, TextRequest
from dragoman.storage.memory import WRITERS
from dragoman.text.language_codes import english_name

Handler = Callable[..., Awaitable[Response]]

LINES = "application/x-ndjson"
"""Content type of streamed translations: one JSON object a line."""
MOST_STREAMED = 64
"""Texts of one streamed request that may be in the queue at the same time."""
LONGEST_AUTHOR = 100
"""Characters of the name that is kept with a suggested translation."""
LINES_AT_ONCE = 500
"""Lines of an exported translation memory that are sent at once."""
WITHHELD = {"n_best", "mbr", "max_source_length", "max_ratio", "max_extra", "max_tokens", "min_ratios"}
"""Fields of `DecodingConfig` that a request may not set: those that bound memory or take many times the time, and
`n_best`, for which a request gives `alternatives`."""
OPTIONS = DecodingConfig.model_fields.keys() - WITHHELD
"""Fields of `DecodingConfig` that a request may set."""
OF_DOCUMENTS = ("confidence", "checks", "only_above", "glossary", "inflect", "forbid")
"""The fields of `DecodingConfig` that a document may come with."""
TERMS = ("glossary", "forbid")
"""The fields of `DecodingConfig` that are objects or lists, which forms have as JSON; `keep` is a list, too."""
SEARCH = DecodingConfig.model_json_schema()["properties"]

LANGUAGES = {"source": TEXT, "target": TEXT}
TRANSLATE = body(
    {"q": TEXTS}
    | LANGUAGES
    | {
        "format": TEXT | {"enum": ["text", "html"], "default": "text"},
        "alternatives": {"type": "integer", "minimum": 0, "default": 0},
        "keep": {"type": "array", "items": TEXT},
        **{
            name: SEARCH[name] | {"description": DecodingConfig.descriptions().get(name, "")}
            for name in sorted(OPTIONS)
        },
        "similar": {"type": "integer", "minimum": 0, "default": 0},
        "stream": {"type": "boolean", "default": False},
        "api_key": TEXT,
    },
    required=["q", "source", "target"],
)
DETECT = body({"q": TEXT, "api_key": TEXT}, required=["q"])
SUGGEST = body({"q": TEXT, "s": TEXT} | LANGUAGES | {"who": TEXT}, required=["q", "s", "source", "target"])
UPLOAD = body(
    {"file": BINARY} | LANGUAGES | {name: SEARCH[name] for name in OF_DOCUMENTS} | {"api_key": TEXT},
    required=["file", "source", "target"],
    kinds=("multipart/form-data",),
)
ALSO_KNOWN = {"key", "file.name", "filename"}
"""Fields that change something, and that the descriptions leave out. All others are named in the header
`X-Ignored-Parameters` of the answer."""


def router(server: Server) -> APIRouter:
    """The routes of LibreTranslate."""
    routes = APIRouter(tags=["LibreTranslate"])
    handlers = _Handlers(server)
    codes = {"source": [AUTO, *server.sources], "target": server.codes}

    def post(
        path: str, handler: Handler, summary: str, fields: dict[str, Any], *, more_kinds: Sequence[str] = ()
    ) -> None:
        description = documented(summary, with_codes(fields, codes), kinds=more_kinds)
        routes.add_api_route(path, handler, methods=["POST"], **description)

    def get(path: str, handler: Handler, summary: str) -> None:
        routes.add_api_route(path, handler, methods=["GET"], **documented(summary))

    post("/translate", handlers.translate, "Translate a text, or a list of texts.", TRANSLATE, more_kinds=[LINES])
    post("/detect", handlers.detect, "The likely languages of a text.", DETECT)
    post("/translate_file", handlers.translate_file, "Translate a document; the answer says where it is.", UPLOAD)
    post("/suggest", handlers.suggest, "Keep a better translation.", SUGGEST)
    get("/languages", handlers.languages, "The languages that are translated from or to.")
    get("/download_file/{number}", handlers.download_file, "A translated document.")
    get("/memory.{ending}", handlers.memory, "The translation memory, as tsv or tmx.")
    get("/frontend/settings", handlers.settings, "Settings of the web page.")
    return routes


@dataclass(frozen=True)
class _TranslatedFile:
    """A translated document that waits to be downloaded."""

    name: str
    content: bytes


class _Handlers:
    """One method for each route."""

    def __init__(self, server: Server):
        self.server = server
        self.files = KeptDocuments[_TranslatedFile](
            server.limits, size=lambda file: len(file.content), is_translated=lambda file: True
        )

    async def _fields(self, request: Request, *, document: bool = False) -> dict[str, Any]:
        fields = await read_fields(request, self.server.limits, document=document)
        self.server.check_key(key_of(request, fields))
        return fields

    async def translate(self, request: Request) -> Response:
        fields = await self._fields(request)
        text_request = TextRequest(
            texts=texts_of(fields, "q"),
            source=text_of(fields, "source"),
            target=text_of(fields, "target"),
            reader=_reader(fields),
            alternatives=number_of(fields, "alternatives"),
            options=_search_options(fields),
            similar=number_of(fields, "similar"),
        )
        headers = ignored_fields(fields, field_names(TRANSLATE) | ALSO_KNOWN)
        if fields.get("stream") in (True, "true"):
            checked = self.server.check(text_request)
            lines = self._streamed_lines(checked, await unless_gone(request, self.server.detected(checked)))
            return StreamingResponse(lines, headers=headers, media_type=LINES)
        answers = await unless_gone(request, self.server.translate(text_request))
        content = _content(answers, text_request, single=isinstance(fields["q"], str))
        return JSONResponse(content, headers=headers)

    async def _streamed_lines(
        self, text_request: TextRequest, detected: Sequence[Detected] | None
    ) -> AsyncIterator[str]:
        """A line of JSON for each text, in order, as soon as it is translated. Languages may have been `detected`."""
        # At most about two batches of this request are in the queue: its texts wait for each other, and not others for
        # them.
        longest = max(map(estimated_tokens, text_request.texts))
        slots = asyncio.Semaphore(max(1, min(MOST_STREAMED, 2 * BATCH // longest)))

        async def translate_one(text: str, language: Detected | None) -> dict[str, Any]:
            async with slots:
                try:
                    one = replace(text_request, texts=[text])
                    answers = await self.server.translate(one, [language] if language else None)
                except (Refusal, ResourceError) as error:
                    return {"error": str(error)}
            return _content(answers, text_request, single=True)

        languages = detected or [None] * len(text_request.texts)
        tasks = [
            asyncio.create_task(translate_one(text, language))
            for text, language in zip(text_request.texts, languages, strict=True)
        ]
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
        if not detected:
            return JSONResponse([{"confidence": 0.0, "language": "en"}])
        return JSONResponse([_language(language) for language in detected])

    async def languages(self) -> JSONResponse:
        return JSONResponse(self.server.languages())

    async def translate_file(self, request: Request) -> JSONResponse:
        fields = await self._fields(request, document=True)
        content, name = file_of(fields)
        source, target = text_of(fields, "source"), text_of(fields, "target")
        options = _options(fields, OF_DOCUMENTS)
        translated = await unless_gone(request, self._translated_file(content, name, source, target, options))
        number = f"{uuid.uuid4().hex}.{name}"
        self.files.add(number, _TranslatedFile(name, translated.content))
        url = str(request.url_for("download_file", number=quote(number)))
        headers = ignored_fields(fields, field_names(UPLOAD) | ALSO_KNOWN)
        return JSONResponse({"translatedFileUrl": url, "report": report_of(translated, name)}, headers=headers)

    async def _translated_file(
        self, content: bytes, name: str, source: str, target: str, options: dict[str, Any]
    ) -> TranslatedDocument:
        languages = await self.server.pair_of_document(content, name, source, target)
        if languages[0] == languages[1]:
            return TranslatedDocument(content, Report(is_in_target=True))
        return await self.server.document(content, name, languages, options)

    async def download_file(self, number: str) -> Response:
        file = self.files.by_number.get(number)
        if file is None:
            raise Refusal(404, "The file is not here any more; translate it again")
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name)}"}
        return Response(file.content, media_type="application/octet-stream", headers=headers)

    async def suggest(self, request: Request) -> JSONResponse:
        fields = await self._fields(request)
        if self.server.memory is None:
            raise Refusal(403, "Suggestions are disabled on this server.")
        text, translation = text_of(fields, "q"), text_of(fields, "s")
        if not text.strip() or not translation.strip():
            raise Refusal(400, "Invalid request: q and s must have text")
        languages = self.server.pair(text_of(fields, "source"), text_of(fields, "target"))
        self.server.check_texts([text, translation])
        if languages not in self.server.models:
            raise Refusal(400, f"{languages[0]} to {languages[1]} is not supported")
        author = fields.get("who")
        author = author[:LONGEST_AUTHOR] if isinstance(author, str) else None
        try:
            await asyncio.to_thread(self.server.memory.add, languages, text, translation, author)
        except DataError:
            raise Refusal(400, "Invalid request: q and s must have text") from None
        return JSONResponse({"success": True})

    async def memory(self, request: Request, ending: str) -> Response:
        self.server.check_key(key_of(request, dict(request.query_params)))
        if self.server.memory is None or ending not in WRITERS:
            raise Refusal(404, "Not Found")
        blocks = _blocks(WRITERS[ending](self.server.memory.pairs()))
        # Read before the status is sent, so that a file that cannot be read is answered with an error.
        first = await asyncio.to_thread(next, blocks, "")
        headers = {"Content-Disposition": f"attachment; filename=memory.{ending}"}
        return StreamingResponse(chain([first], blocks), media_type="application/octet-stream", headers=headers)

    async def settings(self) -> JSONResponse:
        target = self.server.targets(self.server.sources[0])[0]
        return JSONResponse(
            {
                "apiKeys": bool(self.server.keys),
                "charLimit": self.server.limits.characters,
                "confidence": self.server.has_confidence,
                "filesTranslation": True,
                "frontendTimeout": 500,
                "inspection": self.server.inspector is not None and find_spec("torch") is not None,
                "keyRequired": bool(self.server.keys),
                "language": {
                    "source": {"code": AUTO, "name": "Auto Detect"},
                    "target": {"code": target, "name": english_name(target)},
                },
                "suggestions": self.server.memory is not None,
                "supportedFilesFormat": list(ENDINGS),
            }
        )


def key_of(request: Request, fields: dict[str, Any]) -> str | None:
    """The API key of a request, from the header `Authorization` or a field; None if it gives none."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() in ("bearer", "deepl-auth-key") and key.strip():
        return key.strip()
    for name in ("api_key", "key"):
        value = fields.get(name)
        if isinstance(value, str) and value:
            return value
    return None


def texts_of(fields: dict[str, Any], name: str) -> list[str]:
    """The texts of a field that holds one text or a list of them. Raises `Refusal`."""
    value = fields.get(name)
    if value is None or value == "" or value == []:
        raise Refusal(400, f"Invalid request: missing {name} parameter")
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise Refusal(400, f"Invalid request: {name} must be a text, or a list of texts")
    return texts


def file_of(fields: dict[str, Any]) -> tuple[bytes, str]:
    """Content and name, without folders, of the document that a request sends. Raises `Refusal`."""
    content = fields.get("file")
    name = fields.get("file.name") or fields.get("filename")
    if isinstance(content, str) and "filename" in fields:  # a part of a form without a file name is read as text
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
    """JSON content about a translated document: counts of its texts, and sentences for the person who sent it."""
    report = translated.report
    counts = {"translated": report.translated, "done": report.done}
    if report.untranslated:
        counts["untranslated"] = len(report.untranslated)
    outcome = re.sub("^the result", "The result", report.outcome(name, "the result"))
    return counts | {"outcome": outcome, "notes": report.notes()}


def _options(fields: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The fields of `DecodingConfig` with these names, as far as a request sets them. Raises `Refusal`."""
    given = [name for name in names if fields.get(name) is not None]
    return {name: json_of(fields, name) if name in TERMS else fields[name] for name in given}


def _search_options(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of `DecodingConfig` that a request sets. The terms of `keep` become entries of the glossary that map each
    term to itself."""
    options = _options(fields, OPTIONS)
    if fields.get("keep"):
        kept = {term: term for term in texts_of({"keep": json_of(fields, "keep")}, "keep")}
        glossary = options.get("glossary", {})
        options["glossary"] = kept | glossary if isinstance(glossary, dict) else glossary
    return options


def _reader(fields: dict[str, Any]) -> Callable[[str], Document] | None:
    """The function that reads texts of the requested format; None for plain text. Raises `Refusal`."""
    value = fields.get("format") or "text"
    if value not in ("text", "html"):
        raise Refusal(400, f"{value} format is not supported")
    return read_html if value == "html" else None


def _blocks(lines: Iterator[str]) -> Iterator[str]:
    """The lines of a file, joined into blocks of `LINES_AT_ONCE` lines."""
    while block := "".join(islice(lines, LINES_AT_ONCE)):
        yield block


def _scores(answer: Answer) -> list[float]:
    """Scores of the translation and of its alternatives; empty for a text that no model translated."""
    scores = [answer.score, *(alternative.score for alternative in answer.alternatives)]
    return [round(score, 4) for score in scores if score is not None]


def _language(detected: Detected) -> dict[str, Any]:
    """JSON content about a detected language, its confidence in percent."""
    return {"confidence": round(100 * detected.confidence, 1), "language": detected.language}


def _content(answers: list[Answer], text_request: TextRequest, *, single: bool) -> dict[str, Any]:
    """JSON content of the answer to a list of texts, one value of each field for each text; with `single`, of the
    answer to one text."""
    content: dict[str, list[Any]] = {"translatedText": [answer.text for answer in answers]}
    if text_request.source == AUTO:
        content["detectedLanguage"] = [_language(answer.detected) for answer in answers if answer.detected]
    if text_request.alternatives:
        content["alternatives"] = [[alternative.text for alternative in answer.alternatives] for answer in answers]
        content["scores"] = [_scores(answer) for answer in answers]
    if any(answer.alignment is not None for answer in answers):
        content["alignments"] = [answer.alignment or [] for answer in answers]
    if any(answer.confidence is not None for answer in answers):
        content["confidence"] = [answer.confidence for answer in answers]
        content["editProbability"] = [answer.edit_probability for answer in answers]
    if any(answer.is_untranslated for answer in answers):
        content["untranslated"] = [answer.is_untranslated for answer in answers]
    if any(answer.sentences is not None for answer in answers):
        content["sentences"] = [[sentence.to_dict() for sentence in answer.sentences or ()] for answer in answers]
    if any(answer.from_memory for answer in answers):
        content["fromMemory"] = [answer.from_memory for answer in answers]
    if text_request.similar:
        content["similar"] = [[entry._asdict() for entry in answer.similar] for answer in answers]
    if single:
        return {name: values[0] for name, values in content.items()}
    return content
