"""The corpora that a config names, opened: pairs to train on, and those held out."""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from dragoman.config.data import CorpusConfig, DataConfig
from dragoman.data.bitext import Bitext, CleanedBitext, Corpus, OpenedBitext
from dragoman.errors import DataError, UsageError
from dragoman.text.identification import check_identifiable
from dragoman.text.labels import label
from dragoman.text.language_codes import Languages, plain_code


class _ConfiguredCorpus(NamedTuple):
    """A corpus of a config, opened."""

    config: CorpusConfig
    bitext: OpenedBitext
    languages: Languages | None
    """Source and target language of its pairs, unless they have labels; None if nothing tells them."""

    def label(self, labelled: bool) -> str | None:
        """The `Corpus.label`, which is "" unless corpora are `labelled`.

        Raises `DataError` if it needs one, but its languages are not known.
        """
        if self.config.language_column is not None:
            return None
        if not labelled:
            return ""
        if not self.languages:
            raise DataError(
                f"{self.bitext.name} does not say its languages; set `languages` of its corpus, or data.languages."
            )
        return label(*self.languages)


def open_corpora(data: DataConfig, *, labelled: bool = False) -> CleanedBitext:
    """All pairs that a config names, to be cleaned by its rules; the first corpus tells the languages of the others.

    If there are several pairs of languages, or if that is wanted, sources are labelled with them.
    """
    if data.temperature and not data.corpora:
        raise UsageError(
            "`data.temperature` says how often pairs of several `data.corpora` occur, and there are none; leave it out."
        )
    languages: Languages | None = data.languages
    opened: list[_ConfiguredCorpus] = []
    for config in data.sources:
        bitext = _open(data, config, [config.source, config.target], config.languages or languages)
        languages = languages or bitext.languages
        opened.append(_ConfiguredCorpus(config, bitext, config.languages or languages))
    if len({_plain(corpus.languages) for corpus in opened}) > 1 or any(
        corpus.config.language_column for corpus in opened
    ):
        labelled = True
    corpora = [Corpus(corpus.bitext, corpus.config.weight, corpus.label(labelled)) for corpus in opened]
    if data.cleaning.check_languages:
        for corpus in corpora:
            check_identifiable(corpus.languages if corpus.label is not None else (), corpus.bitext.name)
    return CleanedBitext(corpora, data.cleaning)


def _plain(languages: Languages | None) -> Languages | None:
    """Codes of languages as they are compared: en and eng are the same."""
    if languages is None:
        return None
    source, target = (code and plain_code(code) for code in languages)
    return source, target


def open_held_out(data: DataConfig, languages: Languages | None, *, labelled: bool = False) -> dict[str, Bitext]:
    """The pairs to validate on, `valid`, and to test on, `test`, as far as a config names files of them.

    `languages` are those of the training pairs, and `labelled` tells whether these have labels.
    """
    parts: dict[str, Bitext] = {}
    for part in ("valid", "test"):
        corpora: list[Corpus] = []
        for files, config in data.held_out_files(part):
            own_languages = config.languages or data.languages or languages
            bitext = _open_held_out(data, config, files, own_languages)
            opened = _ConfiguredCorpus(config, bitext, own_languages)
            corpora.append(Corpus(bitext, label=opened.label(labelled)))
        if len(corpora) == 1 and not labelled:
            parts[part] = corpora[0].bitext
        elif corpora:
            parts[part] = CleanedBitext(corpora)
    return parts


def _open_held_out(
    data: DataConfig, config: CorpusConfig, files: list[str], languages: Languages | None
) -> OpenedBitext:
    """Open held-out files of a corpus by its columns, or, where they have others, by what these hold."""
    if config.columns and len(files) == 1:
        with suppress(DataError):
            return _open(data, config, files, languages)
    return _open(data, config.model_copy(update={"columns": None}), files, languages)


def _open(
    data: DataConfig, config: CorpusConfig, files: Sequence[str | None], languages: Languages | None
) -> OpenedBitext:
    """Open one or two files as the config of their corpus says."""
    return Bitext.open(
        *files,
        languages=languages,
        columns=config.columns,
        language_column=config.language_column,
        replace_bad_bytes=data.replace_bad_bytes,
    )
