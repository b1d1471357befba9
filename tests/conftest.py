"""What several test files share."""

import os

import jaxtyping
import pytest

# Before torch is imported, and for the commands that tests start: tests run in a process a core.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture
def annotations_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As users run it: checked annotations would refuse a wrong type before the package can."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
