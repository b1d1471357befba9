"""Runs that go on from a trained model: the settings that they take over from it, and those that contradict it."""

from collections.abc import Collection, Iterable
from dataclasses import asdict
from pathlib import Path

from dragoman.config.data import TokenizerConfig
from dragoman.config.decoding import DecodingConfig
from dragoman.config.run import RunConfig
from dragoman.config.training import FUZZY, TERMS, TrainingConfig
from dragoman.errors import UsageError, shown
from dragoman.storage.validate import TOKENIZERS, check_files, decoding_defaults
from dragoman.text.labels import languages_in, name_of
from dragoman.text.language_codes import known_language
from dragoman.text.tokenizers.hint_tokens import SIMILAR, TERM
from dragoman.text.tokenizers.pretrained import load_tokenizer

HINTS = {"fuzzy": (SIMILAR, FUZZY), "terms": (TERM, TERMS)}
"""Settings of `training` for hints: the token before one, and the usual share of sources that have it."""
FROM_TOKENIZERS = ("source_vocab_size", "target_vocab_size", "pad_id", "bos_id", "eos_id")
"""Fields of an architecture that follow from the tokenizers."""


def adopt_base_model(config: RunConfig) -> None:
    """Fill in a config with the architecture and the search of its base model.

    Only dropout and the search may differ from the base model, and the tokenizers where these are new: then dropout is
    chosen anew, too, as the pairs need it. Raises `DataError` if there is no such model, and `UsageError` for settings
    that contradict it.
    """
    path = Path(config.finetune.model or "")
    base_config, architecture = check_files(path)
    fields = {name: value for name, value in asdict(architecture).items() if name not in FROM_TOKENIZERS}
    for name, value in config.model.items():
        if "dropout" not in name and value != fields[name]:
            raise UsageError(
                f"model.{name}={value} contradicts {path}, where it is {fields[name]}: the base model "
                "decides on everything but dropout; leave it out."
            )
    if not config.finetune.adapts:
        del fields["dropout"]
    config.model = fields | config.model
    if config.finetune.adapts:
        kept, remedy = ("shared", "placeholders", "symbols"), "leave it out, or set finetune.vocabulary=new"
        refuse_new_tokenizers(config.tokenizer, path, kept=kept, remedy=remedy)
        source, target = (base_config[key] for key in TOKENIZERS)
        tokenizer = load_tokenizer(path / source)
        _teach_known_hints(tokenizer.hints, config.training)
        _refuse_unknown_hints(path, tokenizer.hints, config.training)
        kept_settings = {
            "shared": source == target,
            "placeholders": tokenizer.placeholders,
            "symbols": list(tokenizer.symbols),
        }
    else:
        kept_settings = {"shared": architecture.share_embeddings}
    chosen = TokenizerConfig(kind=config.tokenizer.kind)
    for name, value in kept_settings.items():
        given = getattr(config.tokenizer, name)
        if given not in (value, getattr(chosen, name)):  # so somebody has set it
            raise UsageError(f"tokenizer.{name} is {shown(value)} in {path}, whose weights need it so; leave it out.")
        setattr(config.tokenizer, name, value)
    # The shortest length follows from the pairs, too; all lengths are others in the tokens of another vocabulary.
    lengths = ["min_ratio", "min_slack", "min_ratios"]
    if not config.finetune.adapts:
        lengths += ["max_source_length", "max_ratio", "max_extra"]
    own = config.decoding.model_dump(exclude_unset=True)
    config.decoding = DecodingConfig.validate(decoding_defaults(path).fields_beside(own, without=lengths) | own)
    RunConfig.validate(config.model_dump(mode="json"))


def _teach_known_hints(known: Collection[str], training: TrainingConfig) -> None:
    """Go on with the hints that the base model reads, unless the settings say otherwise; without them, the model would
    forget how to use hints.
    """
    if training.joined:
        return
    for name, (hint, share) in HINTS.items():
        if hint in known and name not in training.model_fields_set:
            setattr(training, name, share)


def _refuse_unknown_hints(path: Path, known: Collection[str], training: TrainingConfig) -> None:
    """Raise `UsageError` if the base model does not read the hints that the run would teach it."""
    for name, (hint, _share) in HINTS.items():
        if getattr(training, name) and hint not in known:
            raise UsageError(
                f"training.{name} needs a token in the vocabulary, and that of {path} has none; leave it out, or give "
                "--new-vocabulary."
            )


def refuse_new_tokenizers(
    settings: TokenizerConfig, path: str | Path, *, kept: Collection[str], remedy: str = "leave it out"
) -> None:
    """Raise `UsageError` for a tokenizer setting, except those in `kept`: a run uses the tokenizers of `path`."""
    for name, field in type(settings).model_fields.items():
        if name not in kept and getattr(settings, name) != field.get_default():
            raise UsageError(f"tokenizer.{name} is for new tokenizers, but those of {path} are kept; {remedy}.")


def refuse_unknown_languages(
    model: str, labels: Iterable[str], known: list[tuple[str | None, str]], new_languages: Iterable[str]
) -> None:
    """Raise `UsageError` for a label of pairs whose languages the base model has no token for.

    `known` are the source and target languages of a base model that was trained here on several pairs of them, and
    `new_languages` are the codes of those that are added to the base model.
    """
    labels = list(labels)
    if not labels:
        return
    base_config, _ = check_files(Path(model))
    source, target = (load_tokenizer(Path(model) / base_config[key]) for key in TOKENIZERS)
    if not source.languages:
        targets = dict.fromkeys(target for _, target in known)
        for label in labels:
            if languages_in(label)[1] not in targets:
                what = (
                    f"translates into {', '.join(targets)} alone" if targets else "goes on with one pair of languages"
                )
                raise UsageError(f"{model} {what}, but there are pairs of {name_of(label)}; leave them out.")
        return
    if not source.open_to_labels().reads_labels:
        raise UsageError(
            f"{model} has the language of a source at its end, as NLLB's first tokenizer did, and goes on with one "
            "pair of languages; give the pairs of one."
        )
    codes = [*source.languages, *new_languages]
    for label in labels:
        for language in languages_in(label) if target.languages else languages_in(label)[1:]:
            if not language:
                raise UsageError(
                    f"{model} needs to know the source language of pairs into {name_of(label)}; name both, as in "
                    f"'data.languages=[en,{name_of(label)}]'."
                )
            try:
                known_language(language, codes)
            except UsageError:
                raise UsageError(
                    f"{model} does not know the language '{language}', but there are pairs of {name_of(label)}; leave "
                    "them out."
                ) from None
