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
from dragoman.evaluation.scores import score_together
from dragoman.evaluation.significance import SystemComparison, compare_systems, sentences
from dragoman.metrics import MAIN, TEXT_METRICS, VALIDATED_TEXT_METRICS
from dragoman.metrics.metric import Metric, Score
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
    """Number of weights of the model; None: no model has been kept yet."""
    evaluation: dict[str, Any] | None
    """`Evaluation.to_dict()` of the test pairs; None: not tested yet."""
    test_set: str
    """SHA-256 of the test pairs: equal for runs that were tested on the same ones, in any order."""
    path: Path

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the run in the model directory `path`; raises `DataError` if there is none."""
        directory = RunDirectory(path)
        try:
            # The readers below report damage. A folder without these files holds no run at all.
            for file in (directory.data / "about.json", directory.data / "test.json"):
                file.stat()
            config = load_config(read_recipe(os.path.realpath(directory.config, strict=True)), {})
            pairs = directory.about()["train_pairs"]
            test_set = hashlib.sha256(json.dumps(sorted(directory.pairs("test"))).encode()).hexdigest()
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
            path=path,
        )

    def figures(self) -> dict[str, Any]:
        """All figures to compare, for JSON; None where they are not known yet."""
        steps = [event for event in self.metrics if event["event"] == "step"]
        best = self._best_event()
        evaluation = self.evaluation or {}
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
            **{f"valid_{metric.name}": best.get(metric.validation_key) for metric in VALIDATED_TEXT_METRICS},
            **{f"test_{metric.name}": evaluation.get(metric.name) for metric in TEXT_METRICS},
            "test_intervals": evaluation.get("intervals"),
            "test_signature": evaluation.get("signatures", {}).get(MAIN.name),
        }

    @property
    def has_translations(self) -> bool:
        """Whether the run has kept its test translations, as older versions did not."""
        return self.evaluation is not None and RunDirectory(self.path).translations.is_file()

    def test_scores(self, metrics: Sequence[Metric]) -> dict[str, Score]:
        """The scores of the test translations, in the order of the pairs."""
        directory = RunDirectory(self.path)
        translations = json.loads(directory.read(directory.translations))
        # The order of test pairs depends on the seed of a run.
        translated = sorted(zip(directory.pairs("test"), translations, strict=True))
        return score_together(
            [translation for _, translation in translated],
            [reference for (_, reference), _ in translated],
            [source for (source, _), _ in translated],
            target_language=directory.about()["target_language"],
            metrics=metrics,
        )

    def _best_event(self) -> dict[str, Any]:
        """The validation, or the average of several steps, with the best scores; empty before the first."""
        for event in reversed(self.metrics):
            if event["event"] in ("validation", "average") and event["better"]:
                return event
        return {}


ROWS = {
    "size": ("Size", str),
    "data": ("Data", str),
    "pairs": ("Pairs", "{:,}".format),
    "weights": ("Weights", "{:,}".format),
    "steps": ("Steps", "{:,}".format),
    "minutes": ("Training time", lambda minutes: duration(60 * minutes)),
    "tokens_per_second": ("Tokens/s", "{:,.0f}".format),
    "best_step": ("Best step", "{:,}".format),
    **{f"valid_{metric.name}": (f"Validation {metric.label}", metric.write) for metric in VALIDATED_TEXT_METRICS},
}
"""For each figure but the test scores the heading of its row in a table, and the function that formats its value."""


def table_rows(runs: Sequence[ComparedRun]) -> dict[str, list[str]]:
    """The figures as people read them: for each row its heading, and a cell for each run."""
    figures = [run.figures() for run in runs]
    rows = {}
    for key, (heading, write) in ROWS.items():
        values = [run_figures[key] for run_figures in figures]
        rows[heading] = ["-" if value is None else write(value) for value in values]
    for metric in TEXT_METRICS:
        rows[f"Test {metric.label}"] = [metric.write_with_interval(run.evaluation or {}) for run in runs]
    return rows


def paired_tests(runs: Sequence[ComparedRun], metrics: Sequence[Metric] = TEXT_METRICS) -> list[SystemComparison]:
    """A test of each pair of runs that have kept their translations of the same test sources."""
    comparisons = []
    for together in _by_test_set(runs):
        scores = {run.name: run.test_scores(metrics) for run in together if run.has_translations}
        comparisons += compare_systems(scores)
    return comparisons


def _by_test_set(runs: Sequence[ComparedRun]) -> list[list[ComparedRun]]:
    """The different runs that were tested on the same pairs, if there are several."""
    by_test_set: dict[str, dict[str, ComparedRun]] = {}
    for run in runs:
        if run.evaluation:
            by_test_set.setdefault(run.test_set, {})[run.name] = run
    return [list(together.values()) for together in by_test_set.values() if len(together) > 1]


def tokens_per_second(steps: Sequence[dict[str, Any]]) -> float | None:
    """Speed of training: the median over pairs of neighbouring `step` events, since some include the time of a
    validation. None if no time has passed yet."""
    tokens = np.diff([event["tokens"] for event in steps])
    seconds = np.diff([event["seconds"] for event in steps])
    timed = seconds > 0
    return float(np.median(tokens[timed] / seconds[timed])) if timed.any() else None


def differing_settings(runs: Sequence[ComparedRun]) -> dict[str, list[Any]]:
    """The settings that are not the same in all runs, by key, with the value of each run."""
    settings = [_flattened(run.config.model_dump(mode="json")) for run in runs]
    keys = dict.fromkeys(key for run_settings in settings for key in run_settings)
    differing = {}
    for key in keys:
        values = [run_settings.get(key) for run_settings in settings]
        if any(value != values[0] for value in values):
            differing[key] = values
    return differing


def setting_rows(runs: Sequence[ComparedRun]) -> dict[str, list[str]]:
    """The differing settings as people read them; without the folders of the data's files, which are private."""
    return {key: [_as_text(key, value) for value in values] for key, values in differing_settings(runs).items()}


