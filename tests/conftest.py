"""What several test files share."""

import jaxtyping
import pytest


@pytest.fixture
def annotations_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As users run it: checked annotations would refuse a wrong type before the package can."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
