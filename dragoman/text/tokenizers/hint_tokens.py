"""Tokens behind a source that say what follows them: hints, such as the translation of a similar sentence.

They are special tokens, never found in text: who types "<similar>" gets its characters. Decoding leaves them out.
"""

import json
from collections.abc import Collection, Sequence

import tokenizers

from dragoman.errors import UsageError
from dragoman.text.tokenizers.algorithms import EOS_ID

SIMILAR = "<similar>"
"""The translation of a similar sentence follows."""
TERM = "<term>"
"""A term that the translation should contain follows, perhaps in another form."""
HINTS = SIMILAR, TERM
_UNREAD = {hint: f"<unread {hint[1:]}" for hint in HINTS}
"""Tokens in their places in vocabularies of models that were not trained to read such hints."""


def add(backend: tokenizers.Tokenizer, hints: Sequence[str]) -> None:
    """Add these tokens, some of `HINTS`. Raises `UsageError` if a symbol of the user is one of them."""
    for hint in hints:
        if backend.token_to_id(hint) is not None:
            raise UsageError(f"`tokenizer.symbols` has {hint!r}, which models that read hints add; leave it out.")
    backend.add_special_tokens([*hints])


def ids(backend: tokenizers.Tokenizer) -> dict[str, int]:
    """The ids of these tokens, by their names; empty if the vocabulary has none."""
    return _ids_of(HINTS, backend)


def unread_ids(backend: tokenizers.Tokenizer) -> list[int]:
    """The ids of the tokens that `without` left."""
    return list(_ids_of(_UNREAD.values(), backend).values())


def without(hints: Collection[str], content: str) -> str:
    """A tokenizer as JSON without some of these tokens, in whose places others stand that are never used."""
    tokenizer = json.loads(content)
    for token in tokenizer["added_tokens"]:
        if token["special"] and token["id"] > EOS_ID and token["content"] in hints:
            token["content"] = _UNREAD[token["content"]]
    return json.dumps(tokenizer)


def _ids_of(names: Collection[str], backend: tokenizers.Tokenizer) -> dict[str, int]:
    added_tokens = backend.get_added_tokens_decoder().items()
    return {
        added.content: id_ for id_, added in added_tokens if added.special and id_ > EOS_ID and added.content in names
    }
