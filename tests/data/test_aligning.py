"""Training pairs aligned by statistics, and batches that have these alignments."""

from collections.abc import Iterator
from itertools import islice, product
from math import prod
from pathlib import Path

import numpy as np
import pytest

from dragoman.config.run import RunConfig
from dragoman.data import aligning, preparation
from dragoman.data.aligning import LONGEST, NONE, AlignmentModel, align
from dragoman.data.batching import Sentences, TokenBatches, TokenStore
from dragoman.data.encoding import TextTools
from dragoman.data.misspelling import ChangedSentences
from dragoman.data.preparation import POSITIONS, PreparedData, align_pairs, prepare, relate_pairs
from dragoman.errors import UsageError
from dragoman.text.labels import label
from dragoman.text.preprocessing import SourceStyle
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.small import plan, write_pairs


def sentences(rows: list[list[int]]) -> Sentences:
    return Sentences(np.array([token for row in rows for token in row], np.uint32), np.cumsum([*map(len, rows)]))


def positions_of(sources: list[list[int]], targets: list[list[int]], *, seed: int = 1) -> list[list[int]]:
    """For each pair what `align` gives; none if it leaves the pair out."""
    found = dict(align(sentences(sources), sentences(targets), seed=seed))
    return [found[row].tolist() if row in found else [] for row in range(len(sources))]


def dictionary_pairs(count: int, *, words: int = 40, seed: int = 3) -> tuple[list[list[int]], list[list[int]], list]:
    """Sources, targets that translate them word by word with some neighbours exchanged, and the true positions.

    Some targets have a word that comes from none.
    """
    rng = np.random.default_rng(seed)
    sources, targets, truth = [], [], []
    for _ in range(count):
        source = rng.integers(10, 10 + words, rng.integers(3, 9)).tolist()
        positions = list(range(len(source)))
        if rng.random() < 0.5:
            at = int(rng.integers(len(source) - 1))
            positions[at], positions[at + 1] = positions[at + 1], positions[at]
        target = [1_000 + source[position] for position in positions]
        if rng.random() < 0.3:
            at = int(rng.integers(len(target) + 1))
            target.insert(at, 7)
            positions.insert(at, len(source))
        sources.append(source)
        targets.append(target)
        truth.append(positions)
    return sources, targets, truth


def test_words_of_a_dictionary_are_found_with_those_that_come_from_none() -> None:
    sources, targets, truth = dictionary_pairs(400)
    found = positions_of(sources, targets)
    assert [len(positions) for positions in found] == [*map(len, targets)]
    is_right = np.concatenate([np.array(a) == b for a, b in zip(truth, found, strict=True)])
    assert is_right.mean() > 0.97


def by_enumeration(
    source: list[int], target: list[int], words: dict[tuple[int, int], float], jumps: dict[int, float]
) -> np.ndarray:
    """The posterior of each source position for each target token, as a sum over all alignments.

    A token that comes from none keeps the position before it, from which the next jump starts.
    """
    length, missing = len(source), aligning.MISSING
    far = aligning.FARTHEST

    def weight(before: int, to: int) -> float:
        return jumps[max(-far, min(far, to - before))]

    result, total = np.zeros((len(target), length)), 0.0
    for states in product(range(2 * length), repeat=len(target)):
        factors, last = [], -1
        for token, state in zip(target, states, strict=True):
            place, is_none = state % length, state >= length
            share = missing if is_none else 1 - missing
            if last < 0:
                share /= length
            elif is_none:
                share *= place == last
            else:
                share *= weight(last, place) / sum(weight(last, to) for to in range(length))
            factors += [share, words[-1 if is_none else source[place], token]]
            last = place
        probability = prod(factors)
        total += probability
        for index, state in enumerate(states):
            if state < length:
                result[index, state] += probability
    return result / total


def test_posteriors_are_those_of_a_sum_over_all_alignments() -> None:
    rng = np.random.default_rng(8)
    source, target = [4, 9, 4, 11], [21, 22, 21]
    words = {(s, t): float(rng.uniform(0.01, 1)) for s in (-1, *source) for t in target}
    jumps = rng.uniform(0.05, 1, 2 * aligning.FARTHEST + 1).astype(np.float32)
    numbers = {((s + 1) << 32) + t: p for (s, t), p in words.items()}
    pairs = np.array(sorted(numbers))
    model = AlignmentModel(pairs, np.array([numbers[pair] for pair in pairs.tolist()], np.float32), jumps)
    (block,) = aligning._blocks([np.array(source)], [np.array(target)])
    weights = dict(zip(range(-aligning.FARTHEST, aligning.FARTHEST + 1), jumps.tolist(), strict=True))
    expected = by_enumeration(source, target, words, weights)
    np.testing.assert_allclose(model.posteriors(block)[0], expected, atol=1e-5)


