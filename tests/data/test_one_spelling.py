"""Pairs with targets in two spellings are trained on in one."""

from pathlib import Path

import pytest

from dragoman.data.preparation import PreparedData
from tests.data.test_preparation import config, epoch, prepared, tsv
from tests.spellings import mixed, old, texts

NEW = texts(1_500)
SOURCES = [f"{number} {text}" for number, text in enumerate(texts(1_500, seed=5))]

PAIRS = [*zip(SOURCES, NEW, strict=True)]


def written(data: PreparedData) -> set[str]:
    """The targets of the training pairs, with those that are validated."""
    return {target for _, target in epoch(data)} | {target for _, target in data.valid_pairs}


def test_targets_are_trained_on_in_the_spelling_of_most(tmp_path: Path):
    pairs = tsv(tmp_path / "pairs.tsv", [*zip(SOURCES, mixed(NEW), strict=True)])
    data = prepared(tmp_path / "one", config(f"data.source={pairs}"))
    assert written(data) <= {*NEW}
    assert {target for _, target in data.test_pairs} <= {*NEW}
    ((letters, changed),) = data.about.respelled.items()
    assert {*letters.split(", ")} == {"qu > k", "c > k", "hu > w"}
    trained_on = {source for source, _ in epoch(data)}
    changing = [text != new for text, new in zip(mixed(NEW), NEW, strict=True)]
    assert changed == sum(source in trained_on for source, changes in zip(SOURCES, changing, strict=True) if changes)

    kept = prepared(tmp_path / "two", config(f"data.source={pairs}", "data.one_spelling=false"))
    assert written(kept) <= {*mixed(NEW)}
    assert kept.about.respelled == {}
    assert [source for source, _ in kept.test_pairs] == [source for source, _ in data.test_pairs]


def test_validation_pairs_of_the_user_say_which_spelling_and_test_pairs_stay_as_they_are(tmp_path: Path):
    named = [(source, new if number % 20 == 0 else old(new)) for number, (source, new) in enumerate(PAIRS[:100])]
    pairs = tsv(tmp_path / "pairs.tsv", [*zip(SOURCES[100:], mixed(NEW[100:]), strict=True)])
    held_out = tsv(tmp_path / "held-out.tsv", named)
    run = config(f"data.source={pairs}", f"data.valid=[{held_out}]", f"data.test=[{held_out}]")
    data = prepared(tmp_path / "one", run)
    assert written(data) <= {old(text) for text in NEW}
    assert {*data.test_pairs} == {*named}


@pytest.mark.slow
def test_each_target_language_has_a_spelling_of_its_own(tmp_path: Path):
    one = tsv(tmp_path / "one.tsv", [*zip(SOURCES, mixed(NEW), strict=True)])
    other = tsv(tmp_path / "other.tsv", [*zip(SOURCES, (text.swapcase() for text in map(old, NEW)), strict=True)])
    corpora = [
        f'{{"source": "{one}", "languages": ["en", "xx"]}}',
        f'{{"source": "{other}", "languages": ["en", "yy"]}}',
    ]
    data = prepared(tmp_path / "both", config(f"data.corpora=[{', '.join(corpora)}]"))
    (letters,) = data.about.respelled
    assert letters.startswith("xx ")
    assert written(data) <= {*NEW} | {text.swapcase() for text in map(old, NEW)}
