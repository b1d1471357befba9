"""A run as one typed tree: a section each for data, tokenizer, model, training and decoding."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.config.data import DataConfig, TokenizerConfig
    from dragoman.config.decoding import DecodingConfig
    from dragoman.config.recipes import read_recipe, recipe_names
    from dragoman.config.run import RunConfig, load_config
    from dragoman.config.training import TrainingConfig

__all__ = [
    "DataConfig",
    "DecodingConfig",
    "RunConfig",
    "TokenizerConfig",
    "TrainingConfig",
    "load_config",
    "read_recipe",
    "recipe_names",
]


def __getattr__(name: str) -> Any:
    # On first use: `--help` shows the options of decoding and does not wait for YAML and the other sections.
    if name in __all__:
        for part in ("decoding", "training", "data", "recipes", "run"):
            module = import_module(f"dragoman.config.{part}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module 'dragoman.config' has no attribute '{name}'")
