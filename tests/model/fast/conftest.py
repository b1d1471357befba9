"""Fixtures of the tests of compiled kernels."""

import pytest
import torch

from dragoman.model.fast.dropout import Draws


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """The key of all draws of dropout in a test."""
    key, draw = (0x9E3779B9, 0x243F6A88), Draws.of

    def fixed(rate: float, generator: torch.Generator | None) -> Draws:
        draws = draw(rate, generator)
        draws.key[:] = key
        return draws

    monkeypatch.setattr(Draws, "of", fixed)
    return key
