"""Vocabularies of pretrained models, from the files beside their weights."""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from dragoman.errors import DataError
from dragoman.interop.files import read_bytes, read_json
from dragoman.interop.imports.styles import read_table
from dragoman.model import TransformerConfig
from dragoman.system.optional import load
from dragoman.system.processes import run_limited
from dragoman.text.tokenizers import algorithms, target_tokens, verify
from dragoman.text.tokenizers.algorithms import EOS_ID, OURS, SpecialIds
from dragoman.text.tokenizers.pretrained import PretrainedVocabulary, SentencePieces
from dragoman.text.tokenizers.tokenizer import Tokenizer

LARGEST = 2**24
"""Most bytes of a SentencePiece model; that of NLLB-200 has 5 MB."""
MEMORY = 2**30
"""Most bytes of memory that a SentencePiece model may take."""
PIECES = "sentencepiece.bpe.model"
"""File with the SentencePiece model of M2M-100 and NLLB-200."""
M2M_LANGUAGES = ("m2m100", "wmt21")
"""Sets of languages that models like M2M-100 have."""
NLLB_SPECIAL, NLLB_MASK = ("<s>", "<pad>", "</s>", "<unk>"), "<mask>"
_TAG = re.compile(r">>([^<>\s]{1,40})<<")
_NLLB_LANGUAGE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")


def marian_vocabularies(
    folder: Path,
    config: TransformerConfig,
    source: Mapping[str, int] | None = None,
    target: Mapping[str, int] | None = None,
) -> tuple[PretrainedVocabulary, PretrainedVocabulary]:
    """The vocabularies of the source and the target of a Marian model; by default those of vocab.json."""
    source = read_json(folder / "vocab.json") if source is None else source
    if target is None:
        target = source if config.share_embeddings else read_json(folder / "target_vocab.json", missing=dict(source))
    return _marian_vocabulary(folder, "source", source, config), _marian_vocabulary(folder, "target", target, config)


def _marian_vocabulary(
    folder: Path, side: str, ids: Mapping[str, int], config: TransformerConfig
) -> PretrainedVocabulary:
    """The vocabulary of one side of a Marian model: `source` or `target`."""
    size = config.source_vocab_size if side == "source" else config.target_vocab_size
    pieces = _in_order(ids, size, f"The {side} vocabulary in {folder}")
    if ids.get("<pad>", config.pad_id) != config.pad_id:
        raise DataError(
            f"The {side} vocabulary in {folder} has <pad> as {ids['<pad>']}, but config.json as {config.pad_id}."
        )
    tags = {}
    if side == "source":
        tags = {match[1]: match[0] for match in map(_TAG.fullmatch, pieces) if match}
    model = _sentencepiece(folder / f"{side}.spm")
    return PretrainedVocabulary("sentencepiece", model, pieces, _special_ids(config, ids), tags, tags=bool(tags))


def _special_ids(config: TransformerConfig, ids: Mapping[str, int]) -> SpecialIds:
    """The ids of the special tokens; padding stands for unknown tokens if there is no `<unk>`."""
    return SpecialIds(config.pad_id, ids.get("<unk>", config.pad_id), config.bos_id, config.eos_id)


def trained_tokenizer(folder: Path, config: TransformerConfig) -> Tokenizer | None:
    """The tokenizer that Dragoman trained, if `dragoman.interop.exports.transformers` wrote the folder; None if others
    wrote it.

    Raises `DataError` for a tokenizer that does not fit the model.
    """
    path = folder / "tokenizer.json"
    ids = (config.pad_id, OURS.unk, config.bos_id, config.eos_id)
    if ids != OURS or (folder / "vocab.json").is_file() or not path.is_file():
        return None
    content = read_json(path)
    with_end = tokenizers.Tokenizer.from_str(json.dumps(content))
    if algorithms.identify(with_end) is None:
        return None
    backend = tokenizers.Tokenizer.from_str(json.dumps(content | {"post_processor": None}))
    if target_tokens.ids(backend):
        raise DataError(f"{path} is of a model of several languages, which is not taken back; use its own folder.")
    if (problem := verify.fault(backend)) or with_end.encode("").ids != [EOS_ID]:
        raise DataError(f"{path} {problem or 'does not put the end of sentence alone after a text'}; export it again.")
    if not backend.get_vocab_size() == config.source_vocab_size == config.target_vocab_size:
        raise DataError(f"{path} has {backend.get_vocab_size()} tokens, but the model other tables; export it again.")
    return Tokenizer(backend)


@dataclass(frozen=True)
class _Multilingual:
    """Content of the tokenizer files of a model of many languages."""

    program: str
    kind: str
    """Library of the tokenizer: `sentencepiece` or `tokenizers`."""
    model: str
    """Model of that library, in base64 or as JSON."""
    ids: dict[str, int]
    languages: dict[str, str]
    """Codes of languages, and their tokens."""
    legacy: bool = False
    """Whether sources end with the token of their language."""


def multilingual_vocabulary(
    folder: Path, config: TransformerConfig, settings: Mapping[str, Any]
) -> tuple[str, PretrainedVocabulary]:
    """The name of the program, and the vocabulary of M2M-100, NLLB-200 or a model of their kind.

    `settings` is the content of tokenizer_config.json.
    """
    legacy = settings.get("legacy_behaviour") is True
    if (folder / "vocab.json").is_file():
        files = _read_m2m(folder, settings)
    elif (folder / "tokenizer.json").is_file() or not (folder / PIECES).is_file():
        files = _read_nllb_json(folder, legacy=legacy)
    else:
        files = _read_nllb_pieces(folder, settings, legacy=legacy)
    pieces = _in_order(files.ids, config.source_vocab_size, f"The vocabulary in {folder}")
    special = _special_ids(config, files.ids)
    return files.program, PretrainedVocabulary(
        files.kind, files.model, pieces, special, files.languages, legacy=files.legacy
    )


