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
from dragoman.text.respelling import MOST_TEXTS, Respelling, learn_respelling


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
        for code, targets in _targets_by_language(parts.train).items()
    }
    respellings = {language: respelling for language, respelling in learned.items() if respelling}
    if not respellings:
        return Respelled(parts, {})
    respell = partial(_respelled, respellings)
    changed = Counter(_target_language(pair) for pair in parts.train if respell(pair) != pair)
    test = parts.test if data.held_out_files("test") else parts.test.changed(respell)
    return Respelled(
        Splits(parts.train.rewritten(respell, near), parts.valid.changed(respell), test),
        {f"{language} {respellings[language]}".strip(): count for language, count in changed.items()},
    )


def _targets_by_language(pairs: Iterable[Pair]) -> dict[str, list[str]]:
    """A sample of the targets of each language; that of pairs without labels is ""."""
    samples: defaultdict[str, Sample[str]] = defaultdict(partial(Sample, MOST_TEXTS))
    numbers: Counter[str] = Counter()
    for pair in pairs:
        language = _target_language(pair)
        numbers[language] += 1
        samples[language].add(pair[1], numbers[language])
    return {language: sample.items for language, sample in samples.items()}


def _target_language(pair: Pair) -> str:
    label, _ = cut_label(pair[0])
    return languages_in(label)[1] if label else ""


def _respelled(respellings: dict[str, Respelling], pair: Pair) -> Pair:
    respelling = respellings.get(_target_language(pair))
    return (pair[0], respelling(pair[1])) if respelling else pair
