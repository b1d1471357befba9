"""The sections `data` and `tokenizer`: where pairs come from, and how they become token ids."""

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
    """Rules for pairs that are left out of training, besides those with an empty side or with damaged characters."""

    max_characters: int | None = Field(5_000, ge=1)
    """Most characters of a side; null: any number."""
    max_ratio: float | None = Field(6.0, gt=1)
    """Most characters of a side, as a multiple of those of the other side plus 10; null: any number."""
    max_copied: int | None = Field(60, ge=0)
    """Most characters of a text that is the same on both sides, as names and numbers are; null: any number."""
    drop_repeated: bool = True
    """Keep only the first of equal pairs in a corpus."""
    check_languages: bool = False
    """Leave out pairs with a side that can hardly be in its language; the languages must be known."""
    max_overlap: float | None = Field(None, gt=0, le=1)
    """Largest share of the words of the shorter side that may be in the other side too, if it has 5 different words or
    more; 0.8 suits most languages; null: any."""
    models: tuple[str, str] | None = None
    """Two model directories, from source to target and back. Pairs that they find unlikely are left out; empty: none
    are."""
    keep: float = Field(0.8, gt=0, lt=1)
    """With `models`: the share of the pairs that is kept, those with the best scores."""

    @model_validator(mode="after")
    def _has_models(self) -> Self:
        if self.keep != type(self).model_fields["keep"].get_default() and not self.models:
            raise ValueError("`keep` is a share of what two models have scored; set data.cleaning.models as well.")
        return self


def with_norwegian(names: Any) -> Any:
    """One name of a language or column, or several, with "no" for False: YAML 1.1 reads the code of Norwegian as a
    negation.
    """
    if isinstance(names, list | tuple):
        return list(map(with_norwegian, names))
    return "no" if names is False else names


class CorpusConfig(Section):
    """One of several corpora."""

    source: str
    """The file of this corpus, as in `data`."""
    target: str | None = None
    """The target-side file, if the sides are in two files."""
    columns: tuple[Column, Column] | None = None
    """Source and target column, as in `data`."""
    languages: tuple[str, str] | None = None
    """Source and target language, as in `data`. If corpora have several targets, each source begins with a token of
    its target language."""
    language_column: Column | None = None
    """Column with the target language of each pair, as in `data`."""
    valid: list[str] = Field([], max_length=2)
    """Pairs of these languages to validate on, as in `data`."""
    test: list[str] = Field([], max_length=2)
    """Pairs of these languages to score at the end, as in `data`."""
    weight: float = Field(1.0, gt=0, le=1_000)
    """How often each pair occurs in an epoch. With 1.5, half of the pairs occur twice; with 0.5, half of them once."""

    _codes = field_validator("languages", "columns", "language_column", mode="before")(with_norwegian)


class DataConfig(Section):
    """The files of sentence pairs, how they are read and cleaned, and which pairs are held out."""

    source: str | None = None
    """A file with pairs or with source sentences, its URL, hf:NAME or builtin:grammar. Files after `train` replace
    it."""
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
    """Column of .tsv, .csv and JSON with the target language of each pair; a model may learn several languages."""
    replace_bad_bytes: bool = False
    """Read bytes that are not UTF-8 as U+FFFD. Their pairs are then left out and counted. false: refuse such a file."""
    cleaning: CleaningConfig = CleaningConfig()
    """Pairs that are left out of training."""
    valid: list[str] = Field([], max_length=2)
    """Pairs to validate on, one or two files; empty: split off `source`."""
    test: list[str] = Field([], max_length=2)
    """Pairs to score at the end, one or two files; empty: split off `source`."""
    held_out: int | float | tuple[int | float, int | float] | None = None
    """Source sentences to split off, as many to validate as to test on, or [validation, test]; a number below 1 is a
    share of all; empty: 5 % and at most 2,000."""
    split: Literal["sentence", "line", "groups"] = "sentence"
    """`sentence` splits off source sentences with all their translations; `line` splits off single pairs, so that
    sources of the test may also be trained on; `groups` splits off the same as `sentence`, and leaves out pairs that
    are nearly the same as a pair split off, on either side."""
    share: float = Field(1.0, gt=0, le=1)
    """Share of the training pairs to train on, drawn at random; the pairs that are held out are the same for any."""
    one_spelling: bool = True
    """Write the targets of a language in one spelling where they come in several: that of most pairs (of `valid`, if it
    is set). `train` finds the letters that differ. A language in two scripts, such as Serbian, gets one, and
    Chinese traditional or simplified characters. Sources in two scripts are read in one."""
    sketch: bool = True
    """Keep a sketch of the source sentences with the model, of at most 1 % of the size of the pairs: it tells which
    sentences were trained on, but no text can be read from it. `evaluate` and the confidence of translations use it."""
    max_length: int = Field(256, ge=4)
    """Pairs with more tokens than this on a side are left out of training."""

    @field_validator("held_out", mode="before")
    @classmethod
    def _two_sizes(cls, held_out: Any) -> tuple[int | float, int | float] | None:
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

    _codes = field_validator("languages", "columns", "language_column", mode="before")(with_norwegian)

    @model_validator(mode="after")
    def _has_one_origin(self) -> Self:
        if self.corpora and self.source:
            raise ValueError("`source` and `corpora` both say where the pairs come from; set one of them.")
        if self.share < 1 and self.temperature:
            raise ValueError("`share` is for corpora without a `temperature`, which decides how often pairs occur.")
        if self.share < 1 and any(corpus.weight > 1 for corpus in self.corpora):
            raise ValueError(
                "`share` is for corpora whose pairs occur once at most, and one has a `weight` above 1; set one of "
                "them."
            )
        if self.target and not self.source:
            raise ValueError("`target` is the other side of `source`; set both.")
        return self

    @property
    def sources(self) -> list[CorpusConfig]:
        """The corpora, or `source` as the only one, with the weights that follow from `share`."""
        corpora = self._corpora or [self._corpus(source=self.source or "", target=self.target)]
        if self.share == 1:
            return corpora
        return [corpus.model_copy(update={"weight": self.share * corpus.weight}) for corpus in corpora]

    def held_out_files(self, part: str) -> list[tuple[list[str], CorpusConfig]]:
        """The files of the part `valid` or `test`, each with the corpus whose languages and columns it has."""
        held_out: list[tuple[list[str], CorpusConfig]] = []
        if files := getattr(self, part):
            held_out.append((files, self._corpus(source="")))
        for corpus in self._corpora:
            if files := getattr(corpus, part):
                held_out.append((files, corpus))
        return held_out

    @property
    def _corpora(self) -> list[CorpusConfig]:
        """The corpora with the columns of this section, where they name none of their own."""
        return [
            corpus.model_copy(
                update={
                    "columns": corpus.columns or self.columns,
                    "language_column": corpus.language_column or self.language_column,
                }
            )
            for corpus in self.corpora
        ]

    def _corpus(self, **sides: Any) -> CorpusConfig:
        """A corpus with the columns of this section."""
        return CorpusConfig(**sides, columns=self.columns, language_column=self.language_column)

    @property
    def holds_out_all(self) -> bool:
        """Whether there are files to validate and to test on, so that no pairs are split off."""
        return all(map(self.held_out_files, ("valid", "test")))

    @property
    def origin(self) -> str:
        """Names of the files that the pairs come from, without folders, such as "train.en and train.fr"."""
        names = []
        for corpus in self.sources:
            files = [file for file in (corpus.source, corpus.target) if file]
            names.append(" and ".join(without_folders(files)))
        return ", ".join(filter(None, names))


