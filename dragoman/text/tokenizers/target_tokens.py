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
    for each in map(token, languages):
        if backend.token_to_id(each) is not None:
            raise UsageError(f"`tokenizer.symbols` has {each!r}, which `languages` of the corpora add; leave it out.")
    backend.add_special_tokens([*map(token, languages)])


def ids(backend: tokenizers.Tokenizer) -> dict[str, int]:
    """The ids of these tokens, by the codes of their languages."""
    added = backend.get_added_tokens_decoder().items()
    found = ((_TOKEN.fullmatch(each.content), id_) for id_, each in added if each.special and id_ > EOS_ID)
    return {match[1]: id_ for match, id_ in found if match}


def begin_with(backend: tokenizers.Tokenizer, language: str) -> None:
    """Begin each text with the token of a language."""
    begin = token(language)
    single = f"{begin} $A"
    backend.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[(begin, backend.token_to_id(begin))]
    )


def language_before(backend: tokenizers.Tokenizer) -> str | None:
    """The language whose token is before each text, and nothing else; None if there is none."""
    processor = json.loads(backend.to_str())["post_processor"]
    for language in ids(backend) if processor else ():
        blank = tokenizers.Tokenizer.from_str(backend.to_str())
        begin_with(blank, language)
        if json.loads(blank.to_str())["post_processor"] == processor:
            return language
    return None
