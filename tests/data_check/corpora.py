"""Corpora for the tests of checks: the built-in grammar, clean or with one thing wrong."""

import random
from collections.abc import Iterable
from functools import cache
from typing import Any

from dragoman.config.data import CleaningConfig
from dragoman.data.bitext import Bitext
from dragoman.data.builtin.grammar import generate
from dragoman.data_check import CheckResult, Finding, check
from dragoman.data_check.result import Check, PartResult, Side

Pairs = list[tuple[str, str]]
ENGLISH_FRENCH = ("en", "fr")
MOST = 2_003


@cache
def _grammar() -> Pairs:
    return list(generate(MOST, seed=5))


def clean(count: int) -> Pairs:
    """Up to MOST English sentences with their French translations."""
    assert count <= MOST
    return _grammar()[:count]


def german(count: int) -> list[str]:
    """Sentences that are German beyond doubt."""
    draw = random.Random(7)
    who = ["Die alte Frau", "Der müde Bäcker", "Unser Nachbar", "Das kleine Mädchen", "Mein jüngerer Bruder"]
    does = ["wartet seit gestern", "schläft trotz des Lärms", "arbeitet schon wieder", "sitzt ganz allein"]
    where = ["vor dem Bahnhof", "hinter der großen Scheune", "neben unserem Haus", "unter einer hohen Brücke"]
    return [" ".join([draw.choice(who), draw.choice(does), draw.choice(where)]) + "." for _ in range(count)]


def bitext(pairs: Pairs, *, languages: tuple[str | None, str | None] = ENGLISH_FRENCH) -> Bitext:
    """As if read from a file."""
    return Bitext(lambda: pairs, name="planted", languages=languages)


def examined(check: type[Check], pairs: Pairs, *codes: str | None, part: str = "train") -> Any:
    """One check, after it has looked at all pairs."""
    result = PartResult(part, "list", *map(Side, codes or (None, None)))
    examining = check(result)
    for block in result.locations.blocks([bitext(pairs)]):
        examining.add(block)
    result.pairs = result.pairs or len(pairs)  # which sizes alone count
    return examining


def checked(
    pairs: Pairs, *, languages: tuple[str | None, str | None] = ENGLISH_FRENCH, **held_out: Pairs
) -> CheckResult:
    """All checks on pairs to train on, and on parts held out."""
    train = bitext(pairs, languages=languages).cleaned(CleaningConfig())
    return check(train, held_out={part: bitext(given) for part, given in held_out.items()})


def lines(finding: Finding) -> list[int]:
    """The numbers of its examples."""
    return [location.number for location in finding.examples]


def problems(result: CheckResult) -> list[Finding]:
    """The findings that a user must not overlook."""
    return [finding for finding in result.findings if finding.severity == "problem"]


def only(findings: Iterable[Finding], kind: str) -> Finding:
    """The one finding of a kind."""
    (finding,) = (finding for finding in findings if finding.kind == kind)
    return finding
