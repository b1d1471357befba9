"""The sections `data` and `tokenizer`: where pairs come from and how they become token ids."""

from pydantic import Field

from dragoman.config.section import Section


class DataConfig(Section):
    """Where the sentence pairs come from, and which are held out."""

    source: str | None = None
    """A TSV file, a source-side file, or builtin:grammar."""
    target: str | None = None
    """The target-side file, if the sides are in two files."""
    valid: list[str] = Field([], max_length=2)
    """Pairs to validate on, one or two files; empty: split off `source`, by source sentence."""
    test: list[str] = Field([], max_length=2)
    """Pairs to score at the end, one or two files; empty: split off `source`, by source sentence."""
    held_out: int | None = Field(None, ge=1)
    """Source sentences to split off for each of the two; empty: 5 % and at most 2,000."""
    max_length: int = Field(256, ge=4)
    """Pairs with more tokens than this on a side are left out of training."""


class TokenizerConfig(Section):
    """How text becomes token ids."""

    vocab_size: int | None = Field(None, ge=260)
    """Entries of the vocabulary, at most; empty: chosen from the number of pairs."""
    shared: bool = True
    """One vocabulary for both sides; false: one each."""
