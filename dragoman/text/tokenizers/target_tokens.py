"""Tokens that stand before sources and say the language of the target, such as "<2de>", as special tokens.

Special tokens are never found in text: who types "<2de>" gets its characters. Decoding leaves them out.
"""

import json
import re
from collections.abc import Sequence

import tokenizers
from tokenizers import processors

from dragoman.errors import UsageError
from dragoman.text.labels import token
from dragoman.text.tokenizers.algorithms import EOS_ID

_TOKEN = re.compile(r"<2([a-z0-9-]+)>")


def add(backend: tokenizers.Tokenizer, languages: Sequence[str]) -> None:
    """Add a token for each language. Raises `UsageError` if a symbol of the user is one of them."""
    tokens = [token(language) for language in languages]
    for target_token in tokens:
        if backend.token_to_id(target_token) is not None:
            raise UsageError(
                f"`tokenizer.symbols` has {target_token!r}, which `languages` of the corpora add; leave it out."
            )
    backend.add_special_tokens(tokens)


def ids(backend: tokenizers.Tokenizer) -> dict[str, int]:
    """The ids of these tokens, by the codes of their languages."""
    ids_of_languages: dict[str, int] = {}
    for id_, added in backend.get_added_tokens_decoder().items():
        match = _TOKEN.fullmatch(added.content)
        if match and added.special and id_ > EOS_ID:
            ids_of_languages[match[1]] = id_
    return ids_of_languages


def begin_with(backend: tokenizers.Tokenizer, language: str) -> None:
    """Begin each text with the token of a language."""
    begin = token(language)
    special_tokens = [(begin, backend.token_to_id(begin))]
    backend.post_processor = processors.TemplateProcessing(single=f"{begin} $A", special_tokens=special_tokens)


def language_before(backend: tokenizers.Tokenizer) -> str | None:
    """The language whose token is before each text, and nothing else; None if there is none."""
    processor = json.loads(backend.to_str())["post_processor"]
    if not processor:
        return None
    for language in ids(backend):
        candidate = tokenizers.Tokenizer.from_str(backend.to_str())
        begin_with(candidate, language)
        if json.loads(candidate.to_str())["post_processor"] == processor:
            return language
    return None
