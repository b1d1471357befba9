"""Vocabularies of pretrained models, from the files beside their weights."""

import base64
import json
import re
from collections.abc import Mapping
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

LARGEST, MEMORY = 2**24, 2**30
"""Most bytes of a SentencePiece model, of which that of NLLB-200 has 5 MB, and of the memory that it may take."""
PIECES = "sentencepiece.bpe.model"
"""File with the pieces of M2M-100 and NLLB-200."""
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
    sides = []
    for side, ids, size in (
        ("source", source, config.source_vocab_size),
        ("target", target, config.target_vocab_size),
    ):
        pieces = _in_order(ids, size, f"The {side} vocabulary in {folder}")
        if ids.get("<pad>", config.pad_id) != config.pad_id:
            raise DataError(
                f"The {side} vocabulary in {folder} has <pad> as {ids['<pad>']}, but config.json as {config.pad_id}."
            )
        tags = {match[1]: piece for piece in pieces if (match := _TAG.fullmatch(piece))} if side == "source" else {}
        special = SpecialIds(config.pad_id, ids.get("<unk>", config.pad_id), config.bos_id, config.eos_id)
        model = _sentencepiece(folder / f"{side}.spm")
        sides.append(PretrainedVocabulary("sentencepiece", model, pieces, special, tags, tags=bool(tags)))
    return sides[0], sides[1]


def trained_tokenizer(folder: Path, config: TransformerConfig) -> Tokenizer | None:
    """A tokenizer that Dragoman trained, as `dragoman.interop.exports.transformers` writes it; None if the folder has
    another.

    Raises `DataError` for one that does not fit the model.
    """
    path, ids = folder / "tokenizer.json", (config.pad_id, OURS.unk, config.bos_id, config.eos_id)
    if ids != OURS or (folder / "vocab.json").is_file() or not path.is_file():
        return None
    content = read_json(path)
    ended = tokenizers.Tokenizer.from_str(json.dumps(content))
    if algorithms.identify(ended) is None:
        return None
    backend = tokenizers.Tokenizer.from_str(json.dumps(content | {"post_processor": None}))
    if target_tokens.ids(backend):
        raise DataError(f"{path} is of a model of several languages, which is not taken back; use its own folder.")
    if (problem := verify.fault(backend)) or ended.encode("").ids != [EOS_ID]:
        raise DataError(f"{path} {problem or 'does not put the end of sentence alone after a text'}; export it again.")
    if not backend.get_vocab_size() == config.source_vocab_size == config.target_vocab_size:
        raise DataError(f"{path} has {backend.get_vocab_size()} tokens, but the model other tables; export it again.")
    return Tokenizer(backend)


def multilingual_vocabulary(
    folder: Path, config: TransformerConfig, settings: Mapping[str, Any]
) -> tuple[str, PretrainedVocabulary]:
    """The name of the program, and the vocabulary of M2M-100, NLLB-200 or a model of their kind.

    `settings` is the content of tokenizer_config.json.
    """
    legacy = settings.get("legacy_behaviour") is True
    if (folder / "vocab.json").is_file():
        ids = read_json(folder / "vocab.json")
        codes = settings.get("language_codes") or "m2m100"
        if codes not in M2M_LANGUAGES:
            raise DataError(f"{folder} has the languages {codes!r}; Dragoman knows {' and '.join(M2M_LANGUAGES)}.")
        languages = {code: f"__{code}__" for code in read_table("pretrained.toml")["languages"][codes].split()}
        ids |= {token: len(ids) + index for index, token in enumerate(languages.values())}
        kind, model, program, legacy = "sentencepiece", _sentencepiece(folder / PIECES), "M2M-100", False
    elif (folder / "tokenizer.json").is_file() or not (folder / PIECES).is_file():
        kind, model, program = "tokenizers", json.dumps(read_json(folder / "tokenizer.json")), "NLLB-200"
        backend = tokenizers.Tokenizer.from_str(model)
        ids = backend.get_vocab(with_added_tokens=True)
        added = (token.content for token in backend.get_added_tokens_decoder().values())
        languages = {token: token for token in added if _NLLB_LANGUAGE.fullmatch(token)}
    else:
        kind, model, program = "sentencepiece", _sentencepiece(folder / PIECES), "NLLB-200"
        ids = _nllb_ids(SentencePieces(model).pieces(), folder, settings)
        languages = {token: token for token in ids if _NLLB_LANGUAGE.fullmatch(token)}
    pieces = _in_order(ids, config.source_vocab_size, f"The vocabulary in {folder}")
    special = SpecialIds(config.pad_id, ids.get("<unk>", config.pad_id), config.bos_id, config.eos_id)
    return program, PretrainedVocabulary(kind, model, pieces, special, languages, legacy=legacy)


def _nllb_ids(pieces: list[str], folder: Path, settings: Mapping[str, Any]) -> dict[str, int]:
    """The ids that NLLB-200 gives to the pieces of SentencePiece and to what follows them.

    These are fairseq's four special tokens, the pieces but for SentencePiece's three, the languages in a fixed order,
    the mask, and languages that somebody has added. What tokenizer_config.json numbers otherwise has its number.
    """
    languages = read_table("pretrained.toml")["languages"]["nllb"].split()
    listed = {**settings, **read_json(folder / "special_tokens_map.json", missing={})}
    more = [*(listed.get("additional_special_tokens") or ()), *(listed.get("extra_special_tokens") or ())]
    more = [each for each in more if isinstance(each, str) and _NLLB_LANGUAGE.fullmatch(each)]
    ordered = dict.fromkeys([*NLLB_SPECIAL, *pieces[3:], *languages, NLLB_MASK, *more])
    ids = {piece: id_ for id_, piece in enumerate(ordered)}
    numbered = {each["content"]: int(id_) for id_, each in (settings.get("added_tokens_decoder") or {}).items()}
    if any(_NLLB_LANGUAGE.fullmatch(token) for token in numbered):
        ids = {piece: ids[piece] for piece in (*NLLB_SPECIAL, *pieces[3:])} | numbered
    return ids


def _in_order(ids: Mapping[str, int], size: int, name: str) -> list[str]:
    """The pieces by their ids; rows of the table that have no piece are `<unused0>` and so on."""
    pieces: list[str | None] = [None] * size
    for piece, id_ in ids.items():
        if isinstance(id_, bool) or not isinstance(id_, int) or not 0 <= id_ < size or pieces[id_] is not None:
            raise DataError(f"{name} numbers '{piece}' as {id_!r}, where the model has rows 0 to {size - 1}, one each.")
        pieces[id_] = piece
    return [f"<unused{id_}>" if piece is None else piece for id_, piece in enumerate(pieces)]


def _sentencepiece(path: Path) -> str:
    """A SentencePiece model in base64, which a process with limited memory has tried before."""
    load("sentencepiece", extra="pretrained", purpose="This model's tokenizer")
    try:
        model = base64.b64encode(read_bytes(path, LARGEST)).decode()
        fits = run_limited(MEMORY, _try, model)
        if fits:
            return model
        problem = f"it takes more than {MEMORY >> 20} MB of memory, or ends the program that reads it"
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
    except RuntimeError:  # with a line of C++ as its message
        problem = "SentencePiece finds no model in it, or a damaged one"
    raise DataError(f"{path} cannot be read: {problem}; copy the whole model again.")


def _try(model: str) -> None:
    """Use a SentencePiece model of strangers. Raises `RuntimeError` for one that is damaged."""
    pieces = SentencePieces(model)
    pieces.join(*pieces.split(["A text, 1."]))
