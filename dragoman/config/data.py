"""The sections `data` and `tokenizer`: where pairs come from and how they become token ids."""

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from dragoman.config.section import Section
from dragoman.errors import redacted
from dragoman.system.urls import is_url, name_of

Column = Annotated[int, Field(ge=1)] | str


class CleaningConfig(Section):
    """Pairs that are left out of training besides those with an empty side or with damaged characters."""

    max_characters: int | None = Field(5_000, ge=1)
    """Longest side; null: any."""
    max_ratio: float | None = Field(6.0, gt=1)
    """Longest that a side may be, as a multiple of the other side with 10 characters more; null: any."""
    max_copied: int | None = Field(60, ge=0)
    """Longest text, in characters, that may be the same on both sides, as names and numbers are; null: any."""
    drop_repeated: bool = True
    """Keep only the first of equal pairs in a corpus."""
    check_languages: bool = False
    """Leave out pairs with a side that can hardly be in its language; the languages must be known."""
    max_overlap: float | None = Field(None, gt=0, le=1)
    """Largest share of the words of the shorter side that may be in the other side too, if it has 5 different words or
    more; 0.8 suits most languages; null: any."""
    models: tuple[str, str] | None = None
    """Two model directories, from source to target and back. Pairs that they find unlikely are left out last; empty:
    none are."""
    keep: float = Field(0.8, gt=0, lt=1)
    """With `models`: the share of the pairs that is kept, those with the best scores."""

    @model_validator(mode="after")
    def _has_models(self) -> Self:
        if self.keep != type(self).model_fields["keep"].get_default() and not self.models:
            raise ValueError("`keep` is a share of what two models have scored; set data.cleaning.models as well.")
        return self


def _norwegian(names: Any) -> Any:
    """Names of languages or columns; YAML 1.1 reads the code of Norwegian as a negation."""
    if isinstance(names, list | tuple):
        return ["no" if name is False else name for name in names]
    return names


class CorpusConfig(Section):
    """One of several corpora."""

    source: str
    """As in `data`."""
    target: str | None = None
    """As in `data`."""
    columns: tuple[Column, Column] | None = None
    """As in `data`."""
    languages: tuple[str, str] | None = None
    """As in `data`. If corpora have several, each source begins with a token of its target language."""
    language_column: Column | None = None
    """As in `data`."""
    valid: list[str] = Field([], max_length=2)
    """Pairs of these languages to validate on, as in `data`."""
    test: list[str] = Field([], max_length=2)
    """Pairs of these languages to score at the end, as in `data`."""
    weight: float = Field(1.0, gt=0, le=1_000)
    """How often each pair occurs in an epoch. With 1.5, half of the pairs occur twice; with 0.5, half of them once."""

    _codes = field_validator("languages", "columns", mode="before")(_norwegian)


