"""Documents of offices: a zip file with XML, in which the texts of paragraphs are translated."""

import io
import re
import zlib
from collections.abc import Callable, Iterator
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from dragoman.documents.document import Document, FormatError, Languages
from dragoman.documents.xml import Element

MOST_BYTES, MOST_FILES = 2**28, 10_000
"""Of all files in a document, unpacked."""
MOST_RATIO, LEAST_BYTES = 100, 2**22
"""How many times as large as the document they may be, if they are larger than so many bytes."""
PART = 2**20
Read = Callable[[str, bool, Languages], Document]
"""Finds the segments of a file in a document: the paragraphs inside of notes, frames and the like, or all others."""


def translate_office(
    content: bytes,
    parts: re.Pattern[str],
    read: Read,
    languages: Languages,
    translate: Callable[[list[Document]], list[str]],
) -> bytes:
    """The document with the texts of its files `parts` translated; all other files in it, and their order, stay."""
    try:
        if content.count(b"PK\1\2") > MOST_FILES:  # before each entry of the list that is read first
            raise FormatError(f"has more than {MOST_FILES:,} files in it; save it again.")
        with ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            most = min(MOST_BYTES, max(LEAST_BYTES, MOST_RATIO * len(content)))
            if sum(member.file_size for member in members) > most:  # before anything is unpacked
                raise _too_large(most)
            files = _unpacked(archive, members, most)
    except (BadZipFile, RuntimeError, NotImplementedError, OSError, EOFError, zlib.error) as error:
        raise FormatError(f"is no document of an office ({error}); save it again, without a password.") from None
    names = [name for name in files if parts.fullmatch(name)]
    if not names:
        raise FormatError("has no text of a document in it; save it again.")
    for inner in (True, False):  # paragraphs in notes and frames first: they stand inside of others
        texts = translate([read(files[name].decode("utf-8"), inner, languages) for name in names])
        files |= {name: text.encode() for name, text in zip(names, texts, strict=True)}
    output = io.BytesIO()
    with ZipFile(output, "w") as archive:
        for member in members:
            archive.writestr(_described(member), files[member.filename])
    return output.getvalue()


def _too_large(most: int) -> FormatError:
    if most < MOST_BYTES:
        return FormatError(
            f"has files of more than {MOST_RATIO} times its size, as no office packs them; save it again."
        )
    return FormatError(f"has more than {MOST_BYTES >> 20} MiB of files in it; take out pictures.")


def _unpacked(archive: ZipFile, members: list[ZipInfo], most: int) -> dict[str, bytes]:
    """The files of an archive, counted while they are unpacked: what it says of their sizes may be wrong."""
    files, left = {}, most
    for member in members:
        if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise FormatError("is packed as no office packs documents; save it again.")
        parts = []
        with archive.open(member) as stream:
            while part := stream.read(PART):
                left -= len(part)
                if left < 0:
                    raise _too_large(most)
                parts.append(part)
        files[member.filename] = b"".join(parts)
    return files


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
