"""Greedy and beam search over a `Stepper`. Knows tokens and log-probabilities, no model.

Rows are hypotheses. Those of one sentence are adjacent, and finished sentences leave the batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class Stepper(Protocol):
    """What search needs to know of a model."""

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
    blocks = _in_blocks(log_probs)
    best = blocks.amax(-1).argmax(-1, keepdim=True)
    inside = blocks.gather(1, best[:, :, None].expand(-1, -1, blocks.size(2)))[:, 0].argmax(-1)
    return best[:, 0] * blocks.size(2) + inside


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
    first = torch.full((len(beams.live),), beams.options.bos_id)
    # The first step has one row for each sentence; from here on each has `beam_size`.
    rows, tokens = beams.advance(stepper.step(first)[:, None])
    while len(rows):
        stepper.reorder(rows)
        # Without a name: the log-probabilities of one step are gone before the next ones are computed.
        rows, tokens = beams.advance(stepper.step(tokens).unflatten(0, (-1, beams.beam_size)))
    return beams.results()


class Beams:
    """The `beam_size` best live prefixes of each sentence, and the hypotheses that have ended.

    A sentence is done when `beam_size` of its hypotheses have ended and no live prefix scores better than the worst of
    the `beam_size` best. At its length limit its live prefixes are hypotheses too, ranked after all that have ended.
    """

    def __init__(self, beam_size: int, options: SearchOptions, best: "Best | None" = None):
        """`best` is another way to do what `best_continuations` does."""
        count = len(options.max_lengths)
        self.beam_size, self.options, self.best = beam_size, options, best or best_continuations
        self.ended: list[list[Hypothesis]] = [[] for _ in range(count)]
        self.live, self.limits = torch.arange(count), torch.tensor(options.max_lengths)
        self.least = torch.full((count,), -torch.inf, dtype=torch.float64)
        """`needed` of each live sentence."""
        self.length = 0
        self.totals = torch.zeros(count, 1, dtype=torch.float64)  # (live, beam)
        self.history = torch.empty(count, 1, 0, dtype=torch.long)  # (live, beam, length)

    def candidates(self, log_probs: Float[Tensor, "live beam vocab"]) -> tuple[Tensor, Tensor]:
        """Twice as many continuations of each sentence as it has beams, the ones to prefer first.

        Returns their totals and their flat indices into (beam, vocab). Other kinds of beam search differ here.
        """
        return self.best(log_probs, self.totals, 2 * self.beam_size)

    def advance(self, log_probs: Float[Tensor, "live beam vocab"]) -> tuple[Tensor, Tensor]:
        """Take the best continuations; returns the rows to keep and the next token of each."""
        self.length += 1
        sentences, width, vocab = log_probs.shape
        totals, candidates = self.candidates(log_probs)
        parents, tokens = candidates // vocab, candidates % vocab
        ends = (tokens == self.options.eos_id) & (totals > -torch.inf)
        at, candidate = ends[:, : self.beam_size].nonzero().unbind(1)
        self._end(at, self.history[at, parents[at, candidate]], totals[at, candidate], finished=True)
        # At most half of the candidates end, so that `beam_size` prefixes are left.
        going_on = ends.to(torch.uint8).argsort(dim=1, stable=True)[:, : self.beam_size]
        totals, parents, tokens = (t.gather(1, going_on) for t in (totals, parents, tokens))
        self.totals = totals
        history = self.history.gather(1, parents[:, :, None].expand(-1, -1, self.history.size(2)))
        self.history = torch.cat([history, tokens[:, :, None]], dim=2)
        kept = self._drop_done()
        rows = parents + torch.arange(sentences)[:, None] * width
        return rows[kept].flatten(), tokens[kept].flatten()

    def needed(self, ended: list[Hypothesis]) -> float:
        """What the score of a live prefix has to exceed for the search to go on; `beam_size` or more have ended."""
        return sorted(h.score for h in ended)[-self.beam_size]

    def results(self) -> list[list[Hypothesis]]:
        """The best hypotheses of each sentence, best first."""
        return [sorted(group, key=rank)[: self.beam_size] for group in self.ended]

    def _end(self, sentences: Tensor, histories: Tensor, totals: Tensor, *, finished: bool) -> None:
        owners = self.live[sentences].tolist()
        for owner, tokens, total in zip(owners, histories.tolist(), totals.tolist(), strict=True):
            self.ended[owner].append(self.options.hypothesis(tokens, total, finished))
        for sentence, owner in dict(zip(sentences.tolist(), owners, strict=True)).items():
            if len(self.ended[owner]) >= self.beam_size:
                self.least[sentence] = self.needed(self.ended[owner])

    def _drop_done(self) -> Tensor:
        """Forget the sentences that are done; returns the indices of the others."""
        hope = self.totals.amax(dim=1) / self.length**self.options.length_penalty
        full = hope <= self.least
        cut = ~full & (self.limits <= self.length)
        if cut.any():
            at, beam = (cut[:, None] & (self.totals > -torch.inf)).nonzero().unbind(1)
            self._end(at, self.history[at, beam], self.totals[at, beam], finished=False)
        kept = (~(full | cut)).nonzero().flatten()
        self.live, self.limits, self.least, self.totals, self.history = (
            t[kept] for t in (self.live, self.limits, self.least, self.totals, self.history)
        )
        return kept


Best = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]
"""As `best_continuations`."""


def best_continuations(log_probs: Tensor, totals: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Totals of the `count` best continuations of each sentence, over its beam, and their indices into (beam, vocab).

    Where there are fewer, totals of -inf follow.
    """
    vocab, totals = log_probs.size(2), totals.to(log_probs.device)
    blocks = _in_blocks(log_probs)
    number, size = blocks.shape[2:]
    # The best are in the blocks with the best maxima.
    maxima = (blocks.amax(3) + totals[:, :, None]).flatten(1)
    best = maxima.topk(min(count, maxima.size(1)), dim=1).indices
    inside = torch.arange(size, device=best.device)
    indices = (best[:, :, None] * size + inside).flatten(1)
    values = blocks.flatten(1).gather(1, indices) + totals.gather(1, indices // (number * size))
    indices = indices // (number * size) * vocab + (indices % (number * size)).clamp(max=vocab - 1)
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
    size = next((n for n in range(32, 15, -1) if vocab % n == 0), 25)
    if vocab % size:
        scores = F.pad(scores, (0, -vocab % size), value=-torch.inf)
    return scores.unflatten(-1, (-1, size))
