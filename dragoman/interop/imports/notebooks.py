"""Converts the weights of "Transformer from scratch" notebooks; `notebooks.toml` has the names of four styles."""

import operator
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self, SupportsIndex

import torch
from torch import Tensor
from torch.nn.functional import pad

from dragoman.errors import DataError, UsageError
from dragoman.interop.imports.styles import STYLES, Style, chosen_style
from dragoman.interop.imports.weights import named_tensors, read_weights
from dragoman.model import Transformer, TransformerConfig
from dragoman.model.layers import SinusoidalPositions

POSITIONS = ".embedding.positions.table"
SINES = ".pe"
"""Ending of the names of saved tables of sines, which Dragoman computes."""
SINES_TOLERANCE = 0.02
"""Largest difference from the sines of the formula. bfloat16 rounds by up to 0.004; another formula differs by 1."""
_KERAS_LAYER = re.compile(r"(?<=\blayers/)([^/]+?)(?:_(\d{1,6}))?(?=/|$)")


def from_notebook(
    weights: str | Path | Mapping[str, Any],
    *,
    style: str,
    num_heads: SupportsIndex,
    as_written: bool = False,
    **choices: Any,
) -> Transformer:
    """A notebook's model as a `Transformer` in evaluation mode, from its file or its `state_dict()`.

    `style` is prenorm, postnorm, annotated or keras. You give the number of heads, since the shapes of the weights do
    not tell it. With `as_written`, the decoder of the style postnorm adds positions in place of its feed-forward
    networks, which is a mistake of the notebook. `choices` are other fields of `TransformerConfig`, such as `pad_id`.

    The log-probabilities are the notebook's up to rounding. Where a norm adds 1e-6 to the standard deviation, ours adds
    1e-12 to the variance: the relative difference is about 1e-6 / std.

    Raises `UsageError` for an unknown style, a style without this mistake or a wrong number of heads, and `DataError`
    for a file that is not of this style, with the names of the tensors that are missing, unknown or of the wrong shape.
    """
    return Notebook.read(weights, style, as_written=as_written).build(num_heads, **choices)


