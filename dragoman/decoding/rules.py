"""Rules over a `Stepper`: what a translation must begin with, and which tokens may not come next.

Any search can be put under rules, since only the log-probabilities change: those of banned tokens are -inf.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dragoman.decoding.search import Stepper

Ban = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
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
        end: int | None = None,
        given: int = 0,
    ):
        """`prefixes` holds the tokens that each sentence begins with, perhaps none; no ban applies to them. The first
        `given` ones, such as that of a language, are certain: their log-probability is 0.

        With `end`, the id of the end of sentence, a sentence must end when the guard has banned the most probable token
        of its best hypothesis, its first row, `PATIENCE` times: it would only repeat itself in other ways until the
        length limit.
        """
        self.stepper, self.bans, self.guard, self.end, self.given = stepper, bans, guard, end, given
        self.stops = torch.zeros(len(prefixes), dtype=torch.long)
        """How often the guard has stopped the best hypothesis of each sentence."""
        self.sentences = torch.arange(len(prefixes))
        """The sentence of each row."""
        self.history = torch.empty(len(prefixes), 0, dtype=torch.long)  # (rows, length)
        self.prefixes = pad_sequence(
            [torch.tensor(ids, dtype=torch.long) for ids in prefixes], batch_first=True, padding_value=-1
        )

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        log_probs = self.stepper.step(tokens)
        position = self.history.size(1)
        self.history = torch.cat([self.history, tokens[:, None]], dim=1)
        forced = self.prefixes[self.sentences, position] if position < self.prefixes.size(1) else None
        if self.guard is not None:
            self._end_loops(log_probs, *_where_free(forced, *self.guard(self.history, self.sentences)))
        for ban in self.bans:
            log_probs[_where_free(forced, *ban(self.history, self.sentences))] = -torch.inf
        if forced is not None:
            rows, tokens = (forced >= 0).nonzero().flatten(), forced[forced >= 0]
            _allow_only(log_probs, rows, tokens)
            if position < self.given:
                log_probs[rows, tokens] = 0.0
        return log_probs

    def reorder(self, rows: Int[Tensor, " kept"]) -> None:
        self.stepper.reorder(rows)
        self.sentences, self.history = self.sentences[rows], self.history[rows]

    def _end_loops(self, log_probs: Tensor, rows: Tensor, banned: Tensor) -> None:
        """Ban tokens that would repeat a phrase, and end the sentences that would go on to repeat themselves."""
        if not len(rows):
            return
        is_best = torch.ones_like(self.sentences, dtype=torch.bool)
        is_best[1:] = self.sentences[1:] != self.sentences[:-1]
        is_stopped = (log_probs[rows].argmax(1).cpu() == banned) & is_best[rows]
        self.stops[self.sentences[rows[is_stopped]]] += 1
        log_probs[rows, banned] = -torch.inf
        if self.end is not None:
            hopeless = (self.stops[self.sentences] >= PATIENCE).nonzero().flatten()
            _allow_only(log_probs, hopeless, torch.full_like(hopeless, self.end))


def _where_free(forced: Tensor | None, rows: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Indices into (rows, vocab), restricted to rows without a forced token; `forced` has -1 or the token of each."""
    free = slice(None) if forced is None else forced[rows] < 0
    return rows[free], tokens[free]


def _allow_only(log_probs: Tensor, rows: Tensor, tokens: Tensor) -> None:
    """Ban all tokens of each of these rows but one."""
    kept = log_probs[rows, tokens]
    log_probs[rows] = -torch.inf
    log_probs[rows, tokens] = kept


