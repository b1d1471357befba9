"""Checks that a tokenizer which strangers may have written keeps what `Tokenizer` promises."""

from dataclasses import dataclass
from typing import Self

import tokenizers

from dragoman.text.tokenizers import algorithms, hint_tokens, imported, target_tokens
from dragoman.text.tokenizers.algorithms import EOS_ID, SPECIAL_TOKENS, UNK_ID
from dragoman.text.tokenizers.byte_level import BYTES


@dataclass(frozen=True)
class Identity:
    """What a tokenizer is, as far as this version knows it."""

    kind: str | None
    """One of `dragoman.text.tokenizers.algorithms.KINDS`, or None."""
    is_own: bool
    """Whether it is as we train it, and not only as we import it."""

    @classmethod
    def of(cls, backend: tokenizers.Tokenizer) -> Self:
        """The identity of a backend, all of whose rules are compared, which takes some milliseconds."""
        own = algorithms.identify(backend)
        return cls(own or imported.identify(backend), own is not None)


def fault(backend: tokenizers.Tokenizer, identity: Identity | None = None) -> str | None:
    """The promise that a backend breaks, for error messages; None if it keeps all.

    Its `identity` is found again if it is not given.
    """
    identity = identity or Identity.of(backend)
    named = {*target_tokens.ids(backend).values(), *hint_tokens.ids(backend).values(), *hint_tokens.unread_ids(backend)}
    if not (imported.surroundings_are_known(backend) or target_tokens.language_before(backend)):
        return "cuts or pads every text, or puts something around it"
    if identity.kind is None:
        return f"is of no kind that this version knows ({', '.join(algorithms.KINDS)})"
    vocab = backend.get_vocab(with_added_tokens=True)
    added = backend.get_added_tokens_decoder()
    is_word = identity.kind == "word"
    expected = {id_: token for id_, token in enumerate(SPECIAL_TOKENS) if not (is_word and id_ == UNK_ID)}
    special = {id_: token.content for id_, token in added.items() if token.special and id_ not in named}
    if special != expected or vocab.get(SPECIAL_TOKENS[UNK_ID]) != UNK_ID:
        return f"does not have exactly the special tokens {' '.join(SPECIAL_TOKENS)} as 0 to 3"
    if any(token.lstrip or token.rstrip or token.single_word or token.normalized for token in added.values()):
        return "has symbols that do not stand for themselves alone"
    if sorted(vocab.values()) != list(range(len(vocab))):
        return f"does not number its {len(vocab)} tokens from 0 to {len(vocab) - 1}"
    symbols = {token.content for id_, token in added.items() if id_ > EOS_ID}
    letters = {*"".join(vocab.keys() - {*SPECIAL_TOKENS} - symbols)}
    spells_any_text = identity.is_own and not is_word
    is_misspelled = backend.decoder is not None and not letters <= BYTES.keys()
    if is_misspelled or (spells_any_text and not BYTES.keys() <= vocab.keys()):
        return "does not spell its tokens in the 256 bytes"
    return None
