"""Tokenizers that other programs trained, rebuilt for a model directory: they split texts into the same tokens.

Whole words are spelled in letters for bytes, with a space before each; pieces of words stay as they are. The tokenizer
also adds the begin of sentence or the padding with which the other program surrounds each source sentence.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers
from tokenizers import models, processors

from dragoman.text.tokenizers.algorithms import BOS_ID, EOS_ID, SPECIAL_TOKENS, UNK_ID, blank
from dragoman.text.tokenizers.byte_level import byte_level_encode

Part = Mapping[str, Any] | None
"""A normalizer, pre-tokenizer or model in the JSON of the `tokenizers` library."""

_NORMALIZERS = ("Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Strip", "BertNormalizer")
_PRE_TOKENIZERS = ("Whitespace", "WhitespaceSplit", "CharDelimiterSplit", "Punctuation", "Digits", "BertPreTokenizer")
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False}
_PLAIN_BPE = {"dropout": None, "byte_fallback": False, "continuing_subword_prefix": "", "end_of_word_suffix": ""}


def build(tokens: Sequence[str], *, normalizer: Part, pre_tokenizer: Part, bpe: Part = None) -> tokenizers.Tokenizer:
    """A tokenizer with Dragoman's special tokens, then `tokens`: the pieces of the model `bpe`, or else words.

    Decoding puts a space between words. Pieces are joined if they are spelled in letters for bytes; otherwise nothing
    tells which pieces make a word, and each stands alone in the decoded text.
    """
    unknown = SPECIAL_TOKENS[UNK_ID]
    if bpe is None:
        backend = blank("word", "none")
        special = [token for token in SPECIAL_TOKENS if token != unknown]
        tokens = [byte_level_encode(f" {word}") for word in tokens]
        pre_tokenizer = {"type": "Sequence", "pretokenizers": [*steps(pre_tokenizer), _BYTE_LEVEL]}
        model = {"type": "WordLevel", "unk_token": unknown}
    else:
        backend, special = blank("bpe"), list(SPECIAL_TOKENS)
        model = {**bpe, "unk_token": unknown if bpe.get("unk_token") else None}
    model["vocab"] = {token: id_ for id_, token in enumerate([*SPECIAL_TOKENS, *tokens])}
    content = json.loads(backend.to_str())
    content |= {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "model": model}
    if not _is_byte_level(content):
        content["decoder"] = None
    backend = tokenizers.Tokenizer.from_str(json.dumps(content))
    backend.add_special_tokens(special)
    return backend


def begin_sources(backend: tokenizers.Tokenizer) -> None:
    """Add the begin of sentence before each text; the end of sentence is added to every source anyway."""
    begin = SPECIAL_TOKENS[BOS_ID]
    backend.post_processor = processors.TemplateProcessing(single=f"{begin} $A", special_tokens=[(begin, BOS_ID)])


def pad_sources(backend: tokenizers.Tokenizer, length: int) -> None:
    """Truncate or pad each text to `length` tokens; the padding is the end of sentence, which attention sees."""
    backend.enable_truncation(length)
    backend.enable_padding(length=length, pad_id=EOS_ID, pad_token=SPECIAL_TOKENS[EOS_ID])


def surroundings_are_known(backend: tokenizers.Tokenizer) -> bool:
    """Whether nothing is added to texts, or only what `begin_sources` or `pad_sources` adds."""
    if backend.truncation is backend.padding is backend.post_processor is None:
        return True
    known = tokenizers.Tokenizer(models.WordLevel())
    if backend.truncation:
        pad_sources(known, backend.truncation["max_length"])
    elif backend.post_processor:
        begin_sources(known)
    content, expected = json.loads(backend.to_str()), json.loads(known.to_str())
    return all(content[key] == expected[key] for key in ("truncation", "padding", "post_processor"))


def unsupported_part(content: Mapping[str, Any]) -> str | None:
    """The first part of a tokenizer's JSON that is not one of a few plain ones, none of which can be made to hang."""
    for name, known in (("normalizer", _NORMALIZERS), ("pre_tokenizer", (*_PRE_TOKENIZERS, "ByteLevel"))):
        for step in steps(content[name]):
            # Replacing a string is safe; a regular expression may take hours.
            if step["type"] not in known and not (step["type"] == "Replace" and "String" in step["pattern"]):
                return step["type"]
    model = content["model"]
    if model["type"] == "BPE":
        for option, plain in _PLAIN_BPE.items():
            if (model[option] or plain) != plain:
                return option
        return None
    return None if model["type"] == "WordLevel" else model["type"]


def identify(backend: tokenizers.Tokenizer) -> str | None:
    """The kind, `word` or `bpe`, of a tokenizer as `build` makes it; None for any other."""
    content = json.loads(backend.to_str())
    if unsupported_part(content):
        return None
    kind = "word" if content["model"]["type"] == "WordLevel" else "bpe"
    *others, last = steps(content["pre_tokenizer"]) or [None]
    # Words must be spelled in bytes by the last step alone, or a text might hold a special token.
    if kind == "word" and (last != _BYTE_LEVEL or any(step["type"] == "ByteLevel" for step in others)):
        return None
    decoder = json.loads(blank(kind, "none").to_str())["decoder"] if _is_byte_level(content) else None
    return kind if content["decoder"] == decoder else None


def steps(part: Part) -> list[Mapping[str, Any]]:
    """The steps of a normalizer, pre-tokenizer or decoder, nested sequences flattened."""
    if part is None:
        return []
    if part["type"] != "Sequence":
        return [part]
    (key,) = part.keys() & {"normalizers", "pretokenizers", "decoders"}
    return [step for nested in part[key] for step in steps(nested)]


def _is_byte_level(content: Mapping[str, Any]) -> bool:
    """Whether the last step before the model spells words in letters for bytes."""
    return any(step["type"] == "ByteLevel" for step in steps(content["pre_tokenizer"])[-1:])
