"""Tokenizers of pretrained models: pieces that SentencePiece or the library `tokenizers` finds, numbered as theirs.

The model numbers its pieces and special tokens by a vocabulary of its own. Tokens of languages are no text: `begin`
puts one before each text, such as `__de__`, or a label names the language of each text.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import tokenizers

from dragoman.errors import DataError, DragomanError
from dragoman.system.optional import load
from dragoman.text.characters import cut_label, well_formed
from dragoman.text.labels import languages_in
from dragoman.text.language_codes import known_language
from dragoman.text.tokenizers.algorithms import SpecialIds
from dragoman.text.tokenizers.imported import steps
from dragoman.text.tokenizers.joined import SPACE, with_joined
from dragoman.text.tokenizers.parts import longest_parts
from dragoman.text.tokenizers.tokenizer import Tokenizer

TYPE = "pretrained"
"""Value of `type` in the JSON of such a tokenizer."""
_QUICK = {"Precompiled", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "Prepend", "Replace", "Metaspace"}
_SPACES = re.compile(r" \{\d,\}")
"""The one regular expression that such tokenizers need: it makes several spaces one."""


class Pieces(Protocol):
    """Splits texts into pieces and joins pieces."""

    def split(self, texts: list[str]) -> list[list[str]]:
        """The pieces of each text."""
        ...

    def join(self, pieces: list[str]) -> str:
        """The text of pieces."""
        ...


class SentencePieces:
    """Pieces of a SentencePiece model."""

    def __init__(self, model: str):
        """`model` is the file in base64. Raises `RuntimeError` for one that is damaged."""
        if not model:
            raise RuntimeError("it is empty")  # which the library takes for a model that comes later
        library = load("sentencepiece", extra="pretrained", purpose="This model's tokenizer")
        self._processor = library.SentencePieceProcessor(model_proto=base64.b64decode(model, validate=True))

    def split(self, texts: list[str]) -> list[list[str]]:
        return self._processor.encode(texts, out_type=str)

    def pieces(self) -> list[str]:
        """All pieces by their ids."""
        return [self._processor.id_to_piece(id_) for id_ in range(self._processor.vocab_size())]

    def join(self, pieces: list[str]) -> str:
        return self._processor.decode_pieces(pieces).replace(SPACE, " ").strip()


class LibraryPieces:
    """Pieces of a tokenizer of the library `tokenizers`."""

    def __init__(self, content: str):
        """`content` is its JSON. Raises `ValueError` for one that might take hours: a stranger may have written it."""
        parts = json.loads(content)
        for name in ("normalizer", "pre_tokenizer", "decoder"):
            for step in steps(parts[name]):
                pattern = step.get("pattern", {}).get("Regex", " {2,}")
                if step["type"] not in _QUICK or not _SPACES.fullmatch(pattern):
                    raise ValueError(f"it works with {step['type']}, which Dragoman does not run")
        if not parts["decoder"]:
            raise ValueError("it has no decoder")
        self._backend = tokenizers.Tokenizer.from_str(content)
        self._backend.encode_special_tokens = True
        self._backend.no_padding()
        self._backend.no_truncation()

    def split(self, texts: list[str]) -> list[list[str]]:
        return [encoding.tokens for encoding in self._backend.encode_batch(texts, add_special_tokens=False)]

    def join(self, pieces: list[str]) -> str:
        return self._backend.decoder.decode(pieces).strip()


KINDS = {"sentencepiece": SentencePieces, "tokenizers": LibraryPieces}


@dataclass(frozen=True)
class PretrainedVocabulary:
    """Pieces of one language side in the order of their ids, with its special tokens and tokens of languages."""

    kind: str
    """One of `KINDS`."""
    model: str
    """Model that finds the pieces, as the class in `KINDS` takes it."""
    pieces: list[str]
    special: SpecialIds
    languages: dict[str, str]
    """The tokens of languages by their codes; none if the model has one language on this side."""
    begin: str | None = None
    """The token of a language that is put before each text."""
    tags: bool = False
    """Whether a text may begin with the token of a language, as `>>fra<<`, which then takes the place of `begin`."""
    legacy: bool = False
    """Whether `begin` stands after each text and its end of sentence instead, as in NLLB's first tokenizer."""
    trimmed: bool = False
    """Whether pieces were dropped. One that is gone is spelled by the longest of those that are left."""
    joined: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """By the tokens of languages, pieces that were added for texts of these, and those of the model of which each is
    made (`dragoman.text.tokenizers.joined`)."""


