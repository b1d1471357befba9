"""A training run as one typed tree: recipes in YAML, `key=value` on the command line, unknown keys are errors."""

import dataclasses
import difflib
import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from dragoman.errors import DataError, UsageError
from dragoman.model.config import TransformerConfig

Decay = Annotated[float, Field(ge=0, lt=1)]


class _Loader(yaml.SafeLoader):
    """Takes 1e-6 for a number, as YAML 1.2 does."""


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\d+[eE][-+]?\d+$"), list("-+0123456789"))


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


class DataConfig(_Section):
    """Where the sentence pairs come from, and which are held out."""

    source: str | None = None
    """A TSV file, a source-side file, or builtin:grammar."""
    target: str | None = None
    """The target-side file, if the sides are in two files."""
    valid: list[str] = Field([], max_length=2)
    """Pairs to validate on, one or two files; empty: split off `source`, by source sentence."""
    test: list[str] = Field([], max_length=2)
    """Pairs to score at the end, one or two files; empty: split off `source`, by source sentence."""
    held_out: int | None = Field(None, ge=1)
    """Source sentences to split off for each of the two; empty: 5 % and at most 2,000."""
    max_length: int = Field(256, ge=4)
    """Pairs with more tokens than this on a side are left out of training."""


class TokenizerConfig(_Section):
    """How text becomes token ids."""

    vocab_size: int | None = Field(None, ge=260)
    """Entries of the vocabulary, at most; empty: chosen from the number of pairs."""
    shared: bool = True
    """One vocabulary for both sides; false: one each."""


class TrainingConfig(_Section):
    """How the weights are found."""

    optimizer: Literal["adam", "adamw"] = "adam"
    """`adamw` decouples weight decay from the gradient."""
    learning_rate: float = Field(1e-3, gt=0)
    """The highest one, reached at the end of the warm-up."""
    schedule: Literal["inverse_sqrt"] = "inverse_sqrt"
    """How the learning rate changes with the step; `inverse_sqrt` is the paper's."""
    warmup: int = Field(1000, ge=1)
    """Steps in which the learning rate rises from 0."""
    betas: tuple[Decay, Decay] = (0.9, 0.98)
    """Adam's two decay rates, section 5.3 of the paper."""
    eps: float = Field(1e-9, gt=0)
    """Adam's guard against division by zero."""
    weight_decay: float = Field(0.0, ge=0)
    """Pull of the weights towards 0; norms and biases are spared."""
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    """Share of each target spread over the vocabulary, section 5.4 of the paper."""
    max_tokens: int = Field(4096, ge=16)
    """Target tokens of one batch, padding included."""
    accumulate: int = Field(1, ge=1)
    """Batches added up to one step."""
    clip_norm: float = Field(1.0, ge=0)
    """Longest gradient allowed; 0: any."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the matrix products; `auto` is bfloat16 where the processor multiplies it natively."""
    max_steps: int | None = Field(None, ge=1)
    """Stop after this many steps."""
    max_epochs: int | None = Field(None, ge=1)
    """Stop after this many passes over the pairs."""
    max_minutes: float | None = Field(None, gt=0)
    """Stop after this many minutes, those before a resume included."""
    validate_every: int = Field(250, ge=1)
    """Steps between two validations, each of which writes a checkpoint."""
    validate_sentences: int = Field(1000, ge=1)
    """Sentences of the validation set that are translated for BLEU, at most; the loss is that of all."""
    patience: int = Field(12, ge=1)
    """Stop after this many validations in a row without a better BLEU."""
    average: int = Field(8, ge=1)
    """The last this many validation checkpoints are averaged at the end, and the average kept if better; 1: none."""


class DecodingConfig(_Section):
    """How the held-out sentences are translated for the scores."""

    beam_size: int = Field(5, ge=1, le=64)
    """Hypotheses kept alive; 1 is greedy search."""
    length_penalty: float = Field(1.0, ge=0)
    """Exponent of the length by which log-probabilities are divided; 0 favours short translations."""


