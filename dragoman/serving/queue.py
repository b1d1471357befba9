"""The texts of all clients, translated in batches, each client's in turn.

Texts are split into units, mostly sentences. While a batch of them is computed, others wait, and make the next one
together. So nobody waits when there is little to do, and batches are large when there is much.

Nobody stops the others. Every second batch is for those who asked for little, and in the batches between, all have
their turns: so a short text waits for one batch of long ones, and long ones never wait forever. A unit that is long,
for which terms are forbidden, or that takes so long that others have to wait, leaves the batches: it is translated
alone, by a thread that stands back behind the one that translates batches.
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
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.translation import Translation
from dragoman.decoding.translator import Translator
from dragoman.decoding.units import Units
from dragoman.serving.brake import Brake, Stopped
from dragoman.system.processes import WorkerError, _use_one_thread

T = TypeVar("T")
LOG = logging.getLogger("dragoman.serving")
BATCH = 3_000
"""Tokens, about, that are translated at once: larger batches are hardly faster, and let others wait longer."""
SMALLEST_BATCH = 200
"""Tokens, about, of a batch where larger ones take longer than `TURN`."""
TURN = 0.4
"""Seconds that a batch should take."""
LONGEST_TURN = 0.6
"""Seconds after which a batch is stopped if others wait."""
ALONE = 2.0
"""Seconds for a unit that is translated alone, before it has to wait for those that take less."""
LONG = 600
"""Tokens, about, of a unit and its prefix that is translated alone from the beginning."""
LONG_WORDS = 12
"""Letters of a word, on average, beyond which the tokens of a text are counted and not estimated."""
BRIEFLY_SPLIT = 2_500
"""Tokens, about, of texts that are split into units between two batches; longer ones have a thread for that."""
BEAM = 5
"""Hypotheses of each unit for which a batch has this size; with more, it is smaller."""
LONGEST_WAIT = 1.5
"""Seconds of work that may wait; what would begin later is refused."""
PATIENCE = 3
"""How many times longer than `LONGEST_WAIT` all works that are short may take together."""
FEW = 16
"""Requests that may wait in any case, as for a large model, which takes long for each."""
SHORT = 100
"""Tokens, about, of what is read at all while too much waits: whoever asks for more is told to come later."""
NICE = 10
"""How much the threads that translate stand back behind the one that answers, which refuses what is too much."""
FIRST_RATE = 3_000.0
"""Tokens a second, before any have been measured."""
BATCHES, BRIEF, LASTING = range(3)
"""The lanes, each a thread: of batches, of units alone, and of units alone that take longer than `ALONE`."""


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
    """The texts of one request."""

    translator: Translator
    texts: Sequence[str]
    config: DecodingConfig
    deadline: float
    prefixes: Sequence[str]
    left: int
    """Tokens, about, of what is not translated yet."""
    future: Future[list[Translation]] = field(default_factory=Future)
    units: Units | None = None
    """How the texts are split, if they are split already."""
    waiting: "deque[_Unit]" = field(default_factory=deque)
    """Units that no lane has taken yet."""
    found: dict[int, Translation] = field(default_factory=dict)
    """Translations of units by their numbers."""

    @cached_property
    def key(self) -> tuple[int, str]:
        """Key of the units that may share a batch: their model and their search."""
        return id(self.translator), self.config.model_copy(update={"split": True, "prefix": ""}).model_dump_json()

    def split(self) -> None:
        """Split the texts into units, which takes time for long ones."""
        config = self.config
        if isinstance(self.translator, Translator):
            self.units = self.translator.units(self.texts, config, prefixes=self.prefixes)
        else:
            self.units = Units.whole(self.texts, self.prefixes)
        terms = sum(map(estimated_tokens, (*config.glossary, *config.glossary.values(), *config.forbid)))
        rows = max(1.0, (config.n_best if config.sample else config.beam_size) / BEAM)
        for number, (text, prefix) in enumerate(zip(self.units.texts, self.units.prefixes, strict=True)):
            length = self._tokens(text) + terms + (estimated_tokens(prefix) if prefix else 0)
            self.waiting.append(_Unit(self, number, text, prefix, length, int(length * rows)))

    def _tokens(self, text: str) -> int:
        """How many tokens a unit has: about, but counted where words are so long that each letter may be a token."""
        if len(text) <= LONG_WORDS * (1 + text.count(" ")) or not isinstance(self.translator, Translator):
            return estimated_tokens(text)
        return max(estimated_tokens(text), self.translator.count(text))

    def joined(self) -> list[Translation]:
        """The translations of the texts."""
        found = [self.found[number] for number in range(len(self.found))]
        return self.units.joined(found, self.config)


@dataclass(eq=False)
class _Unit:
    """A part of a text that is translated at once."""

    work: _Work
    number: int
    text: str
    prefix: str
    length: int
    """Tokens, about, with those of the prefix and of terms."""
    cost: int
    """As many tokens of units with `BEAM` hypotheses take as long."""
    stopped: bool = False
    """Whether a batch that it was in took too long."""

    @property
    def is_costly(self) -> bool:
        """Whether it is translated alone from the beginning.

        For terms that a client forbids, the whole vocabulary is searched after each new beginning of a translation. How
        long that takes is not known before, and a search is not stopped meanwhile.
        """
        forbidden = self.work.config.forbid
        return self.length > LONG or (bool(forbidden) and forbidden != self.work.translator.decoding.forbid)


class TranslationQueue:
    """A queue and the threads that empty it."""

    def __init__(self) -> None:
        self._waiting: deque[_Work] = deque()
        self._first: deque[Callable[[], None]] = deque()
        self._alone: dict[int, list[tuple[int, int, _Unit]]] = {BRIEF: [], LASTING: []}
        self._unsplit: list[tuple[int, int, _Work]] = []
        self._splitting: _Work | None = None
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._tokens, self._rate, self._size = 0, FIRST_RATE, BATCH
        self._short_had_theirs = False
        self._closing = False
        self._current: dict[int, list[_Unit]] = {BATCHES: [], BRIEF: [], LASTING: []}
        self._until = math.inf
        self._began = 0.0
        self._brake = Brake(len(self._current))
        self.batches = self.translated = 0
        self._threads = [
            threading.Thread(target=self._run, name="translating", daemon=True),
            threading.Thread(target=self._run_splitting, name="splitting", daemon=True),
            threading.Thread(target=self._run_alone, args=(BRIEF,), name="translating alone", daemon=True),
            threading.Thread(target=self._run_alone, args=(LASTING,), name="translating long", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def tokens(self) -> int:
        """Tokens that wait, about."""
        return self._tokens

    def watch(self, translator: Translator) -> None:
        """Stop what this translator does when nobody waits for it, or others too long; before its workers start."""
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
            if self._closing or (wait > LONGEST_WAIT and self._number_waiting() >= FEW):
                raise QueueFull(max(1, math.ceil(wait - LONGEST_WAIT)))
            self._tokens += tokens
            if tokens > BRIEFLY_SPLIT:
                heapq.heappush(self._unsplit, (tokens, next(self._numbers), work))
            else:
                self._waiting.append(work)
                self._limit_turn()
            self._changed.notify_all()
        work.future.add_done_callback(self._stop_if_unneeded)
        if not texts:
            work.future.set_result([])
        return work.future

    def _limit_turn(self) -> None:
        """Have the batch that is computed stop in time for those that wait."""
        until = self._began + LONGEST_TURN
        if self._current[BATCHES] and until < self._until:
            self._until = until
            self._brake.stop(BATCHES, until)

    def _stop_if_unneeded(self, future: Future[list[Translation]]) -> None:
        with self._changed:
            for lane, units in self._current.items():
                if units and all(unit.work.future.done() for unit in units):
                    self._brake.stop(lane)

    def _wait(self, tokens: int) -> float:
        """Seconds of the work of others that comes before so many tokens are translated."""
        if tokens <= self._size // 2:
            # What is as short comes before it, and of the rest as much, for every second batch is of that. What is a
            # little longer comes after it, but somebody waits for that, too.
            short = [other.left for other in self._waiting if other.left <= self._size // 2]
            return max(2 * sum(left for left in short if left <= tokens), sum(short) / PATIENCE) / self._rate
        # Each takes its turn: of a long one, a part as long as this one comes before it.
        others = (*self._waiting, *(work for *_, work in self._unsplit))
        return sum(min(other.left, tokens + BATCH) for other in others) / self._rate

    def _number_waiting(self) -> int:
        return len(self._waiting) + len(self._unsplit)

    def overload(self) -> int:
        """Seconds after which even a short text may be asked for again; 0 if it may be asked for now."""
        with self._changed:
            wait = self._wait(SHORT) - LONGEST_WAIT if self._number_waiting() >= FEW else 0.0
        return max(0, math.ceil(wait))

    def first(self, work: Callable[[], T]) -> T:
        """The result of `work`, such as loading models, which the thread that translates does before anything else.

        OpenMP keeps threads for each thread that computes. If there are more than processors, all of them become slow.
        """
        future = Future[T]()
        with self._changed:
            self._first.append(lambda: _done(future, work))
            self._changed.notify_all()
        return future.result()

    def close(self) -> None:
        """Take nothing more, and end the threads when all is done."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        """The lane of batches."""
        _stand_back(NICE)
        self._brake.enter(BATCHES)
        while batch := self._next_batch():
            first, started = batch[0].work, time.monotonic()
            try:
                found = _translated(first.translator, batch, first.config)
            except Stopped:
                self._put_back(batch)
            except BaseException as error:
                self._failed(batch, error)
            else:
                self._give(BATCHES, batch, found, time.monotonic() - started)
        with self._changed:
            self._changed.notify_all()

    def _run_alone(self, lane: int) -> None:
        """A lane of units alone, the shortest first, each on one thread."""
        _stand_back(NICE + 5)
        self._brake.enter(lane)
        while unit := self._next_alone(lane):
            _use_one_thread()
            work = unit.work
            translator = copy.copy(work.translator)
            translator.workers = None
            try:
                found = _translated(translator, [unit], work.config)
            except Stopped:
                with self._changed:
                    self._current[lane] = []
                    self._set_aside(LASTING, unit)
            except BaseException as error:
                self._failed([unit], error, lane)
            else:
                self._give(lane, [unit], found)

    def _next_batch(self) -> list[_Unit]:
        """The units that are translated next; empty at the end."""
        while True:
            with self._changed:
                while not (self._first or self._waiting or self._is_ending()):
                    self._changed.wait()
                while self._first:
                    self._first.popleft()()
                self._drop_dead()
                work = next((work for work in self._waiting if work.units is None), None)
                if work is None:
                    batch = self._filled_batch()
                    if batch or (self._is_ending() and not self._waiting):
                        return batch
            if work is not None:
                self._split(work)

    def _is_ending(self) -> bool:
        """Whether nothing more will come to wait."""
        return self._closing and not (self._unsplit or self._splitting)

    def _run_splitting(self) -> None:
        """Split long texts beside the batches, the shortest first."""
        _stand_back(NICE + 5)
        while True:
            with self._changed:
                while not (self._unsplit or self._closing):
                    self._changed.wait()
                if not self._unsplit:
                    return
                *_, work = heapq.heappop(self._unsplit)
                if self._is_dead(work, time.monotonic()):
                    self._tokens -= work.left
                    continue
                self._splitting = work
            self._split(work)
            with self._changed:
                self._splitting = None
                self._changed.notify_all()

    def _split(self, work: _Work) -> None:
        """Split a work and have its units wait."""
        try:
            work.split()
        except BaseException as error:
            _fail(work, error)
            work.units = Units.whole([], [])
        with self._changed:
            if work in self._waiting:
                self._waiting.remove(work)
            tokens = sum(unit.cost for unit in work.waiting)
            self._tokens += tokens - work.left
            work.left = tokens
            for unit in work.waiting:
                if unit.is_costly:
                    self._set_aside(BRIEF, unit)
            work.waiting = deque(unit for unit in work.waiting if not unit.is_costly)
            if work.waiting:
                self._waiting.append(work)
                self._limit_turn()
        if not work.units.texts:  # nothing in them is translated
            with suppress(InvalidStateError):  # nobody waits any more
                work.future.set_result(work.joined())

    def _filled_batch(self) -> list[_Unit]:
        """Units of the works that wait, as many as should be translated at once: of short ones, or of each in turn."""
        batch = [] if self._short_had_theirs else self._short_works()
        self._short_had_theirs = bool(batch)
        batch = batch or self._turns()
        if batch:
            self._current[BATCHES], self._began = batch, time.monotonic()
            self._until = max(unit.work.deadline for unit in batch)
            self._brake.begin(BATCHES, self._until)
            works = {unit.work for unit in batch}
            if any(work not in works for work in self._waiting):
                self._limit_turn()
        return batch

    def _short_works(self) -> list[_Unit]:
        """Works that fit into half a batch, the shortest first."""
        batch: list[_Unit] = []
        room = self._size // 2
        for work in sorted(self._waiting, key=lambda work: work.left):
            if batch and work.key != batch[0].work.key:
                continue
            needed = sum(unit.cost for unit in work.waiting)
            if needed > room:
                break
            room -= needed
            batch += work.waiting
            work.waiting.clear()
        self._waiting = deque(work for work in self._waiting if work.waiting)
        return batch

    def _turns(self) -> list[_Unit]:
        """A batch of the works in their order, which go to the end with what is left of them."""
        batch: list[_Unit] = []
        room, kept, taken = self._size, [], []
        while self._waiting and room > 0:
            work = self._waiting.popleft()
            if batch and work.key != batch[0].work.key:
                kept.append(work)
                continue
            if not batch or work.waiting[0].cost <= room:
                taken.append(work)
            else:
                kept.append(work)
            while work.waiting and (not batch or work.waiting[0].cost <= room):
                unit = work.waiting.popleft()
                room -= unit.cost
                batch.append(unit)
            if taken and taken[-1] is work and work.waiting:
                break
        self._waiting.extendleft(reversed(kept))
        self._waiting.extend(work for work in taken if work.waiting)
        return batch

    def _next_alone(self, lane: int) -> _Unit | None:
        """The unit that a lane translates next; None at the end."""
        with self._changed:
            while True:
                while self._alone[lane]:
                    *_, unit = heapq.heappop(self._alone[lane])
                    work, now = unit.work, time.monotonic()
                    if self._is_dead(work, now):
                        self._forget(unit)
                        continue
                    until = work.deadline if lane == LASTING else min(work.deadline, now + ALONE)
                    self._current[lane] = [unit]
                    self._brake.begin(lane, until)
                    return unit
                if self._closing and not (self._waiting or any(self._current.values()) or any(self._alone.values())):
                    return None
                self._changed.wait()

    def _set_aside(self, lane: int, unit: _Unit) -> None:
        """Let a unit be translated alone."""
        heapq.heappush(self._alone[lane], (unit.cost, next(self._numbers), unit))
        self._changed.notify_all()

    def _put_back(self, batch: list[_Unit]) -> None:
        """Do the units of a batch again that took too long: in smaller batches, or those that were stopped before
        alone."""
        with self._changed:
            self._current[BATCHES] = []
            self._size = max(SMALLEST_BATCH, self._size // 4)
            for unit in reversed(batch):
                if unit.stopped or len(batch) == 1:
                    self._set_aside(BRIEF, unit)
                    continue
                unit.stopped = True
                unit.work.waiting.appendleft(unit)
                if unit.work not in self._waiting:
                    self._waiting.appendleft(unit.work)
            self._changed.notify_all()

    def _failed(self, batch: list[_Unit], error: BaseException, lane: int = BATCHES) -> None:
        """Tell the one whose text it was; of several, each is translated alone."""
        with self._changed:
            self._current[lane] = []
            for unit in batch:
                if len(batch) > 1:
                    self._set_aside(BRIEF, unit)
                else:
                    _fail(unit.work, error)
                    self._forget(unit)
            self._changed.notify_all()

    def _is_dead(self, work: _Work, now: float) -> bool:
        """Whether nobody waits for a work any more, or its time is over, which is then said."""
        if not work.future.done() and now < work.deadline:
            return False
        _fail(work, DeadlinePassed())
        self._changed.notify_all()  # whoever asks takes it away, which may be what other threads wait for to end
        return True

    def _forget(self, unit: _Unit) -> None:
        """Count a unit no more."""
        self._tokens -= unit.cost
        unit.work.left -= unit.cost

    def _drop_dead(self) -> None:
        """Leave out what nobody waits for any more."""
        now, alive = time.monotonic(), deque[_Work]()
        for work in self._waiting:
            if not self._is_dead(work, now):
                alive.append(work)
                continue
            dropped = work.left if work.units is None else sum(unit.cost for unit in work.waiting)
            self._tokens -= dropped
            work.left -= dropped
            work.waiting.clear()
        self._waiting = alive

    def _give(self, lane: int, batch: list[_Unit], found: list[Translation], seconds: float | None = None) -> None:
        """Hand out what was translated; `seconds` are those that a batch took."""
        done = []
        with self._changed:
            self._current[lane] = []
            self.batches += 1
            self.translated += len(found)
            if seconds is not None:
                self._measure(sum(unit.cost for unit in batch), seconds)
            for unit, translation in zip(batch, found, strict=True):
                self._forget(unit)
                unit.work.found[unit.number] = translation
                if len(unit.work.found) == len(unit.work.units.texts):
                    done.append(unit.work)
            self._changed.notify_all()
        # Without the lock, for which the thread would wait that is told of the results.
        for work in done:
            with suppress(InvalidStateError):  # nobody waits any more
                work.future.set_result(work.joined())

    def _measure(self, cost: int, seconds: float) -> None:
        """Learn from a batch how fast the machine is, and how large batches may be."""
        self._rate += 0.2 * (cost / max(seconds, 1e-3) - self._rate)
        if seconds > TURN:
            self._size = max(SMALLEST_BATCH, int(min(self._size, cost) * TURN / seconds))
        elif cost > self._size // 2:
            self._size = min(BATCH, self._size * 3 // 2)


def _translated(translator: Translator, units: list[_Unit], config: DecodingConfig) -> list[Translation]:
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


def _stand_back(nice: int) -> None:
    if sys.platform == "linux":  # where this is for one thread, and for the threads and processes that it starts
        os.nice(nice)


def _done(future: Future[T], work: Callable[[], T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)


def _fail(work: _Work, error: BaseException) -> None:
    with suppress(InvalidStateError):
        work.future.set_exception(error)
