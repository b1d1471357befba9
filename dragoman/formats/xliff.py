"""Reads facts about texts from the attributes of XLIFF 1.2 and 2.0: how far a translation is, and the languages."""

from collections.abc import Mapping
from typing import Literal

from dragoman.text.language_codes import Languages

ENDINGS = (".xliff", ".xlf", ".sdlxliff", ".mqxliff", ".mxliff")
"""Ends of the names of XLIFF files. The last three are those of Trados Studio, memoQ and Phrase, which add to 1.2."""
UNFINISHED = {"initial", "new", "needs-translation", "needs-l10n"}
"""States of a text that is not translated yet, in 2.0 and in 1.2. The other states of 1.2 that begin with "needs" are
for translations that need a review, or something else than words."""
FINISHED = {"reviewed", "signed-off", "final"}
"""States that a person has given to a translation; it may be empty on purpose."""
Progress = Literal["missing", "draft", "done"]
"""State of a translation."""


def progress(source: str, target: str, state: str | None, approved: str | None = None) -> Progress:
    """State of the translation of a text, by the attributes in the file and by the texts without their codes.

    Where the file says nothing, as most do, a target is done if it differs from the source. Exports put a copy of the
    source where a translation is missing, and that of Symfony puts __ before it. A target that differs although its
    state is unfinished is a draft: somebody wrote it, but nobody calls it a translation.
    """
    source, target = " ".join(source.split()), " ".join(target.split())
    if approved == "yes" or state in FINISHED:
        return "done"
    if not target:
        return "missing"
    if state is None or state in UNFINISHED:
        if target in (source, f"__{source}"):
            return "missing"
        return "draft" if state else "done"
    return "done"


def named_languages(document: Mapping[str, str], file: Mapping[str, str]) -> Languages:
    """Source and target language by the attributes of a file in it (1.2), or of the whole document (2.0)."""
    if "source-language" in file or "target-language" in file:
        languages = file.get("source-language"), file.get("target-language")
    else:
        languages = document.get("srcLang"), document.get("trgLang")
    source, target = (code if code and code != "und" else None for code in languages)
    return source, target
