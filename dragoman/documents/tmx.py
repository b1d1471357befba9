"""Translation memories, TMX: units that lack the target language get a variant in it."""

from dragoman.data.language_codes import same_language
from dragoman.documents import xml
from dragoman.documents.document import Document, FormatError, Languages, has_words
from dragoman.documents.rewriting import Rewriting
from dragoman.documents.xml import Element

WHOLE = {"bpt", "ept", "it", "ph", "ut"}


def read_tmx(text: str, languages: Languages) -> Document:
    """The segments of a memory: copies of the source variants in units that have no text in the target language."""
    source, target = languages
    if not source or not target:
        raise FormatError("names languages, and the model does not; choose them with --from and --to.")
    out, done, damaged = Rewriting(text), 0, 0
    codes: dict[str, None] = {}
    for unit in xml.parse(text).walk("tu"):
        variants = {each.attributes.get("lang", ""): each for each in unit.walk("tuv")}
        codes |= dict.fromkeys(variants)
        variant = next((each for code, each in variants.items() if same_language(code, source)), None)
        segment = variant.child("seg") if variant else None
        if not segment or not has_words([segment.text_without(WHOLE)]):
            continue
        existing = next((each for code, each in variants.items() if same_language(code, target)), None)
        if existing and not _is_empty(existing):
            done += 1
        elif xml.has_forbidden(text[segment.start : segment.end]):
            damaged += 1
        else:
            _fill(out, variant, segment, existing, target)
    if codes and not any(same_language(code, source) for code in codes):
        raise FormatError(
            f"has texts in {', '.join([*codes][:12])}, and none in {source}, which the model translates from; choose a "
            "model for one of these, or correct the languages in the file."
        )
    notes = [xml.left_note(damaged, "with characters that XML forbids")] if damaged else []
    return out.finished(done, notes, unencodable=xml.UNENCODABLE)


def _is_empty(variant: Element) -> bool:
    """Whether a variant has a place for a text, and none in it."""
    segment = variant.child("seg")
    return segment is not None and not segment.content


def _fill(out: Rewriting, variant: Element, segment: Element, existing: Element | None, language: str) -> None:
    """Copy the text of a variant to one in the target language."""
    translated = xml.sentence(xml.pieces(segment, out.text, WHOLE), out.text)
    place = existing.child("seg") if existing else None
    if place:
        out.keep(place.start)
        out.write("<seg>")
    else:
        out.keep(variant.end)
        lang = "xml:lang" if "xml:lang" in out.text[variant.start : variant.inside] else "lang"
        out.write(f"{xml.indent(out.text, variant.start)}<tuv {lang}={xml.in_quotes(language)}><seg>")
    out.copy(segment.inside, segment.close, [translated] if translated else [])
    out.write("</seg>" if place else "</seg></tuv>")
    out.skip(place.end if place else variant.end)
