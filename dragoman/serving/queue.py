"""The texts of all clients, translated in batches by one thread, each client's in turn.

While a batch is computed, others wait, and make the next one together. So nobody waits when there is little to do, and
batches are large when there is much.
"""

import logging
import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.translation import Translation
from dragoman.decoding.translator import Translator
from dragoman.serving.brake import Brake
from dragoman.system.processes import WorkerError

T = TypeVar("T")
LOG = logging.getLogger("dragoman.serving")
BATCH = 3_000
"""Tokens, about, that are translated at once: larger batches are hardly faster, and let others wait longer."""
LONGEST_WAIT = 1.5
"""Seconds of work that may wait; what would begin later is refused."""
FEW = 16
"""Requests that may wait in any case, as for a large model, which takes long for each."""
NICE = 10
"""How much the threads that translate stand back behind the one that answers, which refuses what is too much."""
FIRST_RATE = 3_000.0
"""Tokens a second, before any have been measured."""


class QueueFull(Exception):
    """There is more work than can be done in time; `seconds` tells when it may be less."""

    def __init__(self, seconds: int):
        super().__init__()
        self.seconds = seconds


class DeadlinePassed(Exception):
    """The work took longer than it may."""


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has."""
    return 2 + len(text.encode(errors="surrogatepass")) // 4


@dataclass(eq=False)
class _Work:
    translator: Translator
    texts: Sequence[str]
    config: DecodingConfig
    deadline: float
    prefixes: Sequence[str]
    left: int
    """Tokens, about, of the texts that are not translated yet."""
    alone: bool = False
    """Whether it shares no batch, since one that it was in has failed."""
    future: Future[list[Translation]] = field(default_factory=Future)
    found: list[Translation] = field(default_factory=list)

    @property
    def key(self) -> tuple[int, str]:
        """What texts of one batch have in common."""
        return id(self.translator), self.config.model_dump_json()


class TranslationQueue:
    """A queue and the thread that empties it."""

    def __init__(self) -> None:
        self._waiting: deque[_Work] = deque()
        self._first: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._tokens, self._rate = 0, FIRST_RATE
        self._closing = False
        self._current: list[_Work] = []
        self._brake = Brake()
        self.batches = self.translated = 0
        self._thread = threading.Thread(target=self._run, name="translating", daemon=True)
        self._thread.start()

    @property
    def tokens(self) -> int:
        """Tokens that wait, about."""
        return self._tokens

    def watch(self, translator: Translator) -> None:
        """Stop what this translator does when nobody waits for any text of its batch; before its workers start."""
        self._brake.put_on(translator.model)

    def submit(
        self,
        translator: Translator,
        texts: Sequence[str],
        config: DecodingConfig,
        *,
        seconds: float,
        prefixes: Sequence[str] = (),
    ) -> Future[list[Translation]]:
        """The translations of texts, in time or not at all. A future that is cancelled leaves the queue.

        `prefixes` are the beginnings of the translations, one for each.

        Raises `QueueFull`. The future raises `DeadlinePassed`, or what the translator raised.
        """
        tokens = sum(map(estimated_tokens, texts))
        prefixes = prefixes or [config.prefix] * len(texts)
        work = _Work(translator, texts, config, time.monotonic() + seconds, prefixes, tokens)
        with self._changed:
            wait = self._wait(tokens)
            if self._closing or (wait > LONGEST_WAIT and len(self._waiting) >= FEW):
                raise QueueFull(max(1, math.ceil(wait - LONGEST_WAIT)))
            self._tokens += tokens
            self._waiting.append(work)
            self._changed.notify()
        work.future.add_done_callback(self._stop_if_unneeded)
        if not texts:
            work.future.set_result([])
        return work.future

    def _stop_if_unneeded(self, future: Future[list[Translation]]) -> None:
        with self._changed:
            if self._current and all(work.future.done() for work in self._current):
                self._brake.stop()

    def _wait(self, tokens: int) -> float:
        """Seconds of the work of others that comes before so many tokens are translated."""
        # Each takes its turn: of a long one, a part as long as this one comes before it.
        return sum(min(other.left, tokens + BATCH) for other in self._waiting) / self._rate

    def overload(self) -> int:
        """Seconds after which even a short text may be asked for again; 0 if it may be asked for now."""
        with self._changed:
            wait = self._wait(0) - LONGEST_WAIT if len(self._waiting) >= FEW else 0.0
        return max(0, math.ceil(wait))

    def first(self, work: Callable[[], T]) -> T:
        """The result of `work`, such as loading models, which the thread that translates does before anything else.

        OpenMP keeps threads for each thread that computes. If there are more than processors, all of them become slow.
        """
        future = Future[T]()
        with self._changed:
            self._first.append(lambda: _done(future, work))
            self._changed.notify()
        return future.result()

    def close(self) -> None:
        """Take nothing more, and end the thread when all is done."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        if sys.platform == "linux":  # where this is for one thread, and for the threads and processes that it starts
            os.nice(NICE)
        while batch := self._next_batch():
            texts = [text for _, part in batch for text in part]
            prefixes = [prefix for work, part in batch for prefix in work.prefixes[len(work.found) :][: len(part)]]
            first, started = batch[0][0], time.monotonic()
            try:
                found = _translated(first.translator, texts, first.config, prefixes)
            except BaseException as error:
                self._failed(batch, error)
                continue
            self._give(batch, found, time.monotonic() - started)

    def _next_batch(self) -> list[tuple[_Work, Sequence[str]]]:
        """Works with the texts of each that are translated next; empty at the end."""
        with self._changed:
            while True:
                while self._first:
                    self._first.popleft()()
                self._drop_dead()
                if self._waiting or self._closing:
                    break
                self._changed.wait()
            batch: list[tuple[_Work, Sequence[str]]] = []
            room, kept = BATCH, []
            while self._waiting and room > 0:
                work = self._waiting.popleft()
                if batch and (work.alone or batch[0][0].alone or work.key != batch[0][0].key):
                    kept.append(work)
                    continue
                part = _part(work, room if batch else BATCH)
                room -= sum(map(estimated_tokens, part))
                batch.append((work, part))
            self._waiting.extendleft(reversed(kept))
            self._current = [work for work, _ in batch]
            return batch

    def _failed(self, batch: list[tuple[_Work, Sequence[str]]], error: BaseException) -> None:
        """Tell the one whose text it was; of several, each is translated alone."""
        with self._changed:
            self._current = []
            for work, _ in batch:
                if len(batch) > 1 and not work.alone:
                    work.alone = True
                    self._waiting.appendleft(work)
                else:
                    _fail(work, error)
                    self._tokens -= work.left

    def _drop_dead(self) -> None:
        """Leave out what nobody waits for any more."""
        now, alive = time.monotonic(), deque[_Work]()
        for work in self._waiting:
            if not work.future.done() and now < work.deadline:
                alive.append(work)
                continue
            _fail(work, DeadlinePassed())
            self._tokens -= work.left
        self._waiting = alive

    def _give(self, batch: list[tuple[_Work, Sequence[str]]], found: list[Translation], seconds: float) -> None:
        """Hand out what was translated; works that are not done wait again, behind the others."""
        tokens = sum(estimated_tokens(text) for _, part in batch for text in part)
        position, done = 0, []
        with self._changed:
            self._current = []
            self.batches += 1
            self.translated += len(found)
            self._tokens -= tokens
            self._rate += 0.2 * (tokens / max(seconds, 1e-3) - self._rate)
            for work, part in batch:
                work.found += found[position : position + len(part)]
                work.left -= sum(map(estimated_tokens, part))
                position += len(part)
                (self._waiting if len(work.found) < len(work.texts) else done).append(work)
        # Without the lock, for which the thread would wait that is told of the results.
        for work in done:
            with suppress(InvalidStateError):  # nobody waits any more
                work.future.set_result(work.found)


def _translated(
    translator: Translator, texts: list[str], config: DecodingConfig, prefixes: list[str]
) -> list[Translation]:
    try:
        return translator.translate(texts, config, prefixes=prefixes)
    except WorkerError as error:
        # Processes that are forked now would keep the connections of clients open.
        LOG.error("%s Translating goes on without workers, more slowly.", error)
        translator.close()
        return translator.translate(texts, config, prefixes=prefixes)


def _part(work: _Work, room: int) -> Sequence[str]:
    """The next texts of a work that fit into `room` tokens, at least one."""
    left = work.texts[len(work.found) :]
    size = 0
    for number, text in enumerate(left):
        size += estimated_tokens(text)
        if size > room and number:
            return left[:number]
    return left


def _done(future: Future[T], work: Callable[[], T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)


def _fail(work: _Work, error: BaseException) -> None:
    with suppress(InvalidStateError):
        work.future.set_exception(error)
