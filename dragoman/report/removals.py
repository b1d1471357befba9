"""What a translation owes to each word of its source: what comes out when the word is missing."""

from dataclasses import dataclass

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.batch import BatchWork, Sentence
from dragoman.report.attention import Axis
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.placeholders import Prepared

MOST_WORDS = 40
"""Longest source, in words, whose words are removed in turn: each takes a search."""
BATCH_ROWS = 64


@dataclass(frozen=True)
class Removal:
    """What happens without one word of the source."""

    word: str
    target_text: str
    """The model's translation of the other words."""
    log_prob: float
    """The log-probability of the translation that is looked at, given the other words, in nats."""


def removals(
    model: ModelDirectory, source: Axis, target_ids: list[int], prepared: Prepared, config: DecodingConfig
) -> list[Removal]:
    """One for each word of the source but the end of sentence; none for a source of one word, or of too many.

    `target_ids` end with the end of sentence, if they have one.
    """
    end, kept = model.model.config.eos_id, {*model.source_tokenizer.begin_ids}
    words = [word for word in source.words if {source.ids[index] for index in word} - kept - {source.ids[-1]}]
    if not 1 < len(words) <= MOST_WORDS:
        return []
    ids = [*enumerate(source.ids[:-1])]
    without = [[id_ for index, id_ in ids if index not in word or id_ in kept] for word in words]
    target = target_ids[:-1] if target_ids[-1] == end else target_ids
    work, begin = BatchWork([model.model], *model.tokenizers), model.target_tokenizer.begin_ids
    size = max(1, BATCH_ROWS // config.beam_size)
    found: list[str] = []
    log_probs: list[float] = []
    for start in range(0, len(without), size):
        part = without[start : start + size]
        best = [group[0].tokens for group in work.search([Sentence(ids, begin) for ids in part], config)]
        texts = model.target_tokenizer.decode_batch(best)
        found += [model.preprocessor.restored(text, prepared) for text in texts]
        log_probs += [sum(each[: len(target_ids)]) for each in work.score([(ids, target) for ids in part])]
    labels = [label for label, word in zip(source.labels, source.words, strict=True) if word in words]
    return [Removal(*each) for each in zip(labels, found, log_probs, strict=True)]
