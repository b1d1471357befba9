"""`serve` as its operator meets it: what it says, whom it answers, how it ends."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cli.test_translation import save_model

pytestmark = pytest.mark.usefixtures("annotations_unchecked")


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
            url = next(found[1] for line in lines if (found := re.search(r"en to fr at (http://\S+);", line)))
            assert "curl" in next(lines)
            texts = ["The red house is old. A cat sees the bird!", "A dog."]
            _, out, _ = dragoman("translate", model, *texts, "--workers", 1)
            assert ask(url, texts, api_key="secret") == out.split("\n")[:-1]
            with pytest.raises(urllib.error.HTTPError) as refused:
                ask(url, "A dog.", api_key="guess")
            assert refused.value.code == 403
            refused.value.close()
            found = []
            work = ["The red house is old. A cat sees the bird!"] * 200
            thread = threading.Thread(target=lambda: found.append(ask(url, work, api_key="secret")))
            thread.start()
            while "dragoman_waiting_tokens 0" in metrics(url):
                pass
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
            thread.join()
            assert len(found[0]) == len(work)
            assert "secret" not in process.stderr.read()
        finally:
            process.kill()


def test_workers_leave_connections_alone_and_their_death_is_survived(model):
    command = [sys.executable, "-m", "dragoman", "serve", f"{model}:en,fr", "--port", "0", "--workers", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = iter(process.stderr.readline, "")
            url = next(found[1] for line in lines if (found := re.search(r"en to fr at (http://\S+);", line)))
            next(lines)
            texts = [f"The red house is old. A cat sees {number} birds!" for number in range(20)]
            expected = ask(url, texts)  # urllib reads until the connection is closed
            with ThreadPoolExecutor(8) as pool:
                assert list(pool.map(lambda text: ask(url, text), texts)) == expected
            assert explored(url, texts[0]) == expected[0]
            for thread in Path(f"/proc/{process.pid}/task").iterdir():
                if thread.name != str(process.pid):  # that one forked the process which looks into models
                    for worker in (thread / "children").read_text().split()[:1]:
                        os.kill(int(worker), signal.SIGKILL)
            with ThreadPoolExecutor(8) as pool:
                assert list(pool.map(lambda text: ask(url, text), texts)) == expected
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
            assert "goes on without workers" in process.stderr.read()
        finally:
            process.kill()


def explored(url, text):
    content = json.dumps({"q": text, "source": "en", "target": "fr"}).encode()
    request = urllib.request.Request(f"{url}/explore", content, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return "".join(each["translation"] + each["after"] for each in json.loads(answer.read())["sentences"])


def metrics(url):
    request = urllib.request.Request(f"{url}/metrics", headers={"Authorization": "Bearer secret"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["{model}"], "A model does not know its languages; give them as MODEL:en,fr", 2),
        (["{model}:en,fr", "{model}:en,fr"], "Two models translate from en to fr", 2),
        (["{model}:en,fr", "--port", "{taken}"], "cannot be served: Address already in use; give another --port", 4),
        (["{model}:en,fr", "--host", "0.0.0.0", "--port", "{taken}"], "Everybody who reaches 0.0.0.0 can translate", 4),
        (["{model}:en,fr", "--host", "999.1.1.1"], "cannot be served", 4),
        (["nothing"], "nothing", 3),
        (["{model}:en,fr", "--keys", "{empty}"], "has no keys; write one on each line", 2),
    ],
)
def test_what_cannot_be_served_is_one_sentence(model, dragoman, tmp_path, arguments, words, code):
    (tmp_path / "empty").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        values = {"model": model, "taken": taken.getsockname()[1], "empty": tmp_path / "empty"}
        found, _, err = dragoman("serve", *(each.format(**values) for each in arguments), "--workers", 1)
    assert (found, words in err, err.count("\n") <= 3) == (code, True, True), err
