"""The web application: routes, errors as each API writes them, counters, and the process that serves it."""

import asyncio
import atexit
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
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
from dragoman.serving.hosts import Hosts
from dragoman.serving.limits import ANSWERING, CONNECTIONS, KEEP_ALIVE, SHUTDOWN, DeadlineProtocol, Refusal
from dragoman.serving.metrics import LOG, log_failure
from dragoman.serving.server import Server, busy

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
"""Headers of all answers that do not set them otherwise."""
CROSS_ORIGIN = {
    "allow_methods": ["GET", "POST"],
    "allow_headers": ["Authorization", "Content-Type", "X-Goog-Api-Key"],
    "expose_headers": ["Retry-After", "X-Ignored-Parameters"],
    "allow_private_network": True,
}
"""Requests that pages of other hosts may send, if they are allowed to send any (CORS)."""
SMALL = 2**16
"""Bytes up to which a request is read although large ones have filled the memory: 32 MiB for all connections."""
PIECE = 2**16
"""Bytes of an answer that are sent at once."""
MARGIN = 2.5
"""Seconds before the end of `SHUTDOWN` at which the process ends itself. On a busy machine it gets its turn late."""
SWITCHING = 0.0005
"""Seconds after which a thread gives up Python's lock if others wait for it."""
TRANSLATING = {"/translate", deepl.TRANSLATE_PATH, google.PATH, f"{google.PATH}/"}
"""Routes that are refused before their bodies are read when there is too much to do."""


def create_app(server: Server, hosts: Hosts) -> FastAPI:
    """The web application of a server. `hosts` says which host names and which web sites' pages it answers."""
    app = FastAPI(title="Dragoman", version=__version__, docs_url=None, redoc_url=None, openapi_url="/spec")
    for module in (libretranslate, deepl, google, explore):
        app.include_router(module.router(server))
    app.include_router(pages.router(app))

    @app.get("/health", summary="Whether the server answers.", tags=["Server"])
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    # Load balancers may ask for no more than the head.
    app.add_api_route("/health", health, methods=["HEAD"], include_in_schema=False)

    @app.get("/metrics", summary="Counters for Prometheus.", tags=["Server"], response_class=Response)
    async def metrics(request: Request) -> Response:
        server.check_key(libretranslate.key_of(request, dict(request.query_params)))
        return Response(server.metrics.text(server.queue), media_type="text/plain; version=0.0.4")

    app.add_exception_handler(Refusal, _answer_refusal)
    app.add_exception_handler(ResourceError, _answer_resource_error)
    app.add_exception_handler(HTTPException, _answer_http_exception)
    app.add_exception_handler(ClientDisconnect, _answer_nobody)
    app.add_middleware(Guard, server=server, hosts=hosts)
    if hosts.origins:
        app.add_middleware(CORSMiddleware, allow_origins=list(hosts.origins), **CROSS_ORIGIN)
    return app


