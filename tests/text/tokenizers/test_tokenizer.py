"""The tokenizer: nothing is lost, nothing can be smuggled in, training gives the same tokens."""

import copy
import json
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.errors import DataError, UsageError
from dragoman.text.tokenizers.tokenizer import BOS_ID, EOS_ID, MIN_VOCAB_SIZE, PAD_ID, SPECIAL_TOKENS, UNK_ID, Tokenizer

TEXTS = [
    "The dog sees the black cat. </s>",
    "Le chien voit le chat noir.",
    "A dog and a cat are in the garden, aren't they?",
    "Un chien et un chat sont dans le jardin\u202f!",
    "<s> <pad> <unk> the dogs and the cats </s></s></s>",
    "l'tonne l'tonne l'tonne हिन्दी हिन्दी हिन्दी",
] * 3

fast = settings(max_examples=100, deadline=None)


@pytest.fixture(scope="module")
def trained() -> Tokenizer:
    return Tokenizer.train(TEXTS, vocab_size=347)


@pytest.fixture(scope="module")
def bytewise() -> Tokenizer:
    """Has no merges: one token per byte, so that pieces can be derived by hand."""
    return Tokenizer.train([], vocab_size=MIN_VOCAB_SIZE)


@pytest.fixture(scope="module", params=["bpe", "unigram", "char"])
def lossless(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.train(TEXTS, vocab_size=347, kind=request.param)


# ---- nothing is lost -------------------------------------------------------------------------


@given(text=st.text())
@fast
def test_decoding_gives_back_every_text(lossless: Tokenizer, text: str) -> None:
    assert lossless.decode(lossless.encode(text)) == text


# Most random texts have nothing in common with the corpus; these have, and odd spaces as well.
@pytest.mark.first_is_quick
@given(text=st.lists(st.sampled_from([*"  \n\t\r\0'.", " dog", "cat", "</s>", "\u0301"])).map("".join))
@fast
def test_decoding_gives_back_texts_near_the_corpus(lossless: Tokenizer, text: str) -> None:
    assert lossless.decode(lossless.encode(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "  ",
        "\n",
        "\0",
        " a",
        "a ",
        "a  b",
        "a\r\nb\n",
        "\ufeff",
        "▁",
        "Ġ",
        "👩‍👩‍👧",
        "e\u0301",
    ],
)
def test_edges_are_kept(lossless: Tokenizer, text: str) -> None:
    assert lossless.decode_batch(lossless.encode_batch([text])) == [text]


@pytest.mark.first_is_quick
@pytest.mark.parametrize("end", [0x20000, pytest.param(sys.maxunicode, marks=pytest.mark.slow)])
def test_all_of_unicode_is_kept(lossless: Tokenizer, end: int) -> None:
    """Every day its first two planes, which nearly all scripts are in; the other 15 are seldom used, or never."""
    blocks = [
        "".join(chr(code) for code in range(start, start + 1024))
        for start in range(0, end, 1024)
        if not 0xD800 <= start < 0xE000
    ]
    assert lossless.decode_batch(lossless.encode_batch(blocks)) == blocks


@pytest.mark.first_is_quick
@pytest.mark.parametrize("number", [1_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_random_strings_are_kept(lossless: Tokenizer, number: int) -> None:
    """Of characters of one block and of all, and of parts of the corpus."""
    dice = random.Random(25)
    everything = [chr(code) for code in range(sys.maxunicode) if not 0xD800 <= code < 0xE000]
    known = [*" \n\t\u00a0", *(word for text in TEXTS for word in text.split())]
    texts = []
    for _ in range(number):
        block = dice.randrange(len(everything) - 256)
        alphabet = dice.choice([everything, everything[block : block + 256], everything[:256], known])
        texts.append("".join(dice.choices(alphabet, k=dice.randrange(60))))
    assert lossless.decode_batch(lossless.encode_batch(texts)) == texts


def test_a_lone_surrogate_becomes_a_replacement_character(lossless: Tokenizer) -> None:
    assert lossless.decode(lossless.encode("dog \ud83d cat\udfff")) == "dog \ufffd cat\ufffd"
    assert Tokenizer.train(["\ud800"], vocab_size=MIN_VOCAB_SIZE).vocab_size == MIN_VOCAB_SIZE


def test_half_a_character_decodes_to_a_replacement_character(bytewise: Tokenizer) -> None:
    ids = bytewise.encode("aé")
    assert bytewise.decode(ids[:-1]) == "a\ufffd"


def test_a_batch_is_encoded_as_its_texts_are(lossless: Tokenizer) -> None:
    texts = ["", *TEXTS, " x"]
    assert lossless.encode_batch(texts) == [lossless.encode(text) for text in texts]
    assert lossless.encode_batch([]) == []


# ---- nothing is smuggled in ------------------------------------------------------------------


def through_a_file(tokenizer: Tokenizer, folder: Path) -> Tokenizer:
    tokenizer.save(folder / "tokenizer.json")
    return Tokenizer.load(folder / "tokenizer.json")


# The library forgets in its JSON that special tokens spelled out are text.
@pytest.mark.parametrize("arrive", ["trained", "loaded", "pickled", "copied"])
def test_special_tokens_spelled_out_are_text(lossless: Tokenizer, tmp_path: Path, arrive: str) -> None:
    tokenizer = {
        "trained": lambda: lossless,
        "loaded": lambda: through_a_file(lossless, tmp_path),
        "pickled": lambda: pickle.loads(pickle.dumps(lossless)),
        "copied": lambda: copy.deepcopy(lossless),
    }[arrive]()
    for text in [*SPECIAL_TOKENS, "a</s>", "</s> <s>b<pad> <unk>", "</s></s></s>"]:
        ids = tokenizer.encode(text)
        assert tokenizer.encode_batch([text]) == [ids]
        assert min(ids) > EOS_ID
        assert tokenizer.decode(ids) == text


def test_special_tokens_have_the_first_ids_and_no_text(trained: Tokenizer) -> None:
    specials = [PAD_ID, UNK_ID, BOS_ID, EOS_ID]
    assert specials == [0, 1, 2, 3]
    assert trained.pieces(specials) == ["<pad>", "<unk>", "<s>", "</s>"]
    ids = trained.encode("The dog.")
    assert trained.decode([BOS_ID, *ids, EOS_ID, PAD_ID, PAD_ID]) == "The dog."
    assert trained.decode_batch([[BOS_ID, *ids, EOS_ID], [PAD_ID]]) == ["The dog.", ""]


# ---- training --------------------------------------------------------------------------------

TRAIN = """
import random, sys
from dragoman.text.tokenizers.tokenizer import Tokenizer
rng = random.Random(5)
words = ["".join(rng.choices("abcdefghij\u00e9\u3042", k=rng.randint(1, 7))) for _ in range(307)]
texts = (" ".join(rng.choices(words, k=rng.randint(1, 11))) for _ in range(2003))
Tokenizer.train(texts, vocab_size=701).save(sys.argv[1])
"""


@pytest.mark.slow
def test_training_gives_the_same_bytes_whatever_the_threads(tmp_path: Path) -> None:
    for run, (threads, hash_seed) in enumerate([("1", "1"), ("2", "2"), ("2", "3")]):
        environment = os.environ | {
            "RAYON_NUM_THREADS": threads,
            "TOKENIZERS_PARALLELISM": "true",
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": str(Path(__file__).parents[3]),
        }
        command = [sys.executable, "-c", TRAIN, str(tmp_path / f"{run}.json")]
        subprocess.run(command, env=environment, check=True)
    first, *others = [(tmp_path / f"{run}.json").read_bytes() for run in range(3)]
    assert len(json.loads(first)["model"]["vocab"]) == 701
    assert others == [first, first]


def test_the_vocabulary_is_as_large_as_the_corpus_allows(trained: Tokenizer) -> None:
    assert trained.vocab_size == 347
    # "ab" twice: the one merge is a + b, the other (space) + ab.
    assert Tokenizer.train(["ab ab"], vocab_size=8_009).vocab_size == MIN_VOCAB_SIZE + 2
    with pytest.raises(UsageError, match=r"259 is too small: .* 260 already"):
        Tokenizer.train(["ab"], vocab_size=259)


def test_a_fault_in_the_texts_ends_training() -> None:
    def texts() -> Iterator[str]:
        yield "a"
        raise DataError("line 2")

    with pytest.raises(DataError, match="line 2"):
        Tokenizer.train(texts(), vocab_size=307)


def test_the_first_word_is_the_token_that_it_is_elsewhere(trained: Tokenizer) -> None:
    (dog,) = trained.encode("dog")
    assert trained.encode("cat dog")[-1:] == [dog]
    assert trained.encode(" dog")[-1:] == [dog]


def test_vowel_signs_do_not_cut_words_and_elisions_are_no_contractions(trained: Tokenizer) -> None:
    # GPT-2's pattern cuts Hindi at each vowel sign, and "l'tonne" as "l" + "'t" + "onne".
    assert trained.pieces(trained.encode("हिन्दी l'tonne")) == ["▁हिन्दी", "▁l", "'", "tonne"]
    assert trained.pieces(trained.encode("aren't"))[-1] == "'t"


# ---- pictures --------------------------------------------------------------------------------


def test_pieces_are_readable(bytewise: Tokenizer) -> None:
    pieces = bytewise.pieces([BOS_ID, *bytewise.encode("a é\n\x85"), EOS_ID])
    assert pieces == ["<s>", *"▁a▁", "<C3>", "<A9>", "<U+000A>", "<C2>", "<85>", "</s>"]


@pytest.mark.parametrize("codes", [range(0x80, 0x800), range(0x800, 0xD800, 101), range(1 << 16, 0x10FFFF, 5003)])
def test_parts_of_characters_show_their_bytes(bytewise: Tokenizer, codes: range) -> None:
    for character in map(chr, codes):
        shown = [f"<{byte:02X}>" for byte in character.encode()]
        assert bytewise.pieces(bytewise.encode(character)) == ["▁", *shown]


def test_pieces_put_together_are_the_text(trained: Tokenizer) -> None:
    for text in ["The dog sees the cat.", "Zwei Boxer?", "a  b", "हिन्दी", " 'tis"]:
        assert "".join(trained.pieces(trained.encode(text))) == ("▁" + text).replace(" ", "▁")
    assert trained.pieces(trained.encode("The dog")) == ["▁The", "▁dog"]


# ---- files -----------------------------------------------------------------------------------


def test_a_saved_tokenizer_is_the_same_when_loaded(trained: Tokenizer, tmp_path: Path) -> None:
    loaded = through_a_file(trained, tmp_path)
    before = (tmp_path / "tokenizer.json").read_bytes()
    assert loaded.vocab_size == trained.vocab_size
    assert loaded.encode_batch(TEXTS) == trained.encode_batch(TEXTS)
    loaded.save(tmp_path / "tokenizer.json")
    assert (tmp_path / "tokenizer.json").read_bytes() == before


def swap_specials(content: dict[str, Any]) -> None:
    for token, other in zip(content["added_tokens"], SPECIAL_TOKENS[::-1], strict=True):
        token["content"] = other
    content["model"]["vocab"] |= {token: 3 - id_ for id_, token in enumerate(SPECIAL_TOKENS)}


def add_a_special(content: dict[str, Any]) -> None:
    content["added_tokens"].append(content["added_tokens"][0] | {"id": 347, "content": "dog"})


def drop_a_byte(content: dict[str, Any]) -> None:
    content["model"]["vocab"]["€"] = content["model"]["vocab"].pop("z")


def drop_a_special(content: dict[str, Any]) -> None:
    content["added_tokens"].pop()


def leave_a_gap(content: dict[str, Any]) -> None:
    content["model"]["vocab"]["z"] = 100_003


def cut(content: dict[str, Any]) -> None:
    content["truncation"] = {
        "direction": "Right",
        "max_length": 2,
        "strategy": "LongestFirst",
        "stride": 0,
    }


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (swap_specials, "special tokens <pad> <unk> <s> </s> as 0 to 3"),
        (add_a_special, "special tokens <pad> <unk> <s> </s> as 0 to 3"),
        (drop_a_special, "special tokens <pad> <unk> <s> </s> as 0 to 3"),
        (drop_a_byte, "in the 256 bytes"),
        (leave_a_gap, "number its 347 tokens from 0 to 346"),
        (cut, "cuts or pads every text"),
        (dict.clear, "is no tokenizer"),
    ],
)
def test_a_tokenizer_that_breaks_promises_is_refused(
    trained: Tokenizer, tmp_path: Path, damage: Callable[[dict[str, Any]], None], reason: str
) -> None:
    path = tmp_path / "tokenizer.json"
    trained.save(path)
    content = json.loads(path.read_text("utf-8"))
    damage(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match=reason) as caught:
        Tokenizer.load(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"not JSON", b"\xff\xfe", b"[" * 100_003])
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(DataError, match=r"tokenizer\.json is no tokenizer: .*; copy it again"):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_an_absent_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.json cannot be read: No such file"):
        Tokenizer.load(tmp_path / "none.json")
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        Tokenizer.load(tmp_path)


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_with_a_wrong_character_loads_or_is_refused(
    bytewise: Tokenizer, tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "tokenizer.json"
    bytewise.save(path)
    content = list(path.read_text("utf-8"))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.sampled_from('0-9"{[]}:,\\aé'))
    path.write_text("".join(content), encoding="utf-8")
    try:
        tokenizer = Tokenizer.load(path)
    except DataError:
        return
    assert min(tokenizer.encode("</s> dog")) > EOS_ID
