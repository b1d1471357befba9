"""Rewrites documents that keep their sources and get translations beside them, and compares their languages with those
of the model."""

from collections.abc import Iterable
from dataclasses import replace

from dragoman.documents.document import Document, FormatError, Segment
from dragoman.text.language_codes import Languages, is_written_alike


def fits(named: Languages, languages: Languages) -> bool:
    """Whether a model for some languages may fill a document that names its own, whatever their regions are."""
    pairs = zip(named, languages, strict=True)
    return all(code is None or language is None or is_written_alike(code, language) for code, language in pairs)


def other_languages(named: Languages, languages: Languages) -> FormatError:
    """The error for a document that names other languages than those of the model."""
    return FormatError(
        f"says that it is from {_direction(named)}, and the model translates from {_direction(languages)}; choose a "
        "model for the languages of the file, or correct them in it."
    )


def _direction(languages: Languages) -> str:
    return " to ".join(code or "some language" for code in languages)


class Rewriting:
    """Writes a document with copies of its sources as targets; the segments in the copies are then translated in place.

    The document is written from its beginning to its end: `keep` a part of it, `write` something new, `skip` a part.
    """

    def __init__(self, text: str):
        self.text = text
        self.segments: list[Segment] = []
        self._parts: list[str] = []
        self._size = self._position = 0

    def keep(self, end: int) -> None:
        """Keep the text up to here."""
        self.write(self.text[self._position : end])
        self._position = end

    def write(self, text: str) -> None:
        """Write something new."""
        self._parts.append(text)
        self._size += len(text)

    def skip(self, end: int) -> None:
        """Leave out the text up to here."""
        self._position = end

    def copy(self, start: int, end: int, segments: Iterable[Segment]) -> None:
        """Write a part of the document again, with the `segments` of that part."""
        moved = self._size - start
        self.write(self.text[start:end])
        for segment in segments:
            self.segments.append(replace(segment, start=segment.start + moved, end=segment.end + moved))

    def finished(self, done: int, notes: Iterable[str], *, unencodable: str = "strict") -> Document:
        """The document with the copies."""
        self.keep(len(self.text))
        text = "".join(self._parts)
        return Document(text, self.segments, done=done, notes=[*notes], unencodable=unencodable)
