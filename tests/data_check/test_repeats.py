"""Repeats and overlaps are counted as a plain loop with sets would."""

import random

import pytest

from dragoman.config.data import CleaningConfig
from dragoman.data.bitext import CleanedBitext, Corpus
from dragoman.data.builtin.grammar import generate
from dragoman.data_check import check, locations
from dragoman.data_check.repeats import RepeatCheck, overlaps, remaining
from dragoman.text.characters import folded
from tests.data_check.corpora import Pairs, bitext, examined, lines, only


def repeats(pairs: Pairs, part: str = "train") -> RepeatCheck:
    return examined(RepeatCheck, pairs, part=part)


def draw(count: int, seed: int) -> Pairs:
    rng = random.Random(seed)
    return [(rng.choice(["", "A", "a", "b ", *map(str, range(97))]), rng.choice("xyz ")) for _ in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_repeated_pairs_and_further_translations(seed, monkeypatch):
    monkeypatch.setattr(locations, "PAIRS_PER_BLOCK", 13)
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
    repeat_check = repeats(pairs)
    findings = list(repeat_check.findings())
    duplicates, translations = (only(findings, kind) for kind in ("duplicates", "translations"))
    assert (duplicates.count, lines(duplicates)) == (len(again), again[:3])
    assert (translations.count, lines(translations)) == (len(further), further[:3])
    assert (repeat_check.result.different, repeat_check.result.different_sources) == (len(seen), len(sources))


def test_several_translations_matter_in_training_alone():
    pairs = [("Go.", "Va."), ("Go.", "Pars.")]
    assert [finding.kind for finding in repeats(pairs).findings()] == ["translations"]
    assert list(repeats(pairs, "test").findings()) == []


def test_no_pairs_at_all_are_no_repeats():
    repeat_check = repeats([("", "")])
    assert list(repeat_check.findings()) == []
    assert repeat_check.result.different == 0


@pytest.mark.first_is_quick
@pytest.mark.parametrize("rules", [{}, {"drop_repeated": False, "max_characters": 3, "max_copied": 0}])
@pytest.mark.parametrize("seed", range(3))
def test_what_train_leaves_out_is_told_before(seed, rules):
    """Reason by reason, as cleaning counts it in a training, over corpora that share pairs."""
    rng, config = random.Random(seed), CleaningConfig(**rules)
    texts = ["", " ", "Go.", "GO.", "Stay.", "one two three " * 7, "x\x07", "y\ufffd", *map(str, range(31))]
    corpora = [[(rng.choice(texts), rng.choice(texts)) for _ in range(499)] for _ in range(2)]
    held_out = {part: bitext([(rng.choice(texts), "z") for _ in range(7)]) for part in ("valid", "test")}
    train = CleanedBitext([Corpus(bitext(pairs)) for pairs in corpora], config)
    cleaned = train.cleaned(held_out=[part.cleaned() for part in held_out.values()])
    kept = list(cleaned)
    result = check(train, held_out=held_out)
    assert result.parts[0].dropped == cleaned.report.dropped
    assert len(cleaned.report.dropped) >= 5
    assert f"leaves out {cleaned.report.dropped.total():,} of 998 pairs (" in result.verdict[0]
    assert result.verdict[1].startswith(f"{len(set(kept)):,} different pairs") or not config.drop_repeated


def test_overlaps_are_by_folded_source_as_in_training():
    parts = {
        "train": repeats([("Go.", "Va."), ("Stay.", "x"), ("go. ", "Pars."), ("Else", "y")]),
        "valid": repeats([("GO.", "z"), ("Far", "w")], "valid"),
        "test": repeats([("far", "v"), ("Near", "u"), ("stay.", "t"), ("FAR", "v"), ("far ", "w")], "test"),
    }
    in_valid, in_test, leak = overlaps(parts)
    assert [(f.kind, lines(f)) for f in (in_valid, in_test)] == [("overlap", [1, 3]), ("overlap", [2])]
    assert "2 pairs remain" in in_valid.advice
    assert (leak.kind, leak.part, lines(leak), leak.severity) == ("leak", "test", [1, 4, 5], "problem")
    assert list(overlaps({"train": parts["valid"]})) == []
    assert remaining(parts) == 1
    assert remaining({"train": parts["train"], "test": parts["test"]}) == 3
    assert remaining({"train": repeats([("a", "b"), ("a", "b"), ("a", "c")])}) == 2


def test_held_out_pairs_with_a_near_copy_are_found():
    pairs = [*dict(generate(400)).items()]
    near = [("The old man walks beside the long river.", "Le vieil homme marche."), *pairs[300:339]]
    # The second is the same source, which `train` leaves out.
    train = [("the old man WALKS beside the longest river!", "autre chose"), (near[1][0].upper(), "x"), *pairs[:100]]
    result = check(CleanedBitext([Corpus(bitext(train))]), held_out={"test": bitext(near)})
    (twins,) = (finding for finding in result.findings if finding.kind == "twins")
    assert twins.part == "test"
    assert "nearly the same as a pair to train on" in twins.what
    numbers = [example.number for example in twins.examples]
    assert numbers[0] == 1
