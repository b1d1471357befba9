"""Names and layouts of weights in other programs: the tables of `notebooks.toml` and `pretrained.toml`.

Does not import torch, since the command line lists the styles.
"""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dragoman.errors import UsageError

_LAYER = re.compile(r"(?<=layers\.)\d+")


@dataclass(frozen=True, kw_only=True)
class Style:
    """Names of weights, formulas and layout of tensors in another program."""

    program: str
    """Name of the program, for error messages and model cards."""
    choices: dict[str, Any]
    """Fields of `TransformerConfig` that give the formulas of the program."""
    as_written: dict[str, Any] = field(default_factory=dict)
    """Fields of `TransformerConfig` that give the formulas of a mistake, which `--as-written` imports. Without it the
    program was repaired."""
    parts: dict[str, str]
    """Part of Dragoman's name -> part of the program's name. The longest part that fits is replaced; the rest stays.
    `{}` stands for the index of the layer."""
    keras: bool = False
    """Keras saved the weights: layers are x, x_1, x_2 instead of x.0, x.1, x.2, and matrices of linear layers are
    (in, out) instead of (out, in)."""
    separator: str = "."
    """Separator of the parts of a name."""
    first_layer: int = 0
    """The index of the first layer."""
    unbiased_std: bool = False
    """Norms divide by the standard deviation with d - 1 in the denominator, where LayerNorm has d."""

    def name_of(self, parameter: str) -> str:
        """The other program's name of Dragoman's `parameter`."""
        index = "".join(_LAYER.findall(parameter))
        if self.keras:
            index = "" if index == "0" else f"_{index}"
        elif index:
            index = str(int(index) + self.first_layer)
        return self._translated(_LAYER.sub("{}", parameter)).format(index)

    def num_layers(self, stack: str, names: Iterable[str]) -> int:
        """Number of different layer indices among the other program's `names` of a stack, at least 1.

        They are counted, since the highest index of a hostile file may be absurd. With a gap, layers are missing.
        """
        prefix = re.escape(self._translated(f"{stack}.layers.{{}}.").partition("{}")[0])
        layer = re.compile(rf"{prefix}_?(\d*)[./]")
        return max(1, len({match[1] for name in names if (match := layer.match(name))}))

    def _translated(self, name: str) -> str:
        """A name with Dragoman's parts replaced by the program's."""
        translated = self._any_part.sub(lambda match: self.parts[match[0]], name)
        return translated.replace(".", self.separator)

    @cached_property
    def _any_part(self) -> re.Pattern[str]:
        longest_first = sorted(self.parts, key=len, reverse=True)
        return re.compile(rf"(?<![^.])(?:{'|'.join(map(re.escape, longest_first))})(?![^.])")


def read_table(name: str) -> dict[str, Any]:
    """The content of a TOML file of this folder."""
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


STYLES = {name: Style(**table) for name, table in read_table("notebooks.toml").items()}
"""Styles of notebooks, by the names that `--style` takes."""


def chosen_style(name: str, *, as_written: bool = False) -> Style:
    """The style of this name, with the formulas of the notebook's mistake if it is imported as written.

    Raises `UsageError` if there is no such style, or no such mistake in its notebook.
    """
    if name not in STYLES:
        raise UsageError(f"There is no style '{name}'; choose one of {', '.join(STYLES)}.")
    style = STYLES[name]
    if not as_written:
        return style
    if not style.as_written:
        others = " or ".join(other for other, style in STYLES.items() if style.as_written)
        raise UsageError(
            f"--as-written is for the style {others}, whose notebook has a mistake that changes its weights; leave it "
            f"out for '{name}'."
        )
    return replace(style, choices=style.choices | style.as_written)