class RepetitionGuard:
    """Bans the token that would repeat a phrase, of any length, more often in a row than its sentence may, or three
    tokens more often anywhere."""

    def __init__(self, copies: Sequence[int], times: Sequence[int]):
        """For each sentence how often a phrase may occur in a row, 2 or more, and three tokens anywhere."""
        self.copies, self.times = torch.tensor(copies), torch.tensor(times)
        self.different_copies, self.fewest_times = sorted(set(copies)), min(times)

    def __call__(self, history: Int[Tensor, "rows length"], sentences: Int[Tensor, " rows"]) -> tuple[Tensor, Tensor]:
        bans = [*self._in_a_row(history, sentences), *self._anywhere(history, sentences)]
        if not bans:
            return _NONE, _NONE
        rows, tokens = zip(*bans, strict=True)
        return torch.cat(rows), torch.cat(tokens)

    def _in_a_row(self, history: Tensor, sentences: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Bans on one copy too many of a phrase in a row."""
        for copies in self.different_copies:
            longest = history.size(1) // (copies + 1)
            # A phrase of n tokens only repeats if the last token also occurred n tokens before, which is rare.
            recurs = (history[:, -1 - longest : -1] == history[:, -1:]).any(0)
            for size in (longest - recurs.nonzero().flatten()).tolist():
                # With the token `size` before the next, these would be one copy too many.
                tail = history[:, -((copies + 1) * size - 1) :]
                is_periodic = (tail[:, size:] == tail[:, :-size]).all(1) & (self.copies[sentences] == copies)
                rows = is_periodic.nonzero().flatten()
                yield rows, history[rows, -size]

    def _anywhere(self, history: Tensor, sentences: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Bans on the third of three tokens that occur often enough, wherever they are."""
        # Where the last two tokens occurred before; few pairs have occurred several times.
        occurs = (history[:, :-2] == history[:, -2:-1]) & (history[:, 1:-1] == history[:, -1:])
        for row in (occurs.sum(1) >= self.fewest_times).nonzero().flatten().tolist():
            following = history[row, 2:][occurs[row]]
            tokens, counts = following.unique(return_counts=True)
            tokens = tokens[counts >= self.times[sentences[row]]]
            yield torch.full_like(tokens, row), tokens


_NONE = torch.empty(0, dtype=torch.long)


class Never:
    """Bans a token everywhere."""

    def __init__(self, token: int):
        self.token = token

    def __call__(self, history: Int[Tensor, "rows length"], sentences: Int[Tensor, " rows"]) -> tuple[Tensor, Tensor]:
        rows = torch.arange(len(history))
        return rows, torch.full_like(rows, self.token)


class SlotLimits:
    """Bans each slot for a placeholder once a translation has it as often as the source."""

    def __init__(self, slots: Sequence[int], limits: Sequence[Sequence[int]]):
        """`limits` holds for each sentence how often each of the `slots` may come."""
        self.slots, self.limits = torch.tensor(slots), torch.tensor(limits)

    def __call__(self, history: Int[Tensor, "rows length"], sentences: Int[Tensor, " rows"]) -> tuple[Tensor, Tensor]:
        used = (history[:, :, None] == self.slots).sum(1)
        rows, columns = (used >= self.limits[sentences]).nonzero().unbind(1)
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
        self.continued = torch.tensor([len(token) - len(rest) for token, rest in zip(tokens, rests, strict=True)])
        """Number of bytes at the beginning of each token that continue a character."""
        self.begins = torch.tensor([bool(rest) or not token for token, rest in zip(tokens, rests, strict=True)])
        """Whether each token begins a character, or is special."""
        self.open = torch.tensor([_open_bytes(rest) for rest in rests])
        """Number of bytes that the last character of each token lacks."""

    def __call__(self, history: Int[Tensor, "rows length"], sentences: Int[Tensor, " rows"]) -> tuple[Tensor, Tensor]:
        needed = torch.zeros_like(sentences)  # bytes that the last character of each row lacks
        for tokens in history[:, -4:].unbind(1):  # a character has four bytes at most
            needed = torch.where(self.begins[tokens], self.open[tokens], needed - self.continued[tokens])
        fits = torch.where(self.begins, self.continued == needed[:, None], self.continued <= needed[:, None])
        rows, tokens = (~fits).nonzero().unbind(1)
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
