"""The API of DeepL, versions 2 and 3: texts, documents, languages and usage. It has no glossaries, and says so."""

import asyncio
import re
import secrets
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dragoman.documents.document import Document
from dragoman.documents.html import read_html
from dragoman.documents.registry import TranslatedDocument, format_of
from dragoman.documents.xml import read_fragment
from dragoman.serving.kept_documents import KeptDocuments
from dragoman.serving.libretranslate import file_of, key_of, report_of, texts_of
from dragoman.serving.limits import Refusal
from dragoman.serving.metrics import log_failure
from dragoman.serving.openapi import BINARY, TEXT, TEXTS, body, documented, field_names, parameters, with_codes
from dragoman.serving.requests import ignored_fields, read_fields, text_of, unless_gone
from dragoman.serving.server import Server, UnsupportedLanguage
from dragoman.serving.text_request import AUTO, Answer, TextRequest
from dragoman.text.language_codes import english_name

PREFIXES = ("/v2", "/v3")
TRANSLATE_PATH = "/v2/translate"
KNOWN = {
    "text", "source_lang", "target_lang", "tag_handling", "tag_handling_version", "split_sentences", "auth_key",
    "show_billed_characters", "ignore_tags", "splitting_tags", "non_splitting_tags", "outline_detection",
}  # fmt: skip
"""Fields that change something. All others are named in the header `X-Ignored-Parameters` of the answer."""
OF_DOCUMENTS = {"file", "filename", "file.name", "auth_key", "output_format"}
"""Fields of a document that change something, besides those that texts have as well."""
VALUES = {
    "formality": ("default", "more", "less", "prefer_more", "prefer_less"),
    "split_sentences": ("0", "1", "nonewlines"),
    "tag_handling": ("html", "xml"),
    "tag_handling_version": ("v1", "v2"),
    "model_type": ("quality_optimized", "latency_optimized", "prefer_quality_optimized"),
    "preserve_formatting": ("0", "1", "false", "true"),
    "outline_detection": ("0", "1", "false", "true"),
    "show_billed_characters": ("0", "1", "false", "true"),
}
"""Values that fields may have; others are refused."""
MISSING = {
    "glossary_id": "Glossary", "glossary_ids": "Glossary", "style_id": "Style rule list",
    "translation_memory_id": "Translation memory",
}  # fmt: skip
"""Fields that name something that this server never has, with its name in messages."""
RESOURCES = ("translate_text", "translate_document", "glossary", "voice", "write", "style_rules", "translation_memory")
"""Resources of DeepL whose languages may be asked for."""
TRANSLATING = ("translate_text", "translate_document")
"""The resources that this server has."""
EMPTY_LISTS = {
    "/v2/glossaries": {"glossaries": []},
    "/v2/glossary-language-pairs": {"supported_languages": []},
    "/v3/glossaries": {"glossaries": []},
    "/v3/style_rules": {"style_rules": []},
    "/v3/translation_memories": {"translation_memories": [], "total_count": 0},
}
"""Answers to clients that list things which this server never has."""

_LINE_BREAK = re.compile(r"(?<![ \t])[ \t]*\r?\n[ \t]*")

Handler = Callable[..., Awaitable[Response]]


def _one_of(name: str, **more: Any) -> dict[str, Any]:
    """The description of a field that has one of `VALUES`."""
    return TEXT | {"enum": list(VALUES[name])} | more


LANGUAGES = {"source_lang": TEXT, "target_lang": TEXT}
FORMALITY = TEXT | {"enum": ["default", "prefer_more", "prefer_less"], "default": "default"}
TRANSLATE = body(
    {"text": TEXTS}
    | LANGUAGES
    | {
        "split_sentences": _one_of("split_sentences", default="1"),
        "formality": FORMALITY,
        "tag_handling": _one_of("tag_handling"),
        "tag_handling_version": _one_of("tag_handling_version"),
        "outline_detection": _one_of("outline_detection", default="1"),
        "splitting_tags": TEXTS,
        "non_splitting_tags": TEXTS,
        "ignore_tags": TEXTS,
        "model_type": _one_of("model_type"),
        "show_billed_characters": _one_of("show_billed_characters", default="0"),
    },
    required=["text", "target_lang"],
)
UPLOAD = body(
    {"file": BINARY} | LANGUAGES | {"filename": TEXT, "formality": FORMALITY},
    required=["file", "target_lang"],
    kinds=("multipart/form-data",),
)
DOCUMENT_KEY = body({"document_key": TEXT}, required=["document_key"])
TYPE = body({"type": TEXT | {"enum": ["source", "target"], "default": "source"}}, required=[])
RESOURCE = body({"resource": TEXT | {"enum": list(RESOURCES)}}, required=["resource"])


