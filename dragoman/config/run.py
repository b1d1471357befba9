"""A training run as one typed tree; unknown keys are errors."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

import yaml
from pydantic import Field, field_validator, model_validator

from dragoman.config.data import DataConfig, TokenizerConfig, without_secrets
from dragoman.config.decoding import DecodingConfig
from dragoman.config.finetuning import FinetuneConfig
from dragoman.config.section import Section
from dragoman.config.settings import Settings, merged
from dragoman.config.training import TrainingConfig
from dragoman.errors import Spell, did_you_mean
from dragoman.model.config import Size, TransformerConfig


class RunConfig(Section):
    """All settings of a run."""

    size: Size = "tiny"
    """Layers and widths, see `dragoman.model.config.PRESETS`."""
    seed: int = Field(1, ge=0, lt=2**63)
    """Decides the split, the first weights, the order of the pairs and dropout."""
    data: DataConfig = DataConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: dict[str, Any] = Field(default_factory=dict)
    """Fields of `TransformerConfig` that differ from the size's."""
    finetune: FinetuneConfig = FinetuneConfig()
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()
    chosen: list[str] = Field([])
    """Lines on what `train` has chosen, which it writes itself."""

    @field_validator("model")
    @classmethod
    def _has_known_fields(cls, choices: dict[str, Any]) -> dict[str, Any]:
        known = [field.name for field in dataclasses.fields(TransformerConfig)]
        for name in choices:
            if name in ("source_vocab_size", "target_vocab_size"):
                raise ValueError(f"`{name}` follows from the tokenizer; set tokenizer.vocab_size instead.")
            if name in ("pad_id", "bos_id", "eos_id"):
                raise ValueError(f"`{name}` follows from the tokenizer, which has its special tokens as 0 to 3.")
            if name not in known:
                raise ValueError(f"There is no `{name}`{did_you_mean(name, known)}.")
        return choices

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        try:
            model = self.transformer(1000, 1000)
        except ValueError as error:
            raise ValueError(f"`model`: {error}") from None
        if model.max_length is not None and model.max_length <= self.data.max_length:
            raise ValueError(
                f"`max_positions` is {model.max_length}, too few for sentences of data.max_length = "
                f"{self.data.max_length} tokens and an end; raise the one or lower the other."
            )
        if self.finetune.lora and self.training.parallel == "fsdp":
            raise ValueError(
                "finetune.lora learns changes of whole matrices, of which training.parallel=fsdp gives each process a "
                "part; leave out one of the two."
            )
        if self.finetune.lora and {"encoder", "decoder"} <= set(self.finetune.freeze):
            raise ValueError(
                "finetune.lora learns changes of the matrices of encoder and decoder, and finetune.freeze leaves none "
                "of them; leave out one of the two."
            )
        if self.finetune.lora and self.training.optimizer != "muon":
            raise ValueError(
                "finetune.lora has an optimizer of its own (Adam, for thin matrices); leave out training.optimizer."
            )
        if self.tokenizer.samples and self.training.guided_alignment:
            raise ValueError(
                "training.guided_alignment aligns tokens once, but tokenizer.dropout and tokenizer.sampling_alpha "
                "split words into others in each epoch; leave out one of the two."
            )
        if self.training.typos and (self.tokenizer.samples or self.tokenizer.kind == "word"):
            raise ValueError(
                "training.typos needs tokens that spell any word, and the same ones in each epoch; leave it out, or "
                "tokenizer.kind=word, tokenizer.dropout and tokenizer.sampling_alpha."
            )
        if self.training.has_hints and (self.tokenizer.samples or not self.tokenizer.shared):
            raise ValueError(
                "training.fuzzy and training.terms put words of the target behind sources: both need one vocabulary, "
                "and the same tokens in each epoch; leave out tokenizer.shared=false, tokenizer.dropout and "
                "tokenizer.sampling_alpha."
            )
        for key in {"guided_head", "aligned_token"} & self.model.keys():
            if self.model[key] and not self.training.guided_alignment and not self.finetune.model:
                raise ValueError(f"`{key}` needs training.guided_alignment; set that instead.")
        if model.share_embeddings and not self.tokenizer.shared and not self.finetune.model:
            raise ValueError(
                "`share_embeddings` gives source and target one table, but tokenizer.shared=false two vocabularies; "
                "leave out one of the two."
            )
        rates = (model.dropout, model.attention_dropout, model.activation_dropout, model.projection_dropout)
        if self.training.r_drop and not any(rates):
            raise ValueError(
                "`dropout` is 0, but training.r_drop compares two passes that differ by dropout alone; raise the one, "
                "or leave out the other."
            )
        return self

    @property
    def positions(self) -> int | None:
        """Most tokens of a sentence, its end included; None: any number."""
        return self.transformer(1000, 1000).max_length

    def transformer(self, source_vocab_size: int, target_vocab_size: int, **ids: int) -> TransformerConfig:
        """The architecture for vocabularies of these sizes. If both sides share a tokenizer, they share embeddings.

        `ids` are `pad_id`, `bos_id` and `eos_id`, for tokenizers that Dragoman has not trained.
        """
        sizes = {"source_vocab_size": source_vocab_size, "target_vocab_size": target_vocab_size}
        shared = {"share_embeddings": self.tokenizer.shared}
        is_guided = bool(self.training.guided_alignment)
        guided = {"guided_head": is_guided, "aligned_token": "read" if is_guided else "predicted"}
        if self.finetune.adapts and (self.model.get("guided_head") or not is_guided):
            guided = {}  # the head of a base model still knows what it was taught
        return TransformerConfig.preset(self.size, **(shared | self.model | sizes | ids | guided))

    def to_yaml(self) -> str:
        """All settings as YAML, without the passwords and signatures of URLs."""
        tree = self.model_dump(mode="json")
        for section in (tree, tree["tokenizer"]):
            keys = {"data", "finetune", "pairs"} & section.keys()
            section |= without_secrets({key: section[key] for key in keys})
        return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


def load_config(recipe: Settings, settings: Settings, *, spell: Spell = "`{}`".format) -> RunConfig:
    """The config of a recipe with settings, which take precedence, and with all defaults filled in.

    Raises `UsageError` that names the key, as `spell` writes it, the value and the remedy.
    """
    # A section whose keys are all commented out is as good as absent.
    sections = {key: value for key, value in recipe.items() if value is not None}
    decoding, own = sections.get("decoding"), settings.get("decoding")
    if isinstance(decoding, Mapping) and isinstance(own, Mapping) and "min_ratio" in own:
        # The shortest length of a recipe is one rule, which another ratio replaces as a whole.
        sections["decoding"] = {key: value for key, value in decoding.items() if key != "min_slack"}
    return RunConfig.validate(merged(sections, settings), spell=spell)
