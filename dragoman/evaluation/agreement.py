"""Pairs scored by two models, one for each direction, and those left out that both find unlikely, or judge differently.

The score is exp(-(|H_ab - H_ba| + (H_ab + H_ba) / 2)), from 0 to 1, with H the cross-entropy of one side given the
other, in nats per token: Junczys-Dowmunt (2018), "Dual Conditional Cross-Entropy Filtering of Noisy Parallel Corpora".
"""

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, starmap
from pathlib import Path

import numpy as np

from dragoman.config.data import CleaningConfig
from dragoman.config.run import RunConfig
from dragoman.data.bitext import CleanedBitext
from dragoman.data.pair_file import HASH, PairFile, parsed
from dragoman.data.readers.types import Pair
from dragoman.errors import DataError, UsageError
from dragoman.storage.validate import check_files, directions, languages
from dragoman.system.processes import map_on_cores
from dragoman.text.language_codes import Languages, same_language

AT_ONCE = 1_024
"""Pairs that a process is given at a time."""
MOST_BYTES = 16
"""Bytes of UTF-8 for each of the tokens that data.max_length allows: a longer side is too long in any vocabulary."""
HOPELESS = 1e6
"""Nats per token of a side that a model has too few positions for."""


def check_models(cleaning: CleaningConfig, pairs: CleanedBitext) -> None:
    """Raise unless `cleaning.models`, if there are any, translate these pairs from source to target, and back."""
    if cleaning.models is None:
        return
    if pairs.labelled:
        raise UsageError("data.cleaning.models score pairs of two languages, and these have more; leave them out.")
    wanted = pairs.source_language, pairs.target_language
    for path, way in zip(cleaning.models, (wanted, wanted[::-1]), strict=True):
        check_files(Path(path))
        known: list[Languages] = [*(directions(Path(path)) or filter(None, [languages(Path(path))]))]
        if not known or any(_fits(own, way) for own in known):
            continue
        own, needed = ("-".join(map(str, each)) for each in (known[0], way))
        raise UsageError(
            f"{path} translates {own}, but its place in data.cleaning.models is for {needed}; name first the model "
            "from source to target, then the one back."
        )


def _fits(own: Languages, wanted: Languages) -> bool:
    """Whether a model of these languages translates those that are wanted, as far as both are known."""
    return all(not a or not b or same_language(a, b) for a, b in zip(own, wanted, strict=True))


def agreement(there: float, back: float) -> float:
    """The score of a pair, from the cross-entropies of both directions."""
    return math.exp(-(abs(there - back) + (there + back) / 2))


class Scorer:
    """Scores the lines of a `PairFile` by two models; sides of more bytes than `most` have 0."""

    def __init__(self, models: tuple[str, str], wanted: Languages, most: int):
        from dragoman.decoding.translator import Translator  # which loads torch

        ways = zip(models, (wanted, wanted[::-1]), strict=True)
        self.forward, self.backward = (Translator.load(path, languages=way) for path, way in ways)
        self.most = most

    def __call__(self, *lines: str) -> array:
        """The scores of lines, in 4 bytes each."""
        scores = array("f", bytes(4 * len(lines)))
        pairs = {row: pair for row, (pair, _) in enumerate(map(parsed, lines)) if self._is_short(pair)}
        there = _cross_entropies(self.forward.score, list(pairs.values()))
        back = _cross_entropies(self.backward.score, [pair[::-1] for pair in pairs.values()])
        for row, *found in zip(pairs, there, back, strict=True):
            scores[row] = agreement(*found)
        return scores

    def _is_short(self, pair: Pair) -> bool:
        return max(len(side.encode()) for side in pair) <= self.most


def _cross_entropies(score: Callable, pairs: list[Pair]) -> list[float]:
    """Nats per token of each target, given its source."""
    try:
        return [-each.score for each in score(pairs)]
    except DataError:  # one has more tokens than the model has positions
        if len(pairs) == 1:
            return [HOPELESS]
        half = len(pairs) // 2
        return _cross_entropies(score, pairs[:half]) + _cross_entropies(score, pairs[half:])


def keep_best(pairs: PairFile, config: RunConfig, *, near: Path, tell: Callable[[str], None]) -> PairFile:
    """The pairs without those to train on that score worst; written on the disk of `near`, and `pairs` is closed.

    The share `data.cleaning.keep` is kept. What is held out of training is neither scored nor left out, so that scores
    of the trained model are those of all kinds of pairs. Takes 4 bytes a pair; `tell` is told how many are scored.
    """
    from dragoman.data.preparation import split_off  # which loads torch

    held_out = split_off(pairs, config).train.held_out
    scores = _scores(pairs.without(held_out), config, tell)
    worst = min(len(scores) - 1, len(scores) - round(config.data.cleaning.keep * len(scores)))
    limit = np.partition(scores, worst)[worst]
    is_kept = iter(scores >= limit)
    rest = pairs.only((line for line in pairs.lines() if line[:HASH] in held_out or next(is_kept)), near)
    reason = f"two models score it below {limit:.2g}"
    dropped = pairs.report.dropped + Counter({reason: int((scores < limit).sum())})
    rest.report = replace(pairs.report, dropped=dropped, weighted=sum(1 for _ in rest))
    pairs.close()
    return rest


def _scores(pairs: PairFile, config: RunConfig, tell: Callable[[str], None]) -> np.ndarray:
    """The score of each line, computed by one process a core, or on the GPU."""
    wanted = pairs.source_language, pairs.target_language
    scorer = Scorer(config.data.cleaning.models or ("", ""), wanted, MOST_BYTES * config.data.max_length)
    map_jobs = map_on_cores if scorer.forward.device.type == "cpu" else starmap
    scores = array("f")
    for found in map_jobs(scorer, _jobs(pairs)):
        scores.extend(found)
        tell(f"{len(scores):,} of about {pairs.counts.pairs:,}")
    return np.frombuffer(scores, np.float32)


def _jobs(pairs: PairFile) -> Iterator[tuple[str, ...]]:
    lines = pairs.lines()
    while job := tuple(islice(lines, AT_ONCE)):
        yield job
