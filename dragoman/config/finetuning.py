"""The section `finetune`: a trained model that is adapted to the pairs of a run."""

from typing import Literal, Self

from pydantic import Field, model_validator

from dragoman.config.section import Section

Part = Literal["embeddings", "encoder", "decoder"]


class FinetuneConfig(Section):
    """A trained model that is adapted to the pairs of this run; its tokenizers and architecture are kept."""

    model: str | None = None
    """The model directory to adapt, trained here or imported; empty: training begins from random weights."""
    mix: list[str] = Field([], max_length=2)
    """General pairs to train on as well, one or two files, so that the model does not forget what it knew."""
    share: float = Field(0.25, gt=0, lt=1)
    """With `mix`: the share of general pairs in an epoch."""
    test: list[str] = Field([], max_length=2)
    """General pairs to score before and after, one or two files; empty: split off `mix`, if there is one."""
    freeze: list[Part] = Field([])
    """Parts whose weights stay as they are: `embeddings` (with a projection that is tied to them), `encoder`,
    `decoder`."""

    @model_validator(mode="after")
    def _has_model(self) -> Self:
        if not self.model:
            for name in ("mix", "test", "freeze"):
                if getattr(self, name):
                    raise ValueError(f"`{name}` is for a run that goes on from a model; set finetune.model as well.")
        if self.share != type(self).model_fields["share"].get_default() and not self.mix:
            raise ValueError("`share` is that of general pairs, and there are none; set finetune.mix as well.")
        if len(set(self.freeze)) == 3:
            raise ValueError("`freeze` leaves nothing to train; leave out a part.")
        return self
