"""The tokenizers of notebooks, from their files: words in the order of their ids, and which of them are special.

A notebook numbers its special tokens as it likes. Dragoman's have the ids 0 to 3, so the rows of the weights are put in
another order with them: `Vocabulary.rows` says which row of the notebook's tables each of ours is.
"""

import dataclasses
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import ascii_uppercase, punctuation, whitespace
from typing import Any, Self

import tokenizers

from dragoman.data.tokenizers import imported
from dragoman.data.tokenizers.algorithms import SPECIAL_TOKENS
from dragoman.data.tokenizers.imported import Part
from dragoman.data.tokenizers.tokenizer import Tokenizer
from dragoman.errors import DataError

PAD, UNKNOWN, BEGIN, END = SPECIAL_TOKENS
NAMES = {
    PAD: ("[PAD]", "<pad>", "<blank>"),
    UNKNOWN: ("[UNK]", "<unk>"),
    BEGIN: ("[SOS]", "<s>", "<sos>", "[BOS]", "<bos>", "[start]", "<start>"),
    END: ("[EOS]", "</s>", "<eos>", "[end]", "<end>"),
}
"""What notebooks call the special tokens, in any case."""
KERAS_BEGINNING = ["", "[UNK]"]
"""The first two words of `TextVectorization.get_vocabulary()`: padding, and what is unknown."""


@dataclass(frozen=True)
class Vocabulary:
    """What one side's tokenizer file says."""

    origin: str
    """The file, for messages."""
    words: list[str]
    """In the order of the notebook's ids."""
    special: dict[str, int]
    """The notebook's ids of Dragoman's special tokens, as far as it has them."""
    build: Callable[[list[str]], tokenizers.Tokenizer]
    """From words, numbered after the special tokens, to a tokenizer."""
    surroundings: list[str] | None = None
    """The special tokens around each text, if the file says so."""

    def padded(self, rows: int) -> Self:
        """With words that no text has for the tables' rows beyond the last one."""
        unused = [f"<unused{row}>" for row in range(len(self.words), rows)]
        return dataclasses.replace(self, words=self.words + unused)

    def rows(self) -> list[int | None]:
        """The notebook's row for each of Dragoman's ids; None for a special token that it does not have."""
        special = [self.special.get(token) for token in SPECIAL_TOKENS]
        return special + [row for row in range(len(self.words)) if row not in special]

    def backend(self) -> tokenizers.Tokenizer:
        """A tokenizer with Dragoman's ids. Raises `DataError` for one that breaks the promises of `Tokenizer`."""
        ordinary = [self.words[row] for row in self.rows()[len(SPECIAL_TOKENS) :]]
        try:
            backend = self.build(ordinary)
        except Exception as error:  # the library has no class of its own
            raise DataError(f"{self.origin} is no tokenizer that can be taken over: {error}.") from None
        if fault := Tokenizer(backend).fault():
            raise DataError(f"{self.origin} {fault}, so it cannot be taken over; give the notebook's own file.")
        return backend


