"""Clients that send too much, too slowly or nonsense, or that go away, do no harm."""

import asyncio
import http.client
import json
import random
import signal
import socket
import threading
import time
from collections import Counter
from contextlib import suppress

import pytest

from dragoman.serving import app, limits
from dragoman.serving.app import SMALL, Guard
from dragoman.serving.hosts import Hosts
from dragoman.serving.limits import Limits
from dragoman.serving.server import Server
from tests.serving.conftest import Words
from tests.waiting import wait_until

ASK = {"q": "a", "source": "en", "target": "fr"}


def raw(port, content=b""):
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.sendall(content)
    return connection


def test_a_body_that_is_too_large_is_refused_while_it_comes(serve):
    running = serve(Words(), limits=Limits(body=10_000))
    assert running.ask("POST", "/translate", ASK | {"q": "x" * 20_000})[0] == 413
    with raw(running.port, b"POST /translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n") as connection:
        chunk = b"1000\r\n" + b"x" * 4096 + b"\r\n"
        connection.sendall(chunk * 4)
        assert b"413" in connection.recv(1000)
    assert running.ask("POST", "/translate", ASK)[0] == 200


def test_large_bodies_are_read_one_piece_in_each_round_of_events(serve):
    rounds, pieces = 0, []

    async def read_all(scope, receive, send):
        while (await receive())["more_body"]:
            pieces.append(rounds)

    async def all_at_once():
        nonlocal rounds
        guard = Guard(read_all, serve(Words()).server, Hosts())

        def receiving():
            messages = iter([{"type": "http.request", "body": bytes(2 * SMALL), "more_body": n < 5} for n in range(6)])

            async def receive():
                return next(messages)

            return receive

        headers = [(b"host", b"localhost")]
        scope = {"type": "http", "method": "POST", "path": "/translate_file", "headers": headers}
        reading = asyncio.gather(*(guard(dict(scope), receiving(), None) for _ in range(40)))
        while not reading.done():
            await asyncio.sleep(0)
            rounds += 1

    asyncio.run(all_at_once())
    assert len(pieces) == 200
    assert max(Counter(pieces).values()) <= 2


@pytest.fixture
def hasty(serve, monkeypatch):
    monkeypatch.setattr(limits, "RECEIPT", 0.5)
    return serve(Words())


def test_half_a_request_and_trickling_clients_are_cut_off(hasty):
    begun = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
    silent = [raw(hasty.port) for _ in range(100)] + [raw(hasty.port, begun) for _ in range(100)]
    bodies = [raw(hasty.port, begun + b"\r\n{") for _ in range(50)]

    def trickle(connection):
        with suppress(OSError):
            for _ in range(50):
                connection.sendall(b"x")
                time.sleep(0.05)

    threads = [threading.Thread(target=trickle, args=(connection,)) for connection in bodies]
    for thread in threads:
        thread.start()
    for _ in range(5):  # others are served meanwhile
        assert hasty.ask("POST", "/translate", ASK)[0] == 200
    for thread in threads:
        thread.join()
    for connection in silent + bodies:
        connection.settimeout(2.5)
        with suppress(ConnectionResetError):
            assert connection.recv(1_000) == b""
        connection.close()


@pytest.mark.slow
def test_a_good_client_keeps_its_connection(hasty):
    connection = http.client.HTTPConnection("127.0.0.1", hasty.port, timeout=5)
    for _ in range(4):
        time.sleep(0.3)  # longer than the deadline in all
        connection.request("POST", "/translate", json.dumps(ASK), {"Content-Type": "application/json"})
        assert json.loads(connection.getresponse().read()) == {"translatedText": "A"}
    connection.close()


def test_a_slow_translation_is_given_up(serve):
    running = serve(Words(seconds=0.4), limits=Limits(seconds=0.1))
    for format_ in ("text", "html"):  # the first one is being computed when its time is over
        status, answer, _ = running.ask("POST", "/translate", ASK | {"format": format_})
        assert (status, "took too long" in answer["error"]) == (504, True)


