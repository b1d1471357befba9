"""`dragoman import hf:OWNER/NAME` against a server on this machine that answers as the Hub does."""

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.interop import pretrained_models

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = "hf:Somebody/opus-mt-en-fr"


class Hub(ThreadingHTTPServer):
    """Serves the files of one folder as a model; each of `asked` is a file that was sent."""

    def __init__(self, folder: Path):
        super().__init__(("127.0.0.1", 0), Answer)
        self.folder, self.asked, self.damaged = folder, [], ""

    def files(self) -> list[dict]:
        found = []
        for path in sorted(self.folder.iterdir()):
            content = path.read_bytes()
            large = {"lfs": {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}}
            blob = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
            known = {"rfilename": path.name, "size": len(content), "blobId": blob}
            found.append(known | (large if path.suffix == ".safetensors" else {}))
        return found


class Answer(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        if re.fullmatch(r"/api/models/Somebody/opus-mt-en-fr(/revision/\w+)?", path):
            about = {"_id": "1", "id": "Somebody/opus-mt-en-fr", "sha": COMMIT, "siblings": self.server.files()}
            return self.send(200, json.dumps(about | {"private": False, "tags": [], "downloads": 0}).encode(), {}, body)
        match = re.fullmatch(rf"/Somebody/opus-mt-en-fr/resolve/{COMMIT}/([\w.]+)", path)
        if not match or not (file := self.server.folder / match[1]).is_file():
            return self.send(404, b"{}", {"X-Error-Code": "RepoNotFound"}, body)
        content = file.read_bytes()
        if body:
            self.server.asked.append(file.name)
            if file.name == self.server.damaged:
                content = content[:-1] + b"?"
        etag = hashlib.sha256(file.read_bytes()).hexdigest()
        self.send(200, content, {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT}, body)

    def send(self, status: int, content: bytes, headers: dict[str, str], body: bool) -> None:
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(content))}).items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return pretrained_models.marian(tmp_path_factory.mktemp("hub") / "model")


@pytest.fixture
def hub(folder) -> Iterator[Hub]:
    server = Hub(folder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def run(hub: Hub, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}", "HF_HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *arguments], capture_output=True, text=True, env=env, timeout=120
    )


def test_a_model_is_fetched_once(hub, tmp_path):
    first = run(hub, tmp_path / "home", "import", NAME, str(tmp_path / "first"))
    assert first.returncode == 0, first.stderr
    assert "Downloading hf:Somebody/opus-mt-en-fr from the Hugging Face Hub" in first.stderr
    assert hub.asked.count("model.safetensors") == 1
    hub.asked.clear()
    again = run(hub, tmp_path / "home", "import", NAME, str(tmp_path / "second"))
    assert again.returncode == 0, again.stderr
    assert hub.asked == []
    assert run(hub, tmp_path, "translate", str(tmp_path / "first"), "A cat.").returncode == 0


def test_a_damaged_download_is_refused(hub, tmp_path):
    hub.damaged = "model.safetensors"
    done = run(hub, tmp_path / "home", "import", NAME, str(tmp_path / "model"))
    assert done.returncode == 3
    assert "is not the file that the Hub has" in done.stderr
    assert not (tmp_path / "model").exists()


def test_names_that_are_none(hub, tmp_path):
    unknown = run(hub, tmp_path / "home", "import", "hf:Somebody/else", str(tmp_path / "model"))
    assert unknown.returncode == 3
    assert "hf:Somebody/else cannot be downloaded" in unknown.stderr
    half = run(hub, tmp_path / "home", "import", "hf:opus-mt-en-fr", str(tmp_path / "model"))
    assert half.returncode == 2
    assert "write hf:OWNER/NAME" in half.stderr
