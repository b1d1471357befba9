"""Tokens behind a source that say what follows them: hints, such as the translation of a similar sentence.

They are special tokens, never found in text: who types "<similar>" gets its characters. Decoding leaves them out.
"""

from collections.abc import Sequence

import tokenizers

from dragoman.errors import UsageError
from dragoman.text.tokenizers.algorithms import EOS_ID

SIMILAR = "<similar>"
"""The translation of a similar sentence follows."""
TERM = "<term>"
"""A term that the translation should contain follows, perhaps in another form."""
HINTS = SIMILAR, TERM


def add(backend: tokenizers.Tokenizer, hints: Sequence[str]) -> None:
    """Add these tokens, some of `HINTS`. Raises `UsageError` if a symbol of the user is one of them."""
    for hint in hints:
        if backend.token_to_id(hint) is not None:
            raise UsageError(f"`tokenizer.symbols` has {hint!r}, which models that read hints add; leave it out.")
    backend.add_special_tokens([*hints])


def ids(backend: tokenizers.Tokenizer) -> dict[str, int]:
    """The ids of these tokens, by their names; empty if the vocabulary has none."""
    return {
        added.content: id_
        for id_, added in backend.get_added_tokens_decoder().items()
        if added.special and id_ > EOS_ID and added.content in HINTS
    }
