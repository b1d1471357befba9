"""Sources that are followed by the translation of the training pair that is most like them, or by terms."""

from pathlib import Path

import numpy as np
import pytest

from dragoman.config.run import RunConfig
from dragoman.data import neighbours, terms
from dragoman.data.batching import Sentences, TokenStore
from dragoman.data.hinting import HintedStore
from dragoman.data.neighbours import NONE, find_neighbours
from dragoman.data.preparation import NEIGHBOURS, PreparedData, prepare, relate_pairs
from dragoman.data.terms import TermStore, WordForms
from dragoman.errors import UsageError
from dragoman.text.edit_distance import LEAST_SIMILAR, Compared
from dragoman.text.tokenizers.hint_tokens import HINTS, SIMILAR, TERM
from dragoman.text.tokenizers.tokenizer import Tokenizer
from dragoman.text.word_forms import are_forms
from tests.small import plan, write_pairs

FUZZY = ["training.fuzzy=0.5", "data.held_out=[5,5]", "training.max_steps=1", "training.typos=0"]


def sentences(rows: list[list[int]]) -> Sentences:
    ends = np.cumsum(np.array([len(row) for row in rows], np.int64))
    return Sentences(np.array([id_ for row in rows for id_ in row], np.uint32), ends)


def test_each_source_has_the_most_similar_other_one() -> None:
    rng = np.random.default_rng(4)
    rows = [rng.integers(4, 60, rng.integers(3, 9)).tolist() for _ in range(300)]
    for row in rows[:100]:  # near copies of some
        copy = list(row)
        copy[rng.integers(len(copy))] = int(rng.integers(4, 60))
        rows.append(copy)
    rows += rows[:30]  # the same again: no neighbours of each other
    found = find_neighbours(sentences(rows))
    best_of_all = 0
    for row, (index, similarity) in enumerate(zip(*found, strict=True)):
        others = [Compared(rows[row]).similarity(other) if other != rows[row] else 0.0 for other in rows]
        if index == NONE:
            assert similarity == 0
            best_of_all += max(others) < LEAST_SIMILAR
        else:
            assert others[index] == pytest.approx(similarity)
            assert similarity >= LEAST_SIMILAR
            best_of_all += others[index] == max(others)
    # Candidates are those with rare tokens in common, so a few of the best may be missed.
    assert best_of_all > 0.97 * len(rows)


def test_processes_find_the_same_neighbours_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[4 + n % 7, 5 + n % 3, 6 + n % 11, 9] for n in range(60)]
    alone = find_neighbours(sentences(rows))
    monkeypatch.setattr(neighbours, "_AT_ONCE", 7)
    for side, other in zip(alone, find_neighbours(sentences(rows)), strict=True):
        np.testing.assert_array_equal(side, other)


def test_empty_and_late_sources_have_no_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[5, 6, 7], [], [5, 6, 8], [5, 6, 9]]
    assert find_neighbours(sentences(rows)).indices[1] == NONE
    monkeypatch.setattr(neighbours, "MOST_TOKENS", 6)
    assert find_neighbours(sentences(rows)).indices.tolist() == [2, NONE, 0, NONE]
    assert len(find_neighbours(sentences([])).indices) == 0


def test_a_share_of_the_sources_is_followed_by_a_target_others_in_each_epoch(tmp_path: Path) -> None:
    sources = [[10 + n, 11, 12] for n in range(400)]
    targets = [[30, 31 + n] for n in range(400)]
    TokenStore.write([tmp_path / "source", tmp_path / "target"], zip(sources, targets, strict=True))
    stores = TokenStore(tmp_path / "source"), TokenStore(tmp_path / "target")
    near = np.array([(n + 1) % 400 if n % 2 else NONE for n in range(400)], np.int32)

    def hinted(limit: int = 50) -> HintedStore:
        return HintedStore(*stores, near, begin=7, share=0.5, seed=3, limit=limit)

    epochs = [hinted().epoch(number) for number in (0, 0, 1)]
    rows = [[epoch[row].tolist() for row in range(400)] for epoch in epochs]
    assert rows[0] == rows[1] != rows[2]
    longer = [row for row in range(400) if rows[0][row] != sources[row]]
    assert all(row % 2 for row in longer)
    assert 70 < len(longer) < 130
    for row in longer:
        assert rows[0][row] == [*sources[row], 7, *targets[(row + 1) % 400]]
    assert [len(row) for row in rows[0]] == epochs[0].lengths.tolist()
    assert hinted(limit=6).epoch(0).lengths.max() == 3


def test_tokens_of_hints_cannot_be_typed_and_survive_a_file(tmp_path: Path) -> None:
    plain = Tokenizer.train(["a small house"] * 3, vocab_size=280)
    tokenizer = plain.with_hints(HINTS)
    assert not plain.hints
    assert tokenizer.hints == {SIMILAR: plain.vocab_size, TERM: plain.vocab_size + 1}
    assert not {*tokenizer.encode(f"{SIMILAR} a {TERM}")} & {*tokenizer.hints.values()}
    assert tokenizer.decode([*tokenizer.hints.values(), *tokenizer.encode("house")]) == "house"
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.hints == tokenizer.hints
    assert again.pieces(again.hints.values()) == [SIMILAR, TERM]
    with pytest.raises(UsageError, match="'<term>', which models that read hints add"):
        Tokenizer.train(["a small house"], vocab_size=280, symbols=[TERM]).with_hints(HINTS)


