"""The kinds of tokenizers: characters, words as the notebooks have them, symbols, files of this version and before."""

import json
import pickle
import string
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config.data import TokenizerConfig
from dragoman.config.run import load_config
from dragoman.config.settings import parse_settings
from dragoman.errors import DataError, UsageError
from dragoman.text.tokenizers.algorithms import KINDS, STANDARDISATIONS
from dragoman.text.tokenizers.placeholders import SLOTS
from dragoman.text.tokenizers.tokenizer import BOS_ID, EOS_ID, MIN_VOCAB_SIZE, SPECIAL_TOKENS, UNK_ID, Tokenizer

TEXTS = ["The dog sees the cat's tail, and the cat sees it.", "Où est l'été ? 日本語 日本", "<unk> don't [stop]!"] * 3
SYMBOLS = ["<2de>", "<2de><b>", "«x»", "[MY_NAME]"]
fast = settings(max_examples=200, deadline=None)


def words(standardisation: str | None = None, texts: list[str] = TEXTS, **options) -> Tokenizer:
    return Tokenizer.train(texts, vocab_size=307, kind="word", standardisation=standardisation, **options)


def test_the_config_offers_what_there_is() -> None:
    fields = TokenizerConfig.model_fields
    assert get_args(fields["kind"].annotation) == KINDS
    standardisations, _ = get_args(fields["standardisation"].annotation)
    assert get_args(standardisations) == STANDARDISATIONS


# ---- characters ------------------------------------------------------------------------------


def test_a_character_seen_is_a_token_and_any_other_is_its_bytes() -> None:
    tokenizer = Tokenizer.train(TEXTS, vocab_size=509, kind="char")
    text = "cat's 日 été\n"
    assert tokenizer.pieces(tokenizer.encode(text)) == [*"cat's▁日▁été", "<U+000A>"]
    assert tokenizer.pieces(tokenizer.encode("ñ")) == ["<C3>", "<B1>"]
    # Three bytes are put together in two merges, of which the first may serve several characters.
    seen = {character for line in TEXTS for character in line if not character.isascii()}
    assert MIN_VOCAB_SIZE + len(seen) <= tokenizer.vocab_size <= MIN_VOCAB_SIZE + 2 * len(seen)


# ---- words -----------------------------------------------------------------------------------


def test_words_and_runs_of_marks_are_apart() -> None:
    """As the regular expression of the library's `Whitespace`, \\w+|[^\\w\\s]+, has it."""
    tokenizer = words("punctuation")
    assert tokenizer.pieces(tokenizer.encode("the cat's tail, ")) == ["▁the", "▁cat", "'", "s", "▁tail", ","]
    assert words().to_json() == tokenizer.to_json()  # the default


def test_rare_words_have_no_entry() -> None:
    """In the three copies of the texts "the" and "cat" stand 6 times, "tail" 3 times."""
    for least, known in ((3, "the cat tail"), (4, "the cat <unk>"), (6, "the cat <unk>"), (7, "<unk> <unk> <unk>")):
        tokenizer = words(min_frequency=least)
        assert tokenizer.decode(tokenizer.encode("the cat tail")) == known


def test_spaces_separate_words_and_nothing_else_does() -> None:
    tokenizer = words("none")
    assert tokenizer.pieces(tokenizer.encode("the cat's  tail,")) == ["▁the", "▁cat's", "▁tail,"]


@pytest.mark.slow
@given(text=st.text(st.sampled_from(string.printable)))
@fast
def test_lowercase_is_what_keras_does_to_ascii(text: str) -> None:
    expected = text.lower().translate(str.maketrans("", "", string.punctuation)).split()
    tokenizer = words("lowercase", [text])
    assert tokenizer.decode(tokenizer.encode(text)) == " ".join(expected)


def test_lowercase_knows_more_than_ascii() -> None:
    tokenizer = words("lowercase", ["« ÉTÉ »\u202f? l’ÎLE"])
    assert tokenizer.pieces(tokenizer.encode("Été, l'île\u202f!")) == ["▁été", "▁lîle"]


