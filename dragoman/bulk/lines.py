"""Translates any number of lines in windows, with bounded memory, and rejects lines that cannot be translated."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from typing import Any, NamedTuple

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.translation import Translation
from dragoman.decoding.translator import Translator
from dragoman.formats.text_files import MAX_LINE, raw_lines
from dragoman.text.characters import one_line

WINDOW = 50_000
"""Most lines of a window, which are sorted by length together."""
WINDOW_CHARACTERS = 1 << 24
"""Characters at which a window ends even if it has fewer lines."""
LONGEST = 1 << 20
"""Most characters of a line that is translated; a longer one is no text, and would take hours."""
AT_ONCE = 4096
"""Most texts that are passed to the translator together."""
SHOWN = 200
"""Most characters of a rejected line that are kept with the reason."""


class Rejected(NamedTuple):
    """A line that cannot be translated."""

    number: int
    reason: str
    begin: str
    """Its first characters; bytes that are not UTF-8 as \\xNN."""

    def to_row(self) -> str:
        """The line of a file of rejected lines: number, reason, beginning, with tabs between them."""
        reason, begin = " ".join(self.reason.split()), " ".join(self.begin.split())
        return f"{self.number}\t{reason}\t{begin}"


class BulkLine(NamedTuple):
    """The translation of a line."""

    item: Any
    """What `BulkTranslator.row` makes of it."""
    warning: str | None
    confidence: float | None
    """The confidence of the translation, if it was asked for."""
    is_untranslated: bool
    """Whether the line stays as it is because of `only_above`."""
    faults: list[str]
    """What seems to be wrong, in words, if `checks` was asked for."""


def as_row(config: DecodingConfig) -> Callable[[Translation], str]:
    """Function that turns a translation into a line, with tab-separated columns of what else the search computes."""
    return lambda translation: translation.to_rows(with_confidence=config.confidence)[0]


@dataclass
class BulkTranslator:
    """Translates windows of lines with one search configuration."""

    translator: Translator
    config: DecodingConfig
    row: Callable[[Translation], Any] = lambda translation: one_line(translation.text)
    """Function that turns a translation into the item that `windows` yields, by default its line."""

    def windows(
        self, lines: Iterable[str], advance: Callable[[int], None] = lambda lines: None
    ) -> Iterator[list[BulkLine]]:
        """For each line, in order, what became of it, window by window.

        `advance` is called with numbers of lines that are done. A window begins at a fixed line, and its texts are
        translated once each, longest first. So the batches, and with them the last bits of scores, follow from the
        lines alone.
        """
        for window in _windows(lines):
            texts = sorted(set(window), key=lambda text: (-len(text), text))
            results = {}
            for text, translation in zip(texts, self._stream(texts), strict=True):
                results[text] = BulkLine(
                    self.row(translation),
                    translation.warning,
                    translation.confidence,
                    bool(translation.untranslated),
                    translation.faults,
                )
                advance(1)
            advance(len(window) - len(texts))
            yield [results[text] for text in window]

    def _stream(self, texts: list[str]) -> Iterator[Translation]:
        return self.translator.translate_windows(texts, self.config, window=AT_ONCE)

    def read(self, stream: BufferedIOBase, name: str, reject: Callable[[Rejected], None]) -> Iterator[str]:
        """The lines of a stream. For one that cannot be translated, `reject` is called and the line is empty."""
        for number, content, is_whole in raw_lines(stream, name):
            text, reason = _decoded(content, is_whole)
            reason = reason or self.refused(text)
            if reason:
                begin = content[: 4 * SHOWN].decode(errors="backslashreplace")[:SHOWN]
                reject(Rejected(number, reason, begin))
                text = ""
            yield text

    def refused(self, text: str) -> str | None:
        """The reason why a text cannot be translated, or None."""
        if len(text) > LONGEST:
            return f"longer than {LONGEST:,} characters"
        most = self.translator.max_length
        # A text that is split is cut where it is too long; a character has four tokens at most.
        if self.config.split or 4 * len(text) < most:
            return None
        count = self.translator.count(text)
        return f"{count:,} tokens and an end, but the model has {most:,} positions" if count >= most else None


def _decoded(content: bytes, is_whole: bool) -> tuple[str, str | None]:
    """The text of a line and None, or no text and the reason."""
    if not is_whole:
        return "", f"longer than {MAX_LINE >> 20} MiB"
    try:
        return content.decode(), None
    except UnicodeDecodeError as error:
        return "", f"not UTF-8 (byte 0x{content[error.start]:02X} at position {error.start + 1})"


def _windows(lines: Iterable[str]) -> Iterator[list[str]]:
    window: list[str] = []
    size = 0
    for line in lines:
        window.append(line)
        size += len(line)
        if len(window) == WINDOW or size >= WINDOW_CHARACTERS:
            yield window
            window, size = [], 0
    if window:
        yield window
