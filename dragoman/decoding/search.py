"""Greedy and beam search over a `Stepper`. Knows tokens and log-probabilities, no model.

Rows are hypotheses. Those of one sentence are adjacent, and finished sentences leave the batch.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import numpy as np

from dragoman.engine.engine import Stepper
from dragoman.engine.log_probs import LogProbs
from dragoman.engine.shapes import Float, Int

A = TypeVar("A", float, np.ndarray)


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
    totals: Sequence[float] = field(default=(), compare=False, repr=False)
    """`log_prob` up to each of its tokens and the end; empty for one without tokens."""

    @property
    def token_log_probs(self) -> Float[np.ndarray, " length"]:
        """The log-probability of each of its tokens and of the end of sentence, in nats."""
        return np.diff(np.asarray(self.totals, np.float64), prepend=0.0)


def rank(hypothesis: Hypothesis) -> tuple[bool, float]:
    """Key that sorts hypotheses, best first; truncated ones come last."""
    return not hypothesis.finished, -hypothesis.score


def length_limit(source: Sequence[int], ratio: float, extra: int) -> int:
    """Most tokens of a translation, besides those that it has to begin with: `ratio` for each one of the source, and
    `extra` more.
    """
    return max(1, int(ratio * len(source)) + extra)


def least_length(source: Sequence[Any], ratio: float | None, slack: float | None, *, most: int) -> int:
    """Fewest tokens of a translation: for n tokens of the source, `ratio` n - `slack` sqrt(n), and 0 without a ratio.
    It leaves room for the end within `most` tokens.

    The length of a translation is a sum over the tokens of its source. So its mean grows with their number, and its
    spread with the root of it (Gale and Church 1993): more is known of the length if the sentence is long.
    """
    fewest = int((ratio or 0.0) * len(source) - (slack or 0.0) * math.sqrt(len(source)))
    return max(0, min(fewest, most - 1))


def length_normalised(log_probs: A, lengths: Any, *, penalty: float, offset: float = 0.0) -> A:
    """Log-probabilities divided by ((offset + length) / (offset + 1))^penalty, which is equation 14 of Wu et al. (2016,
    arXiv 1609.08144) with the offset 5, and the length to this power with 0.
    """
    return log_probs / ((offset + lengths) / (offset + 1)) ** penalty


@dataclass(frozen=True)
class SearchOptions:
    """Length limits, special tokens and length penalty of a search."""

    max_lengths: list[int]
    """Most tokens of each sentence's translation, end of sentence included."""
    bos_id: int
    eos_id: int
    length_penalty: float = 1.0
    length_offset: float = 0.0
    """Scores are log-probabilities divided by the length to the power of the penalty (`length_normalised`)."""

    def hypothesis(self, tokens: list[int], totals: list[float], finished: bool) -> Hypothesis:
        """The hypothesis of these tokens, with its log-probability up to each, and its score."""
        log_prob, length = totals[-1], len(tokens) + finished
        return Hypothesis(tokens, log_prob, self.score(log_prob, length), finished, totals)

    def score(self, log_probs: A, lengths: int | Int[np.ndarray, " sentences"]) -> A:
        """The scores of hypotheses with these log-probabilities and lengths."""
        return length_normalised(log_probs, lengths, penalty=self.length_penalty, offset=self.length_offset)


Choice = Callable[
    [LogProbs, Int[np.ndarray, " rows"], int], tuple[Int[np.ndarray, " rows"], Float[np.ndarray, " rows"]]
]
"""From log-probabilities, the sentence of each row and the position: a token for each row, and its log-probability."""


def most_probable(
    log_probs: LogProbs, sentences: Int[np.ndarray, " rows"], position: int
) -> tuple[Int[np.ndarray, " rows"], Float[np.ndarray, " rows"]]:
    """The choice of greedy search."""
    # Ranking for a beam of one is quicker than an argmax.
    values, tokens = log_probs.best(np.zeros((len(log_probs), 1)), 1)
    return tokens[:, 0], values[:, 0]


