"""An inspected translation, for the tests of inspections and of their pages."""

import pytest

from dragoman.report import inspect_translation
from dragoman.report.inspection import Inspection
from dragoman.storage.model_directory import ModelDirectory
from tests.report.models import SOURCE, TARGET, small_model


@pytest.fixture(scope="module")
def model() -> ModelDirectory:
    return small_model()


@pytest.fixture(scope="module")
def given(model: ModelDirectory) -> Inspection:
    """Of a translation that was given."""
    return inspect_translation(model, SOURCE, target=TARGET, beam_size=3)
