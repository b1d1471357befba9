"""Documents of offices: a zip file with XML, in which the texts of paragraphs are translated."""

import io
import re
from collections.abc import Callable, Iterator
from zipfile import BadZipFile, ZipFile, ZipInfo

from dragoman.documents.document import Document, FormatError
from dragoman.documents.xml import Element

MOST_BYTES = 2**28
"""Of all files in a document, unpacked."""
Read = Callable[[str, bool], Document]
"""Finds the segments of a file in a document: the paragraphs inside of notes, frames and the like, or all others."""


def translate_office(
    content: bytes, parts: re.Pattern[str], read: Read, translate: Callable[[list[Document]], list[str]]
) -> bytes:
    """The document with the texts of its files `parts` translated; all other files in it, and their order, stay."""
    try:
        with ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > MOST_BYTES:
                raise FormatError(f"has more than {MOST_BYTES >> 20} MiB of files in it; take out pictures.")
            files = {member.filename: archive.read(member) for member in members}
    except (BadZipFile, RuntimeError, NotImplementedError, OSError, EOFError) as error:
        raise FormatError(f"is no document of an office ({error}); save it again, without a password.") from None
    names = [name for name in files if parts.fullmatch(name)]
    if not names:
        raise FormatError("has no text of a document in it; save it again.")
    for inner in (True, False):  # paragraphs in notes and frames first: they stand inside of others
        texts = translate([read(files[name].decode("utf-8"), inner) for name in names])
        files |= {name: text.encode() for name, text in zip(names, texts, strict=True)}
    output = io.BytesIO()
    with ZipFile(output, "w") as archive:
        for member in members:
            archive.writestr(_described(member), files[member.filename])
    return output.getvalue()


def _described(member: ZipInfo) -> ZipInfo:
    """Name, time and attributes of a file, without sizes."""
    info = ZipInfo(member.filename, member.date_time)
    info.external_attr, info.compress_type = member.external_attr, member.compress_type
    return info


def paragraphs(
    root: Element, names: set[str], holders: set[str], *, inner: bool, inside: bool = False
) -> Iterator[Element]:
    """The paragraphs inside of elements of `holders`, or all others; `inside` tells that `root` is in one."""
    for each in root.content:
        if isinstance(each, Element):
            if each.name in names and inside == inner:
                yield each
            yield from paragraphs(each, names, holders, inner=inner, inside=inside or each.name in holders)
