"""The section `decoding`: how translations are searched for."""

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Self, TypedDict

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from dragoman.config.section import Section
from dragoman.errors import Spell, UsageError

BEAM_SEARCH = (
    "beam_size", "length_penalty", "length_offset", "min_ratio", "min_slack", "max_ratio", "max_extra", "max_copies"
)  # fmt: skip
"""Fields of the search for one translation."""
DRAWING = ("sample", "temperature", "top_k", "top_p")
"""Fields of a search that draws translations."""
MOST_RATIO, MOST_SLACK = 10, 100
"""Most target tokens for each source token that a limit may have, and most of `min_slack`."""
LONGEST_TERM = 100
"""Characters of a term: the time to look for one grows with the square of its length and more."""


class DecodingConfig(Section):
    """How sentences are translated: keywords of `Translator.translate`, options of the commands, and what a run's
    scores are made with."""

    split: bool = True
    """Split each text into sentences, and put their translations together; scores are always computed without."""
    max_source_length: int | None = Field(None, ge=4)
    """With `split`: a sentence with more tokens is cut into parts, at commas or spaces, with a warning; empty: half as
    many again as the longest sentence that the model was validated on, or 256."""
    beam_size: int = Field(5, ge=1, le=64)
    """Hypotheses kept alive; 1 is greedy search."""
    length_penalty: float = Field(1.0, ge=0, le=10)
    """Log-probabilities are divided by the length to this power; 0 favours short translations."""
    length_offset: float = Field(0.0, ge=0, le=1_000)
    """With an offset k, the length counts as (k + length) / (k + 1) there; 5 is the rule of the paper, by Wu et al.
    (2016), and favours longer translations less."""
    min_ratio: float | None = Field(None, ge=0, le=MOST_RATIO)
    """A translation has at least so many tokens for each one of its source; 0: any number; empty: what `train` has
    stored with the model, which is the usual number, less `min_slack`."""
    min_slack: float | None = Field(None, ge=0, le=MOST_SLACK)
    """With `min_ratio`: a translation may have so many tokens fewer, times the square root of the number of tokens of
    its source. Empty: with a `min_ratio` of yours 0, else what `train` has stored, which allows 0.6 of the usual length
    for a source of average length."""
    min_ratios: dict[str, tuple[float, float]] = Field({})
    """`min_ratio` and `min_slack` for each target language of a model that has several, as `train` has stored them."""
    max_ratio: float = Field(2.0, ge=0, le=MOST_RATIO)
    """A translation has at most so many tokens for each one of its source, and `max_extra` more."""
    max_extra: int = Field(20, ge=0, le=1_000)
    """With `max_ratio`: tokens that a translation may have besides. The paper's limit, input length and 50, is a ratio
    of 1 with 50 more."""
    n_best: int = Field(1, ge=1, le=1_000)
    """Translations of each sentence, best first."""
    mbr: int = Field(0, ge=0, le=100)
    """Minimum Bayes risk: also draw so many translations, and choose the one that is most like all of them and the
    beams; 24 takes some 25 times as long as beam search. 0: the most probable translation."""
    diversity: float = Field(0.0, ge=0, le=1_000)
    """Diverse beam search: each of the `n_best` has a group of beams of its own, and a token costs this much for every
    beam of an earlier group that has just taken it; 0 is ordinary beam search."""
    sample: bool = False
    """Draw the `n_best` translations at random instead of searching for the most probable ones."""
    temperature: float = Field(1.0, gt=0)
    """With `sample`: below 1 favours probable tokens, above 1 improbable ones."""
    top_k: int | None = Field(None, ge=1)
    """With `sample`: draw from this many of the most probable tokens only."""
    top_p: float = Field(1.0, gt=0, le=1)
    """With `sample`: draw from the most probable tokens only, as many as have this probability together."""
    seed: int = Field(1, ge=0)
    """With `sample`: the same sentence and seed give the same samples, whatever the other sentences are."""
    prefix: str = ""
    """Text that every translation begins with."""
    max_copies: int = Field(3, ge=0, le=1_000_000)
    """How often a phrase may be repeated in a row, and any three tokens in the whole translation, unless the source
    repeats itself more often; 0 is any number."""
    alignments: bool = False
    """Add word alignments: which source word each target word comes from."""
    confidence: bool = False
    """Add how far each translation can be trusted: its expected chrF++, from 0 to 1, and the probability of an edit."""
    checks: bool = False
    """Add what a person should look at in each sentence: its confidence, if there is one, and warnings of lost numbers,
    units, negations and names, of words in the source language, of a wrong length and of repetitions."""
    only_above: float | None = Field(None, ge=0, lt=1)
    """Leave a text as it is unless the confidence of its translation is above this."""
    glossary: dict[str, str] = Field(default_factory=dict)
    """Source terms and the target terms that must appear where they occur; a term in small letters occurs in any
    case."""
    inflect: bool = True
    """With a model that was trained with `--terms`: a glossary term may appear in another form, such as the plural."""
    forbid: list[str] = Field(default_factory=list)
    """Target terms that must not appear; a term in small letters is forbidden in any case."""
    max_tokens: int | None = Field(None, ge=1)
    """Source tokens of a batch with padding, times beams; empty: as many as suit the precision, and twice as many
    for one decoder layer. A larger batch is hardly faster and takes more memory."""

    @property
    def needs_confidence(self) -> bool:
        """Whether the confidence of translations has to be computed."""
        return self.confidence or self.only_above is not None

    def alone(self, **changes: Any) -> Self:
        """The same search for whole sentences, of which the translation is needed and nothing beside it.

        `changes` are other fields to set.
        """
        beside = {"split": False, "alignments": False, "confidence": False, "checks": False, "only_above": None}
        return self.model_copy(update=beside | changes)

    def least(self, target: str | None) -> tuple[float, float] | None:
        """`min_ratio` and `min_slack` of translations into a language; None: of any length."""
        if self.min_ratio is not None:
            return self.min_ratio, self.min_slack or 0.0
        return self.min_ratios.get(target or "")

    def of_any_length(self) -> Self:
        """The same search for translations that may end at once."""
        return self.model_copy(update={"min_ratio": None, "min_slack": None, "min_ratios": {}})

    def by_beams(self, n_best: int = 1) -> Self:
        """The same search for whole sentences by beams alone: without drawing, diversity and choosing by agreement."""
        usual = {name: type(self).model_fields[name].default for name in (*DRAWING, "diversity", "mbr")}
        return self.alone(n_best=n_best, **usual)

    def for_one(self, what: str = "", *, is_explicit: bool = False, option: str = "`n_best`") -> Self:
        """The same search for one translation of each text, as `what` has it.

        Raises `UsageError` if a user gave an `option` for several, so that the number `is_explicit`; a model may have
        such a search stored.
        """
        if is_explicit and self.n_best > 1:
            raise UsageError(f"{what} has one translation of each text; leave out {option}.")
        return self.with_options({"n_best": 1})

    def with_options(self, options: Mapping[str, Any], *, spell: Spell = "`{}`".format) -> Self:
        """This search with other `options`. Raises `UsageError` if they make no sense."""
        return self.validate(self.fields_beside(options) | {**options}, spell=spell)

    def fields_beside(self, options: Mapping[str, Any], *, without: Collection[str] = ()) -> dict[str, Any]:
        """The fields that are set. Left out are those in `without`, and those that `options` contradict: drawing,
        diversity and choosing by agreement exclude each other, the last two are of several translations, and what a
        model stores as its shortest length belongs together.
        """
        left_out = {*without}
        if "min_ratio" in options:
            left_out.add("min_slack")
        draws, diversity, mbr, n_best = (self._in(options, name) for name in ("sample", "diversity", "mbr", "n_best"))
        if mbr or diversity or draws is False:
            left_out |= {*DRAWING, "n_best"} if self.sample else {*DRAWING}
        if mbr or draws or n_best == 1:
            left_out.add("diversity")
        if draws or diversity:
            left_out.add("mbr")
        return self.model_dump(exclude_unset=True, exclude=left_out)

    @classmethod
    def _in(cls, options: Mapping[str, Any], name: str) -> Any:
        """The value of an option, which may be a text as commands and forms have it; None if it is absent or wrong."""
        try:
            return cls._reader(name).validate_python(options.get(name))
        except ValidationError:
            return None

    @classmethod
    @cache
    def _reader(cls, name: str) -> TypeAdapter[Any]:
        """Reads the values of a field."""
        kind: Any = cls.model_fields[name].annotation
        return TypeAdapter(kind)

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        for target, (ratio, slack) in self.min_ratios.items():
            if not (0 <= ratio <= MOST_RATIO and 0 <= slack <= MOST_SLACK):
                raise ValueError(
                    f"`min_ratios` has {ratio:g} and {slack:g} for {target}; give a ratio from 0 to {MOST_RATIO} and a "
                    f"slack from 0 to {MOST_SLACK}."
                )
        if self.max_copies == 1:
            raise ValueError("`max_copies` is 1, which forbids 'very very'; give 2 or more, or 0 for any number.")
        if self.mbr and (self.sample or self.diversity):
            raise ValueError("`mbr` draws and compares translations by itself; leave out `sample` and `diversity`.")
        if not self.sample:
            for name in DRAWING[1:]:
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f"`{name}` is for sampling; add `sample`, or leave it out.")
            if self.n_best > self.beam_size:
                raise ValueError(
                    f"`n_best` is {self.n_best}, but search keeps {self.beam_size} hypotheses; raise `beam_size`."
                )
        if self.diversity and (self.sample or self.n_best < 2 or self.beam_size % self.n_best):
            raise ValueError(
                "`diversity` divides the beams among the translations: give `n_best` 2 or more and a `beam_size` that "
                "is a multiple of it, without `sample`."
            )
        for term in (*self.glossary, *self.glossary.values(), *self.forbid):
            if not term.strip():
                raise ValueError("A term of `glossary` or `forbid` is blank; leave it out.")
            if len(term) > LONGEST_TERM:
                raise ValueError(f"A term of `glossary` or `forbid` has over {LONGEST_TERM} characters; shorten it.")
        return self


class DecodingOptions(TypedDict, total=False):
    """The fields of `DecodingConfig` as keywords, for editors and type checkers."""

    split: bool
    max_source_length: int | None
    beam_size: int
    length_penalty: float
    length_offset: float
    min_ratio: float | None
    min_slack: float | None
    min_ratios: dict[str, tuple[float, float]]
    max_ratio: float
    max_extra: int
    n_best: int
    mbr: int
    diversity: float
    sample: bool
    temperature: float
    top_k: int | None
    top_p: float
    seed: int
    prefix: str
    max_copies: int
    alignments: bool
    confidence: bool
    checks: bool
    only_above: float | None
    glossary: dict[str, str]
    inflect: bool
    forbid: list[str]
    max_tokens: int | None
