"""Tokenizers from files of other programs: tokens in the order of their ids, and the special ones among them.

Another program numbers its special tokens as it likes; Dragoman's have the ids 0 to 3. `Vocabulary.rows` gives the row
of the program's tables that belongs to each of Dragoman's ids.
"""

import io
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase, punctuation, whitespace
from typing import Any

import tokenizers

from dragoman.errors import DataError
from dragoman.interop.files import LARGEST, read_bytes
from dragoman.text.tokenizers import imported
from dragoman.text.tokenizers.algorithms import SPECIAL_TOKENS
from dragoman.text.tokenizers.imported import Part
from dragoman.text.tokenizers.verify import fault as fault_of

PAD, UNKNOWN, BEGIN, END = SPECIAL_TOKENS
NAMES = {
    PAD: ("[PAD]", "<pad>", "<blank>"),
    UNKNOWN: ("[UNK]", "<unk>"),
    BEGIN: ("[SOS]", "<s>", "<sos>", "[BOS]", "<bos>", "[start]", "<start>"),
    END: ("[EOS]", "</s>", "<eos>", "[end]", "<end>"),
}
"""Usual names of the special tokens, in upper or lower case."""


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of one side, and the rules that split its texts into them."""

    origin: str
    """Path of the file, for error messages."""
    words: list[str]
    """All tokens, sorted by the other program's ids."""
    special: dict[str, int]
    """Dragoman's special tokens -> the other program's ids. Tokens that it does not have are left out."""
    parts: dict[str, Part]
    """Keyword arguments of `imported.build`: normalizer, pre-tokenizer, and the model if it is BPE."""
    surroundings: list[str] | None = None
    """Special tokens that the file puts around each text; None if it does not tell."""

    def rows(self) -> list[int | None]:
        """The other program's id for each of Dragoman's ids; None for a special token that it does not have."""
        special = [self.special.get(token) for token in SPECIAL_TOKENS]
        return special + [row for row in range(len(self.words)) if row not in special]

    def backend(self) -> tokenizers.Tokenizer:
        """A tokenizer with Dragoman's ids. Raises `DataError` for one that breaks the promises of `Tokenizer`."""
        try:
            backend = imported.build([self.words[row] for row in self.rows()[len(SPECIAL_TOKENS) :]], **self.parts)
            fault = fault_of(backend)
        except Exception as error:  # the library has no class of its own
            fault = f"is not a complete tokenizer ({error})"
        if fault:
            raise DataError(f"{self.origin} {fault}, so it cannot be imported; give the notebook's own file.")
        return backend


def read_vocabulary(path: Path, *, keras: bool, target: bool) -> Vocabulary:
    """Read a tokenizer: JSON of the `tokenizers` library, or a text file with a word on each line, in index order.

    With a text file, texts are split as in the Keras notebook if `keras`, or else at spaces and punctuation. `target`
    is the side. Raises `DataError` for a file that is no tokenizer.
    """
    try:
        lines = io.BytesIO(read_bytes(path, LARGEST))
        text = io.TextIOWrapper(lines, encoding="utf-8-sig").read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problem = "is no text" if isinstance(error, UnicodeDecodeError) else f"cannot be read: {reason}"
        raise DataError(
            f"{path} {problem}; give the JSON that `save` of a tokenizer of `tokenizers` wrote, or a text file with a "
            "word a line in the order of the ids, from `get_vocabulary()` of Keras or `get_itos()` of torchtext."
        ) from None
    if text.lstrip().startswith("{"):
        return _from_json(path, text)
    words = text.removesuffix("\n").split("\n")
    word, count = Counter(words).most_common(1)[0]
    if count > 1:
        raise DataError(f"{path} has the word '{word}' {count} times; write each word once, in the order of the ids.")
    if keras and words[:2] != ["", "[UNK]"]:
        raise DataError(f"{path} does not begin with an empty line and [UNK]; write all of `get_vocabulary()`.")
    special = _special_ids(words)
    if not keras:
        return Vocabulary(str(path), words, special, _split_by("Whitespace"))
    # The notebook writes [start] and [end] around targets.
    parts = _keras_parts(kept="[]" if target else "")
    return Vocabulary(str(path), words, special | {PAD: 0}, parts)


