"""The section `training`: optimizer, learning rate, loss, batches, limits and validations."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from dragoman.config.section import Section
from dragoman.errors import redacted
from dragoman.metrics import METRICS, Monitor
from dragoman.system.urls import is_url

Decay = Annotated[float, Field(ge=0, lt=1)]
ENDING = ("cosine", "linear")
"""Schedules that need to know the last step from the beginning, and reach 0 there."""
NO_TEACHER = "training.soft_targets needs teachers; type `dragoman distill TEACHER OUT --soft-targets SHARE`."
FUZZY, TERMS = 0.5, 0.1
"""Shares of the sources with the translation of a similar sentence, and with terms, behind them: --fuzzy, --terms."""


class TrainingConfig(Section):
    """How the model is trained."""

    optimizer: Literal["adam", "adamw", "muon", "rmsprop", "sgd"] = "muon"
    """`adamw` decouples weight decay from the gradient; `muon` orthogonalises the steps of matrices, with AdamW for the
    embeddings and norms."""
    learning_rate: float = Field(8e-3, gt=0)
    """Highest learning rate, reached at the end of the warm-up."""
    schedule: Literal["wsd", "inverse_sqrt", "cosine", "linear", "constant", "plateau"] = "wsd"
    """How the learning rate changes after the warm-up: `wsd` (warmup-stable-decay) is constant until `decay`,
    `inverse_sqrt` is the paper's, `cosine` and `linear` fall to 0 over the whole run, `plateau` is lowered when
    validations get no better."""
    warmup: int = Field(100, ge=1)
    """Steps in which the learning rate rises from 0."""
    decay: float = Field(0.5, gt=0, lt=1)
    """With `wsd`: the last share of the steps, in which the learning rate falls to 0. It begins in time for the limit
    of steps, epochs or minutes, or when `patience` is at its end."""
    plateau_factor: float = Field(0.5, gt=0, lt=1)
    """Factor by which the schedule `plateau` multiplies the learning rate."""
    plateau_patience: int = Field(3, ge=1)
    """Validations in a row without a clearly better one after which the schedule `plateau` lowers the learning rate."""
    betas: tuple[Decay, Decay] = (0.9, 0.98)
    """Adam's two decay rates, section 5.3 of the paper; RMSprop takes the second."""
    eps: float = Field(1e-9, gt=0)
    """Guard of Adam and RMSprop against division by zero."""
    momentum: Decay = 0.9
    """Share of the last step that SGD adds to the next one."""
    weight_decay: float = Field(0.0, ge=0)
    """How strongly weights are pulled towards 0; norms and biases are not."""
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    """Share of each target spread over the vocabulary, section 5.4 of the paper."""
    r_drop: float = Field(0.0, ge=0, le=1_000)
    """R-Drop penalises the difference between two predictions that differ by dropout, with this weight (alpha in its
    paper, which takes 5); 0: a single pass."""
    r_drop_epochs: float = Field(0.0, ge=0)
    """With `max_minutes`: the epochs below which R-Drop does not pay. If the run turns out so slow that it will come to
    fewer, R-Drop ends after a validation, and further steps take half the time; 0: never."""
    soft_targets: float = Field(0.0, ge=0, le=1)
    """Share of each target that comes from the probabilities of teachers; the rest is the reference token, with label
    smoothing. Only `distill --soft-targets` sets it."""
    guided_alignment: float | None = Field(None, ge=0, le=10)
    """Weight of the loss that teaches one head which source token each target token comes from, by statistics of the
    pairs; empty: 0.1 for a new model, unless its words are split anew in each epoch or it reads characters."""
    ema: Decay = 0.0
    """Decay of a moving average of the weights, such as 0.999. The average is validated and kept; 0: none."""
    joined: float = Field(0.0, ge=0, le=1)
    """Share of the pairs to which one to three others are joined in each epoch, so that the model learns texts longer
    than its pairs."""
    typos: float | None = Field(None, ge=0, le=1)
    """Share of the sources that have typos in each epoch, others each time, so that the model reads what people type;
    empty: 0.2 for a new model of 3,000 to 2 million pairs, if its vocabulary spells all words."""
    fuzzy: float = Field(0.0, ge=0, le=1)
    """Share of the sources that are followed, in each epoch, by the translation of the training pair that is most like
    them, so that the model reuses what `translate --memory` finds; 0: none. `train --fuzzy` sets 0.5, and so does a run
    that goes on from a model which was trained with it."""
    terms: float = Field(0.0, ge=0, le=1)
    """Share of the sources that are followed, in each epoch, by words of their translations, often in another form, so
    that the model puts the terms of a glossary in by itself, in the right form; 0: none. `train --terms` sets 0.1, and
    so does a run that goes on from a model which was trained with it."""
    max_tokens: int = Field(2048, ge=16)
    """Target tokens of one batch, padding included."""
    accumulate: int = Field(1, ge=1)
    """Batches whose gradients are added up for one step."""
    clip_norm: float = Field(1.0, ge=0)
    """Gradients with a larger norm are scaled down to this one; 0: never."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """How several processes (torchrun) divide a model: `ddp` has all of it in each process, `fsdp` a part."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of matrix products; `auto` is bfloat16 where the processor multiplies it natively, else float32."""
    max_steps: int | None = Field(None, ge=1)
    """Stop after this many steps."""
    max_epochs: int | None = Field(None, ge=1)
    """Stop after this many passes over the pairs."""
    max_minutes: float | None = Field(None, gt=0)
    """Length of the run in minutes, from the start of the command to its report; minutes before a resume count, too."""
    validate_every: Annotated[int, Field(ge=1)] | Literal["epoch"] | None = None
    """Steps between two validations, each of which writes a checkpoint; `epoch`: as many as an epoch has; empty:
    chosen so that validations take a twentieth of the time."""
    validate_sentences: int = Field(1000, ge=1)
    """At most this many sentences of the validation set are translated for BLEU; the loss is computed on all."""
    accuracy: bool = False
    """Also measure, at each validation, how often the likeliest next token is the right one: on the validation set and
    on as many batches of training pairs, both without dropout."""
    patience: int = Field(12, ge=1)
    """Stop after this many validations in a row without a clearly better one; with `wsd`, begin the decay then."""
    monitor: Monitor = "bleu"
    """The metric that decides which validation is the best, and so which model is kept: BLEU, chrF++ or the validation
    loss. Between equal scores the loss decides."""
    average: int = Field(1, ge=1)
    """At the end, the weights of this many last validations are averaged; the average is kept if it is better; 1:
    no average."""
    log_every: int = Field(10, ge=1)
    """Steps between two entries in `run/metrics.jsonl` and in TensorBoard."""
    tensorboard: bool = False
    """Also write the curves for TensorBoard, into `run/tensorboard`; needs the extra `tensorboard`."""
    mirror: str | None = None
    """URL of a folder, such as s3://bucket/en-fr, to which the run is copied after each checkpoint; from there
    `train --resume URL` goes on with it on another machine; empty: none."""

    @property
    def has_hints(self) -> bool:
        """Whether some sources are followed by hints, for which the vocabulary needs tokens."""
        return self.fuzzy > 0 or self.terms > 0

    @field_validator("mirror")
    @classmethod
    def _keeps_no_secrets(cls, mirror: str | None) -> str | None:
        if mirror and (not is_url(mirror) or redacted(mirror) != mirror):
            raise ValueError(
                "it must be a URL without password or query, such as s3://bucket/en-fr; keys come from the "
                "environment, such as AWS_PROFILE or FSSPEC_FTP_PASSWORD."
            )
        return mirror

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.schedule in ENDING:
            if not (self.max_steps or self.max_epochs):
                raise ValueError(
                    f"The schedule {self.schedule} reaches 0 at the end of the run and has to know it in steps: set "
                    "training.max_steps or training.max_epochs (minutes would make every run another)."
                )
            is_given = "warmup" in self.model_fields_set  # else it is chosen
            if is_given and self.max_steps and self.max_steps < self.warmup:
                raise ValueError(
                    f"training.max_steps is {self.max_steps}, so that the schedule {self.schedule} would end inside "
                    f"its training.warmup of {self.warmup} steps; shorten the warm-up."
                )
        if self.joined and self.soft_targets:
            raise ValueError(
                "training.joined makes other texts of the pairs, for which teachers gave no probabilities; leave out "
                "training.joined, or training.soft_targets."
            )
        if self.joined and self.guided_alignment:
            raise ValueError(
                "training.joined makes other texts of the pairs than those that were aligned; leave out "
                "training.joined, or training.guided_alignment."
            )
        if self.joined and self.has_hints:
            raise ValueError(
                "training.joined makes other texts of the pairs than those from which training.fuzzy and "
                "training.terms take hints; leave out training.joined, or these."
            )
        if self.schedule == "plateau" and self.plateau_patience >= self.patience:
            raise ValueError(
                f"training.plateau_patience is {self.plateau_patience}, but the run ends after training.patience = "
                f"{self.patience} validations without a {METRICS[self.monitor].improvement}; it must be smaller."
            )
        return self
