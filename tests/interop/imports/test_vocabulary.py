"""Tokenizers of notebooks split texts as they did before, under other ids; what cannot be imported is refused."""

import json
import os
import pickle
from functools import reduce
from operator import getitem

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers, processors

from dragoman.data.bitext import Bitext
from dragoman.decoding.alignment import words
from dragoman.errors import DataError
from dragoman.interop.imports.vocabulary import Vocabulary, numbers, read_vocabulary
from dragoman.text.tokenizers.tokenizer import EOS_ID, SPECIAL_TOKENS, Tokenizer
from tests.interop.notebook_tokenizers import SPECIAL, bpe, keras_vocabulary, keras_words, word_level

TEXTS = [text for pair in Bitext.open("builtin:grammar:60") for text in pair]
SHARDS = [*" .,'[]<>\u202f\u00a0\t\x0b\x85É", "the ", "Le ", "chat", "[SOS]", "<s>", "</s>", "[start]", "[UNK]"]
WILD = st.one_of(st.text(max_size=40), st.lists(st.sampled_from(SHARDS), max_size=12).map("".join))
JSON = {
    "words": lambda: word_level(TEXTS),
    "pieces": lambda: bpe(TEXTS),
    "pieces in bytes": lambda: bpe(TEXTS, in_bytes=True),
}


def read(folder, theirs: tokenizers.Tokenizer) -> Vocabulary:
    theirs.save(str(folder / "tokenizer.json"))
    return read_vocabulary(folder / "tokenizer.json", keras=False, target=True)


@pytest.fixture(scope="module", params=JSON)
def both(request, tmp_path_factory) -> tuple[tokenizers.Tokenizer, Tokenizer, list[int | None]]:
    """A notebook's tokenizer, the imported one, and which of the notebook's ids each of ours is."""
    theirs = JSON[request.param]()
    vocabulary = read(tmp_path_factory.mktemp("tokenizer"), theirs)
    # As text: special tokens that a user types are none here.
    theirs.encode_special_tokens = True
    return theirs, Tokenizer(vocabulary.backend()), vocabulary.rows()


def test_special_tokens_come_first_and_every_row_stays(both):
    theirs, ours, rows = both
    assert rows[:4] == [theirs.token_to_id(token) for token in ("[PAD]", "[UNK]", "[SOS]", "[EOS]")]
    assert sorted(rows) == list(range(theirs.get_vocab_size()))
    assert rows[4:] == sorted(rows[4:])
    assert ours.vocab_size == len(rows)


@pytest.mark.first_is_quick
@given(text=WILD)
@settings(max_examples=100, deadline=None)
def test_a_text_is_split_as_the_notebook_splits_it(both, text):
    theirs, ours, rows = both
    assert [rows[id_] for id_ in ours.encode(text)] == theirs.encode(text).ids


def test_ids_are_put_together_as_the_notebook_does(both):
    theirs, ours, _ = both
    for text in (*TEXTS[:9], "Le chat zzz, été !"):
        ids = [id_ for id_ in ours.encode(text) if id_ > EOS_ID]
        assert ours.decode(ids) == theirs.decode(theirs.encode(text).ids).removeprefix(" ")
        if "<" not in (shown := "".join(ours.pieces(ids))):  # no half characters
            assert shown.replace("▁", " ").removeprefix(" ") == ours.decode(ids)


def test_words_are_what_spaces_separate(both):
    theirs, ours, _ = both
    ids = [2, *ours.encode("the cat"), 3]
    groups = [[ids[index] for index in group] for group in words(ours, ids)]
    # Pieces that the notebook puts a space between are words to it.
    assert [ours.decode(group) for group in groups] == theirs.decode(theirs.encode("the cat").ids).split()


def test_an_unknown_word_is_seen_in_a_translation(tmp_path):
    ours = Tokenizer(read(tmp_path, word_level(TEXTS)).backend())
    assert ours.decode(ours.encode("the zzz cat")) == "the <unk> cat"


def test_an_imported_tokenizer_survives_its_file(both, tmp_path):
    _, ours, _ = both
    ours.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.kind == ours.kind
    for copy in (loaded, pickle.loads(pickle.dumps(ours))):
        assert copy.encode_batch(TEXTS) == ours.encode_batch(TEXTS)
        assert copy.pieces(range(copy.vocab_size)) == ours.pieces(range(ours.vocab_size))


