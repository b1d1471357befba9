"""A model directory, scored on sentence pairs."""

from pathlib import Path
from typing import Any

from dragoman.data.bitext import Bitext
from dragoman.decoding.translator import Translator
from dragoman.evaluation import Evaluation, evaluate, reference_batches


def evaluate_files(model: Path, paths: list[str], **options: Any) -> Evaluation:
    """Score a model directory on the pairs of one file or two; for the options see `evaluate_pairs`."""
    return evaluate_pairs(model, list(Bitext.open(*paths).cleaned()), **options)


def evaluate_pairs(
    model: Path, pairs: list[tuple[str, str]], *, precision: str, workers: int = 1, **search: Any
) -> Evaluation:
    """Translate with `beam_size` and `length_penalty`, in `precision`, and compare with the references."""
    with Translator.load(model, precision=precision, workers=workers) as translator:
        batches = reference_batches(pairs, translator.source_tokenizer, translator.target_tokenizer)

        def translate(sources: list[str]) -> list[str]:
            return [translation.text for translation in translator.translate(sources, **search)]

        return evaluate(pairs, translate, model=translator.model, batches=batches)
