"""Whether a pretrained model translates in eight bits as it does in float32, found out on sentences."""

from collections.abc import Sequence

from dragoman.decoding.translator import Translator
from dragoman.engine import int8
from dragoman.errors import UsageError
from dragoman.metrics import bleu
from dragoman.metrics.metric import Translations
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.scripts import unspaced_language

TARGETS = "fr", "de", "es"
"""Target languages to try a model of many languages with, the first that it knows."""


def bleu_in_eight_bits(directory: ModelDirectory, sentences: Sequence[str]) -> float | None:
    """BLEU of the greedy translations in eight bits, with those in float32 as references.

    Eight bits are computed as AVX2 alone does, whose weights are the coarsest, so that it holds on every processor.
    None where a model cannot be computed in eight bits here, or there is nothing to compare.
    """
    if not sentences or not int8.can_quantise(directory.model.config):
        return None
    directory = _with_target(directory)
    references = _translations(directory, sentences, "float32")
    with int8.coarsest_weights():
        translations = _translations(directory, sentences, "int8")
    language = unspaced_language(directory.target_language, references)
    return bleu.count(Translations(translations, references, sentences, language)).value()


def _with_target(directory: ModelDirectory) -> ModelDirectory:
    """The model set to some target language if it needs one.

    Sentences for a model that was trained on several directions name theirs by labels.
    """
    if directory.directions:
        return directory
    for target in (None, *TARGETS):
        try:
            candidate = directory.speaking(None, target) if target else directory
            candidate.require_languages(for_good=True)
            return candidate
        except UsageError:
            continue
    first = next(iter(directory.target_tokenizer.languages or directory.source_tokenizer.languages))
    return directory.speaking(None, first)


def _translations(directory: ModelDirectory, sentences: Sequence[str], precision: str) -> list[str]:
    translator = Translator(directory, precision=precision)
    return [translation.text for translation in translator.translate(list(sentences), beam_size=1, split=False)]
