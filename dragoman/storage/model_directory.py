"""The model directory: config.json, the tokenizers and model.safetensors, written at once and verified.

The weights file carries checksums of itself, of the tokenizers and of the architecture, so that files of different
models, and damaged ones, are refused.
"""

import json
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor
from torch.overrides import TorchFunctionMode

from dragoman.config.decoding import DecodingConfig
from dragoman.errors import DataError, UnverifiedModel, UsageError
from dragoman.model import Transformer, TransformerConfig
from dragoman.model.fast.int8_linear import restored, stored
from dragoman.storage.validate import (
    DIRECTIONS,
    FORMAT,
    LANGUAGES,
    STYLE,
    TOKENIZERS,
    WEIGHTS,
    TextFiles,
    check_files,
    checksum,
    config_checksum,
    decoding_defaults,
    file_state,
    verify,
)
from dragoman.storage.weights_file import HEADER, SUMS, header_checksum, opened
from dragoman.system.atomic import write_files
from dragoman.system.ranks import sharded_like
from dragoman.text.characters import normalised
from dragoman.text.labels import several_targets
from dragoman.text.language_codes import known_language, same_language, standard_code
from dragoman.text.preprocessing import Preprocessor, SourceStyle
from dragoman.text.tokenizers.placeholders import Prepared
from dragoman.text.tokenizers.pretrained import tokenizer_of
from dragoman.text.tokenizers.tokenizer import Tokenizer

REPLACING = 0.1
"""Seconds in which the files of a model are replaced; what does not fit together then is damage."""
NUMBERS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
"""Formats that weights may have."""
DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
}  # fmt: skip
"""Formats of numbers as a weights file calls them."""


