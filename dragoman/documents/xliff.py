"""XLIFF 1.2 and 2: empty targets are filled and marked for review; others, and inline codes, stay."""

import re
from collections.abc import Iterator

from dragoman.data.readers.xliff import UNTRANSLATED
from dragoman.documents import xml
from dragoman.documents.document import Document, Edit, Languages, Segment, has_words, trimmed

WHOLE = {"bpt", "ept", "it", "ph", "ut", "x", "bx", "ex", "sc", "ec"}
"""Elements whose content is no text of the sentence."""
STATES = {"trans-unit": "needs-review-translation", "segment": "translated"}
"""What says that nobody has reviewed a translation: the state of the target in 1.2, of the segment in 2."""
_STATE = re.compile(r"""\sstate\s*=\s*("[^"]*"|'[^']*')""")


def read_xliff(text: str, languages: Languages) -> Document:
    """The segments of a file: the units without a translation."""
    segments: list[Segment] = []
    document = xml.parse(text)
    edits = list(_named(document, languages[1]))
    for unit in _units(document):
        source, target = unit.child("source"), unit.child("target")
        if source is None:
            continue
        state = (target or unit).attributes.get("state", "initial")
        if target and target.text.strip() and (unit.name == "segment" or state not in UNTRANSLATED):
            continue
        content = trimmed(xml.with_codes(source, text, WHOLE))
        if not has_words(content):
            continue
        prefix = text[source.start + 1 : source.inside].partition("source")[0]
        state = f' state="{STATES[unit.name]}"' if unit.name == "trans-unit" else ""
        after = unit.child("seg-source") or source
        start, end = (target.start, target.end) if target else (after.end, after.end)
        opening = f"{indent(text, source.start)}<{prefix}target"
        if target:
            opening = text[start : target.inside].removesuffix(">").removesuffix("/").rstrip()
            opening = _STATE.sub("", opening) if state else opening
        around = f"{opening}{state}>", f"</{prefix}target>"
        segments.append(Segment(start, end, content, xml.write, around, in_place=False))
        if unit.name == "segment":
            edits.append(_marked(text, unit))
    return Document(text, segments, edits)


def _named(document: xml.Element, target: str | None) -> Iterator[Edit]:
    """The target language, which XLIFF 2 requires as soon as there are targets."""
    root = document.child("xliff")
    if root and target and root.attributes.get("version", "").startswith("2") and "trgLang" not in root.attributes:
        yield Edit(root.inside - 1, root.inside - 1, f' trgLang="{target}"')


def _units(element: xml.Element, translate: str = "yes") -> Iterator[xml.Element]:
    """The units that are to be translated; what holds a unit may say that it is not."""
    for each in element.content:
        if isinstance(each, xml.Element):
            own = each.attributes.get("translate", translate)
            if each.name in STATES and own != "no":
                yield each
            yield from _units(each, own)


def indent(text: str, start: int) -> str:
    """The line break and spaces before an element."""
    return re.search(r"(?:\r?\n)?[ \t]*\Z", text[max(0, start - 200) : start])[0]


def _marked(text: str, segment: xml.Element) -> Edit:
    tag = text[segment.start : segment.inside]
    if state := _STATE.search(tag):
        return Edit(segment.start + state.start(1), segment.start + state.end(1), f'"{STATES["segment"]}"')
    return Edit(segment.inside - 1, segment.inside - 1, f' state="{STATES["segment"]}"')