class RunConfig(_Section):
    """Everything that decides what a run does."""

    size: Literal["tiny", "small", "base", "big"] = "tiny"
    """Layers and widths, see `dragoman.model.config.PRESETS`."""
    seed: int = Field(1, ge=0)
    """Decides the split, the first weights, the order of the pairs and dropout."""
    data: DataConfig = DataConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: dict[str, Any] = {}
    """Fields of `TransformerConfig` that differ from the size's."""
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()

    @field_validator("model")
    @classmethod
    def _known(cls, choices: dict[str, Any]) -> dict[str, Any]:
        for derived in ("source_vocab_size", "target_vocab_size"):
            if derived in choices:
                raise ValueError(f"`{derived}` follows from the tokenizer; set tokenizer.vocab_size instead.")
        for fixed in ("pad_id", "bos_id", "eos_id"):
            if fixed in choices:
                raise ValueError(f"`{fixed}` follows from the tokenizer, which has its special tokens as 0 to 3.")
        known = [field.name for field in dataclasses.fields(TransformerConfig)]
        for name in choices:
            if name not in known:
                raise ValueError(f"There is no `{name}`{did_you_mean(name, known)}.")
        return choices

    @model_validator(mode="after")
    def _buildable(self) -> Self:
        sizes = {"source_vocab_size": 1000, "target_vocab_size": 1000}
        model = TransformerConfig.preset(self.size, **(self.model | sizes))
        if model.positions == "learned" and model.max_positions <= self.data.max_length:
            raise ValueError(
                f"`max_positions` is {model.max_positions}, too few for sentences of data.max_length = "
                f"{self.data.max_length} tokens and an end; raise the one or lower the other."
            )
        return self

    def transformer(self, source_vocab_size: int, target_vocab_size: int) -> TransformerConfig:
        """The architecture for vocabularies of these sizes; with one tokenizer its table is shared."""
        sizes = {"source_vocab_size": source_vocab_size, "target_vocab_size": target_vocab_size}
        shared = {"share_embeddings": self.tokenizer.shared}
        try:
            return TransformerConfig.preset(self.size, **(shared | self.model | sizes))
        except ValueError as error:
            raise UsageError(f"This model cannot be built: {error}") from None

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def recipe_names() -> list[str]:
    """The recipes inside the package."""
    return sorted(
        file.name.removesuffix(".yaml") for file in files("dragoman.recipes").iterdir() if file.name.endswith(".yaml")
    )


def read_recipe(name: str) -> dict[str, Any]:
    """A recipe of the package by name, or any YAML file by path."""
    if name in recipe_names():
        text = files("dragoman.recipes").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    elif Path(name).is_file():
        text = Path(name).read_text(encoding="utf-8", errors="replace")
    else:
        known = recipe_names()
        raise UsageError(
            f"There is no recipe '{name}'{did_you_mean(name, known)}; choose {', '.join(known)} or a YAML file."
        )
    try:
        recipe = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        problem = " ".join(str(getattr(error, "problem", error)).split())
        raise DataError(f"The recipe {name}{where} is not YAML: {problem}.") from None
    if recipe is not None and not isinstance(recipe, dict):
        raise DataError(f"The recipe {name} must hold `key: value` lines, not a {type(recipe).__name__}.")
    return recipe or {}


def resolve(recipe: dict[str, Any], overrides: list[str]) -> RunConfig:
    """The run that a recipe and `section.key=value` overrides describe, all defaults filled in.

    Raises `UsageError` that names the key, the value and the remedy.
    """
    # A section whose keys are all commented out is as good as absent.
    tree = _copied({key: value for key, value in recipe.items() if value is not None})
    for override in overrides:
        path, equals, value = override.partition("=")
        if not equals:
            raise UsageError(f"`{override}` has no value; write `{override}=VALUE`.")
        branch = tree
        *parents, leaf = path.strip().split(".")
        for parent in parents:
            branch = branch.setdefault(parent, {})
            if not isinstance(branch, dict):
                raise UsageError(f"`{override}`: `{parent}` holds a value, not keys.")
        try:
            branch[leaf] = yaml.load(value, _Loader)
        except yaml.YAMLError:
            branch[leaf] = value
    try:
        return RunConfig.model_validate(tree)
    except ValidationError as error:
        raise UsageError(_sentence(error)) from None


def _copied(tree: dict[str, Any]) -> dict[str, Any]:
    return {key: _copied(value) if isinstance(value, dict) else value for key, value in tree.items()}


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = _all_keys(RunConfig)
        section = [name for name in known if name.rpartition(".")[0] == key.rpartition(".")[0]] or known
        return f"There is no setting `{key}`{did_you_mean(key, known)}; there are {', '.join(section)}."
    if first["type"] == "value_error":
        return f"`{key or 'model'}`: {first['ctx']['error']}"
    return f"`{key}` is {first['input']!r}: {first['msg'].lower()}."


def _all_keys(section: type[BaseModel], prefix: str = "") -> list[str]:
    keys = []
    for name, field in section.model_fields.items():
        nested = isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
        keys += _all_keys(field.annotation, f"{prefix}{name}.") if nested else [prefix + name]
    return keys


def did_you_mean(word: str, known: list[str]) -> str:
    """' (did you mean ...?)' if something known is spelled like `word`, else nothing."""
    close = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""
