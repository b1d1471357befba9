"""Dragoman: the Transformer of "Attention Is All You Need", from scratch, and a translation toolkit around it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.decoding.translator import Translator
    from dragoman.model import Transformer, TransformerConfig

__version__ = "0.1.0"
__all__ = ["Transformer", "TransformerConfig", "Translator", "__version__"]


def __getattr__(name: str):
    # Imported on first use: `dragoman --help` must not wait for torch.
    if name in ("Transformer", "TransformerConfig"):
        from dragoman import model

        return getattr(model, name)
    if name == "Translator":
        from dragoman.decoding.translator import Translator

        return Translator
    raise AttributeError(f"module 'dragoman' has no attribute '{name}'")
