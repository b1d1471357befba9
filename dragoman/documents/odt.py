"""OpenDocument texts, ODT: paragraphs and headings; spans and links are placed by the words inside them."""

import re

from dragoman.documents import xml
from dragoman.documents.document import UNKNOWN, Code, Content, Document, Languages, Segment, has_words
from dragoman.documents.office import paragraphs

PARTS = re.compile(r"(content|styles)\.xml")
WHOLE = {"note", "annotation", "ruby", "frame", "custom-shape"}
"""Whose texts, if they have paragraphs, are translated apart."""


def read_odt(text: str, inner: bool, languages: Languages = UNKNOWN) -> Document:
    """The segments of a part of an ODT: paragraphs and headings, those in notes and frames or all others."""
    segments = []
    for paragraph in paragraphs(xml.parse(text), {"p", "h"}, WHOLE, inner=inner):
        content = _spaced(xml.with_codes(paragraph, text, WHOLE))
        if has_words(content):
            segments.append(Segment(paragraph.inside, paragraph.close, content, xml.write))
    return Document(text, segments)


def _spaced(content: Content) -> list[str | Code]:
    """With line breaks as spaces: in XML they mean the same."""
    return [re.sub(r"\s*\n\s*", " ", each) if isinstance(each, str) else each for each in content]