class Guard:
    """Middleware around all routes.

    Counts answers and the memory that requests and answers take, adds headers, and refuses at once: requests for which
    there is no time or memory, those that are meant for other hosts, and those of other hosts' pages.
    """

    def __init__(self, app: ASGIApp, server: Server, hosts: Hosts):
        self.app, self.server, self.hosts = app, server, hosts
        self.held = 0
        """Bytes of all requests and answers that are in memory."""
        self.turn = asyncio.Lock()
        """Held to read a piece of a large request. So one piece is read in each round of the event loop, in which small
        requests are read, too."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started = time.monotonic()
        exchange = _Exchange(self, scope, receive, send)
        try:
            try:
                self._check(Request(scope))
            except Refusal as refusal:
                await exchange.refuse(refusal)
            else:
                await self.app(scope, exchange.receive, exchange.send)
        except asyncio.CancelledError:  # the server ends, and uvicorn waits no longer
            if not exchange.status:
                await exchange.refuse(Refusal(503, "The server is ending; try again later", retry_after=SHUTDOWN))
        except Exception as error:
            log_failure(error)
            if not exchange.status:
                await exchange.refuse(Refusal(500, "The server failed."))
        finally:
            self.held -= exchange.held
        route = getattr(scope.get("route"), "path", "other")
        self.server.metrics.answered(route, exchange.status, time.monotonic() - started)

    def _check(self, request: Request) -> None:
        """Raise `Refusal` for a request whose body need not be read."""
        headers, path = request.headers, request.scope["path"]
        self.hosts.check(request.method, path, headers.get("host"), headers.get("origin"))
        if request.method in ("GET", "POST") and path in TRANSLATING:
            seconds = self.server.queue.overload()
            if seconds:
                raise busy(seconds)


class _Exchange:
    """One request and its answer, whose bytes are counted while they are received and sent."""

    def __init__(self, guard: Guard, scope: Scope, receive: Receive, send: Send):
        self.guard, self.scope, self._receive, self._send = guard, scope, receive, send
        self.status = 0
        """Status of the answer; 0 until it is sent."""
        self.held = 0
        """Bytes of the request and the answer."""

    async def receive(self) -> Message:
        """The next part of the request. Raises `Refusal` if there is no memory for it."""
        message = await self._receive()
        self._hold(len(message.get("body", b"")))
        is_large = self.held > SMALL
        if is_large and self.guard.held > self.guard.server.limits.waiting and message["type"] == "http.request":
            raise Refusal(503, "The server has no room for more requests; try again later", retry_after=1)
        if is_large:
            async with self.guard.turn:
                await asyncio.sleep(0)
        return message

    async def send(self, message: Message) -> None:
        """Send the next part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            return await self._send(message)
        size = len(message.get("body", b""))
        self._hold(size)
        for piece in _pieces(message):
            await self._send(piece)
        self._hold(-size)  # only what is not sent yet takes memory

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with an error."""
        answer = await _answer_refusal(Request(self.scope), refusal)
        await answer(self.scope, self.receive, self.send)

    def _hold(self, size: int) -> None:
        self.held += size
        self.guard.held += size


def _pieces(message: Message) -> Iterator[Message]:
    """A part of an answer in pieces, so that the next one is not copied before the client has read."""
    body = memoryview(message.get("body", b""))
    starts = range(0, max(1, len(body)), PIECE)
    for start in starts:
        more = start != starts[-1] or message.get("more_body", False)
        yield message | {"body": bytes(body[start : start + PIECE]), "more_body": more}


async def _answer_refusal(request: Request, refusal: Any) -> Response:
    headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
    return JSONResponse(_error_content(request.scope["path"], refusal), refusal.status, headers)


async def _answer_resource_error(request: Request, error: Exception) -> Response:
    LOG.error("%s", error)
    return await _answer_refusal(request, Refusal(503, str(error)))


async def _answer_http_exception(request: Request, error: Any) -> Response:
    refusal = Refusal(error.status_code, str(error.detail))
    return JSONResponse(_error_content(request.scope["path"], refusal), error.status_code, error.headers)


async def _answer_nobody(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # the client has gone


def _error_content(path: str, refusal: Refusal) -> dict[str, Any]:
    """JSON content of an error, as the API of a path writes it."""
    if path.startswith(tuple(f"{prefix}/" for prefix in deepl.PREFIXES)):
        return deepl.error_content(refusal)
    if f"{path}/".startswith(f"{google.PATH}/"):
        return google.error_content(refusal)
    return {"error": refusal.message}


def configured(server: Server, origins: Sequence[str] = (), hosts: Hosts | None = None) -> uvicorn.Config:
    """The configuration of uvicorn. By default, any host name is answered that no web site can have, and pages of
    `origins` may ask; `hosts` says otherwise."""
    return uvicorn.Config(
        create_app(server, hosts or Hosts(origins=origins)),
        http=DeadlineProtocol,
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="error",  # a warning for each refusal would fill a log
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=ANSWERING,
    )


def run(server: Server, listener: socket.socket, hosts: Hosts) -> None:
    """Serve on a bound socket until SIGTERM or Ctrl-C.

    Requests that were accepted then have `ANSWERING` seconds. The process ends within `SHUTDOWN` seconds, also if
    threads go on.
    """
    # This library logs bytes of malformed forms.
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)
    process = _Process(configured(server, hosts=hosts))

    def end(*_: Any) -> None:
        process.should_exit = True

    # uvicorn ends on these signals once it runs, and then raises them again for the handlers that were there before.
    handlers_before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    process.config.load()
    # A thread that has Python's lock keeps it so long while others wait. Each of the hundreds of operations of a short
    # text may wait for it, and with the usual five milliseconds, five busy threads made it take seconds.
    interval_before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCHING)
    # What is loaded stays. To search all of it for garbage would stop all answers for a quarter of a second.
    gc.collect()
    gc.freeze()
    # Nor is garbage searched for when the process ends: on a busy machine that takes seconds, and no timer runs then.
    atexit.register(gc.freeze)
    try:
        process.run(sockets=[listener])
    finally:
        server.close()
        sys.setswitchinterval(interval_before)
        for number, handler in handlers_before.items():
            signal.signal(number, handler)


class _Process(uvicorn.Server):
    """A uvicorn server that ends in time, even if threads or requests do not."""

    def handle_exit(self, number: int, frame: Any) -> None:
        """Begin to end, and set the timer that ends the process."""
        if not self.should_exit:
            timer = threading.Timer(SHUTDOWN - MARGIN, _end_now)
            timer.daemon = True
            timer.start()
        super().handle_exit(number, frame)


def _end_now() -> None:
    LOG.error("The requests that were accepted did not end in time, and are given up.")
    sys.stderr.flush()
    os._exit(0)
