"""A run as one typed tree: a section each for data, tokenizer, model, training and decoding."""

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