def read_vocabulary(path: Path, *, keras: bool, target: bool) -> Vocabulary:
    """A tokenizer from its file: JSON of the `tokenizers` library, or a text file with a word a line, in index order.

    The words of a text file are found in a text as the Keras notebook finds them on this side, else as notebook A does.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; check the path.") from None
    except UnicodeDecodeError:
        raise DataError(
            f"{path} is no text: give the JSON that `save` of a tokenizer of `tokenizers` wrote, or a text file with a "
            "word a line in the order of the ids, from `get_vocabulary()` of Keras or `get_itos()` of torchtext."
        ) from None
    if text.lstrip().startswith("{"):
        return _from_json(path, text)
    words = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    word, times = Counter(words).most_common(1)[0]
    if times > 1:
        raise DataError(
            f"{path} has the word '{word}' {times} times; write each word of the vocabulary once, in order."
        )
    if keras and words[:2] != KERAS_BEGINNING:
        raise DataError(
            f"{path} does not begin with an empty line and [UNK]; write all of `get_vocabulary()`, a word a line."
        )
    special = _special(words) | ({PAD: 0} if keras else {})
    cut = (
        _of_keras(kept="[]" if target else "") if keras else {"normalizer": None, "pre_tokenizer": _part("Whitespace")}
    )
    return Vocabulary(str(path), words, special, partial(imported.words, **cut))


def numbers(rows: int) -> Vocabulary:
    """For a notebook without tokenizers: the words are the ids themselves, but for 0 to 3, which are special."""
    build = partial(imported.words, normalizer=None, pre_tokenizer=_part("WhitespaceSplit"))
    special = {token: id_ for id_, token in enumerate(SPECIAL_TOKENS)}
    return Vocabulary("The ids", [str(id_) for id_ in range(rows)], special, build)


def _from_json(path: Path, text: str) -> Vocabulary:
    try:
        backend, content = tokenizers.Tokenizer.from_str(text), json.loads(text)
    except Exception as error:  # the library has no class of its own
        raise DataError(f"{path} is no tokenizer of the library `tokenizers`: {error}.") from None
    ids = backend.get_vocab(with_added_tokens=True)
    words = sorted(ids, key=ids.get)
    if sorted(ids.values()) != list(range(len(ids))):
        raise DataError(f"{path} numbers its {len(ids)} tokens with gaps, so they cannot be rows of a table.")
    if part := imported.strange_part(content) or _strange_end(content):
        raise DataError(
            f"{path} works with {part}, which cannot be taken over; WordLevel and plain BPE can, cut by Whitespace, "
            "ByteLevel and the like."
        )
    model = {key: value for key, value in content["model"].items() if key != "vocab"}
    special = _special(words)
    if model.get("unk_token") in ids.keys() - {words[id_] for id_ in special.values()}:
        special[UNKNOWN] = ids[model["unk_token"]]
    cut = {key: content[key] for key in ("normalizer", "pre_tokenizer")}
    words_only = model["type"] == "WordLevel"
    build = partial(imported.words, **cut) if words_only else partial(imported.pieces, model=model, **cut)
    return Vocabulary(str(path), words, special, build, _surroundings(backend, special))


def _strange_end(content: dict[str, Any]) -> str | None:
    """What would put words together otherwise than with spaces between them, or find them before they are cut."""
    if own := next((token["content"] for token in content["added_tokens"] if not token["special"]), None):
        return f"the added token '{own}'"
    return content["decoder"]["type"] if content["decoder"] and content["decoder"]["type"] != "ByteLevel" else None


def _surroundings(backend: tokenizers.Tokenizer, special: dict[str, int]) -> list[str] | None:
    """What its post-processor puts around a text, in our names; None if there is nothing of the kind."""
    backend.no_truncation()
    backend.no_padding()
    encoding = backend.encode("a")
    added = [id_ for id_, is_added in zip(encoding.ids, encoding.special_tokens_mask, strict=True) if is_added]
    names = {id_: token for token, id_ in special.items()}
    return [names.get(id_, backend.id_to_token(id_)) for id_ in added] or None


def _special(words: list[str]) -> dict[str, int]:
    ids = {word.lower(): id_ for id_, word in enumerate(words)} | {word: id_ for id_, word in enumerate(words)}
    found = {token: [ids.get(name, ids.get(name.lower())) for name in names] for token, names in NAMES.items()}
    return {token: known[0] for token, each in found.items() if (known := [id_ for id_ in each if id_ is not None])}


def _of_keras(*, kept: str) -> dict[str, Part]:
    """How `TextVectorization` finds words: it knows ASCII only, in capitals, marks and spaces; `kept` marks stay."""
    steps = {letter: letter.lower() for letter in ascii_uppercase}
    steps |= {mark: "" for mark in punctuation if mark not in kept} | {space: " " for space in whitespace}
    replacing = [{"type": "Replace", "pattern": {"String": old}, "content": new} for old, new in steps.items()]
    return {
        "normalizer": {"type": "Sequence", "normalizers": replacing},
        "pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": " "},
    }


def _part(name: str) -> Part:
    return {"type": name}
