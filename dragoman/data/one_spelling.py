"""Targets in one spelling, where the pairs have two of a language (`dragoman.text.respelling`)."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from dragoman.config.data import DataConfig
from dragoman.data.pair_file import PairFile
from dragoman.data.readers.types import Pair
from dragoman.data.sampling import Sample
from dragoman.data.splitting import Splits
from dragoman.text.characters import cut_label
from dragoman.text.labels import languages_in
from dragoman.text.respelling import MOST_TEXTS, learn_respelling

LOOKED_AT = 500_000
"""Most pairs, about, in which spellings are looked for."""


class Respelled(NamedTuple):
    """The pairs with targets in one spelling, and how many training pairs were changed, by what was replaced."""

    parts: Splits
    changed: dict[str, int]


def in_one_spelling(parts: Splits, data: DataConfig, language: str | None, *, near: Path) -> Respelled:
    """Write the targets of each language in one spelling: that of most validation pairs that the config names, if it
    names some, or else of most training pairs. `language` is that of targets without labels, if it is known.

    Test pairs that the config names are not changed, since nobody else decides how they are scored; validation pairs
    are, because they choose the model. If any pair changes, the training pairs are written to a file on the disk of
    `near`.
    """
    assert isinstance(parts.train, PairFile)
    wanted = _targets_by_language(parts.valid) if data.held_out_files("valid") else {}
    learned = {
        code: learn_respelling(targets, like=wanted.get(code, []), language=code or language)
        for code, targets in _targets_by_language(parts.train.sample(LOOKED_AT, labelled=True)).items()
    }
    respellings = {code: respelling for code, respelling in learned.items() if respelling}
    if not respellings:
        return Respelled(parts, {})
    changed: Counter[str] = Counter()

    def respelled(pair: Pair) -> Pair:
        source, target = pair
        code = _target_language(pair)
        return source, respellings[code](target) if code in respellings else target

    def counted(pair: Pair) -> Pair:
        new = respelled(pair)
        changed[_target_language(pair)] += new != pair
        return new

    train = parts.train.rewritten(counted, near)
    test = parts.test if data.held_out_files("test") else parts.test.changed(respelled)
    counts = {f"{code} {respellings[code]}".strip(): changed[code] for code in respellings}
    return Respelled(Splits(train, parts.valid.changed(respelled), test), counts)


def _targets_by_language(pairs: Iterable[Pair]) -> dict[str, list[str]]:
    """A sample of the targets of each language; that of pairs without labels is ""."""
    samples: defaultdict[str, Sample[str]] = defaultdict(partial(Sample, MOST_TEXTS))
    numbers: Counter[str] = Counter()
    for pair in pairs:
        code = _target_language(pair)
        numbers[code] += 1
        samples[code].add(pair[1], numbers[code])
    return {code: sample.items for code, sample in samples.items()}


def _target_language(pair: Pair) -> str:
    label, _ = cut_label(pair[0])
    return languages_in(label)[1] if label else ""
