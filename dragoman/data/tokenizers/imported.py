"""Tokenizers that notebooks trained, as a model directory holds them: their words or pieces, cut the notebook's way.

Whole words are spelled in letters for bytes, with a space before each; pieces of words are kept as they are. What a
notebook puts around each source sentence is in the tokenizer as well, so that no other part has to know of it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers
from tokenizers import models, processors

from dragoman.data.tokenizers.algorithms import BOS_ID, EOS_ID, SPECIAL_TOKENS, UNK_ID, blank
from dragoman.data.tokenizers.byte_level import byte_level_encode

Part = Mapping[str, Any] | None
"""A normalizer or pre-tokenizer in the JSON of the `tokenizers` library."""

_NORMALIZERS = ("Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Strip", "BertNormalizer")
_PRE_TOKENIZERS = ("Whitespace", "WhitespaceSplit", "CharDelimiterSplit", "Punctuation", "Digits", "BertPreTokenizer")
_IN_LETTERS = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False}
_PLAIN_BPE = {"dropout": None, "byte_fallback": False, "continuing_subword_prefix": "", "end_of_word_suffix": ""}


def words(content: Sequence[str], *, normalizer: Part, pre_tokenizer: Part) -> tokenizers.Tokenizer:
    """Knows the words `content`, numbered after the special tokens. A word joins no other: decoding parts by spaces."""
    vocab = {token: id_ for id_, token in enumerate(SPECIAL_TOKENS)}
    vocab |= {byte_level_encode(f" {word}"): id_ for id_, word in enumerate(content, len(vocab))}
    cut = {"type": "Sequence", "pretokenizers": [*_single(pre_tokenizer), _IN_LETTERS]}
    model = {"type": "WordLevel", "vocab": vocab, "unk_token": SPECIAL_TOKENS[UNK_ID]}
    backend = _assembled(blank("word", "none"), {"normalizer": normalizer, "pre_tokenizer": cut, "model": model})
    backend.add_special_tokens([token for token in SPECIAL_TOKENS if token != SPECIAL_TOKENS[UNK_ID]])
    return backend


def pieces(content: Sequence[str], model: Mapping[str, Any], **parts: Part) -> tokenizers.Tokenizer:
    """Knows the pieces `content`, numbered after the special tokens, and puts them together as the BPE `model` does.

    `parts` are its normalizer and pre-tokenizer. Unless they are spelled in letters for bytes, there is no telling
    which pieces make a word: each stands alone in what is decoded, as in the notebook.
    """
    vocab = {token: id_ for id_, token in enumerate([*SPECIAL_TOKENS, *content])}
    unknown = SPECIAL_TOKENS[UNK_ID] if model.get("unk_token") else None
    parts |= {"model": {**model, "vocab": vocab, "unk_token": unknown}}
    if not _is_byte_level(parts):
        parts["decoder"] = None
    backend = _assembled(blank("bpe"), parts)
    backend.add_special_tokens(list(SPECIAL_TOKENS))
    return backend


def begin_sources(backend: tokenizers.Tokenizer) -> None:
    """Put the begin of sentence before each text; the end of sentence comes after every source anyway."""
    begin = SPECIAL_TOKENS[BOS_ID]
    backend.post_processor = processors.TemplateProcessing(single=f"{begin} $A", special_tokens=[(begin, BOS_ID)])


def fill_sources(backend: tokenizers.Tokenizer, length: int) -> None:
    """Cut each text to `length` tokens, or fill it up with ends of sentence: padding that can be attended to."""
    backend.enable_truncation(length)
    backend.enable_padding(length=length, pad_id=EOS_ID, pad_token=SPECIAL_TOKENS[EOS_ID])


def surroundings_are_known(backend: tokenizers.Tokenizer) -> bool:
    """Whether texts are left as they are, or surrounded as one of the above does it."""
    keys = ("truncation", "padding", "post_processor")
    found = json.loads(backend.to_str())
    known = [tokenizers.Tokenizer(models.WordLevel()) for _ in range(3)]
    begin_sources(known[1])
    if backend.truncation:
        fill_sources(known[2], backend.truncation["max_length"])
    return any(all(found[key] == json.loads(each.to_str())[key] for key in keys) for each in known)


def strange_part(content: Mapping[str, Any]) -> str | None:
    """The first part in the JSON of a tokenizer that is not one of a few plain ones, which no stranger can misuse."""
    for name, known in (("normalizer", _NORMALIZERS), ("pre_tokenizer", (*_PRE_TOKENIZERS, "ByteLevel"))):
        for part in _single(content[name]):
            # A replacement may be of a string; a pattern may take hours.
            if part["type"] not in known and not (part["type"] == "Replace" and "String" in part["pattern"]):
                return part["type"]
    model = content["model"]
    if model["type"] == "BPE":
        return next((key for key, value in _PLAIN_BPE.items() if (model[key] or value) != value), None)
    return None if model["type"] == "WordLevel" else model["type"]


def identify(backend: tokenizers.Tokenizer) -> str | None:
    """The kind of a tokenizer that was imported; None for one that does anything else, as `strange_part` says."""
    content = json.loads(backend.to_str())
    decoders = {kind: json.loads(blank(kind, "none").to_str())["decoder"] for kind in ("bpe", "word")}
    kind = {"WordLevel": "word", "BPE": "bpe"}.get(content["model"]["type"])
    if kind is None or strange_part(content) is not None:
        return None
    cut = _single(content["pre_tokenizer"])
    if kind == "word":
        # Nothing else may spell words, or a text might hold a special token.
        spelled = cut[-1:] == [_IN_LETTERS] and all(part["type"] != "ByteLevel" for part in cut[:-1])
        return kind if spelled and content["decoder"] == decoders[kind] else None
    return kind if content["decoder"] == (decoders[kind] if _is_byte_level(content) else None) else None


def _assembled(backend: tokenizers.Tokenizer, parts: Mapping[str, Any]) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_str(json.dumps({**json.loads(backend.to_str()), **parts}))


def _single(part: Part) -> list[Mapping[str, Any]]:
    """What a part consists of, one after another."""
    if part is None:
        return []
    parts = part.get("normalizers", part.get("pretokenizers")) if part["type"] == "Sequence" else None
    return [part] if parts is None else [single for each in parts for single in _single(each)]


def _is_byte_level(content: Mapping[str, Any]) -> bool:
    return any(part["type"] == "ByteLevel" for part in _single(content["pre_tokenizer"])[-1:])