def router(server: Server) -> APIRouter:
    """The routes of DeepL."""
    routes = APIRouter(tags=["DeepL"])
    handlers, documents = _Handlers(server), _DocumentHandlers(server)
    codes = [code.upper() for code in server.codes]
    languages = {"source_lang": codes, "target_lang": codes}

    def post(path: str, handler: Handler, summary: str, fields: dict[str, Any]) -> None:
        routes.add_api_route(path, handler, methods=["POST"], **documented(summary, with_codes(fields, languages)))

    def get_or_post(path: str, handler: Handler, summary: str, fields: dict[str, Any] | None = None) -> None:
        description = documented(summary, parameters(fields) if fields else None)
        routes.add_api_route(path, handler, methods=["GET"], **description)
        routes.add_api_route(path, handler, methods=["POST"], include_in_schema=False)

    post(TRANSLATE_PATH, _with_own_messages(handlers.translate), "Translate one text or several.", TRANSLATE)
    post("/v2/document", _with_own_messages(documents.upload), "Begin to translate a document.", UPLOAD)
    post("/v2/document/{number}", documents.status, "How far the translation of a document is.", DOCUMENT_KEY)
    post("/v2/document/{number}/result", documents.result, "A translated document, once.", DOCUMENT_KEY)
    get_or_post("/v2/languages", handlers.languages, "The languages that are translated from, or to.", TYPE)
    get_or_post("/v2/usage", handlers.usage, "How much has been translated.")
    get_or_post(
        "/v3/languages",
        handlers.resource_languages,
        "The languages, and whether they are sources or targets.",
        RESOURCE,
    )
    get_or_post("/v3/languages/resources", handlers.resources, "The resources whose languages are listed.")
    for path in EMPTY_LISTS:
        routes.add_api_route(path, handlers.nothing, methods=["GET"], **documented("An empty list."))
        routes.add_api_route(path, handlers.none_made, methods=["POST"], include_in_schema=False)
        methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        routes.add_api_route(f"{path}/{{rest:path}}", handlers.not_found, methods=methods, include_in_schema=False)
    return routes


class _Handlers:
    """One method for each route, except those of documents."""

    def __init__(self, server: Server):
        self.server = server

    async def _fields(self, request: Request) -> dict[str, Any]:
        fields = await read_fields(request, self.server.limits)
        _check_key(self.server, request, fields)
        return fields

    async def translate(self, request: Request) -> JSONResponse:
        fields = await self._fields(request)
        options = _checked_options(fields)
        source, target = text_of(fields, "source_lang", AUTO), text_of(fields, "target_lang")
        search = {"split": False} if options.get("split_sentences") == "0" else {}
        texts, reader = texts_of(fields, "text"), _reader(options, fields)
        self.server.check_texts(texts)
        prepared = texts
        if options.get("split_sentences") == "nonewlines" and not reader:
            prepared = [_LINE_BREAK.sub(" ", text) for text in texts]
        text_request = TextRequest(prepared, source, target, reader=reader, options=search)
        answers = await unless_gone(request, self.server.translate(text_request))
        source, _ = self.server.pair(source, target)
        translations = [
            _translation(text, answer, source, options) for text, answer in zip(texts, answers, strict=True)
        ]
        return JSONResponse({"translations": translations}, headers=ignored_fields(fields, KNOWN))

    async def languages(self, request: Request) -> JSONResponse:
        fields = await self._fields(request)  # clients send the type in a body, also with GET
        kind = text_of(fields, "type", "source")
        if kind not in ("source", "target"):
            raise Refusal(400, "Value for 'type' not supported.")
        codes = self.server.sources if kind == "source" else self.server.all_targets
        formality = {"supports_formality": False} if kind == "target" else {}
        return JSONResponse([{"language": code.upper(), "name": english_name(code)} | formality for code in codes])

    async def usage(self, request: Request) -> JSONResponse:
        await self._fields(request)
        return JSONResponse({"character_count": self.server.characters, "character_limit": 10**12})

    async def resource_languages(self, request: Request) -> JSONResponse:
        resource = text_of(await self._fields(request), "resource", "")
        if resource not in RESOURCES:
            raise Refusal(400, "Value for 'resource' not supported.")
        sources, targets = self.server.sources, self.server.all_targets
        features = {"tag_handling": {"status": "stable"}} if resource == "translate_text" else {}
        codes = self.server.codes if resource in TRANSLATING else []
        languages = [
            {
                "lang": code,
                "name": english_name(code),
                "usable_as_source": code in sources,
                "usable_as_target": code in targets,
                "features": features,
                "status": "stable",
            }
            for code in codes
        ]
        return JSONResponse(languages)

    async def resources(self, request: Request) -> JSONResponse:
        await self._fields(request)
        tag_handling = {"name": "tag_handling", "needs_source_support": True, "needs_target_support": True}
        features = {"translate_text": [tag_handling], "translate_document": []}
        return JSONResponse([{"name": name, "features": features[name]} for name in TRANSLATING])

    async def nothing(self, request: Request) -> JSONResponse:
        await self._fields(request)
        return JSONResponse(EMPTY_LISTS[request.url.path])

    async def none_made(self, request: Request) -> JSONResponse:
        await self._fields(request)
        raise Refusal(400, "This server keeps no glossaries; terms are given as `glossary` to /translate")

    async def not_found(self, request: Request) -> JSONResponse:
        await self._fields(request)
        raise Refusal(404, "Not found: this server has no glossaries, style rules or translation memories of DeepL")