def greedy_search(stepper: Stepper, options: SearchOptions, choose: Choice = most_probable) -> list[list[Hypothesis]]:
    """Take the most probable token, or the one that `choose` says, again and again: one hypothesis a sentence.

    A sentence for which no token had a probability has none.
    """
    count = len(options.max_lengths)
    results: list[list[Hypothesis]] = [[] for _ in range(count)]
    live, limits = np.arange(count), np.array(options.max_lengths, np.int64)
    tokens = np.full(count, options.bos_id)
    history = np.empty((count, 0), np.int64)
    totals = np.zeros((count, 1))  # up to each token, behind the zero of the empty translation
    while len(live):
        log_probs = stepper.step(tokens)
        tokens, chosen = choose(log_probs, live, history.shape[1])
        totals = np.concatenate([totals, totals[:, -1:] + chosen[:, None]], axis=1)
        del log_probs  # before the next ones are computed
        history = np.concatenate([history, tokens[:, None]], axis=1)
        ended = tokens == options.eos_id
        going_on = ~ended & (history.shape[1] < limits)
        if going_on.all():
            continue
        for row in np.flatnonzero(~going_on).tolist():
            finished = bool(ended[row])
            ids = history[row].tolist()[: history.shape[1] - finished]
            if totals[row, -1] > -np.inf:  # it is not after NaN
                results[live[row]].append(options.hypothesis(ids, totals[row, 1:].tolist(), finished))
        live, limits, tokens, history, totals = (a[going_on] for a in (live, limits, tokens, history, totals))
        if len(live):
            stepper.reorder(np.flatnonzero(going_on))
    return results


def beam_search(stepper: Stepper, beams: "Beams") -> list[list[Hypothesis]]:
    """Advance `beams` until all sentences are done; returns the hypotheses of each sentence, best first."""
    # The first step has one row for each sentence; from then on each has `beam_size`.
    first = np.full(len(beams.state.sentences), beams.options.bos_id)
    rows, tokens = beams.advance(stepper.step(first))
    while len(rows):
        stepper.reorder(rows)
        # Without a name: the log-probabilities of one step are gone before the next ones are computed.
        rows, tokens = beams.advance(stepper.step(tokens))
    return beams.results()


@dataclass
class BeamState:
    """The live prefixes of a beam search, for the sentences that are not done.

    Each sentence has one empty prefix before the first step, and `beam_size` prefixes after every step.
    """

    sentences: Int[np.ndarray, " live"]
    """Index of each sentence in the batch, in rising order."""
    limits: Int[np.ndarray, " live"]
    """Most tokens of each sentence's translation, end of sentence included."""
    score_to_beat: Float[np.ndarray, " live"]
    """A prefix has to score above this for its sentence to be searched on; -inf until enough hypotheses have ended."""
    totals: Float[np.ndarray, "live beam"]
    """Log-probability of each prefix in nats, as float64; -inf for an impossible one that only fills up the beam."""
    history: Int[np.ndarray, "live beam length"]
    """Tokens of each prefix, without the begin of sentence."""
    past_totals: Float[np.ndarray, "live beam length"]
    """Log-probability of each prefix up to each of its tokens; the last one is that of `totals`."""

    @classmethod
    def initial(cls, max_lengths: Sequence[int]) -> Self:
        """An empty prefix for each sentence."""
        count = len(max_lengths)
        return cls(
            sentences=np.arange(count),
            limits=np.array(max_lengths, np.int64),
            score_to_beat=np.full(count, -np.inf),
            totals=np.zeros((count, 1)),
            history=np.empty((count, 1, 0), np.int64),
            past_totals=np.empty((count, 1, 0)),
        )

    @property
    def length(self) -> int:
        """Tokens of every prefix."""
        return self.history.shape[2]

    def extend(self, parents: np.ndarray, tokens: np.ndarray, totals: np.ndarray) -> None:
        """Replace the prefixes by continuations: prefix `parents`, then `tokens`; all arguments are (live, beam)."""
        sentences = np.arange(len(parents))[:, None]
        self.history = np.concatenate([self.history[sentences, parents], tokens[:, :, None]], axis=2)
        self.past_totals = np.concatenate([self.past_totals[sentences, parents], totals[:, :, None]], axis=2)
        self.totals = totals

    def keep(self, rows: Int[np.ndarray, " kept"]) -> None:
        """Keep the sentences in these rows and forget the others."""
        self.sentences = self.sentences[rows]
        self.limits = self.limits[rows]
        self.score_to_beat = self.score_to_beat[rows]
        self.totals = self.totals[rows]
        self.history = self.history[rows]
        self.past_totals = self.past_totals[rows]


