"""A run as a whole: what it chooses, what it leaves behind, what the grammar's demo reaches."""

import json
import subprocess
import sys

import pytest

from dragoman import run
from dragoman.errors import UsageError
from dragoman.run_directory import MetricsFile, read_metrics
from dragoman.terminal import Display


def test_a_folder_without_a_run_cannot_be_resumed(tmp_path):
    with pytest.raises(UsageError, match="no run"):
        run.resume(tmp_path, [], display=Display(quiet=True))


def test_metrics_after_the_checkpoint_are_forgotten(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with MetricsFile(path) as metrics:
        for step in range(1, 41):
            metrics.write("step", {"step": step})
        metrics.write("validation", {"step": 40})
    with path.open("a") as file:
        file.write('{"event": "step", "st')  # a crash in the middle of a line
    assert [event["step"] for event in read_metrics(path)] == [1, 10, 20, 30, 40, 40]
    with MetricsFile(path) as metrics:
        metrics.forget_after(25)
        metrics.write("step", {"step": 30})
    assert [event["step"] for event in read_metrics(path)] == [1, 10, 20, 30]


@pytest.mark.slow
def test_the_demo_translates_combinations_it_never_saw(tmp_path):
    dragoman, model = [sys.executable, "-m", "dragoman"], str(tmp_path / "demo")
    subprocess.run([*dragoman, "demo", "--output", model, "--quiet"], check=True)
    command = [*dragoman, "evaluate", model, "builtin:grammar:500:test", "--json"]
    figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert figures["bleu"] >= 90
