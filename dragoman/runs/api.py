"""Learning from a program: `train`, `resume` and `evaluate`, as the commands of these names do it.

Pairs are files, as the commands take them, or what a program has (see `dragoman.runs.program_pairs`).
"""

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypedDict, Unpack

from dragoman.config.decoding import DecodingOptions
from dragoman.config.elsewhere import SETTINGS, setting_for
from dragoman.config.run import RunConfig
from dragoman.config.section import section_in
from dragoman.config.settings import Settings, merged
from dragoman.data.bitext import Bitext
from dragoman.errors import UsageError, did_you_mean
from dragoman.evaluation.evaluate import Evaluation, evaluate_pairs, load_models
from dragoman.evaluation.overlap import sketches_of, with_overlaps
from dragoman.evaluation.remarks import with_remarks
from dragoman.model.config import Size, TransformerConfig
from dragoman.runs.notebook import default_listener
from dragoman.runs.plan import as_read_by, languages_for, plan_resume, plan_run
from dragoman.runs.program_pairs import files_of, paths_of, write_pairs_of
from dragoman.runs.synthetic.request import is_synthetic
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.listener import Listener

OPTIONS = {
    "columns": "data.columns",
    "languages": "data.languages",
    "finetune": "finetune.model",
    "max_minutes": "training.max_minutes",
    "precision": "training.precision",
    "tensorboard": "training.tensorboard",
}
"""Settings that have the short names of the command."""
HELD_OUT = ("valid", "test")
"""Settings that are pairs themselves."""
File = str | os.PathLike[str]
Section = Mapping[str, Any]
"""Settings of a section of the config, such as {"max_steps": 9}."""


class ResumeOptions(TypedDict, total=False):
    """Settings of `resume`, for editors and type checkers; docs/settings.md explains them."""

    max_minutes: float
    precision: str
    tensorboard: bool
    training: Section
    decoding: Section


class TrainOptions(ResumeOptions, total=False):
    """Settings of `train`, for editors and type checkers; docs/settings.md explains them."""

    valid: Any
    test: Any
    columns: Sequence[int | str]
    languages: Sequence[str]
    seed: int
    data: Section
    tokenizer: Section
    model: Section
    finetune: File | Section


def train(
    pairs: Any,
    output: File,
    *,
    size: Size | None = None,
    recipe: str | None = None,
    listener: Listener | None = None,
    **settings: Unpack[TrainOptions],
) -> Evaluation:
    """Train a translator on sentence pairs into the folder `output`; returns its scores on the test pairs.

        dragoman.train("pairs.tsv", "runs/en-fr", max_minutes=20, training={"learning_rate": 1e-3})

    `pairs`, and `valid` and `test` among the settings, are the path of a file, two paths of aligned files, or pairs:
    (source, target) texts, dicts, a DataFrame, a Dataset. `size` is tiny, small, base or big; by default it follows
    from the pairs. Settings are those of the command: `max_minutes`, `precision`, `seed`, `languages`, `columns`,
    `finetune`, `tensorboard`, and the sections `data`, `tokenizer`, `model`, `training`, `finetune` and `decoding`,
    each a dict (docs/settings.md). A `listener` hears of the run, and may stop it; without one, a notebook shows
    the run below its cell, and other programs hear warnings only.

    Raises `UsageError` for settings, `DataError` for pairs, and `ResourceError` where the machine does not suffice.
    """
    if size and recipe:
        raise UsageError("`size` and `recipe` both choose the settings; give one of them.")
    if size and settings.get("finetune"):
        raise UsageError("`finetune` keeps the size of its model; leave out `size`.")
    started, path = time.monotonic(), Path(output)
    directory, listener = RunDirectory(path), listener or default_listener()
    directory.refuse_if_used()
    held_out = {part: given for part, given in settings.items() if part in HELD_OUT}
    tree = _tree({name: value for name, value in settings.items() if name not in HELD_OUT})
    files = {part: files_of(given, directory, part) for part, given in held_out.items() if given is not None}
    tree = merged(tree, {"data": files} if files else {})
    config, planned = plan_run(files_of(pairs, directory, "pairs"), recipe=recipe or size, settings=tree, near=path)
    from dragoman.runs.train import start_run  # which loads torch

    return start_run(planned, config, path, listener=listener, started=started)