@pytest.mark.slow
@given(text=st.lists(st.sampled_from(["dog", "cat", "tail", ",", "'", " ", "  ", ".", "the"])).map("".join))
@fast
def test_known_words_come_out_as_they_were_but_for_runs_of_spaces(text: str) -> None:
    tokenizer = words("punctuation", [text, "x"])
    assert tokenizer.decode(tokenizer.encode(text)) == " ".join(text.split())


def test_unknown_words_are_one_token_and_are_seen() -> None:
    tokenizer = words()
    ids = tokenizer.encode("The zebra sees zebras, the cat.")
    assert ids.count(UNK_ID) == 2
    assert tokenizer.decode([BOS_ID, *ids, EOS_ID]) == "The <unk> sees <unk>, the cat."
    assert tokenizer.pieces(ids)[1] == "<unk>"
    assert tokenizer.decode(tokenizer.encode("zebra")) == "<unk>"


@pytest.mark.parametrize("standardisation", STANDARDISATIONS)
def test_no_text_is_a_special_token_of_words(standardisation: str) -> None:
    texts = [*TEXTS, *SPECIAL_TOKENS, "a</s>b"]
    tokenizer = pickle.loads(pickle.dumps(words(standardisation, texts)))
    for text in texts:
        assert min(tokenizer.encode(text), default=EOS_ID + 1) > EOS_ID


def test_the_most_frequent_words_are_kept() -> None:
    tokenizer = Tokenizer.train(["a b", "b c c b", "d b c"], vocab_size=6, kind="word")
    assert tokenizer.pieces([4, 5]) == ["▁b", "▁c"]
    with pytest.raises(UsageError, match="4 is too small: the special tokens and a word are 5 already"):
        Tokenizer.train(["a"], vocab_size=4, kind="word")


# ---- symbols ---------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=KINDS)
def with_symbols(request: pytest.FixtureRequest) -> Tokenizer:
    texts = [*TEXTS, "<2de> the dog", "the «x»dog«x» [MY_NAME]", "<2de><2de><b>"]
    return Tokenizer.train(texts, vocab_size=347, kind=request.param, symbols=SYMBOLS)


def test_a_symbol_is_one_token_wherever_it_stands(with_symbols: Tokenizer) -> None:
    ids = {symbol: with_symbols.encode(symbol) for symbol in SYMBOLS}
    assert [len(ids_of_text) for ids_of_text in ids.values()] == [1, 1, 1, 1]
    assert len({id_ for (id_,) in ids.values()}) == 4
    assert with_symbols.symbols == SYMBOLS
    assert with_symbols.vocab_size <= 347
    (tag,), (name,) = ids["<2de>"], ids["[MY_NAME]"]
    found = with_symbols.encode("<2de>the[MY_NAME]dog <2de>")
    assert (found[0], found[-1], found.count(tag), found.count(name)) == (tag, tag, 2, 1)
    # Of two symbols that begin alike the longer one.
    assert with_symbols.encode("<2de><2de><b>") == [tag, *ids["<2de><b>"]]


def test_symbols_come_out_as_they_went_in_and_no_other_text_gives_them(with_symbols: Tokenizer) -> None:
    symbols = {id_ for symbol in SYMBOLS for id_ in with_symbols.encode(symbol)}
    for text in ["<2de", "2de>", "< 2de>", "<2De>", "Â«xÂ»", "«x", "[MY NAME]"]:
        assert not symbols & set(with_symbols.encode(text))
    for text in ["<2de>", "«x» the", "the «x»", "the [MY_NAME] dog", "«x» «x»"]:
        assert with_symbols.decode(with_symbols.encode(text)) == text