def test_a_normalizer_and_other_pre_tokenizers_are_kept(tmp_path):
    theirs = word_level(TEXTS)
    theirs.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    theirs.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    vocabulary = read(tmp_path, theirs)
    ours, rows = Tokenizer(vocabulary.backend()), vocabulary.rows()
    for text in ("The CAT sees, l'ÉTÉ!", *TEXTS):
        assert [rows[id_] for id_ in ours.encode(text)] == theirs.encode(text).ids


def test_padding_and_truncation_of_the_notebook_are_left_behind(tmp_path):
    theirs = word_level(TEXTS)
    theirs.enable_truncation(3)
    theirs.enable_padding(length=7)
    vocabulary = read(tmp_path, theirs)
    assert vocabulary.surroundings is None
    assert len(Tokenizer(vocabulary.backend()).encode("the cat sees the dog")) == 5


@pytest.mark.parametrize(
    ("template", "expected"),
    [(None, None), ("[SOS] $A [EOS]", ["<s>", "</s>"]), ("$A [EOS]", ["</s>"]), ("[UNK] $A", ["<unk>"])],
)
def test_what_the_file_puts_around_a_text_is_told_by_our_names(tmp_path, template, expected):
    theirs = word_level(TEXTS)
    if template:
        special = [(token, id_) for id_, token in enumerate(SPECIAL)]
        theirs.post_processor = processors.TemplateProcessing(single=template, special_tokens=special)
    assert read(tmp_path, theirs).surroundings == expected


# ---- text files ------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["source", "target"])
def of_keras(request, tmp_path_factory) -> tuple[list[str], Tokenizer, list[int | None], str]:
    """A vocabulary, the imported tokenizer, its rows, and the marks that this side keeps."""
    kept = "[]" if request.param == "target" else ""
    words = keras_vocabulary(["[start] le chat [end]", "Été l'été \u202f!", "the [ ] unk", *TEXTS], kept=kept)
    path = tmp_path_factory.mktemp("keras") / "words.txt"
    path.write_text("\n".join(words), encoding="utf-8", newline="\n")
    vocabulary = read_vocabulary(path, keras=True, target=request.param == "target")
    return words, Tokenizer(vocabulary.backend()), vocabulary.rows(), kept


@given(text=st.one_of(WILD, st.sampled_from(TEXTS)))
@settings(max_examples=100, deadline=None)
def test_a_text_becomes_the_words_of_keras(of_keras, text):
    words, ours, rows, kept = of_keras
    keras_ids = [words.index(word) if word in words else 1 for word in keras_words(text, kept=kept)]
    # Begin and end of sentence, which the notebook alone writes, are no words of a text.
    special = {row for row in rows[:4] if row is not None}
    assert [rows[id_] for id_ in ours.encode(text)] == [1 if id_ in special else id_ for id_ in keras_ids]


def test_the_special_tokens_of_keras(tmp_path):
    (tmp_path / "fr.txt").write_text("\n[UNK]\n[start]\n[end]\nle\nchat\n", encoding="utf-8")
    vocabulary = read_vocabulary(tmp_path / "fr.txt", keras=True, target=True)
    assert vocabulary.words == ["", "[UNK]", "[start]", "[end]", "le", "chat"]
    assert vocabulary.rows() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_vocabulary_of_torchtext_is_a_word_a_line(tmp_path, ending, mark):
    words = ["<s>", "</s>", "<blank>", "<unk>", "Ein", ",", "Hund", "n't"]
    (tmp_path / "de.txt").write_bytes((mark + ending.join([*words, ""])).encode())
    vocabulary = read_vocabulary(tmp_path / "de.txt", keras=False, target=False)
    assert vocabulary.rows() == [2, 3, 0, 1, 4, 5, 6, 7]
    ours = Tokenizer(vocabulary.backend())
    assert ours.pieces(ours.encode("Ein Hund, ein")) == ["▁Ein", "▁Hund", "▁,", "<unk>"]
    assert ours.decode([4, 6, 5, 7]) == "Ein Hund , n't"


def test_words_spelled_like_special_tokens_are_no_special_tokens(tmp_path):
    words = ["[UNK]", "[PAD]", "[SOS]", "[EOS]", "<pad>", "</s>", "Ġ"]
    (tmp_path / "words.txt").write_text("\n".join(words), encoding="utf-8")
    vocabulary = read_vocabulary(tmp_path / "words.txt", keras=False, target=True)
    ours = Tokenizer(vocabulary.backend())
    assert vocabulary.rows() == [1, 0, 2, 3, 4, 5, 6]
    assert ours.decode(range(7)) == "<unk> <pad> </s> Ġ"


