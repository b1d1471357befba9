"""A server on a real socket, over a model that changes each word."""

import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.glossary import Glossary
from dragoman.decoding.translation import CheckedSentence, Translation
from dragoman.serving.app import configured
from dragoman.serving.limits import Limits
from dragoman.serving.server import DEFAULT, Server
from dragoman.text.faults import Fault
from tests.waiting import wait_until

CONFIDENCE = 0.75
"""The confidence of each translation of `Words`."""


class Words:
    """Stands for a `Translator`: translates a text into capitals.

    `begun` is set when the first batch is being translated. With `held`, every batch waits until the test sets `go_on`;
    otherwise it takes `seconds`.
    """

    def __init__(
        self,
        source: str = "en",
        target: str = "fr",
        *,
        seconds: float = 0.0,
        held: bool = False,
        has_confidence: bool = False,
    ):
        self.languages, self.seconds, self.has_confidence = (source, target), seconds, has_confidence
        self.begun, self.go_on = threading.Event(), threading.Event()
        if not held:
            self.go_on.set()
        self.decoding = DecodingConfig()
        self.source_tokenizer = SimpleNamespace(placeholders=True)
        self.batches: list[list[str]] = []
        self.searches: list[DecodingConfig] = []
        """The searches of the batches."""

    def glossary(self, config: DecodingConfig) -> Glossary:
        return Glossary(config.glossary, None)  # which spells no term

    def keeps_to_terms(self, text: str, target: str, config: DecodingConfig) -> bool:
        found = self.glossary(config).occurrences(text)
        return all(each.target in target for each in found) and not any(term in target for term in config.forbid)

    def split(self, text: str) -> list[str]:
        return re.split(r"(?<=[.!?] )", text)

    def translate(self, texts: list[str], config: DecodingConfig, prefixes: list[str]) -> list[Translation]:
        self.batches.append(list(texts))
        self.searches.append(config)
        self.begun.set()
        self.go_on.wait(60)
        time.sleep(self.seconds)
        translations = []
        for text in texts:
            links = [(index, index) for index in range(len(text.split(" ")))] if config.alignments else None
            alternatives = [Translation(f"{text.upper()}{n}", 0.0, 0.0, []) for n in range(1, config.n_best)]
            faults = [Fault("number", number) for number in re.findall(r"\d+", text)]
            translation = Translation(text.upper(), 0.0, 0.0, [], links, alternatives if config.n_best > 1 else None)
            if config.needs_confidence:
                translation = replace(translation, confidence=CONFIDENCE, edit_probability=1 - CONFIDENCE)
            if config.checks:
                sentence = CheckedSentence(text, text.upper(), faults, translation.confidence)
                translation = replace(translation, sentences=[sentence])
            translations.append(translation)
        return translations


@dataclass
class Running:
    """A server that runs in a thread."""

    server: Server
    port: int
    models: list[Words] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answered(self) -> int:
        """How many requests have been answered, or given up because their clients have gone."""
        (requests,) = self.server.metrics.requests.collect()
        return sum(int(sample.value) for sample in requests.samples if sample.name.endswith("_total"))

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
        """Status, content and headers of an answer. A body that is not bytes is sent as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        if body is not None and not isinstance(body, bytes):
            body, headers = json.dumps(body).encode(), {"Content-Type": "application/json"} | headers
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        answer_headers = dict(answer.getheaders())
        is_json = answer_headers.get("content-type", "").startswith("application/json")
        return answer.status, json.loads(content) if is_json and content else content, answer_headers


def multipart(fields, name, content):
    """Content type and body of a form with a file."""
    parts = [f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in fields.items()]
    parts.append(f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n')
    return "multipart/form-data; boundary=x", "".join(parts).encode() + content + b"\r\n--x--\r\n"


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[..., Running]]:
    """A function that starts a server with models."""
    running: list[tuple[uvicorn.Server, threading.Thread, Server]] = []

    def start(*models: Words, limits: Limits = DEFAULT, origins: list[str] | None = None, **options: Any) -> Running:
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        server = Server(models, limits=limits, **options)
        process = uvicorn.Server(configured(server, origins or ()))
        thread = threading.Thread(target=process.run, args=([listener],), daemon=True)
        thread.start()
        running.append((process, thread, server))
        wait_until(lambda: process.started)
        return Running(server, listener.getsockname()[1], list(models))

    yield start
    for process, _, _ in running:
        process.should_exit = True
    for _, thread, server in running:
        thread.join()
        server.close()


@pytest.fixture(scope="session")
def running(serve) -> Running:
    """English to French, and back."""
    return serve(Words("en", "fr"), Words("fr", "en"))
