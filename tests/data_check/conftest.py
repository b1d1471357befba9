"""What several tests of checks need."""

from collections.abc import Iterator
from functools import cache

import pytest

from dragoman.data_check import languages


@pytest.fixture(scope="package", autouse=True)
def texts_are_identified_once() -> Iterator[None]:
    """Many corpora have the same sentences, whose languages take most of the time of a check."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("sure_language", "_most_likely"):
            patch.setattr(languages, name, cache(getattr(languages, name)))
        yield
