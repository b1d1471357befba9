"""How a server holds: requests a second, waiting times, what overload does, and what HTTP costs.

    .venv/bin/python benchmarks/serving.py MODEL:en,fr SENTENCES [--seconds 20] [--clients 1 8 32] [--overload 20]
        [--rates 300 2000] [--beside PORT]

Each client asks for a sentence of the file, and for the next one when it is answered; "one by one" is the same server
with batches of a single text. Then requests come at --overload times the rate that the server reached, whether it
answers or not. Client and server share the machine. Milliseconds are from the request to the whole answer.
"""

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

SERVE = """
import sys
from dragoman.cli import main
from dragoman.serving import queue
queue.BATCH = int(sys.argv.pop(1))
if queue.BATCH == 1:
    queue.LONGEST_WAIT = 60.0
main()
"""
ALL, SINGLE = 3_000, 1
LENGTH = re.compile(rb"(?i)content-length: *(\d+)")
GIVES_UP = 40.0
"""Seconds after which a client goes away."""


class Connection(asyncio.Protocol):
    """A connection to the server, for one request after another. Streams would take three times as long."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.received, self.length = transport, bytearray(), 0
        self.answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def send(self, content: bytes) -> "asyncio.Future[int]":
        """The status of the answer, when all of it has come; 0 if it does not."""
        self.answer = asyncio.get_running_loop().create_future()
        self.received.clear()
        self.length = 0
        self.transport.write(content)
        return self.answer

    def data_received(self, data: bytes) -> None:
        self.received += data
        if not self.length and (end := self.received.find(b"\r\n\r\n")) > 0:
            self.length = end + 4 + int(LENGTH.search(self.received)[1])
        if self.length and len(self.received) >= self.length and not self.answer.done():
            if b"connection: close" in self.received[: self.length].lower():
                self.transport.close()
            self.answer.set_result(int(self.received[9:12]))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answer.done():
            self.answer.set_result(0)


class Served:
    """A server in a process of its own."""

    def __init__(self, model: str, batch: int):
        command = [sys.executable, "-c", SERVE, str(batch), "serve", model, "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        line = next(line for line in iter(self.process.stderr.readline, "") if "; Ctrl-C ends." in line)
        self.port = int(re.search(r":(\d+);", line)[1])
        self.languages = re.search(r"Translating (\S+) to (\S+) at", line).groups()
        self.idle: dict[asyncio.AbstractEventLoop, list[Connection]] = {}

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.terminate()
        self.process.wait()
        self.process.stderr.close()

    def memory(self) -> float:
        """MB of this process and its workers."""
        pids = [self.process.pid, *map(int, _children(self.process.pid))]
        sizes = (Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids)
        return sum(int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1]) for text in sizes) / 1024

    def request(self, text: str) -> bytes:
        """A request as it is sent."""
        body = json.dumps({"q": text, "source": self.languages[0], "target": self.languages[1]}).encode()
        head = ["POST /translate HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
        head.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*head, "\r\n"]).encode() + body

    async def ask(self, text: str) -> tuple[int, float]:
        """Status and seconds of a request, on a connection that is open and idle if there is one."""
        started, loop = time.monotonic(), asyncio.get_running_loop()
        try:
            connection = self.unused()
            if connection is None:
                _, connection = await loop.create_connection(Connection, "127.0.0.1", self.port)
            status = await asyncio.wait_for(connection.send(self.request(text)), GIVES_UP)
            self.idle[loop].append(connection)
        except (OSError, TimeoutError):
            status = 0
        return status, time.monotonic() - started

    def unused(self) -> Connection | None:
        """A connection of this event loop that is open and idle."""
        idle = self.idle.setdefault(asyncio.get_running_loop(), [])
        while idle:
            connection = idle.pop()
            if not connection.transport.is_closing():
                return connection
        return None


class Other(Served):
    """A server that runs already, and speaks to clients of LibreTranslate."""

    def __init__(self, port: int, languages: tuple[str, str]):
        self.port, self.languages, self.idle = port, languages, {}

    def __exit__(self, *exception: object) -> None:
        pass


def _children(pid: int) -> list[str]:
    return [child for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]


async def closed_loop(served: Served, sentences: list[str], clients: int, seconds: float) -> list[float]:
    """Seconds of each request of so many clients, each of which waits for its answer."""
    times: list[float] = []
    end = time.monotonic() + seconds

    async def client(number: int) -> None:
        rng = random.Random(number)
        while time.monotonic() < end:
            status, took = await served.ask(rng.choice(sentences))
            if status == 200:
                times.append(took)

    await asyncio.gather(*(client(number) for number in range(clients)))
    return times


async def open_loop(served: Served, sentences: list[str], rate: float, seconds: float) -> list[tuple[int, float]]:
    """Status and seconds of requests that come at a rate, whatever becomes of those before."""
    rng, answers, opening = random.Random(0), list[tuple[int, float]](), set[asyncio.Task]()
    contents = [served.request(text) for text in sentences]
    idle = served.idle.setdefault(asyncio.get_running_loop(), [])

    def ask(connection: Connection, content: bytes, due: float) -> None:
        def answered(answer: asyncio.Future[int]) -> None:
            answers.append((answer.result(), time.monotonic() - due))
            idle.append(connection)

        connection.send(content).add_done_callback(answered)

    async def ask_anew(content: bytes, due: float) -> None:
        try:
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(Connection, "127.0.0.1", served.port)
            ask(connection, content, due)
        except OSError:
            answers.append((0, time.monotonic() - due))

    started, number = time.monotonic(), 0
    while (now := time.monotonic() - started) < seconds:
        while number < int(now * rate):
            content, due = rng.choice(contents), started + number / rate
            number += 1
            if connection := served.unused():
                ask(connection, content, due)
            else:
                opening.add(asyncio.create_task(ask_anew(content, due)))
        await asyncio.sleep(0.001)
    while len(answers) < number and time.monotonic() < started + seconds + GIVES_UP:
        await asyncio.sleep(0.05)
    return answers + [(0, GIVES_UP)] * (number - len(answers))


def row(name: str, took: list[float], seconds: float) -> str:
    ordered = sorted(took)
    middle, late = statistics.median(ordered), ordered[int(0.95 * len(ordered))]
    return f"| {name} | {len(took) / seconds:,.0f} | {1000 * middle:,.1f} | {1000 * late:,.1f} |"


def overload(served: Served, sentences: list[str], rate: float, seconds: float) -> None:
    """Print what comes of too many requests."""
    answers = asyncio.run(open_loop(served, sentences, rate, seconds / 6))
    before = served.memory()
    answers += asyncio.run(open_loop(served, sentences, rate, seconds * 5 / 6))
    after = served.memory()
    started = time.monotonic()
    while asyncio.run(served.ask(sentences[0]))[0] != 200:
        time.sleep(0.05)
    recovered = time.monotonic() - started
    statuses = Counter(status for status, _ in answers)
    rejected = sorted(took for status, took in answers if status in (429, 503)) or [0.0]
    print(f"\n{rate:,.0f} requests a second for {seconds:g} s: {dict(statuses)}; 0: refused, or no answer in 40 s")
    median, late = statistics.median(rejected), rejected[int(0.95 * len(rejected))]
    print(f"refusals: median {1000 * median:,.1f} ms, 95 % {1000 * late:,.1f} ms")
    print(f"memory {before:,.0f} MB after a sixth of the time, {after:,.0f} MB at the end")
    print(f"answers again after {recovered:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL:SOURCE,TARGET")
    parser.add_argument("sentences", type=Path)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--overload", type=float, default=20.0, help="times the rate that was reached; 0: none")
    parser.add_argument("--rates", type=float, nargs="+", help="requests a second instead of --overload")
    parser.add_argument("--beside", type=int, metavar="PORT", help="of a server with LibreTranslate's API, by turns")
    arguments = parser.parse_args()
    sentences = [line for line in arguments.sentences.read_text(encoding="utf-8").split("\n") if line.strip()][:1_000]
    print(f"{os.cpu_count()} cores; load {os.getloadavg()[0]:.1f}; {len(sentences)} sentences\n")
    print("| clients | requests/s | median ms | 95 % ms |\n| --- | ---: | ---: | ---: |")
    best = 0.0
    for name, batch in (("one by one", SINGLE), ("batched", ALL)):
        with Served(arguments.model, batch) as served:
            asyncio.run(closed_loop(served, sentences, 4, 3))
            for clients in arguments.clients:
                took = asyncio.run(closed_loop(served, sentences, clients, arguments.seconds))
                best = max(best, len(took) / arguments.seconds)
                print(row(f"{clients}, {name}", took, arguments.seconds), flush=True)
                if batch == ALL and arguments.beside:
                    other = Other(arguments.beside, served.languages)
                    took = asyncio.run(closed_loop(other, sentences, clients, arguments.seconds))
                    print(row(f"{clients}, the other server", took, arguments.seconds), flush=True)
            if batch == ALL:
                took = asyncio.run(closed_loop(served, [" "], 1, 3))
                print(row("1, a blank text", took, 3))
                rates = arguments.rates or [arguments.overload * best] * (arguments.overload > 0)
                for rate in rates:
                    overload(served, sentences, rate, 3 * arguments.seconds)
    in_process(arguments.model, sentences)


def in_process(model: str, sentences: list[str]) -> None:
    """Print what one sentence takes without HTTP."""
    from dragoman import Translator

    path, _, languages = model.rpartition(":")
    with Translator.load(path, languages=tuple(languages.split(",")), precision="auto") as translator:
        took = []
        for text in sentences[:200]:
            started = time.monotonic()
            translator.translate([text])
            took.append(time.monotonic() - started)
    print(f"\n`Translator` in this process: median {1000 * statistics.median(took):,.1f} ms")


if __name__ == "__main__":
    main()
