"""Reads catalogues of gettext, .po: a pair for each translated message, two for one with plural forms."""

from collections.abc import Iterator
from pathlib import Path

from dragoman.data.readers.types import Entry, Numbered, PairReader, ReaderOptions, Skipped
from dragoman.errors import DataError
from dragoman.formats.po import DamagedCatalogue, Message, declared_charset, messages, named_languages
from dragoman.formats.text_files import read_file, read_head
from dragoman.text.characters import one_line
from dragoman.text.language_codes import same_language


def open_po(path: Path, options: ReaderOptions) -> PairReader:
    """A reader of a catalogue, which swaps its sides if the options name the language of the translations as source."""
    wanted, encoding = options.languages, _encoding(path)
    first = next(_messages(path, encoding, options.replace_bad_bytes), Message())
    languages = named_languages(first)
    swap = False
    if wanted and languages[1]:
        swap = same_language(languages[1], wanted[0]) and not same_language(languages[1], wanted[1])

    def read() -> Iterator[Numbered]:
        for message in _messages(path, encoding, options.replace_bad_bytes):
            if message.is_header:
                continue
            for entry in entries(message):
                yield message.line, entry[::-1] if swap and not isinstance(entry, Skipped) else entry

    return PairReader(read, wanted or languages)


def entries(message: Message) -> Iterator[Entry]:
    """A pair for each translation of a message, or the reason why there is none."""
    reasons = {"obsolete": "obsolete message", "missing": "not translated yet", "draft": "fuzzy translation"}
    if reason := reasons.get(message.progress):
        yield Skipped(reason)
        return
    forms = message.forms
    source, plural = message.texts.get("msgid", ""), message.texts.get("msgid_plural")
    # The first form is the singular, unless it is the only form; the last is for many.
    sources = [source] if plural is None else [source, plural][-len(forms) :]
    for source, target in zip(sources, (forms[0], forms[-1]), strict=False):
        yield (one_line(source), one_line(target)) if target else Skipped("not translated yet")


def _encoding(path: Path) -> str:
    """The charset that the header of a catalogue declares; UTF-8 if there is none, or that of a template."""
    name = declared_charset(read_head(path)) or "UTF-8"
    try:
        b"x".decode(name)
    except (LookupError, UnicodeDecodeError):
        raise DataError(
            f"{path} declares the charset {name}, in which it cannot be read; convert it with `msgconv -t UTF-8`."
        ) from None
    return name


def _messages(path: Path, encoding: str, replace: bool) -> Iterator[Message]:
    try:
        yield from messages(read_file(path, replace=replace, encoding=encoding))
    except DamagedCatalogue as error:
        raise DataError(f"{path}, {error}") from None
