"""Scores of a model directory on sentence pairs, and a model's scores of given translations."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from dragoman.config import DecodingConfig
from dragoman.data.bitext import Bitext
from dragoman.decoding.translation import TranslationScore
from dragoman.decoding.translator import Translator, load_ensemble
from dragoman.evaluation.evaluate import Evaluation, evaluate
from dragoman.evaluation.likelihood import reference_batches


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
    tokenizers = loaded[0].source_tokenizer, loaded[0].target_tokenizer
    with Translator.of(loaded, precision=precision, workers=workers) as translator:

        def translate(sources: list[str]) -> list[str]:
            return [translation.text for translation in translator.translate(sources, search)]

        return evaluate(
            pairs,
            translate,
            models=[each.model for each in loaded],
            batches=reference_batches(pairs, *tokenizers),
            target_language=loaded[0].target_language,
        )


def score_pairs(
    translator: Translator, bitext: Bitext, *, length_penalty: float, window: int = 2048
) -> Iterator[TranslationScore]:
    """The model's probability of each pair; reads `window` pairs at a time."""
    remaining = iter(bitext)
    while pairs := list(islice(remaining, window)):
        yield from translator.score(pairs, length_penalty=length_penalty)
