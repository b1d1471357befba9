"""Documents of office programs: a zip file with XML files whose paragraphs are translated.

A paragraph is read as pieces: texts, boxes such as links, and other elements. Tabs and page breaks divide it into
texts, each of which goes from its first to its last word, without pictures, spaces and marks around these.
"""

import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeVar
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from dragoman.documents import xml
from dragoman.documents.document import Code, Document, FormatError, Segment, has_words
from dragoman.documents.xml import Element
from dragoman.formats.xml import xml_encoding
from dragoman.text.language_codes import Languages, two_letters

MOST_BYTES, MOST_FILES = 2**28, 10_000
"""Most bytes of all files in a document, unpacked, and most files."""
MOST_RATIO, LEAST_BYTES = 100, 2**22
"""The files may be this many times as large as the document, or have this many bytes if that is more."""
MOST_NESTED = 30
"""Most paragraphs inside of each other, such as those in text boxes."""
CHUNK = 2**20
NO_OFFICE = {
    rb"(?s)\xd0\xcf\x11\xe0.*E\0n\0c\0r\0y\0p\0t\0e\0d\0P\0a\0c\0k\0a\0g\0e": (
        "is protected by a password; save it without one."
    ),
    rb"\xd0\xcf\x11\xe0": "is a document of an old Word (.doc); save it as .docx.",
    rb"\{\\rtf": "is RTF; save it as .docx or .odt.",
    rb"%PDF-": "is a PDF; save it as .docx or .odt.",
}
"""Patterns of first bytes: what such a file is, and what to do."""
MANIFEST = "META-INF/manifest.xml"
_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Parts:
    """Names of the files in a document that change."""

    texts: list[str]
    """Files with paragraphs that people read."""
    others: list[str]
    """Files that name the language of the document and have no texts, such as styles."""


FindParts = Callable[[Mapping[str, bytes]], Parts]
"""Finds the parts among the files of a document; raises `FormatError` if there are no texts."""
Read = Callable[[str, Languages], Document]
"""Finds the segments of a file in a document."""


def translate_office(
    content: bytes,
    find_parts: FindParts,
    read: Read,
    languages: Languages,
    translate: Callable[[list[Document]], list[str]],
) -> bytes:
    """The document with its texts translated. All other files in it, and their order, stay.

    The document also names its new language where it named the old one. If no text has changed, it stays as it is.
    """
    for pattern, fault in NO_OFFICE.items():
        if re.match(pattern, content):
            raise FormatError(fault)
    members, files = _opened(content)
    if b"encryption-data" in files.get(MANIFEST, b""):
        raise FormatError("is protected by a password; save it without one.")
    parts = find_parts(files)
    texts, encodings = {}, {}
    for name in (*parts.texts, *parts.others):
        texts[name], encodings[name] = decoded(files[name], name)
    translations = translate([read(texts[name], languages) for name in parts.texts])
    changed = dict(zip(parts.texts, translations, strict=True))
    if all(texts[name] == text for name, text in changed.items()):
        return content
    texts = {name: with_language(text, languages) for name, text in (texts | changed).items()}
    files |= {name: text.encode(encodings[name]) for name, text in texts.items()}
    output = io.BytesIO()
    with ZipFile(output, "w") as archive:
        for member in members:
            archive.writestr(_described(member), files[member.filename])
    return output.getvalue()


def _opened(content: bytes) -> tuple[list[ZipInfo], dict[str, bytes]]:
    """The members of an archive, and their contents by name. Raises `FormatError` for one that is no document."""
    try:
        if content.count(b"PK\1\2") > MOST_FILES:  # before each entry of the list that is read first
            raise FormatError(f"has more than {MOST_FILES:,} files in it; save it again.")
        with ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            most = min(MOST_BYTES, max(LEAST_BYTES, MOST_RATIO * len(content)))
            if sum(member.file_size for member in members) > most:  # before anything is unpacked
                raise _too_large(most)
            return members, _unpacked(archive, members, most)
    except (BadZipFile, RuntimeError, NotImplementedError, OSError, EOFError, zlib.error) as error:
        raise FormatError(f"is no document of an office ({error}); save it again, without a password.") from None


def _too_large(most: int) -> FormatError:
    """The error for files with more bytes than the document may have."""
    if most < MOST_BYTES:
        return FormatError(
            f"has files of more than {MOST_RATIO} times its size, as no office packs them; save it again."
        )
    return FormatError(f"has more than {MOST_BYTES >> 20} MiB of files in it; take out pictures.")


