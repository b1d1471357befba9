"""Alignment: stretches out of step are found where they are, and nowhere else."""

import random
from functools import partial

import numpy as np
import pytest

from dragoman.data_check import locations
from dragoman.data_check.alignment import CERTAIN, MAX_DISTANCE, AlignmentCheck, Stretch, signature
from tests.data_check.corpora import Pairs, clean, examined, lines

COUNT = 2_003
check_alignment = partial(examined, AlignmentCheck)


@pytest.fixture(scope="module")
def corpus() -> Pairs:
    return clean(COUNT)


def shifted(pairs: Pairs, distance: int, first: int, last: int) -> Pairs:
    """The source of line N, from `first` to `last`, has its target in line N + `distance`."""
    targets = [target for _, target in pairs]
    inside = targets[first - 1 : last]
    turn = -distance % len(inside)
    targets[first - 1 : last] = inside[turn:] + inside[:turn]
    return [(source, target) for (source, _), target in zip(pairs, targets, strict=True)]


@pytest.mark.parametrize("distance", [-5, -2, -1, 1, 3])
@pytest.mark.parametrize(("first", "last"), [(1, COUNT), (1_001, COUNT), (701, 1_301)])
def test_a_stretch_out_of_step_is_found_with_its_distance_and_its_line(corpus, distance, first, last):
    (finding,) = check_alignment(shifted(corpus, distance, first, last)).findings()
    assert (finding.kind, finding.severity) == ("misaligned", "problem")
    pairs = "1 pair " if abs(distance) == 1 else f"{abs(distance)} pairs "
    assert pairs + ("later" if distance > 0 else "earlier") in finding.what
    assert abs(lines(finding)[0] - first) <= 15
    assert abs(finding.count - (last - first + 1)) <= 30
    assert ("the end" in finding.what) == (last == COUNT)


def test_two_stretches_are_both_found(corpus):
    pairs = shifted(shifted(corpus, 1, 401, 900), -2, 1_301, 1_800)
    stretches = list(check_alignment(pairs).findings())
    for stretch, first in zip(stretches, (401, 1_301), strict=True):
        assert abs(lines(stretch)[0] - first) <= 15
    assert ["1 pair later" in stretches[0].what, "2 pairs earlier" in stretches[1].what] == [True, True]


def test_only_the_distance_that_fits_best_is_reported(corpus):
    twice = [pair for pair in corpus[:701] for _ in range(2)]
    (finding,) = check_alignment(shifted(twice, 3, 501, 1_402)).findings()
    assert "3 pairs later" in finding.what


def test_aligned_corpora_stay_far_from_the_threshold(corpus):
    by_length = sorted(corpus, key=lambda pair: len(pair[0]))
    by_text = sorted(corpus)
    several = sorted(corpus[:701] * 3)
    for pairs in (corpus, by_length, by_text, several):
        alignment = check_alignment(pairs)
        assert list(alignment.findings()) == []
        assert max(stretch.best_gain for stretch in alignment.stretches) < CERTAIN / 2


def test_sides_of_different_texts_are_called_unrelated(corpus):
    targets = [target for _, target in corpus]
    random.Random(3).shuffle(targets)
    (finding,) = check_alignment([(s, t) for (s, _), t in zip(corpus, targets, strict=True)]).findings()
    assert finding.kind == "unrelated"
    assert check_alignment(corpus).certainty > 30
    # Too few lines to say anything.
    assert list(check_alignment([(s, t) for (s, _), t in zip(corpus[:97], targets, strict=False)]).findings()) == []


def test_the_size_of_blocks_changes_nothing(corpus, monkeypatch):
    pairs = shifted(corpus[:1_009], -1, 501, 1_009)
    (expected,) = check_alignment(pairs).findings()
    for size in (13, 97):
        monkeypatch.setattr(locations, "PAIRS_PER_BLOCK", size)
        alignment = check_alignment(pairs)
        (finding,) = alignment.findings()
        assert all(stretch.steps == len(pairs) - 2 * MAX_DISTANCE for stretch in alignment.stretches)
        assert finding.what.endswith("to the end, their targets 1 pair earlier")
        assert abs(lines(finding)[0] - lines(expected)[0]) <= 5


def test_the_cumulative_sum_is_that_of_the_definition():
    draw = np.random.default_rng(2)
    gains = draw.normal(-0.1, 1.0, 997)
    height, start, best = 0.0, 0, (0.0, 0, 0)
    for index, gain in enumerate(gains):
        if height + gain <= 0:
            height, start = 0.0, index + 1
        else:
            height += gain
        if height > best[0]:
            best = (height, start, index)
    for size in (7, 13, 997):
        stretch = Stretch(1, start=0)
        for begin in range(0, len(gains), size):
            stretch.add(gains[begin : begin + size], begin)
        assert (stretch.best_gain, stretch.first, stretch.last) == (pytest.approx(best[0]), *best[1:])


def test_a_signature_keeps_what_translations_share():
    english, russian = signature("Did Tom pay 1984 dollars in Moscow?"), signature("Заплатил 1984 доллара?")
    assert (english & russian).bit_count() == 2
    assert (signature("In Moscow.") & signature("À Moscou.")).bit_count() == 1
    assert signature("٣ ？") == signature("3 ?")
    assert signature("nothing to hold on to.") == 0
    assert signature("9" * 5_003) > 0
