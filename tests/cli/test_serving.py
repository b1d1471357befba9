"""`serve` as its operator meets it: what it says, whom it answers, how it ends."""

import http.client
import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.test_translation import save_model
from tests.serving.conftest import multipart


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return save_model(tmp_path_factory.mktemp("model") / "random")


def ask(url, text, **fields):
    content = json.dumps({"q": text, "source": "en", "target": "fr"} | fields).encode()
    request = urllib.request.Request(f"{url}/translate", content, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())["translatedText"]


def test_it_says_where_it_is_answers_like_translate_and_ends_after_what_it_accepted(model, dragoman, tmp_path):
    (tmp_path / "keys").write_text("secret\n", encoding="utf-8")
    command = [sys.executable, "-m", "dragoman", "serve", f"{model}:en,fr", "--port", "0", "--workers", "1"]
    with subprocess.Popen([*command, "--keys", tmp_path / "keys"], stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = iter(process.stderr.readline, "")
            url = next(match[1] for line in lines if (match := re.search(r"en to fr at (http://\S+);", line)))
            assert "curl" in next(lines)
            texts = ["The red house is old. A cat sees the bird!", "A dog."]
            _, out, _ = dragoman("translate", model, *texts, "--workers", 1)
            assert ask(url, texts, api_key="secret") == out.split("\n")[:-1]
            with pytest.raises(urllib.error.HTTPError) as refused:
                ask(url, "A dog.", api_key="guess")
            assert refused.value.code == 403
            refused.value.close()
            answers = []
            work = ["The red house is old. A cat sees the bird!"] * 200
            thread = threading.Thread(target=lambda: answers.append(ask(url, work, api_key="secret")))
            thread.start()
            while "dragoman_waiting_tokens 0" in metrics(url):
                pass
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
            thread.join()
            assert len(answers[0]) == len(work)
            assert "secret" not in process.stderr.read()
        finally:
            process.kill()


@pytest.mark.slow
def test_workers_leave_connections_alone_and_translate_the_same(model):
    command = [sys.executable, "-m", "dragoman", "serve", f"{model}:en,fr", "--port", "0", "--workers", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = iter(process.stderr.readline, "")
            url = next(match[1] for line in lines if (match := re.search(r"en to fr at (http://\S+);", line)))
            next(lines)
            texts = [f"The red house is old. A cat sees {number} birds!" for number in range(20)]
            expected = ask(url, texts)  # urllib reads until the connection is closed
            with ThreadPoolExecutor(8) as pool:
                assert list(pool.map(lambda text: ask(url, text), texts)) == expected
            assert explored(url, texts[0]) == expected[0]
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
            assert "goes on without workers" not in process.stderr.read()
        finally:
            process.kill()


def explored(url, text):
    content = json.dumps({"q": text, "source": "en", "target": "fr"}).encode()
    request = urllib.request.Request(f"{url}/explore", content, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        sentences = json.loads(answer.read())["sentences"]
    return "".join(sentence["translation"] + sentence["after"] for sentence in sentences)


def metrics(url, key="secret"):
    request = urllib.request.Request(f"{url}/metrics", headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["{model}"], "A model does not know its languages; give them as MODEL:en,fr", 2),
        (["{model}:en:fr"], "'en:fr' names no two languages; write them as {model}:en,fr", 2),
        (["{model}:en,fr", "{model}:en,fr"], "Two models translate from en to fr", 2),
        (["{model}:en,fr", "--port", "{taken}"], "cannot be served: Address already in use; give another --port", 4),
        (["{model}:en,fr", "--host", "0.0.0.0", "--port", "{taken}"], "Everybody who reaches 0.0.0.0 can translate", 4),
        (["{model}:en,fr", "--host", "999.1.1.1"], "cannot be served", 4),
        (["nothing"], "nothing", 3),
        (
            ["{model}:en,fr", "--glossary", "{terms}", "--forbid", "{word}"],
            "The glossary asks for 'chat', but 'chat' is forbidden",
            2,
        ),
        (["{model}:en,fr", "{model}:fr,en", "--glossary", "{empty}"], "--glossary belongs to a single model", 2),
        (["{model}:en,fr", "--keys", "{empty}"], "has no keys; write one on each line", 2),
    ],
)
def test_what_cannot_be_served_is_one_sentence(model, dragoman, tmp_path, arguments, words, code):
    (tmp_path / "empty").touch()
    (tmp_path / "terms").write_text("cat\tchat\n", encoding="utf-8")
    (tmp_path / "word").write_text("chat\n", encoding="utf-8")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        values = {"model": model, "taken": taken.getsockname()[1], "empty": tmp_path / "empty"}
        values |= {name: tmp_path / name for name in ("terms", "word")}
        # The usual port may be taken by a test in another process.
        port = [] if "--port" in arguments else ["--port", 0]
        given = [argument.format(**values) for argument in arguments]
        exit_code, _, err = dragoman("serve", *given, *port, "--workers", 1)
    words = words.format(**values)
    assert (exit_code, words in err, err.count("\n") <= 3) == (code, True, True), err


BROKEN = """
from dragoman.cli import main
from dragoman.serving.server import Server

def detect(self, text, target=None):
    raise ValueError(text)

Server._likely_language = detect
main()
"""
"""A server with a fault: who asks for a text of an unknown language gets no answer, and the error holds the text."""


@pytest.mark.slow
def test_neither_keys_nor_texts_are_logged_or_counted(model, tmp_path):
    (tmp_path / "keys").write_text("sesame\n", encoding="utf-8")
    given = [f"{model}:en,fr", "--port", "0", "--workers", "1"]
    given += ["--keys", tmp_path / "keys", "--memory", tmp_path / "memory"]
    command = [sys.executable, "-c", BROKEN, "serve", *given]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = iter(process.stderr.readline, "")
            port = next(int(match[1]) for line in lines if (match := re.search(r"http://.*:(\d+);", line)))
            statuses = ask_in_every_way(port)
            with closing(sqlite3.connect(tmp_path / "memory")) as memory, memory:
                memory.execute("DROP TABLE words")
            fields = PAIR | {"q": "a zebra", "s": "un zebra"}
            statuses.append(send(port, "POST", "/suggest", fields))
            assert {*statuses} == {200, 400, 403, 404, 413, 500, 503}
            counted = metrics(f"http://127.0.0.1:{port}", "sesame")
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert "ValueError" in err
    assert "no such table: words" in err
    for output in (out, err, counted):
        assert not re.search("zebra|sesame|mistaken", output, re.IGNORECASE)


PAIR = {"source": "en", "target": "fr"}


def ask_in_every_way(port) -> list[int]:
    """The statuses of requests, good and bad, whose texts and files are about a zebra."""
    good = PAIR | {"q": "A zebra."}
    requests = [
        ("/translate", good | more)
        for more in (
            {"format": "html", "q": "<p>A <b>zebra</b>.</p>"},
            {"q": ["A zebra."] * 3, "stream": True, "glossary": {"zebra": "zebra"}, "alternatives": 1, "similar": 1},
            {"source": "auto"},
            {"target": "zebra"},
            {"q": "zebra " * 5_000},
            {"q": "zebra " * 500_000},
            {"beam_size": "zebra"},
        )
    ]
    requests += [
        (path, good | {"s": "Un zebra.", "who": "zebra"}) for path in ("/suggest", "/explore", "/words", "/detect")
    ]
    requests += [("/inspect", good), ("/zebra", good), ("/v2/translate?auth_key=sesame", {"text": ["zebra"]})]
    requests += [("/language/translate/v2?key=mistaken&q=zebra", {}), ("/translate", b'{"q": "zebra')]
    requests += [("/v2/document/zebra", {"document_key": "zebra"})]
    for path, ending in (("/translate_file", "md"), *[("/v2/document", "json")] * 40):  # more than are kept
        names = {name: f"{code}" for key, code in PAIR.items() for name in (key, f"{key}_lang")}
        requests.append((path, multipart(names, f"zebra.{ending}", b"# A zebra")))
    statuses = [send(port, "POST", *request) for request in requests]
    statuses.append(send(port, "POST", "/translate", good, key="mistaken"))
    statuses += [send(port, "GET", f"/{path}?q=zebra") for path in ("memory.tsv", "download_file/zebra", "zebra")]
    for content in (b"zebra sesame\r\n\r\n", b"POST /translate HTTP/1.1\r\nContent-Length: 99\r\n\r\n{'q': 'zebra"):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(content)
    return statuses


def send(port, method, path, content=b"", key="sesame") -> int:
    """The status of a request with a key; the content is JSON, the kind and bytes of a form, or bytes."""
    kind = "application/json"
    if isinstance(content, tuple):
        kind, content = content
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, body, {"Content-Type": kind, "Authorization": f"Bearer {key}"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status
