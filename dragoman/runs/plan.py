"""The plan of a run: its config and its pairs, before torch is loaded, so that mistakes are reported at once."""

import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from dragoman.config.data import DataConfig
from dragoman.config.recipes import read_recipe
from dragoman.config.run import RunConfig, load_config
from dragoman.config.settings import Settings, merged, spelled
from dragoman.data.bitext import Bitext, CleanedBitext, OpenedBitext
from dragoman.data.corpora import open_corpora, open_held_out
from dragoman.data.journal import Journal
from dragoman.data.one_spelling import in_one_spelling
from dragoman.data.pair_file import PairFile, write_pairs
from dragoman.data.prepared_folder import PreparedFolder
from dragoman.data.readers.registry import settings_for
from dragoman.data.readers.types import Pair
from dragoman.data.sampling import sampled
from dragoman.data.splitting import sizes_to_hold_out
from dragoman.errors import DataError, UsageError, command_line
from dragoman.evaluation.agreement import check_models
from dragoman.runs.choices import Resources, choose
from dragoman.runs.finetune import adopt_base_model, refuse_unknown_languages
from dragoman.storage.metrics_log import REQUESTED, read_metrics
from dragoman.storage.mirror import Mirror
from dragoman.storage.run_directory import RunDirectory
from dragoman.storage.validate import check_languages, directions, languages
from dragoman.system.optional import load
from dragoman.system.resources import cores, started_together
from dragoman.system.seals import MANIFEST
from dragoman.system.urls import file_system
from dragoman.text.characters import normalised
from dragoman.text.identification import certain_language
from dragoman.text.labels import languages_in
from dragoman.text.language_codes import Languages, close, plain_code, same_language, two_letters
from dragoman.text.orthographies import MIXED
from dragoman.text.scripts import unspaced_language

IDENTIFIED, LOOKED_AT = 4_000, 200_000
"""Pairs by whose text the languages are identified, and the pairs of the files that these are drawn from."""


def choose_data(paths: list[str], *, recipe: str | None = None, settings: Settings) -> DataConfig:
    """The section `data` of a run; one or two files in `paths` replace those that recipe and settings name."""
    return build_config_with_pairs(paths, recipe, settings).data


def plan_run(
    paths: list[str], *, recipe: str | None, settings: Settings, near: Path = Path()
) -> tuple[RunConfig, PairFile | PreparedFolder]:
    """The config of a new run and its pairs. `start_run` fills in what follows from how often these will be seen.

    The pairs are cleaned into a file on the disk of `near`, unless `paths` is a folder in which they are prepared.
    """
    folder = _prepared_folder(paths)
    # A wrong key, or a library that is missing, is found before a large corpus is read.
    config = build_config(recipe, settings) if folder else build_config_with_pairs(paths, recipe, settings)
    if config.training.mirror:
        Mirror(config.training.mirror).refuse_if_used()
    if folder:
        return _plan_prepared(config, folder), folder
    return plan_pairs(config, near=near)


def _prepared_folder(paths: list[str]) -> PreparedFolder | None:
    """The folder that `dragoman data prepare` has written or begun, if `paths` is one."""
    if len(paths) != 1:
        return None
    folder = PreparedFolder(Path(paths[0]))
    return folder if folder.origin else None


def _plan_prepared(config: RunConfig, folder: PreparedFolder) -> RunConfig:
    """The config of a run on prepared pairs, filled in. Raises `DataError` if their preparation broke off."""
    if not (folder.path / MANIFEST).is_file():
        raise DataError(f"{folder.path} is not prepared completely; type its `dragoman data prepare` again.")
    config = folder.settle(config)
    if config.training.joined:
        refuse_unspaced(config.data.languages or ())
    if config.training.has_hints:
        raise UsageError(
            "training.fuzzy and training.terms need tokens in the vocabulary, which prepared pairs do not have; give "
            "the files of the pairs."
        )
    _choose(config, *folder.counts)
    config.chosen += [*describe_respelled(folder.respelled), *describe_occurrences(folder.occurrences)]
    if folder.languages_were_open:
        config.chosen.append(describe_languages(config.data.languages))
    config.chosen += folder.changes()
    return config


