"""Evaluates models on sentence pairs, and scores given translations by a model."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.ensemble import load_ensemble
from dragoman.decoding.translation import Translation
from dragoman.decoding.translator import Translator
from dragoman.evaluation.likelihood import TokenStatistics, reference_batches, token_statistics
from dragoman.evaluation.memory import BandScore, score_by_bands
from dragoman.evaluation.references import reference_warnings
from dragoman.evaluation.scores import as_numbers, score_together, scores_by_languages, signatures
from dragoman.evaluation.variants import VariantScore, score_variants
from dragoman.metrics import METRICS
from dragoman.metrics.metric import Score
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.device import choose_device


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Everything measured on one set of sentence pairs."""

    scores: dict[str, Score]
    """Scores of the translations, by the names of the metrics."""
    tokens: TokenStatistics
    """Perplexity and accuracy of the model on the references."""
    translations: list[str]
    """Translations of the sources, in the order of the pairs."""
    seconds: float
    """Time to translate all sentences."""
    by_source: dict[str, dict[str, Any]] = field(default_factory=dict)
    """If the training pairs have source sentences of the test set: `sentences` and `bleu` of the pairs whose source
    was `trained_on`, and of `new` ones."""
    by_twins: dict[str, dict[str, Any]] = field(default_factory=dict)
    """If test pairs are nearly the same as training pairs: `sentences` and `bleu` of these `twins`, and of the
    `unlike` others."""
    overlap: dict[str, Any] = field(default_factory=dict)
    """If the model was trained on many of the sources: the `share` of them, how many its sketch can tell (`told`) and
    knows (`known`), and `sentences` and `bleu` of those `trained_on` and of `new` ones."""
    finetuning: dict[str, dict[str, Any]] = field(default_factory=dict)
    """For a model that was adapted, the scores of `own before`, `own after`, and, if there are general test pairs, of
    `general before` and `general after`, by the names of the metrics."""
    by_languages: dict[str, dict[str, Any]] = field(default_factory=dict)
    """For pairs of several languages, `sentences` and the scores of each, such as en-de, by the names of the
    metrics."""
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)
    """If it was wanted, for each way of writing the pairs otherwise (`dragoman.text.variants`) the number of
    `sentences` that it changes, their score, and that of the same pairs `before`."""
    memory: dict[str, dict[str, Any]] = field(default_factory=dict)
    """If a translation memory was given, for each band of similarity (`dragoman.evaluation.memory`) the number of
    `sentences`, their score, and that of the same pairs `before`, without the memory."""
    remarks: list[str] = field(default_factory=list)
    """What is unusual about the translations, the likeliest cause, and what to do; empty if nothing is."""
    outlook: list[str] = field(default_factory=list)
    """What more minutes, and more pairs, would bring; empty where nothing tells."""
    warnings: list[str] = field(default_factory=list)
    """Reasons why the scores may be misleading."""

    def __repr__(self) -> str:
        numbers = as_numbers(self.scores)
        values = [f"{METRICS[name].label} {METRICS[name].write_with_interval(numbers)}" for name in self.scores]
        return f"<Evaluation of {len(self.translations):,} pairs: {', '.join(values)}>"

    def to_dict(self) -> dict[str, Any]:
        """All numbers side by side, for JSON; without the translations."""
        numbers = {
            **as_numbers(self.scores),
            "signatures": signatures(self.scores),
            **asdict(self.tokens),
            "sentences": len(self.translations),
            "seconds": self.seconds,
            "sentences_per_second": len(self.translations) / max(self.seconds, 1e-9),
        }
        if self.by_source:
            numbers["by_source"] = self.by_source
        if self.by_twins:
            numbers["by_twins"] = self.by_twins
        if self.overlap:
            numbers["overlap"] = self.overlap
        if self.finetuning:
            numbers["finetuning"] = self.finetuning
        if self.by_languages:
            numbers["by_languages"] = self.by_languages
        if self.variants:
            numbers["variants"] = self.variants
        if self.memory:
            numbers["memory"] = self.memory
        if self.remarks:
            numbers["remarks"] = self.remarks
        if self.outlook:
            numbers["outlook"] = self.outlook
        if self.warnings:
            numbers["warnings"] = self.warnings
        return numbers


def load_models(
    paths: Sequence[str | Path],
    *,
    languages: tuple[str | None, str | None] = (None, None),
    adapter: Path | None = None,
) -> list[ModelDirectory]:
    """Models in torch, on a GPU if there is one, that can translate together, see `load_ensemble`."""
    load = partial(ModelDirectory.load, device=choose_device())
    return load_ensemble(paths, load, languages=languages, adapter=adapter)


def evaluate_pairs(
    directories: Sequence[ModelDirectory],
    pairs: Sequence[tuple[str, str]],
    *,
    search: DecodingConfig,
    precision: str,
    workers: int,
    variants: int = 0,
    memory: Path | None = None,
) -> Evaluation:
    """Score a model, or several together, on all of `pairs`, and on the variants of the first so many of them.

    With a translation `memory`, all scores are of translations that reuse it; those by bands compare with others.
    Translations are made in `precision`; perplexity and token accuracy are computed in float32.
    """
    first, others = directories[0], directories[1:]
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    with ExitStack() as opened:
        translator = opened.enter_context(Translator(first, ensemble=others, precision=precision, workers=workers))
        without_memory: list[Translation] = []
        if memory:
            translator.remember(memory)
            recall, translator.recall = translator.recall, None
            without_memory = translator.translate(sources, search.alone())
            translator.recall = recall
        started = time.perf_counter()
        translated = translator.translate(sources, search.alone())
        translations = [translation.text for translation in translated]
        seconds = time.perf_counter() - started
        varied: list[VariantScore] = []
        if variants:
            by_sentence = search.alone(split=True)  # as `translate` and servers do
            varied = score_variants(
                lambda texts: [translation.text for translation in translator.translate(texts, by_sentence)],
                pairs[:variants],
                target_language=first.target_language,
            )
    bands: list[BandScore] = []
    if memory:
        bands = score_by_bands(without_memory, translated, references, sources, target_language=first.target_language)
    models = [directory.model for directory in directories]
    batches = reference_batches(pairs, first.preprocessor, *first.tokenizers)
    return Evaluation(
        scores=score_together(translations, references, sources, target_language=first.target_language),
        tokens=token_statistics(models, batches, given=first.target_tokenizer.num_given),
        translations=translations,
        seconds=seconds,
        by_languages=scores_by_languages(translations, references, sources),
        variants={variant.name: variant.to_dict() for variant in varied},
        memory={band.name: band.to_dict() for band in bands},
        warnings=reference_warnings(references, translations),
    )
