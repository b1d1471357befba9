"""A model of another program as a `Transformer`: the part that all adapters share."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import pad

from dragoman.errors import DataError, UsageError
from dragoman.interop.formats import Format
from dragoman.interop.vocabulary import Vocabulary
from dragoman.model import Transformer, TransformerConfig

POSITIONS = ".embedding.positions.table"


@dataclass(frozen=True)
class ForeignModel:
    """What an adapter reads: a model and its vocabularies, with the other program's ids."""

    model: Transformer
    source: Vocabulary
    target: Vocabulary
    program: str
    """Name of the program, for the model card."""
    files: tuple[Path, ...]
    """The file of the weights, then the tokenizers if there are any; for the model card."""
    source_length: int | None
    """Number of tokens, end of sentence included, to which sources are truncated or padded. None: any length."""


@dataclass(frozen=True)
class ForeignWeights:
    """Weights under Dragoman's names, in the other program's layout."""

    weights: dict[str, Tensor]
    format: Format
    origin: str
    """The file, for error messages."""

    def size(self, name: str, dimension: int) -> int:
        """Size of a matrix in a dimension. Raises `DataError` if it is not a matrix."""
        if self.weights[name].dim() != 2:
            raise self._misshapen(name, "should be a matrix")
        return self.weights[name].size(dimension)

    @torch.no_grad()
    def to_transformer(self, config: TransformerConfig) -> Transformer:
        """The `Transformer` with these weights, in evaluation mode.

        Raises `UsageError` if `config` asks for other parameters, `DataError` if a shape does not fit.
        """
        model = Transformer(config)
        parameters = dict(model.named_parameters())
        if strange := parameters.keys() ^ self.weights.keys():
            raise UsageError(f"These choices make a model with other weights than the file's: `{min(strange)}`.")
        for name, parameter in parameters.items():
            value = self._converted(name, config)
            if value.shape != parameter.shape:
                raise self._misshapen(name, f"does not fit {tuple(parameter.shape)} of `{name}`")
            parameter.copy_(value)
        return model.eval()

    def _converted(self, name: str, config: TransformerConfig) -> Tensor:
        """A weight in Dragoman's layout."""
        weight = self.weights[name]
        if self.format.unbiased_std and name.endswith(".gain"):
            # The program's standard deviation is sqrt(d / (d - 1)) times that of LayerNorm.
            return weight * ((config.d_model - 1) / config.d_model) ** 0.5
        if name.endswith(POSITIONS) and weight.dim() == 2 and len(weight) < config.max_positions:
            # The shorter of the two tables gets rows that are never used.
            return pad(weight, (0, 0, 0, config.max_positions - len(weight)))
        transposed = self.format.transposed and weight.dim() == 2 and "embedding" not in name
        return weight.T if transposed else weight

    def _misshapen(self, name: str, problem: str) -> DataError:
        theirs, shape = self.format.name_of(name), tuple(self.weights[name].shape)
        return DataError(f"{self.origin}: `{theirs}` of shape {shape} {problem}; was the model's code changed?")


def renamed(tensors: dict[str, Tensor], parameters: Iterable[str], format: Format, origin: str) -> dict[str, Tensor]:
    """The tensors under Dragoman's names, one for each of `parameters`. Raises `DataError` unless these are all."""
    theirs = {parameter: format.name_of(parameter) for parameter in parameters}
    problems = [f"lacks `{name}`" for name in theirs.values() if name not in tensors]
    problems += [f"has unknown `{name}`" for name in sorted(tensors.keys() - theirs.values())]
    if problems:
        shown, others = ", ".join(problems[:3]), len(problems[3:])
        more = f" and {others} more" if others else ""
        raise DataError(f"{origin} {shown}{more}; save all weights of {format.program}, and no others.")
    return {parameter: tensors[name] for parameter, name in theirs.items()}
