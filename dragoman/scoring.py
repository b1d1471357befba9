"""A model directory, scored on sentence pairs."""

from pathlib import Path

from dragoman.checkpoint import ModelDirectory
from dragoman.config import DecodingConfig
from dragoman.data.bitext import Bitext
from dragoman.decoding.translator import Translator
from dragoman.device import choose_device
from dragoman.evaluation import Evaluation, evaluate, reference_batches
from dragoman.model_files import languages


def evaluate_files(
    model: Path, paths: list[str], *, search: DecodingConfig, precision: str, workers: int
) -> Evaluation:
    """Score a model directory on the pairs of one file or two, as they are: none is left out."""
    pairs = list(Bitext.open(*paths, languages=languages(model)))
    return evaluate_pairs(model, pairs, search=search, precision=precision, workers=workers)


def evaluate_pairs(
    model: Path, pairs: list[tuple[str, str]], *, search: DecodingConfig, precision: str, workers: int
) -> Evaluation:
    """Translate in `precision` and compare with the references; perplexity and accuracy are those in float32."""
    loaded = ModelDirectory.load(model, device=choose_device())
    tokenizers = loaded.source_tokenizer, loaded.target_tokenizer
    with Translator(loaded.model, *tokenizers, precision=precision, workers=workers) as translator:

        def translate(sources: list[str]) -> list[str]:
            options = {"beam_size": search.beam_size, "length_penalty": search.length_penalty}
            return [translation.text for translation in translator.translate(sources, **options)]

        return evaluate(pairs, translate, model=loaded.model, batches=reference_batches(pairs, *tokenizers))
