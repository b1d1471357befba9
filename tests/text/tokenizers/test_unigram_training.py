"""Training of unigram pieces: the same on every machine, from any texts, however few, strange or long they are."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from dragoman.errors import DataError, ResourceError
from dragoman.text.tokenizers import unigram_training
from dragoman.text.tokenizers.byte_level import BYTES, byte_level_decode, byte_level_encode
from dragoman.text.tokenizers.tokenizer import EOS_ID, MIN_VOCAB_SIZE, SPECIAL_TOKENS, Tokenizer
from dragoman.text.tokenizers.unigram_training import MAX_PIECE_LENGTH, MAX_WORD_LENGTH, train_unigram

STRANGE = [
    "a\tb\t1",
    "line\nline",
    "nul\0nul\0",
    "▁a▁ ▁▅ \u2047",
    "Ġdog ĠĠ",
    "ĉ ĉ1",
    "\x7f\x85\u2028\ufeff",
    "a,b;c\"d'",
]
UNSPACED = ["我在北京看了展览，很喜欢北京。" * 9, "ฉันรักภาษาไทยและภาษาไทยรักฉัน" * 9, "日本語" * 300, "á" * 5_001]


def corpus(seed: int) -> Counter[str]:
    """Words of stems and endings, with their counts."""
    rng = random.Random(seed)
    stems = ["".join(rng.choices("abcdefgh", k=rng.randint(3, 6))) for _ in range(37)]
    return Counter(rng.choice(stems) + rng.choice(["", "ing", "ed", "s"]) for _ in range(2003))


def test_training_finds_the_parts_that_words_are_made_of() -> None:
    words = corpus(7)
    learned = train_unigram(words, size=307)
    pieces = dict(learned)
    assert len(pieces) == 307
    assert {"ing", "ed"} <= pieces.keys() >= BYTES.keys()
    assert learned == sorted(learned, key=lambda entry: (-entry[1], entry[0]))


@pytest.mark.parametrize("size", [256, 257, 261, 8_003])
@pytest.mark.parametrize(
    "words", [{}, {"a": 1}, {"a": 8}, {"Ġa": 1}, {"a" * 8: 1}, {"a" * 16: 1}, {"ab" * 48: 1}, {"Ġdog": 1, "Ġcat": 1}]
)
def test_few_words_give_few_pieces(words: dict[str, int], size: int) -> None:
    """SentencePiece by itself fails for a word of eight equal letters, and leaves out letters that it never saw."""
    pieces = dict(train_unigram(words, size=size))
    assert BYTES.keys() <= pieces.keys()
    assert len(pieces) <= min(size, 256 + 2 * sum(map(len, words)))
    assert all(-50 < score < 0 for score in pieces.values())


def test_counts_matter() -> None:
    """As words, not as texts: three kinds of words that occur often, among many that occur once."""
    rng = random.Random(3)
    rare = {"".join(rng.choices("abcdefgh", k=7)): 1 for _ in range(501)}
    assert {"qxq", "zyz", "vwv"} <= dict(train_unigram(rare | {"qxq": 99, "zyz": 99, "vwv": 99}, size=271)).keys()


# ---- strange and long texts ------------------------------------------------------------------


@pytest.mark.parametrize("vocab_size", [MIN_VOCAB_SIZE, MIN_VOCAB_SIZE + 1, 307, 8_003])
@pytest.mark.parametrize("texts", [[], [""], STRANGE, UNSPACED, ["Two short sentences.", "No more."]])
def test_texts_are_given_back_whatever_was_learned_from(texts: list[str], vocab_size: int) -> None:
    tokenizer = Tokenizer.train(texts, vocab_size=vocab_size, kind="unigram")
    assert MIN_VOCAB_SIZE <= tokenizer.vocab_size <= vocab_size
    read = [*texts, *STRANGE, "unseen ñ 日 \U0001f600"]
    ids = tokenizer.encode_batch(read)
    assert tokenizer.decode_batch(ids) == read
    assert all(id_ > EOS_ID for tokens in ids for id_ in tokens)


def test_special_tokens_in_the_texts_are_learned_as_text() -> None:
    texts = [*SPECIAL_TOKENS, "a</s>b <s><s>", "<unk> <unk>"] * 99
    tokenizer = Tokenizer.train(texts, vocab_size=307, kind="unigram")
    assert tokenizer.pieces(tokenizer.encode("<unk>")) == ["▁<", "unk", ">"]
    assert tokenizer.decode_batch(tokenizer.encode_batch(texts)) == texts


@pytest.mark.parametrize("text", UNSPACED)
def test_long_words_are_cut_between_characters_and_learned_from(text: str) -> None:
    word = byte_level_encode(text)
    parts = unigram_training._CUT.findall(word)
    assert "".join(parts) == word
    assert all(MAX_WORD_LENGTH - 3 <= len(part) <= MAX_WORD_LENGTH for part in parts[:-1])
    assert "".join(byte_level_decode(part).decode() for part in parts) == text
    longest = max(len(piece) for piece, _ in train_unigram({word: 5}, size=307))
    assert 9 <= longest <= MAX_PIECE_LENGTH


def test_the_most_frequent_words_are_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unigram_training, "MAX_WORDS", 1_000)
    words = {f"word{number}": 1 + number % 2 for number in range(1_600)}
    kept = unigram_training._counts(words).keys() - BYTES.keys()
    assert len(kept) == 1_000
    assert sum(words[word] == 2 for word in kept) == 800
    # Of those that occur once some, and not the first by spelling.
    assert 30 < sum(word < "word2" for word in kept if words[word] == 1) < 170


def test_a_large_corpus_has_its_counts_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unigram_training, "MAX_LETTERS", 1_000)
    counts = unigram_training._counts({"often": 1_500, "seldom": 400, "once": 1})
    assert counts["often"] / counts["seldom"] == pytest.approx(1_500 / 400, rel=0.05)
    assert counts["once"] == 1
    assert sum(len(word) * count for word, count in counts.items()) <= 1_000 + len("once") + len(BYTES)
    assert {piece for piece, _ in train_unigram({"often": 10**12, "seldom": 10**11}, size=270)} > {"often", "seldom"}


# ---- always the same -------------------------------------------------------------------------

TRAIN = """
import random, sys
from dragoman.text.tokenizers.tokenizer import Tokenizer
rng = random.Random(5)
words = ["".join(rng.choices("abcdefghij\u00e9\u3042", k=rng.randint(1, 7))) for _ in range(307)]
texts = [" ".join(rng.choices(words, k=rng.randint(1, 11))) for _ in range(2003)]
Tokenizer.train(texts[::int(sys.argv[2])], vocab_size=701, kind="unigram").save(sys.argv[1])
"""


@pytest.mark.slow
def test_training_gives_the_same_bytes_whatever_the_threads_and_the_order(tmp_path: Path) -> None:
    for run, (threads, hash_seed, step) in enumerate([("1", "1", "1"), ("2", "2", "-1"), ("7", "3", "1")]):
        environment = os.environ | {
            "RAYON_NUM_THREADS": threads,
            "OMP_NUM_THREADS": threads,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": str(Path(__file__).parents[3]),
        }
        subprocess.run([sys.executable, "-c", TRAIN, str(tmp_path / f"{run}.json"), step], env=environment, check=True)
    first, *others = [(tmp_path / f"{run}.json").read_bytes() for run in range(3)]
    assert others == [first, first]


def test_the_order_of_the_words_does_not_matter() -> None:
    words = corpus(11)
    assert train_unigram(words, size=331) == train_unigram(dict(reversed(words.items())), size=331)


def test_scores_survive_a_file(tmp_path: Path) -> None:
    trained = Tokenizer.train(["the small dogs saw the small cats"] * 99, vocab_size=271, kind="unigram")
    trained.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").to_json() == trained.to_json()


# ---- the library -----------------------------------------------------------------------------


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    for words in ({}, {"a" * 8: 1}, corpus(5)):
        train_unigram(words, size=300)
    assert capfd.readouterr() == ("", "")


def test_a_failure_of_the_library_names_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**options: object) -> None:
        raise RuntimeError("INTERNAL: src/trainer.cc(446) [!sentences_.empty()] ")

    monkeypatch.setattr("sentencepiece.SentencePieceTrainer.train", fail)
    expected = r"SentencePiece .* these texts \(INTERNAL: .*\); set `tokenizer.kind=bpe`"
    with pytest.raises(DataError, match=expected):
        train_unigram({"a": 1}, size=300)


READ = """
import sys
sys.modules["sentencepiece"] = None
from dragoman.text.tokenizers.tokenizer import Tokenizer
tokenizer = Tokenizer.load(sys.argv[1])
print(tokenizer.decode(tokenizer.encode("the dogs")))
"""


def test_the_library_is_needed_only_to_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokenizer.json"
    Tokenizer.train(["the dogs"] * 9, vocab_size=271, kind="unigram").save(path)
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(ResourceError, match="Training a unigram tokenizer needs another library; type: pip install"):
        train_unigram({"a": 1}, size=300)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", READ, str(path)]
    assert subprocess.run(command, env=environment, capture_output=True, check=True).stdout.split() == [b"the", b"dogs"]


def test_ctrl_c_ends_the_wait_for_the_library() -> None:
    main, end = threading.main_thread().ident, threading.Event()

    def work() -> None:
        signal.pthread_kill(main, signal.SIGINT)
        assert end.wait(30)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            unigram_training._interruptible(work)
    finally:
        signal.signal(signal.SIGINT, before)
        end.set()
