"""Targets in one spelling, where the pairs have several of a language (`dragoman.text.respelling`)."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from dragoman.config.run import RunConfig
from dragoman.data.corpora import open_held_out
from dragoman.data.pair_file import PairFile, Respelled, respell, target_language
from dragoman.data.readers.types import Pair
from dragoman.data.sampling import Sample
from dragoman.text.respelling import MOST_TEXTS, learn_respelling

MOST_PAIRS = 500_000
"""Most pairs of a corpus of several target languages, about, in which spellings are looked for."""


def in_one_spelling(pairs: PairFile, config: RunConfig, *, near: Path) -> PairFile:
    """The pairs with the targets of each language in one spelling: that of most, or of the validation pairs.

    The latter decide if the config names some. If any target changes, the pairs are written to another file on the disk
    of `near`, and `counts` tells what was replaced. That follows from all pairs, however they are weighted, split and
    shared out later.
    """
    held_out = open_held_out(config.data, pairs.languages, labelled=bool(pairs.counts.labels))
    wanted = _targets_by_language(held_out["valid"].cleaned()) if "valid" in held_out else {}
    # A corpus has a target language of its own, or a column with several.
    most = MOST_TEXTS if len(pairs.counts.labels) <= len(pairs.report.sizes) else MOST_PAIRS
    kept = config.tokenizer.symbols
    learned = {
        code: learn_respelling(targets, like=wanted.get(code, []), language=code or pairs.target_language, kept=kept)
        for code, targets in _targets_by_language(pairs.drawn(most)).items()
    }
    respellings = {code: respelling for code, respelling in learned.items() if respelling}
    if not respellings:
        return pairs
    numbers: Counter[str] = Counter()

    def counted(pair: Pair) -> Pair:
        new = respell(respellings, pair)
        numbers[target_language(pair)] += new != pair
        return new

    written = pairs.rewritten(counted, config, near=near)
    tested = _targets_by_language(held_out["test"].cleaned()) if "test" in held_out else {}
    respelled = []
    for code, respelling in respellings.items():
        others = [respelling(target) != target for target in tested.get(code, [])]
        tests_others = sum(others) / max(1, len(others))
        respelled.append(Respelled(code, respelling, numbers[code], tests_others=tests_others))
    written.counts = written.counts._replace(respelled=respelled)
    return written


def _targets_by_language(pairs: Iterable[Pair]) -> dict[str, list[str]]:
    """A sample of the targets of each language; that of pairs without labels is ""."""
    samples: defaultdict[str, Sample[str]] = defaultdict(partial(Sample, MOST_TEXTS))
    numbers: Counter[str] = Counter()
    for pair in pairs:
        code = target_language(pair)
        numbers[code] += 1
        samples[code].add(pair[1], numbers[code])
    return {code: sample.items for code, sample in samples.items()}
