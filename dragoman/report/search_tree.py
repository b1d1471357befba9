"""A beam search as a tree: the prefixes that it kept, those that it dropped, and its translations.

A `Stepper` between search and model records it, so that the search itself knows nothing of it.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.decoding.search import Hypothesis, Stepper

SHOWN_LOSERS = 5
"""Number of candidates of each step that are recorded although search dropped them: the best ones."""


@dataclass
class Node:
    """A prefix, by its last token."""

    parent: int
    """Index of the prefix without the last token, which is lower than its own; -1 for the first node."""
    token: int
    log_prob: float
    """The log-probability of the token after its parent, in nats."""
    total: float
    """Log-probability of the prefix."""
    state: Literal["kept", "dropped", "result"]
    """`kept`: search extended it; `result`: it is one of the hypotheses that search returned."""


@dataclass(frozen=True)
class SearchTree:
    """The prefixes of one sentence and the hypotheses."""

    nodes: list[Node]
    """The first is the begin of sentence; a node comes after its parent."""
    hypotheses: list[Hypothesis]
    """The result of the search, best first."""
    leaves: list[int]
    """For each hypothesis the index of its node."""


class SearchRecorder:
    """A `Stepper` that passes everything on and records the decisions of a search for one sentence."""

    def __init__(self, stepper: Stepper, *, bos_id: int, eos_id: int):
        self.stepper, self.eos_id = stepper, eos_id
        self.nodes = [Node(-1, bos_id, 0.0, 0.0, "kept")]
        self._indices: dict[tuple[int, int], int] = {}  # of nodes, by parent and token
        self._rows: list[int | None] = [0]  # the node of each row of the last step; None: an impossible row
        self._log_probs: Tensor | None = None  # result of the last step
        self._origins: list[int] = []  # for each row of the next step its row in the last one

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Record which tokens the search chose from the last step, and which not."""
        if self._log_probs is not None:
            rows = list(map(self._child, self._origins, tokens.tolist()))
            self._note_losers(len(rows))
            self._rows = rows
        self._log_probs = self.stepper.step(tokens)
        self._origins = list(range(len(tokens)))
        return self._log_probs

    def reorder(self, rows: Int[Tensor, " kept"]) -> None:
        """Record which rows the search continues."""
        self._origins = [self._origins[row] for row in rows.tolist()]
        self.stepper.reorder(rows)

    def tree(self, hypotheses: list[Hypothesis]) -> SearchTree:
        """The complete tree, once the search has returned `hypotheses`."""
        self._note_losers(0)
        return SearchTree(self.nodes, hypotheses, [self._leaf(each) for each in hypotheses])

    def _child(self, row: int, token: int) -> int | None:
        parent, log_prob = self._rows[row], float(self._log_probs[row, token])
        # Search fills up its rows with impossible ones when there are too few candidates.
        if parent is None or log_prob == -torch.inf or (parent, token) in self._indices:
            return None
        return self._add(parent, token, log_prob, "kept")

    def _note_losers(self, kept: int) -> None:
        """Add the best continuations besides the `kept` ones."""
        live = [row for row, index in enumerate(self._rows) if index is not None]
        before = torch.tensor([self.nodes[self._rows[row]].total for row in live], dtype=torch.float64)
        log_probs = self._log_probs[live].cpu()
        totals = (before[:, None] + log_probs).flatten()
        count = min(SHOWN_LOSERS + kept, len(totals))
        losers = 0
        for candidate in totals.topk(count).indices.tolist():
            row, token = divmod(candidate, log_probs.size(1))
            key, log_prob = (self._rows[live[row]], token), float(log_probs[row, token])
            if key not in self._indices and losers < SHOWN_LOSERS and log_prob > -torch.inf:
                self._add(*key, log_prob, "dropped")
                losers += 1

    def _leaf(self, hypothesis: Hypothesis) -> int:
        index = 0
        for token in [*hypothesis.tokens, self.eos_id][: len(hypothesis.tokens) + hypothesis.finished]:
            parent, key = index, (index, token)
            index = self._indices.get(key)
            if index is None:
                index = self._add(*key, hypothesis.log_prob - self.nodes[parent].total, "kept")
        self.nodes[index].state = "result"
        return index

    def _add(self, parent: int, token: int, log_prob: float, state: Literal["kept", "dropped"]) -> int:
        self._indices[parent, token] = index = len(self.nodes)
        self.nodes.append(Node(parent, token, log_prob, self.nodes[parent].total + log_prob, state))
        return index
