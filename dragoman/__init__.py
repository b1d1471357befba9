"""Dragoman: the Transformer of "Attention Is All You Need", from scratch, and a translation toolkit around it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.decoding.translator import Translator
    from dragoman.model import Transformer, TransformerConfig

__version__ = "0.1.0"
__all__ = ["Transformer", "TransformerConfig", "Translator", "__version__"]

_MODULES = {"Transformer": "model", "TransformerConfig": "model", "Translator": "decoding.translator"}


def __getattr__(name: str) -> Any:
    # Imported on first use: `dragoman --help` must not wait for torch.
    if name not in _MODULES:
        raise AttributeError(f"module 'dragoman' has no attribute '{name}'")
    return getattr(import_module(f"dragoman.{_MODULES[name]}"), name)
