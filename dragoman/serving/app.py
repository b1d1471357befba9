"""The application: routes, errors in the shape of each API, what is counted, and the process around it."""

import gc
import logging
import signal
import socket
import time
from collections.abc import Sequence
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman import __version__
from dragoman.errors import ResourceError
from dragoman.serving import deepl, explore, google, libretranslate, pages
from dragoman.serving.limits import CONNECTIONS, KEEP_ALIVE, SHUTDOWN, DeadlineProtocol, Refusal
from dragoman.serving.metrics import LOG, log_failure
from dragoman.serving.server import Server, busy

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
SHARED = {"allow_methods": ["GET", "POST"], "allow_headers": ["Authorization", "Content-Type"]}
"""What pages of other hosts may ask for, if they are allowed to."""
TRANSLATING = {"/translate", deepl.TRANSLATE_PATH, google.PATH, f"{google.PATH}/"}
"""Routes that are refused before their bodies are read when there is too much to do."""


def create_app(server: Server, origins: Sequence[str] = ()) -> FastAPI:
    """The application of a server, for pages of other `origins`, too."""
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

    handlers = {Refusal: _refused, ResourceError: _failing, HTTPException: _unknown, ClientDisconnect: _gone}
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)

    app.add_middleware(Guard, server=server, origins=origins)
    if origins:
        app.add_middleware(CORSMiddleware, allow_origins=list(origins), **SHARED)
    return app


class Guard:
    """Around all routes: counts answers, adds heads, and refuses at once what there is no time for, and what pages of
    other hosts send."""

    def __init__(self, app: ASGIApp, server: Server, origins: Sequence[str]):
        self.app, self.server, self.origins = app, server, origins

    def _refusal(self, request: Request) -> Refusal | None:
        """Why a request is refused before its body is read."""
        origin = request.headers.get("origin")
        if request.method != "POST":
            return None
        # A browser sends a form to any host, and only hides the answer from the page.
        if origin and origin not in self.origins and origin.partition("://")[2] != request.headers.get("host"):
            return Refusal(403, "Pages of other hosts may not ask here, unless --allow-origin names theirs")
        if request.url.path in TRANSLATING and (seconds := self.server.queue.overload()):
            return busy(seconds)
        return None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started, status = time.monotonic(), 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        request = Request(scope, receive)
        try:
            if refusal := self._refusal(request):
                await (await _refused(request, refusal))(scope, receive, sent)
            else:
                await self.app(scope, receive, sent)
        except Exception as error:
            log_failure(error)
            if not status:
                await (await _refused(request, Refusal(500, "The server failed.")))(scope, receive, sent)
        route = getattr(scope.get("route"), "path", "other")
        self.server.metrics.answered(route, status, time.monotonic() - started)


async def _refused(request: Request, refusal: Any) -> Response:
    headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
    return JSONResponse(_shaped(request.url.path, refusal), refusal.status, headers)


async def _failing(request: Request, error: Exception) -> Response:
    LOG.error("%s", error)
    return await _refused(request, Refusal(503, str(error)))


async def _unknown(request: Request, error: Any) -> Response:
    refusal = Refusal(error.status_code, str(error.detail))
    return JSONResponse(_shaped(request.url.path, refusal), error.status_code, error.headers)


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it


def _shaped(path: str, refusal: Refusal) -> dict[str, Any]:
    """An error as the API of a path says it."""
    if path.startswith(tuple(f"{prefix}/" for prefix in deepl.PREFIXES)):
        return deepl.shaped(refusal)
    if f"{path}/".startswith(f"{google.PATH}/"):
        return google.shaped(refusal)
    return {"error": refusal.message}


def configured(server: Server, origins: Sequence[str] = ()) -> uvicorn.Config:
    """How the process serves."""
    return uvicorn.Config(
        create_app(server, origins),
        http=DeadlineProtocol,
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="error",  # a warning for each refusal would fill a log
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=SHUTDOWN,
    )


def run(server: Server, listener: socket.socket, origins: Sequence[str] = ()) -> None:
    """Serve on a bound socket until SIGTERM or Ctrl-C; then answer what was accepted, and return."""
    # Which else logs bytes of forms that are wrong.
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)
    # uvicorn ends on these, and then raises them again for whoever handled them before: that is to be nobody.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    process = uvicorn.Server(configured(server, origins))
    process.config.load()
    # What is loaded stays. To look through all of it for garbage would stop all answers for a quarter of a second.
    gc.collect()
    gc.freeze()
    try:
        process.run(sockets=[listener])
    finally:
        server.close()
        for number, handler in before.items():
            signal.signal(number, handler)
