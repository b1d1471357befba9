"""Text to token ids and back, trained per corpus: byte-level BPE, a unigram model of pieces, words or characters.

No text can produce a special token: "</s>" typed by a user is four characters. Of all kinds but `word`, every string
has ids, no string is unknown, and decoding gives back what was encoded.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import tokenizers
from tokenizers import AddedToken

from dragoman.errors import DataError, UsageError
from dragoman.text.characters import cut_label, well_formed
from dragoman.text.labels import languages_in
from dragoman.text.tokenizers import algorithms, hint_tokens, target_tokens, verify
from dragoman.text.tokenizers.algorithms import BOS_ID, EOS_ID, OURS, PAD_ID, SPECIAL_TOKENS, UNK_ID
from dragoman.text.tokenizers.byte_level import byte_level_decode, readable
from dragoman.text.tokenizers.placeholders import SLOTS

__all__ = ["BOS_ID", "EOS_ID", "MIN_VOCAB_SIZE", "PAD_ID", "SPECIAL_TOKENS", "UNK_ID", "Tokenizer"]

MIN_VOCAB_SIZE = algorithms.min_vocab_size("bpe")


class Tokenizer:
    """A trained vocabulary. `decode(encode(text)) == text`, spaces and control characters included.

    There are exceptions: a lone surrogate, which is no character, becomes U+FFFD; the kind `word` gives back the text
    as it standardises it, with "<unk>" for words that it does not know; and the tokenizers of a notebook
    (`dragoman.text.tokenizers.imported`) and of a pretrained model (`dragoman.text.tokenizers.pretrained`) treat texts
    as they did there.
    """

    special_ids = closing = OURS
    """`closing` is for sources, which a pretrained model may end otherwise than with the end of sentence."""
    languages: Mapping[str, str] = {}
    """Tokens that can stand before texts to name their language, by its code; only pretrained models have some."""
    language: str | None = None
    """Code of the language whose token stands before each text, if there is one."""
    tagged = False
    """Whether the tokens of languages stand before sources, and name the language of the target."""

    targets: Mapping[str, int] = {}
    """Ids of the tokens that name the target language of sources with a label, by its code.

    A tokenizer that Dragoman has trained on several languages has them.
    """

    hints: Mapping[str, int] = {}
    """Ids of the tokens that hints behind a source begin with, by their names (`dragoman.text.tokenizers.hint_tokens`).

    A tokenizer of a model that was trained to read hints has them.
    """

    def speaking(self, language: str) -> "Tokenizer":
        """The same tokenizer for texts of another of its languages, or for sources of one target language."""
        backend = self.backend_copy()
        target_tokens.begin_with(backend, language)
        return Tokenizer(backend)

    @property
    def begin_ids(self) -> list[int]:
        """Ids that every text begins with, such as that of its language; in targets the model does not predict them."""
        return self.encode("")

    @property
    def num_given(self) -> int:
        """Number of tokens that a target begins with and that the model does not predict, with or without a label."""
        return len(self.begin_ids)

    @property
    def reads_labels(self) -> bool:
        """Whether a text needs a label that names its language, or that of its translation."""
        return bool(self.targets) and self.language is None

    def open_to_labels(self) -> "Tokenizer":
        """The same tokenizer for texts of several languages, each of which a label names."""
        if self.language is None:
            return self
        content = json.loads(self.to_json())
        content["post_processor"] = None
        return _from_json(json.dumps(content, ensure_ascii=False))

    @property
    def label_ids(self) -> Mapping[str, int]:
        """The ids of the tokens that labels become, by the language that they name."""
        return self.targets

    def tag(self, text: str) -> str:
        """The token of a language or the label that this text begins with; empty if it has neither."""
        return cut_label(text)[0] if self.targets else ""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        # This is not part of the JSON, so it has to be set again on every tokenizer that was loaded.
        backend.encode_special_tokens = True
        self._backend = backend
        self._spelled_in_bytes = backend.decoder is not None
        added = backend.get_added_tokens_decoder()
        self._symbols = {id_: token.content for id_, token in added.items() if id_ > EOS_ID and not token.special}
        self.targets = target_tokens.ids(backend)
        self.language = target_tokens.language_before(backend) if self.targets else None
        self.hints = hint_tokens.ids(backend)
        named = {*self.targets.values(), *self.hints.values(), *hint_tokens.unread_ids(backend)}
        self._without_text = {*range(EOS_ID + 1), *named}
        self._unspelled = {*self._symbols, *named}

    def __reduce__(self) -> tuple:
        return _from_json, (self.to_json(),)

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        vocab_size: int,
        kind: str = "bpe",
        standardisation: str | None = None,
        min_frequency: int | None = None,
        symbols: Sequence[str] = (),
    ) -> "Tokenizer":
        """Learns at most `vocab_size` tokens; a small corpus has fewer. Same texts, same tokens.

        Each of `symbols` is one token wherever it stands, and no other text gives it. The kind `word` finds words as
        `standardisation` says, see `algorithms`, and knows those that occur `min_frequency` times or more.
        """
        smallest = algorithms.min_vocab_size(kind) + len(symbols)
        if vocab_size < smallest:
            needed = "a word" if kind == "word" else "the 256 bytes"
            if symbols:
                needed += " and the symbols"
            raise UsageError(
                f"A vocabulary of {vocab_size} is too small: the special tokens and {needed} are {smallest} already; "
                "set a larger `vocab_size`."
            )
        texts = map(well_formed, texts)
        if symbols:
            # The text between two symbols is a text of its own, in training as in encoding.
            any_symbol = re.compile("|".join(map(re.escape, sorted(symbols, key=len, reverse=True))))
            texts = (part for text in texts for part in any_symbol.split(text))
        size = vocab_size - len(symbols)
        backend = algorithms.train(texts, kind, standardisation, vocab_size=size, min_frequency=min_frequency)
        for symbol in symbols:
            if backend.token_to_id(symbol) is not None:
                raise UsageError(
                    f"`tokenizer.symbols` has {symbol!r}, which is a token of ordinary text as well; choose a longer "
                    f"one, such as '<{symbol.strip('<>')}>'."
                )
            backend.add_tokens([AddedToken(symbol, normalized=False)])
        return cls(backend)

    def with_targets(self, languages: Sequence[str]) -> "Tokenizer":
        """The same tokenizer with one more token for each target language, for sources with labels."""
        backend = self.backend_copy()
        target_tokens.add(backend, languages)
        return Tokenizer(backend)

    def with_hints(self, hints: Sequence[str]) -> "Tokenizer":
        """The same tokenizer with one more token for each of these kinds of hints."""
        backend = self.backend_copy()
        hint_tokens.add(backend, hints)
        return Tokenizer(backend)

    def reading(self, hints: Collection[str]) -> "Tokenizer":
        """This tokenizer for a model that reads no other hints than these; ids stay."""
        unread = self.hints.keys() - set(hints)
        if not unread:
            return self
        return Tokenizer(tokenizers.Tokenizer.from_str(hint_tokens.without(unread, self.to_json())))

    @cached_property
    def kind(self) -> str | None:
        """One of `dragoman.text.tokenizers.algorithms.KINDS`; None for a tokenizer that `load` refuses."""
        return self._identity.kind

    @cached_property
    def _identity(self) -> verify.Identity:
        return verify.Identity.of(self._backend)

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special ones and symbols included; ids are below it."""
        return self._backend.get_vocab_size()

    @property
    def is_changed(self) -> bool:
        """Whether pieces of a pretrained vocabulary were dropped, or joined ones added."""
        return False

    @property
    def symbol_ids(self) -> list[int]:
        """The ids of all symbols, slots for placeholders included."""
        return list(self._symbols)

    @property
    def symbols(self) -> list[str]:
        """The symbols that the user defined."""
        return [symbol for symbol in self._symbols.values() if symbol not in SLOTS]

    @property
    def slots(self) -> list[int]:
        """The ids of the slots for placeholders; empty if the vocabulary has no slots."""
        ids = {symbol: id_ for id_, symbol in self._symbols.items()}
        return [ids[slot] for slot in SLOTS] if ids.keys() >= set(SLOTS) else []

    @property
    def placeholders(self) -> bool:
        """Whether texts are masked (see `dragoman.text.tokenizers.placeholders`) before they are encoded."""
        return bool(self.slots)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without special tokens except those that an imported tokenizer adds around a source."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each text, as `encode` gives them, on all cores; a label becomes the token of its language."""
        begins, rests = self._cut_labels(texts)
        encodings = self._backend.encode_batch_fast(rests)
        return [begin + encoding.ids for begin, encoding in zip(begins, encodings, strict=True)]

    def _cut_labels(self, texts: Iterable[str]) -> tuple[list[list[int]], list[str]]:
        """The token of each label, empty where there is no label, and the texts without labels."""
        if not self.targets:
            rests = [well_formed(text) for text in texts]
            return [[] for _ in rests], rests
        begins: list[list[int]] = []
        rests = []
        for text in texts:
            label, rest = cut_label(text)
            begins.append([self.targets[languages_in(label)[1]]] if label else [])
            rests.append(well_formed(rest))
        return begins, rests

    def spells(self, character: str) -> bool:
        """Whether tokens can spell a character; always true for vocabularies that spell bytes."""
        return True

    def words(self, texts: Iterable[str]) -> list[list[tuple[int, ...]]]:
        """The ids of each word of each text; no token belongs to two words. The token of a label is one word."""
        begins, rests = self._cut_labels(texts)
        words_of_texts = []
        # `encode_batch_fast` leaves out the words.
        for begin, encoding in zip(begins, self._backend.encode_batch(rests, add_special_tokens=False), strict=True):
            words = [(id_,) for id_ in begin]
            for _, tokens in groupby(zip(encoding.word_ids, encoding.ids, strict=True), itemgetter(0)):
                words.append(tuple(id_ for _, id_ in tokens))
            words_of_texts.append(words)
        return words_of_texts

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids. Special tokens are left out, and bytes that form no character become U+FFFD."""
        return self.decode_batch([ids])[0]

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """The text of each list of ids, as `decode` gives it, on all cores; lists with symbols on one core."""
        texts = self._backend.decode_batch(batch, skip_special_tokens=True)
        separator = " " if self.kind == "word" else ""
        for index, ids in enumerate(batch):
            if not self._symbols.keys().isdisjoint(ids):
                texts[index] = separator.join(filter(None, self._parts(ids)))
        return texts

    def _parts(self, ids: Sequence[int]) -> Iterator[str]:
        """The symbols, and the texts between them: each was encoded as a text of its own."""
        for symbol, run in groupby(ids, self._symbols.get):
            if symbol is None:
                yield self._backend.decode(list(run), skip_special_tokens=True)
            else:
                yield from (symbol for _ in run)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """One readable piece per id, for people to look at.

        A space is "▁"; a byte that is only part of a character is "<C3>"; an invisible character is "<U+000A>"; a
        special token or a symbol is itself, a slot for a placeholder "<ph1>".
        """
        return [*map(self._readable_token, ids)]

    def _readable_token(self, id_: int) -> str:
        name = self._token_names.get(id_)
        if name is None:
            name = self._token_names[id_] = readable(self._bytes_of(id_))
        return name

    @cached_property
    def _token_names(self) -> dict[int, str]:
        """Readable tokens by id: those with a name of their own, and others when they have been asked for."""
        slots = {slot: f"<ph{number}>" for number, slot in enumerate(SLOTS, start=1)}
        symbols = {id_: slots.get(symbol, symbol) for id_, symbol in self._symbols.items()}
        unread = hint_tokens.unread_ids(self._backend)
        named = {id_: self.spelled(id_) for id_ in (*self.targets.values(), *self.hints.values(), *unread)}
        return dict(enumerate(SPECIAL_TOKENS)) | symbols | named

    def _bytes_of(self, id_: int) -> bytes:
        """The bytes that a token, neither special nor a symbol, adds to a text."""
        token = self._backend.id_to_token(id_)
        return byte_level_decode(token) if self._spelled_in_bytes else f" {token}".encode()

    def vocabulary(self) -> list[bytes]:
        """The bytes that each token adds to a text: none for special tokens, and its own text for a symbol."""
        special = dict.fromkeys(self._without_text, b"") | {id_: text.encode() for id_, text in self._symbols.items()}
        return [special[id_] if id_ in special else self._bytes_of(id_) for id_ in range(self.vocab_size)]

    def token_bytes(self, ids: Iterable[int]) -> list[bytes]:
        """The bytes that each token adds to the text that `decode` gives."""
        contents: list[bytes] = []
        has_spaces = self.kind == "word" or not self._spelled_in_bytes  # between tokens, also around symbols
        # A text between symbols was encoded with a space before it, which is not decoded; characters have none.
        strips_space = not has_spaces and self.kind != "char"
        is_first = True
        for id_ in ids:
            text = self._symbols.get(id_)
            if text is None and id_ in self._without_text:
                text = self.decode([id_])
            if text is None:
                content = self._bytes_of(id_)
                contents.append(content.removeprefix(b" ") if is_first and strips_space else content)
                is_first = False
            elif text:
                contents.append(b" " * has_spaces + text.encode())
                is_first = True
            else:
                contents.append(b"")
        return contents

    def spelling(self, ids: Iterable[int]) -> str:
        """Tokens as the vocabulary spells them, in letters for bytes, joined.

        Symbols, targets and the tokens of hints are left out.
        """
        return "".join(self._backend.id_to_token(id_) for id_ in ids if id_ not in self._unspelled)

    def spelled(self, id_: int) -> str:
        """The token of an id as the vocabulary spells it; no two are the same."""
        return self._backend.id_to_token(id_)

    def backend_copy(self) -> tokenizers.Tokenizer:
        """A copy of this tokenizer as an object of the library `tokenizers`."""
        return tokenizers.Tokenizer.from_str(self.to_json())

    def to_json(self) -> str:
        """The tokenizer as JSON of the `tokenizers` library."""
        return self._backend.to_str()

    def save(self, path: str | Path) -> None:
        """Writes `to_json` to a file."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Reads a file that `save` wrote, perhaps for strangers. Raises `DataError` for any other file."""
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise DataError(
                f"{path} cannot be read: {error.strerror}; copy it again from the model that it belongs to."
            ) from None
        return cls.from_json(content.decode(errors="replace"), path)

    @classmethod
    def from_json(cls, content: str, path: str | Path) -> "Tokenizer":
        """The tokenizer that `content` describes, which strangers may have written; errors name `path`."""
        try:
            tokenizer = _from_json(content)
            fault = verify.fault(tokenizer._backend, tokenizer._identity)
        # The library has no error class of its own: it raises `Exception`.
        except Exception as error:
            fault = f"is no tokenizer: {error}"
        if fault:
            raise DataError(f"{path} {fault}; copy it again from the model that it belongs to.")
        return tokenizer


def _from_json(text: str) -> Tokenizer:
    return Tokenizer(tokenizers.Tokenizer.from_str(text))
