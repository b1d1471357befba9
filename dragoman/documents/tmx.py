"""Translation memories, TMX: units that lack the target language get a variant in it."""

from dragoman.data.language_codes import same_language
from dragoman.documents import xml
from dragoman.documents.document import Document, FormatError, Languages, Segment, has_words, trimmed
from dragoman.documents.xliff import indent

WHOLE = {"bpt", "ept", "it", "ph", "ut"}


def read_tmx(text: str, languages: Languages) -> Document:
    """The segments of a memory: the variants in the source language of units that have none in the target language."""
    source, target = languages
    if not source or not target:
        raise FormatError("names languages, and the model does not; choose them with --from and --to.")
    segments = []
    for unit in xml.parse(text).walk("tu"):
        variants = {each.attributes.get("lang", ""): each for each in unit.walk("tuv")}
        found = [each for code, each in variants.items() if same_language(code, source)]
        if not found or any(same_language(code, target) for code in variants):
            continue
        variant, segment = found[0], found[0].child("seg")
        content = trimmed(xml.with_codes(segment, text, WHOLE)) if segment else []
        if has_words(content):
            before = f'{indent(text, variant.start)}<tuv xml:lang="{target}"><seg>'
            segments.append(
                Segment(variant.end, variant.end, content, xml.write, (before, "</seg></tuv>"), in_place=False)
            )
    return Document(text, segments)
