"""Weights of the notebooks that taught this model, read into a `Transformer` (see `dragoman.interop.styles`)."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.errors import DataError, UsageError
from dragoman.extras import load
from dragoman.interop.styles import STYLES, Style
from dragoman.model import Transformer, TransformerConfig

SHOWN_NAMES = 3


def from_notebook(
    weights: str | Path | Mapping[str, Any], *, style: str, num_heads: int, **choices: Any
) -> Transformer:
    """The notebook's model as a `Transformer`, in evaluation mode, from its file or its `state_dict()`.

    `style` is prenorm, postnorm, annotated or keras. The number of heads is the one choice that the shapes of the
    weights do not tell. `choices` are other fields of `TransformerConfig`, such as `pad_id`.

    The log-probabilities are the notebook's up to rounding. A norm that adds 1e-6 to the standard deviation becomes
    one that adds 1e-12 to the variance: they differ by about 1e-6 / std, relatively.

    Raises `UsageError` for an unknown style or a wrong number of heads, `DataError` for a file that is not of this
    style, naming what is missing, left over or of the wrong shape.
    """
    if style not in STYLES:
        raise UsageError(f"There is no style '{style}'; choose one of {', '.join(STYLES)}.")
    origin = "The mapping" if isinstance(weights, Mapping) else str(weights)
    tensors = _tensors(_unwrapped(weights) if isinstance(weights, Mapping) else read_weights(Path(weights)), origin)
    _check_style(tensors, style, origin)
    config = _config(tensors, STYLES[style], num_heads, choices)
    model = Transformer(config)
    _copy(tensors, model, STYLES[style], origin)
    return model.eval()


def read_weights(path: Path) -> dict[str, Any]:
    """The named arrays of a PyTorch file (tensors only: nothing in it is run) or of a Keras `.weights.h5`."""
    if not path.is_file():
        raise DataError(f"There is no file {path}; check the path.")
    with path.open("rb") as file:
        hdf5 = file.read(8) == b"\x89HDF\r\n\x1a\n"
    if hdf5:
        return _read_hdf5(path)
    try:
        with warnings.catch_warnings(action="ignore"):  # of pickles written otherwise: read or refused all the same
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the class for what is refused is in a module that is imported nowhere here
        reason = str(error).strip().split("\n")[0]
        raise DataError(
            f"{path} is refused: it is not a file of plain tensors ({reason}); in the notebook, save "
            "`model.state_dict()` with `torch.save`."
        ) from None
    if not isinstance(content, Mapping):
        raise DataError(f"{path} holds a {type(content).__name__}, not named tensors; save `model.state_dict()`.")
    return _unwrapped(content)


def _read_hdf5(path: Path) -> dict[str, Any]:
    h5py = load("h5py", extra="keras", purpose="Reading weights of Keras")
    arrays: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        # A link to another file or a virtual dataset would read what the user did not name.
        if isinstance(item, h5py.Dataset) and not item.is_virtual and not item.external:
            arrays[name] = item[()]

    try:
        with h5py.File(path) as file:
            file.visititems(visit)
    except (OSError, RuntimeError) as error:
        raise DataError(f"{path} cannot be read: {error}; check that the file is whole.") from None
    return {name: torch.as_tensor(value) for name, value in arrays.items() if getattr(value, "dtype", "O") != "O"}


def _unwrapped(content: Mapping[str, Any]) -> dict[str, Any]:
    """Notebook A's training loop saves the weights beside the epoch and the optimizer."""
    for key in ("model_state_dict", "state_dict", "model"):
        if isinstance(content.get(key), Mapping):
            return dict(content[key])
    return dict(content)


def _tensors(content: dict[str, Any], origin: str) -> dict[str, Tensor]:
    tensors = {name: torch.as_tensor(value) for name, value in content.items()}
    for name, value in tensors.items():
        if value.layout != torch.strided or not value.is_floating_point():
            raise DataError(f"{origin}: `{name}` is no dense tensor of floating-point numbers; save the weights alone.")
    return {name: value.float() for name, value in tensors.items()}


def _check_style(tensors: dict[str, Tensor], style: str, origin: str) -> None:
    """Which style's names are found most? That one was meant."""
    found = {name: sum(ours in tensors for ours in _first_layer(candidate)) for name, candidate in STYLES.items()}
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


def _first_layer(style: Style) -> list[str]:
    """The notebook's names of all weights outside the layers and in the first of each stack."""
    modules = [module.format(0) for module in style.modules]
    kinds = {module: style.norm if module.endswith("norm") else style.linear for module in modules}
    return [style.name_of(f"{module}.{kind}") for module in modules for kind in kinds[module]]


def _config(tensors: dict[str, Tensor], style: Style, num_heads: int, choices: dict[str, Any]) -> TransformerConfig:
    """The sizes, from the shapes."""

    def size(ours: str, dimension: int) -> int:
        tensor = tensors.get(style.name_of(ours))
        return tensor.size(dimension) if tensor is not None and tensor.dim() > dimension else 1

    def layers(stack: str) -> int:
        number = 0
        while style.name_of(f"{stack}.layers.{number}.self_attention.query.weight") in tensors:
            number += 1
        return max(1, number)

    sizes = {
        "source_vocab_size": size("encoder.embedding.table.weight", 0),
        "target_vocab_size": size("decoder.embedding.table.weight", 0),
        "d_model": size("encoder.embedding.table.weight", 1),
        "d_ff": size("encoder.layers.0.feed_forward.inner.weight", 1 if style.transposed else 0),
        "num_encoder_layers": layers("encoder"),
        "num_decoder_layers": layers("decoder"),
    }
    if style.choices.get("positions") == "learned":
        sizes["max_positions"] = max(size(f"{stack}.embedding.positions.table", 0) for stack in ("encoder", "decoder"))
    try:
        return TransformerConfig(**(style.choices | sizes | {"num_heads": num_heads} | choices))
    except (ValueError, TypeError) as error:
        raise UsageError(f"This model cannot be built: {error}") from None


@torch.no_grad()
def _copy(tensors: dict[str, Tensor], model: Transformer, style: Style, origin: str) -> None:
    parameters = dict(model.named_parameters())
    names = {ours: style.name_of(ours) for ours in parameters}
    missing = [theirs for theirs in names.values() if theirs not in tensors]
    extra = [name for name in tensors if name not in names.values() and not name.endswith(style.buffers or "\0")]
    for what, found in (("lacks", missing), ("has unknown", extra)):
        if found:
            more = f" and {len(found) - SHOWN_NAMES} more" if len(found) > SHOWN_NAMES else ""
            shown = ", ".join(f"`{name}`" for name in found[:SHOWN_NAMES])
            raise DataError(f"{origin} {what} {shown}{more}; save the whole model of {style.notebook}.")
    for ours, parameter in parameters.items():
        value = _translated(tensors[names[ours]], ours, model.config, style)
        if value.shape != parameter.shape:
            raise DataError(
                f"{origin}: `{names[ours]}` has the shape {tuple(tensors[names[ours]].shape)}, which does not fit "
                f"{tuple(parameter.shape)} of `{ours}`; was the notebook's code changed?"
            )
        parameter.copy_(value)


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
