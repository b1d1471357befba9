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
"""Seconds after which a document tries again to get into the queue."""
MEMORY = 2**30
"""Bytes that a process may take to read a document."""

T = TypeVar("T")
Known = Callable[[str], str | None]


@dataclass(frozen=True)
class Kind:
    """What is read in a process, and what it may take."""

    number: int
    """Documents that are worked on at the same time. Each has a thread here, which mostly waits, and a process."""
    nice: int
    """Niceness of the process: how far it stands back behind the one that answers."""
    processor_seconds: int
    """Time to compute, besides that for the translation."""


PAGES = Kind(32, 5, 10)
"""HTML in requests with text."""
DOCUMENTS = Kind(16, 15, 60)


class Background:
    """Processes that read and write documents, whose texts are translated by the queue."""

    def __init__(self, queue: TranslationQueue, *, fork: bool = sys.platform == "linux") -> None:
        """Without `fork`, documents are read in threads, which cannot be killed."""
        self.queue, kinds = queue, (PAGES, DOCUMENTS)
        self._helpers = {kind: Helpers(_call, memory=MEMORY, nice=kind.nice, fork=fork) for kind in kinds}
        self._threads = {kind: ThreadPoolExecutor(kind.number, "document") for kind in kinds}

    def start(self) -> None:
        """Fork what forks the processes, before there are connections."""
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
        """The result of `work`, a function of a module, which is given an engine. If nobody waits any more, it ends.

        `known` gives the translations of texts that need not be translated. Raises `DataError` for what takes too much
        time or memory to read.
        """
        request = _DocumentRequest(self.queue, translator, config, time.monotonic() + seconds, known)
        copies = translator.source_tokenizer.placeholders
        return await self._result(kind, (work, copies, known is not None), request, seconds)

    async def read(self, kind: Kind, work: Callable[[], T], *, seconds: float) -> T:
        """The result of `work`, a function of a module which needs no translations."""
        return await self._result(kind, (work, None, False), None, seconds)

    async def _result(
        self, kind: Kind, work: tuple[Any, ...], request: "_DocumentRequest | None", seconds: float
    ) -> Any:
        job = self._helpers[kind].job()
        run = partial(
            job.run, *work, answer=request.answer if request else None, processor_seconds=kind.processor_seconds
        )
        try:
            # A thread that has not begun when the time is over begins with a job that is killed.
            return await asyncio.wait_for(asyncio.get_running_loop().run_in_executor(self._threads[kind], run), seconds)
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
    """A document whose texts are translated by the queue, until it is done or cancelled."""

    def __init__(
        self,
        queue: TranslationQueue,
        translator: Translator,
        config: DecodingConfig,
        deadline: float,
        known: Known | None,
    ):
        self.queue, self.translator, self.deadline, self.known = queue, translator, deadline, known
        self.config = config.model_copy(update={"alignments": True, "n_best": 1})
        self.cancelled, self.future = False, Future[list[Translation]]()

    def answer(self, question: str, content: Any) -> Any:
        """What the process asks for while it works on a document."""
        return self.known(content) if question == "known" else self.translate(content)

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


def _call(ask: Ask, work: Callable[..., Any], copies: bool | None, has_memory: bool) -> Any:
    """In a process of its own: the result of `work` with an engine that asks the server for translations."""
    if copies is None:
        return work()
    known = (lambda text: ask("known", text)) if has_memory else (lambda text: None)
    return work(Engine(lambda texts: ask("translate", list(texts)), copies=copies, known=known))
