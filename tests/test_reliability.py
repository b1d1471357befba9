"""Runs that are killed, fail or find the disk full, and damaged or hostile files, as benchmarks/ attacks them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and namespaces of Linux")


def attacked(*arguments: str) -> dict[str, object]:
    """What the attack found; it fails itself if anything was lost, unreadable or left behind."""
    script, *rest = arguments
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *rest], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.slow
def test_runs_that_are_killed_at_random_end_with_the_same_bits():
    found = attacked("reliability.py", "kills", "--number", "8")
    assert found["kills"] == 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "counted", "number"),
    [
        ("kills --number 1000", "kills", 1000),
        ("workers --number 30", "kills", 30),
        ("steps --every 3", "runs", 100),
        ("errors --every 3", "runs", 100),
        ("disk --every 64", "disks", 20),
        ("damage --number 2000", "model: seen", 2500),
    ],
)
def test_nothing_is_lost(arguments: str, counted: str, number: int):
    assert attacked("reliability.py", *arguments.split())[counted] >= number


@pytest.mark.slow
def test_hostile_files_are_refused_soon():
    assert len(attacked("hostile.py", "--json")) > 50
