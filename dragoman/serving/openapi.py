"""What the description of the API says of requests that are read by hand: from JSON, forms and addresses alike."""

from collections.abc import Sequence
from typing import Any

KINDS = ("application/json", "application/x-www-form-urlencoded")
ERRORS = {
    400: "The request is wrong; the answer says why.",
    403: "The key is wrong, or this is not allowed.",
    413: "The request is too large.",
    503: "The server is busy; `Retry-After` says for how long.",
    504: "The translation took too long.",
}
TEXT = {"type": "string"}
TEXTS = {"oneOf": [TEXT, {"type": "array", "items": TEXT}]}
BINARY = TEXT | {"format": "binary"}


def body(properties: dict[str, Any], *, required: Sequence[str], kinds: Sequence[str] = KINDS) -> dict[str, Any]:
    """The description of a body with these fields."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"requestBody": {"required": bool(required), "content": {kind: {"schema": schema} for kind in kinds}}}


def parameters(described: dict[str, Any]) -> dict[str, Any]:
    """The description of the same fields in the address instead of a body."""
    schema = next(iter(described["requestBody"]["content"].values()))["schema"]
    fields = schema["properties"].items()
    return {
        "parameters": [
            {"name": name, "in": "query", "required": name in schema["required"], "schema": field}
            for name, field in fields
        ]
    }


def with_codes(description: dict[str, Any], codes: dict[str, Sequence[str]]) -> dict[str, Any]:
    """The description of a body whose fields `codes` have these values."""
    content = {}
    for kind, described in description["requestBody"]["content"].items():
        properties = {
            name: field | {"enum": list(codes[name])} if name in codes else field
            for name, field in described["schema"]["properties"].items()
        }
        content[kind] = {"schema": described["schema"] | {"properties": properties}}
    return {"requestBody": description["requestBody"] | {"content": content}}


def documented(summary: str, extra: dict[str, Any] | None = None, *, kinds: Sequence[str] = ()) -> dict[str, Any]:
    """Keywords of a route, whose answers may be of other `kinds`, too."""
    answers: dict[int | str, dict[str, Any]] = {status: {"description": text} for status, text in ERRORS.items()}
    answers[200] = {"content": {kind: {} for kind in kinds}}
    answers[404] = {"description": "There is no such thing."}
    return {"summary": summary, "openapi_extra": extra, "responses": answers, "response_model": None}
