"""Hostile requests: wrong fields, wrong names of the server, pages of others, and connections that are misused."""

import asyncio
import json
import socket
import threading
import time
from contextlib import nullcontext, suppress

import pytest
from starlette.requests import Request

from dragoman.errors import UsageError
from dragoman.serving import limits, requests
from dragoman.serving.hosts import Hosts, read_name, read_origin
from dragoman.serving.limits import Limits, Refusal
from dragoman.storage.memory import Memory, _mark
from tests.serving.conftest import Words, multipart, serve  # noqa: F401
from tests.waiting import wait_until

ASK = {"q": "a", "source": "en", "target": "fr"}
GOOD = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
VALUES = (
    0,
    1,
    -1,
    1.5,
    2**52,
    True,
    False,
    None,
    "",
    "x",
    "\0",
    "\N{PILE OF POO}",
    [],
    {},
    [0],
    [None],
    {"a": 0},
    [[]],
)
BODIES = (
    b"", b"{", b"[]", b"0", b'"q"', b"null", b"\xff\xfe", b"\0", b"{} {}", b"[" * 20_000, b'{"a":' * 20_000,
    b'{"q": NaN}', b'{"q": 1e999}', b'{"q": ' + b"9" * 9_000 + b"}", b'{"q": "a", "q": "b"}', b'{"q": "\\ud800"}',
    '{"q": "é"}'.encode("utf-16"),
)  # fmt: skip
ROUTES = {
    "/translate": ASK | {"alternatives": 0, "format": "text", "similar": 0, "stream": False, "beam_size": 1,
                         "glossary": {}, "forbid": [], "prefix": "", "seed": 1, "keep": [], "api_key": ""},
    "/detect": {"q": "a"},
    "/suggest": ASK | {"s": "b", "who": "me"},
    "/translate_file": ASK | {"file": "a", "file.name": "a.txt"},
    "/explore": ASK | {"translation": "b"},
    "/words": ASK | {"prefix": "b"},
    "/inspect": ASK | {"translation": "b"},
    "/v2/translate": {"text": "a", "source_lang": "EN", "target_lang": "FR", "tag_handling": "", "split_sentences": 1},
    "/v2/document": {"file": "a", "source_lang": "EN", "target_lang": "FR"},
    "/v2/document/x": {"document_key": "a"},
    "/language/translate/v2": ASK | {"format": "text"},
}  # fmt: skip


@pytest.fixture(scope="module")
def running(serve, tmp_path_factory):  # noqa: F811
    memory = Memory(tmp_path_factory.mktemp("memory") / "memory")
    yield serve(Words("en", "fr"), Words("fr", "en"), memory=memory)
    memory.close()


