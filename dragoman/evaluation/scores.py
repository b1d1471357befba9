"""Scores translations against references, by the metrics of the registry."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from dragoman.errors import DataError
from dragoman.metrics import MAIN, TEXT_METRICS
from dragoman.metrics.metric import Metric, Score, Translations
from dragoman.metrics.resampling import Statistics
from dragoman.text.characters import cut_label, without_label
from dragoman.text.labels import languages_in, name_of
from dragoman.text.scripts import unspaced_language


def score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    sources: Sequence[str] = (),
    target_language: str | None = None,
    metrics: Sequence[Metric] = TEXT_METRICS,
) -> dict[str, Score]:
    """Scores of translations against one reference each, by the names of the metrics.

    Texts are tokenized as the target language needs it; if none is named, the script of the references decides. Raises
    `ValueError` for lists of different lengths and `DataError` for empty ones.
    """
    if len(hypotheses) != len(references):
        raise ValueError(
            f"There are {len(hypotheses)} translations, but {len(references)} references; "
            "give one reference for each translation."
        )
    if not hypotheses:
        raise DataError("There is no sentence to score; give at least one pair.")
    given = Translations(hypotheses, references, sources, unspaced_language(target_language, references))
    return {metric.name: metric.score(given) for metric in metrics}


def score_together(
    hypotheses: Sequence[str],
    references: Sequence[str],
    sources: Sequence[str],
    *,
    target_language: str | None = None,
    metrics: Sequence[Metric] = TEXT_METRICS,
) -> dict[str, Score]:
    """As `score`, for translations into several languages, which the labels of the sources name: each text is
    tokenized as its own language needs it, and all of them together have one score.
    """
    rows_by_target: dict[str, list[int]] = {}
    for row, source in enumerate(sources):
        label, _ = cut_label(source)
        rows_by_target.setdefault(languages_in(label)[1] if label else "", []).append(row)
    unlabelled = [without_label(source) for source in sources]
    if len(rows_by_target) <= 1:
        return score(hypotheses, references, sources=unlabelled, target_language=target_language, metrics=metrics)
    scores = {}
    for metric in metrics:
        parts: list[Statistics] = []
        for language, rows in rows_by_target.items():
            texts = [[texts[row] for row in rows] for texts in (hypotheses, references, unlabelled)]
            parts.append(metric.statistics(Translations(*texts, unspaced_language(language or None, texts[1]))))
        counted = np.concatenate([part.rows for part in parts])
        order = np.argsort(np.concatenate([np.array(rows) for rows in rows_by_target.values()]))
        signature = " and ".join(sorted({part.signature for part in parts}))  # whatever the order of the pairs
        statistics = Statistics(counted[order], parts[0].score_of, signature)
        scores[metric.name] = Score(statistics.value(), signature, statistics.interval(), statistics)
    return scores


def main_score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    sources: Sequence[str],
    *,
    target_language: str | None = None,
) -> Score:
    """The main score, as `score_together` computes it."""
    scores = score_together(hypotheses, references, sources, target_language=target_language, metrics=[MAIN])
    return scores[MAIN.name]


def as_numbers(scores: Mapping[str, Score]) -> dict[str, Any]:
    """The values of scores by the names of their metrics, and their 95 % `intervals` (low, high), for JSON."""
    intervals = {name: list(score.interval) for name, score in scores.items() if score.interval}
    return {name: score.value for name, score in scores.items()} | ({"intervals": intervals} if intervals else {})


def signatures(scores: Mapping[str, Score]) -> dict[str, str]:
    """The settings on which scores depend, by the names of the metrics."""
    return {name: score.signature for name, score in scores.items()}


def scores_of_parts(
    hypotheses: Sequence[str],
    references: Sequence[str],
    sources: Sequence[str],
    known: Collection[int],
    *,
    names: tuple[str, str],
    target_language: str | None = None,
) -> dict[str, dict[str, Any]]:
    """The main score of the pairs with the indices `known`, and that of the others, by two names.

    Scores are those of `score_together`. A part without pairs is left out.
    """
    parts = sorted(known), sorted(set(range(len(references))).difference(known))
    scores = {}
    for name, rows in zip(names, parts, strict=True):
        if rows:
            texts = [[side[row] for row in rows] for side in (hypotheses, references, sources)]
            main = main_score(*texts, target_language=target_language)
            scores[name] = {"sentences": len(rows)} | as_numbers({MAIN.name: main})
    return scores


def scores_by_languages(
    hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """`Evaluation.by_languages` of sources with labels; empty if all have the same label or none."""
    rows_by_label: dict[str, list[int]] = {}
    for row, source in enumerate(sources):
        label, _ = cut_label(source)
        rows_by_label.setdefault(label, []).append(row)
    if len(rows_by_label) <= 1:
        return {}
    scores = {}
    for label, rows in sorted(rows_by_label.items()):
        _, target_language = languages_in(label)
        of_label = score(
            [hypotheses[row] for row in rows],
            [references[row] for row in rows],
            sources=[without_label(sources[row]) for row in rows],
            target_language=target_language,
        )
        scores[name_of(label)] = {"sentences": len(rows)} | as_numbers(of_label)
    return scores
