"""What keeps a server alive: limits of size and time, on by default."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

RECEIPT = 10.0
"""Seconds in which a whole request has to arrive."""
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


class DeadlineProtocol(H11Protocol):
    """HTTP/1.1 whose clients have `RECEIPT` seconds for a request: those that trickle are cut off."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.more_body:
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
