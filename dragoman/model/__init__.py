"""The Transformer, bottom up: config, dropout, attention, layers, transformer. Needs torch and nothing of ours."""

from typing import TYPE_CHECKING, Any

from dragoman.model.config import TransformerConfig

if TYPE_CHECKING:
    from dragoman.model.transformer import Transformer

__all__ = ["Transformer", "TransformerConfig"]


def __getattr__(name: str) -> Any:
    # On first use: a mistake in a config is answered without waiting for torch.
    if name == "Transformer":
        from dragoman.model.transformer import Transformer

        return Transformer
    raise AttributeError(f"module 'dragoman.model' has no attribute '{name}'")
