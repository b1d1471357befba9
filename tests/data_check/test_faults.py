"""The check of pairs sees what people regret in translations, by the same eyes as `translate --checks`."""

import pytest

from dragoman.data_check.faults import LOOKED_FOR
from tests.data_check.corpora import Pairs, checked, clean

COUNT = 300


def found(pairs: Pairs) -> dict[str, int]:
    return {finding.kind: finding.count for finding in checked(pairs).findings if finding.kind in LOOKED_FOR}


@pytest.mark.parametrize(
    ("kind", "source", "target"),
    [
        ("number", "The house with the number 417 is old.", "La maison au numéro 471 est vieille."),
        ("unit", "The road is 40 km long.", "La route a une longueur de 40 kg."),
        ("negation", "We do not want to leave the house.", "Nous voulons quitter la maison."),
        ("name", "Yesterday I saw Robert at the station.", "Hier j'ai vu Catherine à la gare."),
        ("untranslated", "The old man sees the little red house.", "Le vieux man sees the little red house."),
        ("repetition", "The cat sleeps in the garden.", "Le chat dort dort dort dort dans le jardin."),
    ],
)
def test_pairs_with_a_fault_are_counted_and_the_others_are_not(kind: str, source: str, target: str) -> None:
    pairs = clean(COUNT)
    with_faults = [(f"{source} {index}", f"{target} {index}") for index in range(20)]
    counts = found(pairs + with_faults)
    usual = found(pairs).get(kind, 0)
    assert 20 <= counts[kind] <= 20 + usual
    assert sum(counts.values()) <= 20 + sum(found(pairs).values())


def test_exchanged_sides_are_not_called_faulty_too() -> None:
    pairs = clean(COUNT)
    half = COUNT // 2
    assert found([*pairs[:half], *(pair[::-1] for pair in pairs[half:])]) == {}
