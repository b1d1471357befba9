"""The section `finetune`: a trained model that is adapted to the pairs of a run, or that lends it its weights."""

import re
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from dragoman.config.data import with_norwegian
from dragoman.config.section import Section
from dragoman.errors import shown

NEW_LANGUAGE = re.compile(r"[A-Za-z0-9_-]+(:like=[A-Za-z0-9_-]+)?")
"""A code, and perhaps that of a language which is like it."""
Part = Literal["embeddings", "encoder", "decoder"]


class FinetuneConfig(Section):
    """A trained model that is adapted to the pairs of this run; its architecture and, usually, tokenizers are kept."""

    model: str | None = None
    """The model directory to adapt, trained here or imported; empty: training begins from random weights."""
    vocabulary: Literal["kept", "new"] = "kept"
    """`kept`: the run goes on with the tokenizers of its model. `new`: new ones are trained, for other languages;
    pieces that the model knows keep their embeddings, and the others begin with those of their parts."""
    add_language: list[str] = Field([])
    """Code of a language that the model does not know, such as gn, or of several: each gets a token, whose embedding
    begins as the mean of those of all languages, or as that of one that is like it, as in gn:like=es."""
    mix: list[str] = Field([], max_length=2)
    """General pairs to train on as well, one or two files, so that the model does not forget what it knew."""
    share: float = Field(0.25, gt=0, lt=1)
    """With `mix`: the share of general pairs in an epoch."""
    test: list[str] = Field([], max_length=2)
    """General pairs to score before and after, one or two files; empty: split off `mix`, if there is one."""
    lora: int = Field(0, ge=0, le=4096)
    """LoRA: rank of the changes that are learned of the matrices inside the layers; all other weights stay as they are,
    but for embeddings where the vocabulary or a language is new. The optimizer needs hardly any memory. 0: all weights
    are trained."""
    freeze: list[Part] = Field([])
    """Parts whose weights stay as they are: `embeddings` (with a projection that is tied to them), `encoder`,
    `decoder`."""

    @field_validator("add_language", mode="before")
    @classmethod
    def _codes(cls, value: Any) -> Any:
        value = with_norwegian(value)
        return [value] if isinstance(value, str) else [] if value is None else value

    @model_validator(mode="after")
    def _has_model(self) -> Self:
        if not self.model:
            for name in ("mix", "test", "lora", "freeze", "vocabulary", "add_language"):
                if getattr(self, name) != type(self).model_fields[name].get_default(call_default_factory=True):
                    raise ValueError(f"`{name}` is for a run that goes on from a model; set finetune.model as well.")
        for name in self.add_language:
            if not NEW_LANGUAGE.fullmatch(name):
                raise ValueError(
                    f"`add_language` is {shown(name)}; give a code, such as gn, or with a language that it is like, "
                    "such as gn:like=es."
                )
        if len(self.new_languages) < len(self.add_language):
            raise ValueError("`add_language` names a language twice; leave one out.")
        if self.share != type(self).model_fields["share"].get_default() and not self.mix:
            raise ValueError("`share` is that of general pairs, and there are none; set finetune.mix as well.")
        if self.vocabulary == "new" and (self.mix or self.test):
            raise ValueError(
                "`vocabulary` is new, so the model forgets its own languages; leave out `mix` and `test`, whose pairs "
                "are of these."
            )
        if (self.vocabulary == "new" or self.add_language) and "embeddings" in self.freeze:
            what = "a new vocabulary" if self.vocabulary == "new" else "the new language"
            raise ValueError(f"`freeze` would keep the embeddings of {what} from being learned; leave them out.")
        if self.vocabulary == "new" and self.add_language:
            raise ValueError("`add_language` adds to a vocabulary that is kept; leave it out where that is new.")
        if len(set(self.freeze)) == 3:
            raise ValueError("`freeze` leaves nothing to train; leave out a part.")
        return self

    @property
    def new_languages(self) -> dict[str, str | None]:
        """The codes of the languages that are added, each with that of the one that is like it, if there is one."""
        named = (name.partition(":like=") for name in self.add_language)
        return {code: like or None for code, _, like in named}

    @property
    def adapts(self) -> bool:
        """Whether the run goes on with the tokenizers and languages of its model."""
        return self.model is not None and self.vocabulary == "kept"
