"""A document as its text and the segments in it that are translated."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal


class FormatError(Exception):
    """What is wrong with a document, as it is said after its name."""


@dataclass(frozen=True)
class Code:
    """What stands in a text without being a part of it, such as a tag."""

    markup: str
    """As the document spells it."""
    kind: Literal["open", "close", "alone", "word", "break"] = "alone"
    """Whether it is one end of a stretch of text, or a single code; of these, some stand for a word or a space."""
    name: str = ""
    """An opening and its closing code have the same."""


Content = Sequence[str | Code]
"""Texts, and codes between them."""
Languages = tuple[str | None, str | None]
"""Codes of the source and the target language of a translation; None where nobody said."""
UNKNOWN: Languages = (None, None)


@dataclass(frozen=True)
class Segment:
    """A text that is translated as a whole."""

    start: int
    """Where the text of the document is replaced."""
    end: int
    content: Content
    """What is translated: the text as people read it, and codes."""
    write: Callable[[str], str] = lambda text: text
    """A text as the document spells it, such as `&lt;` for `<`; codes are not given to it."""
    around: tuple[str, str] = ("", "")
    """What is written before and after the translation."""
    wrap: Callable[[str], str] = lambda text: text
    """Arranges the finished translation, such as in lines."""

    def written(self, content: Content) -> str:
        """A translation as it is written into the document."""
        spelled = "".join(each.markup if isinstance(each, Code) else self.write(each) for each in content)
        return self.around[0] + self.wrap(spelled) + self.around[1]


@dataclass(frozen=True)
class Edit:
    """Something else that is replaced, such as the mark that a translation is to be reviewed."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Document:
    """The text of a document, and what is replaced in it."""

    text: str
    segments: Sequence[Segment]
    edits: Sequence[Edit] = ()
    done: int = 0
    """Texts that have a translation already, which stays."""
    notes: Sequence[str] = ()
    """What a person should know about this document, each a sentence that follows its name."""
    unencodable: str = "strict"
    """What becomes of characters that the encoding of the file lacks: the name of an error handler of `str.encode`."""

    def filled(self, translations: Sequence[Content]) -> str:
        """The text with a translation for each segment."""
        written: list[Edit] = []
        # From the end, so that an attribute of a tag inside of a sentence, which is a code of it, comes before it.
        order = sorted(range(len(self.segments)), key=lambda index: self.segments[index].start, reverse=True)
        for index in order:
            segment, attributes = self.segments[index], {}
            while written and written[-1].end <= segment.end:
                edit = written.pop()
                name, quote = _BEFORE_VALUE.search(self.text, max(0, edit.start - 200), edit.start).groups()
                attributes[name + quote + self.text[edit.start : edit.end] + quote] = name + quote + edit.text + quote
            content = [_with_attributes(each, attributes) for each in translations[index]]
            written.append(Edit(segment.start, segment.end, segment.written(content)))
        parts, last = [], 0
        for edit in sorted([*written, *self.edits], key=lambda edit: (edit.start, edit.end)):
            parts += [self.text[last : edit.start], edit.text]
            last = edit.end
        return "".join([*parts, self.text[last:]])


_NAME = r"""([^\s"'<>/=]+\s*=\s*)"""
_BEFORE_VALUE = re.compile(rf"""{_NAME}(["']?)\Z""")
"""The beginning of an attribute: its name, and a quotation mark if it has one."""
_ATTRIBUTE = re.compile(rf"""{_NAME}(?:"[^"]*"|'[^']*'|[^\s"'>]+)""")


def _with_attributes(each: "str | Code", attributes: dict[str, str]) -> "str | Code":
    """A code with translated attributes: how each is spelled, and how its translation is."""
    if not isinstance(each, Code) or not attributes:
        return each
    return replace(each, markup=_ATTRIBUTE.sub(lambda match: attributes.get(match[0], match[0]), each.markup))


_LETTER = re.compile(r"[^\W\d_]")


def has_words(content: Content) -> bool:
    """Whether there is anything to translate."""
    return any(isinstance(each, str) and _LETTER.search(each) for each in content)


_SPACES = re.compile(r"[ \t\r\n\f]+")


def trimmed(content: Content) -> list[str | Code]:
    """The content with each run of spaces as one space, and without spaces around it."""
    found: list[str | Code] = []
    spaced = True
    for each in content:
        if isinstance(each, str):
            each = _SPACES.sub(" ", each)
            each = each.removeprefix(" ") if spaced else each
            spaced = each.endswith(" ") if each else spaced
        elif each.kind in ("alone", "word", "break"):
            spaced = each.kind == "break"
        found.append(each)
    for index in reversed(range(len(found))):
        each = found[index]
        if isinstance(each, str):
            found[index] = each.rstrip(" ")
            if each.strip():
                break
        elif each.kind in ("alone", "word"):
            break
    return [each for each in found if each != ""]
