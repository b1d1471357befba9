"""The language of a text, identified by py3langid, offline."""

from collections.abc import Collection
from typing import NamedTuple

from dragoman.data.identification import NO_LANGUAGE, identifier
from dragoman.documents.document import has_words


class Detected(NamedTuple):
    """A language, and from 0 to 1 how sure it is."""

    language: str
    confidence: float


def detect(text: str, among: Collection[str] = ()) -> list[Detected]:
    """The likely languages of a text, best first; those of `among`, or all. None for a text without words."""
    if not has_words([text]):
        return []
    found = [Detected(language, float(share)) for language, share in identifier().rank(text)]
    found = [each for each in found if each.language != NO_LANGUAGE and (not among or each.language in among)]
    return [each for each in found if each.confidence >= 0.01] or found[:1]
