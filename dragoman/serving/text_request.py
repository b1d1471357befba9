"""A request to translate texts, and the answers to it, as all APIs share them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.decoding.translation import CheckedSentence, Translation
from dragoman.documents.document import Document
from dragoman.serving.detection import Detected
from dragoman.storage.memory import Similar

AUTO = "auto"
"""Source language of a request that has the language of each text detected."""


@dataclass(frozen=True)
class TextRequest:
    """Texts to translate, with their languages and the options of the translation."""

    texts: Sequence[str]
    source: str
    """Code of the language, or `AUTO`."""
    target: str
    """Code of the language."""
    reader: Callable[[str], Document] | None = None
    """Function that reads texts with tags, such as `read_html`; None for plain text."""
    alternatives: int = 0
    """Further translations of each text."""
    options: dict[str, Any] = field(default_factory=dict)
    """Fields of `DecodingConfig` that the request sets."""
    similar: int = 0
    """Similar entries of the translation memory that are shown with each text, at most."""


@dataclass(frozen=True)
class Answer:
    """The translation of a text."""

    text: str
    """The translation."""
    alternatives: list[Translation]
    """Further translations, the best first."""
    score: float | None = None
    """Log-probability divided by the length, if a model translated it."""
    alignment: list[tuple[int, int]] | None = None
    """Pairs of source word and target word, counted from 0, that belong together; None if not asked for."""
    confidence: float | None = None
    """Expected chrF++ against a person's translation, from 0 to 1; None if not asked for."""
    edit_probability: float | None = None
    """Probability that a person's translation has other words; None if not asked for."""
    is_untranslated: bool = False
    """Whether the text stays as it is, since its translation cannot be trusted."""
    sentences: list[CheckedSentence] | None = None
    """The sentences of the text with warnings; None if not asked for."""
    detected: Detected | None = None
    """Detected language of the text; None if the request named it."""
    from_memory: bool = False
    """Whether the translation is from the memory: for a text with tags, that of all its parts."""
    similar: Sequence[Similar] = ()
    """Entries of the memory that are similar to the text, the most similar first."""
