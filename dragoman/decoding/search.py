"""Greedy and beam search over a `Stepper`. Knows tokens and log-probabilities, no model.

Rows are hypotheses. Those of one sentence are adjacent, and finished sentences leave the batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol, Self, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class Stepper(Protocol):
    """Decodes a batch step by step: all that a search knows of a model."""

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Add a token to each row; return the log-probabilities of the next, which the caller may overwrite."""
        ...

    def reorder(self, rows: Int[Tensor, " kept"]) -> None:
        """Keep these rows, in this order; a row may be kept several times, in equal numbers for each sentence."""
        ...


@dataclass(frozen=True)
class Hypothesis:
    """One translation as token ids, without begin and end of sentence."""

    tokens: list[int]
    log_prob: float
    """Sum over its tokens and the end of sentence, in nats."""
    score: float
    """`log_prob`, divided by its length to the power of the length penalty: what search ranks by."""
    finished: bool = True
    """False if it was truncated at the length limit."""


def rank(hypothesis: Hypothesis) -> tuple[bool, float]:
    """Key that sorts hypotheses, best first; truncated ones come last."""
    return not hypothesis.finished, -hypothesis.score


def length_limit(source: Sequence[int]) -> int:
    """Most tokens of a translation, besides those that it has to begin with."""
    return 2 * len(source) + 20


@dataclass(frozen=True)
class SearchOptions:
    """Length limits, special tokens and length penalty of a search."""

    max_lengths: list[int]
    """Most tokens of each sentence's translation, end of sentence included."""
    bos_id: int
    eos_id: int
    length_penalty: float = 1.0
    """Scores are log-probabilities divided by the length to this power."""

    def hypothesis(self, tokens: list[int], log_prob: float, finished: bool) -> Hypothesis:
        """The hypothesis of these tokens with its score."""
        length = len(tokens) + finished
        return Hypothesis(tokens, log_prob, log_prob / length**self.length_penalty, finished)


Choice = Callable[[Tensor, Tensor, int], Tensor]
"""From log-probabilities (rows, vocab), the sentence of each row and the position: a token for each row."""


def most_probable(log_probs: Tensor, sentences: Tensor, position: int) -> Tensor:
    """The choice of greedy search: as `argmax`, some five times as fast on a CPU."""
    blocks = _in_blocks(log_probs)  # (rows, blocks, block size)
    size = blocks.size(2)
    best_block = blocks.amax(-1).argmax(-1, keepdim=True)  # (rows, 1)
    scores = blocks.gather(1, best_block[:, :, None].expand(-1, -1, size))[:, 0]  # (rows, block size)
    return best_block[:, 0] * size + scores.argmax(-1)


@torch.inference_mode()
def greedy_search(stepper: Stepper, options: SearchOptions, choose: Choice = most_probable) -> list[list[Hypothesis]]:
    """Take the most probable token, or the one that `choose` says, again and again: one hypothesis a sentence."""
    count = len(options.max_lengths)
    results: list[list[Hypothesis]] = [[] for _ in range(count)]
    live, limits = torch.arange(count), torch.tensor(options.max_lengths)
    tokens = torch.full((count,), options.bos_id)
    history = torch.empty(count, 0, dtype=torch.long)
    totals = torch.zeros(count, dtype=torch.float64)
    while len(live):
        log_probs = stepper.step(tokens)
        chosen = choose(log_probs, live, history.size(1))
        totals += log_probs.gather(1, chosen[:, None])[:, 0].cpu()
        del log_probs  # before the next ones are computed
        tokens = chosen.cpu()
        history = torch.cat([history, tokens[:, None]], dim=1)
        ended = tokens == options.eos_id
        going_on = ~ended & (history.size(1) < limits)
        if going_on.all():
            continue
        for row in (~going_on).nonzero().flatten().tolist():
            finished = bool(ended[row])
            ids = history[row].tolist()[: history.size(1) - finished]
            results[live[row]].append(options.hypothesis(ids, float(totals[row]), finished))
        live, limits, tokens, history, totals = (t[going_on] for t in (live, limits, tokens, history, totals))
        if len(live):
            stepper.reorder(going_on.nonzero().flatten())
    return results