def without_folders(value: Any) -> Any:
    """Settings in which paths and URLs are reduced to file names, because folders and buckets are private."""
    return _with_texts(value, _file_name)


def without_secrets(value: Any) -> Any:
    """Settings with URLs that may be stored: without passwords and signatures."""
    return _with_texts(value, redacted)


def _with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """The value with all texts changed that it is, or that dicts and lists in it have as values."""
    if isinstance(value, dict):
        return {key: _with_texts(entry, change) for key, entry in value.items()}
    if isinstance(value, list):
        return [_with_texts(entry, change) for entry in value]
    return change(value) if isinstance(value, str) else value


def _file_name(value: str) -> str:
    if is_url(value):
        return name_of(value)
    local = value.removeprefix("hf:")
    is_on_hub = local != value and not local.startswith((".", "/", "~"))
    # A data set of the Hub has a public name, with a slash in it.
    return value if is_on_hub else Path(local).name


def _is_size(value: Any) -> bool:
    """Whether a value is a share between 0 and 1, or a whole number from 1."""
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
    """With `word`: words rarer than this are not in the vocabulary, but train the unknown token; empty: all are in
    it."""
    pairs: list[str] = Field([], max_length=2)
    """Pairs to learn the vocabulary from, one or two files; empty: those to train on."""
    shared: bool = True
    """One vocabulary for both sides; false: one each."""
    standardisation: Literal["punctuation", "lowercase", "none"] | None = None
    """With `word`: `punctuation` splits marks off words, `lowercase` lowers case and deletes marks, `none` splits
    at spaces alone; empty: `punctuation`."""
    symbols: list[str] = Field([])
    """Texts that are one token wherever they stand, such as "<2de>": never split, and never made of other text."""
    placeholders: bool | None = None
    """Copy {name}, %s, <b>, web addresses, numbers, acronyms, emoji and the like into the translation; empty: yes,
    except with `word`."""
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
    def _are_usable(cls, symbols: list[str]) -> list[str]:
        symbols = [unicodedata.normalize("NFC", symbol) for symbol in symbols]
        for symbol in symbols:
            if len(symbol) < 2 or any(character.isspace() for character in symbol) or symbols.count(symbol) > 1:
                raise ValueError(f"{symbol!r} cannot be one: it has spaces, stands twice, or is only one character.")
        return symbols

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        fields = {"dropout": "bpe", "sampling_alpha": "unigram", "standardisation": "word", "min_frequency": "word"}
        for name, kind in fields.items():
            if getattr(self, name) and self.kind != kind:
                raise ValueError(f"`{name}` is for kind = {kind}, not for {self.kind}; set the one or leave the other.")
        if self.placeholders is None:
            # `word` puts spaces around what is copied.
            self.placeholders = self.kind != "word"
        return self
