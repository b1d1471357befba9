"""The texts of all clients, translated in batches, each client's in turn.

Texts are split into units, mostly sentences. While a batch of them is computed, others wait, and make the next one
together. So nobody waits when there is little to do, and batches are large when there is much.

Nobody stops the others. Every second batch is for those who asked for little, and in the batches between, all have
their turns: so a short text waits for one batch of long ones, and long ones never wait forever. A unit that is long,
for which terms are forbidden, or that takes so long that others have to wait, leaves the batches: it is translated
alone, by a thread of lower priority than the one that translates batches.
"""

import copy
import heapq
import itertools
import logging
import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.translation import Translation
from dragoman.decoding.translator import Translator
from dragoman.decoding.units import Units
from dragoman.serving.stopper import SearchStopper, Stopped
from dragoman.system.processes import WorkerError, use_one_thread

T = TypeVar("T")
LOG = logging.getLogger("dragoman.serving")
BATCH = 3_000
"""Estimated tokens of a batch, at most. Larger batches are hardly faster, and let others wait longer."""
SMALLEST_BATCH = 200
"""Estimated tokens of a batch where larger ones take longer than `TURN`."""
TURN = 0.4
"""Seconds that a batch should take."""
LONGEST_TURN = 0.6
"""Seconds after which a batch is stopped if others wait."""
ALONE = 2.0
"""Seconds for a unit that is translated alone. One that takes longer waits for a lane of its own."""
LONG = 600
"""Estimated tokens of a unit and its prefix from which it is never put into a batch but translated alone."""
LONG_WORDS = 12
"""Average letters of a word beyond which the tokens of a text are counted and not estimated."""
BRIEFLY_SPLIT = 2_500
"""Estimated tokens of the texts of a request up to which they are split between two batches. Longer ones are split by a
thread of their own."""
BEAM = 5
"""Hypotheses of each unit for which a batch has this size; with more, it has fewer units."""
LONGEST_WAIT = 1.5
"""Seconds of work that may wait. A request that would begin later is refused."""
PATIENCE = 3
"""All short requests together may take this many times `LONGEST_WAIT`."""
FEW = 16
"""Requests that may wait in any case, so that a slow model refuses none of a few."""
SHORT = 100
"""Estimated tokens of a short request. While there is no time for one, requests are refused before they are read."""
NICE = 10
"""`nice` value of the threads that translate, so that the thread that answers refuses quickly what is too much."""
FIRST_RATE = 3_000.0
"""Tokens a second that are assumed before any have been measured."""
BATCHES = 0
"""Number of the lane that translates batches. A lane is a thread."""
BRIEF = 1
"""Number of the lane that translates single units, each for at most `ALONE` seconds."""
LASTING = 2
"""Number of the lane that translates the single units that take longer."""


class QueueFull(Exception):
    """There is more work than can be done in time. In `seconds` there may be less."""

    def __init__(self, seconds: int):
        super().__init__()
        self.seconds = seconds


class DeadlinePassed(Exception):
    """The translation of a request took longer than it may."""


def estimated_tokens(text: str) -> int:
    """Rough number of tokens of a text, from its length in bytes."""
    return 2 + len(text.encode(errors="surrogatepass")) // 4


