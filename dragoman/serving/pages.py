"""The web page at `/` and the description of the API at `/docs`. They load nothing from other hosts."""

from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.responses import HTMLResponse, Response

from dragoman.serving.limits import Refusal
from dragoman.system.templates import render

FILES = {"style.css": "text/css"} | dict.fromkeys(("app.js", "common.js", "words.js"), "text/javascript")
"""Files of the page, with their content types."""


def router(app: FastAPI) -> APIRouter:
    """The routes of the pages."""
    routes = APIRouter(include_in_schema=False)
    folder = files("dragoman.serving") / "page"
    content = {name: (folder / name).read_bytes() for name in FILES}
    page = (folder / "index.html").read_text(encoding="utf-8")

    @routes.head("/")
    @routes.get("/")
    async def index() -> HTMLResponse:
        return HTMLResponse(page)

    @routes.get("/page/{name}")
    async def file(name: str) -> Response:
        if name not in FILES:
            raise Refusal(404, "Not Found")
        return Response(content[name], media_type=FILES[name])

    @routes.get("/docs")
    async def docs() -> HTMLResponse:
        return HTMLResponse(render("serving/static/serving.html", routes=_route_rows(app.openapi())))

    return routes


def _route_rows(description: dict[str, Any]) -> list[dict[str, Any]]:
    """A row of the page for each route of an OpenAPI description: its group, method, path, summary and fields."""
    rows = []
    for path, methods in description["paths"].items():
        for method, route in methods.items():
            content = route.get("requestBody", {}).get("content", {})
            schema = next(iter(content.values()), {}).get("schema", {})
            rows.append(
                {
                    "path": path,
                    "method": method.upper(),
                    "summary": route.get("summary", ""),
                    "group": route["tags"][0],
                    "fields": _field_rows(schema),
                    "kinds": list(content),
                }
            )
    return rows


def _field_rows(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """A row of the page for each field of a schema: its name, whether it is required, and its values."""
    required = schema.get("required", ())
    return [
        {"name": name, "required": name in required, "values": _values(field)}
        for name, field in schema.get("properties", {}).items()
    ]


def _values(field: dict[str, Any]) -> str:
    """The values that a field may have, and its default, in words."""
    if "enum" in field:
        values = ", ".join(field["enum"])
    else:
        values = " or ".join(kind.get("type", "") for kind in field.get("oneOf", [field]))
    return f"{values}; default {field['default']}" if "default" in field else values
