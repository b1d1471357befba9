"""The language of a text, identified by py3langid, offline."""

from collections.abc import Collection
from functools import cache
from typing import Any, NamedTuple

from dragoman.documents.document import has_words

NO_LANGUAGE = "zxx"


class Detected(NamedTuple):
    """A language, and from 0 to 1 how sure it is."""

    language: str
    confidence: float


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def detect(text: str, among: Collection[str] = ()) -> list[Detected]:
    """The likely languages of a text, best first; those of `among`, or all. None for a text without words."""
    if not has_words([text]):
        return []
    found = [Detected(language, float(share)) for language, share in _identifier().rank(text)]
    found = [each for each in found if each.language != NO_LANGUAGE and (not among or each.language in among)]
    return [each for each in found if each.confidence >= 0.01] or found[:1]
