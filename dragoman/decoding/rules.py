"""Rules over a `Stepper`: what a translation must begin with, and which tokens may not come next.

Any search can be put under rules, since only the log-probabilities change: what may not come has none.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dragoman.decoding.search import Stepper

Ban = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From the begin of sentence and the tokens so far (rows, length) and the sentence of each row: the rows in which a
token may not come next, and that token."""

LONGEST_PHRASE = 32
"""Tokens of a phrase whose copies are counted in a source; longer ones are no figure of speech."""


class RuledStepper:
    """Takes the steps of `stepper`, whose first token is the begin of sentence, under rules."""

    def __init__(self, stepper: Stepper, *, bans: Sequence[Ban], prefixes: list[list[int]]):
        """`prefixes` holds the tokens that each sentence begins with, perhaps none; no ban applies to them."""
        self.stepper, self.bans = stepper, bans
        self.sentences = torch.arange(len(prefixes))
        self.history = torch.empty(len(prefixes), 0, dtype=torch.long)
        self.prefixes = pad_sequence(
            [torch.tensor(ids, dtype=torch.long) for ids in prefixes], batch_first=True, padding_value=-1
        )

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        log_probs = self.stepper.step(tokens)
        position = self.history.size(1)
        self.history = torch.cat([self.history, tokens[:, None]], dim=1)
        forced = torch.full_like(self.sentences, -1)
        if position < self.prefixes.size(1):
            forced = self.prefixes[self.sentences, position]
        for ban in self.bans:
            rows, banned = ban(self.history, self.sentences)
            if len(rows):
                free = forced[rows] < 0
                log_probs[rows[free], banned[free]] = -torch.inf
        if position < self.prefixes.size(1):
            rows = (forced >= 0).nonzero().flatten()
            kept = log_probs[rows, forced[rows]]
            log_probs[rows] = -torch.inf
            log_probs[rows, forced[rows]] = kept
        return log_probs

    def reorder(self, rows: Int[Tensor, " kept"]) -> None:
        self.stepper.reorder(rows)
        self.sentences, self.history = self.sentences[rows], self.history[rows]


class RepetitionGuard:
    """Bans the token that would say a phrase of any length once more in a row than a sentence may."""

    def __init__(self, copies: Sequence[int]):
        """`copies`: how often a phrase may stand in a row, 2 or more, for each sentence."""
        self.copies = torch.tensor(copies)
        self.levels = sorted(set(copies))

    def __call__(self, history: Int[Tensor, "rows length"], sentences: Int[Tensor, " rows"]) -> tuple[Tensor, Tensor]:
        rows, tokens = [torch.empty(0, dtype=torch.long)], [torch.empty(0, dtype=torch.long)]
        for copies in self.levels:
            longest = history.size(1) // (copies + 1)
            # A phrase of n tokens only repeats if the last token stood n tokens before too, as it seldom did.
            again = (history[:, -1 - longest : -1] == history[:, -1:]).any(0)
            for size in (longest - again.nonzero().flatten()).tolist():
                # With the token `size` before the next, these would be one copy too many.
                tail = history[:, -((copies + 1) * size - 1) :]
                periodic = (tail[:, size:] == tail[:, :-size]).all(1) & (self.copies[sentences] == copies)
                found = periodic.nonzero().flatten()
                rows.append(found)
                tokens.append(history[found, -size])
        return torch.cat(rows), torch.cat(tokens)


def most_copies(ids: Sequence[int]) -> int:
    """How often, at most, a phrase of these tokens stands in a row; 1 if nothing is said twice on end."""
    most = 1
    for size in range(1, min(len(ids) // 2, LONGEST_PHRASE) + 1):
        run = 0
        for place in range(size, len(ids)):
            run = run + 1 if ids[place] == ids[place - size] else 0
            most = max(most, run // size + 1)
    return most