def resume(path: File, *, listener: Listener | None = None, **settings: Unpack[ResumeOptions]) -> Evaluation:
    """Go on with the run in a folder, from where it was stopped or beyond its limits; returns its scores.

        dragoman.resume("runs/en-fr", max_minutes=40)

    Settings are those of `train` that belong to the sections `training` and `decoding`.
    """
    started = time.monotonic()
    if is_synthetic(Path(path)):
        from dragoman.runs.synthetic.run import run_synthetic  # which loads torch

        return run_synthetic(Path(path), _tree(settings), listener=listener or default_listener(), started=started)
    config = plan_resume(Path(path), _tree(settings))
    from dragoman.runs.train import resume_run  # which loads torch

    return resume_run(Path(path), config, listener=listener or default_listener(), started=started)


def evaluate(
    model: File | Sequence[File],
    pairs: Any,
    *,
    languages: tuple[str | None, str | None] = (None, None),
    precision: str = "auto",
    workers: int = 1,
    variants: int = 0,
    memory: File | None = None,
    adapter: File | None = None,
    **options: Unpack[DecodingOptions],
) -> Evaluation:
    """Score a model, or several together, on sentence pairs: BLEU, chrF++, TER, perplexity, token accuracy, speed.

        dragoman.evaluate("runs/en-fr", [("The red house is old.", "La maison rouge est vieille.")])

    `pairs` are as those of `train`, and `options` those of `Translator.translate`, such as `beam_size`. With
    `variants`, the first so many pairs are also scored as people type them (`Evaluation.variants`). `memory` and
    `adapter` are those of `Translator.load`; `Evaluation.memory` says what the memory brings.
    """
    from dragoman.storage.validate import check_languages, decoding_defaults

    paths = [Path(model)] if isinstance(model, str | os.PathLike) else [Path(path) for path in model]
    search = decoding_defaults(paths[0]).with_options(options)
    with TemporaryDirectory() as folder:
        files = paths_of(pairs) or [str(write_pairs_of(pairs, Path(folder) / "pairs.jsonl"))]
        wanted = check_languages(paths[0], *languages, required=False)
        bitext = as_read_by(paths[0], Bitext.open(*files, languages=languages_for(paths[0], wanted)), wanted)
        given_pairs = list(bitext)
        evaluation = evaluate_pairs(
            load_models(paths, languages=languages, adapter=None if adapter is None else Path(adapter)),
            given_pairs,
            search=search,
            precision=precision,
            workers=workers,
            variants=variants,
            memory=None if memory is None else Path(memory),
        )
        target = languages[1] or bitext.target_language
        sketches = sketches_of(paths, adapter=None if adapter is None else Path(adapter))
        evaluation = with_overlaps(evaluation, sketches, given_pairs, models=list(map(str, paths)), target=target)
        return with_remarks(evaluation, given_pairs, sketches[0], (languages[0] or bitext.source_language, target))


def _tree(settings: Mapping[str, Any]) -> Settings:
    """Settings by their short names and sections as a tree. Raises `UsageError` for a name that is neither."""
    trees: list[Settings] = []
    for name, value in settings.items():
        if name in OPTIONS and not (name == "finetune" and isinstance(value, Mapping)):
            section, key = OPTIONS[name].split(".")
            trees.append({section: {key: os.fspath(value) if isinstance(value, os.PathLike) else value}})
        elif name in RunConfig.model_fields and name != "chosen":
            trees.append({name: value})
        else:
            raise UsageError(_no_setting(name))
    return merged(*trees)


def _no_setting(name: str) -> str:
    """Error message for an unknown keyword of `train`. It names the setting that was probably meant."""
    sections = [field for field in RunConfig.model_fields if field not in (*OPTIONS, "chosen")]
    known = [*HELD_OUT, *OPTIONS, *sections]
    inside = {f"{section}.{key}" for section in sections for key in _keys_of(section)}
    within = [key for key in sorted(inside) if key.rpartition(".")[2] == name]
    full = within[0] if within else SETTINGS.get(name, "")
    if full in inside:
        section, _, key = full.partition(".")
        return f'There is no setting `{name}` by itself; write {section}={{"{key}": ...}}.'
    if hint := setting_for(name, known):
        return f"There is no setting `{name}`{hint}."
    return f"There is no setting `{name}`{did_you_mean(name, known)}; there are {', '.join(known)}."


def _keys_of(section: str) -> list[str]:
    """The settings of a section of the config."""
    if section == "model":
        return [field.name for field in dataclasses.fields(TransformerConfig)]
    kind = section_in(RunConfig.model_fields[section].annotation)
    return list(kind.model_fields) if kind else []
