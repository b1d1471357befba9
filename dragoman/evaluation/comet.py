"""Scores by COMET, where the user has a model of it; nothing is ever downloaded."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dragoman.errors import DataError, ResourceError, UsageError
from dragoman.evaluation import comet_worker
from dragoman.metrics.metric import Score
from dragoman.metrics.resampling import Statistics
from dragoman.system.atomic import real_path

CHECKPOINT = Path("checkpoints", "model.ckpt")
"""The weights in the folder of a COMET model, beside its `hparams.yaml`."""
SHOWN = 600
"""Most characters of an error of COMET that are shown."""
INSTALL = (
    "install it into a Python of its own, `python -m venv comet && comet/bin/pip install unbabel-comet`, and name it: "
    "--comet-python comet/bin/python"
)


def check_comet(folder: Path, python: Path | None) -> None:
    """Raise `UsageError` unless there is a COMET model in a folder, and a Python to run it in."""
    if not (folder / CHECKPOINT).is_file() or not (folder / "hparams.yaml").is_file():
        raise UsageError(
            f"{folder} holds no COMET model: it needs hparams.yaml and {CHECKPOINT}, as the folder of a snapshot of "
            "Unbabel/wmt22-comet-da has them."
        )
    if python and not python.is_file():
        raise UsageError(f"{python} is no Python; {INSTALL}.")
    command = [
        str(python or sys.executable),
        "-c",
        "import importlib.util as u, sys; sys.exit(not u.find_spec('comet'))",
    ]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        raise UsageError(f"{python or 'This Python'} has no package unbabel-comet; {INSTALL}.")


def score_by_comet(
    folder: Path,
    sources: Sequence[str],
    translations: Sequence[str],
    references: Sequence[str],
    *,
    python: Path | None = None,
) -> Score:
    """The mean of COMET over all sentences, with its interval.

    Raises `ResourceError` if COMET fails. A checkpoint is a pickle, which may run any code: load only one that you
    trust.
    """
    samples = [
        {"src": source, "mt": translation, "ref": reference}
        for source, translation, reference in zip(sources, translations, references, strict=True)
    ]
    done = subprocess.run(
        [str(python or sys.executable), comet_worker.__file__, str(folder / CHECKPOINT)],
        input=json.dumps(samples),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise ResourceError(f"COMET failed: {done.stderr.strip()[-SHOWN:]}")
    try:
        values = [float(value) for value in json.loads(done.stdout)]
    except (ValueError, TypeError):
        raise DataError(f"COMET gave no scores: {done.stdout[:SHOWN]}") from None
    if len(values) != len(samples):
        raise DataError(f"COMET gave {len(values):,} scores for {len(samples):,} sentences.")
    statistics = Statistics.of_mean(values, f"model:{real_path(folder).name}")
    return Score(statistics.value(), statistics.signature, statistics.interval(), statistics)
