"""Lengths are counted exactly, and sizes that cannot be right are named with their lines."""

import numpy as np
import pytest

from dragoman.data_check.result import Distribution
from dragoman.data_check.sizes import SizeCheck
from tests.data_check.corpora import Pairs, examined, lines, only


def sizes(pairs: Pairs) -> SizeCheck:
    return examined(SizeCheck, pairs)


def test_a_distribution_has_the_percentiles_of_numpy():
    values = np.random.default_rng(3).integers(0, 41, 997)
    counted = Distribution()
    counted.update(values.tolist())
    for percent in (0, 1, 5, 50, 95, 99.7, 100):
        # The definition by which a percentile is one of the values.
        assert counted.percentile(percent) == np.percentile(values, percent, method="inverted_cdf")
    assert counted.mean == pytest.approx(values.mean())
    assert (Distribution().mean, Distribution().percentile(50)) == (0, 0)


def test_a_histogram_loses_nothing():
    counted = Distribution()
    counted.update([0, 4, 5, 9, 10, 11, 99])
    assert counted.histogram(2, 10) == [2, 5]
    assert counted.histogram(5, 20) == [1, 2, 3, 0, 1]
    assert sum(counted.histogram(7, 0)) == 7


USUAL = (
    "A sentence of a usual length, which is fifty-five letters",
    "Une phrase d'une longueur habituelle, qui a sa mesure",
)


@pytest.mark.parametrize(
    ("pair", "kind"),
    [
        (("", "x"), "empty source"),
        (("x", " \u2028"), "empty target"),
        (("\u00a0", ""), "empty"),
        (("Tom", "Tom"), "equal"),
        (("long " * 201, "longue " * 201), "long"),
        (("Short.", USUAL[1]), "ratio"),
        ((USUAL[0], "Court."), "ratio"),
    ],
)
def test_each_kind_is_named_with_its_lines(pair, kind):
    size_check = sizes([USUAL, pair, USUAL, pair, pair, pair])
    finding = only(size_check.findings(), kind)
    assert (finding.count, lines(finding), finding.severity) == (4, [2, 4, 5], "problem")
    # Neither are few of many a problem, nor one or two.
    assert only(sizes([USUAL] * 997 + [pair] * 3).findings(), kind).severity == "note"
    assert only(sizes([USUAL] * 3 + [pair] * 2).findings(), kind).severity == "note"


def test_usual_pairs_are_none_of_these():
    assert list(sizes([USUAL, ("Go.", "Va donc voir ailleurs !"), ("1984", "1984"), ("?", "?")]).findings()) == []


def test_the_ratio_is_that_of_the_lengths():
    result = sizes([("a" * 7, "b" * 14)] * 3 + [("a" * 10, "b" * 5)]).result
    assert [result.ratio(percent) for percent in (5, 50, 95)] == [
        pytest.approx(value, rel=0.02) for value in (0.5, 2.0, 2.0)
    ]
    assert result.pairs == 4