@torch.inference_mode()
def beam_search(stepper: Stepper, beams: "Beams") -> list[list[Hypothesis]]:
    """Advance `beams` until all sentences are done; returns the hypotheses of each sentence, best first."""
    first = torch.full((len(beams.state.sentences),), beams.options.bos_id)
    # The first step has one row for each sentence; from here on each has `beam_size`.
    rows, tokens = beams.advance(stepper.step(first)[:, None])
    while len(rows):
        stepper.reorder(rows)
        # Without a name: the log-probabilities of one step are gone before the next ones are computed.
        rows, tokens = beams.advance(stepper.step(tokens).unflatten(0, (-1, beams.beam_size)))
    return beams.results()


@dataclass
class BeamState:
    """The live prefixes of a beam search, for the sentences that are not done.

    Each sentence has one empty prefix before the first step, and `beam_size` prefixes after every step.
    """

    sentences: Int[Tensor, " live"]
    """Index of each sentence in the batch, in rising order."""
    limits: Int[Tensor, " live"]
    """Most tokens of each sentence's translation, end of sentence included."""
    score_to_beat: Float[Tensor, " live"]
    """A prefix has to score above this for its sentence to be searched on; -inf until enough hypotheses have ended."""
    totals: Float[Tensor, "live beam"]
    """Log-probability of each prefix in nats, as float64; -inf for an impossible one that only fills up the beam."""
    history: Int[Tensor, "live beam length"]
    """Tokens of each prefix, without the begin of sentence."""

    @classmethod
    def initial(cls, max_lengths: Sequence[int]) -> Self:
        """An empty prefix for each sentence."""
        count = len(max_lengths)
        return cls(
            sentences=torch.arange(count),
            limits=torch.tensor(max_lengths, dtype=torch.long),
            score_to_beat=torch.full((count,), -torch.inf, dtype=torch.float64),
            totals=torch.zeros(count, 1, dtype=torch.float64),
            history=torch.empty(count, 1, 0, dtype=torch.long),
        )

    @property
    def length(self) -> int:
        """Tokens of every prefix."""
        return self.history.size(2)

    def extend(self, parents: Tensor, tokens: Tensor, totals: Tensor) -> None:
        """Replace the prefixes by continuations: prefix `parents`, then `tokens`; all arguments are (live, beam)."""
        history = self.history.gather(1, parents[:, :, None].expand(-1, -1, self.length))
        self.history = torch.cat([history, tokens[:, :, None]], dim=2)
        self.totals = totals

    def keep(self, rows: Int[Tensor, " kept"]) -> None:
        """Keep the sentences in these rows and forget the others."""
        self.sentences = self.sentences[rows]
        self.limits = self.limits[rows]
        self.score_to_beat = self.score_to_beat[rows]
        self.totals = self.totals[rows]
        self.history = self.history[rows]


Ranking = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]
"""Function with the arguments and results of `best_continuations`."""


