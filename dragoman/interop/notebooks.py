"""The adapter for "Transformer from scratch" notebooks: four styles, whose names are in `notebooks.toml`."""

import dataclasses
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, SupportsIndex

import torch
from torch import Tensor

from dragoman.errors import DataError, UsageError
from dragoman.interop.foreign import POSITIONS, ForeignModel, ForeignWeights, renamed
from dragoman.interop.styles import STYLES
from dragoman.interop.vocabulary import END, PAD, UNKNOWN, Vocabulary, numbers, read_vocabulary
from dragoman.interop.weights import named_tensors, read_weights
from dragoman.model import Transformer, TransformerConfig
from dragoman.model.layers import SinusoidalPositions

SINES = ".pe"
"""Ending of names under which notebooks save a table of sines, which Dragoman computes."""
SINES_TOLERANCE = 0.02
"""bfloat16 rounds sines by up to 0.004; another formula differs by 1."""
_KERAS_LAYER = re.compile(r"(?<=\blayers/)([^/]+?)(?:_(\d{1,6}))?(?=/|$)")


@dataclass(frozen=True)
class NotebookFiles:
    """The files that a notebook saved, and what they do not tell."""

    weights: Path
    style: str
    """One of `dragoman.interop.styles.STYLES`."""
    num_heads: int
    tokenizers: tuple[Path, Path] | None = None
    """Source and target tokenizer. None: sentences are written as ids."""


def from_notebook(
    weights: str | Path | Mapping[str, Any], *, style: str, num_heads: SupportsIndex, **choices: Any
) -> Transformer:
    """A notebook's model as a `Transformer` in evaluation mode, from its file or its `state_dict()`.

    `style` is prenorm, postnorm, annotated or keras. You give the number of heads, since the shapes of the weights do
    not tell it. `choices` are other fields of `TransformerConfig`, such as `pad_id`.

    The log-probabilities are the notebook's up to rounding. Where a norm adds 1e-6 to the standard deviation, ours adds
    1e-12 to the variance: the relative difference is about 1e-6 / std.

    Raises `UsageError` for an unknown style or a wrong number of heads, and `DataError` for a file that is not of this
    style, with the names of the tensors that are missing, unknown or of the wrong shape.
    """
    return _read(weights, style).build(num_heads, **choices)


def read_model(files: NotebookFiles, *, note: Callable[[str], None]) -> ForeignModel:
    """A notebook's model and tokenizers; `note` gets sentences that the user should know about the files.

    Raises `UsageError` and `DataError` as `from_notebook` does, and `DataError` for tokenizers that do not fit.
    """
    notebook = _read(files.weights, files.style)
    model = notebook.build(files.num_heads)
    sizes = (model.config.source_vocab_size, model.config.target_vocab_size)
    source, target = (_read_side(files, side, size, note) for side, size in enumerate(sizes))
    length, target_length = notebook.num_positions() or (None, None)
    if length:
        source = _padding_as_end(source)
        if target_length < length:
            raise DataError(f"{files.weights} has {length} positions for sources, but {target_length} for targets.")
    paths = (files.weights, *(files.tokenizers or ()))
    return ForeignModel(model, source, target, notebook.format.program, paths, length)