@dataclass(frozen=True)
class _Upload:
    """A document that is being translated, or waits to be fetched."""

    key: str
    """Secret that the client needs to fetch the translation."""
    size: int
    """Bytes of the document as it was sent."""
    name: str
    """File name of the document."""
    task: "asyncio.Task[TranslatedDocument]"

    @property
    def kept_size(self) -> int:
        """Bytes that are in memory: of the document, or of its translation when that is done."""
        if not self.task.done():
            return self.size
        if self.task.cancelled() or self.task.exception():
            return 0
        return len(self.task.result().content)


class _DocumentHandlers:
    """One method for each route of documents."""

    def __init__(self, server: Server):
        self.server = server
        self.kept = KeptDocuments[_Upload](
            server.limits, size=lambda upload: upload.kept_size, is_translated=lambda upload: upload.task.done()
        )

    async def upload(self, request: Request) -> JSONResponse:
        fields = await read_fields(request, self.server.limits, document=True)
        _check_key(self.server, request, fields)
        _checked_options(fields)
        try:
            content, name = file_of(fields)
        except Refusal as error:
            raise Refusal(400, f"Invalid file data. {error}") from None
        output_format = text_of(fields, "output_format", "").lower()
        if output_format and output_format != format_of(name).removeprefix("."):
            raise Refusal(400, "Value for 'output_format' not supported; a document keeps its format here.")
        source, target = text_of(fields, "source_lang", AUTO), text_of(fields, "target_lang")
        self.server.pair(source, target)
        self.kept.check_room(len(content))
        number, key = uuid.uuid4().hex.upper(), secrets.token_hex(32).upper()
        task = asyncio.create_task(self._translate(content, name, source, target))
        self.kept.add(number, _Upload(key, len(content), name, task))
        task.add_done_callback(self._end_translation)
        headers = ignored_fields(fields, (field_names(UPLOAD) & KNOWN) | OF_DOCUMENTS)
        return JSONResponse({"document_id": number, "document_key": key}, headers=headers)

    async def _translate(self, content: bytes, name: str, source: str, target: str) -> TranslatedDocument:
        languages = await self.server.pair_of_document(content, name, source, target)
        if languages[0] == languages[1]:
            raise Refusal(400, "Source and target language are equal.")
        return await self.server.document(content, name, languages)

    def _end_translation(self, task: "asyncio.Task[TranslatedDocument]") -> None:
        """Make room for a translation that is done, or log why it failed."""
        # An exception that nobody asks for is logged by asyncio with its message, and so with the document's name.
        error = None if task.cancelled() else task.exception()
        if error and not isinstance(error, Refusal):
            log_failure(error)
        self.kept.drop_oldest()

    async def status(self, request: Request, number: str) -> JSONResponse:
        upload = await self._find_upload(request, number)
        status: dict[str, Any] = {"document_id": number, "status": "translating", "seconds_remaining": 1}
        if upload.task.done():
            status |= {"status": "done", "seconds_remaining": 0, "billed_characters": upload.size}
            if error := upload.task.exception():
                message = error.message if isinstance(error, Refusal) else "The server failed."
                status |= {"status": "error", "error_message": message, "message": message}
            else:
                status["report"] = report_of(upload.task.result(), upload.name)
        return JSONResponse(status)

    async def result(self, request: Request, number: str) -> Response:
        upload = await self._find_upload(request, number)
        if not upload.task.done():
            raise Refusal(503, "The document is not translated yet; ask for its status")
        del self.kept.by_number[number]
        return Response(upload.task.result().content, media_type="application/octet-stream")

    async def _find_upload(self, request: Request, number: str) -> _Upload:
        """The document with a number, if the request has its key. Raises `Refusal`."""
        fields = await read_fields(request, self.server.limits)
        _check_key(self.server, request, fields)
        upload = self.kept.by_number.get(number)
        if not upload or not secrets.compare_digest(upload.key.encode(), text_of(fields, "document_key").encode()):
            raise Refusal(404, "Document not found: it is not here any more, or its key is another one")
        return upload