def raw(port, content):
    """What a server sends to these bytes, until it closes the connection or says nothing more."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection, suppress(OSError):
        connection.settimeout(1.0)
        connection.sendall(content)
        while part := connection.recv(2**16):
            found += part
    return found


@pytest.mark.first_is_quick
@pytest.mark.parametrize("route", ROUTES)
def test_a_field_of_another_kind_is_refused_or_ignored_and_no_failure(running, route):
    for name in ROUTES[route]:
        for value in VALUES:
            status, told, _ = running.ask("POST", route, ROUTES[route] | {name: value})
            assert status < 500, (name, value, told)
            assert status == 200 or told.keys() & {"error", "message"}, (name, value, told)


@pytest.mark.first_is_quick
@pytest.mark.parametrize("route", ROUTES)
def test_a_body_that_is_no_request_is_refused_in_the_shape_of_the_api(running, route):
    kinds = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "multipart/x")
    for kind in kinds:
        for body in BODIES:
            status, told, _ = running.ask("POST", route, body, Content_Type=kind)
            assert status < 500, (kind, body[:20], told)
            assert status == 200 or told.keys() & {"error", "message"}, (kind, body[:20], told)


def test_json_that_programs_read_differently_is_refused(running):
    head = {"Content_Type": "application/json"}
    for body, words in ((b'{"q": "a", "q": "b"}', "twice"), (b'{"q": NaN}', "NaN"), (b'{"q": 1e999}', "too large")):
        status, told, _ = running.ask("POST", "/translate", body, **head)
        assert (status, words in told["error"]) == (400, True)


def test_more_terms_than_a_search_can_heed_are_refused(running):
    for fields, words in (
        ({"forbid": ["x"] * 51}, "50 terms may be forbidden"),
        ({"glossary": {f"a{n}": "b" for n in range(501)}}, "a glossary may have 500 terms"),
        ({"glossary": {f"a{n}": f"{n:03}" * 33 for n in range(500)}}, "a glossary may have 50,000 characters"),
    ):
        status, told, _ = running.ask("POST", "/translate", ASK | fields)
        assert (status, told["error"]) == (400, f"Invalid request: {words}")


def test_terms_whose_search_takes_long_are_refused(running):
    for fields in (
        {"forbid": ["é" * 101]},
        {"glossary": {"a " * 60: "b"}},
        {"glossary": {"a": "b" * 101}},
        {"keep": ["x" * 101]},
    ):
        status, told, _ = running.ask("POST", "/translate", ASK | fields)
        assert (status, "may have 100 characters" in told["error"]) == (400, True)
    assert running.ask("POST", "/translate", ASK | {"similar": -1})[0] == 400


@pytest.mark.slow
def test_only_documents_in_forms_may_be_large(serve):  # noqa: F811
    running = serve(Words(), limits=Limits(body=10_000))
    zeros = b'{"q": [' + b"0," * 10_000 + b"0]}"
    form = b"a=" + b"%41" * 10_000
    for route in ("/translate_file", "/v2/document"):
        for kind, body in (("application/json", zeros), ("application/x-www-form-urlencoded", form)):
            assert running.ask("POST", route, body, Content_Type=kind)[0] == 413
    kind, body = multipart({"source": "en", "target": "fr"}, "a.txt", b"a\n" * 10_000)
    assert running.ask("POST", "/translate_file", body, Content_Type=kind)[0] == 200


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b'{"q": [' + b"0," * 400_000 + b"0]}"),
        ("application/x-www-form-urlencoded", b"a=" + b"%41" * 300_000),
    ],
)
def test_bodies_are_parsed_beside_the_thread_that_answers(monkeypatch, kind, body):
    threads = []

    def read(content, **_):
        threads.append(threading.current_thread())
        return {}

    for name in ("read_json", "_read_form"):
        monkeypatch.setattr(requests, name, read)

    async def receive():
        return {"type": "http.request", "body": body}

    scope = {"type": "http", "query_string": b"", "headers": [(b"content-type", kind.encode())]}
    asyncio.run(requests.read_fields(Request(scope, receive), Limits()))
    assert threads[0] is not threading.main_thread()


def test_forms_are_read_as_browsers_write_them(running):
    head = {"Content_Type": "application/x-www-form-urlencoded"}
    for body, expected in (
        (b"q=a+%C3%A9+%E4%BD%A0", "A É 你"),
        ("q=é你".encode(), "É你"),
        (b"q=cat&q=dog", ["CAT", "DOG"]),
        (b"q=a%26b%3D&x", "A&B="),
    ):
        _, told, _ = running.ask("POST", "/translate", body + b"&source=en&target=fr", **head)
        assert told["translatedText"] == expected
    status, told, _ = running.ask("POST", "/translate", b"a=&" * 2_000, **head)
    assert (status, "1,000 fields" in told["error"]) == (400, True)


def test_a_name_that_a_web_site_gave_to_this_machine_is_not_answered(running):
    before = list(running.server.memory.pairs())
    for method, path, body in (
        ("GET", "/memory.tsv", None),
        ("POST", "/suggest", ASK | {"s": "b"}),
        ("POST", "/translate", ASK),
        ("GET", "/", None),
    ):
        origin = {"Origin": "http://evil.example"}
        status, told, _ = running.ask(method, path, body, Host="evil.example", **origin)
        assert (status, "--allow-host evil.example" in told["error"]) == (421, True)
    absolute = b"GET http://evil.example/memory.tsv HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert raw(running.port, absolute).startswith(b"HTTP/1.1 421")
    assert raw(running.port, absolute.replace(b"evil.example", b"127.0.0.1")).startswith(b"HTTP/1.1 200")
    assert list(running.server.memory.pairs()) == before


@pytest.mark.parametrize(
    ("host", "local", "elsewhere"),
    [
        ("127.0.0.1:5000", True, True),
        ("[::1]:5000", True, True),
        ("localhost", True, True),
        ("LOCALHOST.:80", True, True),
        ("a.localhost", True, True),
        ("192.168.1.7", True, True),
        ("mt.example.org:5000", True, True),
        ("libretranslate:5000", False, True),
        (socket.gethostname(), False, True),
        ("evil.example", False, False),
        ("localhost.evil.example", False, False),
        ("127.0.0.1.evil.example", False, False),
        ("", False, False),
        ("a b", False, False),
        ("user@127.0.0.1", False, False),
        ("[", False, False),
    ],
)
def test_the_names_of_a_server(host, local, elsewhere):
    for is_local, answered in ((True, local), (False, elsewhere)):
        hosts = Hosts(["mt.example.org"], local=is_local)
        with nullcontext() if answered else pytest.raises(Refusal, match="--allow-host"):
            hosts.check("GET", "/", host, None)


def test_names_and_sites_are_written_as_browsers_write_them():
    assert read_name("MT.example.org:443") == "mt.example.org"
    assert read_origin("https://Example.org/") == read_origin("https://example.org:443") == "https://example.org"
    assert read_origin("*") == "*"
    for read, text in ((read_name, "https://a.b"), (read_origin, "example.org"), (read_origin, "https://a.b/c")):
        with pytest.raises(UsageError, match="write it as in"):
            read(text)


def test_pages_of_any_site_may_translate_but_not_correct(serve):  # noqa: F811
    running = serve(Words(), origins=["*"])
    for origin in ("https://example.org", "null"):
        status, told, head = running.ask("POST", "/translate", ASK, Origin=origin)
        assert (status, told, head["access-control-allow-origin"]) == (200, {"translatedText": "A"}, "*")
        for method, path in (("POST", "/suggest"), ("GET", "/memory.tsv"), ("GET", "/metrics"), ("POST", "/explore")):
            assert running.ask(method, path, ASK if method == "POST" else None, Origin=origin)[0] == 403
    asks = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Private_Network": "true"}
    status, _, head = running.ask("OPTIONS", "/translate", None, Origin="https://example.org", **asks)
    assert (status, head["access-control-allow-private-network"]) == (200, "true")
    one = serve(Words(), origins=["https://example.org"])
    assert one.ask("POST", "/suggest", ASK | {"s": "b"}, Origin="https://example.org")[1]["error"].startswith("Sugg")
    for origin in ("https://evil.example", "null"):
        assert one.ask("POST", "/translate", ASK, Origin=origin)[0] == 403
        assert one.ask("GET", "/memory.tsv", Origin=origin)[0] == 403


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 101, b"431"),
        (b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 70_000 + b"\r\n", b"431"),
        (b"GET /health?" + b"y" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n", b"431"),
        (b"GET /health HTTP/1.1\r\n", b"400"),
        (b"GET /health HTTP/1.1\r\nHost: x\r\nHost: y\r\n", b"400"),
        (b"GET /health HTTP/1.1\r\nHost: x\r\nX\0: y\r\n", b"400"),
        (b"GET /health HTTP/1.1\r\nHost: x\r\n\xff\xfe: y\r\n", b"400"),
        (b"GET http:// HTTP/1.1\r\nHost: x\r\n", b"400"),
        (b"GET /health HTTP/1.0\r\n", b"200"),
        (b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + b"X: y\r\n" * 90, b"200"),
    ],
)
def test_heads_have_limits_whether_they_come_at_once_or_in_pieces(running, head, status):
    assert raw(running.port, head + b"\r\n").split()[1:2] == [status]
    found = b""
    with socket.create_connection(("127.0.0.1", running.port), timeout=5) as connection, suppress(OSError):
        for start in range(0, len(head) + 2, 8_000):
            connection.sendall((head + b"\r\n")[start : start + 8_000])
            time.sleep(0.01)
        found = connection.recv(2_000)
    assert found.split()[1:2] in ([status], [])  # one that is cut off may lose the answer


def test_a_body_in_chunks_brings_no_headers_after_it(running):
    body = json.dumps(ASK).encode()
    chunks = b"%x\r\n%b\r\n0\r\n" % (len(body), body) + b"X-Trailer: y\r\n" * 1_000 + b"\r\n"
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    assert b'"translatedText":' in raw(running.port, head + chunks)


@pytest.mark.slow
def test_requests_that_are_sent_before_answers_come_are_answered_in_order_up_to_a_number(running):
    assert raw(running.port, GOOD * 20).count(b"200 OK") == 20
    assert raw(running.port, GOOD * 5_000).count(b"200 OK") < 500
    assert running.ask("GET", "/health")[0] == 200


@pytest.mark.slow
def test_a_client_that_does_not_read_its_answer_is_cut_off(serve, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(limits, "SENDING", 0.5)
    memory = Memory(tmp_path / "memory")
    with memory._use(memory._writing) as connection:
        entries = (("en", "fr", f"{number} " + "x" * 5_000, "y" * 5_000) for number in range(1_500))
        fields = "source_language, target_language, source, target, mark, at"
        rows = ((*entry, _mark(entry), 0.0) for entry in entries)
        connection.executemany(f"INSERT INTO pairs ({fields}) VALUES (?, ?, ?, ?, ?, ?)", rows)
    running = serve(Words(), memory=memory)
    clients = []
    for _ in range(3):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.connect(("127.0.0.1", running.port))
        client.sendall(b"GET /memory.tsv HTTP/1.1\r\nHost: localhost\r\n\r\n")
        clients.append(client)
    wait_until(lambda: running.answered() == len(clients))
    for client in clients:
        size = 0
        with suppress(OSError), client:
            while part := client.recv(2**20):
                size += len(part)
        assert size < 10_000_000
    assert len(running.ask("GET", "/memory.tsv")[1]) > 15_000_000
    memory.close()


def test_a_new_connection_takes_the_place_of_one_that_waits_for_its_client(serve, monkeypatch):  # noqa: F811
    monkeypatch.setattr(limits, "CONNECTIONS", 20)
    running = serve(Words())
    silent = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(40)]
    for _ in range(5):
        assert running.ask("POST", "/translate", ASK)[0] == 200
    silent[0].settimeout(2.0)
    with suppress(ConnectionResetError):
        assert silent[0].recv(10) == b""
    for each in silent:
        each.close()


def test_the_memory_of_all_requests_together_is_bounded(serve):  # noqa: F811
    running = serve(Words(), limits=Limits(waiting=300_000))
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + b" " * 150_000
    first = socket.create_connection(("127.0.0.1", running.port))
    first.sendall(head)
    large = ASK | {"more": "x" * 200_000}
    wait_until(lambda: running.ask("POST", "/translate", large)[0] != 200)
    status, told, answer = running.ask("POST", "/translate", large)
    assert (status, answer["retry-after"]) == (503, "1")
    assert "no room" in told["error"]
    with socket.create_connection(("127.0.0.1", running.port)) as second:
        second.sendall(head)
        time.sleep(0.5)  # time to arrive
        assert running.ask("POST", "/translate", ASK)[0] == 200  # small ones have room of their own
    first.close()
    wait_until(lambda: running.ask("POST", "/translate", large)[0] == 200)


@pytest.mark.parametrize(
    "charset",
    ["punycode", "PUNYCODE", '"idna"', "base64", "rot13", "none-such", "pun\\ycode", "utf-8; charset=punycode"],
)
@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/x-www-form-urlencoded"])
def test_codecs_that_are_no_encodings_are_refused_before_anything_is_decoded(running, kind, charset):
    body = b'--x\r\nContent-Disposition: form-data; name="q-"\r\n\r\n-' + b"0" * 400_000 + b"\r\n--x--\r\n"
    status, told, _ = running.ask("POST", "/translate", body, Content_Type=f"{kind}; charset={charset}")
    assert status == 400
    assert "charset" in told["error"] or "encoding" in told["error"]


def test_forms_in_other_encodings_are_read_in_them_or_refused(running):
    head = "application/x-www-form-urlencoded"
    body = b"q=caf%E9&source=en&target=fr"
    _, told, _ = running.ask("POST", "/translate", body, Content_Type=f"{head}; charset=iso-8859-1")
    assert told["translatedText"] == "CAF\u00c9"
    status, told, _ = running.ask("POST", "/translate", body, Content_Type=head)
    assert (status, "not in utf-8" in told["error"]) == (400, True)


def test_line_breaks_of_long_texts_are_sought_after_they_were_measured(running):
    fields = {"text": [" " * 300_000 + "x"], "target_lang": "FR", "source_lang": "EN", "split_sentences": "nonewlines"}
    assert running.ask("POST", "/v2/translate", fields)[0] == 400
    fields["text"] = [" a  \n  b \r\n c  d"]
    _, told, _ = running.ask("POST", "/v2/translate", fields)
    assert told["translations"][0]["text"] == " A B C  D"


@pytest.mark.parametrize(("path", "more"), [("/translate", {"format": "html"}), ("/language/translate/v2", {})])
def test_numbers_of_thousands_of_digits_are_no_characters(running, path, more):
    fields = {"q": f"The cat and the dog &#{'9' * 4_400}; are here.", "target": "fr"} | more
    if path == "/translate":
        fields["source"] = "auto"
    assert running.ask("POST", path, fields)[0] == 200


def test_diversity_names_the_field_that_a_request_may_have(running):
    fields = {"q": "a", "source": "en", "target": "fr", "diversity": 0.5}
    status, told, _ = running.ask("POST", "/translate", fields)
    assert (status, told["error"]) == (
        400, "Invalid request: diversity is for several translations; ask for alternatives as well"
    )  # fmt: skip
