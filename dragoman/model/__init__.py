"""The Transformer, bottom up: config, dropout, attention, layers, transformer, loss. Imports no other part of Dragoman.

`fast/` has faster ways to compute its formulas, which are used from the first `Transformer` on.
"""

from typing import TYPE_CHECKING, Any

from dragoman.model.config import TransformerConfig

if TYPE_CHECKING:
    from dragoman.model.transformer import Transformer

__all__ = ["Transformer", "TransformerConfig"]


def __getattr__(name: str) -> Any:
    # Imported on first use, so that a mistake in a config is reported without waiting for torch.
    if name == "Transformer":
        import dragoman.model.fast  # noqa: F401 - registers its ways
        from dragoman.model.transformer import Transformer

        return Transformer
    raise AttributeError(f"module 'dragoman.model' has no attribute '{name}'")
