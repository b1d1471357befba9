"""Translations, and scores of given translations."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from dragoman.decoding.alignment import Alignment, pharaoh
from dragoman.decoding.recall import MemoryMatch
from dragoman.text.characters import one_line
from dragoman.text.faults import KINDS, Fault


def _without_none(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in fields if value is not None}


@dataclass(frozen=True)
class CheckedSentence:
    """A sentence of a text with its translation, and what a person should know about it."""

    source: str
    text: str
    warnings: list[Fault]
    """What seems to be wrong, such as a number that is lost."""
    confidence: float | None = None
    """As that of a `Translation`."""
    edit_probability: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dict for JSON, with what each warning says in words."""
        fields = asdict(self, dict_factory=_without_none)
        fields["warnings"] = [asdict(fault) | {"what": KINDS[fault.kind]} for fault in self.warnings]
        return fields


@dataclass(frozen=True, repr=False)
class Translation:
    """One translation of one sentence."""

    text: str
    score: float
    """Log-probability divided by the length to the power of the length penalty; closer to 0 is more certain."""
    log_prob: float
    tokens: list[str]
    """The target pieces, without begin and end of sentence."""
    alignment: Alignment | None = None
    """Pairs of a source word and a target word, counted from 0; None without `alignments`."""
    alternatives: list["Translation"] | None = None
    """The other translations, best first; None unless `n_best` is above 1."""
    confidence: float | None = None
    """Expected chrF++ against a person's translation, from 0 to 1; None unless `confidence` or `only_above` is set."""
    edit_probability: float | None = None
    """Probability that a person's translation has other words; None without a confidence."""
    untranslated: bool | None = None
    """True for a text that stays as it is because of `only_above`; else None."""
    sentences: list[CheckedSentence] | None = None
    """The sentences that were translated, with warnings; None unless `checks` is set."""
    memory: list[MemoryMatch] | None = None
    """The entries of the translation memory that its sentences come from, or were made with; None without any."""
    warning: str | None = None
    """A problem with the text, such as a sentence that was too long and was cut; mostly None."""

    @property
    def faults(self) -> list[str]:
        """What seems to be wrong with its sentences, in words; empty without `checks`, and for a text that stays."""
        if self.untranslated:
            return []
        return [_said(fault) for sentence in self.sentences or () for fault in sentence.warnings]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Translation {self.text!r}, score {self.score:.3f}>"

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dict for JSON, those of alternatives too; fields that were not asked for are left out."""
        fields = asdict(self, dict_factory=_without_none)
        if self.sentences is not None:
            fields["sentences"] = [sentence.to_dict() for sentence in self.sentences]
        return fields

    def to_json(self) -> str:
        """One line of JSON, with the fields of `to_dict`."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def to_rows(self, number: int | None = None, *, with_confidence: bool = False) -> list[str]:
        """The line of a translation, or with `number` (of its input line) one for each alternative, tab-separated."""
        rows = []
        for translation in [self, *(self.alternatives or [])]:
            before = [] if number is None else [str(number), f"{translation.score:.4f}"]
            after = [_written(translation.confidence)] if with_confidence else []
            after += [] if translation.alignment is None else [pharaoh(translation.alignment)]
            text = one_line(translation.text)
            if before or after:
                text = text.replace("\t", " ")
            rows.append("\t".join([*before, text, *after]))
        return rows


def _said(fault: Fault) -> str:
    """A fault in words."""
    return f"{KINDS[fault.kind]} ({fault.text})" if fault.text else KINDS[fault.kind]


def _written(confidence: float | None) -> str:
    """A confidence as text; empty for an alternative, which has none."""
    return "" if confidence is None else f"{confidence:.3f}"


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

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dict for JSON."""
        return asdict(self)

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def to_row(self) -> str:
        """Score, log-probability and number of tokens with the end of sentence, tab-separated."""
        return f"{self.score:.4f}\t{self.log_prob:.4f}\t{len(self.token_log_probs)}"
