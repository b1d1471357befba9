"""Translations of a column of a table, batch by batch: for Ray Data, `datasets.map(batched=True)` and the like."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Unpack

from dragoman.config.decoding import DecodingOptions
from dragoman.decoding.translator import Translator
from dragoman.errors import UsageError
from dragoman.text.characters import one_line


class ColumnTranslator:
    """Adds a column of translations to the batches of a table.

    It can be sent to other processes: what is sent are the path of the model and the options, and each process loads
    the model with its first batch.
    """

    def __init__(
        self,
        model: str,
        column: str = "text",
        *,
        into: str = "translation",
        loading: dict[str, Any] | None = None,
        **options: Unpack[DecodingOptions],
    ):
        """`loading` are keyword arguments of `Translator.load`, and `options` those of `Translator.translate`.

        Raises `UsageError` for options that ask for more than a column of texts.
        """
        usual = {"n_best": 1, "alignments": False, "confidence": False, "checks": False}
        for name, value in usual.items():
            if options.get(name, value) != value:
                raise UsageError(f"A column has one text in each row; leave out `{name}`.")
        self.model, self.column, self.into = str(model), column, into
        self.loading, self.options = loading or {}, options

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "translator"}

    @cached_property
    def translator(self) -> Translator:
        """The model in this process."""
        return Translator.load(self.model, **self.loading)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of a batch and the translations, each as one line; the translation of None is None."""
        texts = list(batch[self.column])
        column: list[str | None] = [None] * len(texts)
        rows = [row for row, text in enumerate(texts) if text is not None]
        translations = self.translator.translate([texts[row] for row in rows], **self.options)
        for row, translation in zip(rows, translations, strict=True):
            column[row] = one_line(translation.text)
        return {**batch, self.into: column}
