"""Several runs side by side: their costs, their scores, and the settings that differ."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from safetensors import SafetensorError, safe_open

from dragoman.config.data import without_folders
from dragoman.config.recipes import read_recipe
from dragoman.config.run import RunConfig, load_config
from dragoman.errors import DataError
from dragoman.metrics import MAIN, TEXT_METRICS, VALIDATED_TEXT_METRICS
from dragoman.report.summary import last_step
from dragoman.storage.metrics_log import read_metrics
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.figures import duration


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """A run to compare, finished or not."""

    name: str
    """The folder, as the user gave it."""
    config: RunConfig
    metrics: Sequence[dict[str, Any]]
    """The events, oldest first."""
    pairs: int
    """Sentence pairs trained on."""
    weights: int | None
    """None: no model has been kept yet."""
    evaluation: dict[str, Any] | None
    """`Evaluation.to_dict()` of the test pairs; None: not tested yet."""
    test_set: str
    """A fingerprint of the test pairs."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the run in the model directory `path`; raises `DataError` if there is none."""
        directory = RunDirectory(path)
        try:
            for file in (directory.data / "about.json", directory.data / "test.json"):
                file.stat()
            config = load_config(read_recipe(os.path.realpath(directory.config, strict=True)), {})
            pairs = directory.about()["train_pairs"]
            test_set = hashlib.sha256(json.dumps(directory.pairs("test")).encode()).hexdigest()
            tested = directory.evaluation.is_file()
            evaluation = json.loads(directory.read(directory.evaluation)) if tested else None
        except (OSError, ValueError, KeyError, TypeError):
            raise DataError(
                f"{path} holds no run to compare; give folders that `dragoman train` wrote, with their run/ inside."
            ) from None
        return cls(
            name=str(path),
            config=config,
            metrics=read_metrics(directory.metrics),
            pairs=pairs,
            weights=_count_weights(path / "model.safetensors"),
            evaluation=evaluation,
            test_set=test_set,
        )

    def figures(self) -> dict[str, Any]:
        """All figures to compare, for JSON; None where they are not known yet."""
        steps = [event for event in self.metrics if event["event"] == "step"]
        kept = [each for each in self.metrics if each["event"] in ("validation", "average") and each["better"]]
        best, tested = kept[-1] if kept else {}, self.evaluation or {}
        return {
            "run": self.name,
            "size": self.config.size,
            "data": self.config.data.origin,
            "pairs": self.pairs,
            "weights": self.weights,
            "steps": last_step(self.metrics),
            "minutes": steps[-1]["seconds"] / 60 if steps else None,
            "tokens_per_second": tokens_per_second(steps),
            "best_step": max(best["steps"]) if "steps" in best else best.get("step"),
            **{f"valid_{each.name}": best.get(each.validation_key) for each in VALIDATED_TEXT_METRICS},
            **{f"test_{each.name}": tested.get(each.name) for each in TEXT_METRICS},
            "test_signature": tested.get("signatures", {}).get(MAIN.name),
        }


ROWS = {
    "size": ("Size", str),
    "data": ("Data", str),
    "pairs": ("Pairs", "{:,}".format),
    "weights": ("Weights", "{:,}".format),
    "steps": ("Steps", "{:,}".format),
    "minutes": ("Training time", lambda minutes: duration(60 * minutes)),
    "tokens_per_second": ("Tokens/s", "{:,.0f}".format),
    "best_step": ("Best step", "{:,}".format),
    **{f"valid_{each.name}": (f"Validation {each.label}", each.write) for each in VALIDATED_TEXT_METRICS},
    **{f"test_{each.name}": (f"Test {each.label}", each.write) for each in TEXT_METRICS},
}
"""For each figure the name of its row in a table, and the function that writes its value."""


def table_rows(runs: Sequence[ComparedRun]) -> dict[str, list[str]]:
    """The figures as people read them: for each row its name and a cell for each run."""
    figures = [run.figures() for run in runs]
    return {
        name: ["-" if each[key] is None else write(each[key]) for each in figures]
        for key, (name, write) in ROWS.items()
    }


def tokens_per_second(steps: Sequence[dict[str, Any]]) -> float | None:
    """The median over pairs of neighbouring events, since some include the time of a validation."""
    tokens, seconds = (np.diff([event[key] for event in steps]) for key in ("tokens", "seconds"))
    return float(np.median(tokens[seconds > 0] / seconds[seconds > 0])) if (seconds > 0).any() else None


def differing_settings(runs: Sequence[ComparedRun]) -> dict[str, list[Any]]:
    """The settings that are not the same in all runs, by key, with the value of each run."""
    trees = [_flat(run.config.model_dump(mode="json")) for run in runs]
    keys = dict.fromkeys(key for tree in trees for key in tree)
    values = {key: [tree.get(key) for tree in trees] for key in keys}
    return {key: each for key, each in values.items() if any(value != each[0] for value in each)}


def setting_rows(runs: Sequence[ComparedRun]) -> dict[str, list[str]]:
    """The differing settings as people read them; without the folders of the data's files, which are private."""
    return {key: [_shown(key, value) for value in values] for key, values in differing_settings(runs).items()}


def remarks(runs: Sequence[ComparedRun]) -> list[str]:
    """The signatures of the test scores, and whether the scores can be compared."""
    evaluated = [run.evaluation["signatures"] for run in runs if run.evaluation]
    found = {each.label: sorted({one[each.name] for one in evaluated if each.name in one}) for each in TEXT_METRICS}
    told = [f"Test {label} is {signature}." for label, signatures in found.items() for signature in signatures]
    if len({run.test_set for run in runs}) > 1:
        told.append("The runs have different test pairs: their test scores cannot be compared with each other.")
    for label, signatures in found.items():
        if len(signatures) > 1:
            told.append(f"The signatures of {label} differ: such scores cannot be compared with each other.")
    return told


def _count_weights(path: Path) -> int | None:
    try:
        with safe_open(path, "np") as file:
            return sum(int(np.prod(file.get_slice(name).get_shape())) for name in file.keys())  # noqa: SIM118
    except (OSError, SafetensorError):
        return None


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def _shown(key: str, value: Any) -> str:
    if value in (None, []):
        return "-"
    value = without_folders(value) if key.startswith(("data.", "tokenizer.pairs", "training.mirror")) else value
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
