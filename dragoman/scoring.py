"""A model directory, scored on sentence pairs; sentence pairs, scored by a model."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from dragoman.checkpoint import ModelDirectory
from dragoman.config import DecodingConfig
from dragoman.data.bitext import Bitext
from dragoman.decoding.translation import TranslationScore
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
            return [translation.text for translation in translator.translate(sources, search)]

        return evaluate(pairs, translate, model=loaded.model, batches=reference_batches(pairs, *tokenizers))


def score_pairs(
    translator: Translator, bitext: Bitext, *, length_penalty: float, window: int = 2048
) -> Iterator[TranslationScore]:
    """How probable the model finds each pair; reads `window` pairs at a time."""
    rest = iter(bitext)
    while pairs := list(islice(rest, window)):
        yield from translator.score(pairs, length_penalty=length_penalty)
