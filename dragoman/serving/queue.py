"""The texts of all clients, translated in batches, each client's in turn.

Texts are split into units, mostly sentences. While a batch of them is computed, others wait, and make the next one
together. So nobody waits when there is little to do, and batches are large when there is much. Several lanes, each of
which is a thread, translate batches side by side: they share out what waits.

Nobody stops the others. Every second batch is for those who asked for little, and in the batches between, all have
their turns: so a short text waits for one batch of long ones, and long ones never wait forever. A unit that is long,
for which terms are forbidden, or that takes so long that others have to wait, leaves the batches: it is translated
alone, by a thread of lower priority than the one that translates batches.
"""

import copy
import logging
import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.translation import Translation
from dragoman.decoding.translator import Translator
from dragoman.decoding.units import Units
from dragoman.serving.queued import QueuedRequest, QueuedUnit, ShortestFirst, estimated_tokens
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
BRIEFLY_SPLIT = 2_500
"""Estimated tokens of the texts of a request up to which they are split between two batches. Longer ones are split by a
thread of their own."""
LONGEST_WAIT = 1.5
"""Seconds of work that may wait. A request that would begin later is refused."""
PATIENCE = 3
"""All short requests together may take this many times `LONGEST_WAIT`."""
FEW = 16
"""Requests that may wait in any case, so that a slow model refuses none of a few. So many may wait for lanes of single
units, whose time is not known before."""
SHORT = 100
"""Estimated tokens of a short request. While there is no time for one, requests are refused before they are read."""
NICE = 10
"""`nice` value of the threads that translate, so that the thread that answers refuses quickly what is too much."""
FIRST_RATE = 3_000.0
"""Tokens a second that are assumed before any have been measured."""


class QueueFull(Exception):
    """There is more work than can be done in time. In `seconds` there may be less."""

    def __init__(self, seconds: int):
        super().__init__()
        self.seconds = seconds


class DeadlinePassed(Exception):
    """The translation of a request took longer than it may."""


@dataclass(eq=False)
class _Lane:
    """A thread that translates, one batch or one unit at a time."""

    number: int
    """Its number for the `SearchStopper`."""
    units: list[QueuedUnit] = field(default_factory=list)
    """Units that it is translating."""
    began: float = 0.0
    """Time at which it began to translate them."""
    ends: float = math.inf
    """Time at which it will be stopped."""
    waiting: ShortestFirst[QueuedUnit] = field(default_factory=ShortestFirst)
    """Units that wait for this lane, if it translates single ones."""


