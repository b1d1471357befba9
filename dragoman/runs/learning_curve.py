"""A learning curve: models that are trained on a part of the pairs, to tell what more pairs would bring."""

import math
from collections.abc import Sequence
from pathlib import Path

from dragoman.config.run import RunConfig
from dragoman.config.settings import Settings, merged
from dragoman.errors import UsageError
from dragoman.evaluation.evaluate import Evaluation
from dragoman.runs.outlook import SHARES, CurvePoint, point_of
from dragoman.runs.plan import plan_run
from dragoman.runs.train import start_run
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.listener import Listener
from dragoman.system.seals import write_sealed


def refuse_without_parts(config: RunConfig) -> None:
    """Raise `UsageError` for pairs of which no share can be trained on, and for a model that knows others."""
    if config.finetune.model:
        raise UsageError("--learning-curve trains new models; leave out finetune.model.")
    if config.data.temperature or any(corpus.weight > 1 for corpus in config.data.corpora):
        raise UsageError(
            "--learning-curve trains on shares of the pairs, but data.temperature or a weight above 1 says how often "
            "they occur; leave one of the two out."
        )


def train_on_parts(
    paths: Sequence[str],
    recipe: str | None,
    settings: Settings,
    path: Path,
    config: RunConfig,
    whole: Evaluation,
    listener: Listener,
) -> list[CurvePoint]:
    """Train on parts of the pairs of a finished run in `path`, each for as large a share of its minutes.

    The settings are those of the run, and the same pairs are held out. The models stay in a folder of the run, which
    gets the scores as `curve.json`. Returns the scores, that of the whole run last.
    """
    directory = RunDirectory(path)
    points = []
    for share in SHARES:
        part = directory.learning_curve / f"{share:g}"
        limits: Settings = {"mirror": None}  # the URL has the whole run already
        if config.training.max_minutes:
            limits["max_minutes"] = share * config.training.max_minutes
        if config.training.max_steps:
            limits["max_steps"] = math.ceil(share * config.training.max_steps)
        changes: Settings = {
            "size": config.size,
            "data": {"share": share * config.data.share},
            "tokenizer": {"vocab_size": config.tokenizer.vocab_size},
            "training": limits,
        }
        listener.note(f"Training on {100 * share:.0f} % of the pairs, into {part}.")
        part_config, pairs = plan_run(list(paths), recipe=recipe, settings=merged(settings, changes), near=path)
        evaluation = start_run(pairs, part_config, part, listener=listener)
        points.append(point_of(share, RunDirectory(part).about()["train_pairs"], evaluation))
    points.append(point_of(1.0, directory.about()["train_pairs"], whole))
    write_sealed(directory.learning_curve / "curve.json", [point.to_dict() for point in points])
    return points
