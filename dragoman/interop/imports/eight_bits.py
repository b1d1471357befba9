"""Whether a pretrained model translates in eight bits as it does in float32, found out on sentences."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from dragoman.decoding.translator import Translator
from dragoman.engine import int8
from dragoman.errors import UsageError
from dragoman.formats.text_files import open_input, read_lines
from dragoman.metrics import bleu
from dragoman.metrics.metric import Translations
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.language_codes import same_language
from dragoman.text.scripts import unspaced_language

SENTENCES = Path(__file__).parent / "static" / "sentences.en.txt"
"""English sentences of many kinds, for models that translate from English."""
MOST_SENTENCES = 1_000
"""Sentences of a file that are read; more would take long and show little."""
TARGETS = "fr", "de", "es"
"""Target languages to try a model of many languages with, the first that it knows."""


def sentences_for(directory: ModelDirectory, file: Path | None) -> list[str]:
    """The first sentences of a file, in the source language; without one, those of the package for English."""
    if file:
        with open_input(file) as stream:
            lines = (line.strip() for line in read_lines(stream, str(file)))
            return list(islice(filter(None, lines), MOST_SENTENCES))
    language = directory.source_language
    is_english = language is not None and same_language(language, "en")
    return SENTENCES.read_text(encoding="utf-8").strip().split("\n") if is_english else []


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
    """The model set to some target language if it needs one."""
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