def test_numbers_are_the_ids():
    vocabulary = numbers(13)
    ours = Tokenizer(vocabulary.backend())
    assert vocabulary.rows() == list(range(13))
    assert ours.encode("5 12  7") == [5, 12, 7]
    assert ours.encode("13 x 2") == [1, 1, 1]
    assert ours.decode([2, 5, 12, 1, 3, 0]) == "5 12 <unk>"


# ---- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "keras", "problem"),
    [
        (b"\x80\x02\xff", False, "is no text; give the JSON"),
        (b"a\nb\na\nb\nb\n", False, "has the word 'b' 3 times"),
        (b"the\ncat\n", True, r"does not begin with an empty line and \[UNK\]"),
        (b"", True, "does not begin with an empty line"),
        (b"{}", False, "is not a tokenizer of the library"),
        (b'{"a": ', False, "is not a tokenizer of the library"),
        (b'{"a": ' + b"[" * 100_000, False, "is not a tokenizer of the library"),
    ],
)
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path, content, keras, problem):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DataError, match=f"file {problem}"):
        read_vocabulary(tmp_path / "file", keras=keras, target=True)
    with pytest.raises(DataError, match=r"none\.json cannot be read: No such file"):
        read_vocabulary(tmp_path / "none.json", keras=keras, target=True)


def test_a_vocabulary_that_has_no_end_is_refused(tmp_path):
    with (tmp_path / "holes.txt").open("wb") as file:
        file.truncate(2**40)
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(DataError, match=r"holes\.txt cannot be read: larger than 64 MB"):
        read_vocabulary(tmp_path / "holes.txt", keras=False, target=True)
    with pytest.raises(DataError, match=r"pipe\.txt cannot be read: no file"):
        read_vocabulary(tmp_path / "pipe.txt", keras=False, target=True)


PATTERN = {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""}
METASPACE = {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": True}
WORD_PIECE = {
    "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9,
    "vocab": {"[UNK]": 0, "[PAD]": 1, "[SOS]": 2, "[EOS]": 3},
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "keys", "value", "problem"),
    [
        ("words", ["normalizer"], PATTERN, "works with Replace"),
        ("words", ["normalizer"], {"type": "Sequence", "normalizers": [PATTERN]}, "works with Replace"),
        ("words", ["pre_tokenizer"], METASPACE, "works with Metaspace"),
        ("words", ["pre_tokenizer"], json.loads(bpe([], in_bytes=True).to_str())["pre_tokenizer"], "is of no kind"),
        ("words", ["model"], WORD_PIECE, "works with WordPiece, which cannot be imported; WordLevel"),
        ("words", ["decoder"], {"type": "WordPiece", "prefix": "##", "cleanup": True}, "works with WordPiece"),
        ("words", ["added_tokens", 3, "special"], False, r"works with the added token '\[EOS\]'"),
        ("words", ["model", "vocab", "cat"], 9999, r"numbers its \d+ tokens with gaps"),
        ("pieces", ["model", "dropout"], 0.1, "works with dropout"),
        ("pieces", ["model", "end_of_word_suffix"], "</w>", "works with end_of_word_suffix"),
        ("pieces", ["model", "byte_fallback"], True, "works with byte_fallback"),
        # A piece that is spelled like a special token of ours.
        ("pieces", ["model", "vocab", SPECIAL_TOKENS[2]], 90, "does not"),
    ],
)
def test_a_tokenizer_that_does_something_else_is_refused(tmp_path, kind, keys, value, problem):
    content = json.loads(JSON[kind]().to_str())
    *parents, last = keys
    reduce(getitem, parents, content)[last] = value
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match=rf"tokenizer\.json {problem}"):
        read_vocabulary(tmp_path / "tokenizer.json", keras=False, target=True).backend()


@pytest.mark.parametrize(("unknown", "rows"), [("[Pad]", [0, None, 1, 2, 3]), ("cat", [0, 3, 1, 2])])
def test_special_tokens_may_have_other_names_or_be_missing(tmp_path, unknown, rows):
    theirs = tokenizers.Tokenizer(models.WordLevel({"[Pad]": 0, "[sos]": 1, "<EOS>": 2, "cat": 3}, unk_token=unknown))
    theirs.pre_tokenizer = pre_tokenizers.Whitespace()
    assert read(tmp_path, theirs).rows() == rows


def test_pieces_without_an_unknown_token_leave_out_what_they_do_not_know(tmp_path):
    theirs = bpe(TEXTS)
    theirs.model.unk_token = None
    ours = Tokenizer(read(tmp_path, theirs).backend())
    assert ours.encode("the 猫 cat") == ours.encode("the cat")
