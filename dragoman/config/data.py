"""The sections `data` and `tokenizer`: where pairs come from and how they become token ids."""

import unicodedata
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

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

    kind: Literal["bpe", "unigram", "word", "char"] = "bpe"
    """Byte-pair encoding, a unigram model of pieces, whole words, or characters; all but `word` read every text."""
    vocab_size: int | None = Field(None, ge=260)
    """Entries of the vocabulary, at most; empty: chosen from the number of pairs."""
    shared: bool = True
    """One vocabulary for both sides; false: one each."""
    standardisation: Literal["punctuation", "lowercase", "none"] | None = None
    """How `word` finds words: marks apart (empty: this), lower case without marks, or whatever spaces separate."""
    symbols: list[str] = Field([])
    """Each is one token wherever it stands, such as "<2de>": never split, and never made of anything else."""
    placeholders: bool = False
    """Keep {name}, %s, <b>, &nbsp;, web addresses and the like whole, and copy them into the translation."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Of `bpe`, in training: the chance that a merge is passed over, so that words are split anew in each epoch."""
    sampling_alpha: float | None = Field(None, gt=0)
    """Of `unigram`, in training: words are split anew in each epoch, by probability to this power; empty: no."""

    @property
    def samples(self) -> bool:
        """Whether each epoch splits words anew."""
        return self.dropout > 0 or self.sampling_alpha is not None

    @field_validator("symbols")
    @classmethod
    def _usable(cls, symbols: list[str]) -> list[str]:
        symbols = [unicodedata.normalize("NFC", symbol) for symbol in symbols]
        for symbol in symbols:
            if len(symbol) < 2 or any(character.isspace() for character in symbol) or symbols.count(symbol) > 1:
                raise ValueError(f"{symbol!r} cannot be one: it has spaces, stands twice, or is only one character.")
        return symbols

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        fields = {"dropout": "bpe", "sampling_alpha": "unigram", "standardisation": "word"}
        for name, kind in fields.items():
            if getattr(self, name) and self.kind != kind:
                raise ValueError(f"`{name}` is for kind = {kind}, not for {self.kind}; set the one or leave the other.")
        return self