class Beams:
    """The `beam_size` best live prefixes of each sentence, and the hypotheses that have ended.

    A sentence is done when `beam_size` of its hypotheses have ended and no live prefix scores better than the worst of
    the `beam_size` best. At its length limit its live prefixes are hypotheses too, ranked after all that have ended.
    """

    def __init__(self, beam_size: int, options: SearchOptions, best: Ranking | None = None):
        """`best` is another way to do what `best_continuations` does."""
        self.beam_size, self.options = beam_size, options
        self.best = best or best_continuations
        self.ended: list[list[Hypothesis]] = [[] for _ in options.max_lengths]
        self.state = BeamState.initial(options.max_lengths)

    def candidates(self, log_probs: Float[Tensor, "live beam vocab"]) -> tuple[Tensor, Tensor]:
        """Twice as many continuations of each sentence as it has beams, the ones to prefer first.

        Returns their totals and their flat indices into (beam, vocab). Other kinds of beam search differ here.
        """
        return self.best(log_probs, self.state.totals, 2 * self.beam_size)

    def advance(self, log_probs: Float[Tensor, "live beam vocab"]) -> tuple[Tensor, Tensor]:
        """Take the best continuations; returns the rows to keep and the next token of each."""
        sentences, beam, vocab = log_probs.shape
        totals, candidates = self.candidates(log_probs)  # (live, 2 * beam_size)
        parents, tokens = candidates // vocab, candidates % vocab
        ends = (tokens == self.options.eos_id) & (totals > -torch.inf)
        rows, best = ends[:, : self.beam_size].nonzero().unbind(1)
        self._end(rows, self.state.history[rows, parents[rows, best]], totals[rows, best], finished=True)
        # At most half of the candidates end, so that `beam_size` prefixes are left.
        going_on = ends.to(torch.uint8).argsort(dim=1, stable=True)[:, : self.beam_size]
        parents, tokens = parents.gather(1, going_on), tokens.gather(1, going_on)
        self.state.extend(parents, tokens, totals.gather(1, going_on))
        kept = self._drop_done()
        rows = parents + torch.arange(sentences)[:, None] * beam
        return rows[kept].flatten(), tokens[kept].flatten()

    def needed(self, ended: list[Hypothesis]) -> float:
        """What the score of a live prefix has to exceed for the search to go on; `beam_size` or more have ended."""
        return sorted(h.score for h in ended)[-self.beam_size]

    def results(self) -> list[list[Hypothesis]]:
        """The best hypotheses of each sentence, best first."""
        return [sorted(group, key=rank)[: self.beam_size] for group in self.ended]

    def _end(self, rows: Tensor, histories: Tensor, totals: Tensor, *, finished: bool) -> None:
        """Record hypotheses: the live sentence, the tokens and the log-probability of each."""
        sentences = self.state.sentences[rows].tolist()
        for sentence, tokens, total in zip(sentences, histories.tolist(), totals.tolist(), strict=True):
            self.ended[sentence].append(self.options.hypothesis(tokens, total, finished))
        for row, sentence in dict(zip(rows.tolist(), sentences, strict=True)).items():
            if len(self.ended[sentence]) >= self.beam_size:
                self.state.score_to_beat[row] = self.needed(self.ended[sentence])

    def _drop_done(self) -> Tensor:
        """Forget the sentences that are done; returns the rows of the others."""
        state = self.state
        best_score = state.totals.amax(dim=1) / state.length**self.options.length_penalty
        is_complete = best_score <= state.score_to_beat
        is_truncated = ~is_complete & (state.limits <= state.length)
        if is_truncated.any():
            rows, beams = (is_truncated[:, None] & (state.totals > -torch.inf)).nonzero().unbind(1)
            self._end(rows, state.history[rows, beams], state.totals[rows, beams], finished=False)
        kept = (~(is_complete | is_truncated)).nonzero().flatten()
        state.keep(kept)
        return kept


def best_continuations(log_probs: Tensor, totals: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Totals of the `count` best continuations of each sentence, over its beam, and their indices into (beam, vocab).

    Where there are fewer, totals of -inf follow.
    """
    vocab, totals = log_probs.size(2), totals.to(log_probs.device)
    blocks = _in_blocks(log_probs)  # (live, beam, blocks, block size)
    number, size = blocks.shape[2:]
    # The best are in the blocks with the best maxima.
    maxima = (blocks.amax(3) + totals[:, :, None]).flatten(1)
    best_blocks = maxima.topk(min(count, maxima.size(1)), dim=1).indices
    inside = torch.arange(size, device=best_blocks.device)
    indices = (best_blocks[:, :, None] * size + inside).flatten(1)  # into (beam, blocks, block size)
    beams, tokens = indices // (number * size), indices % (number * size)
    values = blocks.flatten(1).gather(1, indices) + totals.gather(1, beams)
    indices = beams * vocab + tokens.clamp(max=vocab - 1)
    missing = count - indices.size(1)
    if missing > 0:
        values, indices = F.pad(values, (0, missing), value=-torch.inf), F.pad(indices, (0, missing))
    values, chosen = values.topk(count, dim=1)
    return values.cpu(), indices.gather(1, chosen).cpu()


def _in_blocks(scores: Tensor) -> Tensor:
    """The last dimension in blocks of some 25 scores; the last block is filled up with -inf.

    Most blocks need only their maximum. On a CPU, a maximum is far quicker than an argmax or a ranking.
    """
    vocab = scores.size(-1)
    size = _block_size(vocab)
    if vocab % size:
        scores = F.pad(scores, (0, -vocab % size), value=-torch.inf)
    return scores.unflatten(-1, (-1, size))


@cache
def _block_size(vocab: int) -> int:
    """The largest size from 32 down to 16 that divides the vocabulary, which needs no copy; else 25."""
    for size in range(32, 15, -1):
        if vocab % size == 0:
            return size
    return 25
