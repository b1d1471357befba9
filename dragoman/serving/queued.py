"""What waits in the queue of a server: requests, and the units that their texts are split into."""

import heapq
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.translation import Translation
from dragoman.decoding.translator import Translator
from dragoman.decoding.units import Units

T = TypeVar("T")
LONG = 600
"""Estimated tokens of a unit and its prefix from which it is never put into a batch but translated alone."""
LONG_WORDS = 12
"""Average letters of a word beyond which the tokens of a text are counted and not estimated."""
BEAM = 5
"""Hypotheses of each unit for which a batch has this size; with more, it has fewer units."""


def estimated_tokens(text: str) -> int:
    """Rough number of tokens of a text, from its length in bytes."""
    return 2 + len(text.encode(errors="surrogatepass")) // 4


@dataclass(eq=False)
class QueuedRequest:
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
    waiting: "deque[QueuedUnit]" = field(default_factory=deque)
    """Units that no lane has taken yet."""
    translations: dict[int, Translation] = field(default_factory=dict)
    """Translations of units by the units' numbers."""

    @cached_property
    def key(self) -> tuple[int, str]:
        """Model and search of the request. Units with the same key may share a batch."""
        if self.config is self.translator.decoding:  # the glossary of a server may be large
            return id(self.translator), ""
        return id(self.translator), self.config.model_copy(update={"split": True, "prefix": ""}).model_dump_json()

    @property
    def forbids(self) -> bool:
        """Whether the request forbids terms that the model's own search does not."""
        return bool(self.config.forbid) and self.config.forbid != self.translator.decoding.forbid

    @property
    def computes_in_threads(self) -> bool:
        """Whether several threads may translate with this model side by side, each on one processor thread."""
        return getattr(self.translator, "computes_in_threads", False)  # stand-ins may not say it

    def split(self) -> None:
        """Split the texts into units, which takes time for long ones."""
        config = self.config
        if isinstance(self.translator, Translator):
            self.units = self.translator.units(self.texts, config, prefixes=self.prefixes)
        else:
            self.units = Units.whole(self.texts, self.prefixes)
        forbidden = sum(map(estimated_tokens, config.forbid)) if self.forbids else 0
        hypotheses = config.n_best if config.sample else config.beam_size + config.mbr
        cost_of_token = max(1.0, hypotheses / BEAM)
        for number, (text, prefix) in enumerate(zip(self.units.texts, self.units.prefixes, strict=True)):
            tokens_of_prefix = estimated_tokens(prefix) if prefix else 0
            length = self._tokens(text) + self._term_tokens(text) + forbidden + tokens_of_prefix
            self.waiting.append(QueuedUnit(self, number, text, prefix, length=length, cost=int(length * cost_of_token)))

    def _tokens(self, text: str) -> int:
        """Estimated tokens of a unit. They are counted where words are so long that each letter may be a token."""
        if len(text) <= LONG_WORDS * (1 + text.count(" ")) or not isinstance(self.translator, Translator):
            return estimated_tokens(text)
        return max(estimated_tokens(text), self.translator.count(text))

    def _term_tokens(self, text: str) -> int:
        """Estimated tokens of the terms that the translation of a unit has to have."""
        if not self.config.glossary:
            return 0
        occurrences = self.translator.glossary(self.config).occurrences(text)
        return sum(estimated_tokens(occurrence.target) for occurrence in occurrences)

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
class QueuedUnit:
    """A part of a text, mostly a sentence, that is translated in one piece."""

    request: QueuedRequest
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
        return self.length > LONG or self.request.forbids


class ShortestFirst(Generic[T]):
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
