"""Scores of a model directory on sentence pairs, and a model's scores of given translations."""

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from dragoman.config.decoding import DecodingConfig
from dragoman.data.bitext import Bitext
from dragoman.decoding.translation import TranslationScore
from dragoman.decoding.translator import Translator, load_ensemble
from dragoman.evaluation.evaluate import Evaluation
from dragoman.evaluation.likelihood import reference_batches, token_statistics
from dragoman.evaluation.scores import score


def evaluate_pairs(
    model: Path,
    pairs: Sequence[tuple[str, str]],
    *,
    search: DecodingConfig,
    precision: str,
    workers: int,
    ensemble: Sequence[Path] = (),
) -> Evaluation:
    """Score a model directory, or several together, on all of `pairs`.

    Translations are made in `precision`; perplexity and token accuracy are computed in float32.
    """
    loaded = load_ensemble([model, *ensemble])
    first, models = loaded[0], [each.model for each in loaded]
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    with Translator(first, ensemble=loaded[1:], precision=precision, workers=workers) as translator:
        started = time.perf_counter()
        translations = [translation.text for translation in translator.translate(sources, search)]
        seconds = time.perf_counter() - started
        scores = score(translations, references, sources=sources, target_language=first.target_language)
        statistics = token_statistics(models, reference_batches(pairs, *first.tokenizers))
        return Evaluation(scores, statistics, translations, seconds)


def score_pairs(
    translator: Translator, bitext: Bitext, *, length_penalty: float, window: int = 2048
) -> Iterator[TranslationScore]:
    """The model's probability of each pair; reads `window` pairs at a time."""
    remaining = iter(bitext)
    while pairs := list(islice(remaining, window)):
        yield from translator.score(pairs, length_penalty=length_penalty)
