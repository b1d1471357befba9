"""Reads sentence pairs without files: those of the phrase grammar, and random words that can only be memorised."""

import random
import re
from collections.abc import Iterator

from dragoman.config.settings import Settings
from dragoman.data.readers.types import Pair, PairReader
from dragoman.errors import DataError

BUILTIN = "builtin:"
DEFAULT_PAIRS = {"grammar": 20_000, "random": 64}
VOCABULARY = "builtin:random:words"
WORDS = [str(number) for number in range(4, 5000)]
"""The words of random sentences: with the four special tokens a vocabulary of 5,000."""
RANDOM_LENGTH = 100
"""Words of a random sentence."""
# Validation and test data of the grammar have combinations of words that no split by sentence could hold out. The
# random sentences are too few to have all words, so the vocabulary has pairs of its own; held-out ones show that
# nothing is learned beyond the pairs themselves.
SETTINGS: dict[str, Settings] = {
    name: {"data": {part: [f"builtin:{name}:{pairs}:{part}"] for part in ("valid", "test")}}
    for name, pairs in (("grammar", 500), ("random", 8))
}
SETTINGS["random"]["tokenizer"] = {"pairs": [VOCABULARY]}
_NAME = re.compile("builtin:(grammar|random)(?::0*([1-9][0-9]{0,6}))?(?::(train|valid|test))?")


def open_builtin(source: str) -> tuple[str, PairReader]:
    """The short name and the pairs of `builtin:grammar` or `builtin:random`, each with `[:COUNT][:PART]`."""
    if source == VOCABULARY:
        return "random", PairReader(lambda: enumerate(zip(WORDS, WORDS, strict=True), start=1), unit="pair")
    match = _NAME.fullmatch(source)
    if match is None:
        raise DataError(
            f"There is no built-in data {source}; write builtin:grammar or builtin:random, builtin:grammar:5000 for a "
            "number of pairs below ten million, or builtin:grammar:500:test for pairs that training never sees."
        )
    name = match[1]
    count = int(match[2] or DEFAULT_PAIRS[name])
    part = match[3] or "train"
    if name == "random":
        return name, PairReader(lambda: enumerate(random_pairs(count, part), start=1), unit="pair")
    from dragoman.data.builtin.grammar import generate  # here, since it reads the lexicon

    return name, PairReader(lambda: enumerate(generate(count, split=part), start=1), ("en", "fr"), unit="pair")


def settings_for(source: str | None) -> Settings:
    """Settings that come with built-in data; what the user sets takes precedence."""
    kind, _, rest = (source or "").partition(":")
    return SETTINGS.get(rest.partition(":")[0], {}) if kind == "builtin" else {}


def random_pairs(count: int, part: str = "train") -> Iterator[Pair]:
    """`count` pairs of `RANDOM_LENGTH` words each, drawn at random; a smaller count gives the beginning of a larger."""
    rng = random.Random(part)
    for _ in range(count):
        source = " ".join(rng.choices(WORDS, k=RANDOM_LENGTH))
        target = " ".join(rng.choices(WORDS, k=RANDOM_LENGTH))
        yield source, target
