"""Web pages: the text of each block with its inline tags, and the attributes that people read."""

import html
import re
from functools import partial
from html.parser import HTMLParser

from dragoman.documents.document import UNKNOWN, Code, Document, Languages, Segment, has_words, trimmed

INLINE = {
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "cite", "del", "dfn", "em", "font", "i", "img", "input",
    "ins", "label", "mark", "q", "rp", "rt", "ruby", "s", "small", "span", "strike", "strong", "sub", "sup", "time",
    "tt", "u", "wbr",
}  # fmt: skip
"""Tags inside of a sentence; all others end it."""
OPAQUE = {"audio", "canvas", "code", "iframe", "kbd", "math", "noscript", "object", "samp", "svg", "var", "video"}
"""Elements that are left as they are; inside of a sentence, they stand for a word."""
SILENT = {"pre", "script", "style", "template", "textarea"}
"""Elements that are left as they are, and end a sentence."""
EMPTY = {
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
}  # fmt: skip
ATTRIBUTES = {"alt", "title", "placeholder", "aria-label", "label"}
META = {"description", "keywords", "og:title", "og:description", "twitter:title", "twitter:description"}
_ATTRIBUTE = re.compile(r"""\s([A-Za-z][\w:-]*)\s*=\s*("[^"]*"|'[^']*')""")
_BLANK = " \t\r\n\f"


def read_html(text: str, languages: Languages = UNKNOWN) -> Document:
    """The segments of a page."""
    return Document(text, _Reader(text).segments)


class _Reader(HTMLParser):
    def __init__(self, text: str):
        super().__init__(convert_charrefs=False)
        self.text, self.segments = text, list[Segment]()
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self._opaque: list[str] = []
        """The open elements from the first one on that is left as it is; it begins at `_opaque_start`."""
        self._opaque_start = 0
        self._pieces: list[tuple[int, int, str | Code]] = []
        """The sentence so far: where each text and code begins and ends."""
        self.feed(text)
        self.close()
        self._end_sentence()
        self.segments.sort(key=lambda segment: segment.start)

    def _position(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        start, markup, values = self._position(), self.get_starttag_text() or "", dict(attrs)
        end = start + len(markup)
        if self._opaque:
            self._opaque += [tag] * (tag not in EMPTY and not markup.endswith("/>"))
            return
        untranslated = values.get("translate") == "no" or "notranslate" in (values.get("class") or "").split()
        if tag not in INLINE | OPAQUE:
            self._end_sentence()
        if tag in SILENT | OPAQUE or untranslated:
            if tag in EMPTY or markup.endswith("/>"):
                self._pieces.append((start, end, Code(markup, start=start)))
            else:
                self._opaque, self._opaque_start = [tag], start
            return
        described = tag == "meta" and bool({values.get("name"), values.get("property")} & META)
        self._read_attributes(start, markup, {"content"} if described else ATTRIBUTES)
        if tag in INLINE:
            self._pieces.append(
                (start, end, Code(markup, "break" if tag == "br" else "alone" if tag in EMPTY else "open", tag, start))
            )

    handle_startendtag = handle_starttag

    def handle_endtag(self, tag: str) -> None:
        start = self._position()
        end = self.text.find(">", start) + 1 or len(self.text)
        if self._opaque:
            if tag in self._opaque:
                outermost = self._opaque[0]
                while self._opaque.pop() != tag:
                    pass
                if not self._opaque and outermost in INLINE | OPAQUE:
                    self._pieces.append((self._opaque_start, end, Code(self.text[self._opaque_start : end], "word")))
        elif tag in INLINE:
            self._pieces.append((start, end, Code(self.text[start:end], "close", tag)))
        else:
            self._end_sentence()

    def handle_data(self, data: str) -> None:
        self._read(data, data)

    def handle_entityref(self, name: str) -> None:
        self._read_reference(f"&{name}")

    def handle_charref(self, name: str) -> None:
        self._read_reference(f"&#{name}")

    def _read_reference(self, markup: str) -> None:
        markup += ";" * self.text.startswith(";", self._position() + len(markup))
        self._read(markup, html.unescape(markup))

    def handle_comment(self, data: str) -> None:
        self._skip(len(data) + (4 if self.text.startswith("<!--", self._position()) else 0))

    def handle_pi(self, data: str) -> None:
        self._skip(2 + len(data))

    handle_decl = unknown_decl = handle_pi

    def _skip(self, length: int) -> None:
        """Leave what begins here, and ends with the first > after so many characters, as it is."""
        start = self._position()
        end = self.text.find(">", start + length) + 1 or len(self.text)
        if not self._opaque:
            self._pieces.append((start, end, Code(self.text[start:end])))

    def _read(self, markup: str, text: str) -> None:
        if not self._opaque:
            start = self._position()
            self._pieces.append((start, start + len(markup), text))

    def _read_attributes(self, start: int, markup: str, names: set[str]) -> None:
        for match in _ATTRIBUTE.finditer(markup):
            text = html.unescape(match[2][1:-1])
            if match[1].lower() in names and has_words([text]):
                place = start + match.start(2) + 1
                write = partial(_in_quotes, match[2][0])
                self.segments.append(Segment(place, place + len(match[2]) - 2, [text], write))

    def _end_sentence(self) -> None:
        """Make a segment of the sentence so far, without single codes and spaces around it."""
        pieces, self._pieces = self._pieces, []
        inside = [index for index, (_, _, each) in enumerate(pieces) if not _is_outside(each)]
        pieces = pieces[inside[0] : inside[-1] + 1] if inside else []
        content = trimmed([each for _, _, each in pieces])
        if not has_words(content):
            return
        start, end = pieces[0][0], pieces[-1][1]
        if isinstance(pieces[0][2], str):
            first = self.text[start : pieces[0][1]]
            start += len(first) - len(first.lstrip(_BLANK))
        if isinstance(pieces[-1][2], str):
            last = self.text[pieces[-1][0] : end]
            end -= len(last) - len(last.rstrip(_BLANK))
        self.segments.append(Segment(start, end, content, lambda text: html.escape(text, quote=False)))


def _in_quotes(quote: str, text: str) -> str:
    return html.escape(text, quote=False).replace(quote, "&quot;" if quote == '"' else "&#39;")


def _is_outside(piece: str | Code) -> bool:
    """Whether a piece at the beginning or end of a sentence does not belong to it."""
    return piece.kind in ("alone", "break") if isinstance(piece, Code) else not piece.strip(_BLANK)