def plan_pairs(config: RunConfig, *, near: Path, journal: Journal | None = None) -> tuple[RunConfig, PairFile]:
    """Fill in a config after cleaning the pairs that it names into a file on the disk of `near`; returns both.

    A `journal` has what was cleaned before the preparation broke off.
    """
    known_directions: list[tuple[str | None, str]] = []
    if config.finetune.model:
        base = Path(config.finetune.model)
        adopt_base_model(config)
        if config.finetune.adapts:
            config.data.languages = config.data.languages or languages(base)
            known_directions = directions(base)
            sources = [source for source, _ in known_directions]
            for code in config.finetune.new_languages:
                known_directions += [(source, plain_code(code)) for source in sources]
    if config.data.holds_out_all and config.data.split != "sentence":
        raise UsageError(
            f"data.split={config.data.split} says how pairs are split off, but validation and test pairs are given; "
            "leave it out."
        )
    bitext = open_corpora(config.data, labelled=bool(known_directions))
    held_out_parts = open_held_out(config.data, bitext.languages, labelled=bitext.has_labels)
    languages_were_open = not bitext.languages and not bitext.has_labels
    if languages_were_open and held_out_parts:  # they are read in the languages of the pairs
        config.data.languages = _identified(bitext, _drawn(bitext), held_out_parts.values())
        if config.data.languages:
            bitext = open_corpora(config.data)
            open_held_out(config.data, bitext.languages)
    check_models(config.data.cleaning, bitext)
    for files in (config.finetune.mix, config.finetune.test, config.tokenizer.pairs):
        if files:  # opened only to find a mistake in them now
            Bitext.open(*files, languages=bitext.languages)
    pairs = write_pairs(bitext, config, near=near, journal=journal)
    if languages_were_open and not held_out_parts:
        config.data.languages = _identified(bitext, list(pairs.sample(IDENTIFIED)))
        if config.data.languages:
            pairs.source_language, pairs.target_language = config.data.languages
    if config.training.joined:
        refuse_unspaced(config.data.languages or pairs.languages or ())
    for code in config.finetune.new_languages:
        refuse_other_pairs(code, pairs)
    if config.training.has_hints and pairs.counts.labels:
        raise UsageError(
            "training.fuzzy and training.terms are for one pair of languages: what is most like a source, and other "
            "forms of a word, may be of another language. Leave them out."
        )
    if config.finetune.model and config.finetune.adapts:
        new_languages = config.finetune.new_languages
        refuse_unknown_languages(config.finetune.model, pairs.counts.labels, known_directions, new_languages)
    held_out = sizes_to_hold_out(pairs.counts, config.data, pairs.name)
    _choose(config, round(pairs.share * pairs.counts.pairs), pairs.share * pairs.counts.tokens)
    if config.data.one_spelling and (respelled := in_one_spelling(pairs, config, near=near)) is not pairs:
        pairs.close()
        pairs = respelled
        config.chosen += describe_respelled(record.to_dict() for record in pairs.counts.respelled)
    config.chosen += describe_occurrences(pairs.counts.occurrences(config.data))
    if languages_were_open:
        config.chosen.append(describe_languages(config.data.languages))
    if not config.data.holds_out_all:
        config.data.held_out = held_out
    return config, pairs


def _drawn(bitext: CleanedBitext) -> list[Pair]:
    """Some of the pairs as they are in their files."""
    pairs = chain.from_iterable(corpus.bitext for corpus in bitext.corpora)
    return sampled(islice(pairs, LOOKED_AT), IDENTIFIED)


