"""Weights of the notebooks that taught this model, read into a `Transformer` (see `dragoman.interop.styles`)."""

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsIndex

import torch
from torch import Tensor

from dragoman.errors import DataError, UsageError
from dragoman.interop.styles import STYLES, Style
from dragoman.interop.weights import named_tensors, read_weights
from dragoman.model import Transformer, TransformerConfig
from dragoman.model.layers import SinusoidalPositions

SHOWN_NAMES = 3
TABLE_TOLERANCE = 0.02
"""How far a table of sines may be from ours: bfloat16 rounds to 0.004, another formula differs by 1."""
_STACKS = ("encoder", "decoder")


def from_notebook(
    weights: str | Path | Mapping[str, Any], *, style: str, num_heads: SupportsIndex, **choices: Any
) -> Transformer:
    """The notebook's model as a `Transformer`, in evaluation mode, from its file or its `state_dict()`.

    `style` is prenorm, postnorm, annotated or keras. The number of heads is the one choice that the shapes of the
    weights do not tell. `choices` are other fields of `TransformerConfig`, such as `pad_id`.

    The log-probabilities are the notebook's up to rounding. A norm that adds 1e-6 to the standard deviation becomes
    one that adds 1e-12 to the variance: they differ by about 1e-6 / std, relatively.

    Raises `UsageError` for an unknown style or a wrong number of heads, `DataError` for a file that is not of this
    style, naming what is missing, left over or of the wrong shape.
    """
    return read_notebook(weights, style=style).model(num_heads=num_heads, **choices)


@dataclass(frozen=True)
class Notebook:
    """The weights of a notebook's model under Dragoman's names, in the notebook's shapes."""

    style: Style
    origin: str
    """The file, for messages."""
    weights: dict[str, Tensor]
    tables: dict[str, Tensor]
    """What else it saved: the sines that are added to embeddings."""

    def num_layers(self, stack: str) -> int:
        return sum(name.endswith("self_attention.query.weight") for name in self.weights if name.startswith(stack))

    def num_positions(self, stack: str) -> int | None:
        """How many positions of a stack were learned; None: they are computed, any number of them."""
        table = self.weights.get(f"{stack}.embedding.positions.table")
        return None if table is None else len(table)

    @torch.no_grad()
    def model(self, *, num_heads: SupportsIndex, **choices: Any) -> Transformer:
        """As `from_notebook`."""
        try:
            heads = {"num_heads": operator.index(num_heads)}
            config = TransformerConfig(**(self.style.choices | self._sizes() | heads | choices))
        except (ValueError, TypeError) as error:
            raise UsageError(f"This model cannot be built: {error}") from None
        self._check_tables(config)
        model = Transformer(config)
        if strange := dict(model.named_parameters()).keys() ^ self.weights.keys():
            raise UsageError(f"These choices make a model with other weights than the notebook's: `{min(strange)}`.")
        for ours, parameter in model.named_parameters():
            value = _translated(self.weights[ours], ours, config, self.style)
            if value.shape != parameter.shape:
                raise DataError(
                    f"{self.origin}: `{self.style.name_of(ours)}` has the shape {tuple(self.weights[ours].shape)}, "
                    f"which does not fit {tuple(parameter.shape)} of `{ours}`; was the notebook's code changed?"
                )
            parameter.copy_(value)
        return model.eval()

    def _sizes(self) -> dict[str, int]:
        def size(ours: str, dimension: int) -> int:
            shape = self.weights[ours].shape
            if len(shape) != 2:
                raise DataError(
                    f"{self.origin}: `{self.style.name_of(ours)}` has the shape {tuple(shape)}, but it should be a "
                    "matrix; was the notebook's code changed?"
                )
            return shape[dimension]

        sizes = {
            "source_vocab_size": size("encoder.embedding.table.weight", 0),
            "target_vocab_size": size("decoder.embedding.table.weight", 0),
            "d_model": size("encoder.embedding.table.weight", 1),
            "d_ff": size("encoder.layers.0.feed_forward.inner.weight", 1 if self.style.transposed else 0),
            "num_encoder_layers": self.num_layers("encoder"),
            "num_decoder_layers": self.num_layers("decoder"),
        }
        tables = [f"{stack}.embedding.positions.table" for stack in _STACKS]
        if learned := [size(table, 0) for table in tables if table in self.weights]:
            sizes["max_positions"] = max(learned)
        return sizes

    def _check_tables(self, config: TransformerConfig) -> None:
        """Raise unless the saved sines are those that the model will compute."""
        for name, table in self.tables.items():
            length = table.numel() // config.d_model
            ours = SinusoidalPositions(config)(0, length)
            fits = table.numel() == ours.numel()
            if not fits or not torch.allclose(table.reshape(ours.shape), ours, rtol=0, atol=TABLE_TOLERANCE):
                raise DataError(
                    f"{self.origin}: `{name}` does not hold the sines and cosines of {self.style.notebook}; "
                    "was the notebook's code changed?"
                )


