"""What Dragoman's own search finds in an exported model's source tokens, and how far another engine agrees."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dragoman.data.batching import padded
from dragoman.decoding.rules import Never, RuledStepper
from dragoman.decoding.search import Beams, Hypothesis, SearchOptions, Stepper, beam_search, greedy_search, length_limit
from dragoman.decoding.stepper import ModelStepper
from dragoman.interop.exports.engine_files import LONGEST
from dragoman.storage.model_directory import ModelDirectory

Found = list[tuple[list[int], float]]
"""The tokens of each translation, without its end, and its score."""
BATCH = 16


class ScoreBeams(Beams):
    """A search that ranks what was truncated at the length limit by its score, as that of transformers."""

    def results(self) -> list[list[Hypothesis]]:
        return [sorted(group, key=lambda h: -h.score)[: self.beam_size] for group in self.ended]


class FirstBeams(ScoreBeams):
    """A search that ends, as that of CTranslate2, with the first `beam_size` hypotheses that have ended."""

    def needed(self, ended: list[Hypothesis]) -> float:
        return math.inf


@torch.inference_mode()
def search(
    directory: ModelDirectory,
    sources: Sequence[list[int]],
    *,
    beam_size: int,
    length_penalty: float,
    beams: type[Beams] = Beams,
) -> Found:
    """What the plain search of Dragoman finds, in float32."""
    special, found = directory.source_tokenizer.closing, []
    for start in range(0, len(sources), BATCH):
        batch = sources[start : start + BATCH]
        stepper = ModelStepper(directory.model, padded(batch, special))
        found += found_by(stepper, directory, batch, beam_size=beam_size, length_penalty=length_penalty, beams=beams)
    return found


def found_by(
    stepper: Stepper,
    directory: ModelDirectory,
    sources: Sequence[list[int]],
    *,
    beam_size: int,
    length_penalty: float,
    beams: type[Beams],
) -> Found:
    """A search over any `Stepper`, without rules on repetition, placeholders or terms."""
    config, forced = directory.model.config, directory.target_tokenizer.begin_ids
    ruled = RuledStepper(
        stepper,
        prefixes=[forced] * len(sources),
        bans=[Never(config.pad_id)] if config.starts_with_padding else [],
        given=len(forced),
    )
    limits = [limit(directory, source) for source in sources]
    options = SearchOptions(limits, config.bos_id, config.eos_id, length_penalty)
    greedy = beam_size == 1
    groups = greedy_search(ruled, options) if greedy else beam_search(ruled, beams(beam_size, options))
    return [(best.tokens, best.score) for best, *_ in groups]


def limit(directory: ModelDirectory, source: Sequence[int | str]) -> int:
    """Most tokens of a translation, by the rule of Dragoman's search and the positions that are written."""
    forced = len(directory.target_tokenizer.begin_ids)
    return min(length_limit(source) + forced, longest(directory))


def longest(directory: ModelDirectory) -> int:
    """Most tokens of a sentence that every engine has positions for."""
    return directory.model.config.max_length or LONGEST


@dataclass(frozen=True)
class Agreement:
    """How far two engines agree on the same sentences."""

    sentences: int
    identical: int
    """Translations with the same tokens."""
    largest_difference: float
    """Between the scores of identical translations."""

    @classmethod
    def of(cls, ours: Found, theirs: Found) -> "Agreement":
        same = [(own, other) for own, other in zip(ours, theirs, strict=True) if own[0] == other[0]]
        differences = [abs(own[1] - other[1]) for own, other in same]
        return cls(len(ours), len(same), max(differences, default=0.0))
