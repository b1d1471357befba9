"""`dragoman import hf:OWNER/NAME` against a server on this machine that answers as the Hub does."""

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dragoman.interop.imports.pretrained import import_pretrained
from tests.interop import pretrained_models

NAME = "hf:Somebody/opus-mt-en-fr"


class Hub(ThreadingHTTPServer):
    """Serves the files of one folder as a model; each of `asked` is a file that was sent, `ranges` where it began."""

    def __init__(self, folder: Path):
        super().__init__(("127.0.0.1", 0), Answer)
        self.folder, self.commit = folder, "0123456789abcdef0123456789abcdef01234567"
        self.asked, self.ranges = [], []
        self.damaged, self.broken, self.stays_down = "", "", False

    def files(self) -> list[dict]:
        files = []
        for path in sorted(self.folder.iterdir()):
            content = path.read_bytes()
            large = {"lfs": {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}}
            blob = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
            entry = {"rfilename": path.name, "size": len(content), "blobId": blob}
            files.append(entry | (large if path.suffix == ".safetensors" else {}))
        return files


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
            about = {"_id": "1", "id": "Somebody/opus-mt-en-fr", "private": False, "tags": [], "downloads": 0}
            about |= {"sha": self.server.commit, "siblings": self.server.files()}
            return self.send(200, json.dumps(about).encode(), {}, body)
        match = re.fullmatch(rf"/Somebody/opus-mt-en-fr/resolve/{self.server.commit}/([\w.]+)", path)
        if not match or not (file := self.server.folder / match[1]).is_file():
            return self.send(404, b"{}", {"X-Error-Code": "RepoNotFound"}, body)
        content = file.read_bytes()
        etag = hashlib.sha256(content).hexdigest()
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": self.server.commit}
        if not body:
            return self.send(200, content, headers, body)
        self.server.asked.append(file.name)
        if file.name == self.server.damaged:
            content = content[:-1] + b"?"
        if file.name == self.server.broken:
            if self.server.asked.count(file.name) == 1:
                return self.send(200, content, headers, body, sent=len(content) // 2)
            if self.server.stays_down:
                return self.send(503, b"{}", {}, body)
        if begin := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            self.server.ranges.append((file.name, first := int(begin[1])))
            headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
            return self.send(206, content[first:], headers, body)
        self.send(200, content, headers, body)

    def send(
        self, status: int, content: bytes, headers: dict[str, str], body: bool, *, sent: int | None = None
    ) -> None:
        """An answer, perhaps without a body, or with a connection that ends when so many bytes were `sent`."""
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(content))}).items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content[:sent])
        self.close_connection = self.close_connection or sent is not None

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return pretrained_models.marian(tmp_path_factory.mktemp("hub") / "model")


