"""The section `training`."""

from typing import Annotated, Literal

from pydantic import Field

from dragoman.config.section import Section

Decay = Annotated[float, Field(ge=0, lt=1)]


class TrainingConfig(Section):
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
