"""A request to translate texts and its answers, in the form that all APIs share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.decoding.translation import Translation
from dragoman.documents.document import Document
from dragoman.serving.detection import Detected
from dragoman.storage.memory import Similar

AUTO = "auto"
"""Given as the source language, it has the language of each text detected."""


@dataclass(frozen=True)
class TextRequest:
    """Texts to translate, and how."""

    texts: Sequence[str]
    source: str
    target: str
    reader: Callable[[str], Document] | None = None
    """Reads texts with tags, such as `read_html`; None for plain text."""
    alternatives: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    """Fields of `DecodingConfig`."""
    similar: int = 0
    """Entries of the memory that are shown with each text, at most."""


@dataclass(frozen=True)
class Answer:
    """The translation of a text."""

    text: str
    alternatives: list[Translation]
    score: float | None = None
    """Log-probability divided by the length, if a model translated it."""
    alignment: list[tuple[int, int]] | None = None
    """Source and target words, from 0, that belong together, if they were asked for."""
    detected: Detected | None = None
    """The language of the source, if it was to be detected."""
    from_memory: bool = False
    """Whether the memory had it; of a text with tags, all of its parts."""
    similar: Sequence[Similar] = ()