def _read_m2m(folder: Path, settings: Mapping[str, Any]) -> _Multilingual:
    """The tokenizer of M2M-100: a SentencePiece model, the ids in vocab.json, and the languages behind them."""
    ids = read_json(folder / "vocab.json")
    codes = settings.get("language_codes") or "m2m100"
    if codes not in M2M_LANGUAGES:
        raise DataError(f"{folder} has the languages {codes!r}; Dragoman knows {' and '.join(M2M_LANGUAGES)}.")
    languages = {code: f"__{code}__" for code in read_table("pretrained.toml")["languages"][codes].split()}
    ids |= {token: len(ids) + index for index, token in enumerate(languages.values())}
    return _Multilingual("M2M-100", "sentencepiece", _sentencepiece(folder / PIECES), ids, languages)


def _read_nllb_json(folder: Path, *, legacy: bool) -> _Multilingual:
    """The tokenizer of NLLB-200 in its tokenizer.json."""
    model = json.dumps(read_json(folder / "tokenizer.json"))
    backend = tokenizers.Tokenizer.from_str(model)
    ids = backend.get_vocab(with_added_tokens=True)
    added = [token.content for token in backend.get_added_tokens_decoder().values()]
    languages = {token: token for token in added if _NLLB_LANGUAGE.fullmatch(token)}
    return _Multilingual("NLLB-200", "tokenizers", model, ids, languages, legacy)


def _read_nllb_pieces(folder: Path, settings: Mapping[str, Any], *, legacy: bool) -> _Multilingual:
    """The tokenizer of NLLB-200 in its SentencePiece model."""
    model = _sentencepiece(folder / PIECES)
    ids = _nllb_ids(SentencePieces(model).pieces(), folder, settings)
    languages = {token: token for token in ids if _NLLB_LANGUAGE.fullmatch(token)}
    return _Multilingual("NLLB-200", "sentencepiece", model, ids, languages, legacy)


def _nllb_ids(pieces: list[str], folder: Path, settings: Mapping[str, Any]) -> dict[str, int]:
    """The ids of all tokens of NLLB-200; `pieces` are those of SentencePiece.

    The order is: fairseq's four special tokens, the pieces but for SentencePiece's own three special ones, the
    languages in a fixed order, the mask, and languages that somebody has added. If tokenizer_config.json numbers the
    languages, its numbers count.
    """
    languages = read_table("pretrained.toml")["languages"]["nllb"].split()
    listed = {**settings, **read_json(folder / "special_tokens_map.json", missing={})}
    tokens = [*(listed.get("additional_special_tokens") or ()), *(listed.get("extra_special_tokens") or ())]
    added = [token for token in tokens if isinstance(token, str) and _NLLB_LANGUAGE.fullmatch(token)]
    ordered = dict.fromkeys([*NLLB_SPECIAL, *pieces[3:], *languages, NLLB_MASK, *added])
    ids = {piece: id_ for id_, piece in enumerate(ordered)}
    decoder = settings.get("added_tokens_decoder") or {}
    numbered = {token["content"]: int(id_) for id_, token in decoder.items()}
    if any(_NLLB_LANGUAGE.fullmatch(token) for token in numbered):
        ids = {piece: ids[piece] for piece in (*NLLB_SPECIAL, *pieces[3:])} | numbered
    return ids


def _in_order(ids: Mapping[str, int], size: int, name: str) -> list[str]:
    """The pieces in the order of their ids. A row of the table without a piece is `<unused7>` if its id is 7.

    Raises `DataError`, which begins with `name`, for ids that are no row of the table, or are given twice.
    """
    pieces: list[str | None] = [None] * size
    for piece, id_ in ids.items():
        if isinstance(id_, bool) or not isinstance(id_, int) or not 0 <= id_ < size or pieces[id_] is not None:
            raise DataError(f"{name} numbers '{piece}' as {id_!r}, where the model has rows 0 to {size - 1}, one each.")
        pieces[id_] = piece
    return [f"<unused{id_}>" if piece is None else piece for id_, piece in enumerate(pieces)]


def _sentencepiece(path: Path) -> str:
    """The SentencePiece model in a file, in base64, once a process with limited memory has tried it. Raises `DataError`
    for one that is missing or damaged."""
    load("sentencepiece", extra="pretrained", purpose="This model's tokenizer")
    try:
        model = base64.b64encode(read_bytes(path, LARGEST)).decode()
        if run_limited(MEMORY, _try_model, model):
            return model
        problem = f"it takes more than {MEMORY >> 20} MB of memory, or ends the program that reads it"
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
    except RuntimeError:  # with a line of C++ as its message
        problem = "SentencePiece finds no model in it, or a damaged one"
    raise DataError(f"{path} cannot be read: {problem}; copy the whole model again.")


def _try_model(model: str) -> None:
    """Use a SentencePiece model of strangers. Raises `RuntimeError` for one that is damaged."""
    pieces = SentencePieces(model)
    pieces.join(*pieces.split(["A text, 1."]))