@dataclass(eq=False)
class _Request:
    """The texts that one call of `submit` asked for."""

    translator: Translator
    texts: Sequence[str]
    config: DecodingConfig
    deadline: float
    """Time of `time.monotonic` until which the texts have to be translated."""
    prefixes: Sequence[str]
    """Beginning of the translation of each text."""
    tokens_left: int
    """Estimated tokens that are not translated yet."""
    future: Future[list[Translation]] = field(default_factory=Future)
    units: Units | None = None
    """The texts split into units; None until they are split."""
    waiting: "deque[_Unit]" = field(default_factory=deque)
    """Units that no lane has taken yet."""
    translations: dict[int, Translation] = field(default_factory=dict)
    """Translations of units by the units' numbers."""

    @cached_property
    def key(self) -> tuple[int, str]:
        """Model and search of the request. Units with the same key may share a batch."""
        return id(self.translator), self.config.model_copy(update={"split": True, "prefix": ""}).model_dump_json()

    def split(self) -> None:
        """Split the texts into units, which takes time for long ones."""
        config = self.config
        if isinstance(self.translator, Translator):
            self.units = self.translator.units(self.texts, config, prefixes=self.prefixes)
        else:
            self.units = Units.whole(self.texts, self.prefixes)
        terms = (*config.glossary, *config.glossary.values(), *config.forbid)
        tokens_of_terms = sum(map(estimated_tokens, terms))
        hypotheses = config.n_best if config.sample else config.beam_size
        cost_of_token = max(1.0, hypotheses / BEAM)
        for number, (text, prefix) in enumerate(zip(self.units.texts, self.units.prefixes, strict=True)):
            tokens_of_prefix = estimated_tokens(prefix) if prefix else 0
            length = self._tokens(text) + tokens_of_terms + tokens_of_prefix
            self.waiting.append(_Unit(self, number, text, prefix, length=length, cost=int(length * cost_of_token)))

    def _tokens(self, text: str) -> int:
        """Estimated tokens of a unit. They are counted where words are so long that each letter may be a token."""
        if len(text) <= LONG_WORDS * (1 + text.count(" ")) or not isinstance(self.translator, Translator):
            return estimated_tokens(text)
        return max(estimated_tokens(text), self.translator.count(text))

    def joined(self) -> list[Translation]:
        """The translations of the texts, from those of all units."""
        translations = [self.translations[number] for number in range(len(self.translations))]
        return self.units.joined(translations, self.config)

    def succeed(self) -> None:
        """Hand over the translations of the texts."""
        with suppress(InvalidStateError):  # nobody waits any more
            self.future.set_result(self.joined())

    def fail(self, error: BaseException) -> None:
        """Hand over an error instead of translations."""
        with suppress(InvalidStateError):  # nobody waits any more
            self.future.set_exception(error)


@dataclass(eq=False)
class _Unit:
    """A part of a text, mostly a sentence, that is translated in one piece."""

    request: _Request
    number: int
    """Index among the units of the request."""
    text: str
    prefix: str
    length: int
    """Estimated tokens, including those of the prefix and of the terms."""
    cost: int
    """Tokens of units with `BEAM` hypotheses that take as long as this unit."""
    stopped: bool = False
    """Whether the unit was in a batch that took too long."""

    @property
    def is_costly(self) -> bool:
        """Whether the unit is never put into a batch but translated alone.

        For terms that a client forbids, the whole vocabulary is searched after each new beginning of a translation. How
        long that takes is not known before, and a search is not stopped meanwhile.
        """
        forbidden = self.request.config.forbid
        return self.length > LONG or (bool(forbidden) and forbidden != self.request.translator.decoding.forbid)


