"""Sides that are exchanged from some line on: found by their languages, and named by the very line."""

import pytest

from dragoman.data_check.languages import LanguageCheck
from dragoman.data_check.result import Finding
from tests.data_check.corpora import Pairs, checked, clean, examined, german, lines, only, problems

COUNT = 1_103


@pytest.fixture(scope="module")
def corpus() -> Pairs:
    return clean(COUNT)


def exchanged(pairs: Pairs, first: int, last: int = COUNT) -> Pairs:
    """The pairs, with the sides of lines `first` to `last` exchanged."""
    return [pair[::-1] if first <= number <= last else pair for number, pair in enumerate(pairs, start=1)]


def stretches(pairs: Pairs, *codes: str | None) -> list[Finding]:
    check = examined(LanguageCheck, pairs, *codes)
    return [finding for finding in check.findings() if "exchanged, from" in finding.what]


@pytest.mark.first_is_quick
@pytest.mark.parametrize("codes", [(), ("en", "fr")])
@pytest.mark.parametrize("first", [101, 552, 803, 1_054])
def test_the_first_line_is_named_however_many_come_after_it(corpus, first, codes):
    (finding,) = stretches(exchanged(corpus, first), *codes)
    assert (finding.kind, finding.severity, lines(finding)) == ("exchanged", "problem", [first])
    assert finding.what == f"pairs with source and target exchanged, from pair {first:,} to the end"
    assert finding.count == COUNT - first + 1


def test_a_stretch_that_ends_is_named_with_about_its_end(corpus):
    (finding,) = stretches(exchanged(corpus, 301, 700))
    assert lines(finding) == [301]
    assert abs(finding.count - 400) <= 10
    assert "from pair 301 to about pair " in finding.what


def test_what_is_exchanged_from_some_line_on_is_no_other_problem(corpus):
    result = checked(exchanged(corpus, 502), languages=(None, None))
    assert [problem.kind for problem in problems(result)] == ["exchanged"]
    assert [result.parts[0].source.detected, result.parts[0].target.detected] == ["en", "fr"]


@pytest.mark.slow
def test_no_stretch_is_seen_where_none_is(corpus):
    others = german(COUNT)
    assert stretches(corpus) == []
    assert stretches(exchanged(corpus, 1)) == []  # a corpus in the other direction
    assert stretches([pair[::-1] if n % 3 == 0 else pair for n, pair in enumerate(corpus)]) == []
    # Another language from some line on, on one side; one side copied from some line on.
    assert stretches([(s, t if n < 500 else others[n]) for n, (s, t) in enumerate(corpus)]) == []
    assert stretches([(s, t if n < 500 else s) for n, (s, t) in enumerate(corpus)]) == []
    assert stretches([(s, s) for s, _ in corpus]) == []
    assert stretches(corpus[:3]) == []


def test_exchanged_pairs_among_a_stretch_are_counted_too(corpus):
    pairs = exchanged(corpus, 502)
    for index in range(50, 400, 10):
        pairs[index] = pairs[index][::-1]
    check = examined(LanguageCheck, pairs)
    kinds = [finding.what for finding in check.findings()]
    assert kinds[0].endswith("from pair 502 to the end")
    assert only([finding for finding in check.findings() if "from" not in finding.what], "exchanged").count >= 30
