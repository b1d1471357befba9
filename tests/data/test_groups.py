"""Split by groups: near-duplicates of held-out pairs are not trained on, and all other pairs are used."""

import json
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config.run import RunConfig, load_config
from dragoman.config.settings import parse_settings
from dragoman.data import splitting, twins
from dragoman.data.bitext import Bitext
from dragoman.data.builtin.grammar import generate
from dragoman.data.corpora import open_corpora
from dragoman.data.mixing import mix_in
from dragoman.data.pair_file import PairFile, split_hash, write_pairs
from dragoman.data.preparation import NEAR_DUPLICATE, PreparedData, prepare, split_off
from dragoman.data.readers.types import Pair
from dragoman.data.splitting import split, without_twins
from dragoman.data.twins import SIMILAR, training_twins
from dragoman.errors import DataError
from dragoman.text.characters import without_label
from dragoman.text.labels import label
from tests.data.test_twins import similarity

GRAMMAR = [*dict(generate(700)).items()]


def bitext(pairs: list[Pair]) -> Bitext:
    return Bitext(lambda: iter(pairs), name="list")


def are_twins(one: Pair, other: Pair) -> bool:
    """Whether two pairs are twins, by the plain formula of the tests of twins."""
    sources = similarity(without_label(one[0]), without_label(other[0]))
    return max(sources, similarity(one[1], other[1])) >= SIMILAR


def has_twin(pair: Pair, others: Iterable[Pair]) -> bool:
    return any(are_twins(pair, other) for other in others)


def random_pairs(dice: random.Random, count: int) -> list[Pair]:
    """Pairs of words from a small and from a large vocabulary, so that some are twins and chains of twins occur."""

    def sentence(letters: str) -> str:
        words = ["".join(dice.choices(letters, k=dice.randint(2, 5))) for _ in range(dice.randint(1, 4))]
        return " ".join(words) + dice.choice(".!?")

    pairs = [(sentence("abcdefghij"), sentence("klmnopqrst")) for _ in range(count)]
    for _ in range(count):
        source, target = dice.choice(pairs)
        change = dice.randrange(4)
        if change == 0:
            source = f"{source} {sentence('abc')}"
        elif change == 1:
            target = f"{sentence('klm')} {target}"
        elif change == 2:
            target = sentence("klmnopqrst")
        else:
            source = source.upper()
        pairs.append((source, target))
    return pairs


@settings(deadline=None, max_examples=60)
@given(st.randoms(use_true_random=False), st.integers(20, 60), st.integers(0, 6), st.integers(0, 6))
def test_no_pair_has_a_twin_in_another_part_and_all_others_are_kept(dice, count: int, valid: int, test: int) -> None:
    pairs = random_pairs(dice, count)
    if len({split_hash(pair, "sentence", 3) for pair in pairs}) <= valid + test:
        with pytest.raises(DataError, match="too few to hold out"):
            split(bitext(pairs), valid=valid, test=test, seed=3, by="groups")
        return
    by_sentence = split(bitext(pairs), valid=valid, test=test, seed=3)
    held_out = [*by_sentence.valid, *by_sentence.test]
    trained = [pair for pair in by_sentence.train if not has_twin(pair, held_out)]
    validated = [pair for pair in by_sentence.valid if not has_twin(pair, by_sentence.test)]
    if not trained or (valid and not validated):
        with pytest.raises(DataError, match="nearly the same"):
            split(bitext(pairs), valid=valid, test=test, seed=3, by="groups")
        return
    parts = split(bitext(pairs), valid=valid, test=test, seed=3, by="groups")
    assert list(parts.train) == trained
    assert list(parts.valid) == validated
    assert list(parts.test) == list(by_sentence.test)


def test_a_split_by_groups_depends_on_the_seed_and_not_on_the_order() -> None:
    pairs = random_pairs(random.Random(7), 400)
    shuffled = random.Random(5).sample(pairs, len(pairs))
    one, same, other = (
        split(bitext(corpus), valid=13, test=7, seed=seed, by="groups")
        for corpus, seed in [(pairs, 3), (shuffled, 3), (pairs, 4)]
    )
    assert [Counter(part) for part in one] == [Counter(part) for part in same]
    assert set(one.test) != set(other.test)
    assert list(one.valid) == list(one.valid)
    assert [part.name for part in one] == ["list.train", "list.valid", "list.test"]


def test_blocks_and_processes_find_the_same_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    held_out, train = NEAR[:40], NEAR[40:]
    whole = list(training_twins(held_out, train))
    assert whole == [pair for pair in train if has_twin(pair, held_out)]
    assert 20 < len(whole) < 500
    monkeypatch.setattr(twins, "PAIRS_AT_ONCE", 97)
    monkeypatch.setattr(twins, "MEETINGS_AT_ONCE", 700)
    assert list(training_twins(held_out, iter(train))) == whole
    assert list(training_twins([], NEAR)) == list(training_twins(NEAR[:5], [])) == []


