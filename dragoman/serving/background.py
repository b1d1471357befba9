"""Documents and HTML: read and written in processes of their own, translated through the queue.

What strangers send may be hard to read. A process that reads can be killed, and holds up nobody's answers.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.translation import Translation
from dragoman.decoding.translator import Translator
from dragoman.documents.translate import Engine
from dragoman.errors import DataError
from dragoman.serving.queue import DeadlinePassed, QueueFull, TranslationQueue
from dragoman.system.helpers import Ask, HelperDied, Helpers

AGAIN = 0.5
"""Seconds after which texts of a document that were refused by the full queue are submitted again."""
MEMORY = 2**30
"""Bytes that a process may take to read a document."""

T = TypeVar("T")
Known = Callable[[str], str | None]
"""Function that returns the translation of a text if it need not be translated, such as one from the memory."""


@dataclass(frozen=True)
class Kind:
    """A kind of documents, and the resources that processes may use to read and write them."""

    number: int
    """Documents that are worked on at the same time. Each has a thread here, which mostly waits, and a process."""
    nice: int
    """`nice` value of the process, so that it has a lower priority than the one that answers."""
    processor_seconds: int
    """Seconds that the process may compute for a document, besides the time for its translation."""


PAGES = Kind(number=32, nice=5, processor_seconds=10)
"""HTML in requests with text."""
DOCUMENTS = Kind(number=16, nice=15, processor_seconds=60)
"""Documents that clients send as files."""


class Background:
    """Processes that read and write documents, whose texts are translated by the queue."""

    def __init__(self, queue: TranslationQueue, *, fork: bool = sys.platform == "linux") -> None:
        """Without `fork`, documents are read in threads, which cannot be killed."""
        kinds = (PAGES, DOCUMENTS)
        self.queue = queue
        self._helpers = {kind: Helpers(_call, memory=MEMORY, nice=kind.nice, fork=fork) for kind in kinds}
        self._threads = {kind: ThreadPoolExecutor(kind.number, "document") for kind in kinds}

    def start(self) -> None:
        """Fork the processes that fork others for documents, before there are connections."""
        for helpers in self._helpers.values():
            helpers.start()

    async def run(
        self,
        kind: Kind,
        work: Callable[[Engine], T],
        translator: Translator,
        config: DecodingConfig,
        *,
        seconds: float,
        known: Known | None = None,
    ) -> T:
        """The result of `work(engine)`, which has to be picklable. The work ends when it is cancelled.

        The engine translates with `translator` and `config`, except for texts that are `known`. Raises `DataError` for
        a document that takes too much time or memory to read, `TimeoutError` and `DeadlinePassed`.
        """
        request = _DocumentRequest(self.queue, translator, config, time.monotonic() + seconds, known)
        return await self._run(kind, work, request, seconds)

    async def read(self, kind: Kind, work: Callable[[], T], *, seconds: float) -> T:
        """The result of `work()`, which has to be picklable and needs no translations.

        Raises `DataError` and `TimeoutError`, as `run` does.
        """
        return await self._run(kind, work, None, seconds)

    async def _run(self, kind: Kind, work: Callable[..., T], request: "_DocumentRequest | None", seconds: float) -> T:
        job = self._helpers[kind].job()
        run = partial(
            job.run,
            work,
            request.copies if request else None,
            request is not None and request.known is not None,
            answer=request.answer if request else None,
            processor_seconds=kind.processor_seconds,
        )
        try:
            running = asyncio.get_running_loop().run_in_executor(self._threads[kind], run)
            # A thread that has not begun when the time is over begins with a job that is killed.
            return await asyncio.wait_for(running, seconds)
        except HelperDied:
            raise DataError("This takes too much time or memory to read; send less at once.") from None
        finally:
            if request:
                request.cancel()
            job.kill()

    def close(self) -> None:
        """End all processes, and with them the threads."""
        for helpers in self._helpers.values():
            helpers.close()
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)


class _DocumentRequest:
    """A document that is being translated: submits its texts to the queue until it is cancelled."""

    def __init__(
        self,
        queue: TranslationQueue,
        translator: Translator,
        config: DecodingConfig,
        deadline: float,
        known: Known | None,
    ):
        self.queue = queue
        self.translator = translator
        self.config = config.model_copy(update={"alignments": True, "n_best": 1})
        self.deadline = deadline
        self.known = known
        self.cancelled = False
        self.future = Future[list[Translation]]()
        """Translations of the texts that were submitted last."""

    @property
    def copies(self) -> bool:
        """Whether the model copies placeholders into translations."""
        return self.translator.source_tokenizer.placeholders

    def answer(self, question: str, content: Any) -> Any:
        """Answer the process that works on the document, when it asks for translations."""
        return self.known(content) if question == "known" else self.translate(content)

    def translate(self, texts: list[str]) -> list[Translation]:
        """The translations of some texts, as soon as there is time for them. Raises `DeadlinePassed`."""
        while True:
            seconds_left = self.deadline - time.monotonic()
            if self.cancelled or seconds_left <= 0:
                raise DeadlinePassed
            try:
                self.future = self.queue.submit(self.translator, texts, self.config, seconds=seconds_left)
                if self.cancelled:
                    self.future.cancel()
                return self.future.result()
            except QueueFull as full:
                time.sleep(min(seconds_left, max(AGAIN, full.seconds)))

    def cancel(self) -> None:
        """Submit no more texts, and let those that wait leave the queue."""
        self.cancelled = True
        self.future.cancel()


def _call(ask: Ask, work: Callable[..., T], copies: bool | None, has_memory: bool) -> T:
    """In a process of its own: call `work` with an engine that asks the server for translations.

    `copies` is that of the engine; without it, `work` is called without an engine.
    """
    if copies is None:
        return work()

    def translate(texts: list[str]) -> list[Translation]:
        return ask("translate", list(texts))

    def known(text: str) -> str | None:
        return ask("known", text) if has_memory else None

    return work(Engine(translate, copies=copies, known=known, has_memory=has_memory))