def numbers(size: int) -> Vocabulary:
    """A vocabulary for a model without tokenizers: its words are the ids, but for 0 to 3, which are special."""
    special = {token: id_ for id_, token in enumerate(SPECIAL_TOKENS)}
    return Vocabulary("The ids", [str(id_) for id_ in range(size)], special, _split_by("WhitespaceSplit"))


def _from_json(path: Path, text: str) -> Vocabulary:
    """The vocabulary in JSON of the `tokenizers` library. Raises `DataError` for one that cannot be imported."""
    try:
        backend, content = tokenizers.Tokenizer.from_str(text), json.loads(text)
    except Exception as error:  # the library has no class of its own
        raise DataError(f"{path} is not a tokenizer of the library `tokenizers`: {error}.") from None
    ids = backend.get_vocab(with_added_tokens=True)
    words = sorted(ids, key=ids.get)
    if [ids[word] for word in words] != list(range(len(words))):
        raise DataError(f"{path} numbers its {len(ids)} tokens with gaps, so they cannot be rows of a table.")
    if part := imported.unsupported_part(content) or _unsupported_ending(content):
        raise DataError(f"{path} works with {part}, which cannot be imported; WordLevel and plain BPE can.")
    model = {key: value for key, value in content["model"].items() if key != "vocab"}
    special = _special_ids(words)
    if model.get("unk_token") in ids.keys() - {words[id_] for id_ in special.values()}:
        special[UNKNOWN] = ids[model["unk_token"]]
    parts = {key: content[key] for key in ("normalizer", "pre_tokenizer")}
    parts["bpe"] = model if model["type"] == "BPE" else None
    return Vocabulary(str(path), words, special, parts, _surroundings(backend, special))


def _unsupported_ending(content: dict[str, Any]) -> str | None:
    """An added token of the user, or a decoder that joins words otherwise than with spaces; None without either."""
    for token in content["added_tokens"]:
        if not token["special"]:
            return f"the added token '{token['content']}'"
    decoder = content["decoder"]
    return decoder["type"] if decoder and decoder["type"] != "ByteLevel" else None


def _surroundings(backend: tokenizers.Tokenizer, special: dict[str, int]) -> list[str] | None:
    """The tokens that the post-processor puts around a text, under Dragoman's names; None if there are none."""
    backend.no_padding()
    encoding = backend.encode("a")
    added = [id_ for id_, is_added in zip(encoding.ids, encoding.special_tokens_mask, strict=True) if is_added]
    names = {id_: token for token, id_ in special.items()}
    return [names.get(id_, backend.id_to_token(id_)) for id_ in added] or None


def _special_ids(words: list[str]) -> dict[str, int]:
    """The id of each special token that is among the words under one of its usual names, the first one counts."""
    ids = {word.lower(): id_ for id_, word in enumerate(words)} | {word: id_ for id_, word in enumerate(words)}
    special: dict[str, int] = {}
    for token, names in NAMES.items():
        for name in names:
            for spelling in (name, name.lower()):
                if spelling in ids:
                    special.setdefault(token, ids[spelling])
    return special


def _keras_parts(*, kept: str) -> dict[str, Part]:
    """The rules by which `TextVectorization` splits texts. They know ASCII alone. Punctuation is deleted, but for the
    marks in `kept`."""
    steps = {letter: letter.lower() for letter in ascii_uppercase}
    steps |= {mark: "" for mark in punctuation if mark not in kept} | {space: " " for space in whitespace}
    replacing = [{"type": "Replace", "pattern": {"String": old}, "content": new} for old, new in steps.items()]
    normalizer = {"type": "Sequence", "normalizers": replacing}
    return {"normalizer": normalizer, "pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": " "}}


def _split_by(pre_tokenizer: str) -> dict[str, Part]:
    """Rules that split texts by a pre-tokenizer and change nothing in them."""
    return {"normalizer": None, "pre_tokenizer": {"type": pre_tokenizer}}
