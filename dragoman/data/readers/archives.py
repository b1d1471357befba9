"""Reads corpora from archives, .zip and .tar: finds the one table or the two texts among their files.

Archives come from strangers. Their files are listed before any of them is unpacked; only the chosen ones are, and their
bytes are counted meanwhile.
"""

import os
import re
import struct
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path, PurePosixPath
from typing import IO
from zipfile import BadZipFile, ZipFile

from dragoman.data.readers.copies import LocalCopy, local_copy, version_of
from dragoman.data.readers.fields import NAMED
from dragoman.data.readers.two_files import differing_parts, languages_of_names
from dragoman.errors import DataError
from dragoman.formats.other_files import OFFICE
from dragoman.formats.text_files import open_input, read_head, unpacking_errors
from dragoman.text.language_codes import two_letters

MOST_FILES = 10_000
"""Most files in an archive."""
MOST_RATIO, LEAST_BYTES = 100, 2**24
"""Files may take up to this many times the bytes of their archive, and always up to the other number. Text takes up to
some 30 times as many."""
MOST_COMPARED = 200
"""Most files any two of which are compared, to find the two texts."""
PART = 2**20
"""Bytes that are unpacked at a time."""
_END_OF_ZIP = struct.Struct("<4s4H2LH")
_NO_PAIRS = re.compile(
    r"__MACOSX/.*|(.*/)?(\.[^./][^/]*(/.*)?|_[^/]*|thumbs\.db|desktop\.ini"
    r"|(readme|licen[cs]e|copying|citation|about|changelog|changes|credits|notice|authors|sha\d*sums?|md5sums?)([._-].*)?"
    r"|[^/]*\.(ids|scores?|md|pdf|html?|py|sh|bib|png|jpe?g))",
    re.IGNORECASE,
)
"""Names of files that come with pairs, but hold none."""
_TABLE = re.compile(r".*\.(tsv|txt|csv|jsonl?|ndjson|tmx|(sdl|mq|m)?xliff|xlf|po|tab)", re.IGNORECASE)
"""Names of files that may hold both sides."""
_XML = re.compile(r".*\.xml", re.IGNORECASE)
"""Names of files that may hold both sides. Beside two texts, they say which sentences belong together instead."""


@dataclass(frozen=True)
class Member:
    """A file in an archive."""

    name: str
    size: int


def archive_of(path: Path) -> Path | None:
    """The archive that a path is or leads into, as `corpus.zip/train.tsv` does; None for all other paths."""
    for outer in (path, *path.parents):
        if os.path.isfile(outer):  # which is False where `is_file` raises: too long a name
            return outer if is_archive(outer) else None
    return None


def is_archive(path: Path) -> bool:
    """Whether a file is a .zip or .tar, whatever its name, and not a document of an office program."""
    head = read_head(path)
    is_zip = head.startswith((b"PK\3\4", b"PK\5\6"))
    is_tar = head[257:262] == b"ustar"
    return (is_zip or is_tar) and not re.match(OFFICE, head, re.DOTALL)


def read_archive(path: Path, inner: str, languages: tuple[str, str] | None) -> list[LocalCopy]:
    """Copies of the one table, or of the two texts, in an archive; of the file `inner`, if that is given.

    Raises `DataError` if it is not clear which are meant, or for an archive that is damaged or unpacks to too much.
    """
    try:
        with _opened(path) as archive:
            names = [member.name for member in _members(path, archive)]
        chosen = [_named(path, names, inner)] if inner else _pairs_among(path, names, languages)
        file_names = [PurePosixPath(name).name for name in chosen]
        if len({*file_names}) < len(file_names):  # their folders tell the languages
            file_names = [name.replace("/", ".") for name in chosen]
        return [_copy(path, name, file_name) for name, file_name in zip(chosen, file_names, strict=True)]
    except (BadZipFile, tarfile.TarError, RuntimeError, NotImplementedError, zlib.error, *unpacking_errors()) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        remedy = "unpack it yourself, and give the file inside"
        raise DataError(f"{path} cannot be unpacked ({error}); {remedy}.") from None


def _copy(path: Path, name: str, file_name: str) -> LocalCopy:
    """A copy of the member `name` of an archive, as a file with the name `file_name`."""

    def unpack(copy: Path) -> None:
        bytes_left = _most_bytes(path)
        with _opened(path) as archive, _member_stream(archive, name) as packed, open(copy, "wb") as file:
            while part := packed.read(PART):
                bytes_left -= len(part)
                if bytes_left < 0:
                    raise _too_large(path)
                file.write(part)

    version = path.url if hasattr(path, "url") else version_of(path)
    return local_copy(f"{path}/{name}", file_name, version, unpack)


@contextmanager
def _opened(path: Path) -> Iterator[ZipFile | tarfile.TarFile]:
    with open_input(path) as stream:
        if read_head(path).startswith(b"PK"):
            _check_directory(path)
            with ZipFile(stream) as archive:
                yield archive
        else:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                yield archive


