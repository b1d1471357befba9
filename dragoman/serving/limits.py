"""What keeps a server alive: limits of size and time, on by default."""

import asyncio
import socket
from dataclasses import dataclass

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

RECEIPT = 10.0
"""Seconds in which a whole request has to arrive."""
HEAD = 2**16
"""Bytes of a request before its body."""
KEEP_ALIVE = 5
"""Seconds that a connection without a request stays open."""
CONNECTIONS = 512
SHUTDOWN = 10
"""Seconds for accepted requests when the server is told to end."""


@dataclass(frozen=True)
class Limits:
    """Of a request; what goes beyond is refused."""

    body: int = 2**20
    """Bytes of a request with text."""
    file: int = 10 * 2**20
    """Bytes of a request with a document."""
    texts: int = 512
    characters: int = 5_000
    """Of a text."""
    alternatives: int = 10
    seconds: float = 30.0
    """In which a translation has to be done."""
    document_seconds: float = 600.0


class Refusal(Exception):
    """A request that is answered with an error: its status, and what is said."""

    def __init__(self, status: int, message: str, *, retry_after: int | None = None):
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


class DeadlineProtocol(HttpToolsProtocol):
    """HTTP/1.1 whose clients have `RECEIPT` seconds for a request, and `HEAD` bytes for what comes before its body."""

    _timer: asyncio.TimerHandle | None = None
    _in_head, _received, _chunk = False, 0, 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # asyncio does so only for sockets that name their protocol. Else a body that follows its head in a connection
        # that is used again waits 40 ms until the client acknowledges the head.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._start()

    def on_message_begin(self) -> None:
        self._in_head, self._received = True, self._chunk
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        self._chunk = len(data)
        self._received += len(data)
        super().data_received(data)
        if self._in_head and self._received > HEAD:
            self.send_400_response("The request line and the headers are too long.")
            return
        if self.cycle is not None and not self.cycle.more_body and not self._in_head:
            self._stop()
        elif self._timer is None:
            self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._stop()
        super().on_response_complete()

    def _start(self) -> None:
        self._timer = self.loop.call_later(RECEIPT, self._expire)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        if self.transport is not None and not self.transport.is_closing():
            self.transport.abort()