def _with_own_messages(handler: Handler) -> Handler:
    """A handler that refuses languages with the messages of DeepL."""

    @wraps(handler)
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except UnsupportedLanguage as error:
            raise Refusal(400, f"Value for '{error.side}_lang' not supported{error.detail or '.'}") from None

    return answer


def _checked_options(fields: dict[str, Any]) -> dict[str, str]:
    """The fields among `VALUES` that a request sets. Raises `Refusal` for values and fields that are not supported."""
    options = {}
    for name, values in VALUES.items():
        value = fields.get(name)
        if isinstance(value, bool | int | str):
            value = str(value).lower()
        if value is None or value == "":
            continue
        if value not in values:
            raise Refusal(400, f"Value for '{name}' not supported.")
        options[name] = value
    if options.get("formality") in ("more", "less"):
        raise Refusal(400, "'formality' is not supported for given 'target_lang'.")
    if fields.get("custom_instructions"):
        raise Refusal(400, "'custom_instructions' is not supported for given 'target_lang'.")
    for name, resource in MISSING.items():
        if not fields.get(name):
            continue
        if name.startswith("glossary") and not fields.get("source_lang"):
            raise Refusal(400, "Use of a glossary requires the 'source_lang' parameter to be specified.")
        raise Refusal(404, f"{resource} not found: this server has none, so '{name}' cannot be used")
    return options


def _is_set(options: dict[str, str], name: str, *, default: bool) -> bool:
    """Whether an option is on."""
    return options[name] in ("1", "true") if name in options else default


def _reader(options: dict[str, str], fields: dict[str, Any]) -> Callable[[str], Document] | None:
    """The function that reads texts with tags; None for plain text."""
    kind = options.get("tag_handling")
    if kind is None:
        return None
    if kind == "html":
        return read_html
    return partial(
        read_fragment,
        splitting=_tags(fields, "splitting_tags"),
        non_splitting=_tags(fields, "non_splitting_tags"),
        ignored=_tags(fields, "ignore_tags"),
        outline=_is_set(options, "outline_detection", default=True),
    )


def _tags(fields: dict[str, Any], name: str) -> list[str]:
    """Names of tags from a field that holds them separated by commas, or a list of such texts."""
    texts = texts_of(fields, name) if fields.get(name) else []
    return [tag.strip() for text in texts for tag in text.split(",") if tag.strip()]


def _translation(text: str, answer: Answer, source: str, options: dict[str, str]) -> dict[str, Any]:
    """JSON content about the translation of a text."""
    language = answer.detected.language if answer.detected else source
    translation: dict[str, Any] = {"detected_source_language": language.upper(), "text": answer.text}
    if _is_set(options, "show_billed_characters", default=False):
        translation["billed_characters"] = len(text)
    if "model_type" in options:
        translation["model_type_used"] = options["model_type"].removeprefix("prefer_")
    return translation


def _check_key(server: Server, request: Request, fields: dict[str, Any]) -> None:
    """Raise `Refusal` if the server asks for API keys and the request has none of them."""
    key = key_of(request, fields)
    if not key and isinstance(fields.get("auth_key"), str):
        key = fields["auth_key"]
    try:
        server.check_key(key)
    except Refusal:
        message = "Authorization failed. Please supply a valid DeepL-Auth-Key via the Authorization header."
        raise Refusal(403, message) from None


def error_content(refusal: Refusal) -> dict[str, Any]:
    """JSON content of an error, as DeepL writes it."""
    return {"message": refusal.message}
