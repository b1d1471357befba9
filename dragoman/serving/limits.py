"""What keeps a server alive: limits of size and time, on by default."""

import asyncio
import socket
import time
from dataclasses import dataclass
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from dragoman.config.decoding import LONGEST_TERM

RECEIPT = 10.0
"""Seconds in which a whole request has to arrive."""
SENDING = 10.0
"""Seconds in which a client has to read some of its answer."""
HEAD = 2**16
"""Bytes of a request before its body."""
HEADERS = 100
PIPELINED = 32
"""Requests that a connection may send before the first of them is answered."""
KEEP_ALIVE = 5
"""Seconds that a connection without a request stays open."""
CONNECTIONS = 512
SHUTDOWN = 10
"""Seconds after which the process has ended when it is told to."""
ANSWERING = 6
"""Seconds of these for requests that were accepted."""


@dataclass(frozen=True)
class Limits:
    """Limits of requests; what goes beyond them is refused."""

    body: int = 2**20
    """Bytes of a request with text."""
    file: int = 10 * 2**20
    """Bytes of a request with a document."""
    waiting: int = 2**27
    """Bytes of all requests and answers that are in memory at the same time."""
    texts: int = 512
    characters: int = 5_000
    """Characters of a text."""
    alternatives: int = 10
    terms: int = 50
    """Terms of a glossary, and forbidden ones."""
    term: int = LONGEST_TERM
    """Characters of each of them."""
    seconds: float = 30.0
    """Time in which a translation has to be done."""
    document_seconds: float = 600.0
    documents: int = 32
    """Documents of each API that are being translated, or wait to be fetched."""
    kept: int = 2**27
    """Bytes of these documents."""


class Refusal(Exception):
    """A request that is answered with an error: its status, and what is said."""

    def __init__(self, status: int, message: str, *, retry_after: int | None = None):
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


TOO_LONG = 431, f"The request line and the headers are longer than {HEAD:,} bytes."


class _Refused(Exception):
    """Tells the parser of HTTP that a request is not read any further."""


class DeadlineProtocol(HttpToolsProtocol):
    """HTTP/1.1 whose clients have `RECEIPT` seconds for a request, `HEAD` bytes for what comes before its body, and
    `SENDING` seconds to go on reading an answer.

    When there are `CONNECTIONS`, a new one takes the place of that which has waited longest for its client.
    """

    _receiving: asyncio.TimerHandle | None = None
    _sending: asyncio.TimerHandle | None = None
    _in_head, _parsed, _unparsed, _headers, _hosts = False, 0, 0, 0, 0
    _refusal: tuple[int, str] | None = None
    waits_since: float | None = None
    """Time from which the server waits for the client; None while the server works."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # asyncio does so only for sockets that name their protocol. Else a body that follows its head in a connection
        # that is used again waits 40 ms until the client acknowledges the head.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._expect_request()
        if len(self.connections) >= CONNECTIONS:
            others = (other for other in self.connections if other is not self and not other.transport.is_closing())
            waiting = [other for other in others if other.waits_since is not None]
            if waiting:
                min(waiting, key=lambda other: other.waits_since).abort()

    def on_message_begin(self) -> None:
        self._in_head, self._parsed, self._unparsed, self._headers, self._hosts = True, 0, 0, 0, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # it follows a body in chunks, and says nothing that is known here
        self._count(len(name) + len(value) + 4)
        self._headers += 1
        self._hosts += name.lower() == b"host"
        if self._headers > HEADERS:
            self._refuse(431, f"The request has more than {HEADERS} header lines.")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._hosts > 1 or (not self._hosts and self.parser.get_http_version() == "1.1"):
            self._refuse(400, "The request needs one header line that says the host.")
        if len(self.pipeline) >= PIPELINED:
            self._refuse(429, f"More than {PIPELINED} requests were sent before the first was answered.")
        if not self.url.startswith((b"/", b"*")):
            self._take_host(httptools.parse_url(self.url))
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        self._unparsed += len(data) if self._in_head else 0
        super().data_received(data)
        if self._in_head and self._unparsed > HEAD:  # of one line, perhaps, of which the parser says nothing
            self._refusal = TOO_LONG
            self.send_400_response("")
        elif self.cycle is not None and not self.cycle.more_body and not self._in_head:
            self._end_receipt()
        elif self._receiving is None:
            self._expect_request()

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong with a request, and close the connection."""
        status, message = self._refusal or (400, msg)
        if self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self.abort()  # in the middle of the answer to an earlier request
            return
        head = f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(message)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head.encode() + message.encode())
        self.transport.close()
        self._expect_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_receipt()
        self._end_reading()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._end_receipt()
        self.waits_since = time.monotonic()
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self._expect_reading()

    def pause_writing(self) -> None:
        """The client reads more slowly than the server writes."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        self._end_reading()

    def abort(self) -> None:
        """Close the connection at once, whatever is not sent yet."""
        self._receiving = self._sending = None
        if self.transport is not None:
            self.transport.abort()

    def _count(self, size: int) -> None:
        self._parsed += size
        if self._parsed > HEAD:
            self._refuse(*TOO_LONG)

    def _refuse(self, status: int, message: str) -> None:
        self._refusal = status, message
        raise _Refused

    def _take_host(self, target: Any) -> None:
        """Let the host of an address in the request line count, as HTTP says, and not that of a header line."""
        host = b"[%b]" % target.host if b":" in target.host else target.host
        host += b":%d" % target.port if target.port else b""
        self.headers[:] = [(name, host if name == b"host" else value) for name, value in self.headers]

    def _expect_request(self) -> None:
        self.waits_since = time.monotonic()
        self._receiving = self.loop.call_later(RECEIPT, self.abort)

    def _end_receipt(self) -> None:
        self.waits_since = None
        if self._receiving is not None:
            self._receiving.cancel()
            self._receiving = None

    def _expect_reading(self) -> None:
        self._end_reading()
        self.waits_since = time.monotonic()
        self._sending = self.loop.call_later(SENDING, self._cut_unread)

    def _end_reading(self) -> None:
        self.waits_since = None
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def _cut_unread(self) -> None:
        """Close the connection if there is still something that its client has not read."""
        self._sending = None
        if self.transport.get_write_buffer_size():
            self.abort()