NEAR = list(dict.fromkeys(random_pairs(random.Random(11), 300)))
SENTENCES = [
    ("the small dog sleeps in the garden", "le petit chien dort dans le jardin"),
    ("a train leaves at noon", "un train part ce midi"),
    ("nobody knows my brother", "mon frère est inconnu"),
    ("please close every window", "veuillez tout fermer"),
    ("the river was frozen", "il gelait sur le fleuve"),
    ("she paints houses blue", "elle peint en bleu"),
    ("our teacher sings badly", "quelle voix affreuse"),
    ("good bread needs time", "du bon pain se mérite"),
    ("they bought two horses", "deux chevaux furent achetés"),
    ("his answer surprised us", "quelle étonnante réponse"),
    ("winter begins tomorrow", "demain arrive la neige"),
    ("the bridge collapsed", "un pont est tombé"),
]


def planned(tmp_path: Path, pairs: list[Pair], *chosen: str) -> tuple[PairFile, RunConfig]:
    """The pairs as a cleaned file, and a config with the `chosen` settings."""
    config = load_config({}, parse_settings(["data.split=groups", *chosen]))
    return write_pairs(bitext(pairs).cleaned(), config, near=tmp_path), config


def test_a_pair_file_is_split_as_a_list_of_pairs_is(tmp_path: Path) -> None:
    written, config = planned(tmp_path, NEAR, "data.held_out=[11,17]", "seed=9")
    parts = split_off(written, config)
    expected = split(bitext(NEAR), valid=11, test=17, seed=9, by="groups")
    assert [Counter(part) for part in parts] == [Counter(part) for part in expected]
    # Each pair is in a part or left out, and the number of those is known.
    assert sum(len(list(part)) for part in parts) + len(parts.train.left_out) == len(NEAR)
    assert parts.train.left_out
    assert len(list(parts.train.lines())) == len(list(parts.train))


@pytest.mark.parametrize("by", ["sentence", "line"])
def test_other_splits_leave_nothing_out(tmp_path: Path, by: str) -> None:
    written, config = planned(tmp_path, NEAR, "data.held_out=[11,17]", f"data.split={by}")
    parts = split_off(written, config)
    assert not parts.train.left_out
    assert Counter(pair for part in parts for pair in part) == Counter(NEAR)


def test_labels_of_languages_do_not_keep_twins_apart() -> None:
    source, target = SENTENCES[0]
    near = ("the small dog sleeps in the garden!", "der kleine Hund schläft im Garten")
    others = [(label("en", "fr") + one, other) for one, other in SENTENCES[1:]]
    pairs = [(label("en", "fr") + source, target), (label("en", "de") + near[0] + " now", near[1]), *others]
    outcomes = set()
    for seed in range(30):
        parts = split(bitext(pairs), valid=0, test=2, seed=seed, by="groups")
        num_tested, num_trained = (len(set(part) & set(pairs[:2])) for part in (parts.test, parts.train))
        outcomes.add((num_tested, num_trained))
    assert {(0, 2), (1, 0)} <= outcomes <= {(0, 2), (1, 0), (2, 0)}


def test_weights_repeat_the_training_pairs_but_no_twin(tmp_path: Path) -> None:
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file, pairs in zip(files, (NEAR[:300], NEAR[300:]), strict=True):
        file.write_text("\n".join(json.dumps({"en": source, "fr": target}) for source, target in pairs))
    corpora = json.dumps([{"source": str(files[0]), "weight": 3}, {"source": str(files[1])}])
    config = load_config({}, parse_settings([f"data.corpora={corpora}", "data.split=groups", "data.held_out=[12,13]"]))
    parts = split_off(write_pairs(open_corpora(config.data), config, near=tmp_path), config)
    held_out = [*parts.valid, *parts.test]
    counts = Counter(parts.train)
    assert parts.train.left_out
    assert set(counts.values()) == {1, 3}
    assert not any(has_twin(pair, held_out) for pair in counts)


def test_files_that_the_config_names_change_nothing(tmp_path: Path) -> None:
    near = tmp_path / "near.jsonl"
    near.write_text(json.dumps({"en": SENTENCES[0][0] + "!", "fr": SENTENCES[0][1] + "!"}))
    written, config = planned(tmp_path, SENTENCES, f"data.valid=[{near}]", f"data.test=[{near}]")
    parts = split_off(written, config)
    assert list(parts.train) == SENTENCES
    assert not parts.train.left_out