def read_notebook(weights: str | Path | Mapping[str, Any], *, style: str) -> Notebook:
    """The weights in a notebook's file or its `state_dict()`, all there and no others; raises as `from_notebook`."""
    if style not in STYLES:
        raise UsageError(f"There is no style '{style}'; choose one of {', '.join(STYLES)}.")
    if isinstance(weights, Mapping):
        origin, tensors = "The mapping", named_tensors(weights, "The mapping")
    else:
        origin, tensors = str(weights), read_weights(Path(weights))
    tensors = renumbered(tensors)
    _check_style(tensors, style, origin)
    form = STYLES[style]
    names = {ours: form.name_of(ours) for ours in _parameters(form, tensors)}
    extra = tensors.keys() - names.values()
    tables = {name: tensors[name] for name in extra if form.buffers and name.endswith(form.buffers)}
    missing, unknown = [name for name in names.values() if name not in tensors], sorted(extra - tables.keys())
    if missing:
        raise DataError(f"{origin} lacks {_listed(missing)}; save the whole model of {form.notebook}.")
    if unknown:
        raise DataError(f"{origin} has unknown {_listed(unknown)}; save {form.notebook} alone, as it is there.")
    return Notebook(form, origin, {ours: tensors[theirs] for ours, theirs in names.items()}, tables)


def renumbered(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Layers of one class, which Keras numbers in a file or in a session, numbered as the first: dense, dense_1."""
    parts = {name: name.replace("_layer_checkpoint_dependencies", "layers").split("/") for name in tensors}
    for depth in range(1, max(map(len, parts.values()), default=0)):
        numbers: dict[tuple[str, ...], set[int]] = {}
        placed = {name: each for name, each in parts.items() if len(each) > depth and each[depth - 1] == "layers"}
        for each in placed.values():
            base, number = _numbered(each[depth])
            numbers.setdefault((*each[:depth], base), set()).add(number)
        for each in placed.values():
            base, number = _numbered(each[depth])
            place = sorted(numbers[*each[:depth], base]).index(number)
            each[depth] = f"{base}_{place}" if place else base
    return {"/".join(parts[name]): value for name, value in tensors.items()}


def _numbered(name: str) -> tuple[str, int]:
    found = re.fullmatch(r"(.*?)(?:_(\d{1,6}))?", name)
    return found[1], int(found[2] or 0)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(f"`{name}`" for name in names[:SHOWN_NAMES]) + more


def _check_style(tensors: dict[str, Tensor], style: str, origin: str) -> None:
    """Which style's names are found most? That one was meant."""
    found = {
        name: sum(candidate.name_of(ours) in tensors for ours in _parameters(candidate, {}))
        for name, candidate in STYLES.items()
    }
    best = max(found, key=found.get)
    if not found[best]:
        shown = ", ".join(list(tensors)[:SHOWN_NAMES]) or "no weights at all"
        raise DataError(f"{origin} is none of the styles {', '.join(STYLES)}: it holds {shown}.")
    if found[style] < found[best]:
        raise DataError(f"{origin} is not of the style '{style}' but '{best}', {STYLES[best].notebook}; give that.")
    repaired = [
        STYLES["postnorm"].name_of(f"decoder.layers.0.feed_forward.{part}.weight") for part in ("inner", "outer")
    ]
    if style == "postnorm" and not any(name in tensors for name in repaired):
        raise DataError(
            f"{origin}: the decoder has no feed-forward network, since the notebook writes `feed_forward = "
            "PositionalEncoding(...)` there; repair that line to `PositionWiseFeedForward(...)` and train again."
        )


def _parameters(style: Style, tensors: dict[str, Tensor]) -> list[str]:
    """Dragoman's names of all parameters, in as many layers as `tensors` tell of, one at least."""
    names = []
    for module in style.modules:
        stack = module.partition(".")[0]
        layers = range(_num_layers(style, stack, tensors)) if "{}" in module else [0]
        kinds = style.norm if module.endswith("norm") else style.linear
        if not module.endswith("norm"):
            kinds = ["table"] if module.endswith("positions") else ["weight"]
            kinds += [] if "embedding" in module else ["bias"]
        names += [f"{module.format(layer)}.{kind}" for layer in layers for kind in kinds]
    return names


def _num_layers(style: Style, stack: str, tensors: dict[str, Tensor]) -> int:
    """One more than the highest number of a layer; a gap shows as missing tensors then."""
    prefix = re.escape(style.modules[f"{stack}.layers.{{}}.self_attention.query"].partition("{}")[0])
    pattern = re.compile(rf"{prefix}_?(\d{{0,6}})[./]")
    numbers = [int(found[1] or 0) for name in tensors if (found := pattern.match(name))]
    return 1 + min(max(numbers, default=0), len(tensors))


def _translated(value: Tensor, ours: str, config: TransformerConfig, style: Style) -> Tensor:
    if style.unbiased_std and ours.endswith(".gain"):
        # Its standard deviation is sqrt(d / (d - 1)) times that of LayerNorm.
        return value * ((config.d_model - 1) / config.d_model) ** 0.5
    if style.transposed and value.dim() == 2 and "embedding" not in ours:
        return value.T
    if ours.endswith("positions.table") and len(value) < config.max_positions:
        # The shorter side's table: the rows that it never had are never asked for.
        return torch.nn.functional.pad(value, (0, 0, 0, config.max_positions - len(value)))
    return value
