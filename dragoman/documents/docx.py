"""Documents of Word, DOCX. A paragraph is a row of runs, each with its format.

The format of most of its text is that of the translation; for others, a code closes that run and opens another. So
every word has the format of the word that it comes from.

A field, such as a reference, has codes, then its result, which people read, and an end. The codes and the end stay
around the words of the result.
"""

import re
from dataclasses import replace

from dragoman.documents import xml
from dragoman.documents.document import UNKNOWN, Code, Content, Document, Languages, Segment, has_words
from dragoman.documents.office import paragraphs
from dragoman.documents.xml import Element

PARTS = re.compile(r"word/(document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")


def read_docx(text: str, inner: bool, languages: Languages = UNKNOWN) -> Document:
    """The segments of a part of a DOCX: paragraphs, those in text boxes or all others."""
    segments = []
    for paragraph in paragraphs(xml.parse(text), {"p"}, {"txbxContent"}, inner=inner):
        prefix = text[paragraph.start + 1 : paragraph.inside].partition("p")[0]
        items = [each for each in paragraph.content if isinstance(each, Element) and each.name != "pPr"]
        if items and has_words([each.text for each in items]):
            runs = _Runs(text, prefix)
            base = runs.usual_format(items)
            segments.append(
                Segment(
                    items[0].start, items[-1].end, with_fields(runs.content(items, base)), xml.write,
                    wrap=lambda written, runs=runs, base=base: runs.joined(base, written),
                )
            )  # fmt: skip
    return Document(text, [segment for segment in segments if has_words(segment.content)])


CONTAINERS = {"hyperlink", "ins", "fldSimple", "smartTag", "sdt", "sdtContent"}
"""What runs stand in, besides a paragraph."""


def with_fields(content: Content) -> list[str | Code]:
    """A paragraph in which the codes of each field are one that opens a stretch, and the end of the field closes it."""
    found: list[str | Code] = []
    start, depth, boxes = 0, 0, 0
    for each in content:
        mark = each.name if isinstance(each, Code) and each.kind == "alone" else ""
        if isinstance(each, Code) and each.name == "box":
            boxes += 1 if each.kind == "open" else -1
            depth = 0  # codes that go across the edge of a link stay as they are
        if mark == "end" and not depth:
            each = replace(each, kind="close", name=f"field {boxes}")
        found.append(each)
        if depth or mark == "begin":
            start = start if depth else len(found) - 1
            depth += {"begin": 1, "end": -1}.get(mark, 0)  # there may be fields among the codes
            if not depth or (depth == 1 and mark == "separate"):
                codes = "".join(each.markup if isinstance(each, Code) else xml.write(each) for each in found[start:])
                found[start:] = [Code(codes, "open" if depth else "alone", f"field {boxes}")]
                depth = 0
    return found


class _Runs:
    """The runs of a paragraph as texts and codes; `prefix` is that of the names of elements, mostly "w:"."""

    def __init__(self, text: str, prefix: str):
        self.text, self.prefix = text, prefix
        self.text_start = f'<{prefix}t xml:space="preserve">'
        self.text_end = f"</{prefix}t>"
        self.run_end = f"</{prefix}r>"
        self.formats: set[str] = set()

    def usual_format(self, items: list[Element]) -> str:
        """The format of most characters."""
        sizes: dict[str, int] = {}
        for item in items:
            for run in [item] if item.name == "r" else item.walk("r"):
                sizes[self._format(run)] = sizes.get(self._format(run), 0) + sum(
                    len(each.text) for each in run.walk("t")
                )
        return max(sizes, key=lambda each: sizes[each], default="")

    def content(self, items: list[Element], base: str) -> list[str | Code]:
        """The texts of some runs, and the codes that lead from the format `base` to others and back."""
        content: list[str | Code] = []
        opened = None
        for item in items:
            marks = [_mark(each) for each in item.content if isinstance(each, Element) and each.name == "fldChar"]
            if item.name == "r" and (self._has_text(item) or len(marks) > 1):
                form = self._format(item)
                if form != (opened or base):
                    content += [Code(self._end() + self._start(base), "close", opened)] if opened else []
                    opened = None
                    if form != base:
                        content.append(Code(self._end() + self._start(form), "open", form))
                        opened = form
                content += self._inside(item)
                continue
            content += [Code(self._end() + self._start(base), "close", opened)] if opened else []
            opened = None
            if item.name in CONTAINERS and any(map(self._has_text, item.walk("r"))):
                inner = [each for each in item.content if isinstance(each, Element)]
                usual = self.usual_format(inner)
                content.append(
                    Code(self._end() + self.text[item.start : item.inside] + self._start(usual), "open", "box")
                )
                content += self.content(inner, usual)
                content.append(Code(self._end() + self.text[item.close : item.end] + self._start(base), "close", "box"))
            else:
                breaks = any(xml.KINDS.get(each.name) == "break" for each in item.content if isinstance(each, Element))
                markup = self._end() + self.text[item.start : item.end] + self._start(base)
                content.append(Code(markup, "break" if breaks else "alone", "".join(marks)))
        return content + ([Code(self._end() + self._start(base), "close", opened)] if opened else [])

    def joined(self, base: str, written: str) -> str:
        """The runs of a translation, without empty ones."""
        whole = (self._start(base) + written + self._end()).replace(self.text_start + self.text_end, "")
        for form in self.formats:
            whole = whole.replace(self._open(form) + self.run_end, "")
        tag = re.escape(self.text_start)
        return re.sub(rf"{tag}(?=\S(?:[^<]*[^\s<])?<)", f"<{self.prefix}t>", whole)

    def _has_text(self, run: Element) -> bool:
        return any(True for _ in run.walk("t"))

    def _format(self, run: Element) -> str:
        properties = run.child("rPr")
        form = self.text[properties.start : properties.end] if properties else ""
        self.formats.add(form)
        return form

    def _open(self, form: str) -> str:
        return f"<{self.prefix}r>{form}"

    def _start(self, form: str) -> str:
        return self._open(form) + self.text_start

    def _end(self) -> str:
        return self.text_end + self.run_end

    def _inside(self, run: Element) -> list[str | Code]:
        """The texts of a run; breaks, tabs and pictures are codes."""
        found: list[str | Code] = []
        for each in run.content:
            if isinstance(each, Element) and each.name == "t":
                found.append(each.text)
            elif isinstance(each, Element) and each.name != "rPr":
                kind = xml.KINDS.get(each.name, "alone")
                markup = self.text_end + self.text[each.start : each.end] + self.text_start
                found.append(Code(markup, kind, _mark(each)))
        return found


def _mark(element: Element) -> str:
    """Whether an element is the begin of a field, separates its codes from its result, or is its end."""
    return element.attributes.get("fldCharType", "") if element.name == "fldChar" else ""
