"""Scores pairs by two models, one for each direction, to leave out those that both find unlikely or judge differently.

The score is exp(-(|H_ab - H_ba| + (H_ab + H_ba) / 2)), from 0 to 1, with H the cross-entropy of one side given the
other, in nats per token: Junczys-Dowmunt (2018), "Dual Conditional Cross-Entropy Filtering of Noisy Parallel Corpora".
"""

import math
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator
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
"""Pairs that a process scores at a time."""
MOST_BYTES = 16
"""Most bytes of UTF-8 for each token that data.max_length allows: a longer side is too long in any vocabulary."""
HOPELESS = 1e6
"""Cross-entropy, in nats per token, of a pair with a side that is too long for the positions of a model."""


def check_models(cleaning: CleaningConfig, pairs: CleanedBitext) -> None:
    """Raise unless `cleaning.models`, if there are any, translate these pairs from source to target, and back."""
    if cleaning.models is None:
        return
    if pairs.has_labels:
        raise UsageError("data.cleaning.models score pairs of two languages, and these have more; leave them out.")
    there, back = _directions(pairs.source_language, pairs.target_language)
    for path, direction in zip(cleaning.models, (there, back), strict=True):
        check_files(Path(path))
        known: list[Languages] = directions(Path(path))
        if not known:
            single = languages(Path(path))
            known = [single] if single else []
        if not known or any(_fits(model_languages, direction) for model_languages in known):
            continue
        translated, needed = ("-".join(map(str, pair)) for pair in (known[0], direction))
        raise UsageError(
            f"{path} translates {translated}, but its place in data.cleaning.models is for {needed}; name first the "
            "model from source to target, then the one back."
        )


def _directions(source: str | None, target: str | None) -> tuple[Languages, Languages]:
    """The languages of a model from source to target, and of one back."""
    return (source, target), (target, source)


def _fits(model_languages: Languages, direction: Languages) -> bool:
    """Whether a model of these languages translates in this direction, as far as both are known."""
    for known, wanted in zip(model_languages, direction, strict=True):
        if known and wanted and not same_language(known, wanted):
            return False
    return True


def agreement(there: float, back: float) -> float:
    """The score of a pair, from the cross-entropies of both directions."""
    return math.exp(-(abs(there - back) + (there + back) / 2))


class Scorer:
    """Scores the lines of a `PairFile` by two models; pairs with a side of more than `max_bytes` score 0."""

    def __init__(self, models: tuple[str, str], direction: Languages, max_bytes: int):
        from dragoman.decoding.translator import Translator  # which loads torch

        there, back = _directions(*direction)
        self.forward = Translator.load(models[0], precision="float32", languages=there)
        self.backward = Translator.load(models[1], precision="float32", languages=back)
        self.max_bytes = max_bytes

    def __call__(self, *lines: str) -> array:
        """The scores of lines, in 4 bytes each."""
        scores = array("f", bytes(4 * len(lines)))
        rows, pairs = [], []
        for row, line in enumerate(lines):
            pair, _ = parsed(line)
            if self._is_short(pair):
                rows.append(row)
                pairs.append(pair)
        there = _cross_entropies(self.forward.score, pairs)
        back = _cross_entropies(self.backward.score, [(target, source) for source, target in pairs])
        for row, there_entropy, back_entropy in zip(rows, there, back, strict=True):
            scores[row] = agreement(there_entropy, back_entropy)
        return scores

    def _is_short(self, pair: Pair) -> bool:
        return max(len(side.encode()) for side in pair) <= self.max_bytes


def _cross_entropies(score: Callable, pairs: list[Pair]) -> list[float]:
    """Cross-entropy of each target given its source, in nats per token."""
    try:
        return [-scored.score for scored in score(pairs)]
    except DataError:  # one has more tokens than the model has positions
        if len(pairs) == 1:
            return [HOPELESS]
        half = len(pairs) // 2
        return _cross_entropies(score, pairs[:half]) + _cross_entropies(score, pairs[half:])


def best_pairs(pairs: PairFile, config: RunConfig, *, near: Path, tell: Callable[[str], None]) -> PairFile:
    """The pairs without the training pairs that `data.cleaning.models` score worst, or as they are without models.

    The share `data.cleaning.keep` of the training pairs is kept, in a new file on the disk of `near`, and `pairs` is
    closed. Held-out pairs are neither scored nor left out, so that the trained model is evaluated on all kinds of
    pairs. Takes 4 bytes a pair; `tell` is called with the progress.
    """
    if config.data.cleaning.models is None:
        return pairs
    from dragoman.data.preparation import split_off  # which loads torch

    held_out = split_off(pairs, config).train.held_out
    scores = _scores(pairs.without(held_out), config.data.cleaning.models, config.data.max_length, tell)
    worst_kept = min(len(scores) - 1, len(scores) - round(config.data.cleaning.keep * len(scores)))
    limit = np.partition(scores, worst_kept)[worst_kept]
    best = pairs.only(_best_lines(pairs, held_out, scores >= limit), near)
    reason = f"two models score it below {limit:.2g}"
    dropped = pairs.report.dropped + Counter({reason: int((scores < limit).sum())})
    best.report = replace(pairs.report, dropped=dropped, weighted=sum(1 for _ in best))
    pairs.close()
    return best


def _best_lines(pairs: PairFile, held_out: Collection[str], is_kept: np.ndarray) -> Iterator[str]:
    """The lines of held-out pairs, and those of training pairs that are kept; `is_kept` has one value for each."""
    remaining = iter(is_kept)
    for line in pairs.lines():
        if line[:HASH] in held_out or next(remaining):
            yield line


def _scores(pairs: PairFile, models: tuple[str, str], max_length: int, tell: Callable[[str], None]) -> np.ndarray:
    """The score of each line, computed by one process a core, or on the GPU."""
    scorer = Scorer(models, (pairs.source_language, pairs.target_language), MOST_BYTES * max_length)
    map_jobs = map_on_cores if scorer.forward.device == "cpu" else starmap
    scores = array("f")
    for chunk in map_jobs(scorer, _chunks(pairs)):
        scores.extend(chunk)
        tell(f"two models have scored {len(scores):,} of about {pairs.counts.pairs:,}")
    return np.frombuffer(scores, np.float32)


def _chunks(pairs: PairFile) -> Iterator[tuple[str, ...]]:
    lines = pairs.lines()
    while chunk := tuple(islice(lines, AT_ONCE)):
        yield chunk
