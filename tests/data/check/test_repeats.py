"""Repeats and overlaps are counted as a plain loop with sets would."""

import random

import pytest

from dragoman.data.bitext import folded
from dragoman.data.check import report as report_module
from dragoman.data.check.repeats import Repeats, overlaps, remaining
from dragoman.data.check.report import Block, PartReport, Side
from tests.data.check.corpora import Pairs, bitext, only


def repeats(pairs: Pairs, part: str = "train") -> Repeats:
    report = PartReport(part, part, Side(None), Side(None), usable=sum(bool(s and t) for s, t in pairs))
    found = Repeats(report)
    for block in Block.each(bitext(pairs)):
        found.add(block)
    return found


def draw(count: int, seed: int) -> Pairs:
    rng = random.Random(seed)
    return [(rng.choice(["", "A", "a", "b ", *map(str, range(97))]), rng.choice("xyz ")) for _ in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_repeated_pairs_and_further_translations(seed, monkeypatch):
    monkeypatch.setattr(report_module, "PAIRS_PER_BLOCK", 13)
    pairs = draw(211, seed)
    seen: set[tuple[str, str]] = set()
    sources: set[str] = set()
    again, further = [], []
    for number, (source, target) in enumerate(((s.strip(), t.strip()) for s, t in pairs), start=1):
        if not source or not target:
            continue
        if (source, target) in seen:
            again.append(number)
        elif folded(source) in sources:
            further.append(number)
        seen.add((source, target))
        sources.add(folded(source))
    found = repeats(pairs)
    findings = list(found.findings())
    duplicates, translations = (only(findings, kind).tally for kind in ("duplicates", "translations"))
    assert (duplicates.count, duplicates.examples) == (len(again), again[:3])
    assert (translations.count, translations.examples) == (len(further), further[:3])
    assert (found.report.different, found.report.different_sources) == (len(seen), len(sources))


def test_several_translations_matter_in_training_alone():
    pairs = [("Go.", "Va."), ("Go.", "Pars.")]
    assert [finding.kind for finding in repeats(pairs).findings()] == ["translations"]
    assert list(repeats(pairs, "test").findings()) == []


def test_no_pairs_at_all_are_no_repeats():
    found = repeats([("", "")])
    assert list(found.findings()) == []
    assert found.report.different == 0


def test_overlaps_are_by_folded_source_as_in_training():
    parts = {
        "train": repeats([("Go.", "Va."), ("Stay.", "x"), ("go. ", "Pars."), ("Else", "y")]),
        "valid": repeats([("GO.", "z"), ("Far", "w")], "valid"),
        "test": repeats([("far", "v"), ("Near", "u"), ("stay.", "t"), ("FAR", "v"), ("far ", "w")], "test"),
    }
    in_valid, in_test, leak = overlaps(parts)
    assert [(f.kind, f.tally.examples) for f in (in_valid, in_test)] == [("overlap", [1, 3]), ("overlap", [2])]
    assert "2 pairs remain" in in_valid.advice
    assert (leak.kind, leak.part, leak.tally.examples, leak.severity) == ("leak", "test", [1, 4, 5], "problem")
    assert list(overlaps({"train": parts["valid"]})) == []
    assert remaining(parts) == 1
    assert remaining({"train": parts["train"], "test": parts["test"]}) == 3
    assert remaining({"train": repeats([("a", "b"), ("a", "b"), ("a", "c")])}) == 2
