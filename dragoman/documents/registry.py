"""The formats of documents: finds the format by a file's name, and decodes and encodes the document.

A new format is a file with a reader, such as `subtitles.py`, and a row in `READERS`. A row in docs/documents.md and a
word in the help of `translate` tell people about it.
"""

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dragoman.decoding.translation import Translation
from dragoman.documents import docx, odt
from dragoman.documents.document import UNKNOWN, Document, FormatError
from dragoman.documents.docx import read_docx
from dragoman.documents.gettext import read_po
from dragoman.documents.html import read_html
from dragoman.documents.markdown import read_markdown
from dragoman.documents.odt import read_odt
from dragoman.documents.office import translate_office
from dragoman.documents.plain import read_text
from dragoman.documents.strings import read_json, read_yaml
from dragoman.documents.subtitles import read_subtitles
from dragoman.documents.tmx import read_tmx
from dragoman.documents.translate import Engine, Report, reviewed, translate_documents
from dragoman.documents.xliff import read_xliff
from dragoman.errors import DataError
from dragoman.formats.po import declared_charset
from dragoman.formats.text_files import encoding_of, open_input, unpacking_errors
from dragoman.formats.xliff import ENDINGS as XLIFF_ENDINGS
from dragoman.formats.xml import declared_encoding, is_encoding
from dragoman.text.language_codes import Languages

READERS: dict[str, Callable[[str, Languages], Document]] = {
    ".txt": read_text,
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".xhtml": read_html,
    ".srt": read_subtitles,
    ".vtt": read_subtitles,
    ".po": read_po,
    ".pot": read_po,
    ".json": read_json,
    ".arb": read_json,
    ".yaml": read_yaml,
    ".yml": read_yaml,
    ".tmx": read_tmx,
    **dict.fromkeys(XLIFF_ENDINGS, read_xliff),
}
"""The reader of each format, by the end of a file's name."""
REVIEWED = {".po": read_po, ".pot": read_po, ".tmx": read_tmx, **dict.fromkeys(XLIFF_ENDINGS, read_xliff)}
"""The readers of formats in which a translation that is not to be trusted can be missing. All but TMX also say beside
each translation how far it can be trusted, or that a memory had it."""
OFFICE = {
    ".docx": (docx.find_parts, read_docx),
    ".docm": (docx.find_parts, read_docx),
    ".dotx": (docx.find_parts, read_docx),
    ".odt": (odt.find_parts, read_odt),
    ".ott": (odt.find_parts, read_odt),
}
"""The functions that find and read the parts of each office format, by the end of a file's name."""
ENDINGS = (*READERS, *OFFICE)
"""Ends of the names of documents."""
MOST_BYTES = 2**26
"""Most bytes of a document."""
_META = re.compile(rb"""<meta[^>]*?charset\s*=\s*["']?([\w.:-]+)""")
_PAGES = (".html", ".htm", ".xhtml")
_MARKED_UP = (*_PAGES, ".tmx", *XLIFF_ENDINGS)
_BROWSERS = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "big5": "big5hkscs",
    "utf-7": "utf-8", "utf-16": "utf-8", "utf-16-le": "utf-8", "utf-16-be": "utf-8", "utf-32": "utf-8",
}  # fmt: skip
"""Encodings that browsers use instead of the one that a page names, by its codec in Python.

https://encoding.spec.whatwg.org/#names-and-labels
"""
_VARIANT = re.compile(r"\Ax-|(?<=8859-8)-[ei]\Z", re.IGNORECASE)
"""Parts of names of encodings that only the web knows, as in x-sjis."""


@dataclass(frozen=True)
class TranslatedDocument:
    """A document in the other language, and a report for the person who had it translated."""

    content: bytes
    report: Report


def read_document(path: Path) -> bytes:
    """The content of a document, unpacked. Raises `DataError` for a file that cannot be read."""
    with open_input(path) as stream:
        try:
            return stream.read(MOST_BYTES + 1)  # more is too large, whatever it is
        except unpacking_errors() as error:
            raise DataError(f"{path} cannot be read: {error or type(error).__name__}; copy it again.") from None


