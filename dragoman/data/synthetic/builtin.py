"""Sentence pairs without files: those of the phrase grammar, and random words that can only be learned by heart."""

import json
import random
import re
from collections.abc import Iterator
from functools import partial

from dragoman.data.readers.types import Numbered, Pair, PairReader
from dragoman.errors import DataError

BUILTIN = "builtin:"
DEFAULT_PAIRS = {"grammar": 20_000, "random": 64}
VOCABULARY = "builtin:random:words"
WORDS = [str(number) for number in range(4, 5000)]
"""Of random sentences: with the four special tokens a vocabulary of 5,000."""
RANDOM_LENGTH = 100
"""Words of a random sentence."""
# A part of the grammar has combinations of words that no split by sentence could hold out. Of random sentences there
# are too few to have all words, and those held out show that there is nothing to learn but the pairs themselves.
SETTINGS: dict[str, dict[str, list[str]]] = {
    "grammar": {"data.valid": ["builtin:grammar:500:valid"], "data.test": ["builtin:grammar:500:test"]},
    "random": {
        "data.valid": ["builtin:random:8:valid"],
        "data.test": ["builtin:random:8:test"],
        "tokenizer.pairs": [VOCABULARY],
    },
}
_NAME = re.compile("builtin:(grammar|random)(?::0*([1-9][0-9]{0,6}))?(?::(train|valid|test))?")


def open_builtin(source: str) -> tuple[str, PairReader]:
    """The short name and the pairs of `builtin:grammar` or `builtin:random`, each with `[:COUNT][:PART]`."""
    if source == VOCABULARY:
        return "random", PairReader(lambda: enumerate(zip(WORDS, WORDS, strict=True), start=1), unit="pair")
    match = _NAME.fullmatch(source)
    if match is None:
        raise DataError(
            f"There is no built-in data {source}; write builtin:grammar, or builtin:grammar:5000 for a number of "
            "pairs below ten million, or builtin:grammar:500:test for pairs that training never sees; or "
            "builtin:random."
        )
    name, count, part = match[1], int(match[2] or DEFAULT_PAIRS[match[1]]), match[3] or "train"
    languages = ("en", "fr") if name == "grammar" else (None, None)
    return name, PairReader(partial(_numbered, name, count, part), languages, unit="pair")


def settings_for(source: str | None) -> list[str]:
    """The settings with which a run on this source begins, those that the user gives coming after."""
    name = (source or "").removeprefix(BUILTIN).partition(":")[0]
    found = SETTINGS.get(name, {}) if source and source.startswith(BUILTIN) else {}
    return [f"{key}={json.dumps(value)}" for key, value in found.items()]


def random_pairs(count: int, part: str = "train") -> Iterator[Pair]:
    """`count` pairs of `RANDOM_LENGTH` words each, drawn at random; a smaller count gives the beginning of a larger."""
    drawn = random.Random(part)
    for _ in range(count):
        source, target = (" ".join(drawn.choices(WORDS, k=RANDOM_LENGTH)) for _ in range(2))
        yield source, target


def _numbered(name: str, count: int, part: str) -> Iterator[Numbered]:
    if name == "random":
        return enumerate(random_pairs(count, part), start=1)
    from dragoman.data.synthetic.grammar import generate

    return enumerate(generate(count, seed=0, split=part), start=1)
