"""Documents and HTML, which are read and translated in threads beside the event loop."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.translation import Translation
from dragoman.decoding.translator import Translator
from dragoman.documents.translate import Engine
from dragoman.serving.queue import DeadlinePassed, QueueFull, TranslationQueue

THREADS = 64
"""Which wait for the queue most of the time."""
AGAIN = 0.5
"""Seconds after which a document tries again to get into the queue."""

T = TypeVar("T")


class Background:
    """Threads in which documents are translated through the queue."""

    def __init__(self, queue: TranslationQueue) -> None:
        self.queue, self._threads = queue, ThreadPoolExecutor(THREADS, "document")

    async def run(
        self,
        work: Callable[[Engine], T],
        translator: Translator,
        config: DecodingConfig,
        *,
        seconds: float,
        known: Callable[[str], str | None],
    ) -> T:
        """The result of `work`, which is given an engine. If nobody waits any more, nothing more is translated.

        `known` gives the translations of texts that need not be translated.
        """
        asked = _Asked(self.queue, translator, config, time.monotonic() + seconds)
        engine = Engine(asked.translate, copies=translator.source_tokenizer.placeholders, known=known)
        loop = asyncio.get_running_loop()
        try:
            # The thread may go on reading what is hard to read; nobody waits for it longer than others.
            return await asyncio.wait_for(loop.run_in_executor(self._threads, work, engine), seconds)
        except (asyncio.CancelledError, TimeoutError):
            asked.cancel()
            raise

    def close(self) -> None:
        """Wait for what was accepted."""
        self._threads.shutdown()


class _Asked:
    """What one document asks of the queue."""

    def __init__(self, queue: TranslationQueue, translator: Translator, config: DecodingConfig, deadline: float):
        self.queue, self.translator, self.deadline = queue, translator, deadline
        self.config = config.model_copy(update={"alignments": True, "n_best": 1})
        self.cancelled, self.future = False, Future[list[Translation]]()

    def translate(self, texts: list[str]) -> list[Translation]:
        """The translations of some texts, as soon as there is time for them. Raises `DeadlinePassed`."""
        while True:
            left = self.deadline - time.monotonic()
            if self.cancelled or left <= 0:
                raise DeadlinePassed
            try:
                self.future = self.queue.submit(self.translator, texts, self.config, seconds=left)
                break
            except QueueFull:
                time.sleep(min(left, AGAIN))
        if self.cancelled:
            self.future.cancel()
        return self.future.result()

    def cancel(self) -> None:
        """Ask for nothing more."""
        self.cancelled = True
        self.future.cancel()
