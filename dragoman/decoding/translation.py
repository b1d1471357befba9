"""Translations, and scores of given translations."""

import json
from dataclasses import asdict, dataclass

from dragoman.decoding.alignment import Alignment, pharaoh
from dragoman.text.characters import one_line


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
    warning: str | None = None
    """What went wrong with the text, such as a sentence that was too long and was cut; mostly None."""

    def to_json(self) -> str:
        """One line of JSON; fields that were not asked for are left out."""
        found = asdict(self, dict_factory=lambda fields: {name: value for name, value in fields if value is not None})
        return json.dumps(found, ensure_ascii=False)

    def to_rows(self, number: int | None = None) -> list[str]:
        """The line of a translation, or with `number` (of its input line) one for each alternative, tab-separated."""
        rows = []
        for translation in [self, *(self.alternatives or [])]:
            before = [] if number is None else [str(number), f"{translation.score:.4f}"]
            after = [] if translation.alignment is None else [pharaoh(translation.alignment)]
            text = one_line(translation.text)
            rows.append("\t".join([*before, text.replace("\t", " ") if before or after else text, *after]))
        return rows


@dataclass(frozen=True)
class TranslationScore:
    """How probable a model finds a given translation."""

    score: float
    """Log-probability divided by the length to the power of the length penalty, as that of a `Translation`."""
    log_prob: float
    tokens: list[str]
    """The target pieces; the end of sentence is one more."""
    token_log_probs: list[float]
    """The log-probability of each piece and of the end of sentence, in nats."""

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)

    def to_row(self) -> str:
        """Score, log-probability and number of tokens with the end of sentence, tab-separated."""
        return f"{self.score:.4f}\t{self.log_prob:.4f}\t{len(self.token_log_probs)}"
