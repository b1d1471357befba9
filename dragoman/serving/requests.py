"""What a request holds: fields of JSON, of a form or of the address, within the limits."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request

from dragoman.data.text import well_formed
from dragoman.serving.limits import Refusal

PIECE = 2**14
"""Bytes of a form that are parsed at once."""
LARGEST = 2**53
"""Numbers up to which all programs read the same."""


async def read_body(request: Request, most: int) -> bytes:
    """The body, counted while it comes. Raises `Refusal`."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise Refusal(413, f"The request is larger than {most:,} bytes")
        parts.append(part)
    return b"".join(parts)


async def read_fields(request: Request, most: int) -> dict[str, Any]:
    """The fields of a request, of which those of JSON may be lists; a field of a form that is repeated is a list."""
    fields: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        _add(fields, name, value)
    body = await read_body(request, most)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind.startswith("application/x-www") and body[:1] == b"{":
        kind = ""  # JSON from a client that names no kind, as curl does
    if kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
        request.stream = partial(_pieces, body)  # what `form` reads
        given: dict[str, Any] = {}
        try:
            async with request.form(max_files=1, max_fields=1_000, max_part_size=most) as form:
                for name, value in form.multi_items():
                    _add(given, name, await value.read() if isinstance(value, UploadFile) else value)
                    if isinstance(value, UploadFile):
                        given[f"{name}.name"] = value.filename or ""
        except (MultiPartException, ValueError) as error:
            raise Refusal(400, f"Invalid request: {error}") from None
        return fields | given
    if body.strip():
        # Clients write null for a field that they do not use.
        fields |= {name: value for name, value in read_json(body).items() if value is not None}
    return fields


def read_json(body: bytes) -> dict[str, Any]:
    """The object that a body of JSON is, with nothing in it that is no JSON by the standard. Raises `Refusal`."""
    try:
        found = _well_formed(json.loads(body, object_pairs_hook=_object, parse_constant=_refuse_constant))
    except _Doubtful as error:
        raise Refusal(400, f"Invalid request: {error}") from None
    except (ValueError, RecursionError):
        raise Refusal(400, "Invalid request: the body is no JSON") from None
    if not isinstance(found, dict):
        raise Refusal(400, "Invalid request: the body is no JSON object")
    return found


class _Doubtful(Exception):
    """JSON that different programs read differently."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Doubtful("a field is there twice")
    return found


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
        return {well_formed(name): _well_formed(each) for name, each in value.items()}
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
        for each in (task, watch):
            each.cancel()