def _unpacked(archive: ZipFile, members: list[ZipInfo], most: int) -> dict[str, bytes]:
    """The files of an archive. Their bytes are counted while they are unpacked: the list of files may be wrong."""
    files, left = {}, most
    for member in members:
        if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise FormatError("is packed as no office packs documents; save it again.")
        chunks = []
        with archive.open(member) as stream:
            while chunk := stream.read(CHUNK):
                left -= len(chunk)
                if left < 0:
                    raise _too_large(most)
                chunks.append(chunk)
        files[member.filename] = b"".join(chunks)
    return files


def _described(member: ZipInfo) -> ZipInfo:
    """The name, time and attributes of a file, without its sizes, which change."""
    info = ZipInfo(member.filename, member.date_time)
    info.external_attr, info.compress_type = member.external_attr, member.compress_type
    return info


def decoded(content: bytes, name: str) -> tuple[str, str]:
    """An XML file in a document as text, and its encoding."""
    try:
        encoding = xml_encoding(content[:4096])
        return content.decode(encoding), encoding
    except LookupError as error:
        fault = f"has a file {name} in an {error}"
    except UnicodeDecodeError as error:
        fault = f"has a file {name} that is no text in {error.encoding}"
    raise FormatError(f"{fault}; save it again.")


@dataclass(frozen=True)
class RangeEnd:
    """One end of a range, such as a bookmark."""

    side: Literal["start", "end"]
    name: str


@dataclass
class Piece:
    """A part of a paragraph."""

    start: int
    end: int
    kind: Literal["text", "box", "word", "alone", "break", "split"]
    """`text`, or a `box` of other pieces; `word` and `break` stand for a word or a space, and `split` divides texts.
    Anything else stands `alone`."""
    text: str = ""
    parts: Sequence["Piece"] = ()
    """The pieces in a box."""
    range_end: RangeEnd | None = None
    """The end of a range that this piece is."""
    elements: Sequence[Element] = ()
    """Elements that may have paragraphs of their own inside, such as a text box."""
    has_words: bool = field(init=False)

    def __post_init__(self) -> None:
        self.has_words = has_words([self.text]) or any(part.has_words for part in self.parts)

    @property
    def is_blank(self) -> bool:
        """Whether the piece may be left out at the beginning or end of a text."""
        if self.kind == "text":
            return not self.text.strip()
        return self.kind != "word" and not self.has_words


AnyPiece = TypeVar("AnyPiece", bound=Piece)


def stretches(pieces: Sequence[AnyPiece]) -> Iterator[Sequence[AnyPiece]]:
    """The texts of a paragraph, each as the pieces from its first to its last word."""
    start = 0
    for index in range(len(pieces) + 1):
        if index < len(pieces) and pieces[index].kind != "split":
            continue
        first, last = start, index
        start = index + 1
        while first < last and pieces[first].is_blank:
            first += 1
        while first < last and pieces[last - 1].is_blank:
            last -= 1
        stretch = pieces[first:last]
        if len(stretch) == 1 and stretch[0].kind == "box":
            yield from stretches(stretch[0].parts)
        elif any(piece.has_words for piece in stretch):
            yield stretch


def leaves(pieces: Iterable[AnyPiece]) -> Iterator[AnyPiece]:
    """All pieces that are no boxes, in the order of the document."""
    for piece in pieces:
        if piece.kind == "box":
            yield from leaves(piece.parts)
        else:
            yield piece


def with_ranges(content: list[str | Code], ends: Iterable[tuple[int, RangeEnd]]) -> list[str | Code]:
    """The content, where the codes of a range, such as a bookmark, open and close it if both are there.

    The `ends` have the indices of their codes; an end belongs to the last start of the same name.
    """
    starts: dict[str, int] = {}
    for index, end in ends:
        if end.side == "start":
            starts[end.name] = index
        elif end.name in starts:
            start = starts.pop(end.name)
            content[start] = replace(content[start], kind="open", name=f"range {start}")
            content[index] = replace(content[index], kind="close", name=f"range {start}")
    return content


def outermost(elements: Iterable[Element], is_block: Callable[[Element], bool], skipped: set[str]) -> Iterator[Element]:
    """The blocks, such as paragraphs, that are in some elements but not in other blocks or in `skipped` elements."""
    stack = list(elements)[::-1]
    while stack:
        element = stack.pop()
        if element.name in skipped:
            continue
        if is_block(element):
            yield element
        else:
            stack += [child for child in reversed(element.content) if isinstance(child, Element)]


def write(text: str) -> str:
    """A text as XML spells it, without characters that XML cannot hold."""
    return xml.write(_NO_XML.sub("", text))


def without_line_breaks(text: str) -> str:
    """A text with each line break and the spaces around it as one space, which XML takes for the same."""
    return re.sub(r"[ \t\r\n]+", lambda spaces: " " if "\n" in spaces[0] else spaces[0], text)