def test_tiny_corpora_are_split_or_refused() -> None:
    assert [len(list(part)) for part in split(bitext(SENTENCES), valid=1, test=1, seed=1, by="groups")] == [10, 1, 1]
    with pytest.raises(DataError, match=r"list has 12 different source sentences, too few to hold out 11 . 1 "):
        split(bitext(SENTENCES), valid=11, test=1, seed=1, by="groups")
    near = [(f"the small dog sleeps in the garden {number}", f"sentence {number}") for number in range(12)]
    alike = [(f"{source} {letter}", target) for (source, target), letter in zip(near, "abcdefghijkl", strict=True)]
    with pytest.raises(DataError, match=r"All other pairs of list are nearly the same .* data.split=sentence"):
        split(bitext(alike), valid=0, test=1, seed=1, by="groups")
    first, second = split(bitext([*SENTENCES, *alike]), valid=0, test=2, seed=1).test
    assert first != second


def test_validation_pairs_that_are_all_twins_of_test_pairs_are_refused() -> None:
    near = ("the small dog sleeps in the garden now", "autre chose entièrement")
    pairs = [SENTENCES[0], near, *SENTENCES[1:]]
    seeds = [
        seed
        for seed in range(600)
        if {pair for part in split(bitext(pairs), valid=1, test=1, seed=seed)[1:] for pair in part} == set(pairs[:2])
    ]
    assert seeds
    with pytest.raises(DataError, match="All validation pairs of list are nearly the same as test pairs"):
        split(bitext(pairs), valid=1, test=1, seed=seeds[0], by="groups")


def test_more_held_out_pairs_than_can_be_compared_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "MOST_HELD_OUT", 3)
    assert split(bitext(SENTENCES), valid=1, test=2, seed=1, by="groups")
    with pytest.raises(DataError, match=r"4 pairs would be held out of list, .* at most 3 .*data\.held_out"):
        split(bitext(SENTENCES), valid=2, test=2, seed=1, by="groups")


def test_pairs_without_twins_stay_as_they_are() -> None:
    pairs = bitext(SENTENCES[1:])
    assert without_twins(pairs, SENTENCES[:1]) is pairs
    assert without_twins(pairs, []) is pairs
    near = (SENTENCES[3][0] + " now", "x")
    assert list(without_twins(pairs, [near])) == [*SENTENCES[1:3], *SENTENCES[4:]]


def test_general_pairs_that_are_mixed_in_are_no_twins_of_pairs_that_were_split_off(tmp_path: Path) -> None:
    general = GRAMMAR[:300]
    own = [(f"{source} indeed", target) for source, target in GRAMMAR[:340]]
    file = tmp_path / "general.jsonl"
    file.write_text("\n".join(json.dumps({"en": source, "fr": target}) for source, target in general))
    written, config = planned(
        tmp_path,
        own,
        "data.held_out=[2,2]",
        "data.languages=[en,fr]",
        "finetune.model=base",
        f"finetune.mix=[{file}]",
    )
    written.source_language, written.target_language = "en", "fr"
    parts = split_off(written, config)
    mixture = mix_in(parts, config, written)
    trained = set(mixture.train)
    held_out = [*parts.valid, *parts.test, *mixture.general]
    assert mixture.general
    assert trained & set(general)
    assert trained & set(own)
    assert not list(training_twins(held_out, trained))


def test_near_duplicates_are_not_encoded_and_their_number_is_told(tmp_path: Path) -> None:
    written, config = planned(
        tmp_path, NEAR, "data.held_out=[12,13]", "tokenizer.vocab_size=300", "training.max_tokens=500"
    )
    train = split_off(written, config).train
    folder = tmp_path / "data"
    folder.mkdir()
    prepare(written, config, folder)
    about = PreparedData.open(folder, config).about
    assert about.dropped[NEAR_DUPLICATE] == len(train.left_out) > 0
    assert about.train_pairs == len(list(train))
    assert about.twins == []


def test_general_pairs_that_are_all_scored_leave_none_to_mix_in(tmp_path: Path) -> None:
    file = tmp_path / "general.jsonl"
    file.write_text("\n".join(json.dumps({"en": source, "fr": target}) for source, target in GRAMMAR[:30]))
    settings = ["data.languages=[en,fr]", "finetune.model=base", f"finetune.mix=[{file}]", f"finetune.test=[{file}]"]
    written, config = planned(tmp_path, GRAMMAR[100:140], "data.held_out=[2,2]", *settings)
    written.source_language, written.target_language = "en", "fr"
    with pytest.raises(DataError, match=r"beside those that finetune\.test scores; give other files\."):
        mix_in(split_off(written, config), config, written)