@pytest.mark.first_is_quick
@given(text=st.lists(st.sampled_from([*SYMBOLS, " ", "  ", "dog", " dog", "\n", "日", "<", ">"])).map("".join))
@fast
@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_no_space_around_symbols_is_lost(lossless: dict[str, Tokenizer], kind: str, text: str) -> None:
    tokenizer = lossless[kind]
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.fixture(scope="module")
def lossless() -> dict[str, Tokenizer]:
    return {
        kind: Tokenizer.train(TEXTS, vocab_size=347, kind=kind, symbols=SYMBOLS) for kind in KINDS if kind != "word"
    }


def test_symbols_are_pieces_of_their_own(lossless: dict[str, Tokenizer]) -> None:
    for tokenizer in lossless.values():
        ids = tokenizer.encode("ab<2de>«x»c")
        assert "<2de>" in tokenizer.pieces(ids)
        assert "«x»" in tokenizer.pieces(ids)


def test_slots_are_symbols_that_are_not_the_users() -> None:
    tokenizer = Tokenizer.train(TEXTS, vocab_size=347, symbols=["<2de>", *SLOTS])
    assert tokenizer.placeholders
    assert tokenizer.symbols == ["<2de>"]
    assert tokenizer.pieces(tokenizer.encode(SLOTS[1])) == ["<ph2>"]
    assert not Tokenizer.train(TEXTS, vocab_size=347, symbols=["<2de>"]).placeholders


@pytest.mark.parametrize("symbol", ["</s>", "a", "Ã"])
def test_a_symbol_that_is_a_token_already_is_refused(symbol: str) -> None:
    with pytest.raises(UsageError, match=f"has '{symbol}', which is a token of ordinary text"):
        Tokenizer.train(TEXTS, vocab_size=347, symbols=[symbol])


def test_symbols_are_cut_out_before_training() -> None:
    """Otherwise NAME would be learned as an ending, and could not be one."""
    tokenizer = Tokenizer.train(["aNAME bNAME cNAME"] * 7, vocab_size=281, symbols=["NAME"])
    assert tokenizer.pieces(tokenizer.encode("aNAME")) == ["▁a", "NAME"]
    # The longer of two that begin alike.
    tokenizer = Tokenizer.train(["x1NAME x1NAME"] * 7, vocab_size=281, symbols=["x1", "x1NAME"])
    assert tokenizer.pieces(tokenizer.encode("NAME")) == [*"▁NAME"]


def test_symbols_must_fit_into_the_vocabulary() -> None:
    with pytest.raises(UsageError, match=r"261 is too small: .* and the symbols are 262 already"):
        Tokenizer.train(TEXTS, vocab_size=261, symbols=["<a>", "<b>"])
    for kind, size in (("bpe", 277), ("char", 263), ("unigram", 277), ("word", 11)):
        small = Tokenizer.train(TEXTS, vocab_size=size, kind=kind, symbols=["<a>", "<b>"])
        assert small.vocab_size == size, kind