@dataclass(frozen=True)
class Notebook:
    """The weights of a notebook's model under Dragoman's names, in the notebook's layout."""

    weights: dict[str, Tensor]
    style: Style
    origin: str
    """The file, for error messages."""
    num_layers: dict[str, int]
    """`num_encoder_layers` and `num_decoder_layers`."""
    sines: dict[str, Tensor]
    """Saved tables of sines, under the notebook's names."""

    @classmethod
    def read(cls, weights: str | Path | Mapping[str, Any], style: str, *, as_written: bool = False) -> Self:
        """Read a file or a `state_dict()`; raises as `from_notebook` does."""
        chosen = chosen_style(style, as_written=as_written)
        origin = "The mapping" if isinstance(weights, Mapping) else str(weights)
        tensors = named_tensors(weights, origin) if isinstance(weights, Mapping) else read_weights(Path(weights))
        tensors = renumbered(tensors)
        _check_style(tensors, style, origin)
        _check_decoder(tensors, style, origin, as_written=as_written)
        num_layers = {f"num_{stack}_layers": chosen.num_layers(stack, tensors) for stack in ("encoder", "decoder")}
        sines = {name: tensors.pop(name) for name in list(tensors) if name.endswith(SINES)}
        theirs = _parameters(style, **num_layers, as_written=as_written)
        return cls(_renamed(tensors, theirs, chosen.program, origin), chosen, origin, num_layers, sines)

    def num_positions(self) -> list[int]:
        """Rows of the source's and the target's position table; empty if positions are computed."""
        return [self._size(name, 0) for name in self.weights if name.endswith(POSITIONS)]

    @torch.no_grad()
    def build(self, num_heads: SupportsIndex, **choices: Any) -> Transformer:
        """The `Transformer`; see `from_notebook`."""
        sizes = self.num_layers | {
            "source_vocab_size": self._size("encoder.embedding.table.weight", 0),
            "target_vocab_size": self._size("decoder.embedding.table.weight", 0),
            "d_model": self._size("encoder.embedding.table.weight", 1),
            "d_ff": self._size("encoder.layers.0.feed_forward.outer.weight", 0 if self.style.keras else 1),
        }
        if lengths := self.num_positions():
            sizes["max_positions"] = max(lengths)
        config = _config(num_heads, **(self.style.choices | sizes | choices))
        self._check_sines(config)
        model = Transformer(config)
        parameters = dict(model.named_parameters())
        if strange := parameters.keys() ^ self.weights.keys():
            raise UsageError(f"These choices make a model with other weights than the file's: `{min(strange)}`.")
        for name, parameter in parameters.items():
            weight = self._converted(name, config)
            if weight.shape != parameter.shape:
                raise self._misshapen(name, f"does not fit {tuple(parameter.shape)} of `{name}`")
            parameter.copy_(weight)
        return model.eval()

    def _check_sines(self, config: TransformerConfig) -> None:
        """Raise `DataError` unless the saved sines are those that the model computes."""
        for name, table in self.sines.items():
            ours = SinusoidalPositions(config)(0, table.numel() // config.d_model).flatten()
            if table.numel() != len(ours) or not torch.allclose(table.flatten(), ours, rtol=0, atol=SINES_TOLERANCE):
                raise DataError(f"{self.origin}: `{name}` does not hold the sines of {self.style.program}.")

    def _converted(self, name: str, config: TransformerConfig) -> Tensor:
        """A weight in Dragoman's layout."""
        weight = self.weights[name]
        if self.style.unbiased_std and name.endswith(".gain"):
            # The notebook's standard deviation is sqrt(d / (d - 1)) times that of LayerNorm.
            return weight * ((config.d_model - 1) / config.d_model) ** 0.5
        if name.endswith(POSITIONS) and weight.dim() == 2 and len(weight) < config.max_positions:
            # The shorter of the two tables gets rows that are never used.
            return pad(weight, (0, 0, 0, config.max_positions - len(weight)))
        transposed = self.style.keras and weight.dim() == 2 and "embedding" not in name
        return weight.T if transposed else weight

    def _size(self, name: str, dimension: int) -> int:
        """Size of a matrix in a dimension. Raises `DataError` if it is not a matrix."""
        if self.weights[name].dim() != 2:
            raise self._misshapen(name, "should be a matrix")
        return self.weights[name].size(dimension)

    def _misshapen(self, name: str, problem: str) -> DataError:
        """The error for a weight of the wrong shape."""
        theirs, shape = self.style.name_of(name), tuple(self.weights[name].shape)
        return DataError(f"{self.origin}: `{theirs}` of shape {shape} {problem}; was the model's code changed?")


def _config(num_heads: SupportsIndex, **fields: Any) -> TransformerConfig:
    """The architecture with these fields. Raises `UsageError` if there is none."""
    try:
        return TransformerConfig(num_heads=operator.index(num_heads), **fields)
    except (ValueError, TypeError) as error:
        raise UsageError(f"This model cannot be built: {error}") from None


@cache
def _parameters(
    style: str, num_encoder_layers: int = 1, num_decoder_layers: int = 1, *, as_written: bool = False
) -> dict[str, str]:
    """The parameters of a model of this style: Dragoman's name -> the notebook's name."""
    sizes = {"num_encoder_layers": num_encoder_layers, "num_decoder_layers": num_decoder_layers}
    chosen = chosen_style(style, as_written=as_written)
    config = _config(1, source_vocab_size=4, target_vocab_size=4, **sizes, **chosen.choices)
    with torch.device("meta"):
        return {name: chosen.name_of(name) for name, _ in Transformer(config).named_parameters()}


def _renamed(tensors: dict[str, Tensor], theirs: dict[str, str], program: str, origin: str) -> dict[str, Tensor]:
    """The tensors under Dragoman's names, from those of the program, which `theirs` has by Dragoman's.

    Raises `DataError` unless the tensors have exactly these names.
    """
    problems = [f"lacks `{name}`" for name in theirs.values() if name not in tensors]
    problems += [f"has unknown `{name}`" for name in sorted(tensors.keys() - theirs.values())]
    if problems:
        shown, others = ", ".join(problems[:3]), len(problems[3:])
        more = f" and {others} more" if others else ""
        raise DataError(f"{origin} {shown}{more}; save all weights of {program}, and no others.")
    return {parameter: tensors[name] for parameter, name in theirs.items()}


def renumbered(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors with the layers of each class in Keras numbered as dense, dense_1, ... Keras counts over a whole session,
    so that the first one may be dense_7."""
    names = {name: name.replace("_layer_checkpoint_dependencies", "layers") for name in tensors}
    numbers = defaultdict(set)  # of the layers of a class, by the name up to the class
    for name in names.values():
        for layer in _KERAS_LAYER.finditer(name):
            numbers[name[: layer.end(1)]].add(int(layer[2] or 0))

    def renumber(layer: re.Match) -> str:
        index = sorted(numbers[layer.string[: layer.end(1)]]).index(int(layer[2] or 0))
        return f"{layer[1]}_{index}" if index else layer[1]

    return {_KERAS_LAYER.sub(renumber, name): tensors[original] for original, name in names.items()}


def _check_style(tensors: Mapping[str, Tensor], style: str, origin: str) -> None:
    """Raise `DataError` if the names of another style fit better."""
    matches = {candidate: sum(name in tensors for name in _parameters(candidate).values()) for candidate in STYLES}
    best = max(matches, key=matches.get)
    if not matches[best]:
        shown = ", ".join(list(tensors)[:3]) or "no weights at all"
        raise DataError(f"{origin} is none of the styles {', '.join(STYLES)}: it holds {shown}.")
    if matches[style] < matches[best]:
        raise DataError(f"{origin} is not of the style '{style}' but '{best}', {STYLES[best].program}; give that.")


def _check_decoder(tensors: Mapping[str, Tensor], style: str, origin: str, *, as_written: bool) -> None:
    """Raise `DataError` if a decoder has no feed-forward network but should, or has one but should not."""
    if not STYLES[style].as_written:
        return
    prefix = STYLES[style].name_of("decoder.layers.0.feed_forward.")
    network = [name for name in tensors if name.startswith(prefix) and not name.endswith(SINES)]
    if network and as_written:
        raise DataError(
            f"{origin}: the decoder has a feed-forward network, such as `{network[0]}`, so its notebook was repaired; "
            "leave out --as-written."
        )
    if not network and not as_written:
        raise DataError(
            f"{origin}: the decoder has no feed-forward network, since the notebook writes `feed_forward = "
            "PositionalEncoding(...)` there; give --as-written to import the model as it is, or repair that line to "
            "`PositionWiseFeedForward(...)` and train again."
        )
