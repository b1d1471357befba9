"""Sentence pairs, cut into tokens, that all contestants share."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dragoman.config.run import RunConfig, load_config
from dragoman.config.settings import parse_settings
from dragoman.data.bitext import Bitext
from dragoman.data.preparation import PreparedData, prepare


@dataclass(frozen=True)
class Corpus:
    """Prepared pairs, and the settings that they were prepared with."""

    config: RunConfig
    data: PreparedData
    settings: list[str]
    """Settings other than the defaults, for a command line."""

    @property
    def vocab_size(self) -> int:
        """Size of the one vocabulary that both sides share."""
        return self.data.source_tokenizer.vocab_size


@contextmanager
def prepared(source: str, target: str, *, size: str, settings: list[str]) -> Iterator[Corpus]:
    """Prepare pairs with 8,000 shared BPE tokens and 4,096 target tokens a batch, unless `settings` say otherwise."""
    defaults = [f"size={size}", "tokenizer.vocab_size=8000", "data.held_out=100", "training.max_tokens=4096"]
    settings = [*defaults, *settings]
    config = load_config({}, parse_settings(settings))
    with tempfile.TemporaryDirectory() as folder:
        prepare(Bitext.open(source, target).cleaned(), config, Path(folder))
        yield Corpus(config, PreparedData.open(Path(folder), config), settings)