def test_prepared_pairs_are_compared_once(tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv", [(f"a{i % 9} b{i} c d", f"x{i % 9} y{i} z w") for i in range(60)])
    config, prepared = plan(pairs, settings=[*FUZZY, "tokenizer.vocab_size=300"])
    prepare(prepared, config, tmp_path)
    data = PreparedData.open(tmp_path, config)
    assert data.source_tokenizer.hints == data.target_tokenizer.hints != {}
    assert data.source_tokenizer.vocab_size <= 300
    hint = data.source_tokenizer.hints[SIMILAR]
    rows = [row for batch in data.train.first(100) for row in batch.source_ids.tolist()]
    with_hints = sum(hint in row for row in rows)
    assert len(rows) == 50
    assert 10 < with_hints < 40
    assert not relate_pairs(tmp_path, config)
    (tmp_path / NEIGHBOURS).unlink()
    with pytest.raises(UsageError, match="were not compared when it began"):
        PreparedData.open(tmp_path, config)
    assert relate_pairs(tmp_path, config)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["tokenizer.shared=false"], "both need one vocabulary"),
        (["tokenizer.dropout=0.1"], "the same tokens in each epoch"),
        (["training.joined=0.1"], "leave out training.joined, or these"),
    ],
)
def test_settings_that_cannot_have_hints_are_refused(settings: list[str], message: str) -> None:
    tree: dict = {"training": {"fuzzy": 0.5}}
    for setting in settings:
        (section, name), value = setting.split("=")[0].split("."), setting.split("=")[1]
        tree.setdefault(section, {})[name] = value
    with pytest.raises(UsageError, match=message):
        RunConfig.validate(tree)


def test_a_vocabulary_without_tokens_for_hints_is_refused(tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv", [(f"a{i} b c", f"x{i} y z") for i in range(60)])
    config, prepared = plan(pairs, settings=[*FUZZY, "training.fuzzy=0"])
    prepare(prepared, config, tmp_path)
    config.training.fuzzy = 0.5
    with pytest.raises(UsageError, match="this one lacks <similar>"):
        PreparedData.open(tmp_path, config)


def test_pairs_of_several_languages_are_refused(tmp_path: Path) -> None:
    for name in ("fr", "de"):
        write_pairs(tmp_path / f"{name}.tsv", [(f"a{i} b c", f"{name}{i} y z") for i in range(60)])
    corpora = [f"{{source: {tmp_path / name}.tsv, languages: [en, {name}]}}" for name in ("fr", "de")]
    with pytest.raises(UsageError, match="may be of another language"):
        plan(settings=[*FUZZY, f"data.corpora=[{', '.join(corpora)}]"])


def test_terms_are_words_of_the_target_often_in_another_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms, "FREQUENT", 0.2)
    forms = ["Haus", "Hauses", "Garten", "Gartens", "roter", "rotes", "Mann", "Fisch"]
    articles = ["der", "die", "das"]
    targets = [f"{forms[n % 8]} {forms[(n // 8) % 8]} {articles[n % 3]}." for n in range(640)]
    tokenizer = Tokenizer.train(targets, vocab_size=340).with_hints(HINTS)
    rows = zip(tokenizer.encode_batch(["a b"] * 640), tokenizer.encode_batch(targets), strict=True)
    TokenStore.write([tmp_path / "source", tmp_path / "target"], rows)
    sources, stored = TokenStore(tmp_path / "source"), TokenStore(tmp_path / "target")
    begin = tokenizer.hints[TERM]

    def with_terms(limit: int = 50) -> TermStore:
        return TermStore(sources, stored, tokenizer, begin=begin, share=0.25, seed=2, limit=limit)

    epochs = [with_terms().epoch(number) for number in (0, 0, 1)]
    ids = [[epoch[row].tolist() for row in range(640)] for epoch in epochs]
    assert ids[0] == ids[1] != ids[2]
    assert [len(row) for row in ids[0]] == epochs[0].lengths.tolist()
    same = other = 0
    longer = [row for row in range(640) if ids[0][row] != sources[row].tolist()]
    assert 115 < len(longer) < 205
    for row in longer:
        before, *terms_of_row = split_at(ids[0][row], begin)
        assert before == sources[row].tolist()
        assert 1 <= len(terms_of_row) <= 3
        for term in map(tokenizer.decode, terms_of_row):
            in_target = set(targets[row].rstrip(".").split())
            for word in term.split():
                assert any(are_forms(word, target) for target in in_target)
                same += word in in_target
                other += word not in in_target
    assert other > 20
    assert same > other
    assert with_terms(limit=int(sources.lengths.max()) + 2).epoch(0).lengths.max() <= sources.lengths.max() + 1


def split_at(ids: list[int], begin: int) -> list[list[int]]:
    parts: list[list[int]] = [[]]
    for id_ in ids:
        if id_ == begin:
            parts.append([])
        else:
            parts[-1].append(id_)
    return parts


def test_articles_and_marks_are_no_terms_and_characters_are(tmp_path: Path) -> None:
    texts = [f"the dog{'abcdefgh'[n % 8] * 3} sees the cat{'abcdefgh'[n // 8 % 8] * 3} ." for n in range(400)]
    forms = WordForms(texts)
    assert not any(map(forms.is_term, ("the", ".", "42", "of")))
    assert forms.is_term("dogaaab")
    chinese = WordForms([f"我们看{chr(0x4E00 + n)}{chr(0x4F00 + n)}" for n in range(600)])
    assert chinese.is_term(chr(0x4E05))
    assert not chinese.is_term("我")
