"""From corpora to what training reads: weights, splits without leaks, samples for tokenizers, a second attempt."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dragoman.config.data import DataConfig
from dragoman.config.run import RunConfig, load_config
from dragoman.config.settings import parse_settings
from dragoman.data import blocks, pair_file, preparation
from dragoman.data.bitext import Bitext
from dragoman.data.blocks import copies
from dragoman.data.builtin.grammar import generate
from dragoman.data.corpora import open_corpora
from dragoman.data.encoding import Encoder
from dragoman.data.pair_file import write_pairs
from dragoman.data.preparation import PreparedData, prepare
from dragoman.data.readers.types import Pair
from dragoman.data.splitting import sizes_to_hold_out
from dragoman.errors import DataError
from dragoman.system import processes
from dragoman.system.processes import Workers
from dragoman.system.seals import seal
from dragoman.text.characters import folded, share
from dragoman.text.preprocessing import SourceStyle
from tests.data.readers.files import write

PAIRS = list(generate(211))


def tsv(path: Path, pairs: list[Pair]) -> str:
    return str(write(path, "".join(f"{source}\t{target}\n" for source, target in pairs)))


def config(*settings: str) -> RunConfig:
    return load_config(
        {}, parse_settings(["tokenizer.vocab_size=400", "tokenizer.placeholders=false", "data.held_out=13", *settings])
    )


def prepared(folder: Path, run: RunConfig) -> PreparedData:
    folder.mkdir(exist_ok=True)
    prepare(open_corpora(run.data), run, folder)
    seal(folder)
    return PreparedData.open(folder, run)


def epoch(data: PreparedData) -> Counter[Pair]:
    """How often each pair occurs in an epoch, read back from the token ids."""
    decode = data.source_tokenizer.decode
    rows = np.concatenate(data.train.plan(0)).tolist()
    return Counter((decode(data.train.source[i].tolist()), decode(data.train.target[i].tolist())) for i in rows)


@pytest.mark.slow
def test_corpora_are_one_and_their_weights_count_in_training_alone(tmp_path: Path):
    first, second = PAIRS[:101], PAIRS[101:]
    corpora = [{"source": tsv(tmp_path / "a.tsv", first), "weight": 3}, {"source": tsv(tmp_path / "b.tsv", second)}]
    data = prepared(tmp_path / "data", config(f"data.corpora={json.dumps(corpora)}"))
    held_out = [tuple(pair) for pair in data.valid_pairs + data.test_pairs]
    assert len(held_out) == len(set(held_out)) == 26
    assert set(held_out) & set(first)
    assert set(held_out) & set(second)
    expected = {pair: 3 for pair in first} | {pair: 1 for pair in second}
    assert epoch(data) == {pair: times for pair, times in expected.items() if pair not in held_out}
    assert data.about.train_pairs == epoch(data).total()


@pytest.mark.parametrize(("weight", "times"), [(1, 3), (4, 6)])
def test_temperature_repeats_the_pairs_of_the_smaller_corpus(tmp_path: Path, weight: float, times: int):
    first, second = PAIRS[:180], PAIRS[180:200]
    corpora = [{"source": tsv(tmp_path / "a.tsv", first)}, {"source": tsv(tmp_path / "b.tsv", [*second] * 2)}]
    corpora[1]["weight"] = weight
    data = prepared(tmp_path / "data", config(f"data.corpora={json.dumps(corpora)}", "data.temperature=2"))
    # Shares are as the square roots of 180 and of 20 or 80, so they are 3:1 or 3:2, and 180 pairs occur once.
    expected = dict.fromkeys(first, 1) | dict.fromkeys(second, times)
    held_out = [tuple(pair) for pair in data.valid_pairs + data.test_pairs]
    assert epoch(data) == {pair: count for pair, count in expected.items() if pair not in held_out}
    assert list(data.about.occurrences.values()) == pytest.approx([1, times])


def test_no_source_sentence_is_in_two_parts_whatever_corpus_it_is_in(tmp_path: Path):
    again = [(source.upper(), f"{target} Oui.") for source, target in PAIRS]
    corpora = [{"source": tsv(tmp_path / name, pairs)} for name, pairs in (("a.tsv", PAIRS), ("b.tsv", again))]
    data = prepared(tmp_path / "data", config(f"data.corpora={json.dumps(corpora)}"))
    parts = [data.valid_pairs, data.test_pairs, list(epoch(data))]
    sources = [{folded(source) for source, _ in part} for part in parts]
    assert [len(part) for part in sources] == [13, 13, 211 - 26]
    assert not sources[0] & sources[1] | sources[0] & sources[2] | sources[1] & sources[2]


# 41 sentences of three translations, 43 of one.
AMBIGUOUS = [(f"source {n}", f"target {n}.{v}") for n in range(84) for v in range(3 if n < 41 else 1)]


@pytest.mark.parametrize("by", ["sentence", "line"])
def test_test_pairs_whose_source_is_trained_on_are_told_apart(tmp_path: Path, by: str):
    run = config(f"data.source={tsv(tmp_path / 'a.tsv', AMBIGUOUS)}", f"data.split={by}")
    data = prepared(tmp_path / "data", run)
    trained = {source for source, _ in epoch(data)}
    assert data.about.leaked == [i for i, (source, _) in enumerate(data.test_pairs) if source in trained]
    assert bool(data.about.leaked) == (by == "line")


def test_a_vocabulary_can_be_learned_from_other_pairs(tmp_path: Path):
    others = [("alpha beta", "gamma"), ("alpha", "gamma delta")]
    settings = ["tokenizer.kind=word", "tokenizer.shared=false", f"tokenizer.pairs=[{tsv(tmp_path / 'b.tsv', others)}]"]
    data = prepared(tmp_path / "data", config(f"data.source={tsv(tmp_path / 'a.tsv', PAIRS)}", *settings))
    source, target = data.source_tokenizer, data.target_tokenizer
    assert source.decode(source.encode("beta alpha gamma")) == "beta alpha <unk>"
    assert target.decode(target.encode("delta gamma alpha")) == "delta gamma <unk>"


def test_a_fraction_of_a_weight_is_that_share_of_the_pairs():
    counts = Counter(copies(("x", str(number)), 2.3) for number in range(2_003))
    # Of 2,003 draws with probability 0.3, 601 on average, standard deviation 20.5.
    assert counts.keys() == {2, 3}
    assert abs(counts[3] - 601) < 5 * 20.5
    assert {copies(pair, 2) for pair in PAIRS} == {2}
    chosen = {pair for pair in PAIRS if copies(pair, 0.3)}
    assert chosen < {pair for pair in PAIRS if copies(pair, 0.6)}


def test_the_first_corpus_tells_the_languages_of_the_others(tmp_path: Path):
    first = tsv(tmp_path / "my.en-fr.tsv", PAIRS[:3])
    lines = [json.dumps({"fr": target, "en": source}) for source, target in PAIRS[3:5]]
    second = str(write(tmp_path / "b.jsonl", "\n".join(lines)))
    corpus = open_corpora(DataConfig(corpora=[{"source": first}, {"source": second}]))
    assert list(corpus) == PAIRS[:5]
    assert corpus.name == "my.en-fr+b"
    turned = open_corpora(DataConfig(source=second, languages=("fr", "en")))
    assert list(turned) == [pair[::-1] for pair in PAIRS[3:5]]


def test_repeated_pairs_are_dropped_in_a_corpus_and_weights_of_two_add_up(tmp_path: Path):
    corpora = [
        {"source": tsv(tmp_path / "a.tsv", [*PAIRS[:2], PAIRS[0]]), "weight": 2},
        {"source": tsv(tmp_path / "b.tsv", PAIRS[:1])},
    ]
    corpus = open_corpora(DataConfig(corpora=corpora))
    assert list(corpus.weighted()) == [PAIRS[0], PAIRS[0], PAIRS[1], PAIRS[1], PAIRS[0]]
    assert list(corpus) == [PAIRS[0], PAIRS[1], PAIRS[0]]
    assert corpus.report.dropped == {"repeats another pair": 1}


def test_held_out_files_are_scored_as_they_are_and_nothing_is_split_off(tmp_path: Path):
    train, valid, test = PAIRS[:150], PAIRS[150:160] * 2, [*PAIRS[160:170], ("x\ufffd", "y\0"), ("x", "")]
    settings = [f"data.{name}=[{tsv(tmp_path / name, pairs)}]" for name, pairs in (("valid", valid), ("test", test))]
    run = config(f"data.source={tsv(tmp_path / 'train.tsv', train)}", *settings)
    data = prepared(tmp_path / "data", run)
    assert epoch(data) == Counter(train)
    assert sorted(map(tuple, data.valid_pairs)) == sorted(valid)
    assert sorted(map(tuple, data.test_pairs)) == sorted(test[:-1])


def test_the_account_has_every_reason_and_the_most_frequent_first(tmp_path: Path):
    dirty = [("", "x"), *[PAIRS[0]] * 4, ("a\0", "b"), ("w " * 131, "w " * 130)]
    run = config(f"data.source={tsv(tmp_path / 'a.tsv', PAIRS + dirty)}", "data.max_length=131")
    data = prepared(tmp_path / "data", run)
    assert list(data.about.dropped.items()) == [
        ("repeats another pair", 4),
        ("source is empty", 1),
        ("damaged characters (control characters, U+FFFD)", 1),
        ("more than 131 tokens", 1),
    ]


def test_tokenizers_learn_from_a_sample_that_does_not_depend_on_the_order(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(preparation, "TOKENIZER_PAIRS", 61)
    seen: list[list[Pair]] = []
    train = preparation._train_tokenizers
    monkeypatch.setattr(
        preparation, "_train_tokenizers", lambda bitext, *options: seen.append(list(bitext)) or train(bitext, *options)
    )
    for name, pairs in (("a", PAIRS), ("b", PAIRS[::-1])):
        prepared(tmp_path / name, config(f"data.source={tsv(tmp_path / f'{name}.tsv', pairs)}"))
    # 185 pairs drawn with probability 61 / 211: 53 on average, standard deviation 6.2.
    assert abs(len(seen[0]) - 53) < 5 * 6.2
    assert seen[0] == seen[1][::-1]
    assert len({share(pair, "tokenizer") for pair in PAIRS} | {share(pair, "copies") for pair in PAIRS}) == 2 * 211


def test_long_sentences_are_read_few_at_a_time(monkeypatch):
    monkeypatch.setattr(blocks, "CHARACTERS_AT_ONCE", 997)
    chunks = list(blocks.blocks(PAIRS))
    assert [pair for chunk in chunks for pair in chunk] == PAIRS
    longest = max(len(source) + len(target) for source, target in PAIRS)
    sizes = [sum(len(source) + len(target) for source, target in chunk) for chunk in chunks]
    assert max(sizes) <= 997 + longest
    assert min(sizes[:-1]) > 997 - longest


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_preparation_that_broke_off_goes_on_after_the_last_piece_to_the_same_bytes(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(processes, "cores", lambda: 1)
    monkeypatch.setattr(pair_file, "BLOCK", 2_003)
    run = config(f"data.source={tsv(tmp_path / 'a.tsv', PAIRS)}")
    prepared(tmp_path / "whole", run)
    encoded: list[int] = []
    encode = Encoder._encoded

    def breaks_off(encoder: Encoder, pairs: list[Pair], *options, **names):
        if len(encoded) == 3:
            raise KeyboardInterrupt
        encoded.append(len(pairs))
        return encode(encoder, pairs, *options, **names)

    (tmp_path / "again").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "_encoded", breaks_off)
        with pytest.raises(KeyboardInterrupt):
            prepare(open_corpora(run.data), run, tmp_path / "again")
    assert not (tmp_path / "again" / "about.json").exists()
    before = len(encoded)
    monkeypatch.setattr(
        Encoder, "_encoded", lambda self, pairs, *a, **o: encoded.append(len(pairs)) or encode(self, pairs, *a, **o)
    )
    data = prepared(tmp_path / "again", run)
    assert sum(encoded) == data.about.train_pairs + len(data.valid_pairs)
    assert before == 3 < len(encoded) - 3
    assert contents(tmp_path / "again") == contents(tmp_path / "whole")


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["data.split=line", "data.held_out=0.1"],
        ["tokenizer.dropout=0.1", "data.temperature=3"],
        ["tokenizer.kind=unigram", "tokenizer.sampling_alpha=0.2"],
    ],
)
def test_processes_write_the_bytes_that_one_writes(tmp_path: Path, monkeypatch, settings: list[str]):
    monkeypatch.setattr(blocks, "CHARACTERS_AT_ONCE", 997)
    monkeypatch.setattr(pair_file, "BLOCK", 2_003)
    forked: list[int] = []
    monkeypatch.setattr(processes, "Workers", lambda *a, **o: forked.append(a[1]) or Workers(*a, **o))
    dirty = [*PAIRS[60:90], ("", "x"), ("a\0", "b"), ("42 of NASA", "42 de la NASA"), *PAIRS[:30]]
    corpora = [
        {"source": tsv(tmp_path / "a.tsv", PAIRS + dirty), "weight": 1.5},
        {"source": tsv(tmp_path / "b.tsv", dirty)},
    ]
    run = config(f"data.corpora={json.dumps(corpora)}", "tokenizer.placeholders=true", *settings)
    for cores in (1, 2):
        monkeypatch.setattr(processes, "cores", lambda cores=cores: cores)
        folder = tmp_path / f"{cores}"
        folder.mkdir()
        pairs = write_pairs(open_corpora(run.data), run, near=tmp_path)
        chosen = run.model_copy(deep=True)
        chosen.data.held_out = sizes_to_hold_out(pairs.counts, run.data, "")
        prepare(pairs, chosen, folder)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
    assert forked == [2] * len(forked)
    assert forked


def test_what_cleaning_empties_is_said(tmp_path: Path):
    copied = [
        (f"This sentence is number {n} of those that nobody translated into another language.",) * 2 for n in range(40)
    ]
    run = config(f"data.source={tsv(tmp_path / 'a.tsv', copied)}")
    with pytest.raises(DataError, match="a has 0 different source sentences"):
        prepare(open_corpora(run.data), run, tmp_path)


def test_a_bitext_without_corpora_is_weighted_once():
    assert list(Bitext(lambda: PAIRS, name="x").cleaned().weighted()) == PAIRS


def test_the_sample_for_tokenizers_is_of_the_weighted_pairs(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(preparation, "TOKENIZER_PAIRS", 100)
    seen: list[Pair] = []
    train = preparation._train_tokenizers
    monkeypatch.setattr(
        preparation, "_train_tokenizers", lambda bitext, *options: seen.extend(bitext) or train(bitext, *options)
    )
    corpora = [
        {"source": tsv(tmp_path / "large.tsv", PAIRS[:171]), "weight": 0.1},
        {"source": tsv(tmp_path / "small.tsv", PAIRS[171:]), "weight": 2},
    ]
    prepared(tmp_path / "data", config(f"data.corpora={json.dumps(corpora)}"))
    # Some 17 and 80 of an epoch, fewer than 100, less the 26 that are held out: all of them.
    assert 60 < len(seen) < 100


def test_how_sources_are_written_is_learned_from_training_pairs(tmp_path: Path):
    pairs = [(f"We saw Anna at 10 on TV, not {word}.", f"Zehn vor Anna, nicht {word}.") for word in dir(str)]
    data = prepared(tmp_path / "data", config(f"data.source={tsv(tmp_path / 'a.tsv', pairs)}"))
    assert {"saw", "Anna", "TV", "not"} <= set(data.style.case.words)
    assert (data.style.case.capitals, data.style.case.initials) == (True, True)
    assert data.style.translated == ["10", "TV"]
    # A run of an older version has none.
    for name in ("source_style.json", "text_tools.json"):
        (tmp_path / "data" / name).unlink()
    run = config(f"data.source={tmp_path / 'a.tsv'}")
    assert PreparedData.open(tmp_path / "data", run).style == SourceStyle()
