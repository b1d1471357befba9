"""Text to token ids and back without loss: byte-pair encoding over UTF-8 bytes, trained per corpus.

Every string has ids and no string is unknown. No text can produce a special token: "</s>" typed by
a user is four characters.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from dragoman.errors import DataError, UsageError

PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(4)
SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")

# A token never crosses the border of a word, a number or a run of other marks. A space belongs to
# what follows it. \p{M}: vowel signs and accents must not cut words of Hindi or decomposed French.
_WORDS = (
    r"'(?:s|t|re|ve|m|ll|d)(?![\p{L}\p{M}])"
    r"| ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+(?!\S)|\s+"
)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def _characters_of_bytes() -> dict[str, int]:
    """The byte that each character in a token's spelling stands for.

    As GPT-2 has it: visible Latin-1 characters stand for their own code, the other bytes in order
    take the code points from 256 on. A space is then "Ġ".
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    characters = {chr(256 + place): byte for place, byte in enumerate(hidden)}
    return characters | {chr(byte): byte for byte in visible}


_BYTES = _characters_of_bytes()
MIN_VOCAB_SIZE = len(SPECIAL_TOKENS) + len(_BYTES)


class Tokenizer:
    """A trained vocabulary. `decode(encode(text)) == text`, spaces and control characters included.

    The one exception is a lone surrogate, which is no character: it becomes U+FFFD.
    """

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        # Not part of the JSON, so it has to be set again on everything that was loaded.
        backend.encode_special_tokens = True
        self._backend = backend

    def __reduce__(self) -> tuple:
        return _from_json, (self.to_json(),)

    @classmethod
    def train(cls, texts: Iterable[str], *, vocab_size: int) -> "Tokenizer":
        """Learns at most `vocab_size` tokens; a small corpus has fewer. Same texts, same tokens."""
        if vocab_size < MIN_VOCAB_SIZE:
            raise UsageError(
                f"A vocabulary of {vocab_size} is too small: the special tokens and the 256 bytes "
                f"are {MIN_VOCAB_SIZE} already; set a larger `vocab_size`."
            )
        backend = tokenizers.Tokenizer(models.BPE(unk_token=SPECIAL_TOKENS[UNK_ID]))
        # With a space before it, the first word is the same token as later in the sentence.
        backend.normalizer = normalizers.Prepend(" ")
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(tokenizers.Regex(_WORDS), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        backend.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=list(SPECIAL_TOKENS),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        backend.train_from_iterator(map(_well_formed, texts), trainer)
        return cls(backend)

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special ones included; ids are below it."""
        return self._backend.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without special tokens."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each text, as `encode` gives them, on all cores."""
        encodings = self._backend.encode_batch_fast([_well_formed(text) for text in texts], add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; special tokens are left out, bytes that form no character are U+FFFD."""
        return self._backend.decode(ids, skip_special_tokens=True)

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """The text of each list of ids, as `decode` gives it, on all cores."""
        return self._backend.decode_batch(batch, skip_special_tokens=True)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """One readable piece per id, for pictures.

        A space is "▁"; a byte that is only part of a character is "<C3>"; a character without a
        picture is "<U+000A>"; a special token is itself.
        """
        return [self._readable_tokens[id_] for id_ in ids]

    @cached_property
    def _readable_tokens(self) -> list[str]:
        special = list(SPECIAL_TOKENS)
        return special + [_readable(self._bytes(id_)) for id_ in range(len(special), self.vocab_size)]

    def words(self, ids: Iterable[int]) -> list[list[int]]:
        """Groups positions in `ids` into words as white space separates them, marks included.

        A special token is a group of its own. Scripts without spaces have one group per sentence.
        """
        groups: list[list[int]] = []
        joins = False
        for position, id_ in enumerate(ids):
            special = id_ <= EOS_ID
            if joins and not special and not self._bytes(id_)[:1].isspace():
                groups[-1].append(position)
            else:
                groups.append([position])
            joins = not special
        return groups

    def to_json(self) -> str:
        """The tokenizer as JSON of the `tokenizers` library."""
        return self._backend.to_str()

    def save(self, path: str | Path) -> None:
        """Writes `to_json` to a file."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Reads what `save` wrote, perhaps by strangers: any other file is a `DataError`."""
        try:
            tokenizer = _from_json(Path(path).read_text(encoding="utf-8"))
            fault = tokenizer._fault()
        except OSError as error:
            fault = f"cannot be read: {error.strerror}"
        # The library has no error class of its own: it raises `Exception`.
        except Exception as error:
            fault = f"is no tokenizer: {error}"
        if fault:
            raise DataError(f"{path} {fault}; copy it again from the model that it belongs to.")
        return tokenizer

    def _fault(self) -> str | None:
        """What in a loaded file breaks the promises of this class."""
        vocab = self._backend.get_vocab(with_added_tokens=True)
        added = self._backend.get_added_tokens_decoder()
        if {id_: token.content for id_, token in added.items()} != dict(enumerate(SPECIAL_TOKENS)):
            return f"does not have exactly the special tokens {' '.join(SPECIAL_TOKENS)} as 0 to 3"
        if sorted(vocab.values()) != list(range(len(vocab))):
            return f"does not number its {len(vocab)} tokens from 0 to {len(vocab) - 1}"
        spelled_in = {*"".join(vocab.keys() - set(SPECIAL_TOKENS))}
        if spelled_in != _BYTES.keys() or not spelled_in <= vocab.keys():
            return "does not spell its tokens in the 256 bytes"
        if self._backend.truncation or self._backend.padding:
            return "cuts or pads every text"
        return None

    def _bytes(self, id_: int) -> bytes:
        return bytes(_BYTES[character] for character in self._backend.id_to_token(id_))


def _from_json(text: str) -> Tokenizer:
    return Tokenizer(tokenizers.Tokenizer.from_str(text))


def _well_formed(text: str) -> str:
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def _readable(spelling: bytes) -> str:
    return "".join(map(_shown, spelling.decode("utf-8", "surrogateescape")))


def _shown(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # what surrogateescape makes of a stray byte
        return f"<{ord(character) - 0xDC00:02X}>"
    if character == " ":
        return "▁"
    return character if character.isprintable() else f"<U+{ord(character):04X}>"
