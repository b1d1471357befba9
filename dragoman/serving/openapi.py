"""Descriptions of routes for OpenAPI.

FastAPI cannot derive them, since the handlers read the fields of requests themselves: from JSON, forms and addresses
alike.
"""

from collections.abc import Sequence
from typing import Any

KINDS = ("application/json", "application/x-www-form-urlencoded")
"""Content types of bodies."""
ERRORS = {
    400: "The request is wrong; the answer says why.",
    403: "The key is wrong, or this is not allowed.",
    413: "The request is too large.",
    503: "The server is busy; `Retry-After` says for how long.",
    504: "The translation took too long.",
}
"""Descriptions of the errors that any route may answer, by status."""
TEXT = {"type": "string"}
"""Schema of a field that is a text."""
TEXTS = {"oneOf": [TEXT, {"type": "array", "items": TEXT}]}
"""Schema of a field that is a text or a list of texts."""
BINARY = TEXT | {"format": "binary"}
"""Schema of a field that is a file."""


def body(properties: dict[str, Any], *, required: Sequence[str], kinds: Sequence[str] = KINDS) -> dict[str, Any]:
    """The description of a body with these fields, by their names and schemas."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"requestBody": {"required": bool(required), "content": {kind: {"schema": schema} for kind in kinds}}}


def field_names(description: dict[str, Any]) -> set[str]:
    """The names of the fields in the description of a body."""
    contents = description["requestBody"]["content"].values()
    return {name for described in contents for name in described["schema"]["properties"]}


def parameters(described: dict[str, Any]) -> dict[str, Any]:
    """The description of a route whose fields are in the query of the address, from the description of a body."""
    schema = next(iter(described["requestBody"]["content"].values()))["schema"]
    return {
        "parameters": [
            {"name": name, "in": "query", "required": name in schema["required"], "schema": field}
            for name, field in schema["properties"].items()
        ]
    }


def with_codes(description: dict[str, Any], codes: dict[str, Sequence[str]]) -> dict[str, Any]:
    """The description of a body whose fields in `codes` have the language codes there as values."""
    content = {}
    for kind, described in description["requestBody"]["content"].items():
        properties = {
            name: field | {"enum": list(codes[name])} if name in codes else field
            for name, field in described["schema"]["properties"].items()
        }
        content[kind] = {"schema": described["schema"] | {"properties": properties}}
    return {"requestBody": description["requestBody"] | {"content": content}}


def documented(summary: str, extra: dict[str, Any] | None = None, *, kinds: Sequence[str] = ()) -> dict[str, Any]:
    """Keyword arguments that describe a route, for `APIRouter.add_api_route`.

    `extra` describes its fields. Its answers may also have one of the content types `kinds`.
    """
    answers: dict[int | str, dict[str, Any]] = {status: {"description": text} for status, text in ERRORS.items()}
    answers[200] = {"content": {kind: {} for kind in kinds}}
    answers[404] = {"description": "There is no such thing."}
    return {"summary": summary, "openapi_extra": extra, "responses": answers, "response_model": None}
