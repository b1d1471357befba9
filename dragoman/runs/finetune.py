"""Runs that go on from a trained model: what they take over from it, and how it scores beside what becomes of it."""

from collections.abc import Collection, Iterable
from dataclasses import asdict
from pathlib import Path

from dragoman.config.data import TokenizerConfig
from dragoman.config.decoding import DecodingConfig
from dragoman.config.run import RunConfig
from dragoman.errors import UsageError
from dragoman.model.config import TransformerConfig
from dragoman.storage.validate import TOKENIZERS, check_files, decoding_defaults
from dragoman.text.labels import languages_in, name_of

FROM_TOKENIZERS = ("source_vocab_size", "target_vocab_size", "pad_id", "bos_id", "eos_id")
"""Fields of an architecture that follow from the tokenizers."""


def adopt(config: RunConfig) -> TransformerConfig:
    """Make the architecture of the model that is gone on from that of the run; only dropout may be another.

    Raises `DataError` if there is no such model, and `UsageError` for settings that contradict it.
    """
    path = Path(config.finetune.model or "")
    found, architecture = check_files(path)
    fields = {name: value for name, value in asdict(architecture).items() if name not in FROM_TOKENIZERS}
    for name, value in config.model.items():
        if "dropout" not in name and value != fields[name]:
            raise UsageError(
                f"model.{name}={value} contradicts {path}, where it is {fields[name]}: the model that is gone on from "
                "decides on everything but dropout; leave it out."
            )
    refuse_new_tokenizers(config.tokenizer, path, kept=("shared", "placeholders", "symbols"))
    config.model = fields | config.model
    source, target = (found[key] for key in TOKENIZERS)
    config.tokenizer.shared = source == target
    own = config.decoding.model_dump(exclude_unset=True)
    config.decoding = DecodingConfig.validate(decoding_defaults(path).model_dump(exclude_unset=True) | own)
    RunConfig.validate(config.model_dump(mode="json"))
    return architecture


def refuse_new_tokenizers(settings: TokenizerConfig, path: str | Path, *, kept: Collection[str]) -> None:
    """Raise `UsageError` for a setting, but those in `kept`, of a run with the tokenizers of the model in `path`."""
    for name, field in type(settings).model_fields.items():
        if name not in kept and getattr(settings, name) != field.get_default():
            raise UsageError(f"tokenizer.{name} is for new tokenizers, but those of {path} are kept; leave it out.")


def check_languages(model: str, labels: Iterable[str], known: list[tuple[str | None, str]]) -> None:
    """Raise `UsageError` for pairs with a target language that the model that is gone on from has no token for."""
    targets = dict.fromkeys(target for _, target in known)
    for found in labels:
        if languages_in(found)[1] not in targets:
            what = f"translates into {', '.join(targets)} alone" if targets else "goes on with one pair of languages"
            raise UsageError(f"{model} {what}, but there are pairs of {name_of(found)}; leave them out.")
