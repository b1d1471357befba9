"""A model directory, scored on sentence pairs; sentence pairs, scored by a model."""

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
    """Score a model directory, or several together, on pairs as they are: none is left out.

    Translates in `precision` and compares with the references; perplexity and accuracy are those in float32.
    """
    loaded = load_ensemble([model, *ensemble])
    with Translator(loaded[0], ensemble=loaded[1:], precision=precision, workers=workers) as translator:

        def translate(sources: list[str]) -> list[str]:
            return [translation.text for translation in translator.translate(sources, search)]

        models, batches = [each.model for each in loaded], reference_batches(pairs, *loaded[0].tokenizers)
        return evaluate(pairs, translate, models=models, batches=batches)


def score_pairs(
    translator: Translator, bitext: Bitext, *, length_penalty: float, window: int = 2048
) -> Iterator[TranslationScore]:
    """How probable the model finds each pair; reads `window` pairs at a time."""
    rest = iter(bitext)
    while pairs := list(islice(rest, window)):
        yield from translator.score(pairs, length_penalty=length_penalty)