class DataConfig(Section):
    """The files of sentence pairs, how they are read and cleaned, and which pairs are held out."""

    source: str | None = None
    """A file with pairs or with source sentences, its URL, hf:NAME or builtin:grammar; those of `train` come first."""
    target: str | None = None
    """The target-side file, if the sides are in two files."""
    corpora: list[CorpusConfig] = Field([])
    """Several corpora in place of `source`, each with `source`, `target` and `weight`, perhaps of other `languages`."""
    temperature: float | None = Field(None, ge=1)
    """Temperature T that mixes `corpora`: shares of an epoch grow with (weight * pairs)^(1/T), and the pairs that are
    repeated least occur once; empty: the weights alone say how often pairs occur."""
    languages: tuple[str, str] | None = None
    """Source and target language, such as [en, fr]; empty: those in the files, if there are two, or in their names."""
    columns: tuple[Column, Column] | None = None
    """Source and target column of .tsv, .csv and JSON: numbers from 1, or names; empty: found by what they hold."""
    language_column: Column | None = None
    """Column of .tsv, .csv and JSON with the target language of each pair, of which a model may learn several."""
    replace_bad_bytes: bool = False
    """Read bytes that are not UTF-8 as U+FFFD. Their pairs are then left out and counted. false: refuse such a file."""
    cleaning: CleaningConfig = CleaningConfig()
    """Pairs that are left out of training."""
    valid: list[str] = Field([], max_length=2)
    """Pairs to validate on, one or two files; empty: split off `source`."""
    test: list[str] = Field([], max_length=2)
    """Pairs to score at the end, one or two files; empty: split off `source`."""
    held_out: int | float | tuple[int | float, int | float] | None = None
    """Source sentences to split off for each of the two, or [validation, test]; a number below 1 is a share of all;
    empty: 5 % and at most 2,000."""
    split: Literal["sentence", "line"] = "sentence"
    """Split off source sentences with all their translations, or, which leaks, pairs one by one."""
    max_length: int = Field(256, ge=4)
    """Pairs with more tokens than this on a side are left out of training."""

    @field_validator("held_out", mode="before")
    @classmethod
    def _sizes(cls, held_out: Any) -> tuple[int | float, int | float] | None:
        if held_out is None:
            return None
        sizes = tuple(held_out) if isinstance(held_out, list | tuple) else (held_out, held_out)
        if len(sizes) != 2 or not all(map(_is_size, sizes)):
            raise ValueError(
                f"{held_out!r} is neither a whole number from 1 nor a share between 0 and 1, nor two of these, as in "
                "[0.2, 0.1]."
            )
        if sum(size for size in sizes if size < 1) >= 1:
            raise ValueError(f"{list(sizes)} are shares that leave nothing to train on; lower them.")
        return sizes

    _codes = field_validator("languages", "columns", mode="before")(_norwegian)

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if self.corpora and self.source:
            raise ValueError("`source` and `corpora` both say where the pairs come from; set one of them.")
        if self.target and not self.source:
            raise ValueError("`target` is the other side of `source`; set both.")
        return self

    @property
    def sources(self) -> list[CorpusConfig]:
        """The corpora, or `source` as the only one."""
        return self.corpora or [self._own(source=self.source or "", target=self.target)]

    def held_out_files(self, part: str) -> list[tuple[list[str], CorpusConfig]]:
        """The files of the part `valid` or `test`, each with the corpus whose languages and columns it has."""
        own = self._own(source="")
        return [(files, of) for of in (own, *self.corpora) if (files := getattr(self if of is own else of, part))]

    def _own(self, **sides: Any) -> CorpusConfig:
        return CorpusConfig(**sides, columns=self.columns, language_column=self.language_column)

    @property
    def holds_out_all(self) -> bool:
        """Whether there are files to validate and to test on, so that no pairs are split off."""
        return all(map(self.held_out_files, ("valid", "test")))

    @property
    def origin(self) -> str:
        """Names of the files that the pairs come from, without folders, such as "train.en and train.fr"."""
        corpora: list[tuple[str | None, str | None]] = [(corpus.source, corpus.target) for corpus in self.corpora]
        corpora = corpora or [(self.source, self.target)]
        names = (" and ".join(without_folders([name for name in sides if name])) for sides in corpora)
        return ", ".join(filter(None, names))


def without_folders(value: Any) -> Any:
    """Settings in which paths and URLs are reduced to file names, because folders and buckets are private."""
    return _changed(value, _name)


def without_secrets(value: Any) -> Any:
    """Settings with URLs as they may be kept: without passwords and signatures."""
    return _changed(value, redacted)


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _changed(each, change) for key, each in value.items()}
    if isinstance(value, list):
        return [_changed(each, change) for each in value]
    return change(value) if isinstance(value, str) else value


def _name(value: str) -> str:
    if is_url(value):
        return name_of(value)
    local = value.removeprefix("hf:")
    # A data set of the Hub has a public name, with a slash in it.
    return value if local != value and not local.startswith((".", "/", "~")) else Path(local).name


def _is_size(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value < 1 or (isinstance(value, int) and value >= 1)


class TokenizerConfig(Section):
    """How text becomes token ids."""

    kind: Literal["bpe", "unigram", "word", "char"] = "bpe"
    """Byte-pair encoding, a unigram model of pieces, whole words, or characters; all but `word` read every text."""
    vocab_size: int | None = Field(None, ge=260, le=1_000_000)
    """Entries of the vocabulary, at most; empty: chosen from the number of pairs."""
    min_frequency: int | None = Field(None, ge=2)
    """With `word`: words rarer than this have no entry, but train the unknown token; empty: none is left out."""
    pairs: list[str] = Field([], max_length=2)
    """Pairs to learn the vocabulary from, one or two files; empty: those to train on."""
    shared: bool = True
    """One vocabulary for both sides; false: one each."""
    standardisation: Literal["punctuation", "lowercase", "none"] | None = None
    """How `word` splits text: marks apart (empty: this), lower case without marks, or at spaces alone."""
    symbols: list[str] = Field([])
    """Each is one token wherever it stands, such as "<2de>": never split, and never made of anything else."""
    placeholders: bool | None = None
    """Copy {name}, %s, <b>, web addresses, numbers, acronyms, emoji and the like into the translation; empty: with
    every kind but `word`."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """With `bpe`, in training: probability that a merge is skipped, so that words are split anew in each epoch."""
    sampling_alpha: float | None = Field(None, gt=0, le=1_000)
    """With `unigram`, in training: words are split anew in each epoch, by probability to this power; empty: no."""

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
        fields = {"dropout": "bpe", "sampling_alpha": "unigram", "standardisation": "word", "min_frequency": "word"}
        for name, kind in fields.items():
            if getattr(self, name) and self.kind != kind:
                raise ValueError(f"`{name}` is for kind = {kind}, not for {self.kind}; set the one or leave the other.")
        if self.placeholders is None:
            # `word` puts spaces around what is copied.
            self.placeholders = self.kind != "word"
        return self