class _ShortestFirst(Generic[T]):
    """A priority queue: the item with the fewest tokens comes first, and of equal ones the one that was added first."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, T]] = []
        self._numbers = itertools.count()

    def push(self, item: T, tokens: int) -> None:
        heapq.heappush(self._heap, (tokens, next(self._numbers), item))

    def pop(self) -> T:
        _tokens, _number, item = heapq.heappop(self._heap)
        return item

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[T]:
        """All items, in no order that means anything."""
        return (item for _tokens, _number, item in self._heap)


class TranslationQueue:
    """A queue of requests and the threads that translate them."""

    def __init__(self) -> None:
        self.tokens = 0
        """Estimated tokens of all requests that are not translated yet."""
        self.batches = 0
        """Batches that have been translated; a unit that was translated alone is one, too."""
        self.translated = 0
        """Units that have been translated."""
        self._changed = threading.Condition()
        """Held to read or change the attributes below, and notified when one of them has changed."""
        self._closing = False
        self._calls: deque[Callable[[], None]] = deque()
        """Functions that the thread of batches calls before the next batch."""
        self._waiting: deque[_Request] = deque()
        """Requests with units that no lane has taken, or that are short and not split yet."""
        self._unsplit = _ShortestFirst[_Request]()
        """Long requests that are not split yet."""
        self._splitting: _Request | None = None
        """The long request that is being split."""
        self._alone = {BRIEF: _ShortestFirst[_Unit](), LASTING: _ShortestFirst[_Unit]()}
        """Units that wait for a lane of single units."""
        self._running: dict[int, list[_Unit]] = {BATCHES: [], BRIEF: [], LASTING: []}
        """Units that each lane is translating."""
        self._batch_began = 0.0
        self._batch_ends = math.inf
        """Time at which the batch that is computed will be stopped."""
        self._batch_size = BATCH
        """Estimated tokens of a batch that takes about `TURN` seconds."""
        self._last_batch_was_short = False
        """Whether the last batch was for short requests, so that the next one is for all in turn."""
        self._rate = FIRST_RATE
        """Tokens a second, as measured."""
        self._stopper = SearchStopper(lanes=len(self._running))
        self._threads = [
            threading.Thread(target=self._translate_batches, name="translating", daemon=True),
            threading.Thread(target=self._split_long_requests, name="splitting", daemon=True),
            threading.Thread(target=self._translate_alone, args=(BRIEF,), name="translating alone", daemon=True),
            threading.Thread(target=self._translate_alone, args=(LASTING,), name="translating long", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def watch(self, translator: Translator) -> None:
        """Let searches of this translator be stopped when nobody waits for them, or others wait too long.

        Call it before the worker processes of the translator start.
        """
        translator.interrupt_with(self._stopper)

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

        `prefixes` are the beginnings of the translations, one for each text; by default, that of `config`.

        Raises `QueueFull`. The future raises `DeadlinePassed`, or what the translator raised.
        """
        tokens = sum(map(estimated_tokens, texts))
        prefixes = prefixes or [config.prefix] * len(texts)
        request = _Request(translator, texts, config, time.monotonic() + seconds, prefixes, tokens_left=tokens)
        with self._changed:
            wait = self._seconds_before(tokens)
            if self._closing or (wait > LONGEST_WAIT and self._number_waiting() >= FEW):
                raise QueueFull(max(1, math.ceil(wait - LONGEST_WAIT)))
            self.tokens += tokens
            if tokens > BRIEFLY_SPLIT:
                self._unsplit.push(request, tokens)
            else:
                self._waiting.append(request)
                self._limit_running_batch()
            self._changed.notify_all()
        request.future.add_done_callback(self._stop_unneeded_searches)
        if not texts:
            request.future.set_result([])
        return request.future

    def overload(self) -> int:
        """Seconds after which there may be time for a short request; 0 if there is time now."""
        with self._changed:
            if self._number_waiting() < FEW:
                return 0
            return max(0, math.ceil(self._seconds_before(SHORT) - LONGEST_WAIT))

    def call_first(self, function: Callable[[], T]) -> T:
        """The result of a function, such as one that loads a model. The thread of batches calls it before the next
        batch.

        OpenMP keeps threads for each thread that computes. If there are more than processors, all of them become slow.
        """
        future = Future[T]()

        def call() -> None:
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        with self._changed:
            self._calls.append(call)
            self._changed.notify_all()
        return future.result()

    def close(self) -> None:
        """Accept no more requests, and end the threads when those that wait are translated."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _seconds_before(self, tokens: int) -> float:
        """Seconds of the work of others that comes before a request of so many tokens is translated."""
        if tokens <= self._batch_size // 2:
            # Shorter requests come before it. Every second batch is for such short ones, so as many tokens of longer
            # requests come in between. Short requests that are a little longer come after it, but somebody waits for
            # them, too: so all short ones together are limited as well.
            short = [request.tokens_left for request in self._waiting if request.tokens_left <= self._batch_size // 2]
            before = 2 * sum(left for left in short if left <= tokens)
            return max(before, sum(short) / PATIENCE) / self._rate
        # Each takes its turn: of a long one, a part as long as this one comes before it.
        others = (*self._waiting, *self._unsplit)
        return sum(min(request.tokens_left, tokens + BATCH) for request in others) / self._rate

    def _number_waiting(self) -> int:
        return len(self._waiting) + len(self._unsplit)

    def _limit_running_batch(self) -> None:
        """Have the batch that is computed stop in time for those that wait."""
        ends = self._batch_began + LONGEST_TURN
        if self._running[BATCHES] and ends < self._batch_ends:
            self._batch_ends = ends
            self._stopper.stop(BATCHES, ends)

    def _stop_unneeded_searches(self, future: Future[list[Translation]]) -> None:
        """Stop each lane whose units nobody waits for any more."""
        with self._changed:
            for lane, units in self._running.items():
                if units and all(unit.request.future.done() for unit in units):
                    self._stopper.stop(lane)
                    if lane == BATCHES:
                        self._batch_ends = 0.0  # so that `_limit_running_batch` does not give it more time

    def _translate_batches(self) -> None:
        """Translate batch after batch, until the queue is closed and empty."""
        _lower_priority(NICE)
        self._stopper.enter(BATCHES)
        while batch := self._next_batch():
            request = batch[0].request  # all units of a batch have its model and its search
            started = time.monotonic()
            try:
                translations = _translate(request.translator, batch, request.config)
            except Stopped:
                self._retry(batch)
            except BaseException as error:
                self._fail(BATCHES, batch, error)
            else:
                self._deliver(BATCHES, batch, translations, seconds=time.monotonic() - started)
        with self._changed:
            self._changed.notify_all()

    def _translate_alone(self, lane: int) -> None:
        """Translate single units, the shortest first, each on one processor thread."""
        _lower_priority(NICE + 5)
        self._stopper.enter(lane)
        while unit := self._next_alone(lane):
            try:
                use_one_thread()
                translator = _without_workers(unit.request.translator)
                translations = _translate(translator, [unit], unit.request.config)
            except Stopped:
                with self._changed:
                    self._running[lane] = []
                    self._set_aside(unit, LASTING)
            except BaseException as error:
                self._fail(lane, [unit], error)
            else:
                self._deliver(lane, [unit], translations)

    def _split_long_requests(self) -> None:
        """Split long requests while batches are translated, the shortest first."""
        _lower_priority(NICE + 5)
        while True:
            with self._changed:
                while not (self._unsplit or self._closing):
                    self._changed.wait()
                if not self._unsplit:
                    return
                request = self._unsplit.pop()
                if self._end_if_unneeded(request, time.monotonic()):
                    self.tokens -= request.tokens_left
                    continue
                self._splitting = request
            self._split(request)
            with self._changed:
                self._splitting = None
                self._changed.notify_all()

    def _next_batch(self) -> list[_Unit]:
        """The units of the next batch, as soon as there are any; empty when the queue is closed and empty."""
        while True:
            with self._changed:
                while not (self._calls or self._waiting or self._is_ending()):
                    self._changed.wait()
                while self._calls:
                    self._calls.popleft()()
                self._drop_unneeded()
                unsplit = self._first_unsplit()
                if unsplit is None:
                    batch = self._make_batch()
                    if batch or (self._is_ending() and not self._waiting):
                        return batch
            if unsplit is not None:
                self._split(unsplit)

    def _is_ending(self) -> bool:
        """Whether the queue is closed, and no request is left that has to be split before it waits."""
        return self._closing and not (self._unsplit or self._splitting)

    def _first_unsplit(self) -> _Request | None:
        """The first request among those that wait which is not split into units yet."""
        for request in self._waiting:
            if request.units is None:
                return request
        return None

    def _split(self, request: _Request) -> None:
        """Split a request, and have its units wait."""
        try:
            request.split()
        except BaseException as error:
            request.fail(error)
            request.units = Units.whole([], [])
        with self._changed:
            if request in self._waiting:
                self._waiting.remove(request)
            tokens = sum(unit.cost for unit in request.waiting)
            self.tokens += tokens - request.tokens_left
            request.tokens_left = tokens
            for unit in request.waiting:
                if unit.is_costly:
                    self._set_aside(unit, BRIEF)
            request.waiting = deque(unit for unit in request.waiting if not unit.is_costly)
            if request.waiting:
                self._waiting.append(request)
                self._limit_running_batch()
        if not request.units.texts:  # nothing in the texts is translated
            request.succeed()

    def _make_batch(self) -> list[_Unit]:
        """Take the units of the next batch from the requests that wait: of short ones, or of each in turn."""
        batch = [] if self._last_batch_was_short else self._units_of_short_requests()
        self._last_batch_was_short = bool(batch)
        if not batch:
            batch = self._units_in_turn()
        if batch:
            self._running[BATCHES] = batch
            self._batch_began = time.monotonic()
            self._batch_ends = max(unit.request.deadline for unit in batch)
            self._stopper.begin_batch(BATCHES, self._batch_ends)
            requests = {unit.request for unit in batch}
            if any(request not in requests for request in self._waiting):
                self._limit_running_batch()
        return batch

    def _units_of_short_requests(self) -> list[_Unit]:
        """All units of the shortest requests that fit into half a batch together."""
        batch: list[_Unit] = []
        room = self._batch_size // 2
        for request in sorted(self._waiting, key=lambda request: request.tokens_left):
            if batch and request.key != batch[0].request.key:
                continue
            cost = sum(unit.cost for unit in request.waiting)
            if cost > room:
                break
            room -= cost
            batch += request.waiting
            request.waiting.clear()
        self._waiting = deque(request for request in self._waiting if request.waiting)
        return batch

    def _units_in_turn(self) -> list[_Unit]:
        """A batch of units of the requests in their order. A request of which only a part fits goes to the end."""
        batch: list[_Unit] = []
        skipped: list[_Request] = []
        room = self._batch_size
        while self._waiting and room > 0:
            request = self._waiting.popleft()
            if batch and (request.key != batch[0].request.key or request.waiting[0].cost > room):
                skipped.append(request)
                continue
            while request.waiting and (not batch or request.waiting[0].cost <= room):
                unit = request.waiting.popleft()
                room -= unit.cost
                batch.append(unit)
            if request.waiting:
                self._waiting.append(request)
                break
        self._waiting.extendleft(reversed(skipped))
        return batch

    def _next_alone(self, lane: int) -> _Unit | None:
        """The unit that a lane translates next, as soon as there is one; None when the queue is closed and empty."""
        with self._changed:
            while True:
                while self._alone[lane]:
                    unit = self._alone[lane].pop()
                    request, now = unit.request, time.monotonic()
                    if self._end_if_unneeded(request, now):
                        self._subtract(unit)
                        continue
                    ends = request.deadline if lane == LASTING else min(request.deadline, now + ALONE)
                    self._running[lane] = [unit]
                    self._stopper.begin_batch(lane, ends)
                    return unit
                if self._closing and not (self._waiting or any(self._running.values()) or any(self._alone.values())):
                    return None
                self._changed.wait()

    def _set_aside(self, unit: _Unit, lane: int) -> None:
        """Have a unit wait for a lane of single units."""
        self._alone[lane].push(unit, unit.cost)
        self._changed.notify_all()

    def _retry(self, batch: list[_Unit]) -> None:
        """Have the units of a batch that was stopped wait again.

        They are translated in smaller batches, and those that were stopped before alone.
        """
        with self._changed:
            self._running[BATCHES] = []
            self._batch_size = max(SMALLEST_BATCH, self._batch_size // 4)
            for unit in reversed(batch):
                if unit.stopped or len(batch) == 1:
                    self._set_aside(unit, BRIEF)
                    continue
                unit.stopped = True
                unit.request.waiting.appendleft(unit)
                if unit.request not in self._waiting:
                    self._waiting.appendleft(unit.request)
            self._changed.notify_all()

    def _fail(self, lane: int, units: list[_Unit], error: BaseException) -> None:
        """Fail the request of a unit that raised an error. Of several units, each is translated again, alone."""
        with self._changed:
            self._running[lane] = []
            for unit in units:
                if len(units) > 1:
                    self._set_aside(unit, BRIEF)
                else:
                    unit.request.fail(error)
                    self._subtract(unit)
            self._changed.notify_all()

    def _deliver(
        self, lane: int, units: list[_Unit], translations: list[Translation], *, seconds: float | None = None
    ) -> None:
        """Store the translations of units, and hand over those of requests that are complete.

        `seconds` is the time that a batch took; None for a unit that was translated alone.
        """
        complete = []
        with self._changed:
            self._running[lane] = []
            self.batches += 1
            self.translated += len(translations)
            if seconds is not None:
                self._measure(sum(unit.cost for unit in units), seconds)
            for unit, translation in zip(units, translations, strict=True):
                self._subtract(unit)
                request = unit.request
                request.translations[unit.number] = translation
                if len(request.translations) == len(request.units.texts):
                    complete.append(request)
            self._changed.notify_all()
        # Without the lock, for which the thread that is told of the results would wait.
        for request in complete:
            request.succeed()

    def _measure(self, cost: int, seconds: float) -> None:
        """Update the measured speed, and the size of batches, from a batch."""
        self._rate += 0.2 * (cost / max(seconds, 1e-3) - self._rate)
        if seconds > TURN:
            self._batch_size = max(SMALLEST_BATCH, int(min(self._batch_size, cost) * TURN / seconds))
        elif cost > self._batch_size // 2:
            self._batch_size = min(BATCH, self._batch_size * 3 // 2)

    def _subtract(self, unit: _Unit) -> None:
        """Subtract a unit from the tokens that are not translated yet."""
        self.tokens -= unit.cost
        unit.request.tokens_left -= unit.cost

    def _end_if_unneeded(self, request: _Request, now: float) -> bool:
        """Whether a request need not be translated any more; one past its deadline is failed with `DeadlinePassed`."""
        if not request.future.done() and now < request.deadline:
            return False
        request.fail(DeadlinePassed())
        self._changed.notify_all()  # the caller removes the request, which may be what other threads wait for to end
        return True

    def _drop_unneeded(self) -> None:
        """Remove the requests that wait but need not be translated any more."""
        now, remaining = time.monotonic(), deque[_Request]()
        for request in self._waiting:
            if not self._end_if_unneeded(request, now):
                remaining.append(request)
                continue
            dropped = request.tokens_left if request.units is None else sum(unit.cost for unit in request.waiting)
            self.tokens -= dropped
            request.tokens_left -= dropped
            request.waiting.clear()
        self._waiting = remaining


def _translate(translator: Translator, units: list[_Unit], config: DecodingConfig) -> list[Translation]:
    texts, prefixes = [unit.text for unit in units], [unit.prefix for unit in units]
    if not isinstance(translator, Translator):  # a stand-in that splits nothing
        return translator.translate(texts, config, prefixes=prefixes)
    try:
        return translator.translate_units(texts, prefixes, config)
    except WorkerError as error:
        # Processes that are forked now would keep the connections of clients open.
        LOG.error("%s Translating goes on without workers, more slowly.", error)
        translator.close()
        return translator.translate_units(texts, prefixes, config)


def _without_workers(translator: Translator) -> Translator:
    """A translator that shares everything with another one but its workers, so that the calling thread computes."""
    twin = copy.copy(translator)
    twin.workers = None
    return twin


def _lower_priority(nice: int) -> None:
    """Add to the `nice` value of the calling thread, and of the threads and processes that it starts."""
    if sys.platform == "linux":  # elsewhere it would be that of the whole process
        os.nice(nice)
