"""Translations by Dragoman's own search that exported models have to repeat, and how far another engine agrees."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dragoman.data.batching import padded
from dragoman.decoding.precision import engine_of
from dragoman.decoding.rules import Never, RuledStepper
from dragoman.decoding.search import (
    Beams,
    Hypothesis,
    SearchOptions,
    beam_search,
    greedy_search,
    least_length,
    length_limit,
)
from dragoman.engine.engine import Stepper
from dragoman.interop.exports.engine_files import LONGEST
from dragoman.storage.directory import Directory

BATCH = 16
"""Number of sentences that are translated together."""


class EngineTranslation(NamedTuple):
    """The best translation that the search of an engine finds."""

    tokens: list[int]
    """Token ids without the end of sentence."""
    score: float


class ScoreBeams(Beams):
    """Beam search by the rule of transformers: hypotheses that were truncated at the length limit rank by their score,
    too."""

    def results(self) -> list[list[Hypothesis]]:
        return [sorted(group, key=lambda hypothesis: -hypothesis.score)[: self.beam_size] for group in self.ended]


class FirstBeams(ScoreBeams):
    """Beam search by the rule of CTranslate2: it ends as soon as `beam_size` hypotheses have ended."""

    def needed(self, ended: list[Hypothesis]) -> float:
        return math.inf


def search(
    directory: Directory,
    sources: Sequence[list[int]],
    *,
    beam_size: int,
    length_penalty: float,
    beams: type[Beams] = Beams,
    precision: str = "float32",
) -> list[EngineTranslation]:
    """Translate sources of token ids with Dragoman's model and search."""
    engine = engine_of(directory.model, precision)
    special = directory.source_tokenizer.closing
    translations = []
    for start in range(0, len(sources), BATCH):
        batch = sources[start : start + BATCH]
        stepper = engine.stepper(padded(batch, special).numpy())
        translations += search_with(
            stepper, directory, batch, beam_size=beam_size, length_penalty=length_penalty, beams=beams
        )
    return translations


def search_with(
    stepper: Stepper,
    directory: Directory,
    sources: Sequence[list[int]],
    *,
    beam_size: int,
    length_penalty: float,
    beams: type[Beams],
) -> list[EngineTranslation]:
    """Translate one batch over any `Stepper`, without rules on repetition, placeholders or terms."""
    config, begin_ids = directory.model.config, directory.target_tokenizer.begin_ids
    ruled = RuledStepper(
        stepper,
        prefixes=[begin_ids] * len(sources),
        bans=[Never(config.pad_id)] if config.never_pads else [],
        given=len(begin_ids),
        floors=[translation_floor(directory, source) for source in sources],
        end=config.eos_id,
    )
    limits = [translation_limit(directory, source) for source in sources]
    options = SearchOptions(limits, config.bos_id, config.eos_id, length_penalty)
    greedy = beam_size == 1
    groups = greedy_search(ruled, options) if greedy else beam_search(ruled, beams(beam_size, options))
    return [EngineTranslation(group[0].tokens, group[0].score) for group in groups]


def translation_limit(directory: Directory, source: Sequence[int | str]) -> int:
    """Most tokens of a translation of `source`, by the rule of Dragoman's search and the positions that are written."""
    begin_ids, search = directory.target_tokenizer.begin_ids, directory.decoding
    most = length_limit(source, search.max_ratio, search.max_extra)
    return min(most + len(begin_ids), position_limit(directory))


def translation_floor(directory: Directory, source: Sequence[int | str]) -> int:
    """Fewest tokens of a translation of `source`, by the rule of Dragoman's search."""
    search, most = directory.decoding, translation_limit(directory, source)
    return least_length(source, search.min_ratio, search.min_slack, most=most)


def position_limit(directory: Directory) -> int:
    """Most tokens of a sentence that all engines have positions for."""
    return directory.model.config.max_length or LONGEST


@dataclass(frozen=True)
class Agreement:
    """How far two engines agree on the same sentences."""

    sentences: int
    identical: int
    """Number of translations with the same tokens."""
    largest_difference: float
    """Largest difference between the scores of identical translations."""

    @classmethod
    def of(cls, ours: Sequence[EngineTranslation], theirs: Sequence[EngineTranslation]) -> "Agreement":
        """Compare the translations of two engines, pair by pair."""
        identical = [(our, their) for our, their in zip(ours, theirs, strict=True) if our.tokens == their.tokens]
        differences = [abs(our.score - their.score) for our, their in identical]
        return cls(len(ours), len(identical), max(differences, default=0.0))