@dataclass(frozen=True)
class Notebook(ForeignWeights):
    """The weights of a notebook's model under Dragoman's names, in the notebook's layout."""

    num_layers: dict[str, int]
    """`num_encoder_layers` and `num_decoder_layers`."""
    sines: dict[str, Tensor]
    """Saved tables of sines, under the notebook's names."""

    def num_positions(self) -> list[int]:
        """Rows of the source's and the target's position table; empty if positions are computed."""
        return [self.size(name, 0) for name in self.weights if name.endswith(POSITIONS)]

    def build(self, num_heads: SupportsIndex, **choices: Any) -> Transformer:
        """The `Transformer`; see `from_notebook`."""
        sizes = self.num_layers | {
            "source_vocab_size": self.size("encoder.embedding.table.weight", 0),
            "target_vocab_size": self.size("decoder.embedding.table.weight", 0),
            "d_model": self.size("encoder.embedding.table.weight", 1),
            "d_ff": self.size("encoder.layers.0.feed_forward.outer.weight", 0 if self.format.transposed else 1),
        }
        if lengths := self.num_positions():
            sizes["max_positions"] = max(lengths)
        config = _config(num_heads, **(self.format.choices | sizes | choices))
        self._check_sines(config)
        return self.to_transformer(config)

    def _check_sines(self, config: TransformerConfig) -> None:
        """Raise `DataError` unless the saved sines are those that the model computes."""
        for name, table in self.sines.items():
            ours = SinusoidalPositions(config)(0, table.numel() // config.d_model).flatten()
            if table.numel() != len(ours) or not torch.allclose(table.flatten(), ours, rtol=0, atol=SINES_TOLERANCE):
                raise DataError(f"{self.origin}: `{name}` does not hold the sines of {self.format.program}.")


def _read(weights: str | Path | Mapping[str, Any], style: str) -> Notebook:
    if style not in STYLES:
        raise UsageError(f"There is no style '{style}'; choose one of {', '.join(STYLES)}.")
    origin = "The mapping" if isinstance(weights, Mapping) else str(weights)
    tensors = named_tensors(weights, origin) if isinstance(weights, Mapping) else read_weights(Path(weights))
    tensors = renumbered(tensors)
    _check_style(tensors, style, origin)
    num_layers = {f"num_{stack}_layers": STYLES[style].num_layers(stack, tensors) for stack in ("encoder", "decoder")}
    sines = {name: tensors.pop(name) for name in list(tensors) if name.endswith(SINES)}
    weights = renamed(tensors, _parameters(style, **num_layers), STYLES[style], origin)
    return Notebook(weights, STYLES[style], origin, num_layers, sines)


def _config(num_heads: SupportsIndex, **fields: Any) -> TransformerConfig:
    try:
        return TransformerConfig(num_heads=operator.index(num_heads), **fields)
    except (ValueError, TypeError) as error:
        raise UsageError(f"This model cannot be built: {error}") from None


@cache
def _parameters(style: str, num_encoder_layers: int = 1, num_decoder_layers: int = 1) -> list[str]:
    """Dragoman's names of the parameters of a model of this style."""
    sizes = {"num_encoder_layers": num_encoder_layers, "num_decoder_layers": num_decoder_layers}
    config = _config(1, source_vocab_size=4, target_vocab_size=4, **sizes, **STYLES[style].choices)
    with torch.device("meta"):
        return [name for name, _ in Transformer(config).named_parameters()]


def renumbered(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors with Keras' layers of one class numbered as dense, dense_1, ...; Keras may count over a session."""
    names = {name: name.replace("_layer_checkpoint_dependencies", "layers") for name in tensors}
    numbers = defaultdict(set)
    for name in names.values():
        for layer in _KERAS_LAYER.finditer(name):
            numbers[name[: layer.end(1)]].add(int(layer[2] or 0))

    def renumber(layer: re.Match) -> str:
        index = sorted(numbers[layer.string[: layer.end(1)]]).index(int(layer[2] or 0))
        return f"{layer[1]}_{index}" if index else layer[1]

    return {_KERAS_LAYER.sub(renumber, name): tensors[original] for original, name in names.items()}


def _check_style(tensors: Mapping[str, Tensor], style: str, origin: str) -> None:
    """Raise `DataError` if another style's names fit better, or the decoder is incomplete."""
    fitting = {each: sum(STYLES[each].name_of(name) in tensors for name in _parameters(each)) for each in STYLES}
    best = max(fitting, key=fitting.get)
    if not fitting[best]:
        shown = ", ".join(list(tensors)[:3]) or "no weights at all"
        raise DataError(f"{origin} is none of the styles {', '.join(STYLES)}: it holds {shown}.")
    if fitting[style] < fitting[best]:
        raise DataError(f"{origin} is not of the style '{style}' but '{best}', {STYLES[best].program}; give that.")
    if style == "postnorm" and not any(name.startswith("decoder_layers.0.feed_forward.fc") for name in tensors):
        raise DataError(
            f"{origin}: the decoder has no feed-forward network, since the notebook writes `feed_forward = "
            "PositionalEncoding(...)` there; repair that line to `PositionWiseFeedForward(...)` and train again."
        )


def _read_side(files: NotebookFiles, side: int, size: int, note: Callable[[str], None]) -> Vocabulary:
    """The vocabulary of the source (0) or target (1), with a token for each of the `size` rows of its table."""
    if files.tokenizers is None:
        return numbers(size)
    path, keras, table = files.tokenizers[side], files.style == "keras", f"{('source', 'target')[side]} table"
    vocabulary = read_vocabulary(path, keras=keras, target=side == 1)
    num_words = len(vocabulary.words)
    # In Keras the tables have `max_tokens` rows, even if a small corpus has fewer words.
    if num_words > size or (num_words < size and not keras):
        raise DataError(
            f"{path} has {num_words} words, but the {table} in {files.weights} has {size} rows; give the tokenizer of "
            "these weights."
        )
    if num_words < size:
        note(f"{path} has {num_words} words, fewer than the {size} rows of the {table}: the last rows have no word.")
    # Keras deletes "<" from texts, so none contains these words.
    unused = [f"<unused{row}>" for row in range(num_words, size)]
    return dataclasses.replace(vocabulary, words=vocabulary.words + unused)


def _padding_as_end(source: Vocabulary) -> Vocabulary:
    """The vocabulary with its padding as end of sentence: attention in the Keras notebook sees the padding."""
    if PAD not in source.special:
        raise DataError(f"{source.origin} has no padding, which the Keras notebook needs; give its whole vocabulary.")
    special = {token: id_ for token, id_ in source.special.items() if token == UNKNOWN}
    return dataclasses.replace(source, special=special | {END: source.special[PAD]})
