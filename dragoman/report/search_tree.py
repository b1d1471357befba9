"""A beam search as a tree: the prefixes that it kept, those that it dropped, and its translations.

A `Stepper` between search and model records the tree. The search itself does not know that it is recorded.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Int

from dragoman.decoding.search import Hypothesis
from dragoman.engine.engine import Stepper
from dragoman.engine.log_probs import LogProbs

SHOWN_LOSERS = 5
"""Number of candidates that are recorded at each step although search dropped them: the best ones."""


@dataclass
class Node:
    """A prefix that the search considered."""

    parent: int
    """Index of the prefix without the last token, lower than the index of this node; -1 for the first node."""
    token: int
    """The last token of the prefix."""
    log_prob: float
    """The log-probability of the token, given its parent, in nats."""
    total: float
    """The log-probability of the whole prefix, in nats."""
    state: Literal["kept", "dropped", "result"]
    """`kept`: search extended the prefix; `dropped`: it did not; `result`: it is a hypothesis that search returned."""


@dataclass(frozen=True)
class SearchTree:
    """The prefixes and the hypotheses of the search for one translation."""

    nodes: list[Node]
    """Prefixes in the order of the search, each after its parent; the first one is the begin of sentence."""
    hypotheses: list[Hypothesis]
    """The result of the search, best first."""
    leaves: list[int]
    """The index of the node of each hypothesis."""


class SearchRecorder:
    """A `Stepper` that passes everything on and records the decisions of a search for one sentence."""

    def __init__(self, stepper: Stepper, *, bos_id: int, eos_id: int):
        self.stepper, self.eos_id = stepper, eos_id
        self.nodes = [Node(-1, bos_id, 0.0, 0.0, "kept")]
        self._indices: dict[tuple[int, int], int] = {}  # of nodes, by parent and token
        self._rows: list[int | None] = [0]  # the node of each row of the last step; None: an impossible row
        self._log_probs: LogProbs | None = None  # the result of the last step
        self._origins: list[int] = []  # for each row of the next step its row in the last one

    def step(self, tokens: Int[np.ndarray, " rows"]) -> LogProbs:
        """Record which tokens the search chose from the last step, and which it dropped; then pass the step on."""
        if self._log_probs is not None:
            rows = list(map(self._child, self._origins, tokens.tolist()))
            self._note_losers(len(rows))
            self._rows = rows
        self._log_probs = self.stepper.step(tokens)
        self._origins = list(range(len(tokens)))
        return self._log_probs

    def reorder(self, rows: Int[np.ndarray, " kept"]) -> None:
        """Record which rows the search continues, and pass that on."""
        self._origins = [self._origins[row] for row in rows.tolist()]
        self.stepper.reorder(rows)

    def tree(self, hypotheses: list[Hypothesis]) -> SearchTree:
        """The complete tree, once the search has returned `hypotheses`."""
        self._note_losers(0)
        return SearchTree(self.nodes, hypotheses, [self._leaf(hypothesis) for hypothesis in hypotheses])

    def _child(self, row: int, token: int) -> int | None:
        """Add the node of a row that the search continues with a token; None for a row that is impossible."""
        parent, log_prob = self._rows[row], self._log_prob(row, token)
        # Search fills up its rows with impossible ones when there are too few candidates.
        if parent is None or log_prob == -np.inf or (parent, token) in self._indices:
            return None
        return self._add(parent, token, log_prob, "kept")

    def _note_losers(self, kept: int) -> None:
        """Add the best continuations of the last step besides the `kept` ones."""
        before = [-np.inf if node is None else self.nodes[node].total for node in self._rows]
        totals, candidates = self._log_probs.best(np.array([before]), SHOWN_LOSERS + kept)
        losers = 0
        for candidate in candidates[totals > -np.inf].tolist():
            row, token = divmod(candidate, self._log_probs.vocab_size)
            parent = self._rows[row]
            if (parent, token) not in self._indices and losers < SHOWN_LOSERS:
                self._add(parent, token, self._log_prob(row, token), "dropped")
                losers += 1

    def _log_prob(self, row: int, token: int) -> float:
        """The log-probability of a token in the last step."""
        return float(self._log_probs.at(np.array([row]), np.array([token]))[0])

    def _leaf(self, hypothesis: Hypothesis) -> int:
        """Mark the node of a hypothesis as a result. Nodes that no step has recorded are added first."""
        tokens = [*hypothesis.tokens, self.eos_id] if hypothesis.finished else hypothesis.tokens
        parent = 0
        for token in tokens:
            index = self._indices.get((parent, token))
            if index is None:
                index = self._add(parent, token, hypothesis.log_prob - self.nodes[parent].total, "kept")
            parent = index
        self.nodes[parent].state = "result"
        return parent

    def _add(self, parent: int, token: int, log_prob: float, state: Literal["kept", "dropped"]) -> int:
        """Add a node and return its index."""
        self._indices[parent, token] = index = len(self.nodes)
        self.nodes.append(Node(parent, token, log_prob, self.nodes[parent].total + log_prob, state))
        return index
