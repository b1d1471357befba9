"""Rules over a `Stepper`: what a translation must begin with, and which tokens may not come next.

Any search can be put under rules, since only the log-probabilities change: those of banned tokens are -inf.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from dragoman.engine.engine import Stepper
from dragoman.engine.log_probs import LogProbs, Rows, Tokens
from dragoman.engine.shapes import Int
from dragoman.native import library

Ban = Callable[[np.ndarray, np.ndarray], tuple[Rows, Tokens]]
"""Function of the begin of sentence and the tokens so far (rows, length), and of the sentence of each row (rows).

It returns pairs: the rows in which a token may not come next (bans), and these tokens (bans).
"""

LONGEST_PHRASE = 32
"""Most tokens of a phrase whose copies are counted in a source; longer ones are no figure of speech."""
PATIENCE = 2
"""Number of times that the guard stops the best hypothesis of a sentence before the sentence must end."""


class RuledStepper:
    """A `Stepper` that applies rules to the log-probabilities of another; the first token is the begin of sentence."""

    def __init__(
        self,
        stepper: Stepper,
        *,
        prefixes: list[list[int]],
        bans: Sequence[Ban] = (),
        guard: "RepetitionGuard | None" = None,
        floors: Sequence[int] = (),
        end: int | None = None,
        given: int = 0,
    ):
        """`prefixes` holds the tokens that each sentence begins with, perhaps none; no ban applies to them. The first
        `given` ones, such as that of a language, are certain: their log-probability is 0.

        With `end`, the id of the end of sentence, a sentence must end when the guard has banned the most probable token
        of its best hypothesis, its first row, `PATIENCE` times: it would only repeat itself in other ways until the
        length limit. With `floors` as well, no other sentence ends before it has so many tokens.
        """
        self.stepper, self.bans, self.guard, self.end, self.given = stepper, bans, guard, end, given
        self.floors = np.array(floors, np.int64)
        self.stops = np.zeros(len(prefixes), np.int64)
        """How often the guard has stopped the best hypothesis of each sentence."""
        self.sentences = np.arange(len(prefixes))
        """The sentence of each row."""
        self.history = np.empty((len(prefixes), 0), np.int64)
        """The tokens of each row, from the begin of sentence on, (rows, length)."""
        self.prefixes = np.full((len(prefixes), max(map(len, prefixes), default=0)), -1)
        """The tokens that each sentence begins with, filled up with -1."""
        for row, ids in enumerate(prefixes):
            self.prefixes[row, : len(ids)] = ids

    def step(self, tokens: Int[np.ndarray, " rows"]) -> LogProbs:
        log_probs = self.stepper.step(tokens)
        position = self.history.shape[1]
        self.history = np.concatenate([self.history, tokens[:, None]], axis=1)
        if self.end is not None and len(self.floors):
            # What the guard has found to be hopeless has to end all the same.
            too_short = (position < self.floors[self.sentences]) & (self.stops[self.sentences] < PATIENCE - 1)
            rows = np.flatnonzero(too_short)
            log_probs.ban(rows, np.full_like(rows, self.end))
        forced = self.prefixes[self.sentences, position] if position < self.prefixes.shape[1] else None
        if self.guard is not None:
            self._end_loops(log_probs, *_where_free(forced, *self.guard(self.history, self.sentences)))
        for ban in self.bans:
            log_probs.ban(*_where_free(forced, *ban(self.history, self.sentences)))
        if forced is not None:
            rows = np.flatnonzero(forced >= 0)
            log_probs.allow_only(rows, forced[rows])
            if position < self.given:
                log_probs.put(rows, forced[rows], 0.0)
        return log_probs

    def reorder(self, rows: Int[np.ndarray, " kept"]) -> None:
        self.stepper.reorder(rows)
        self.sentences, self.history = self.sentences[rows], self.history[rows]

    def _end_loops(self, log_probs: LogProbs, rows: Rows, banned: Tokens) -> None:
        """Ban tokens that would repeat a phrase, and end the sentences that would go on to repeat themselves."""
        if not len(rows):
            return
        is_best = np.ones(len(self.sentences), bool)
        is_best[1:] = self.sentences[1:] != self.sentences[:-1]
        is_stopped = (log_probs.likeliest(rows) == banned) & is_best[rows]
        self.stops[self.sentences[rows[is_stopped]]] += 1
        log_probs.ban(rows, banned)
        if self.end is not None:
            hopeless = np.flatnonzero(self.stops[self.sentences] >= PATIENCE)
            log_probs.allow_only(hopeless, np.full_like(hopeless, self.end))


def _where_free(forced: Int[np.ndarray, " all"] | None, rows: np.ndarray, tokens: np.ndarray) -> tuple[Rows, Tokens]:
    """Indices into (rows, vocab), restricted to rows without a forced token; `forced` has -1 or the token of each."""
    if forced is None:
        return rows, tokens
    is_free = forced[rows] < 0
    return rows[is_free], tokens[is_free]


class RepetitionGuard:
    """Bans the token that would repeat a phrase, of any length, more often in a row than its sentence may, or three
    tokens more often anywhere."""

    def __init__(self, copies: Sequence[int], times: Sequence[int]):
        """For each sentence how often a phrase may occur in a row, 2 or more, and three tokens anywhere."""
        self.copies, self.times = np.array(copies, np.int64), np.array(times, np.int64)
        self.different_copies, self.fewest_times = sorted(set(copies)), min(times)

    def __call__(
        self, history: Int[np.ndarray, "rows length"], sentences: Int[np.ndarray, " rows"]
    ) -> tuple[Rows, Tokens]:
        return (self._compiled if library.compiled() else self.formula)(history, sentences)

    def _compiled(self, history: np.ndarray, sentences: np.ndarray) -> tuple[Rows, Tokens]:
        history = np.ascontiguousarray(history)
        numbers = self.copies[sentences], self.times[sentences]
        bans = np.empty((2, 2 * history.size), np.int64)
        pointers = [array.ctypes.data for array in (*numbers, *bans)]
        count = library.functions.repetitions(history.ctypes.data, *history.shape, *pointers)
        rows, tokens = bans[:, :count]
        return rows, tokens

    def formula(self, history: np.ndarray, sentences: np.ndarray) -> tuple[Rows, Tokens]:
        """The same in numpy."""
        bans = [*self._in_a_row(history, sentences), *self._anywhere(history, sentences)]
        if not bans:
            return _NONE, _NONE
        rows, tokens = zip(*bans, strict=True)
        return np.concatenate(rows), np.concatenate(tokens)

    def _in_a_row(self, history: np.ndarray, sentences: np.ndarray) -> Iterator[tuple[Rows, Tokens]]:
        """Bans on one copy too many of a phrase in a row."""
        for copies in self.different_copies:
            longest = history.shape[1] // (copies + 1)
            # A phrase of n tokens only repeats if the last token also occurred n tokens before, which is rare.
            recurs = (history[:, -1 - longest : -1] == history[:, -1:]).any(axis=0)
            for size in (longest - np.flatnonzero(recurs)).tolist():
                # With the token `size` before the next, these would be one copy too many.
                tail = history[:, -((copies + 1) * size - 1) :]
                is_periodic = (tail[:, size:] == tail[:, :-size]).all(axis=1) & (self.copies[sentences] == copies)
                rows = np.flatnonzero(is_periodic)
                yield rows, history[rows, -size]

    def _anywhere(self, history: np.ndarray, sentences: np.ndarray) -> Iterator[tuple[Rows, Tokens]]:
        """Bans on the third of three tokens that occur often enough, wherever they are."""
        # Where the last two tokens occurred before; few pairs have occurred several times.
        occurs = (history[:, :-2] == history[:, -2:-1]) & (history[:, 1:-1] == history[:, -1:])
        for row in np.flatnonzero(occurs.sum(axis=1) >= self.fewest_times).tolist():
            tokens, counts = np.unique(history[row, 2:][occurs[row]], return_counts=True)
            tokens = tokens[counts >= self.times[sentences[row]]]
            yield np.full_like(tokens, row), tokens


_NONE = np.empty(0, np.int64)


class Never:
    """Bans a token everywhere."""

    def __init__(self, token: int):
        self.token = token

    def __call__(
        self, history: Int[np.ndarray, "rows length"], sentences: Int[np.ndarray, " rows"]
    ) -> tuple[Rows, Tokens]:
        rows = np.arange(len(history))
        return rows, np.full_like(rows, self.token)


class SlotLimits:
    """Bans each slot for a placeholder once a translation has it as often as the source."""

    def __init__(self, slots: Sequence[int], limits: Sequence[Sequence[int]]):
        """`limits` holds for each sentence how often each of the `slots` may come."""
        self.slots, self.limits = np.array(slots), np.array(limits)

    def __call__(
        self, history: Int[np.ndarray, "rows length"], sentences: Int[np.ndarray, " rows"]
    ) -> tuple[Rows, Tokens]:
        used = (history[:, :, None] == self.slots).sum(axis=1)
        rows, columns = (used >= self.limits[sentences]).nonzero()
        return rows, self.slots[columns]


def most_copies(ids: Sequence[int]) -> int:
    """How often, at most, a phrase of these tokens occurs in a row; 1 if nothing is repeated at once."""
    most = 1
    for size in range(1, min(len(ids) // 2, LONGEST_PHRASE) + 1):
        run = 0
        for index in range(size, len(ids)):
            run = run + 1 if ids[index] == ids[index - size] else 0
            most = max(most, run // size + 1)
    return most


def most_times(ids: Sequence[int]) -> int:
    """How often, at most, the same three tokens occur one after another."""
    return max(Counter(zip(ids, ids[1:], ids[2:], strict=False)).values(), default=0)


class WholeCharacters:
    """Bans tokens that begin or continue inside a character where none is open, or leave an open one unfinished."""

    def __init__(self, tokens: Sequence[bytes]):
        """`tokens` are the bytes of each token of the vocabulary, none for special tokens."""
        # In UTF-8, the bytes 0x80 to 0xBF continue a character.
        rests = [token.lstrip(bytes(range(0x80, 0xC0))) for token in tokens]
        self.continued = np.array([len(token) - len(rest) for token, rest in zip(tokens, rests, strict=True)])
        """Number of bytes at the beginning of each token that continue a character."""
        self.begins = np.array([bool(rest) or not token for token, rest in zip(tokens, rests, strict=True)])
        """Whether each token begins a character, or is special."""
        self.open = np.array([_open_bytes(rest) for rest in rests])
        """Number of bytes that the last character of each token lacks."""

    def __call__(
        self, history: Int[np.ndarray, "rows length"], sentences: Int[np.ndarray, " rows"]
    ) -> tuple[Rows, Tokens]:
        needed = np.zeros_like(sentences)  # bytes that the last character of each row lacks
        for tokens in history[:, -4:].T:  # a character has four bytes at most
            needed = np.where(self.begins[tokens], self.open[tokens], needed - self.continued[tokens])
        fits = np.where(self.begins, self.continued == needed[:, None], self.continued <= needed[:, None])
        rows, tokens = (~fits).nonzero()
        return rows, tokens


def _open_bytes(token: bytes) -> int:
    """Number of bytes that the last character of a token lacks."""
    for count, byte in enumerate(reversed(token), start=1):
        if byte < 0x80:  # ASCII
            break
        if byte >= 0xC0:  # the first byte of a character, which tells its length
            length = 2 + (byte >= 0xE0) + (byte >= 0xF0)
            return length - count
    return 0
