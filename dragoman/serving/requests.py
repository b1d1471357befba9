"""What a request holds: fields of JSON, of a form or of the address, within the limits."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request

from dragoman.serving.limits import Limits, Refusal
from dragoman.text.characters import well_formed

PIECE = 2**14
"""Bytes that are parsed at once; what is larger is parsed by a thread, or piece by piece."""
MOST_FIELDS = 1_000
"""Fields of a form."""
LARGEST = 2**53
"""Numbers up to which all programs read the same."""
_READING = ThreadPoolExecutor(1, "reading")
"""One large body after the other: several threads would wait for Python's lock, as would the one that answers."""


async def read_body(request: Request, most: int) -> bytes:
    """The body, counted while it comes. Raises `Refusal`."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise Refusal(413, f"The request is larger than {most:,} bytes")
        parts.append(part)
    return b"".join(parts)


async def read_fields(request: Request, limits: Limits, *, document: bool = False) -> dict[str, Any]:
    """The fields of a request, of which those of JSON may be lists; a field of a form that is repeated is a list.

    A request with a `document` may be larger, if it is a form of several parts.
    """
    fields: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        _add(fields, name, value)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    parts = kind == "multipart/form-data"
    body = await read_body(request, limits.file if document and parts else limits.body)
    if parts:
        return fields | await _read_parts(request, body)
    # Clients that name no kind, such as curl, send JSON as this one.
    if kind == "application/x-www-form-urlencoded" and body[:1] != b"{":
        return fields | await _beside_others(_read_form, body)
    if body.strip():
        # Clients write null for a field that they do not use.
        given = await _beside_others(read_json, body)
        fields |= {name: value for name, value in given.items() if value is not None}
    return fields


async def _beside_others(read: Callable[[bytes], dict[str, Any]], body: bytes) -> dict[str, Any]:
    """The fields that `read` finds, in a thread if that may take long, so that others are answered meanwhile."""
    if len(body) <= PIECE:
        return read(body)
    return await asyncio.get_running_loop().run_in_executor(_READING, read, body)


async def _read_parts(request: Request, body: bytes) -> dict[str, Any]:
    """The fields of a form of several parts; a file has its name in a field of its own."""
    request.stream = partial(_pieces, body)  # what `form` reads
    fields: dict[str, Any] = {}
    try:
        async with request.form(max_files=1, max_fields=MOST_FIELDS, max_part_size=len(body)) as form:
            for name, value in form.multi_items():
                _add(fields, name, await value.read() if isinstance(value, UploadFile) else value)
                if isinstance(value, UploadFile):
                    fields[f"{name}.name"] = value.filename or ""
    except (MultiPartException, ValueError) as error:
        raise Refusal(400, f"Invalid request: {error}") from None
    return fields


def _read_form(body: bytes) -> dict[str, Any]:
    """The fields of a form as addresses have them. Raises `Refusal`."""
    fields: dict[str, Any] = {}
    try:
        pairs = parse_qsl(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Refusal(400, f"Invalid request: the form has more than {MOST_FIELDS:,} fields") from None
    for name, value in pairs:
        _add(fields, name, value)
    return fields


def read_json(body: bytes) -> dict[str, Any]:
    """The object that a body of JSON is, with nothing in it that is no JSON by the standard. Raises `Refusal`."""
    try:
        value = _well_formed(json.loads(body, object_pairs_hook=_object, parse_constant=_refuse_constant))
    except _Doubtful as error:
        raise Refusal(400, f"Invalid request: {error}") from None
    except (ValueError, RecursionError):
        raise Refusal(400, "Invalid request: the body is no JSON") from None
    if not isinstance(value, dict):
        raise Refusal(400, "Invalid request: the body is no JSON object")
    return value


class _Doubtful(Exception):
    """JSON that different programs read differently."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _Doubtful("a field is there twice")
    return fields


def _refuse_constant(name: str) -> None:
    raise _Doubtful(f"{name} is no JSON")


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    """A body part by part, between which others are answered: forms are parsed slowly."""
    for start in range(0, len(body), PIECE):
        yield body[start : start + PIECE]
        await asyncio.sleep(0)
    yield b""


def _add(fields: dict[str, Any], name: str, value: Any) -> None:
    if name not in fields:
        fields[name] = value
    elif isinstance(fields[name], list):
        fields[name].append(value)
    else:
        fields[name] = [fields[name], value]


def _well_formed(value: Any) -> Any:
    """JSON whose texts hold no half of a character, which could not be written. Raises `_Doubtful` for numbers that
    other programs read as infinite or rounded."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, int | float) and not -LARGEST <= value <= LARGEST:
        raise _Doubtful("a number is too large")
    if isinstance(value, list):
        return list(map(_well_formed, value))
    if isinstance(value, dict):
        return {well_formed(name): _well_formed(part) for name, part in value.items()}
    return value


def text_of(fields: dict[str, Any], name: str, default: str | None = None) -> str:
    """A field that is a text; an empty one is the default. Raises `Refusal`."""
    value = fields.get(name)
    value = default if value in (None, "") else value
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


async def gone(request: Request) -> None:
    """Return when the client has gone."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return


async def unless_gone(request: Request, work: Any) -> Any:
    """The result of `work`, which is cancelled if the client goes away."""
    task, watch = asyncio.ensure_future(work), asyncio.ensure_future(gone(request))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        watch.cancel()