def _identified(bitext: Bitext, sample: list[Pair], held_out: Iterable[Bitext] = ()) -> tuple[str, str] | None:
    """The languages of a bitext that does not say them, by the text of a sample, if these are certain.

    A held-out file that says its own spells the codes.
    """
    random.Random(0).shuffle(sample)
    named = [code for part in held_out for code in (part.source_language, part.target_language) if code]
    languages = []
    for side, known in enumerate((bitext.source_language, bitext.target_language)):
        code = known or certain_language([normalised(pair[side]) for pair in sample])
        if code is None:
            return None
        languages.append(next((name for name in named if not known and close(two_letters(name), code)), code))
    source, target = languages
    return None if close(two_letters(source), two_letters(target)) else (source, target)


def describe_languages(identified: tuple[str, str] | None) -> str:
    """A sentence on pairs that did not say their languages; None if these are not certain."""
    if identified is None:
        return (
            "The languages are not certain; name them, as in 'data.languages=[en,fr]': scores, the splitting of "
            "sentences and servers depend on them."
        )
    source, target = identified
    return f"By their text, the pairs are {source} to {target}; if not, name them, as in 'data.languages=[en,fr]'."


def _choose(config: RunConfig, pairs: int, tokens: float) -> None:
    """Fill in the settings by which pairs are prepared, from the number of pairs and tokens and from this machine."""
    if config.data.cleaning.models:  # these have not scored the pairs yet
        pairs, tokens = round(pairs * config.data.cleaning.keep), tokens * config.data.cleaning.keep
    choose(config, resources(pairs, tokens))


