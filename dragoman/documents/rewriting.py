"""Documents that keep their sources and get translations beside them, and whether their languages are the model's."""

from collections.abc import Iterable
from dataclasses import replace

from dragoman.documents.document import Document, FormatError, Segment
from dragoman.text.language_codes import Languages, is_written_alike


def fits(named: Languages, languages: Languages) -> bool:
    """Whether a model for some languages may fill a document that names its own; the regions of a language are one."""
    pairs = zip(named, languages, strict=True)
    return all(own is None or wanted is None or is_written_alike(own, wanted) for own, wanted in pairs)


def other_languages(named: Languages, languages: Languages) -> FormatError:
    """The refusal of a document that names other languages than those of the model."""
    says, model = (" to ".join(code or "some language" for code in codes) for codes in (named, languages))
    return FormatError(
        f"says that it is from {says}, and the model translates from {model}; choose a model for the languages of the "
        "file, or correct them in it."
    )


class Rewriting:
    """A document that gets copies of its sources as targets, in which the segments are then translated in place.

    It is written from its beginning to its end: `keep` what it has, `write` something new, `skip` something.
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
        """Leave the text up to here out."""
        self._position = end

    def copy(self, start: int, end: int, segments: Iterable[Segment]) -> None:
        """Write what stands elsewhere; the `segments` there are those of the copy."""
        moved = self._size - start
        self.write(self.text[start:end])
        for segment in segments:
            self.segments.append(replace(segment, start=segment.start + moved, end=segment.end + moved))

    def finished(self, done: int, notes: Iterable[str], *, unencodable: str = "strict") -> Document:
        """The document with the copies."""
        self.keep(len(self.text))
        text = "".join(self._parts)
        return Document(text, self.segments, done=done, notes=[*notes], unencodable=unencodable)
