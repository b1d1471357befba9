"""Reads and writes model directories: config.json, the tokenizers and model.safetensors.

The files are written at once, and verified when they are read. The weights file has checksums of itself, of the
tokenizers and of the architecture, so that damaged files, and files of different models, are refused.
"""

import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save
from torch import Tensor
from torch.overrides import TorchFunctionMode

from dragoman.config.decoding import DecodingConfig
from dragoman.errors import DataError, UnverifiedModel, UsageError
from dragoman.model import Transformer, TransformerConfig
from dragoman.model.fast.int8_linear import with_quantised_matrices, with_restored_matrices
from dragoman.storage.validate import (
    DIRECTIONS,
    FORMAT,
    LANGUAGES,
    STYLE,
    TOKENIZERS,
    WEIGHTS,
    TextFiles,
    check_files,
    config_checksum,
    decoding_defaults,
    file_state,
    verify,
)
from dragoman.storage.weights_file import HEADER, SUMS, header_checksum, opened
from dragoman.system.atomic import write_files
from dragoman.system.ranks import sharded_like
from dragoman.system.seals import checksum
from dragoman.text.characters import normalised
from dragoman.text.labels import several_targets
from dragoman.text.language_codes import known_language, same_language, standard_code
from dragoman.text.preprocessing import Preprocessor, SourceStyle
from dragoman.text.tokenizers.placeholders import Prepared
from dragoman.text.tokenizers.pretrained import tokenizer_of
from dragoman.text.tokenizers.tokenizer import Tokenizer

REPLACING = 0.1
"""Seconds in which another process replaces the files of a model. If they do not fit after that, they are damaged."""
NUMBERS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
"""Formats that weights may have."""
DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
}  # fmt: skip
"""Types of torch by the names that a weights file has for them."""


