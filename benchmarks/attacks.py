"""What a server does with clients that mean it no good, or that go away.

    .venv/bin/python benchmarks/attacks.py MODEL:en,fr SENTENCES [--slow 500] [--malformed 20000] [--gone 1000]
        [--threads 8]

Prints, one after another: how long 500 clients hold on that send half a request, or a byte a second, and what a good
client waits meanwhile; what 20,000 damaged requests are answered; what is left to do one second after 1,000 clients
went away; what SIGTERM does to requests that were accepted; and whether 8 threads that share one `Translator` get the
texts that one gets alone.
"""

import argparse
import asyncio
import random
import signal
import statistics
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from serving import ALL, Served, closed_loop

PATIENCE = 30.0
"""Seconds after which a client that was not cut off gives up."""
AT_ONCE = 200
"""Connections with damaged requests; many of these wait for half a second."""


def late(took: list[float]) -> float:
    """The 99th percentile in milliseconds."""
    return 1000 * statistics.quantiles(took, n=100)[-1]


async def hold(served: Served, content: bytes, *, trickles: bool) -> float:
    """Seconds until a client that does not finish its request is cut off."""
    started = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(content[:-40] if not trickles else b"")
    ended = asyncio.ensure_future(reader.read())
    with suppress(OSError):
        for byte in content:
            if ended.done() or time.monotonic() - started > PATIENCE:
                break
            if trickles:
                writer.write(bytes([byte]))
            await asyncio.wait({ended}, timeout=1.0)
    ended.cancel()
    writer.close()
    return time.monotonic() - started


async def slow_clients(served: Served, sentences: list[str], number: int) -> None:
    idle = await closed_loop(served, sentences, 1, 10)
    content = served.request(sentences[0])
    held = [asyncio.ensure_future(hold(served, content, trickles=bool(client % 2))) for client in range(number)]
    await asyncio.sleep(1)
    good = await closed_loop(served, sentences, 1, 8)
    seconds = await asyncio.gather(*held)
    print(f"{number} clients with half a request or a byte a second: all gone after {max(seconds):.1f} s")
    print(f"a good client: 99 % within {late(idle):,.0f} ms before, within {late(good):,.0f} ms meanwhile")


def damaged(rng: random.Random, content: bytes) -> bytes:
    """A request with bytes that were changed, left out or put in."""
    request = bytearray(content)
    for _ in range(rng.randrange(1, 8)):
        position = rng.randrange(len(request)) if request else 0
        match rng.randrange(4):
            case 0:
                request[position : position + 1] = bytes([rng.randrange(256)])
            case 1:
                del request[position : position + rng.randrange(1, 30)]
            case 2:
                request[position:position] = rng.randbytes(rng.randrange(1, 30))
            case 3:
                request[position:position] = rng.choice([b"\r\n", b"\0", b"chunked", b"Content-Length: 3\r\n", content])
    return bytes(request)


async def malformed(served: Served, sentences: list[str], number: int) -> None:
    rng, statuses, slots = random.Random(0), Counter[str](), asyncio.Semaphore(AT_ONCE)
    started = time.monotonic()

    async def send(content: bytes) -> None:
        async with slots:
            statuses[await first_answer(served, content)] += 1

    contents = (damaged(rng, served.request(rng.choice(sentences))) for _ in range(number))
    await asyncio.gather(*map(send, contents))
    seconds = time.monotonic() - started
    status, _ = await served.ask(sentences[0])
    print(f"{number:,} damaged requests in {seconds:.0f} s: {dict(statuses)}; then a good one: {status}")


async def first_answer(served: Served, content: bytes) -> str:
    """The status of the first answer to what is sent on a connection of its own."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    except OSError:
        return "not connected"
    try:
        writer.write(content)
        answer = await asyncio.wait_for(reader.read(12), 0.5)
        return answer[9:12].decode("latin-1") or "closed"
    except TimeoutError:
        return "none in half a second"  # the request is not complete yet
    except OSError:
        return "closed"
    finally:
        writer.close()


async def gone(served: Served, sentences: list[str], number: int) -> None:
    for start in range(0, number, 100):
        for client in range(start, min(start + 100, number)):
            _, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(served.request(" ".join(sentences[client % 50 : client % 50 + 20])))
            await writer.drain()
            writer.close()
    await asyncio.sleep(1)
    waiting, batches = [await counter(served, name) for name in ("dragoman_waiting_tokens", "dragoman_batches")]
    await asyncio.sleep(2)
    later = await counter(served, "dragoman_batches")
    print(f"{number:,} clients went away: {waiting:g} tokens waited after 1 s, {later - batches:g} batches after that")


async def counter(served: Served, name: str) -> float:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    return float(next(line for line in text.splitlines() if line.startswith(f"{name} ")).split()[1])


async def terminated(served: Served, sentences: list[str]) -> None:
    answers = [asyncio.ensure_future(served.ask(sentences[number % len(sentences)])) for number in range(40)]
    await asyncio.sleep(0.03)
    served.process.send_signal(signal.SIGTERM)
    statuses = Counter(status for status, _ in await asyncio.gather(*answers))
    code = await asyncio.to_thread(served.process.wait)
    print(f"SIGTERM among 40 requests: {dict(statuses)} (0: not accepted any more); exit code {code}")


def shared(model: str, sentences: list[str], threads: int) -> None:
    from dragoman import Translator

    path, _, languages = model.rpartition(":")
    with Translator.load(path, languages=tuple(languages.split(",")), precision="auto") as translator:
        parts = [sentences[start::threads] for start in range(threads)]

        def translated(part: list[str]) -> list[str]:
            return [translator.translate([text])[0].text for text in part]

        alone = [translated(part) for part in parts]
        with ThreadPoolExecutor(threads) as pool:
            together = list(pool.map(translated, parts))
    pairs = zip((text for part in alone for text in part), (text for part in together for text in part), strict=True)
    same = sum(first == second for first, second in pairs)
    print(f"{threads} threads with one Translator: {same} of {len(sentences)} texts are those of one thread")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL:SOURCE,TARGET")
    parser.add_argument("sentences", type=Path)
    parser.add_argument("--slow", type=int, default=500)
    parser.add_argument("--malformed", type=int, default=20_000)
    parser.add_argument("--gone", type=int, default=1_000)
    parser.add_argument("--threads", type=int, default=8)
    arguments = parser.parse_args()
    sentences = [line for line in arguments.sentences.read_text(encoding="utf-8").split("\n") if line.strip()][:400]
    with Served(arguments.model, ALL) as served:
        asyncio.run(closed_loop(served, sentences, 4, 3))
        asyncio.run(slow_clients(served, sentences, arguments.slow))
        asyncio.run(malformed(served, sentences, arguments.malformed))
        asyncio.run(gone(served, sentences, arguments.gone))
        asyncio.run(terminated(served, sentences))
    shared(arguments.model, sentences, arguments.threads)


if __name__ == "__main__":
    main()
