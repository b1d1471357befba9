"""Reads a model directory: config.json, the tokenizers, and the weights as arrays. Needs no torch.

Files are verified when they are read: the weights file has checksums of itself, of the tokenizers and of the
architecture, so that damaged files, and files of different models, are refused.
"""

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, Self, TypeVar

import numpy as np

from dragoman.config.decoding import DecodingConfig
from dragoman.engine import parameters
from dragoman.errors import DataError, UnverifiedModel, UsageError
from dragoman.model.config import TransformerConfig
from dragoman.storage.adapter import with_adapter
from dragoman.storage.validate import (
    DIRECTIONS,
    INT8_BLEU,
    LANGUAGES,
    STYLE,
    TOKENIZERS,
    WEIGHTS,
    TextFiles,
    check_files,
    decoding_defaults,
    file_state,
    verify,
)
from dragoman.storage.weights_file import read_weights
from dragoman.text.characters import normalised
from dragoman.text.labels import only, several_languages
from dragoman.text.language_codes import known_language, same_language, standard_code
from dragoman.text.preprocessing import Preprocessor, SourceStyle, labelled_sides
from dragoman.text.tokenizers.placeholders import Prepared
from dragoman.text.tokenizers.pretrained import tokenizer_of
from dragoman.text.tokenizers.tokenizer import Tokenizer

REPLACING = 0.1
"""Seconds in which another process replaces the files of a model. If they do not fit after that, they are damaged."""
M = TypeVar("M")