@dataclass
class ModelDirectory:
    """Content of a model directory: all that is needed to translate raw text."""

    model: Transformer
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

    def save(self, path: Path, *, int8: bool = False) -> None:
        """Write config.json, the tokenizers and model.safetensors, which replace those of another model at once.

        With `int8`, matrices are rounded to eight bits, which takes a quarter of the space.
        """
        path.mkdir(parents=True, exist_ok=True)
        if self.source_tokenizer is self.target_tokenizer:
            source_name = target_name = "tokenizer.json"
        else:
            source_name, target_name = "source_tokenizer.json", "target_tokenizer.json"
        files = {source_name: self.source_tokenizer.to_json().encode()}
        if target_name != source_name:
            files[target_name] = self.target_tokenizer.to_json().encode()
        style_name = None
        if self.style != SourceStyle():
            style_name = "source_style.json"
            files[style_name] = self.style.model_dump_json().encode()
        config = {
            "format": FORMAT,
            "source_language": self.source_language,
            "target_language": self.target_language,
            **({DIRECTIONS: self.directions} if self.directions else {}),
            "source_tokenizer": source_name,
            "target_tokenizer": target_name,
            STYLE: style_name,
            "decoding": self.decoding.model_dump(mode="json", exclude_none=True, exclude={"max_tokens"}),
            "model": self.model.config.to_dict(),
        }
        sums = {name: checksum(content) for name, content in files.items()} | config_checksum(config)
        files[WEIGHTS] = weights_file(self.model, sums, int8=int8)
        # Written last: a folder with a config is a whole model, even if the process ends between two files.
        files["config.json"] = (json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode()
        write_files({path / name: content for name, content in files.items()})

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Source and target tokenizer."""
        return self.source_tokenizer, self.target_tokenizer

    @property
    def preprocessor(self) -> Preprocessor:
        """Preprocessor that turns a sentence into the text that the source tokenizer reads."""
        return Preprocessor(self.style, self.source_tokenizer, (self.source_language, self.target_language))

    def speaking(self, source: str | None, target: str | None) -> "ModelDirectory":
        """The same model set to other languages that it knows; None: the language stays as it is.

        Codes may be of any style: de, deu and deu_Latn are the same. Raises `UsageError` for unknown languages.
        """
        if self.directions:
            return self._in_direction(source, target)
        if self.source_tokenizer.tagged:  # a tag of the target language stands before each source
            source_tokenizer = _set_language(self.source_tokenizer, target, self.source_language)
            target_tokenizer = self.target_tokenizer
        else:
            source_tokenizer = _set_language(self.source_tokenizer, source, self.source_language)
            target_tokenizer = _set_language(self.target_tokenizer, target, self.target_language)
        source_language = standard_code(source) if source else self.source_language
        target_language = standard_code(target) if target else self.target_language
        return ModelDirectory(
            self.model,
            source_tokenizer,
            target_tokenizer,
            source_language,
            target_language,
            self.decoding,
            self.style,
        )

    def _in_direction(self, source: str | None, target: str | None) -> "ModelDirectory":
        """`speaking` for a model that was trained on several pairs of languages."""
        sources = [code for code, _ in self.directions if code]
        targets = [code for _, code in self.directions if code]
        if source and sources:
            source = known_language(source, sources)
        source = source or self.source_language
        target = known_language(target, targets) if target else self.target_language
        tokenizer = self.source_tokenizer
        if target and tokenizer.targets:
            tokenizer = tokenizer.speaking(target)
        return replace(self, source_tokenizer=tokenizer, source_language=source, target_language=target)

    def require_languages(self, *, for_good: bool = False) -> None:
        """Raise `UsageError` if a model of many languages is not set to the languages to translate between.

        The target may stay open if each text can name it by a tag or a label, unless it has to be set `for_good`.
        """
        if self.directions:
            if for_good and not self.target_language:
                raise UsageError(several_targets(self.directions))
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
    def load(cls, path: Path, *, device: torch.device | str = "cpu") -> "ModelDirectory":
        """Read a model directory. Raises `DataError` if it is missing, damaged, mixed or of another version.

        If a training replaces the files meanwhile, those of the old model or those of the new one are read.
        """
        state = file_state(path)
        while True:
            try:
                return cls._load(path, device)
            except DataError:
                time.sleep(REPLACING)
                before, state = state, file_state(path)
                if before == state:
                    raise

    @classmethod
    def _load(cls, path: Path, device: torch.device | str) -> "ModelDirectory":
        config, architecture = check_files(path)
        texts = TextFiles.read(path, config)
        stored_weights = _read_weights(path / WEIGHTS)
        verify(path, texts.sums | {WEIGHTS: stored_weights.checksum}, stored_weights.sums)
        source, target = (config[key] for key in TOKENIZERS)
        source_tokenizer = tokenizer_of(texts.contents[source], path / source)
        target_tokenizer = source_tokenizer if source == target else tokenizer_of(texts.contents[target], path / target)
        _check_tokenizer("source", source_tokenizer, architecture, architecture.source_vocab_size, path)
        _check_tokenizer("target", target_tokenizer, architecture, architecture.target_vocab_size, path)
        decoding = decoding_defaults(path, config)
        weights = with_restored_matrices(stored_weights.tensors)
        model = with_weights(architecture, weights, origin=path / WEIGHTS, in_place=True)
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
            model.to(device).eval(),
            source_tokenizer,
            target_tokenizer,
            source_language,
            target_language,
            decoding,
            style,
            [(source, target) for source, target in config.get(DIRECTIONS, [])],
        )


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


class _StoredWeights(NamedTuple):
    """Content of a weights file."""

    tensors: dict[str, Tensor]
    """Each tensor has memory of its own."""
    checksum: str
    """Checksum of the tensors as they were read."""
    sums: dict[str, str]
    """Checksums that the file names for itself and the other files; empty in files without them."""


def _read_weights(path: Path) -> _StoredWeights:
    tensors = {}
    total = ""
    with opened(path) as (file, header):
        for entry in header.tensors:
            tensor = torch.empty(entry.shape, dtype=DTYPES[entry.dtype])
            content = tensor.reshape(-1).view(torch.uint8).numpy().data
            if file.readinto(content) != entry.size:
                raise ValueError(f"'{entry.name}' ends too early")
            total = checksum(content, total)
            tensors[entry.name] = tensor
    return _StoredWeights(tensors, total or checksum(b""), header.sums)


def with_weights(
    architecture: TransformerConfig, weights: dict[str, Tensor], *, origin: Path, in_place: bool = False
) -> Transformer:
    """A model with these weights. Raises `DataError` as `check_weights` does.

    With `in_place`, the model takes the tensors themselves out of `weights`, instead of copies.
    """
    with _Uninitialised():
        with torch.device("meta"):
            # Before any memory is allocated: the sizes in a stranger's config may be huge.
            check_weights(weights, Transformer(architecture), origin=origin)
        model = Transformer(architecture)
    if not in_place:
        _copy(weights, model)
        return model
    for name, parameter in model.named_parameters():
        parameter.data = weights.pop(name).to(parameter.dtype)
    return model


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


class _Uninitialised(TorchFunctionMode):
    """Skips the random initialisation of modules, and runs `torch.arange` on the CPU.

    On the device "meta", both would import sympy, which takes a second.
    """

    def __torch_function__(self, function: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        device = {"device": "cpu"} if function is torch.arange else {}
        if function.__name__ not in ("normal_", "uniform_", "kaiming_uniform_"):
            return function(*args, **(kwargs or {}) | device)


def weights_file(model: Transformer, sums: dict[str, str], *, int8: bool = False) -> bytes:
    """The content of model.safetensors: each tensor once, and the checksums of the tensors and of other files.

    `sums` are the checksums of the other files. With `int8`, matrices are rounded to eight bits.
    """
    tensors = stored_tensors(dict(model.named_parameters()))
    if int8:
        tensors = with_quantised_matrices(tensors)
    content = memoryview(save(tensors))
    begin = 8 + int.from_bytes(content[:8], "little")
    header = header_checksum(json.loads(bytes(content[8:begin])))
    sums = sums | {WEIGHTS: checksum(content[begin:]), HEADER: header}
    return save(tensors, metadata={SUMS: json.dumps(sums)})


def copy_weights(weights: dict[str, Tensor], model: Transformer, *, origin: Path) -> None:
    """Copy `weights` into `model`. Raises `DataError` as `check_weights` does, before anything is copied."""
    check_weights(weights, model, origin=origin)
    _copy(weights, model)


def check_weights(weights: dict[str, Tensor], model: Transformer, *, origin: Path) -> None:
    """Raise `DataError` that names a weight which is missing, superfluous, misshapen or not a finite number."""
    parameters = dict(model.named_parameters())
    if missing := sorted(parameters.keys() - weights.keys()):
        raise DataError(f"{origin} lacks the weights '{missing[0]}' that config.json asks for; copy the model again.")
    if extra := sorted(weights.keys() - parameters.keys()):
        raise DataError(f"{origin} has the weights '{extra[0]}' that config.json does not know; copy the model again.")
    for name, parameter in parameters.items():
        if weights[name].shape != parameter.shape:
            raise DataError(
                f"{origin} has '{name}' of shape {tuple(weights[name].shape)}, but config.json describes "
                f"{tuple(parameter.shape)}; the two files belong to different models."
            )
        if weights[name].dtype not in NUMBERS or not weights[name].isfinite().all():
            raise DataError(f"{origin} has weights '{name}' that are no finite numbers; train or copy the model again.")


@torch.no_grad()
def _copy(weights: dict[str, Tensor], model: Transformer) -> None:
    for name, parameter in model.named_parameters():
        parameter.copy_(sharded_like(weights[name], parameter))


def stored_tensors(named: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as safetensors requires them: without gradient, on the CPU, contiguous."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in named.items()}