def attribute_segments(text: str, element: Element, names: tuple[str, ...]) -> Iterator[Segment]:
    """The segments of attributes that people read, such as the description of a picture, but not names of files."""
    tag = text[element.start : element.inside]
    for match in re.finditer(rf"""\s(?:{"|".join(names)})\s*=\s*("[^"]*"|'[^']*')""", tag):
        value = xml.unescape(match[1][1:-1])
        if has_words([value]) and not _FILE_NAME.search(value):
            start, end = element.start + match.start(1) + 1, element.start + match.end(1) - 1
            yield Segment(start, end, [value], _write_attribute)


_FILE_NAME = re.compile(r"\A\S*[/\\]\S*\Z|\A[A-Za-z]:\\|\.[A-Za-z]{3,4}\Z|://")


def _write_attribute(text: str) -> str:
    return write(text).replace('"', "&quot;").replace("'", "&#39;").replace("\n", "&#10;")


EAST_ASIAN = frozenset(("zh", "yue", "wuu", "ja", "ko"))
COMPLEX = frozenset((
    "ar", "fa", "ur", "ps", "sd", "ug", "ckb", "he", "yi", "dv", "th", "lo", "km", "my", "hi", "bn", "ta", "te", "kn",
    "ml", "mr", "ne", "pa", "gu", "or", "as", "si", "bo", "dz", "sa",
))  # fmt: skip
"""Languages for which documents have settings of their own, beside the setting for all others."""
_SETTINGS = re.compile(
    r"""(?P<docx><(?:\w+:)?(?:lang|themeFontLang)\s[^<>]*>)
      |(?P<drawing><(?:\w+:)?(?:rPr|endParaRPr|defRPr)\s[^<>]*>)
      |(?P<odt><(?:\w+:)?text-properties\s[^<>]*>)
      |(?<=<dc:language>)(?P<value>[\w-]+)(?=</dc:language>)""",
    re.VERBOSE,
)


def with_language(text: str, languages: Languages) -> str:
    """XML with the target language where it names the source language, by which office programs check the spelling."""
    source, target = languages
    if not source or not target:
        return text
    return _SETTINGS.sub(partial(_renamed, two_letters(source), target), text)


def _renamed(source: str, target: str, match: re.Match[str]) -> str:
    """A tag or value that names the target language instead of the source language."""
    language, region = two_letters(target), _region(target)
    code = f"{language}-{region}" if region else language
    tag = match[0]
    if match["value"]:
        return code if two_letters(tag) == source else tag
    if match["odt"]:
        old, new = _setting(source, "-asian", "-complex", ""), _setting(language, "-asian", "-complex", "")
        if two_letters(_value(tag, f"language{old}")) != source:
            return tag
        return _with_value(_with_value(tag, f"language{new}", language), f"country{new}", region or "none")
    old = new = "lang"
    if match["docx"]:
        old, new = _setting(source, "eastAsia", "bidi", "val"), _setting(language, "eastAsia", "bidi", "val")
    return _with_value(tag, new, code) if two_letters(_value(tag, old)) == source else tag


def _setting(language: str, east_asian: str, complex_script: str, other: str) -> str:
    """One of three settings: the one for texts in a language."""
    if language in EAST_ASIAN:
        return east_asian
    return complex_script if language in COMPLEX else other


def _region(code: str) -> str:
    """The region in the code of a language, such as BR in pt-BR; "" without one."""
    parts = code.replace("_", "-").split("-")[1:]
    return next((part.upper() for part in parts if len(part) == 2), "")


def _attribute(name: str) -> str:
    """A pattern for an attribute, with groups for all up to its value and for the value in quotes."""
    return rf"""(\s(?:\w+:)?{name}\s*=\s*)("[^"]*"|'[^']*')"""


def _value(tag: str, name: str) -> str:
    """The value of an attribute; "" without it."""
    match = re.search(_attribute(name), tag)
    return match[2][1:-1] if match else ""


def _with_value(tag: str, name: str, value: str) -> str:
    """A tag with another value of an attribute, or with the attribute added."""
    if re.search(_attribute(name), tag):
        return re.sub(_attribute(name), rf'\g<1>"{value}"', tag)
    beside = re.search(r"""\s(\w+:)?(?:language|val|eastAsia|bidi|lang)[\w-]*\s*=""", tag)
    prefix = (beside[1] if beside else "") or ""
    if name.endswith(("-asian", "-complex")):
        prefix = "style:"
    elif name in ("language", "country"):
        prefix = "fo:"
    end = len(tag) - (2 if tag.endswith("/>") else 1)
    return f'{tag[:end]} {prefix}{name}="{value}"{tag[end:]}'