def translate_document(content: bytes, name: str, languages: Languages, engine: Engine) -> TranslatedDocument:
    """Translates a document; its `name` says which format it has.

    Raises `DataError` for a name without such a format, and for content that is not of it.
    """
    ending, report = format_of(name), Report()
    translate = partial(translate_documents, engine=engine, report=report)
    try:
        if len(content) > MOST_BYTES:
            raise FormatError(f"is larger than {MOST_BYTES >> 20} MiB; split it.")
        if ending in OFFICE:
            return TranslatedDocument(translate_office(content, *OFFICE[ending], languages, translate), report)
        encoding = _encoding(content, ending)
        text = content.decode(encoding)
        document = READERS[ending](text, languages)
        if (engine.has_confidence or engine.has_memory) and ending in REVIEWED:
            review, engine = reviewed(document, engine, report)
            document = REVIEWED[ending](text, languages, review)
        (translated,) = translate_documents([document], engine, report)
        if translated == text:  # an encoding may spell it in several ways
            return TranslatedDocument(content, report)
        return TranslatedDocument(translated.encode(encoding, document.unencodable), report)
    except FormatError as error:
        raise DataError(f"{name} {error}") from None
    except RecursionError:
        raise DataError(f"{name} has too many elements inside of each other; take some out.") from None
    except UnicodeDecodeError as error:
        fault = f"is no text in {error.encoding}, see byte {error.start:,}"
    except UnicodeEncodeError as error:
        fault = f"is in {error.encoding}, which cannot spell {error.object[error.start]!r}"
    raise DataError(f"{name} {fault}; save it as UTF-8.")


def format_of(name: str) -> str:
    """The format of a document: one of `ENDINGS`, with which its name ends. A name that is nothing else has it, too.

    Raises `DataError` for other names.
    """
    _, point, ending = Path(name).name.lower().rpartition(".")
    if point + ending not in ENDINGS:
        raise DataError(f"{name} is no document that can be translated; these are: {' '.join(ENDINGS)}.")
    return point + ending


def may_be_called(document: str, output: str) -> bool:
    """Whether the translation of a document may have the name `output`, which must not promise another format.

    Names that end like no document, or like text, promise nothing.
    """
    ending = Path(output).suffix.lower()
    if ending not in ENDINGS or ending == ".txt":
        return True
    formats = READERS | OFFICE
    return formats[ending] == formats[format_of(document)]


def texts_of(content: bytes, name: str) -> list[str]:
    """The texts of a document that are to be translated, such as to detect their language. Raises `DataError`."""
    collected: list[str] = []

    def collect(texts: list[str]) -> list[Translation]:
        collected.extend(texts)
        return [Translation(text, 0.0, 0.0, []) for text in texts]

    translate_document(content, name, UNKNOWN, Engine(collect, copies=False))
    return collected


def _encoding(content: bytes, ending: str) -> str:
    """The encoding of a document: by its first bytes, else the one that it declares, else UTF-8."""
    head = content[:4096]
    if marked := encoding_of(head):
        return marked
    name = _declared(head, ending) or "utf-8"
    if ending in _PAGES:
        name = _VARIANT.sub("", name)
    try:
        b"x".decode(name)
        codec = codecs.lookup(name).name
    except (LookupError, UnicodeError):
        return "utf-8"
    if not is_encoding(codec):
        return "utf-8"
    if ending not in _PAGES:
        return name
    codec = _BROWSERS.get(codec, codec)
    if codec == "cp1252" and not _is_in(content, codec):
        return "iso8859-1"  # has five bytes that Python has no characters for in cp1252
    return codec


def _declared(head: bytes, ending: str) -> str | None:
    """The encoding that the beginning of a document declares."""
    if ending in (".po", ".pot"):
        return declared_charset(head)
    encoding = declared_encoding(head) if ending in _MARKED_UP else None
    meta = _META.search(head) if ending in _PAGES and not encoding else None
    return meta[1].decode() if meta else encoding


def _is_in(content: bytes, encoding: str) -> bool:
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
