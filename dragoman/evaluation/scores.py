"""Scores of translations against references, by the metrics of the registry."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.data.scripts import unspaced_language
from dragoman.errors import DataError
from dragoman.metrics import MAIN, TEXT_METRICS
from dragoman.metrics.metric import Metric, Translations


@dataclass(frozen=True)
class Scores:
    """Scores of a whole set of translations, by the names of the metrics."""

    values: dict[str, float]
    signatures: dict[str, str]
    """For each score what sacrebleu writes beside it in a paper."""

    def to_dict(self) -> dict[str, Any]:
        return {**self.values, "signatures": self.signatures}


def score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    sources: Sequence[str] = (),
    target_language: str | None = None,
    metrics: Sequence[Metric] = TEXT_METRICS,
) -> Scores:
    """Scores of translations against one reference each, tokenized as the target language needs it.

    Without a `target_language` the script of the references decides. Raises `ValueError` for lists of different
    lengths and `DataError` for empty ones.
    """
    if len(hypotheses) != len(references):
        raise ValueError(
            f"There are {len(hypotheses)} translations, but {len(references)} references; "
            "give one reference for each translation."
        )
    if not hypotheses:
        raise DataError("There is no sentence to score; give at least one pair.")
    given = Translations(hypotheses, references, sources, unspaced_language(target_language, references))
    scores = {metric.name: metric.compute(given) for metric in metrics}
    return Scores(
        {name: each.value for name, each in scores.items()}, {name: each.signature for name, each in scores.items()}
    )


def scores_by_source(
    hypotheses: Sequence[str],
    references: Sequence[str],
    leaked: Collection[int],
    *,
    target_language: str | None = None,
) -> dict[str, dict[str, float]]:
    """`Evaluation.by_source`; `leaked` are the indices of pairs whose source sentence was trained on.

    A part without pairs is left out.
    """
    known, language = frozenset(leaked), unspaced_language(target_language, references)
    parts = {"trained_on": sorted(known), "new": [i for i in range(len(references)) if i not in known]}
    return {
        name: {
            "sentences": len(rows),
            MAIN.name: MAIN.compute(
                Translations([hypotheses[i] for i in rows], [references[i] for i in rows], language=language)
            ).value,
        }
        for name, rows in parts.items()
        if rows
    }