# ---- settings --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("tokenizer.symbols=['<a b>']", "has spaces"),
        ("tokenizer.symbols=['<a>', '<a>']", "stands twice"),
        ("tokenizer.symbols=['a']", "only one character"),
        ("tokenizer.kind=subword", "must be bpe, unigram, word or char"),
        ("tokenizer.dropout=1", "from 0 to below 1"),
        ("tokenizer.sampling_alpha=0.2", "`tokenizer.sampling_alpha` is for kind = unigram, not for bpe"),
        ("tokenizer.standardisation=none", "`tokenizer.standardisation` is for kind = word, not for bpe"),
        ("tokenizer.min_frequency=2", "`tokenizer.min_frequency` is for kind = word, not for bpe"),
    ],
)
def test_settings_that_make_no_sense_are_refused(setting: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        load_config({}, parse_settings([setting]))
    with pytest.raises(UsageError, match=r"`tokenizer.dropout` is for kind = bpe, not for char"):
        load_config({}, parse_settings(["tokenizer.kind=char", "tokenizer.dropout=0.1"]))


def test_symbols_are_normalised_as_texts_are() -> None:
    given = load_config({}, parse_settings(["tokenizer.symbols=['<e\u0301>', '@e\u0301']"]))
    assert given.tokenizer.symbols == ["<\u00e9>", "@\u00e9"]


# ---- files -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "standardisation"), [*((k, None) for k in KINDS), ("word", "lowercase")])
def test_a_file_tells_its_kind(tmp_path: Path, kind: str, standardisation: str | None) -> None:
    path = tmp_path / "tokenizer.json"
    trained = Tokenizer.train(TEXTS, vocab_size=307, kind=kind, standardisation=standardisation, symbols=SYMBOLS)
    trained.save(path)
    loaded = Tokenizer.load(path)
    assert loaded.kind == trained.kind == kind
    assert loaded.symbols == SYMBOLS
    assert loaded.to_json() == trained.to_json()
    texts = [*TEXTS, "«x»ab«x»"]
    assert loaded.encode_batch(texts) == trained.encode_batch(texts)
    assert loaded.decode_batch(loaded.encode_batch(texts)) == trained.decode_batch(trained.encode_batch(texts))


def first_form() -> dict:
    """A tokenizer as version 0.1 wrote it, with one merge."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = [chr(byte) for byte in visible] + [chr(256 + i) for i in range(256 - len(visible))]
    pattern = (
        r"'(?:s|t|re|ve|m|ll|d)(?![\p{L}\p{M}])"
        r"| ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+(?!\S)|\s+"
    )
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    decoder = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False) | {"special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": token} | flags for i, token in enumerate(SPECIAL_TOKENS)],
        "normalizer": {"type": "Prepend", "prepend": " "},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [decoder, {"type": "Strip", "content": " ", "start": 1, "stop": 0}],
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate([*SPECIAL_TOKENS, *letters, "Ġa"])},
            "merges": [["Ġ", "a"]],
        },
    }


def written(folder: Path, content: dict) -> Path:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_files_of_the_first_version_load(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(written(tmp_path, first_form()))
    assert tokenizer.kind == "bpe"
    assert tokenizer.pieces(tokenizer.encode("a b")) == ["▁a", "▁", "b"]


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["model"].update(dropout=0.5),
        lambda content: content["model"].update(byte_fallback=True),
        lambda content: content.update(normalizer={"type": "Lowercase"}),
        lambda content: content["pre_tokenizer"]["pretokenizers"].pop(0),
        lambda content: content["pre_tokenizer"]["pretokenizers"][0].update(pattern={"Regex": "(a+)+$"}),
        lambda content: content.update(decoder=None),
    ],
    ids=["dropout", "fallback", "normalizer", "words", "pattern", "decoder"],
)
def test_a_file_that_does_something_else_to_texts_is_refused(tmp_path: Path, change) -> None:
    content = first_form()
    change(content)
    with pytest.raises(DataError, match=r"is of no kind that this version knows \(bpe, unigram, word, char\)"):
        Tokenizer.load(written(tmp_path, content))


def test_a_file_that_puts_something_around_texts_is_refused(tmp_path: Path) -> None:
    content = first_form()
    content["post_processor"] = {"type": "ByteLevel"} | content["decoder"]["decoders"][0]
    with pytest.raises(DataError, match="cuts or pads every text, or puts something around it; copy it again"):
        Tokenizer.load(written(tmp_path, content))


@pytest.mark.parametrize("flag", ["lstrip", "rstrip", "single_word", "normalized"])
def test_symbols_that_swallow_text_are_refused(tmp_path: Path, flag: str) -> None:
    content = json.loads(Tokenizer.train(TEXTS, vocab_size=307, symbols=["<2de>"]).to_json())
    content["added_tokens"][-1][flag] = True
    with pytest.raises(DataError, match="has symbols that do not stand for themselves alone"):
        Tokenizer.load(written(tmp_path, content))


def test_a_special_token_that_text_can_produce_is_refused(tmp_path: Path) -> None:
    content = first_form()
    content["added_tokens"][3]["special"] = False
    with pytest.raises(DataError, match="special tokens"):
        Tokenizer.load(written(tmp_path, content))
