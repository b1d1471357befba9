"""Dragoman: the Transformer of "Attention Is All You Need", from scratch, and a translation toolkit around it.

from dragoman import Translator, train

train("pairs.tsv", "runs/en-fr", max_minutes=20)
print(Translator.load("runs/en-fr").translate(["The red house is old."])[0].text)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.bulk.api import translate_file
    from dragoman.config.decoding import DecodingConfig
    from dragoman.decoding.translation import Translation
    from dragoman.decoding.translator import Translator
    from dragoman.documents.api import translate_document
    from dragoman.errors import DataError, ResourceError, SentenceCut, UsageError
    from dragoman.evaluation.evaluate import Evaluation
    from dragoman.model import Transformer, TransformerConfig
    from dragoman.runs.api import evaluate, resume, train
    from dragoman.system.listener import Listener

__version__ = "0.1.0"
_MODULES = {
    "DataError": "errors",
    "DecodingConfig": "config.decoding",
    "Evaluation": "evaluation.evaluate",
    "Listener": "system.listener",
    "ResourceError": "errors",
    "SentenceCut": "errors",
    "Transformer": "model",
    "TransformerConfig": "model",
    "Translation": "decoding.translation",
    "Translator": "decoding.translator",
    "UsageError": "errors",
    "evaluate": "runs.api",
    "resume": "runs.api",
    "train": "runs.api",
    "translate_document": "documents.api",
    "translate_file": "bulk.api",
}
"""Public names and the modules that have them."""
__all__ = [
    "DataError",
    "DecodingConfig",
    "Evaluation",
    "Listener",
    "ResourceError",
    "SentenceCut",
    "Transformer",
    "TransformerConfig",
    "Translation",
    "Translator",
    "UsageError",
    "__version__",
    "evaluate",
    "resume",
    "train",
    "translate_document",
    "translate_file",
]


def __getattr__(name: str) -> Any:
    # Imported on first use: `dragoman --help` must not wait for torch.
    if name not in _MODULES:
        from dragoman.config.elsewhere import no_attribute

        raise no_attribute("module 'dragoman'", name, _MODULES)
    return getattr(import_module(f"dragoman.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