@pytest.fixture(scope="module")
def hub(folder) -> Iterator[Hub]:
    server = Hub(folder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


ENDED = "exit code "
COMMANDS = f"""
import json, sys
from dragoman import cli
from huggingface_hub import constants

constants.DOWNLOAD_CHUNK_SIZE = 2**14  # what a large file is written in, instead of ten megabytes
for arguments in map(json.loads, sys.stdin):
    sys.argv = ["dragoman", *arguments]
    try:
        cli.main()
    except SystemExit as exit_:
        print("{ENDED}", exit_.code, flush=True)
"""
Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def run(hub, tmp_path_factory) -> Iterator[Run]:
    """Runs commands in one process that knows only this hub: exit code, and what was written to stderr."""
    home = tmp_path_factory.mktemp("home")
    errors = home / "stderr"
    env = os.environ | {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}", "HF_HOME": str(home)}
    with (
        errors.open("w") as writing,
        errors.open() as reading,
        subprocess.Popen(
            [sys.executable, "-c", COMMANDS], text=True, env=env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=writing,
        ) as process,
    ):  # fmt: skip

        def run(*arguments: object) -> tuple[int, str]:
            process.stdin.write(json.dumps([*map(str, arguments)]) + "\n")
            process.stdin.flush()
            while not (line := process.stdout.readline()).startswith(ENDED):  # a command may print, too
                assert line, reading.read()
            return int(line.removeprefix(ENDED)), reading.read()

        run.home = home
        yield run


@pytest.mark.slow
def test_a_damaged_download_is_refused_and_a_whole_one_is_fetched_once(hub, run, tmp_path):
    hub.damaged = "model.safetensors"
    code, errors = run("import", NAME, tmp_path / "model")
    assert (code, (tmp_path / "model").exists()) == (3, False)
    assert "model.safetensors of hf:Somebody/opus-mt-en-fr is not the file that the Hub has" in errors
    hub.damaged = ""
    hub.asked.clear()
    code, errors = run("import", NAME, tmp_path / "model")
    assert code == 0, errors
    assert "Downloading hf:Somebody/opus-mt-en-fr from the Hugging Face Hub" in errors
    assert hub.asked == ["model.safetensors"]
    code, errors = run("import", NAME, tmp_path / "again")
    assert (code, hub.asked) == (0, ["model.safetensors"]), errors
    code, errors = run("translate", tmp_path / "again", "A cat.", "-o", tmp_path / "translation")
    assert code == 0, errors


@pytest.mark.slow
@pytest.mark.parametrize("stays_down", [False, True])
def test_a_download_that_breaks_off_goes_on_at_once_or_with_the_next_command(
    hub, run, tmp_path, monkeypatch, stays_down
):
    monkeypatch.setattr(hub, "folder", pretrained_models.marian(tmp_path / "other", seed=7 + stays_down))
    monkeypatch.setattr(hub, "commit", "ef"[stays_down] * 40)
    monkeypatch.setattr(hub, "stays_down", stays_down)
    name = hub.broken = "model.safetensors"
    hub.asked.clear()
    hub.ranges.clear()
    code, errors = run("import", NAME, tmp_path / "model")
    if stays_down:
        assert (code, (tmp_path / "model").exists()) == (3, False)
        assert "hf:Somebody/opus-mt-en-fr cannot be downloaded: " in errors
        assert errors.endswith("; check the name or the network, and try again.\n")
        hub.broken = ""
        hub.asked.clear()
        code, errors = run("import", NAME, tmp_path / "model")
        assert hub.asked == [name]  # what was whole is not fetched again
    else:
        ((file, first),) = hub.ranges
        assert file == name
        assert 2**14 <= first <= (hub.folder / name).stat().st_size // 2
    assert code == 0, errors
    import_pretrained(hub.folder, tmp_path / "whole")
    weights, expected = (load_file(tmp_path / f"{folder}/{name}") for folder in ("model", "whole"))
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[key], expected[key]) for key in expected)


@pytest.mark.slow
def test_without_a_network_the_cache_is_read_and_checked(hub, run, tmp_path):
    assert run("import", NAME, tmp_path / "model")[0] == 0
    assert run("import", f"{NAME}@v1", tmp_path / "named")[0] == 0
    home = Path(run.home)
    offline = os.environ | {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    hub.asked.clear()

    def imported(name: str, folder: str = "none") -> tuple[int, str]:
        command = [sys.executable, "-m", "dragoman", "import", name, str(tmp_path / folder)]
        done = subprocess.run(command, env=offline, capture_output=True, text=True)
        return done.returncode, done.stderr

    code, errors = imported(NAME, "again")
    assert (code, hub.asked) == (0, []), errors
    assert (tmp_path / "again/model.safetensors").read_bytes() == (tmp_path / "model/model.safetensors").read_bytes()
    code, errors = imported(f"{NAME}@v1", "named again")
    assert (code, hub.asked) == (0, []), errors
    code, errors = imported("hf:Somebody/else")
    assert code == 3
    assert "hf:Somebody/else is not in the cache, and HF_HUB_OFFLINE forbids to download it" in errors
    (weights,) = (path for path in home.rglob(f"{hub.commit}/model.safetensors"))
    content = weights.resolve()
    content.write_bytes(content.read_bytes()[:-1] + b"?")
    code, errors = imported(NAME)
    assert code == 3
    assert "model.safetensors of hf:Somebody/opus-mt-en-fr is damaged in the cache, and was deleted" in errors


@pytest.mark.slow
def test_names_that_are_none(run, tmp_path):
    code, errors = run("import", "hf:Somebody/else", tmp_path / "model")
    assert (code, "hf:Somebody/else cannot be downloaded" in errors) == (3, True)
    code, errors = run("import", "hf:opus-mt-en-fr", tmp_path / "model")
    assert (code, "write hf:OWNER/NAME" in errors) == (2, True)