def _check_directory(path: Path) -> None:
    """Refuse a .zip whose list of files would fill the memory, by the record at its end."""
    with open_input(path) as stream:
        stream.seek(max(0, stream.seek(0, 2) - (1 << 16) - _END_OF_ZIP.size))
        tail = stream.read()
    start = tail.rfind(b"PK\5\6")
    if start >= 0 and len(tail) - start >= _END_OF_ZIP.size:
        *_, count, size, _, _ = _END_OF_ZIP.unpack_from(tail, start)
        if count > MOST_FILES or size > 1_000 * MOST_FILES:
            raise _too_many(path)


def _members(path: Path, archive: ZipFile | tarfile.TarFile) -> list[Member]:
    """The files of an archive. Raises `DataError` for one that would unpack to too much."""
    members: list[Member] = []
    bytes_left = _most_bytes(path)
    entries = archive.infolist() if isinstance(archive, ZipFile) else archive
    for entry in entries:
        if isinstance(entry, tarfile.TarInfo):
            member, is_file = Member(entry.name, entry.size), entry.isfile()
        else:
            member, is_file = Member(entry.filename, entry.file_size), not entry.is_dir()
        bytes_left -= member.size
        if bytes_left < 0:
            raise _too_large(path)
        if is_file:
            members.append(member)
        if len(members) > MOST_FILES:
            raise _too_many(path)
    return members


@contextmanager
def _member_stream(archive: ZipFile | tarfile.TarFile, name: str) -> Iterator[IO[bytes]]:
    if isinstance(archive, ZipFile):
        with archive.open(name) as stream:
            yield stream
        return
    for entry in archive:  # a .tar is read from its beginning to its end
        if entry.isfile() and entry.name == name:
            stream = archive.extractfile(entry)
            assert stream is not None
            yield stream
            return
    raise EOFError(f"{name} is not in it any more")


def _named(path: Path, names: Sequence[str], inner: str) -> str:
    """The only file with the name `inner`, or else the only one whose path ends with it."""
    same = [name for name in names if name == inner]
    ending = [name for name in names if name.endswith(f"/{inner}")]
    for fitting in (same, ending):
        if len(fitting) == 1:
            return fitting[0]
    raise DataError(f"{path} has no file {inner}, but {_listed(names)}; name one of them.")


def _pairs_among(path: Path, names: Sequence[str], languages: tuple[str, str] | None) -> list[str]:
    """The names of the one table, or of the two texts in order. Raises `DataError` if it is not clear which."""
    candidates = [name for name in names if not _NO_PAIRS.fullmatch(name)]
    if not candidates:
        others = f", only {_listed(names)}" if names else ""
        raise DataError(f"{path} has no files with sentence pairs in it{others}; give another one.")
    if len(candidates) == 1:
        return candidates
    compared = [name for name in candidates if not _XML.fullmatch(name)][:MOST_COMPARED]
    texts = _text_pairs(compared, None)
    fitting = _text_pairs(compared, languages)
    tables = [name for name in candidates if _TABLE.fullmatch(name) and not any(name in pair for pair in texts)]
    if len(fitting) == 1 and not tables:
        return list(fitting[0])
    if not texts:
        tables += filter(_XML.fullmatch, candidates)
        if len(tables) == 1:
            return tables
    texts = fitting or texts
    example = f"{path}/{candidates[0]}"
    if texts:
        example += f", or two texts, such as {path}/{texts[0][0]} {path}/{texts[0][1]}"
    raise DataError(
        f"{path} has {len(candidates):,} files that may hold sentence pairs ({_listed(candidates)}); name one, such as "
        f"{example}."
    )


def _text_pairs(names: Sequence[str], wanted: tuple[str, str] | None) -> list[tuple[str, str]]:
    """Any two of the files that are the source and the target text of a corpus, in this order."""
    pairs = (_two_texts(pair, wanted) for pair in combinations(names, 2))
    return [pair for pair in pairs if pair]


def _two_texts(pair: tuple[str, str], wanted: tuple[str, str] | None) -> tuple[str, str] | None:
    """Two files as source and target, if their names or folders differ by two languages, or by "source" and "target".

    None for other files, and for languages that are not the ones that are `wanted`.
    """
    names = [name.replace("/", ".") for name in pair]
    source, target = languages_of_names(*map(Path, names))
    if source and target:
        if not wanted or _are_close((source, target), wanted):
            return pair
        return pair[::-1] if _are_close((target, source), wanted) else None
    for parts in differing_parts(*names):
        sides = parts[0].casefold(), parts[1].casefold()
        if sides in NAMED:
            return pair
        if sides[::-1] in NAMED:
            return pair[::-1]
    return None


def _are_close(languages: tuple[str, str], wanted: tuple[str, str]) -> bool:
    """Whether each language is the one that is wanted, or a variety of it."""
    return all(
        two_letters(code) == two_letters(wanted_code) for code, wanted_code in zip(languages, wanted, strict=True)
    )


def _most_bytes(path: Path) -> int:
    """Bytes that the files of an archive may take."""
    return max(LEAST_BYTES, MOST_RATIO * path.stat().st_size)


def _listed(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(name[:100] for name in names[:most]) + more


def _too_large(path: Path) -> DataError:
    return DataError(f"{path} unpacks to more than {MOST_RATIO} times its size, as no text does; get it anew.")


def _too_many(path: Path) -> DataError:
    return DataError(f"{path} has more than {MOST_FILES:,} files in it; unpack it, and give the file with the pairs.")