def test_posteriors_of_a_sentence_do_not_depend_on_others_in_its_block() -> None:
    sources, targets, _ = dictionary_pairs(60)
    model = AlignmentModel.learn([*map(np.array, sources)], [*map(np.array, targets)])
    together = {}
    for block in aligning._blocks([*map(np.array, sources)], [*map(np.array, targets)]):
        for row, values in zip(block.rows.tolist(), model.posteriors(block), strict=True):
            together[row] = values[: len(targets[row])]
    for row in range(0, 60, 7):
        (block,) = aligning._blocks([np.array(sources[row])], [np.array(targets[row])])
        alone = model.posteriors(block)[0]
        np.testing.assert_allclose(alone, together[row], atol=1e-5)
        assert (alone.sum(1) <= 1 + 1e-5).all()


def test_words_that_were_never_seen_are_no_reason_to_stop() -> None:
    sources, targets, _ = dictionary_pairs(50)
    model = AlignmentModel.learn([*map(np.array, sources)], [*map(np.array, targets)])
    (block,) = aligning._blocks([np.array([99_999, 12])], [np.array([88_888, 1_012])])
    posteriors = model.posteriors(block)[0]
    assert np.isfinite(posteriors).all()
    assert posteriors[1].argmax() == 1


def test_long_and_empty_sentences_and_all_beyond_the_most_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    sources, targets, _ = dictionary_pairs(30)
    sources[4], targets[9], targets[11] = [10] * (LONGEST + 1), [1_010] * (LONGEST + 1), []
    found = positions_of(sources, targets)
    assert {row for row, positions in enumerate(found) if not positions} == {4, 9, 11}
    monkeypatch.setattr(aligning, "MOST_PAIRS", 10)
    few = [positions_of(sources, targets, seed=seed) for seed in (1, 1, 2)]
    chosen = [{row for row, positions in enumerate(found) if positions} for found in few]
    assert len(chosen[0]) == 10
    assert chosen[0] == chosen[1] != chosen[2]


def test_nothing_to_align_is_no_error() -> None:
    assert positions_of([[], []], [[5], []]) == [[], []]


def test_batches_have_the_positions_of_their_labels(tmp_path: Path) -> None:
    sources, targets = sentences([[5, 6], [7], [8, 9, 8]]), sentences([[50, 51, 52], [53], [54, 55]])
    changed = ChangedSentences(sources, {1: np.array([7, 7], np.uint32)})

    class Store:
        def __init__(self, epoch: object) -> None:
            self.opened = epoch

        def __len__(self) -> int:
            return 3

        def epoch(self, number: int) -> object:
            return self.opened

    batches = TokenBatches(Store(changed), Store(targets), max_tokens=100, seed=1)
    batches.alignments = Sentences(np.array([1, 0, 2, 0, 3, NONE], np.int16), targets.ends)
    (rows,) = batches.plan(0)
    batch = batches.collate(rows)
    positions = dict(zip(rows.tolist(), batch.positions.tolist(), strict=True))
    assert positions == {
        0: [1, 0, 2, 2],  # its third token comes from none, as its end, which comes from that of the source
        1: [-1, -1, -1, -1],  # other tokens than those that were aligned
        2: [3, -1, 3, -1],
    }
    assert [tensor.shape[0] for tensor in batch.tensors] == [3] * 4
    nobody = batches.part(rows[:1], 1, 2)
    assert nobody.positions is None
    assert not (nobody.labels != 0).any()
    again = type(batch).from_tensors(*batch.tensors)
    assert again.positions is batch.positions
    assert again.soft_targets is None


