"""Random sentences: as large as the notebook's, always the same, with a vocabulary that has all words."""

from itertools import islice
from pathlib import Path

import pytest

from dragoman.config.run import load_config
from dragoman.config.settings import parse_settings
from dragoman.data.bitext import Bitext
from dragoman.data.builtin import reader
from dragoman.data.builtin.reader import RANDOM_LENGTH, WORDS, random_pairs, settings_for
from dragoman.data.preparation import PreparedData, prepare
from dragoman.runs.plan import plan_run
from dragoman.text.tokenizers.tokenizer import UNK_ID
from tests.data.readers.files import refusal


def test_64_pairs_of_100_words_each():
    opened = Bitext.open("builtin:random")
    pairs = list(opened)
    assert (opened.name, opened.languages, len(pairs)) == ("random", None, 64)
    assert {len(side.split(" ")) for pair in pairs for side in pair} == {RANDOM_LENGTH} == {100}
    assert {word for pair in pairs for side in pair for word in side.split()} <= set(WORDS)


def test_the_grammar_has_20000_pairs_unless_another_number_is_given(monkeypatch):
    assert reader.DEFAULT_PAIRS["grammar"] == 20_000
    monkeypatch.setitem(reader.DEFAULT_PAIRS, "grammar", 31)
    assert len(list(Bitext.open("builtin:grammar"))) == 31
    assert len(list(Bitext.open("builtin:grammar:7"))) == 7


def test_words_are_drawn_as_often_as_chance_has_it():
    drawn = {word for pair in random_pairs(64) for word in pair[1].split()}
    # A word is missing from 6,400 draws of 4,996 with probability e^-1.281: 3,608 are not, standard deviation 30.
    assert len(WORDS) == len(set(WORDS)) == 4_996
    assert abs(len(drawn) - 3_608) < 5 * 30


def test_the_pairs_are_always_the_same_and_parts_share_none():
    pairs = list(random_pairs(13))
    assert list(Bitext.open("builtin:random:5")) == pairs[:5]
    assert list(islice(Bitext.open("builtin:random"), 13)) == pairs
    parts = [set(Bitext.open(f"builtin:random:13:{part}")) for part in ("train", "valid", "test")]
    assert parts[0] == set(pairs)
    assert len(set.union(*parts)) == 3 * 13


@pytest.mark.parametrize(
    "source", ["builtin:randm", "builtin:random:0", "builtin:random:5:dev", "builtin:random:7:words"]
)
def test_other_names_are_refused(source: str):
    assert source in refusal(source)
    assert "builtin:random" in refusal(source)


def test_the_vocabulary_has_every_word_though_few_are_trained_on(tmp_path: Path):
    settings = ["tokenizer.kind=word", "tokenizer.vocab_size=5000", "tokenizer.shared=false"]
    config, bitext = plan_run(["builtin:random:7"], recipe="tiny", settings=parse_settings(settings))
    prepare(bitext, config, tmp_path)
    data = PreparedData.open(tmp_path, config)
    for tokenizer in (data.source_tokenizer, data.target_tokenizer):
        assert tokenizer.vocab_size == 5_000
        assert UNK_ID not in tokenizer.encode(" ".join(WORDS))
    assert (data.about.train_pairs, len(data.valid_pairs), len(data.test_pairs)) == (7, 8, 8)
    assert data.train.target.lengths.tolist() == [RANDOM_LENGTH] * 7


def test_what_the_user_sets_wins_over_what_comes_with_the_data():
    assert settings_for("pairs.tsv") == settings_for("builtin:unknown") == settings_for(None) == {}
    given = load_config({}, settings_for("builtin:random:5"))
    assert given.data.valid == ["builtin:random:8:valid"]
    assert given.tokenizer.pairs == ["builtin:random:words"]
    config, _ = plan_run(
        ["builtin:random"], recipe="tiny", settings=parse_settings(["data.test=[builtin:random:3:test]"])
    )
    assert config.data.test == ["builtin:random:3:test"]
