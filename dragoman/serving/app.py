"""The application: routes, errors in the shape of each API, what is counted, and the process around it."""

import logging
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from dragoman import __version__
from dragoman.serving import deepl, explore, google, libretranslate, pages
from dragoman.serving.limits import CONNECTIONS, KEEP_ALIVE, SHUTDOWN, DeadlineProtocol, Refusal
from dragoman.serving.server import Server

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
SHARED = {"allow_methods": ["GET", "POST"], "allow_headers": ["Authorization", "Content-Type"]}
"""What pages of other hosts may ask for, if they are allowed to."""
LOG = logging.getLogger("dragoman.serving")


def create_app(server: Server) -> FastAPI:
    """The application of a server."""
    app = FastAPI(title="Dragoman", version=__version__, docs_url=None, redoc_url=None, openapi_url="/spec")
    for module in (libretranslate, deepl, google, explore):
        app.include_router(module.router(server))
    app.include_router(pages.router(app))

    @app.get("/health", summary="Whether the server answers.", tags=["Server"])
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/metrics", summary="Counters for Prometheus.", tags=["Server"], response_class=Response)
    async def metrics(request: Request) -> Response:
        server.check_key(libretranslate.key_of(request, {}))
        return Response(server.metrics.text(server.queue), media_type="text/plain; version=0.0.4")

    for kind, handler in ((Refusal, _refused), (HTTPException, _unknown), (ClientDisconnect, _gone)):
        app.add_exception_handler(kind, handler)

    if server.origins:
        app.add_middleware(CORSMiddleware, allow_origins=server.origins, **SHARED)

    @app.middleware("http")
    async def counted(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        started = time.monotonic()
        try:
            response = await answer(request)
        except Exception:
            LOG.exception("A request failed.")
            response = await _refused(request, Refusal(500, "The server failed."))
        route = getattr(request.scope.get("route"), "path", "other")
        server.metrics.answered(route, response.status_code, time.monotonic() - started)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return app


async def _refused(request: Request, refusal: Any) -> Response:
    headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
    return JSONResponse(_shaped(request.url.path, refusal), refusal.status, headers)


async def _unknown(request: Request, error: Any) -> Response:
    refusal = Refusal(error.status_code, str(error.detail))
    return JSONResponse(_shaped(request.url.path, refusal), error.status_code, error.headers)


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it


def _shaped(path: str, refusal: Refusal) -> dict[str, Any]:
    """An error as the API of a path says it."""
    if path.startswith(deepl.PREFIX):
        return deepl.shaped(refusal)
    if path.startswith(google.PATH):
        return google.shaped(refusal)
    return {"error": refusal.message}


def configured(server: Server) -> uvicorn.Config:
    """How the process serves."""
    return uvicorn.Config(
        create_app(server),
        http=DeadlineProtocol,
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=SHUTDOWN,
    )


def run(server: Server, listener: socket.socket) -> None:
    """Serve on a bound socket until SIGTERM or Ctrl-C; then answer what was accepted, and return."""
    # uvicorn ends on these, and then raises them again for whoever handled them before: that is to be nobody.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        uvicorn.Server(configured(server)).run(sockets=[listener])
    finally:
        server.close()
        for number, handler in before.items():
            signal.signal(number, handler)
