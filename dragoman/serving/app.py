"""The application: routes, errors in the shape of each API, what is counted, and the process around it."""

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
SHARED = {
    "allow_methods": ["GET", "POST"],
    "allow_headers": ["Authorization", "Content-Type"],
    "allow_private_network": True,
}
"""What pages of other hosts may send, if they are allowed to send requests at all."""
SMALL = 2**16
"""Bytes of a request that is read although large ones have filled the memory: all connections have 32 MiB of them."""
PIECE = 2**16
"""Bytes of an answer that are sent at once."""
MARGIN = 2.5
"""Seconds before the end of `SHUTDOWN` when the process ends itself: a busy machine lets it wait for its turn."""
SWITCHING = 0.0005
"""Seconds after which Python has another thread go on."""
TRANSLATING = {"/translate", deepl.TRANSLATE_PATH, google.PATH, f"{google.PATH}/"}
"""Routes that are refused before their bodies are read when there is too much to do."""


def create_app(server: Server, hosts: Hosts) -> FastAPI:
    """The application of a server, which answers to some names, and pages of some web sites."""
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

    app.add_middleware(Guard, server=server, hosts=hosts)
    if hosts.origins:
        app.add_middleware(CORSMiddleware, allow_origins=list(hosts.origins), **SHARED)
    return app


class Guard:
    """Around all routes: counts answers and the memory that they take, adds headers, and refuses at once what there is
    no time or memory for, what is meant for other hosts, and what pages of other hosts send."""

    def __init__(self, app: ASGIApp, server: Server, hosts: Hosts):
        self.app, self.server, self.hosts = app, server, hosts
        self._held = 0
        """Bytes of requests and answers that are in memory."""
        self._turn = asyncio.Lock()
        """What is large is read piece by piece, one in each round of the loop of events, in which small requests are
        read, too."""

    def _check(self, request: Request) -> None:
        """Raise `Refusal` for a request whose body need not be read."""
        headers, path = request.headers, request.scope["path"]
        self.hosts.check(request.method, path, headers.get("host"), headers.get("origin"))
        if request.method in ("GET", "POST") and path in TRANSLATING and (seconds := self.server.queue.overload()):
            raise busy(seconds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started, status, held = time.monotonic(), 0, 0

        def hold(size: int) -> None:
            nonlocal held
            held += size
            self._held += size

        async def received() -> Message:
            message = await receive()
            hold(len(message.get("body", b"")))
            if self._held > self.server.limits.waiting and held > SMALL and message["type"] == "http.request":
                raise Refusal(503, "The server has no room for more requests; try again later", retry_after=1)
            if held > SMALL:
                async with self._turn:
                    await asyncio.sleep(0)
            return message

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                return await send(message)
            hold(len(message.get("body", b"")))
            for piece in _pieces(message):
                await send(piece)

        request = Request(scope, received)
        try:
            try:
                self._check(request)
            except Refusal as refusal:
                await (await _refused(request, refusal))(scope, receive, sent)
            else:
                await self.app(scope, received, sent)
        except asyncio.CancelledError:  # the server ends, and uvicorn waits no longer
            if not status:
                ending = Refusal(503, "The server is ending; try again later", retry_after=SHUTDOWN)
                await (await _refused(request, ending))(scope, receive, sent)
        except Exception as error:
            log_failure(error)
            if not status:
                await (await _refused(request, Refusal(500, "The server failed.")))(scope, receive, sent)
        finally:
            self._held -= held
        route = getattr(scope.get("route"), "path", "other")
        self.server.metrics.answered(route, status, time.monotonic() - started)


def _pieces(message: Message) -> Iterator[Message]:
    """A part of an answer in pieces, so that the next one is not copied before the client has read."""
    body = memoryview(message.get("body", b""))
    starts = range(0, max(1, len(body)), PIECE)
    for start in starts:
        more = start != starts[-1] or message.get("more_body", False)
        yield message | {"body": bytes(body[start : start + PIECE]), "more_body": more}


async def _refused(request: Request, refusal: Any) -> Response:
    headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
    return JSONResponse(_shaped(request.scope["path"], refusal), refusal.status, headers)


async def _failing(request: Request, error: Exception) -> Response:
    LOG.error("%s", error)
    return await _refused(request, Refusal(503, str(error)))


async def _unknown(request: Request, error: Any) -> Response:
    refusal = Refusal(error.status_code, str(error.detail))
    return JSONResponse(_shaped(request.scope["path"], refusal), error.status_code, error.headers)


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it


def _shaped(path: str, refusal: Refusal) -> dict[str, Any]:
    """An error as the API of a path says it."""
    if path.startswith(tuple(f"{prefix}/" for prefix in deepl.PREFIXES)):
        return deepl.shaped(refusal)
    if f"{path}/".startswith(f"{google.PATH}/"):
        return google.shaped(refusal)
    return {"error": refusal.message}


def configured(server: Server, origins: Sequence[str] = (), hosts: Hosts | None = None) -> uvicorn.Config:
    """The configuration of uvicorn. `hosts` says which names are answered; by default, pages of `origins` may ask."""
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
    # It logs bytes of forms that are wrong.
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)
    # uvicorn ends on these, and then raises them again for whoever handled them before: that is to be nobody.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    process = _Process(configured(server, hosts=hosts))
    process.config.load()
    # A thread that has Python's lock keeps it so long while others wait. Each of the hundreds of operations of a short
    # text may wait for it, and with the five milliseconds that are usual, five busy threads made it take seconds.
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCHING)
    # What is loaded stays. To look through all of it for garbage would stop all answers for a quarter of a second.
    gc.collect()
    gc.freeze()
    # Nor is garbage looked for when the process ends: on a busy machine that takes seconds, and no timer runs then.
    atexit.register(gc.freeze)
    try:
        process.run(sockets=[listener])
    finally:
        server.close()
        sys.setswitchinterval(usual)
        for number, handler in before.items():
            signal.signal(number, handler)


class _Process(uvicorn.Server):
    """A server whose end does not wait for what does not end."""

    def handle_exit(self, number: int, frame: Any) -> None:
        """Begin to end."""
        if not self.should_exit:
            last = threading.Timer(SHUTDOWN - MARGIN, _end)
            last.daemon = True
            last.start()
        super().handle_exit(number, frame)


def _end() -> None:
    LOG.error("What was accepted did not end in time, and is given up.")
    sys.stderr.flush()
    os._exit(0)