@dataclass
class Directory(Generic[M]):
    """Content of a model directory: all that is needed to translate raw text, with the model in some form."""

    model: M
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    source_language: str | None = None
    target_language: str | None = None
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    """Search that the model was scored with, and that it translates with by default."""
    style: SourceStyle = field(default_factory=SourceStyle)
    """How sources are written, such as which words begin with a capital."""
    directions: Sequence[tuple[str | None, str]] = ()
    """(source, target) languages of a model that was trained on several pairs of languages."""
    int8_bleu: float | None = None
    """BLEU of an imported model in eight bits against itself in float32; None: not measured."""

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Source and target tokenizer."""
        return self.source_tokenizer, self.target_tokenizer

    @property
    def preprocessor(self) -> Preprocessor:
        """Preprocessor that turns a sentence into the text that the source tokenizer reads."""
        return Preprocessor(
            self.style,
            self.source_tokenizer,
            self.languages,
            target_tokenizer=self.target_tokenizer,
            directions=self.directions,
        )

    def speaking(self, source: str | None, target: str | None) -> Self:
        """The same model set to other languages that it knows; None: the language stays as it is.

        Codes may be of any style: de, deu and deu_Latn are the same. Raises `UsageError` for unknown languages.
        """
        if self.directions:
            source, target = source_language, target_language = self._direction(source, target)
        else:
            source_language = standard_code(source) if source else self.source_language
            target_language = standard_code(target) if target else self.target_language
        source_tokenizer, target_tokenizer = self._tokenizers_speaking(source, target)
        decoding = self.decoding
        if decoding.min_ratio is None and (least := decoding.least(target_language)):
            decoding = decoding.with_options({"min_ratio": least[0], "min_slack": least[1]})
        return replace(
            self,
            decoding=decoding,
            source_tokenizer=source_tokenizer,
            target_tokenizer=target_tokenizer,
            source_language=source_language,
            target_language=target_language,
        )

    def open_to_labels(self, directions: Sequence[tuple[str | None, str]]) -> Self:
        """The same model for sources with labels of these directions: a model of many languages set to none of them."""
        source, target = self.tokenizers
        opened = source.open_to_labels()
        return replace(
            self,
            source_tokenizer=opened,
            target_tokenizer=opened if source is target else target.open_to_labels(),
            source_language=only(source for source, _ in directions),
            target_language=only(target for _, target in directions),
            directions=directions,
        )

    def _tokenizers_speaking(self, source: str | None, target: str | None) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizers set to other languages."""
        of_source, of_target = self.tokenizers
        if self.directions and of_source.targets:
            return of_source.speaking(target) if target else of_source, of_target
        if of_source.tagged:  # a tag of the target language stands before each source
            return _set_language(of_source, target, self.source_language), of_target
        return (
            _set_language(of_source, source, self.source_language),
            _set_language(of_target, target, self.target_language),
        )

    def _direction(self, source: str | None, target: str | None) -> tuple[str | None, str | None]:
        """These languages, or those that this model is set to, as the pairs that it was trained on spell them."""
        sources = [code for code, _ in self.directions if code]
        targets = [code for _, code in self.directions if code]
        if source and sources:
            source = known_language(source, sources)
        return source or self.source_language, known_language(target, targets) if target else self.target_language

    def require_languages(self, *, for_good: bool = False) -> None:
        """Raise `UsageError` if a model of many languages is not set to the languages to translate between.

        They may stay open if each text can name them by a tag or a label, unless they have to be set `for_good`.
        """
        if self.directions:
            if for_good and (not self.target_language or any(labelled_sides(*self.tokenizers))):
                raise UsageError(several_languages(self.directions, self.target_language))
            return
        for side, tokenizer in zip(("source", "target"), self.tokenizers, strict=True):
            if tokenizer.languages and not tokenizer.language and (for_good or not tokenizer.tagged):
                side = "target" if tokenizer.tagged else side
                raise UsageError(
                    f"This model has {len(tokenizer.languages)} languages; say the {side} language with --from and "
                    f"--to, or in training data.languages=[en,de]: {', '.join(list(tokenizer.languages)[:8])}, ..."
                )

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Source and target language."""
        return self.source_language, self.target_language

    def tokenize(self, text: str, *, target: bool = False) -> tuple[list[str], list[int]]:
        """The tokens of a text as the model reads them, and their ids.

        A token in brackets is a placeholder: its text is copied into the translation.
        """
        tokenizer = self.tokenizers[target]
        prepared = Prepared(normalised(text)) if target else self.preprocessor(text)
        ids = tokenizer.encode(prepared.text)
        copied = {id_: f"[{value}]" for id_, value in zip(tokenizer.slots, prepared.values, strict=False)}
        return [copied.get(id_, piece) for id_, piece in zip(ids, tokenizer.pieces(ids), strict=True)], ids

    @classmethod
    def load(cls, path: Path, *, adapter: Path | None = None) -> Self:
        """Read a model directory, with the changes of an adapter.

        Raises `DataError` if it is missing, damaged, mixed or of another version, or if the adapter belongs to another
        model. If a training replaces the files meanwhile, those of the old model or those of the new one are read.
        """
        state = file_state(path)
        while True:
            try:
                return cls._load(path, adapter)
            except DataError:
                time.sleep(REPLACING)
                before, state = state, file_state(path)
                if before == state:
                    raise

    @classmethod
    def _load(cls, path: Path, adapter: Path | None) -> Self:
        config, architecture = check_files(path)
        texts = TextFiles.read(path, config)
        stored_weights = read_weights(path / WEIGHTS)
        verify(path, texts.sums | {WEIGHTS: stored_weights.checksum}, stored_weights.sums)
        source, target = (config[key] for key in TOKENIZERS)
        source_tokenizer = tokenizer_of(texts.contents[source], path / source)
        target_tokenizer = source_tokenizer if source == target else tokenizer_of(texts.contents[target], path / target)
        _check_tokenizer("source", source_tokenizer, architecture, architecture.source_vocab_size, path)
        _check_tokenizer("target", target_tokenizer, architecture, architecture.target_vocab_size, path)
        decoding = decoding_defaults(path, config)
        weights = parameters.restored(stored_weights.arrays)
        parameters.check(architecture, weights, origin=path / WEIGHTS)
        int8_bleu = config.get(INT8_BLEU)
        if adapter:
            adapted = with_adapter(weights, adapter)
            weights, int8_bleu = adapted.weights, adapted.int8_bleu
        style = SourceStyle()
        if config[STYLE]:
            style = SourceStyle.from_json(texts.contents[config[STYLE]], path / config[STYLE])
        if not stored_weights.sums:
            warnings.warn(
                f"{path} has no checksums, so nobody can say whether it is whole: {WEIGHTS} was not written by this "
                "version of Dragoman.",
                UnverifiedModel,
                stacklevel=4,
            )
        source_language, target_language = (config[key] for key in LANGUAGES)
        return cls(
            cls._model_of(architecture, weights),
            source_tokenizer,
            target_tokenizer,
            source_language,
            target_language,
            decoding,
            style,
            [(source, target) for source, target in config.get(DIRECTIONS, [])],
            int8_bleu,
        )

    @classmethod
    def _model_of(cls, architecture: TransformerConfig, weights: dict[str, np.ndarray]) -> M:
        """The model in the form that this class has it in. It may keep the arrays, which are float32."""
        raise NotImplementedError


@dataclass(frozen=True)
class ModelArrays:
    """A model as its architecture and its weights, float32 arrays by name (`dragoman.engine.parameters.shapes`)."""

    config: TransformerConfig
    weights: Mapping[str, np.ndarray]


class ArrayDirectory(Directory[ModelArrays]):
    """A model directory without torch, for translating."""

    @classmethod
    def _model_of(cls, architecture: TransformerConfig, weights: dict[str, np.ndarray]) -> ModelArrays:
        return ModelArrays(architecture, weights)


def _check_tokenizer(side: str, tokenizer: Tokenizer, architecture: TransformerConfig, size: int, path: Path) -> None:
    """Raise `DataError` if vocabulary size or special tokens of a tokenizer are not those of the architecture."""
    if tokenizer.vocab_size != size:
        raise DataError(
            f"The {side} tokenizer in {path} has {tokenizer.vocab_size} entries, but the model {size}: "
            "the files are of two different models; copy the whole folder again."
        )
    for name in ("pad", "bos", "eos"):
        ours, theirs = getattr(tokenizer.special_ids, name), getattr(architecture, f"{name}_id")
        if ours != theirs:
            raise DataError(
                f"{path / 'config.json'}: `{name}_id` is {theirs}, but the {side} tokenizer has this token as "
                f"{ours}; copy the model again."
            )


def _set_language(tokenizer: Tokenizer, language: str | None, only_language: str | None) -> Tokenizer:
    """The tokenizer set to a language; `only_language` is that of the model if the tokenizer has no others."""
    if language is None:
        return tokenizer
    if not tokenizer.languages:
        if only_language and not same_language(language, only_language):
            raise UsageError(
                f"This model has '{only_language}' where '{language}' is asked for, and no other language."
            )
        return tokenizer
    return tokenizer.speaking(known_language(language, tokenizer.languages))