def test_positions_in_a_folder_skip_the_token_of_the_target_language(tmp_path: Path) -> None:
    sources, targets, _ = dictionary_pairs(300, words=20)
    english, french = ([" ".join(f"w{token}" for token in row) for row in side] for side in (sources, targets))
    plain = Tokenizer.train([*english, *french], vocab_size=400)
    found = {}
    for name, tokenizer in (("one", plain), ("several", plain.with_targets(["fr", "de"]))):
        folder = tmp_path / name
        folder.mkdir()
        labelled = [label("en", "fr") + text for text in english] if tokenizer.targets else english
        TextTools(tokenizer, tokenizer, SourceStyle()).save(folder)
        rows = zip(tokenizer.encode_batch(labelled), tokenizer.encode_batch(french), strict=True)
        TokenStore.write([folder / "train-source", folder / "train-target"], rows)
        align_pairs(folder, RunConfig())
        found[name] = np.load(folder / POSITIONS)
    assert len(found["one"]) == TokenStore(tmp_path / "one/train-target").ends[-1]
    np.testing.assert_array_equal(found["several"], found["one"] + 1)


def test_pairs_that_were_not_aligned_cannot_guide_a_head(tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv", [(f"a{i} b c", f"x{i} y z") for i in range(60)])
    settings = ["training.guided_alignment=0", "data.held_out=[5,5]", "training.max_steps=1"]
    config, prepared = plan(pairs, settings=settings)
    prepare(prepared, config, tmp_path)
    config.training.guided_alignment = 0.1
    with pytest.raises(UsageError, match="were not aligned when it began"):
        PreparedData.open(tmp_path, config)
    align_pairs(tmp_path, config)
    assert PreparedData.open(tmp_path, config).train.alignments is not None


def test_all_tokens_of_a_word_have_a_link_if_one_of_them_has() -> None:
    none = 9
    positions = np.array([none, 3, none, none, 5, none, none, none])
    continues = np.array([False, True, True, False, False, True, False, True])
    expected = [3, 3, 3, none, 5, 5, none, none]
    assert aligning.within_words(positions, continues, missing=none).tolist() == expected
    assert aligning.within_words(positions[:0], continues[:0], missing=none).tolist() == []


def test_tokens_that_continue_a_word_begin_with_a_letter_of_a_script_with_spaces() -> None:
    vocabulary = {
        b" red": False, b"ge": True, b"": False, b".": False, b"'": False, b"5": True, b" ": False,
        "é".encode(): True, "\u0301".encode(): True, "é".encode()[1:]: True,
        "猫".encode(): False, "の".encode(): False, "แมว".encode(): False, "नमस्".encode(): True,
        "\u0947".encode(): True,
    }  # fmt: skip
    assert aligning.continuations([*vocabulary]).tolist() == [*vocabulary.values()]


def test_positions_in_a_folder_are_those_of_words(tmp_path: Path) -> None:
    sources, targets, _ = dictionary_pairs(300, words=20)
    english, french = ([" ".join(f"w{token}" for token in row) for row in side] for side in (sources, targets))
    tokenizer = Tokenizer.train([*english, *french], vocab_size=270)  # too few tokens for whole words
    TextTools(tokenizer, tokenizer, SourceStyle()).save(tmp_path)
    pieces = tokenizer.encode_batch(french)
    rows = zip(tokenizer.encode_batch(english), pieces, strict=True)
    TokenStore.write([tmp_path / "train-source", tmp_path / "train-target"], rows)
    align_pairs(tmp_path, RunConfig())
    continues = aligning.continuations(tokenizer.vocabulary())
    ids = np.concatenate(pieces)
    assert continues[ids].mean() > 0.3
    ends = np.cumsum([*map(len, pieces)])
    lengths = np.repeat([*map(len, tokenizer.encode_batch(english))], [*map(len, pieces)])
    positions = np.load(tmp_path / POSITIONS)
    is_linked = positions < lengths
    inside = continues[ids] & ~np.isin(np.arange(len(ids)), [0, *ends])
    np.testing.assert_array_equal(is_linked[inside], is_linked[np.flatnonzero(inside) - 1])


def test_what_was_being_aligned_when_a_preparation_was_killed_is_aligned_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv", [(f"the house {n} is red", f"das Haus {n} ist rot") for n in range(60)])
    settings = ["tokenizer.vocab_size=300", "data.held_out=[5,5]", "training.max_steps=1"]
    config, planned = plan(pairs, settings=settings, recipe=None)

    def killed(*arguments: object, **options: object) -> Iterator[object]:
        yield from islice(align(*arguments, **options), 3)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(preparation, "align", killed)
        with pytest.raises(KeyboardInterrupt):
            prepare(planned, config, tmp_path)
    assert not (tmp_path / POSITIONS).exists()
    assert relate_pairs(tmp_path, config)
    assert (np.load(tmp_path / POSITIONS) >= 0).mean() > 0.5
