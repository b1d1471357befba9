"""How long a short text waits while another client asks for something costly.

    python benchmarks/others.py MODEL:en,fr [--only PART-OF-A-NAME]

starts `dragoman serve MODEL`. A client asks for a short text four times a second, by itself and then beside each costly
request, until that is answered or its client goes away after 15 seconds. A row has the status and the time of the
costly request, and the median and the longest time of the short text.
"""

import argparse
import asyncio
import http.client
import json
import socket
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from serving import ALL, Served

SHORT = "The red house is old."
EVERY = 0.25
"""Seconds from one short text to the next."""
PATIENCE = 15.0
"""Seconds after which the client of a costly request goes away."""
BOUNDARY = "----------------another"

CostlyRequest = Callable[[Served], str]
"""Function that sends a costly request, and returns its answer in a word."""


def text(q: str | list[str], **fields: object) -> CostlyRequest:
    """A request for a translation."""

    def ask(served: Served) -> str:
        source, target = served.languages
        body = json.dumps({"q": q, "source": source, "target": target, **fields}).encode()
        return answered(served, "/translate", body, "application/json")

    return ask


def document(name: str, content: bytes) -> CostlyRequest:
    """A request for a translation of a document."""

    def ask(served: Served) -> str:
        source, target = served.languages
        parts = [f'Content-Disposition: form-data; name="{key}"\r\n\r\n{value}'.encode()
                 for key, value in (("source", source), ("target", target))]  # fmt: skip
        parts.append(f'Content-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + content)
        body = (
            b"".join(f"--{BOUNDARY}\r\n".encode() + part + b"\r\n" for part in parts) + f"--{BOUNDARY}--\r\n".encode()
        )
        return answered(served, "/translate_file", body, f"multipart/form-data; boundary={BOUNDARY}")

    return ask


def answered(served: Served, path: str, body: bytes, kind: str) -> str:
    """The status of a request, or why it has none."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
    try:
        connection.request("POST", path, body, {"Content-Type": kind})
        answer = connection.getresponse()
        answer.read()
        return str(answer.status)
    except TimeoutError:
        return "went away"
    except OSError as error:
        return type(error).__name__
    finally:
        connection.close()


def many_that_do_not_read(served: Served) -> str:
    """500 connections that ask for long answers and read nothing."""
    source, target = served.languages
    body = json.dumps({"q": ["1 2 3 " * 800] * 100, "source": source, "target": target}).encode()
    head = "POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    connections: list[socket.socket] = []
    for _ in range(500):
        with suppress(OSError):
            connection = socket.create_connection(("127.0.0.1", served.port), timeout=1)
            connections.append(connection)
            connection.sendall(head.encode() + body)
    time.sleep(10)
    for connection in connections:
        connection.close()
    return f"{len(connections)} open"


def xliff(unit: str) -> bytes:
    """An XLIFF document with one unit."""
    return (
        '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en" '
        f'datatype="plaintext" original="a"><body><trans-unit id="1"><source>{unit}</source></trans-unit></body>'
        "</file></xliff>"
    ).encode()


COSTLY: dict[str, CostlyRequest] = {
    "a prefix of 5,000 characters": text("The old house is red.", prefix="le " * 1_666),
    "one word of 5,000 letters": text("a" * 5_000),
    "5,000 characters without a stop": text("the house " * 500),
    "512 texts of 150 characters": text(["The old house is red and the small cat sleeps in it today. " * 2] * 512),
    "beam 10 and 10 alternatives": text(
        "The old house is red and the cat sleeps. " * 100, alternatives=10, beam_size=10
    ),
    "50 forbidden terms": text(
        "The old house is red. " * 100, forbid=[f"{chr(97 + n % 26) * 90}{n}" for n in range(50)]
    ),
    "50 terms of a glossary": text(
        "red house " * 500, glossary={f"red house{' house' * n}": "casa" for n in range(15)}
    ),
    "a form of 1 MiB": lambda served: answered(
        served, "/translate", b"&q=" * 349_000, "application/x-www-form-urlencoded"
    ),
    "JSON, 500,000 lists deep": lambda served: answered(served, "/translate", b"[" * 500_000, "application/json"),
    "a paragraph of 491 KiB": document("a.txt", b"the house is red and " * 24_000),
    "XLIFF with 16,000 codes": document("a.xliff", xliff('The <x id="1"/>' * 16_000)),
    "Markdown, 150,000 times *_": document("a.md", b"*_" * 150_000),
    "Markdown, 500,000 times >": document("a.md", b">" * 500_000),
    "HTML, 300,000 times <!--": document("a.html", b"<!--" * 300_000),
    "HTML, 100,000 paragraphs": document("a.html", b"<p>a" * 100_000),
    "500 clients that do not read": many_that_do_not_read,
}


async def short_texts(served: Served, over: Callable[[], bool]) -> list[float]:
    """The seconds of short texts, one after the other; `inf` for one that was refused."""
    took = []
    while not over() or not took:
        started = time.monotonic()
        status, seconds = await served.ask(SHORT)
        took.append(seconds if status == 200 else float("inf"))
        await asyncio.sleep(max(0.0, EVERY - (time.monotonic() - started)))
    return took


async def beside(served: Served, costly: CostlyRequest) -> tuple[str, float, list[float]]:
    """Answer and seconds of a costly request, and the seconds of the short texts that were asked for beside it."""
    started = time.monotonic()
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(costly, served)
        took = await short_texts(served, answer.done)
        return answer.result(), time.monotonic() - started, took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL:SOURCE,TARGET")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    print("| beside | answer | s | short text, median ms | longest ms |\n| --- | --- | ---: | ---: | ---: |")
    with Served(arguments.model, ALL) as served:
        end = time.monotonic() + 5
        took = asyncio.run(short_texts(served, lambda: time.monotonic() > end))
        print(f"| nothing | | | {1e3 * statistics.median(took):.0f} | {1e3 * max(took):.0f} |", flush=True)
        for name, costly in COSTLY.items():
            if arguments.only in name:
                answer, needed, took = asyncio.run(beside(served, costly))
                times = f"{1e3 * statistics.median(took):.0f} | {1e3 * max(took):.0f}"
                print(f"| {name} | {answer} | {needed:.1f} | {times} |", flush=True)


if __name__ == "__main__":
    main()
