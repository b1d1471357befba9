"""The page at `/` and the description at `/docs`: files that ask no other host for anything."""

from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.responses import HTMLResponse, Response

from dragoman.serving.limits import Refusal
from dragoman.system.templates import render

FILES = {"style.css": "text/css"} | dict.fromkeys(("app.js", "common.js", "words.js"), "text/javascript")


def router(app: FastAPI) -> APIRouter:
    """The routes of the pages."""
    routes, folder = APIRouter(include_in_schema=False), files("dragoman.serving") / "page"
    content = {name: (folder / name).read_bytes() for name in FILES}
    page = (folder / "index.html").read_text(encoding="utf-8")

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
        return HTMLResponse(render("serving/static/serving.html", routes=_described(app.openapi())))

    return routes


def _described(description: dict[str, Any]) -> list[dict[str, Any]]:
    """The routes of an OpenAPI description: group, method, path, summary, fields."""
    described = []
    for path, methods in description["paths"].items():
        for method, route in methods.items():
            content = route.get("requestBody", {}).get("content", {})
            schema = next(iter(content.values()), {}).get("schema", {})
            fields = [
                {"name": name, "required": name in schema.get("required", ()), "values": _values(field)}
                for name, field in schema.get("properties", {}).items()
            ]
            named = {"path": path, "method": method.upper(), "summary": route.get("summary", "")}
            described.append(named | {"group": route["tags"][0], "fields": fields, "kinds": list(content)})
    return described


def _values(field: dict[str, Any]) -> str:
    kinds = [kind.get("type", "") for kind in field.get("oneOf", [field])]
    values = ", ".join(field["enum"]) if "enum" in field else " or ".join(kinds)
    return values + (f"; default {field['default']}" if "default" in field else "")