@dataclass
class ModelDirectory:
    """Content of a model directory: everything that turns raw text into its translation."""

    model: Transformer
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    source_language: str | None = None
    target_language: str | None = None
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    """The search that the model was scored with, and translates with unless told otherwise."""
    style: SourceStyle = field(default_factory=SourceStyle)
    directions: Sequence[tuple[str | None, str]] = ()
    """Source and target languages of a model that was trained on several pairs of them."""

    def save(self, path: Path, *, int8: bool = False) -> None:
        """Write config.json, the tokenizers and model.safetensors, which replace those of another model at once.

        With `int8`, matrices are rounded to eight bits, in a quarter of the room.
        """
        path.mkdir(parents=True, exist_ok=True)
        shared = self.source_tokenizer is self.target_tokenizer
        names = ("tokenizer.json",) * 2 if shared else ("source_tokenizer.json", "target_tokenizer.json")
        sides = dict(zip(names, self.tokenizers, strict=True))
        files = {name: tokenizer.to_json().encode() for name, tokenizer in sides.items()}
        style = "source_style.json" if self.style != SourceStyle() else None
        if style:
            files[style] = self.style.model_dump_json().encode()
        config = {
            "format": FORMAT,
            "source_language": self.source_language,
            "target_language": self.target_language,
            **({DIRECTIONS: self.directions} if self.directions else {}),
            "source_tokenizer": names[0],
            "target_tokenizer": names[1],
            STYLE: style,
            "decoding": self.decoding.model_dump(mode="json", exclude_none=True, exclude={"max_tokens"}),
            "model": self.model.config.to_dict(),
        }
        sums = {name: checksum(content) for name, content in files.items()} | config_checksum(config)
        files[WEIGHTS] = weights_file(self.model, sums, int8=int8)
        # Last: a folder with a config is a model, also if the process ends between two files.
        files["config.json"] = (json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode()
        write_files({path / name: content for name, content in files.items()})

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Source and target tokenizer."""
        return self.source_tokenizer, self.target_tokenizer

    @property
    def preprocessor(self) -> Preprocessor:
        """What prepares sentences for the model."""
        return Preprocessor(self.style, self.source_tokenizer, (self.source_language, self.target_language))

    def speaking(self, source: str | None, target: str | None) -> "ModelDirectory":
        """The same model for other languages that it knows, None: as before.

        Codes may be of any style: de, deu and deu_Latn are the same. Raises `UsageError` for other languages.
        """
        if self.directions:
            return self._in_direction(source, target)
        tagged = self.source_tokenizer.tagged
        first = _speaking(self.source_tokenizer, target if tagged else source, self.source_language)
        second = self.target_tokenizer if tagged else _speaking(self.target_tokenizer, target, self.target_language)
        own, other = self.languages
        languages = standard_code(source) if source else own, standard_code(target) if target else other
        return ModelDirectory(self.model, first, second, *languages, self.decoding, self.style)

    def _in_direction(self, source: str | None, target: str | None) -> "ModelDirectory":
        """The same model for sources of one language, or for one target language, or for both."""
        sources, targets = (dict.fromkeys(filter(None, side)) for side in zip(*self.directions, strict=True))
        source = known_language(source, sources) if source and sources else source or self.source_language
        target = known_language(target, targets) if target else self.target_language
        tokenizer = self.source_tokenizer
        if target and tokenizer.targets:
            tokenizer = tokenizer.speaking(target)
        return replace(self, source_tokenizer=tokenizer, source_language=source, target_language=target)

    def require_languages(self, *, for_good: bool = False) -> None:
        """Raise `UsageError` for a model of many languages that does not know which ones to translate between.

        A text may say its target by a tag or a label, unless it has to be settled `for_good`.
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
        """The tokens of a text as the model reads them, and their ids; what is copied stands in brackets."""
        tokenizer = self.tokenizers[target]
        prepared = Prepared(normalised(text)) if target else self.preprocessor(text)
        ids = tokenizer.encode(prepared.text)
        copied = {id_: f"[{value}]" for id_, value in zip(tokenizer.slots, prepared.values, strict=False)}
        return [copied.get(id_, piece) for id_, piece in zip(ids, tokenizer.pieces(ids), strict=True)], ids

    @classmethod
    def load(cls, path: Path, *, device: torch.device | str = "cpu") -> "ModelDirectory":
        """Read a model directory; raises `DataError` for one that is missing, damaged, mixed or of another version.

        One that a training replaces at the moment is read as it was before, or as it is afterwards.
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
        weights, found, sums = _read_weights(path / WEIGHTS)
        verify(path, texts.sums | {WEIGHTS: found}, sums)
        source, target = (config[key] for key in TOKENIZERS)
        source_tokenizer = tokenizer_of(texts.contents[source], path / source)
        target_tokenizer = source_tokenizer if source == target else tokenizer_of(texts.contents[target], path / target)
        for side, tokenizer, size in (
            ("source", source_tokenizer, architecture.source_vocab_size),
            ("target", target_tokenizer, architecture.target_vocab_size),
        ):
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
        decoding = decoding_defaults(path, config)
        model = with_weights(architecture, restored(weights), origin=path / WEIGHTS, in_place=True)
        source_language, target_language = (config[key] for key in LANGUAGES)
        tokenizers = source_tokenizer, target_tokenizer
        style = SourceStyle()
        if config[STYLE]:
            style = SourceStyle.from_json(texts.contents[config[STYLE]], path / config[STYLE])
        languages, known = (source_language, target_language), [*map(tuple, config.get(DIRECTIONS, []))]
        if not sums:
            warnings.warn(
                f"{path} has no checksums, so nobody can say whether it is whole: {WEIGHTS} was not written by this "
                "version of Dragoman.",
                UnverifiedModel,
                stacklevel=4,
            )
        return cls(model.to(device).eval(), *tokenizers, *languages, decoding, style, known)


def _read_weights(path: Path) -> tuple[dict[str, Tensor], str, dict[str, str]]:
    """The tensors of a weights file, each in memory of its own, their checksum, and the checksums in the file."""
    weights, found = {}, 0
    with opened(path) as (file, header):
        for stored_ in header.tensors:
            tensor = torch.empty(stored_.shape, dtype=DTYPES[stored_.dtype])
            content = tensor.reshape(-1).view(torch.uint8).numpy().data
            if file.readinto(content) != stored_.size:
                raise ValueError(f"'{stored_.name}' ends too early")
            found = zlib.crc32(content, found)
            weights[stored_.name] = tensor
    return weights, f"{found:08x}", header.sums


def with_weights(
    architecture: TransformerConfig, weights: dict[str, Tensor], *, origin: Path, in_place: bool = False
) -> Transformer:
    """The model of these weights. Raises `DataError` as `check_weights` does.

    With `in_place` they become those of the model, without a copy, and leave `weights`.
    """
    with _Uninitialised():
        with torch.device("meta"):
            # Before any memory is asked for: the sizes in a stranger's config may be huge.
            check_weights(weights, Transformer(architecture), origin=origin)
        model = Transformer(architecture)
    if not in_place:
        _copy(weights, model)
        return model
    for name, parameter in model.named_parameters():
        parameter.data = weights.pop(name).to(parameter.dtype)
    return model


def _speaking(tokenizer: Tokenizer, language: str | None, own: str | None) -> Tokenizer:
    if language is None:
        return tokenizer
    if not tokenizer.languages:
        if own and not same_language(language, own):
            raise UsageError(f"This model has '{own}' where '{language}' is asked for, and no other language.")
        return tokenizer
    return tokenizer.speaking(known_language(language, tokenizer.languages))


class _Uninitialised(TorchFunctionMode):
    """Leaves out the random initialisation of modules, and counts on the CPU.

    On "meta", both would import sympy, which takes a second.
    """

    def __torch_function__(self, function: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        where = {"device": "cpu"} if function is torch.arange else {}
        if function.__name__ not in ("normal_", "uniform_", "kaiming_uniform_"):
            return function(*args, **(kwargs or {}) | where)


def weights_file(model: Transformer, sums: dict[str, str], *, int8: bool = False) -> bytes:
    """The content of model.safetensors with its own and other files' checksums; shared tensors are stored once."""
    tensors = stored_tensors(dict(model.named_parameters()))
    tensors = stored(tensors) if int8 else tensors
    content = memoryview(save(tensors))
    begin = 8 + int.from_bytes(content[:8], "little")
    header = header_checksum(json.loads(bytes(content[8:begin])))
    sums = sums | {WEIGHTS: checksum(content[begin:]), HEADER: header}
    return save(tensors, metadata={SUMS: json.dumps(sums)})


def copy_weights(weights: dict[str, Tensor], model: Transformer, *, origin: Path) -> None:
    """Copy `weights` into `model`, all or, where `check_weights` refuses them, none."""
    check_weights(weights, model, origin=origin)
    _copy(weights, model)


def check_weights(weights: dict[str, Tensor], model: Transformer, *, origin: Path) -> None:
    """Raise `DataError` that names what is missing, superfluous, misshapen or not a finite number."""
    own = dict(model.named_parameters())
    if missing := sorted(own.keys() - weights.keys()):
        raise DataError(f"{origin} lacks the weights '{missing[0]}' that config.json asks for; copy the model again.")
    if extra := sorted(weights.keys() - own.keys()):
        raise DataError(f"{origin} has the weights '{extra[0]}' that config.json does not know; copy the model again.")
    for name, parameter in own.items():
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
    """Tensors as safetensors takes them: without gradient, on the CPU, contiguous."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in named.items()}
