"""Effect of each word of a source on its translation: the model translates the sentence without the word."""

from dataclasses import dataclass

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.batch import BatchWork, Sentence
from dragoman.decoding.torch_engine import TorchEngine
from dragoman.report.attention import Axis
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.placeholders import Prepared

MOST_WORDS = 40
"""Longest source, in words, whose words are removed in turn: each takes a search."""
BATCH_ROWS = 64
"""Most rows of a batch. Each sentence has as many rows as the beam is wide."""


@dataclass(frozen=True)
class Removal:
    """The translation without one word of the source."""

    word: str
    target_text: str
    """The model's translation of the other words."""
    log_prob: float
    """The log-probability of the translation that is looked at, given the other words, in nats."""


def removals(
    model: ModelDirectory, source: Axis, target_ids: list[int], prepared: Prepared, config: DecodingConfig
) -> list[Removal]:
    """A removal for each word of the source but the end of sentence; none for a source of one word, or of too many.

    `target_ids` end with the end of sentence, if they have one. `prepared` is the source before tokenization.
    """
    # Tokens that a source has to begin with, such as that of a language, stay.
    permanent = {*model.source_tokenizer.begin_ids, *model.source_tokenizer.label_ids.values()}
    labels: list[str] = []
    shortened: list[list[int]] = []
    for word, label in zip(source.words, source.labels, strict=True):
        if {source.ids[index] for index in word} - permanent - {source.ids[-1]}:
            labels.append(label)
            shortened.append(_without(word, source, permanent))
    if not 1 < len(labels) <= MOST_WORDS:
        return []
    target = target_ids[:-1] if target_ids[-1] == model.model.config.eos_id else target_ids
    work = BatchWork([TorchEngine(model.model)], *model.tokenizers)
    begin_ids = target[: work.num_given]
    size = max(1, BATCH_ROWS // config.beam_size)
    results: list[Removal] = []
    for start in range(0, len(shortened), size):
        batch = shortened[start : start + size]
        hypotheses = work.search([Sentence(ids, begin_ids) for ids in batch], config)
        texts = model.target_tokenizer.decode_batch([group[0].tokens for group in hypotheses])
        scores = work.score([(ids, target) for ids in batch])
        for label, text, log_probs in zip(labels[start : start + size], texts, scores, strict=True):
            log_prob = sum(log_probs[: len(target_ids)])
            results.append(Removal(label, model.preprocessor.restored(text, prepared), log_prob))
    return results


def _without(word: list[int], source: Axis, permanent: set[int]) -> list[int]:
    """The token ids of the source without a word and without the end of sentence; `permanent` ones stay."""
    return [id_ for index, id_ in enumerate(source.ids[:-1]) if index not in word or id_ in permanent]
