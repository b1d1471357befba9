"""Reads the fields of requests, from JSON, forms and addresses, within the limits."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request

from dragoman.formats.xml import is_encoding
from dragoman.serving.limits import Limits, Refusal
from dragoman.text.characters import well_formed

T = TypeVar("T")
PIECE = 2**14
"""Bytes of a body that are parsed at once. A larger body is parsed by a thread, or piece by piece."""
MOST_FIELDS = 1_000
"""Fields of a form, at most."""
MOST_NAMED, LONGEST_NAMED = 20, 60
"""Fields that change nothing and are named in the answer, at most, and characters of each."""
LARGEST = 2**53
"""Largest number that all programs read alike from JSON."""
_CHARSET = re.compile(r"""charset="?([\w.:-]{1,40})(?:"|\s*;|\s*$)""", re.IGNORECASE)
_READING = ThreadPoolExecutor(1, "reading")
"""Parses large bodies one after another. Several threads would compete for Python's lock with the one that answers."""


async def read_body(request: Request, most: int) -> bytes:
    """The body of a request. Raises `Refusal` as soon as more than `most` bytes have arrived."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise Refusal(413, f"The request is larger than {most:,} bytes")
        parts.append(part)
    return b"".join(parts)


async def read_fields(request: Request, limits: Limits, *, document: bool = False) -> dict[str, Any]:
    """The fields of a request by their names. A field of a form that is repeated is a list. Raises `Refusal`.

    A request with a `document` may be larger if it is a form of several parts. The content of a file is bytes, and its
    name is a field of its own, such as `file.name`.
    """
    fields: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        _add(fields, name, value)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    has_parts = kind == "multipart/form-data"
    body = await read_body(request, limits.file if document and has_parts else limits.body)
    if has_parts:
        _charset(request)  # by which starlette reads the parts
        return fields | await _read_parts(request, body)
    # Clients that name no kind, such as curl, send JSON with this one.
    if kind == "application/x-www-form-urlencoded" and body[:1] != b"{":
        return fields | await _in_thread_if_large(partial(_read_form, charset=_charset(request)), body)
    if body.strip():
        # Clients write null for a field that they do not use.
        object_fields = await _in_thread_if_large(read_json, body)
        fields |= {name: value for name, value in object_fields.items() if value is not None}
    return fields


def _charset(request: Request) -> str:
    """The encoding that a form names, or else UTF-8. Raises `Refusal` for one that is unknown, or no encoding of texts:
    some of Python's codecs take a time that grows with the square of the size.
    """
    kind = request.headers.get("content-type", "")
    names = _CHARSET.findall(kind)
    if len(names) != kind.lower().count("charset") or len(names) > 1:
        raise Refusal(400, "Invalid request: the charset of the body is not clear")
    name = names[0] if names else "utf-8"
    if not is_encoding(name):
        raise Refusal(400, f"Invalid request: {name} is no encoding that is read here; send UTF-8")
    return name


async def _in_thread_if_large(read: Callable[[bytes], dict[str, Any]], body: bytes) -> dict[str, Any]:
    """The result of `read(body)`, computed in a thread if that may take long, so that others are answered meanwhile."""
    if len(body) <= PIECE:
        return read(body)
    return await asyncio.get_running_loop().run_in_executor(_READING, read, body)


async def _read_parts(request: Request, body: bytes) -> dict[str, Any]:
    """The fields of a form of several parts (multipart/form-data). Raises `Refusal`."""
    request.stream = partial(_pieces, body)  # from which `form` reads
    fields: dict[str, Any] = {}
    try:
        async with request.form(max_files=1, max_fields=MOST_FIELDS, max_part_size=len(body)) as form:
            for name, value in form.multi_items():
                if isinstance(value, UploadFile):
                    _add(fields, name, await value.read())
                    fields[f"{name}.name"] = well_formed(value.filename or "")
                else:
                    _add(fields, name, well_formed(value))
    except (MultiPartException, ValueError) as error:
        raise Refusal(400, f"Invalid request: {error}") from None
    return fields


def _read_form(body: bytes, *, charset: str) -> dict[str, Any]:
    """The fields of a form that is written like the query of an address. Raises `Refusal`."""
    fields: dict[str, Any] = {}
    reading = {"keep_blank_values": True, "max_num_fields": MOST_FIELDS, "encoding": charset, "errors": "strict"}
    try:
        pairs = parse_qsl(body.decode(charset), **reading)
    except UnicodeDecodeError:
        raise Refusal(400, f"Invalid request: the form is not in {charset}; name its charset, or send UTF-8") from None
    except ValueError:
        raise Refusal(400, f"Invalid request: the form has more than {MOST_FIELDS:,} fields") from None
    for name, value in pairs:
        _add(fields, name, value)
    return fields


def read_json(body: bytes) -> dict[str, Any]:
    """The JSON object in a body. Raises `Refusal` for what is no JSON by the standard, or no object."""
    value = _read_value(body, "the body")
    if not isinstance(value, dict):
        raise Refusal(400, "Invalid request: the body is no JSON object")
    return value


def json_of(fields: dict[str, Any], name: str) -> Any:
    """A field whose value is an object or a list, which a form has as a text of JSON. Raises `Refusal`."""
    value = fields[name]
    return _read_value(value, name) if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else value


def _read_value(text: bytes | str, what: str) -> Any:
    """The value that is written as JSON; errors call it `what`. Raises `Refusal`."""
    try:
        return _well_formed(json.loads(text, object_pairs_hook=_unique_fields, parse_constant=_refuse_constant))
    except _Ambiguous as error:
        raise Refusal(400, f"Invalid request: {error}") from None
    except (ValueError, RecursionError):
        raise Refusal(400, f"Invalid request: {what} is no JSON") from None


class _Ambiguous(Exception):
    """JSON that different programs read differently."""


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object from its pairs of name and value. Raises `_Ambiguous` if a name is repeated."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _Ambiguous("a field is there twice")
    return fields


def _refuse_constant(name: str) -> None:
    """Refuse NaN and Infinity, which Python reads but which are no JSON."""
    raise _Ambiguous(f"{name} is no JSON")


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    """A body in pieces. Forms are parsed slowly, so others are answered between two pieces."""
    for start in range(0, len(body), PIECE):
        yield body[start : start + PIECE]
        await asyncio.sleep(0)
    yield b""


def _add(fields: dict[str, Any], name: str, value: Any) -> None:
    """Set a field; one that is set already becomes a list of all its values."""
    if name not in fields:
        fields[name] = value
    elif isinstance(fields[name], list):
        fields[name].append(value)
    else:
        fields[name] = [fields[name], value]


def _well_formed(value: Any) -> Any:
    """A value of JSON, its texts without halves of characters (surrogates), which could not be written.

    Raises `_Ambiguous` for numbers that other programs read as infinite or rounded.
    """
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, int | float) and not -LARGEST <= value <= LARGEST:
        raise _Ambiguous("a number is too large")
    if isinstance(value, list):
        return [_well_formed(item) for item in value]
    if isinstance(value, dict):
        return {well_formed(name): _well_formed(field) for name, field in value.items()}
    return value


def text_of(fields: dict[str, Any], name: str, default: str | None = None) -> str:
    """A field that is a text. One that is empty or not given is the default. Raises `Refusal`."""
    value = fields.get(name)
    if value in (None, ""):
        value = default
    if value is None:
        raise Refusal(400, f"Invalid request: missing {name} parameter")
    if not isinstance(value, str):
        raise Refusal(400, f"Invalid request: {name} must be a text")
    return value


def number_of(fields: dict[str, Any], name: str, default: int = 0) -> int:
    """A field that is a whole number. Raises `Refusal`."""
    value = fields.get(name, default)
    try:
        if isinstance(value, bool) or (isinstance(value, float) and value != int(value)):
            raise ValueError
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise Refusal(400, f"Invalid request: {name} must be a whole number") from None


def ignored_fields(fields: Collection[str], known: Collection[str]) -> dict[str, str]:
    """A header that names the fields that change nothing, such as misspelt ones; empty if all of them are `known`."""
    unknown = ({*fields} - {*known}) if len(fields) <= MOST_FIELDS else ()
    names = sorted(name for name in unknown if len(name) <= LONGEST_NAMED and name.isascii() and name.isprintable())
    return {"X-Ignored-Parameters": ", ".join(names[:MOST_NAMED])} if names else {}


async def client_gone(request: Request) -> None:
    """Return when the client has gone."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled if the client goes away. Raises `ClientDisconnect`."""
    task, watch = asyncio.ensure_future(work), asyncio.ensure_future(client_gone(request))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        watch.cancel()