class Beams:
    """The `beam_size` best live prefixes of each sentence, and the hypotheses that have ended.

    A sentence is done when `beam_size` of its hypotheses have ended and no live prefix scores better than the worst of
    the `beam_size` best. At its length limit its live prefixes are hypotheses too, ranked after all that have ended.
    """

    def __init__(self, beam_size: int, options: SearchOptions):
        self.beam_size, self.options = beam_size, options
        self.ended: list[list[Hypothesis]] = [[] for _ in options.max_lengths]
        self.state = BeamState.initial(options.max_lengths)

    def candidates(
        self, log_probs: LogProbs
    ) -> tuple[Float[np.ndarray, "live candidates"], Int[np.ndarray, "live candidates"]]:
        """Twice as many continuations of each sentence as it has beams, the ones to prefer first.

        Returns their totals and their flat indices into (beam, vocab). Other kinds of beam search differ here.
        """
        return log_probs.best(self.state.totals, 2 * self.beam_size)

    def advance(self, log_probs: LogProbs) -> tuple[Int[np.ndarray, " kept"], Int[np.ndarray, " kept"]]:
        """Take the best continuations; returns the rows to keep and the next token of each."""
        live, beam = self.state.totals.shape
        totals, candidates = self.candidates(log_probs)  # (live, 2 * beam_size)
        parents, tokens = np.divmod(candidates, log_probs.vocab_size)
        ends = (tokens == self.options.eos_id) & (totals > -np.inf)
        sentences = np.arange(live)[:, None]
        if ends[:, : self.beam_size].any():
            rows, best = ends[:, : self.beam_size].nonzero()
            ended = parents[rows, best]
            past_totals = np.column_stack([self.state.past_totals[rows, ended], totals[rows, best]])
            self._end(rows, self.state.history[rows, ended], past_totals, finished=True)
            # At most half of the candidates end, so that `beam_size` prefixes are left.
            going_on = ends.argsort(axis=1, kind="stable")[:, : self.beam_size]
            parents, tokens, totals = (array[sentences, going_on] for array in (parents, tokens, totals))
        else:
            parents, tokens, totals = (array[:, : self.beam_size] for array in (parents, tokens, totals))
        self.state.extend(parents, tokens, totals)
        rows = parents + sentences * beam
        kept = self._drop_done()
        if kept is not None:
            rows, tokens = rows[kept], tokens[kept]
        return rows.ravel(), tokens.ravel()

    def needed(self, ended: list[Hypothesis]) -> float:
        """What the score of a live prefix has to exceed for the search to go on; `beam_size` or more have ended."""
        return sorted(h.score for h in ended)[-self.beam_size]

    def results(self) -> list[list[Hypothesis]]:
        """The best hypotheses of each sentence, best first."""
        return [sorted(group, key=rank)[: self.beam_size] for group in self.ended]

    def _end(self, rows: np.ndarray, histories: np.ndarray, totals: np.ndarray, *, finished: bool) -> None:
        """Record hypotheses: the live sentence of each, its tokens, and its log-probability up to each of them."""
        sentences = self.state.sentences[rows].tolist()
        for sentence, tokens, past_totals in zip(sentences, histories.tolist(), totals.tolist(), strict=True):
            self.ended[sentence].append(self.options.hypothesis(tokens, past_totals, finished))
        for row, sentence in dict(zip(rows.tolist(), sentences, strict=True)).items():
            if len(self.ended[sentence]) >= self.beam_size:
                self.state.score_to_beat[row] = self.needed(self.ended[sentence])

    def _drop_done(self) -> Int[np.ndarray, " kept"] | None:
        """Forget the sentences that are done; returns the rows of the others, None if none is done."""
        state = self.state
        best_score = self.options.score(state.totals.max(axis=1), state.length)
        is_complete = best_score <= state.score_to_beat
        is_done = is_complete | (state.limits <= state.length)
        if not is_done.any():
            return None
        is_truncated = is_done & ~is_complete
        if is_truncated.any():
            rows, beams = (is_truncated[:, None] & (state.totals > -np.inf)).nonzero()
            self._end(rows, state.history[rows, beams], state.past_totals[rows, beams], finished=False)
        kept = np.flatnonzero(~is_done)
        state.keep(kept)
        return kept
