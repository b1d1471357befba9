"""What a search did, as a tree: which prefixes it kept, which it dropped, which became translations.

It is seen from outside, by a `Stepper` between search and model, so search has no part in it.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.decoding.search import Hypothesis, Stepper

SHOWN_LOSERS = 5
"""Candidates of each step that are noted although search did not keep them: the best ones."""


@dataclass
class Node:
    """A prefix, by its last token."""

    parent: int
    """The place of the prefix before it in the list of nodes, which is lower than its own; -1 for the first node."""
    token: int
    log_prob: float
    """Of the token after the prefix, in nats."""
    total: float
    """Log-probability of the whole prefix."""
    state: Literal["kept", "dropped", "result"]
    """`kept`: search went on with it; `result`: it is one of the hypotheses that search returned."""


@dataclass(frozen=True)
class SearchTree:
    """The prefixes of one sentence, and what came of them."""

    nodes: list[Node]
    """The first is the begin of sentence; a node comes after its parent."""
    hypotheses: list[Hypothesis]
    """What search returned, best first."""
    leaves: list[int]
    """For each hypothesis its node."""


class SearchRecorder:
    """A `Stepper` that passes everything on and notes what search made of it; for a search of one sentence."""

    def __init__(self, stepper: Stepper, *, bos_id: int, eos_id: int):
        self.stepper, self.eos_id = stepper, eos_id
        self.nodes = [Node(-1, bos_id, 0.0, 0.0, "kept")]
        self._places: dict[tuple[int, int], int] = {}  # of a node, by its parent's place and its token
        self._rows: list[int | None] = [0]  # the node of each row of the last step; None: nothing is left to follow
        self._log_probs: Tensor | None = None  # what the last step gave
        self._origins: list[int] = []  # for each row of the next step its row in the last one

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Note which tokens the search chose, and which not, since it asked last."""
        if self._log_probs is not None:
            chosen = zip(self._origins, tokens.tolist(), strict=True)
            rows = [self._child(origin, token) for origin, token in chosen]
            self._note_losers(len(rows))
            self._rows = rows
        self._log_probs = self.stepper.step(tokens)
        self._origins = list(range(len(tokens)))
        return self._log_probs

    def reorder(self, rows: Int[Tensor, " kept"]) -> None:
        """Note which rows the search goes on with."""
        self._origins = [self._origins[row] for row in rows.tolist()]
        self.stepper.reorder(rows)

    def tree(self, hypotheses: list[Hypothesis]) -> SearchTree:
        """The whole tree, once the search has returned `hypotheses`."""
        self._note_losers(0)
        return SearchTree(self.nodes, hypotheses, [self._leaf(each) for each in hypotheses])

    def _child(self, row: int, token: int) -> int | None:
        parent, log_prob = self._rows[row], float(self._log_probs[row, token])
        # Search fills up its rows with impossible ones when there is too little to choose from.
        if parent is None or log_prob == -torch.inf or (parent, token) in self._places:
            return None
        return self._add(parent, token, log_prob, "kept")

    def _note_losers(self, kept: int) -> None:
        """Of the continuations besides those `kept`, add the best."""
        live = [row for row, place in enumerate(self._rows) if place is not None]
        before = torch.tensor([self.nodes[self._rows[row]].total for row in live], dtype=torch.float64)
        log_probs = self._log_probs[live].cpu()
        totals = (before[:, None] + log_probs).flatten()
        count = min(SHOWN_LOSERS + kept, len(totals))
        losers = 0
        for candidate in totals.topk(count).indices.tolist():
            row, token = divmod(candidate, log_probs.size(1))
            key, log_prob = (self._rows[live[row]], token), float(log_probs[row, token])
            if key not in self._places and losers < SHOWN_LOSERS and log_prob > -torch.inf:
                self._add(*key, log_prob, "dropped")
                losers += 1

    def _leaf(self, hypothesis: Hypothesis) -> int:
        place = 0
        for token in [*hypothesis.tokens, self.eos_id][: len(hypothesis.tokens) + hypothesis.finished]:
            parent, key = place, (place, token)
            place = self._places.get(key)
            if place is None:
                place = self._add(*key, hypothesis.log_prob - self.nodes[parent].total, "kept")
        self.nodes[place].state = "result"
        return place

    def _add(self, parent: int, token: int, log_prob: float, state: Literal["kept", "dropped"]) -> int:
        self._places[parent, token] = place = len(self.nodes)
        self.nodes.append(Node(parent, token, log_prob, self.nodes[parent].total + log_prob, state))
        return place