class TranslationQueue:
    """A queue of requests and the threads that translate them."""

    def __init__(self, lanes: int = 1) -> None:
        """With more than one of `lanes`, as many batches are translated side by side, each on one processor thread.

        A translator that needs torch has one lane, which leaves it the number of its threads and processes.
        """
        self.tokens = 0
        """Estimated tokens of all requests that are not translated yet."""
        self.batches = 0
        """Batches that have been translated; a unit that was translated alone is one, too."""
        self.translated = 0
        """Units that have been translated."""
        self._lock = threading.RLock()
        """Held to read or change the attributes below."""
        # Each is notified when what its threads wait for may have come.
        self._for_batches, self._for_single, self._for_splitting = (threading.Condition(self._lock) for _ in range(3))
        self._closing = False
        self._calls: deque[Callable[[], None]] = deque()
        """Functions that the first lane of batches calls before its next batch."""
        self._waiting: deque[QueuedRequest] = deque()
        """Requests with units that no lane has taken, or that are short and not split yet."""
        self._unsplit = ShortestFirst[QueuedRequest]()
        """Long requests that are not split yet."""
        self._splitting: set[QueuedRequest] = set()
        """Requests that are being split."""
        self._batch_lanes = [_Lane(number) for number in range(lanes)]
        """Lanes that translate batches."""
        self._brief = _Lane(lanes)
        """Lane that translates single units, each for at most `ALONE` seconds."""
        self._lasting = _Lane(lanes + 1)
        """Lane that translates the single units that take longer."""
        self._lanes = [*self._batch_lanes, self._brief, self._lasting]
        self._batch_size = BATCH
        """Estimated tokens of a batch that takes about `TURN` seconds."""
        self._last_batch_was_short = False
        """Whether the last batch was for short requests, so that the next one is for all in turn."""
        self._rate = FIRST_RATE
        """Tokens a second of all lanes together, as measured."""
        self._stopper = SearchStopper(len(self._lanes))
        self._threads = [
            *(self._thread("translating", self._translate_batches, lane) for lane in self._batch_lanes),
            self._thread("splitting", self._split_long_requests),
            self._thread("translating alone", self._translate_alone, self._brief),
            self._thread("translating long", self._translate_alone, self._lasting),
        ]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _thread(name: str, function: Callable[..., None], *arguments: _Lane) -> threading.Thread:
        return threading.Thread(target=function, args=arguments, name=name, daemon=True)

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

        Raises `QueueFull`. The future raises it, too, if units have to be translated alone for which there is no time:
        that is known once the texts are split. It also raises `DeadlinePassed`, or what the translator raised.
        """
        tokens = sum(map(estimated_tokens, texts))
        prefixes = prefixes or [config.prefix] * len(texts)
        request = QueuedRequest(translator, texts, config, time.monotonic() + seconds, prefixes, tokens_left=tokens)
        with self._lock:
            wait = self._seconds_before(tokens)
            if self._closing or (wait > LONGEST_WAIT and self._number_waiting() >= FEW):
                raise QueueFull(max(1, math.ceil(wait - LONGEST_WAIT)))
            self.tokens += tokens
            if tokens > BRIEFLY_SPLIT:
                self._unsplit.push(request, tokens)
                self._for_splitting.notify()
            else:
                self._waiting.append(request)
                self._limit_running_batches()
                self._for_batches.notify_all()
        request.future.add_done_callback(self._stop_unneeded_searches)
        if not texts:
            request.future.set_result([])
        return request.future

    def overload(self) -> int:
        """Seconds after which there may be time for a short request; 0 if there is time now."""
        with self._lock:
            if self._number_waiting() < FEW:
                return 0
            return max(0, math.ceil(self._seconds_before(SHORT) - LONGEST_WAIT))

    def call_first(self, function: Callable[[], T]) -> T:
        """The result of a function, such as one that loads a model. The first lane of batches calls it before its next
        batch.

        OpenMP keeps threads for each thread that computes. If there are more than processors, all of them become slow.
        """
        future = Future[T]()

        def call() -> None:
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        with self._lock:
            self._calls.append(call)
            self._for_batches.notify_all()
        return future.result()

    def close(self) -> None:
        """Accept no more requests, and end the threads when those that wait are translated."""
        with self._lock:
            self._closing = True
            self._wake_all()
        for thread in self._threads:
            thread.join()

    def _wake_all(self) -> None:
        """Have all threads look whether they may end."""
        for condition in (self._for_batches, self._for_single, self._for_splitting):
            condition.notify_all()

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

    def _number_alone(self) -> int:
        """Requests with units that wait for a lane of single units, and that somebody still waits for."""
        now = time.monotonic()
        requests = {unit.request for lane in (self._brief, self._lasting) for unit in lane.waiting}
        return sum(not request.future.done() and now < request.deadline for request in requests)

    def _limit_running_batches(self) -> None:
        """Have the batches that are computed stop in time for those that wait."""
        for lane in self._batch_lanes:
            ends = lane.began + LONGEST_TURN
            if lane.units and ends < lane.ends:
                lane.ends = ends
                self._stopper.stop(lane.number, ends)

    def _stop_unneeded_searches(self, future: Future[list[Translation]]) -> None:
        """Stop each lane whose units nobody waits for any more."""
        with self._lock:
            for lane in self._lanes:
                if lane.units and all(unit.request.future.done() for unit in lane.units):
                    self._stopper.stop(lane.number)
                    lane.ends = 0.0  # so that `_limit_running_batches` does not give it more time

    def _translate_batches(self, lane: _Lane) -> None:
        """Translate batch after batch, until the queue is closed and empty."""
        _lower_priority(NICE)
        self._stopper.enter(lane.number)
        while batch := self._next_batch(lane):
            request = batch[0].request  # all units of a batch have its model and its search
            translator = request.translator
            if len(self._batch_lanes) > 1 and request.computes_in_threads:
                translator = _without_workers(translator)
            try:
                translations = _translate(translator, batch, request.config)
            except Stopped:
                self._retry(lane, batch)
            except BaseException as error:
                self._fail(lane, batch, error)
            else:
                self._deliver(lane, batch, translations)
        with self._lock:
            self._wake_all()

    def _translate_alone(self, lane: _Lane) -> None:
        """Translate single units, the shortest first, each on one processor thread."""
        _lower_priority(NICE + 5)
        self._stopper.enter(lane.number)
        while unit := self._next_alone(lane):
            try:
                use_one_thread()
                translator = _without_workers(unit.request.translator)
                translations = _translate(translator, [unit], unit.request.config)
            except Stopped:
                with self._lock:
                    lane.units = []
                    self._set_aside(unit, self._lasting)
            except BaseException as error:
                self._fail(lane, [unit], error)
            else:
                self._deliver(lane, [unit], translations)

    def _split_long_requests(self) -> None:
        """Split long requests while batches are translated, the shortest first."""
        _lower_priority(NICE + 5)
        while True:
            with self._lock:
                while not (self._unsplit or self._closing):
                    self._for_splitting.wait()
                if not self._unsplit:
                    return
                request = self._unsplit.pop()
                if self._end_if_unneeded(request, time.monotonic()):
                    self.tokens -= request.tokens_left
                    continue
                self._splitting.add(request)
            self._split(request)

    def _next_batch(self, lane: _Lane) -> list[QueuedUnit]:
        """The units of the next batch, as soon as there are any; empty when the queue is closed and empty."""
        is_first = lane is self._batch_lanes[0]
        while True:
            with self._lock:
                while not ((is_first and self._calls) or self._requests_for(lane) or self._is_ending()):
                    self._for_batches.wait()
                while is_first and self._calls:
                    self._calls.popleft()()
                self._drop_unneeded()
                requests = self._requests_for(lane)
                unsplit = next((request for request in requests if request.units is None), None)
                if unsplit is None:
                    batch = self._make_batch(lane)
                    if batch or (self._is_ending() and not requests):
                        return batch
                else:
                    self._waiting.remove(unsplit)
                    self._splitting.add(unsplit)
            if unsplit is not None:
                self._split(unsplit)

    def _requests_for(self, lane: _Lane) -> list[QueuedRequest]:
        """The requests that wait and may be translated by a lane of batches: the first one takes all."""
        if lane is self._batch_lanes[0]:
            return [*self._waiting]
        return [request for request in self._waiting if request.computes_in_threads]

    def _is_ending(self) -> bool:
        """Whether the queue is closed, and no request is left that has to be split before it waits."""
        return self._closing and not (self._unsplit or self._splitting)

    def _split(self, request: QueuedRequest) -> None:
        """Split a request that is in `_splitting`, and have its units wait."""
        try:
            request.split()
        except BaseException as error:
            request.fail(error)
            request.units = Units.whole([], [])
        with self._lock:
            self._splitting.remove(request)
            alone = [unit for unit in request.waiting if unit.is_costly]
            if alone and self._number_alone() >= FEW:
                request.fail(QueueFull(math.ceil(ALONE)))
                alone, request.waiting = [], deque()
            tokens = sum(unit.cost for unit in request.waiting)
            self.tokens += tokens - request.tokens_left
            request.tokens_left = tokens
            for unit in alone:
                self._set_aside(unit, self._brief)
            request.waiting = deque(unit for unit in request.waiting if not unit.is_costly)
            if request.waiting:
                self._waiting.append(request)
                self._limit_running_batches()
            self._for_batches.notify_all()
        if not request.units.texts:  # nothing in the texts is translated
            request.succeed()

    def _make_batch(self, lane: _Lane) -> list[QueuedUnit]:
        """Take the units of a lane's next batch from the requests that wait: of short ones, or of each in turn."""
        requests = self._requests_for(lane)
        # Those for which nothing of it is do not count: what needs torch has one lane, and all of it.
        idle_lanes = sum(not other.units and bool(self._requests_for(other)) for other in self._batch_lanes) or 1
        share = -(-sum(unit.cost for request in requests for unit in request.waiting) // idle_lanes)
        batch = [] if self._last_batch_was_short else _units_of_short(requests, min(self._batch_size // 2, share))
        self._last_batch_was_short = bool(batch)
        if not batch:
            batch, requests = _units_in_turn(requests, min(self._batch_size, share))
            kept = {*requests}
            others = [request for request in self._waiting if request not in kept]
            self._waiting = deque([*requests, *others])
        # Of other lanes some may not be split yet.
        self._waiting = deque(request for request in self._waiting if request.waiting or request.units is None)
        if batch:
            lane.units, lane.began = batch, time.monotonic()
            lane.ends = max(unit.request.deadline for unit in batch)
            self._stopper.begin_batch(lane.number, lane.ends)
            in_batch = {unit.request for unit in batch}
            if any(request not in in_batch for request in self._waiting):
                self._limit_running_batches()
        return batch

    def _next_alone(self, lane: _Lane) -> QueuedUnit | None:
        """The unit that a lane translates next, as soon as there is one; None when the queue is closed and empty."""
        with self._lock:
            while True:
                while lane.waiting:
                    unit = lane.waiting.pop()
                    request, now = unit.request, time.monotonic()
                    if self._end_if_unneeded(request, now):
                        self._subtract(unit)
                        continue
                    lane.units, lane.began = [unit], now
                    lane.ends = request.deadline if lane is self._lasting else min(request.deadline, now + ALONE)
                    self._stopper.begin_batch(lane.number, lane.ends)
                    return unit
                is_busy = any(lane.units or lane.waiting for lane in self._lanes)
                if self._is_ending() and not (self._waiting or is_busy):
                    return None
                self._for_single.wait()

    def _set_aside(self, unit: QueuedUnit, lane: _Lane) -> None:
        """Have a unit wait for a lane of single units."""
        lane.waiting.push(unit, unit.cost)
        self._for_single.notify_all()

    def _retry(self, lane: _Lane, batch: list[QueuedUnit]) -> None:
        """Have the units of a batch that was stopped wait again.

        They are translated in smaller batches, and those that were stopped before alone.
        """
        with self._lock:
            lane.units = []
            self._batch_size = max(SMALLEST_BATCH, self._batch_size // 4)
            for unit in reversed(batch):
                if unit.stopped or len(batch) == 1:
                    self._set_aside(unit, self._brief)
                    continue
                unit.stopped = True
                unit.request.waiting.appendleft(unit)
                if unit.request not in self._waiting:
                    self._waiting.appendleft(unit.request)
            self._for_batches.notify_all()

    def _fail(self, lane: _Lane, units: list[QueuedUnit], error: BaseException) -> None:
        """Fail the request of a unit that raised an error. Of several units, each is translated again, alone."""
        with self._lock:
            lane.units = []
            for unit in units:
                if len(units) > 1:
                    self._set_aside(unit, self._brief)
                else:
                    unit.request.fail(error)
                    self._subtract(unit)
            self._wake_if_closing()

    def _deliver(self, lane: _Lane, units: list[QueuedUnit], translations: list[Translation]) -> None:
        """Store the translations of units, and hand over those of requests that are complete."""
        complete = []
        with self._lock:
            if lane in self._batch_lanes:
                self._measure(sum(unit.cost for unit in units), time.monotonic() - lane.began)
            lane.units = []
            self.batches += 1
            self.translated += len(translations)
            for unit, translation in zip(units, translations, strict=True):
                self._subtract(unit)
                request = unit.request
                request.translations[unit.number] = translation
                if len(request.translations) == len(request.units.texts):
                    complete.append(request)
            self._wake_if_closing()
        # Without the lock, for which the thread that is told of the results would wait.
        for request in complete:
            request.succeed()

    def _wake_if_closing(self) -> None:
        """Have all threads look whether they may end, if they wait for that."""
        if self._closing:
            self._wake_all()

    def _measure(self, cost: int, seconds: float) -> None:
        """Update the measured speed, and the size of batches, from a batch."""
        busy_lanes = sum(bool(lane.units) for lane in self._batch_lanes)
        self._rate += 0.2 * (busy_lanes * cost / max(seconds, 1e-3) - self._rate)
        if seconds > TURN:
            self._batch_size = max(SMALLEST_BATCH, int(min(self._batch_size, cost) * TURN / seconds))
        elif cost > self._batch_size // 2:
            self._batch_size = min(BATCH, self._batch_size * 3 // 2)

    def _subtract(self, unit: QueuedUnit) -> None:
        """Subtract a unit from the tokens that are not translated yet."""
        self.tokens -= unit.cost
        unit.request.tokens_left -= unit.cost

    def _end_if_unneeded(self, request: QueuedRequest, now: float) -> bool:
        """Whether a request need not be translated any more; one past its deadline is failed with `DeadlinePassed`."""
        if not request.future.done() and now < request.deadline:
            return False
        request.fail(DeadlinePassed())
        self._wake_if_closing()  # the caller removes the request, which may be what other threads wait for to end
        return True

    def _drop_unneeded(self) -> None:
        """Remove the requests that wait but need not be translated any more."""
        now, remaining = time.monotonic(), deque[QueuedRequest]()
        for request in self._waiting:
            if not self._end_if_unneeded(request, now):
                remaining.append(request)
                continue
            dropped = request.tokens_left if request.units is None else sum(unit.cost for unit in request.waiting)
            self.tokens -= dropped
            request.tokens_left -= dropped
            request.waiting.clear()
        self._waiting = remaining


def _units_of_short(requests: list[QueuedRequest], room: int) -> list[QueuedUnit]:
    """Take all units of the shortest requests that fit into `room` estimated tokens together."""
    batch: list[QueuedUnit] = []
    for request in sorted(requests, key=lambda request: request.tokens_left):
        if batch and request.key != batch[0].request.key:
            continue
        cost = sum(unit.cost for unit in request.waiting)
        if cost > room:
            break
        room -= cost
        batch += request.waiting
        request.waiting.clear()
    return batch


def _units_in_turn(requests: list[QueuedRequest], room: int) -> tuple[list[QueuedUnit], list[QueuedRequest]]:
    """Take units of the requests in their order, and return them and the order of what is left.

    A request of which only a part fits goes to the end.
    """
    batch: list[QueuedUnit] = []
    skipped: list[QueuedRequest] = []
    remaining = deque(requests)
    while remaining and room > 0:
        request = remaining.popleft()
        if batch and (request.key != batch[0].request.key or request.waiting[0].cost > room):
            skipped.append(request)
            continue
        while request.waiting and (not batch or request.waiting[0].cost <= room):
            unit = request.waiting.popleft()
            room -= unit.cost
            batch.append(unit)
        if request.waiting:
            remaining.append(request)
            break
    return batch, [*skipped, *remaining]


def _translate(translator: Translator, units: list[QueuedUnit], config: DecodingConfig) -> list[Translation]:
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
