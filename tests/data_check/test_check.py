"""`check` as a whole: clean corpora are called clean, each planted fault is found and nothing else."""

import random
import re
from pathlib import Path

import pytest

from dragoman.data_check.result import finding_kinds
from tests.data_check.corpora import Pairs, checked, clean, german, only, problems

COUNT = 1_103


@pytest.fixture(scope="module")
def corpus() -> Pairs:
    return clean(COUNT)


@pytest.mark.slow
def test_a_clean_corpus_has_no_problems_and_its_counts_are_right(corpus):
    result = checked(corpus)
    assert problems(result) == []
    assert result.trainable
    (part,) = result.parts
    assert (part.pairs, part.usable, part.different) == (COUNT, COUNT, COUNT)
    assert (part.source.detected, part.target.detected) == ("en", "fr")
    assert part.source.characters.mean == pytest.approx(sum(len(s) for s, _ in corpus) / COUNT)
    assert part.target.words.mean == pytest.approx(sum(t.count(" ") + 1 for _, t in corpus) / COUNT, rel=0.01)


@pytest.mark.slow
def test_sorting_a_clean_corpus_makes_no_problem(corpus):
    # Neighbours are then of equal length, and many begin alike.
    for key in (len, str):
        assert problems(checked(sorted(corpus, key=lambda pair: key(pair[0])))) == []


def planted(name: str, pairs: Pairs) -> Pairs:
    draw = random.Random(11)
    chosen = set(draw.sample(range(len(pairs)), len(pairs) // 10))
    middle = len(pairs) // 2
    sources, targets = zip(*pairs, strict=True)
    match name:
        case "misaligned":
            targets = (*targets[:middle], *targets[middle + 1 :], targets[middle])
            return list(zip(sources, targets, strict=True))
        case "unrelated":
            return list(zip(sources, draw.sample(targets, len(targets)), strict=True))
        case "exchanged":
            return [pair[::-1] if n in chosen else pair for n, pair in enumerate(pairs)]
        case "misread":
            return [
                (s, t.encode().decode("cp1252", "ignore")) if n in chosen else (s, t) for n, (s, t) in enumerate(pairs)
            ]
        case "replaced":
            return [(s, t.encode("latin-1", "ignore").decode("utf-8", "replace")) for s, t in pairs]
        case "duplicates":
            return pairs + draw.sample(pairs, 3 * len(pairs) // 7)
        case "foreign":
            others = iter(german(len(pairs)))
            return [(s, next(others)) if n in chosen else (s, t) for n, (s, t) in enumerate(pairs)]
        case "language":
            return list(zip(sources, german(len(pairs)), strict=True))
        case "equal":
            return [(s, s) if n in chosen else (s, t) for n, (s, t) in enumerate(pairs)]
        case "empty target":
            return [(s, " \u00a0") if n in chosen else (s, t) for n, (s, t) in enumerate(pairs)]
        case "markup":
            return [(s, f"<p>{t}</p>") if n in chosen else (s, t) for n, (s, t) in enumerate(pairs)]
        case "control":
            return [(s, f"{t}\x07") if n in chosen else (s, t) for n, (s, t) in enumerate(pairs)]
        case "ratio":
            return [(s, " ".join([t] * 5)) if n in chosen else (s, t) for n, (s, t) in enumerate(pairs)]
    raise ValueError(name)


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    ("name", "share", "followed_by"),
    [
        # Sides that do not belong together have lengths that do not fit.
        ("misaligned", 0.5, {"ratio"}), ("unrelated", 1.0, {"ratio"}), ("exchanged", 0.1, set()),
        ("duplicates", 0.3, set()), ("foreign", 0.12, {"ratio"}), ("language", 1.0, {"unrelated", "ratio"}),
        ("empty target", 0.1, set()), ("equal", 0.1, {"foreign"}), ("markup", 0.1, set()), ("control", 0.1, set()),
        ("ratio", 0.1, {"repetition"}), ("misread", 0.1, set()), ("replaced", 0.68, set()),
    ],
)  # fmt: skip
def test_a_planted_fault_is_found_with_its_share_and_nothing_else_is(corpus, name, share, followed_by):
    result = checked(planted(name, corpus))
    kinds = {problem.kind for problem in problems(result)}
    assert name in kinds
    assert kinds <= {name} | followed_by
    assert only(result.findings, name).share == pytest.approx(share, abs=0.03)
    assert only(result.findings, name).examples
    assert "above" in result.verdict[-1]


def test_a_held_out_part_is_looked_at_as_well_as_compared(corpus):
    test = planted("exchanged", corpus[701:])
    result = checked(corpus[:801], valid=corpus[1_001:], test=test)
    assert {(problem.kind, problem.part) for problem in problems(result)} == {
        ("overlap", "train"), ("exchanged", "test"), ("leak", "test"),
    }  # fmt: skip


def test_exchanged_pairs_in_a_sorted_corpus_are_not_called_misaligned(corpus):
    # Every sentence has five translations in neighbouring lines, one of them with its sides exchanged.
    pairs = []
    for source, target in sorted(corpus[:401]):
        translations = [target, f"{target} Oui.", f"Oui, {target}", f"Bon. {target}", f"{target} !"]
        pairs += [(source, text) if n != 2 else (text, source) for n, text in enumerate(translations)]
    assert {"exchanged"} <= {problem.kind for problem in problems(checked(pairs))} <= {"exchanged", "foreign"}


def test_few_pairs_suffice_if_nothing_need_be_split_off(corpus):
    valid, test = corpus[100:120], corpus[200:220]
    assert checked(corpus[:5], valid=valid, test=test).trainable
    assert not checked(corpus[:5], valid=valid).trainable
    assert not checked(corpus[:5]).trainable
    # Nothing is left of pairs that are all held out.
    assert not checked(corpus[:500], valid=corpus[:250], test=corpus[250:500]).trainable


IN_DOCS = {
    "twins": "twins",
    "empty sides": "empty target", "equal sides": "equal", "very long": "long", "lengths that do not fit": "ratio",
    "no pairs": "skipped", "repeated pairs": "duplicates", "several translations": "translations", "leak": "leak",
    "overlap with `--valid`, `--test`": "overlap", "misread UTF-8": "misread", "U+FFFD": "replaced",
    "control characters": "control", "markup": "markup", "out of step": "misaligned", "unrelated": "unrelated",
    "exchanged pairs": "exchanged", "wrong language": "wrong names",
    "other numbers": "fault number", "other units": "fault unit", "one side negated": "fault negation",
    "other names": "fault name", "untranslated words": "fault untranslated", "repeated words": "fault repetition",
    "two spellings": "spelling of targets",
    "exchanged from a line on": "exchanged from", "other columns": "other columns than most rows",
}  # fmt: skip


def test_the_docs_tell_from_which_share_on_a_finding_is_a_problem():
    page = (Path(__file__).parents[2] / "docs/data-check.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE))
    assert IN_DOCS.keys() | {"finding", "---", "foreign lines"} == rows.keys()
    for row, name in IN_DOCS.items():
        above = finding_kinds()[name].above
        share = "always a note" if above == 1 else f"{100 * above:g} %" if above else "always"
        assert rows[row].startswith(share), row