def resources(pairs: int, tokens: float) -> Resources:
    """Pairs and processors of a run of all processes that torchrun or its like has started."""
    import torch  # takes seconds, so mistakes are reported before it

    ranks, on_this_machine = started_together()
    gpus = ranks if torch.cuda.is_available() else 0
    return Resources(pairs, tokens, cores() * ranks // on_this_machine, gpus)


def refuse_unspaced(languages: Iterable[str | None]) -> None:
    """Raise `UsageError` for a language whose sentences no space separates: joined pairs have spaces between."""
    for language in languages:
        if language and unspaced_language(language, []):
            raise UsageError(f"training.joined puts spaces between sentences, and {language} has none; leave it out.")


def refuse_other_pairs(code: str, pairs: PairFile) -> None:
    """Raise `UsageError` if no pairs are of the language that is added to a model."""
    named = [*(pairs.languages or ()), *chain.from_iterable(map(languages_in, pairs.counts.labels))]
    if not any(name and same_language(name, code) for name in named):
        languages = ", ".join(filter(None, named)) or "languages that nobody has named"
        raise UsageError(
            f"--add-language adds {code}, but the pairs are of {languages}; name theirs, as in "
            f"'data.languages=[es,{code}]'."
        )


def describe_occurrences(occurrences: dict[str, float]) -> list[str]:
    """A sentence that says how often pairs of each corpus occur in an epoch; none if there are no `occurrences`."""
    often = ", ".join(f"of {name.rpartition('/')[2]} {times:.3g} times" for name, times in occurrences.items())
    return [f"In an epoch, by data.temperature, each pair occurs: {often}."] if often else []


def describe_respelled(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Sentences on targets that were written in one spelling, from their records (`Respelled.to_dict`)."""
    sentences = []
    for record in records:
        language = f" in {record['language']}" if record["language"] else ""
        sentences.append(
            f"{record['targets']:,} targets{language} were respelled, so that all have one spelling: "
            f"{record['respelling']}. To keep them as they are, set data.one_spelling=false."
        )
        if record["tests_others"] > MIXED:
            sentences.append(
                f"{record['tests_others']:.0%} of the test pairs{language} are in a spelling that was replaced, so "
                "scores will be too low: give --valid with pairs of their kind, or set data.one_spelling=false."
            )
    return sentences


def plan_resume(path: Path, settings: Settings) -> RunConfig:
    """The config of the run in a directory, with changed keys of `training` and `decoding`.

    Raises `UsageError` or `DataError` for a run that cannot be resumed.
    """
    directory = RunDirectory(path)
    if not directory.config.is_file():
        where = () if path.exists() else ("--output", path)
        raise UsageError(
            f"{path} holds no run to go on with; start one with `{command_line('train', 'DATA', *where)}`."
        )
    directory.refuse_if_locked()
    refuse_fixed(settings)
    config = build_config(str(directory.config), settings)
    changed = [text for text in spelled(settings) if not text.startswith("training.mirror=")]  # a bucket is private
    if changed:
        config.chosen.append(f"Went on with {', '.join(changed)}.")
    if not (directory.data / MANIFEST).is_file():
        raise DataError(f"{directory.data} is not complete; start a new run with another --output.")
    events = read_metrics(directory.metrics)
    end = events[-1] if events and events[-1]["event"] == "end" else {}
    is_finished = bool(end) and end["reason"] != REQUESTED and not end.get("incomplete")
    if is_finished and not settings:
        raise UsageError(
            f"The run in {path} is finished, after {end['reason']}; to train on, give a higher limit: "
            "--max-minutes, training.max_steps, training.max_epochs or training.patience."
        )
    return config


def languages_for(model: Path | None, wanted: Languages) -> tuple[str, str] | None:
    """Source and target language of pairs to score: the wanted ones, or else those of the model, if there is one."""
    source, target = wanted
    if source and target:
        return source, target
    return languages(model) if model else None


def as_read_by(model: Path, bitext: OpenedBitext, wanted: Languages) -> Bitext:
    """The pairs as a model reads them: each source begins with a language label if the model knows several languages.

    Languages that are not `wanted` are those that the pairs say, or the only ones of the model. Raises `UsageError` if
    nothing tells the target language.
    """
    if not directions(model):
        return bitext
    of_pairs = bitext.languages or (None, None)
    source, target = check_languages(model, wanted[0] or of_pairs[0], wanted[1] or of_pairs[1])
    return bitext.labelled(source, target or "")


def refuse_fixed(settings: Settings) -> None:
    """Raise `UsageError` for a setting that cannot change in a resumed run."""
    fixed = {section: keys for section, keys in settings.items() if section not in ("training", "decoding")}
    if fixed:
        raise UsageError(
            f"`{next(spelled(fixed))}` cannot change in a resumed run; start a new one with another --output."
        )


def build_config(recipe: str | None, settings: Settings, paths: Sequence[str] = ()) -> RunConfig:
    """The config of a recipe with settings; one or two files in `paths` replace those that both name.

    Settings that recipe and user leave open stay open. An error in the recipe itself names the recipe. Also raises an
    error if a library is missing that the config needs.
    """
    tree = read_recipe(recipe) if recipe else {}
    if paths:
        files: Settings = {"corpora": [], "source": paths[0], "target": paths[1] if len(paths) > 1 else None}
        settings = merged(settings, {"data": files})
    try:
        config = load_config(tree, settings)
        if defaults := settings_for(config.data.source):
            config = load_config(merged(defaults, tree), settings)
    except UsageError:
        try:
            load_config(tree, {})
        except UsageError as error:
            raise DataError(f"{recipe} cannot be used by this version of Dragoman: {error}") from None
        raise
    if config.training.mirror:
        file_system(config.training.mirror)  # raises if its library is missing
    if config.training.tensorboard:
        load("tensorboard", extra="tensorboard", purpose="Writing curves for TensorBoard")
    return config


def build_config_with_pairs(paths: Sequence[str], recipe: str | None, settings: Settings) -> RunConfig:
    """The same as `build_config`. Raises `UsageError` if the config names no pairs."""
    config = build_config(recipe, settings, paths)
    if not config.data.source and not config.data.corpora:
        raise UsageError(
            "There are no pairs to read; give a file of pairs or two aligned files, or a recipe with data.source."
        )
    return config
