"""What people get: a translation, and how probable a given one is."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from dragoman.decoding.alignment import Alignment


@dataclass(frozen=True)
class Translation:
    """One translation of one sentence."""

    text: str
    score: float
    """Log-probability divided by the length to the power of the length penalty; closer to 0 is more certain."""
    log_prob: float
    tokens: list[str]
    """The target pieces, without begin and end of sentence."""
    alignment: Alignment | None = None
    """Pairs of a source word and a target word, counted from 0; None if not asked for."""
    alternatives: list["Translation"] | None = None
    """With `n_best` above 1: the other translations, best first."""

    def to_json(self) -> str:
        """One line of JSON, with what was asked for."""
        return json.dumps(_without_none(asdict(self)), ensure_ascii=False)


@dataclass(frozen=True)
class TranslationScore:
    """How probable a model finds a given translation."""

    score: float
    """Log-probability divided by the length to the power of the length penalty, as that of a `Translation`."""
    log_prob: float
    tokens: list[str]
    """The target pieces; the end of sentence is one more."""
    token_log_probs: list[float]
    """Of each piece and of the end of sentence, in nats."""

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)

    def to_row(self) -> str:
        """Score, log-probability and number of tokens with the end of sentence, tab-separated."""
        return f"{self.score:.4f}\t{self.log_prob:.4f}\t{len(self.token_log_probs)}"


def _without_none(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_none(value) for key, value in tree.items() if value is not None}
    return [_without_none(each) for each in tree] if isinstance(tree, list) else tree