@pytest.mark.parametrize("format_", [b"text", b"html"])
def test_who_has_gone_is_not_worked_for(serve, format_):
    words = Words(held=True)
    running = serve(words)
    body = b'{"q": "%s", "source": "en", "target": "fr", "format": "' + format_ + b'"}'
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    first = raw(running.port, head % len(body % b"first") + body % b"first")
    assert words.begun.wait(30)
    for number in range(50):
        content = body % str(number).encode()
        raw(running.port, head % len(content) + content).close()
    wait_until(lambda: running.answered() == 50)  # the first one waits
    wait_until(lambda: all(request.future.done() for request in running.server.queue._waiting))
    words.go_on.set()
    assert running.ask("POST", "/translate", ASK)[0] == 200
    with first, http.client.HTTPResponse(first) as answer:
        answer.begin()
        assert b"FIRST" in answer.read()
    assert sum(len(batch) for batch in words.batches) == 2
    assert running.server.queue.tokens == 0


def test_nonsense_is_answered_or_cut_off_and_the_server_lives(serve):
    running, rng = serve(Words()), random.Random(1)
    good = (
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 45\r\n\r\n"
        b'{"q": "a", "source": "en", "target": "fr"}   '
    )
    for _ in range(300):
        content = bytearray(good)
        for _ in range(rng.randrange(1, 8)):
            position = rng.randrange(len(content))
            match rng.randrange(4):
                case 0:
                    content[position] = rng.randrange(256)
                case 1:
                    del content[position : position + rng.randrange(1, 30)]
                case 2:
                    content[position:position] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 30)))
                case 3:
                    content[position:position] = rng.choice(
                        [b"\r\n", b"\0", b"chunked", b"Content-Length: 3\r\n", good]
                    )
        with raw(running.port, bytes(content)) as connection:
            connection.settimeout(0.02)
            try:
                answer = connection.recv(200)
            except OSError:
                answer = b""
            assert not answer.startswith(b"HTTP/1.1 5")
    assert running.ask("POST", "/translate", ASK)[:2] == (200, {"translatedText": "A"})


def test_the_deadline_holds_for_later_requests_of_a_connection(hasty):
    with raw(hasty.port, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n") as connection:
        assert b"200 OK" in connection.recv(2_000)
        started = time.monotonic()
        with suppress(OSError):
            for byte in b"GET /health HTTP/1.1\r\nHost: " + b"x" * 200:
                connection.sendall(bytes([byte]))
                time.sleep(0.05)
        assert time.monotonic() - started < 9  # the bytes alone take longer than ten


def test_a_head_that_is_too_long_is_refused(running):
    content = b"GET /health HTTP/1.1\r\n" + b"X-A: b\r\n" * 20_000
    with suppress(ConnectionResetError), raw(running.port, content) as connection:
        assert b"200 OK" not in connection.recv(1_000)


def test_halves_of_characters_and_deep_nesting_are_no_failure(running):
    head = {"Content_Type": "application/json"}
    for fields in (
        b'{"q": "\\ud800 a", "source": "en", "target": "fr"}',
        b'{"q": "a", "source": "\\ud800", "target": "fr"}',
        b'{"q": "\\ud800", "source": "auto", "target": "fr", "format": "html"}',
    ):
        assert running.ask("POST", "/translate", fields, **head)[0] in (200, 400)
    nested = "<b>" * 1_500 + "two words"
    assert running.ask("POST", "/translate", ASK | {"q": nested, "format": "html"})[0] in (200, 400)


def test_pages_of_other_hosts_may_not_ask(running):
    assert running.ask("POST", "/translate", {"q": "x", "source": "en", "target": "fr"}, Origin="http://[")[0] == 403
    form = b"q=a&source=en&target=fr"
    kind = {"Content_Type": "application/x-www-form-urlencoded"}
    assert running.ask("POST", "/translate", form, Origin="http://evil.example", **kind)[0] == 403
    assert running.ask("POST", "/suggest", form, Origin="null", **kind)[0] == 403
    assert running.ask("POST", "/translate", form, Origin=running.url, **kind)[0] == 200


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_before_the_first_request_can_ends_the_server(monkeypatch, number):
    monkeypatch.setattr(app.gc, "collect", lambda: signal.raise_signal(number))
    monkeypatch.setattr(app.gc, "freeze", lambda: None)
    monkeypatch.setattr(app.atexit, "register", lambda _: None)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        app.run(Server([Words()]), listener, Hosts())  # returns