def remarks(runs: Sequence[ComparedRun]) -> list[str]:
    """Tests of the runs in words, the signatures of the test scores, and whether the scores can be compared."""
    signatures = {metric.label: _signatures(runs, metric.name) for metric in TEXT_METRICS}
    lines = sentences(paired_tests(runs, [MAIN]))
    lines += [
        f"{run.name} has kept no test translations, and so is not tested; `dragoman evaluate` can do it."
        for together in _by_test_set(runs)
        for run in together
        if not run.has_translations
    ]
    lines += [f"Test {label} is {signature}." for label, variants in signatures.items() for signature in variants]
    if len({run.test_set for run in runs}) > 1:
        lines.append("The runs have different test pairs: their test scores cannot be compared with each other.")
    for label, variants in signatures.items():
        if len(variants) > 1:
            lines.append(f"The signatures of {label} differ: such scores cannot be compared with each other.")
    return lines


def _signatures(runs: Sequence[ComparedRun], metric: str) -> list[str]:
    """The different signatures that the runs that were tested have for a metric, sorted."""
    by_run = [run.evaluation["signatures"] for run in runs if run.evaluation]
    return sorted({signatures[metric] for signatures in by_run if metric in signatures})


def _count_weights(path: Path) -> int | None:
    """Number of weights in a .safetensors file, from its header; None for a file that is missing or damaged."""
    try:
        with safe_open(path, "np") as file:
            return sum(int(np.prod(file.get_slice(name).get_shape())) for name in file.keys())  # noqa: SIM118
    except (OSError, SafetensorError):
        return None


def _flattened(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The leaves of nested settings by their dotted keys, such as `training.warmup`."""
    leaves = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            leaves |= _flattened(value, f"{prefix}{key}.")
        else:
            leaves[prefix + key] = value
    return leaves


def _as_text(key: str, value: Any) -> str:
    """The value of a setting for a table; "-" for one that is not set. Folders of files are left out."""
    if value in (None, []):
        return "-"
    if key.startswith(("data.", "tokenizer.pairs", "training.mirror")):
        value = without_folders(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
