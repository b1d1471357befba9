"""General pairs beside those that a model is adapted to, against forgetting."""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from dragoman.config.run import RunConfig
from dragoman.data.bitext import Bitext, CleanedBitext, Corpus, copies
from dragoman.data.pair_file import PairFile
from dragoman.data.readers.types import Pair
from dragoman.data.splitting import Splits, default_held_out, split
from dragoman.errors import DataError
from dragoman.text.characters import sentence_hash

MOST_TESTED = 1_000
"""General pairs that are split off to be scored."""


class Mixture(NamedTuple):
    """What a run trains on, and general pairs to score before and after."""

    train: Bitext
    general: list[Pair]


def mix_in(parts: Splits, config: RunConfig, pairs: PairFile) -> Mixture:
    """The training pairs in `parts`, split from `pairs`, with the general pairs that the config names, as many as it
    says, in the same languages.

    No general pair has a source sentence that is held out of the own pairs, and no own one any that is scored.
    """
    finetune = config.finetune
    general = list(_opened(finetune.test, config, pairs).cleaned()) if finetune.test else []
    if not finetune.mix:
        return Mixture(_without(parts.train, general), general)
    mixed = _opened(finetune.mix, config, pairs).cleaned(config.data.cleaning, held_out=[parts.valid, parts.test])
    num_pairs = sum(1 for _ in mixed)
    if not num_pairs:
        raise DataError(f"{' and '.join(finetune.mix)} has no pairs to train on beside the others; leave out the mix.")
    source: Bitext = mixed
    if not general:
        test = min(MOST_TESTED, default_held_out(num_pairs))
        drawn = split(mixed, valid=0, test=test, seed=config.seed)
        source, general = drawn.train, list(drawn.test)
        num_pairs -= len(general)
    own, source = _without(parts.train, general), _without(source, general)
    weight = finetune.share / (1 - finetune.share) * sum(1 for _ in own) / max(1, num_pairs)

    def both() -> Iterator[Pair]:
        return chain(own, (pair for pair in source for _ in range(copies(pair, weight))))

    return Mixture(Bitext(both, name=f"{parts.train.name}+{mixed.name}"), general)


def _opened(files: list[str], config: RunConfig, pairs: PairFile) -> CleanedBitext:
    bitext = Bitext.open(*files, languages=pairs.languages, replace_bad_bytes=config.data.replace_bad_bytes)
    if len(pairs.counts.labels) > 1:
        raise DataError(f"{files[0]} does not say its languages, of which the own pairs have several; leave it out.")
    return CleanedBitext([Corpus(bitext, label=each) for each in pairs.counts.labels or [""]])


def _without(pairs: Bitext, held_out: list[Pair]) -> Bitext:
    """The pairs whose source sentence is none of those that are held out."""
    hashes = {sentence_hash(source) for source, _ in held_out}
    if not hashes:
        return pairs
    return Bitext(lambda: (pair for pair in pairs if sentence_hash(pair[0]) not in hashes), name=pairs.name)
