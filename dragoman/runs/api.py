"""Learning from a program: `train`, `resume` and `evaluate`, as the commands of these names do it.

Pairs are files, as the commands take them, or what a program has: a list or an iterator of (source, target), dicts as
JSON has them, a DataFrame, or a Dataset of Hugging Face.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dragoman.config.run import RunConfig
from dragoman.config.settings import Settings, merged
from dragoman.data.bitext import Bitext
from dragoman.errors import DataError, UsageError, did_you_mean, shortened
from dragoman.evaluation.evaluate import Evaluation, evaluate_pairs
from dragoman.runs.plan import as_read_by, languages_for, plan_resume, plan_run
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.atomic import new_file
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


def train(
    pairs: Any,
    output: File,
    *,
    size: str | None = None,
    recipe: str | None = None,
    listener: Listener | None = None,
    **settings: Any,
) -> Evaluation:
    """Train a translator on sentence pairs into the folder `output`; returns its scores on the test pairs.

        dragoman.train("pairs.tsv", "runs/en-fr", max_minutes=20, training={"learning_rate": 1e-3})

    `pairs`, and `valid` and `test` among the settings, are the path of a file, two paths of aligned files, or pairs:
    (source, target) texts, dicts, a DataFrame, a Dataset. `size` is tiny, small, base or big; by default it follows
    from the pairs. Settings are those of the command: `max_minutes`, `precision`, `seed`, `languages`, `columns`,
    `finetune`, `tensorboard`, and the sections `data`, `tokenizer`, `model`, `training`, `finetune` and `decoding`,
    each a dict (docs/settings.md). A `listener` hears of the run, and may stop it.

    Raises `UsageError` for settings, `DataError` for pairs, and `ResourceError` where the machine does not suffice.
    """
    if size and recipe:
        raise UsageError("`size` and `recipe` both choose the settings; give one of them.")
    started, path = time.monotonic(), Path(output)
    directory, listener = RunDirectory(path), listener or Listener()
    directory.refuse_if_used()
    held_out = {part: settings.pop(part) for part in HELD_OUT if part in settings}
    tree = _tree(settings)
    files = {part: _files(given, directory, part) for part, given in held_out.items() if given is not None}
    tree = merged(tree, {"data": files} if files else {})
    config, planned = plan_run(_files(pairs, directory, "pairs"), recipe=recipe or size, settings=tree, near=path)
    from dragoman.runs.train import start_run  # which loads torch

    return start_run(planned, config, path, listener=listener, started=started)


def resume(path: File, *, listener: Listener | None = None, **settings: Any) -> Evaluation:
    """Go on with the run in a folder, from where it was stopped or beyond its limits; returns its scores.

        dragoman.resume("runs/en-fr", max_minutes=40)

    Settings are those of `train` that belong to the sections `training` and `decoding`.
    """
    started = time.monotonic()
    config = plan_resume(Path(path), _tree(settings))
    from dragoman.runs.train import resume_run  # which loads torch

    return resume_run(Path(path), config, listener=listener or Listener(), started=started)


def evaluate(
    model: File | Sequence[File],
    pairs: Any,
    *,
    languages: tuple[str | None, str | None] = (None, None),
    precision: str = "auto",
    workers: int = 1,
    **options: Any,
) -> Evaluation:
    """Score a model, or several together, on sentence pairs: BLEU, chrF++, TER, perplexity, token accuracy, speed.

        dragoman.evaluate("runs/en-fr", [("The red house is old.", "La maison rouge est vieille.")])

    `pairs` are as those of `train`, and `options` those of `Translator.translate`, such as `beam_size`.
    """
    from dragoman.config.decoding import DecodingConfig
    from dragoman.decoding.ensemble import load_ensemble
    from dragoman.storage.validate import check_languages, decoding_defaults

    paths = [Path(model)] if isinstance(model, str | os.PathLike) else [Path(each) for each in model]
    known = decoding_defaults(paths[0]).model_dump(exclude_unset=True)
    search = DecodingConfig.validate(known | options)
    with TemporaryDirectory() as folder:
        files = _paths(pairs) or [str(_written(pairs, Path(folder) / "pairs.jsonl"))]
        wanted = check_languages(paths[0], *languages, required=False)
        bitext = as_read_by(paths[0], Bitext.open(*files, languages=languages_for(paths[0], wanted)), wanted)
        loaded = load_ensemble(paths, languages=languages)
        return evaluate_pairs(loaded, list(bitext), search=search, precision=precision, workers=workers)


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
            sections = [field for field in RunConfig.model_fields if field not in (*OPTIONS, "chosen")]
            known = [*HELD_OUT, *OPTIONS, *sections]
            raise UsageError(f"There is no setting `{name}`{did_you_mean(name, known)}; there are {', '.join(known)}.")
    return merged(*trees)


def _paths(pairs: Any) -> list[str]:
    """The paths that were given instead of pairs; none if these are pairs."""
    if isinstance(pairs, str | os.PathLike):
        return [os.fspath(pairs)]
    if isinstance(pairs, list | tuple) and pairs and all(isinstance(each, str | os.PathLike) for each in pairs):
        if len(pairs) > 2:
            raise UsageError(f"There are {len(pairs)} files of pairs; give one, or two aligned ones, or the pairs.")
        return [os.fspath(each) for each in pairs]
    return []


def _files(pairs: Any, directory: RunDirectory, name: str) -> list[str]:
    """Files of pairs: those that were given, or one in the folder of the run into which the pairs are written."""
    if paths := _paths(pairs):
        return paths
    return [str(_written(pairs, directory.given / f"{name}.jsonl"))]


def _written(pairs: Any, path: Path) -> Path:
    """A file into which the pairs are written. Raises `DataError` if there are none."""
    rows = _rows(pairs)
    first = next(rows, None)  # before there is a folder for it
    if first is None:
        raise DataError("There are no pairs; give at least some thousands.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as file:
        for row in chain([first], rows):
            # Columns beside the two texts may hold what JSON does not know.
            file.write(json.dumps(row, ensure_ascii=False, default=str).encode(errors="surrogatepass") + b"\n")
    return path


def _rows(pairs: Any) -> Iterator[dict[str, Any]]:
    """Pairs as the rows of JSON that a file of pairs may have. Raises `DataError` that names what is none."""
    for number, row in enumerate(_items(pairs)):
        if isinstance(row, Mapping):
            yield dict(row)
        elif isinstance(row, list | tuple) and len(row) == 2 and all(isinstance(side, str) for side in row):
            yield {"source": row[0], "target": row[1]}
        else:
            raise DataError(
                f"Pair {number} is {shortened(repr(row))}; give two texts, (source, target), or a dict with two."
            )


def _items(pairs: Any) -> Iterable[Any]:
    if isinstance(pairs, Mapping):
        raise DataError("The pairs are a dict; give a list of pairs, or of dicts, each with a source and a target.")
    columns = getattr(pairs, "columns", None)
    if columns is not None and hasattr(pairs, "__getitem__"):  # a DataFrame of pandas or polars
        names = list(columns)
        return (dict(zip(names, values, strict=True)) for values in zip(*(pairs[name] for name in names), strict=True))
    if not isinstance(pairs, Iterable):
        raise DataError(f"The pairs are {shortened(repr(pairs))}; give the path of a file, or pairs of texts.")
    return pairs
