"""Mixes general pairs into those that a model is adapted to, so that it does not forget what it knew."""

from collections.abc import Iterator
from typing import NamedTuple

from dragoman.config.run import RunConfig
from dragoman.data.bitext import Bitext, CleanedBitext, Corpus
from dragoman.data.blocks import copies
from dragoman.data.pair_file import PairFile
from dragoman.data.readers.types import Pair
from dragoman.data.splitting import Splits, default_held_out, split, without_twins
from dragoman.errors import DataError
from dragoman.text.characters import sentence_hash

MOST_TESTED = 1_000
"""Most general pairs that are split off to be scored."""


class Mixture(NamedTuple):
    """The pairs that a run trains on, and general pairs that are scored before and after it."""

    train: Bitext
    general: list[Pair]


def mix_in(parts: Splits, config: RunConfig, pairs: PairFile) -> Mixture:
    """Mix the training pairs in `parts`, split off `pairs`, with the general pairs of the config, as many as it says.

    All are in the same languages. A general pair whose source sentence is held out from `pairs` is left out, and so is
    every training pair whose source sentence is among the general pairs to score. With `data.split=groups`, twins of
    pairs that were split off are left out, too.
    """
    finetune = config.finetune
    scored = list(_open(finetune.test, config, pairs).cleaned()) if finetune.test else []
    if not finetune.mix:
        return Mixture(_without(parts.train, scored), scored)
    cleaned = _open(finetune.mix, config, pairs).cleaned(config.data.cleaning, held_out=[parts.valid, parts.test])
    num_general = sum(1 for _ in cleaned)
    if not num_general:
        raise DataError(f"{' and '.join(finetune.mix)} has no pairs to train on beside the others; leave out the mix.")
    general = pairs.in_same_spelling(cleaned)
    by_groups = config.data.split == "groups"
    drawn: list[Pair] = []
    if not scored:
        test = min(MOST_TESTED, default_held_out(num_general))
        general_parts = split(general, valid=0, test=test, seed=config.seed, by="groups" if by_groups else "sentence")
        general = general_parts.train
        scored = drawn = list(general_parts.test)
    train, general = _without(parts.train, scored), _without(general, scored)
    if by_groups:
        train = without_twins(train, drawn)
        general = without_twins(general, _split_off(parts, config))
    num_general = sum(1 for _ in general)
    if not num_general:
        why = "those that finetune.test scores" if finetune.test else "near duplicates of pairs that are held out"
        raise DataError(f"{' and '.join(finetune.mix)} has no pairs to train on beside {why}; give other files.")
    num_train = sum(1 for _ in train)
    weight = finetune.share / (1 - finetune.share) * num_train / max(1, num_general)

    def train_then_general() -> Iterator[Pair]:
        yield from train
        for pair in general:
            for _ in range(copies(pair, weight)):
                yield pair

    name, languages = f"{parts.train.name}+{cleaned.name}", (pairs.source_language, pairs.target_language)
    return Mixture(Bitext(train_then_general, name=name, languages=languages), scored)


def _open(files: list[str], config: RunConfig, pairs: PairFile) -> CleanedBitext:
    """Open files of general pairs, in the languages of `pairs`."""
    bitext = Bitext.open(*files, languages=pairs.languages, replace_bad_bytes=config.data.replace_bad_bytes)
    if len(pairs.counts.labels) > 1:
        raise DataError(f"{files[0]} does not say its languages, of which the own pairs have several; leave it out.")
    label = pairs.counts.labels[0] if pairs.counts.labels else ""
    return CleanedBitext([Corpus(bitext, label=label)])


def _split_off(parts: Splits, config: RunConfig) -> list[Pair]:
    """The validation and test pairs that were split off; not those in files that the config names."""
    held_out = {"valid": parts.valid, "test": parts.test}
    return [pair for name, part in held_out.items() if not config.data.held_out_files(name) for pair in part]


def _without(pairs: Bitext, held_out: list[Pair]) -> Bitext:
    """The pairs whose source sentence is none of those that are held out."""
    hashes = {sentence_hash(source) for source, _ in held_out}
    if not hashes:
        return pairs
    return pairs.where(lambda pair: sentence_hash(pair[0]) not in hashes)