class PretrainedTokenizer(Tokenizer):
    """A `Tokenizer` for a vocabulary that another program made; it does with texts what that program did.

    Text that no piece spells becomes the unknown token, which decoding leaves out.
    """

    kind = TYPE

    def __init__(self, vocabulary: PretrainedVocabulary) -> None:
        self.content = vocabulary
        self.special_ids, self.languages, self.tagged = vocabulary.special, vocabulary.languages, vocabulary.tags
        codes = {token: code for code, token in vocabulary.languages.items()}
        self.language = codes.get(vocabulary.begin or "")
        self._pieces: Pieces = KINDS[vocabulary.kind](vocabulary.model)
        self._ids = {piece: id_ for id_, piece in enumerate(vocabulary.pieces)}
        end = self._ids[vocabulary.begin] if vocabulary.legacy and vocabulary.begin else self.special_ids.eos
        self.closing = self.special_ids._replace(eos=end)
        self._symbols = {}
        self._longest = {token: max(map(len, parts.values()), default=0) for token, parts in vocabulary.joined.items()}
        self._tokens_of_codes: dict[str, str] = {}
        self._tags = frozenset(vocabulary.languages.values())
        self._without_text = frozenset([*vocabulary.special, *(self._ids[token] for token in self._tags)])

    def __reduce__(self) -> tuple:
        return PretrainedTokenizer, (self.content,)

    def speaking(self, language: str) -> "PretrainedTokenizer":
        return PretrainedTokenizer(replace(self.content, begin=self.content.languages[language]))

    def open_to_labels(self) -> "PretrainedTokenizer":
        return PretrainedTokenizer(replace(self.content, begin=None))

    @property
    def reads_labels(self) -> bool:
        return bool(self.languages) and self.language is None and not self.content.legacy

    @property
    def label_ids(self) -> Mapping[str, int]:
        return {code: self._ids[token] for code, token in self.languages.items()} if self.reads_labels else {}

    @property
    def num_given(self) -> int:
        return 1 if self.reads_labels else len(self.begin_ids)

    @property
    def is_changed(self) -> bool:
        return self.content.trimmed or bool(self.content.joined)

    @property
    def vocab_size(self) -> int:
        return len(self.content.pieces)

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each text, after that of its language; a lone surrogate becomes U+FFFD."""
        begins: list[str] = []
        rests: list[str] = []
        for text in map(well_formed, texts):
            begin, rest = self._begin(text)
            begins.append(begin)
            rests.append(rest)
        if not rests:
            return []
        legacy, unknown = self.content.legacy, self.special_ids.unk
        end = [self.special_ids.eos] if legacy else []
        ids_of_texts = []
        for begin, pieces in zip(begins, self._pieces.split(rests), strict=True):
            if longest := self._longest.get(begin):
                pieces = with_joined(pieces, self.content.joined[begin], longest)
            if self.content.trimmed:
                pieces = [part for piece in pieces for part in longest_parts(piece, self._ids)]
            first = [self._ids[begin]] if begin and not legacy else []
            ids_of_texts.append([*first, *[self._ids.get(piece, unknown) for piece in pieces], *end])
        return ids_of_texts

    def tag(self, text: str) -> str:
        label, _ = cut_label(text) if self.reads_labels else ("", text)
        if label:
            return label
        begin = text[: text.find("<<") + 2]
        return begin if self.tagged and begin in self._tags else ""

    def _begin(self, text: str) -> tuple[str, str]:
        """The token of the language of a text, perhaps by its own tag or label, and the text without these."""
        label, rest = cut_label(text) if self.reads_labels else ("", text)
        if label:
            return self._named(languages_in(label)[1]), rest
        tag = self.tag(text)
        return tag or self.content.begin or "", text.removeprefix(tag)

    def _named(self, code: str) -> str:
        """The token of a language, whose code may be of another style."""
        token = self._tokens_of_codes.get(code)
        if token is None:
            token = self._tokens_of_codes[code] = self.languages[known_language(code, self.languages)]
        return token

    def spells(self, character: str) -> bool:
        return self.special_ids.unk not in self.encode(character)

    def words(self, texts: Iterable[str]) -> list[list[tuple[int, ...]]]:
        raise NotImplementedError("Only tokenizers that Dragoman trained split words anew.")

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        return [self._pieces.join(self._own_pieces(ids)) for ids in batch]

    def _own_pieces(self, ids: Iterable[int]) -> list[str]:
        """The pieces of the model that finds them: joined ones as their parts, and none without text."""
        pieces, joined = self.content.pieces, self._joined_parts
        texts = [pieces[id_] for id_ in ids if id_ not in self._without_text]
        return [part for text in texts for part in joined.get(text, (text,))]

    @cached_property
    def _joined_parts(self) -> dict[str, list[str]]:
        """The parts of the joined pieces of all languages."""
        return {piece: parts for joined in self.content.joined.values() for piece, parts in joined.items()}

    def split(self, texts: Iterable[str]) -> list[list[str]]:
        """The pieces of texts as the model that finds them gives them, without any that were joined."""
        return self._pieces.split([well_formed(text) for text in texts])

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self.content.pieces[id_] for id_ in ids]

    def vocabulary(self) -> list[bytes]:
        return list(self._bytes)

    @cached_property
    def _bytes(self) -> list[bytes]:
        contents = [piece.replace(SPACE, " ").encode() for piece in self.content.pieces]
        return [b"" if id_ in self._without_text else content for id_, content in enumerate(contents)]

    def token_bytes(self, ids: Iterable[int]) -> list[bytes]:
        contents: list[bytes] = []
        has_begun = False
        for id_ in ids:
            content = self._bytes[id_]
            contents.append(content if has_begun else content.removeprefix(b" "))
            has_begun = has_begun or bool(content)
        return contents

    def spelling(self, ids: Iterable[int]) -> str:
        raise NotImplementedError("Only tokenizers that Dragoman trained split words anew.")

    def spelled(self, id_: int) -> str:
        return self.content.pieces[id_]

    def backend_copy(self) -> tokenizers.Tokenizer:
        return tokenizers.Tokenizer.from_str(self.content.model)

    def to_json(self) -> str:
        content = self.content
        fields = {
            "type": TYPE,
            "kind": content.kind,
            "model": json.loads(content.model) if content.kind == "tokenizers" else content.model,
            "pieces": content.pieces,
            "special": content.special._asdict(),
            "languages": content.languages,
            "begin": content.begin,
            "tags": content.tags,
        }
        if content.legacy:
            fields["legacy"] = True
        if content.trimmed:
            fields["trimmed"] = True
        if content.joined:
            fields["joined"] = content.joined
        return json.dumps(fields, ensure_ascii=False)

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> "PretrainedTokenizer":
        """The inverse of `to_json`. Raises `ValueError`, `TypeError` or `KeyError` for anything else."""
        fields = {key: value for key, value in content.items() if key != "type"}
        fields["special"] = SpecialIds(**fields["special"])
        if fields["kind"] == "tokenizers":
            fields["model"] = json.dumps(fields["model"], ensure_ascii=False)
        tokenizer = cls(PretrainedVocabulary(**fields))
        if problem := tokenizer.fault():
            raise ValueError(problem)
        return tokenizer

    def fault(self) -> str | None:
        """What is wrong with a vocabulary of strangers, for error messages; None if nothing is."""
        pieces, special = self.content.pieces, self.special_ids
        if not all(isinstance(piece, str) for piece in pieces) or len(self._ids) < len(pieces):
            return "does not have a different text for each of its ids"
        if not all(isinstance(id_, int) and 0 <= id_ < len(pieces) for id_ in special):
            return "has special tokens that are not in its vocabulary"
        if not all(map(_spells, self._joined_parts, self._joined_parts.values())):
            return "has joined pieces that are not made of others"
        if not self._joined_parts.keys() <= self._ids.keys():
            return "has joined pieces that are not in its vocabulary"
        if self.content.begin is not None and self.content.begin not in self.content.languages.values():
            return "begins texts with what is no token of a language"
        return None


def _spells(piece: object, parts: object) -> bool:
    """Whether a joined piece is made of its parts."""
    return (
        isinstance(parts, list)
        and len(parts) > 1
        and all(isinstance(p, str) for p in parts)
        and "".join(parts) == piece
    )


def load_tokenizer(path: Path) -> Tokenizer:
    """Reads a file with the `to_json` of a `Tokenizer` of either class. Raises `DataError` for any other file."""
    try:
        content = path.read_bytes()
    except OSError:
        content = b""  # for which `tokenizer_of` raises an error
    return tokenizer_of(content, path)


def tokenizer_of(content: bytes, path: Path) -> Tokenizer:
    """The tokenizer that the content of a file describes. Raises `DataError` that names `path` for any other."""
    text = content.decode(errors="replace")
    if not text.startswith(f'{{"type": "{TYPE}"'):
        return Tokenizer.from_json(text, path)
    try:
        return PretrainedTokenizer.from_content(json.loads(text))
    except (DragomanError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:  # the libraries have no class of their own, and one of them panics
        raise DataError(f"{path} is no tokenizer: {error}; copy it again from the model that it belongs to.") from None
