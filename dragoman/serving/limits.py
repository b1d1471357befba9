"""Limits of size and time that keep a server alive. They are on by default."""

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
"""Header lines of a request."""
PIPELINED = 32
"""Requests that a connection may send before the first of them is answered."""
KEEP_ALIVE = 5
"""Seconds that a connection without a request stays open."""
CONNECTIONS = 512
"""Connections that are open at the same time."""
SHUTDOWN = 10
"""Seconds within which the process ends when it is told to."""
ANSWERING = 6
"""Seconds of `SHUTDOWN` in which requests that were accepted are still answered."""


@dataclass(frozen=True)
class Limits:
    """Limits of requests. A request beyond them is refused."""

    body: int = 2**20
    """Bytes of a request with text."""
    file: int = 10 * 2**20
    """Bytes of a request with a document."""
    waiting: int = 2**27
    """Bytes of all requests and answers that are in memory at the same time."""
    texts: int = 512
    """Texts of a request."""
    characters: int = 5_000
    """Characters of a text."""
    alternatives: int = 10
    """Alternative translations of a text, and similar entries of the memory."""
    terms: int = 500
    """Terms of a glossary."""
    forbidden: int = 50
    """Forbidden terms, each of which is looked for in the whole vocabulary."""
    terms_characters: int = 50_000
    """Characters of a glossary."""
    term: int = LONGEST_TERM
    """Characters of a term."""
    seconds: float = 30.0
    """Seconds in which a translation has to be done."""
    document_seconds: float = 600.0
    """Seconds in which the translation of a document has to be done."""
    documents: int = 32
    """Documents of each API that are being translated, or wait to be fetched."""
    kept: int = 2**27
    """Bytes of these documents."""


class Refusal(Exception):
    """A request is answered with an error of HTTP: a status and a message for the client."""

    def __init__(self, status: int, message: str, *, retry_after: int | None = None):
        """`retry_after` is the number of seconds after which the client may try again."""
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


TOO_LONG = 431, f"The request line and the headers are longer than {HEAD:,} bytes."
"""Status and message for a request with a head that is too long."""


class _Refused(Exception):
    """Tells the parser of HTTP that a request is not read any further."""


class DeadlineProtocol(HttpToolsProtocol):
    """HTTP/1.1 with deadlines and a limited head.

    A client has `RECEIPT` seconds for a request, `HEAD` bytes for what comes before its body, and `SENDING` seconds to
    go on reading an answer. When there are `CONNECTIONS`, a new one replaces the one that has waited longest for its
    client.
    """

    waits_since: float | None = None
    """Time since which the server waits for the client; None while the server works."""
    _receiving: asyncio.TimerHandle | None = None
    """Timer that ends the connection if a request does not arrive in time."""
    _sending: asyncio.TimerHandle | None = None
    """Timer that ends the connection if an answer is not read in time."""
    _in_head = False
    """Whether a request has begun but not yet its body."""
    _parsed = 0
    """Bytes of the head that the parser has reported."""
    _unparsed = 0
    """Bytes that have arrived while the head was incomplete."""
    _headers = 0
    """Header lines of the request."""
    _hosts = 0
    """Header lines `Host` of the request."""
    _refusal: tuple[int, str] | None = None
    """Status and message for a request that is refused by the parser's callbacks."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # asyncio does so only for sockets that name their protocol. Without it, when a connection is used again, a body
        # that follows its head waits 40 ms until the client acknowledges the head.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._expect_request()
        if len(self.connections) >= CONNECTIONS:
            self._abort_longest_waiting()

    def on_message_begin(self) -> None:
        self._in_head = True
        self._parsed = self._unparsed = self._headers = self._hosts = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer of a body in chunks, which is ignored
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
            self._replace_host(httptools.parse_url(self.url))
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        self._unparsed += len(data) if self._in_head else 0
        super().data_received(data)
        if self._in_head and self._unparsed > HEAD:  # perhaps one line, which the parser reports only at its end
            self._refusal = TOO_LONG
            self.send_400_response("")
        elif self.cycle is not None and not self.cycle.more_body and not self._in_head:
            self._end_receipt()
        elif self._receiving is None:
            self._expect_request()

    def send_400_response(self, msg: str) -> None:
        """Answer with what is wrong with a request, and close the connection."""
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

    def _abort_longest_waiting(self) -> None:
        """Close the other connection that has waited longest for its client, if any waits."""
        waiting = [
            connection
            for connection in self.connections
            if connection is not self and not connection.transport.is_closing() and connection.waits_since is not None
        ]
        if waiting:
            min(waiting, key=lambda connection: connection.waits_since).abort()

    def _count(self, size: int) -> None:
        """Count bytes of the head, and refuse one that is too long."""
        self._parsed += size
        if self._parsed > HEAD:
            self._refuse(*TOO_LONG)

    def _refuse(self, status: int, message: str) -> None:
        """Stop the parser, which then calls `send_400_response`."""
        self._refusal = status, message
        raise _Refused

    def _replace_host(self, target: Any) -> None:
        """Replace the header `Host` by the host of the address in the request line, which counts according to HTTP."""
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
