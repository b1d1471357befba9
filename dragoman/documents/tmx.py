"""Translation memories, TMX: a unit that lacks the target language gets a variant in it."""

from collections import Counter

from dragoman.documents import xml
from dragoman.documents.document import Document, FormatError, Segment, has_words
from dragoman.documents.review import Review, unknown
from dragoman.documents.rewriting import Rewriting
from dragoman.documents.xml import Element
from dragoman.formats.inline_codes import MARKUP
from dragoman.text.language_codes import Languages, is_written_alike, same_language


def read_tmx(text: str, languages: Languages, review: Review = unknown) -> Document:
    """The segments of a memory: copies of the source variants in units that have no text in the target language.

    Units whose translation is not to be trusted, by the `review`, stay without one.
    """
    source, target = languages
    if not source or not target:
        raise FormatError("names languages, and the model does not; choose them with --from and --to.")
    out, done, skipped = Rewriting(text), 0, Counter[str]()
    codes: dict[str, None] = {}  # of all languages, in order
    for unit in xml.parse(text).walk("tu"):
        variants = [*unit.walk("tuv")]
        codes |= dict.fromkeys(map(_language, variants))
        variant = _source_variant(variants, source)
        if not variant:
            continue
        segment = variant.child("seg")
        existing = [other for other in variants if same_language(_language(other), target)]
        if any(map(_text, existing)):
            done += 1
        elif xml.has_forbidden(text[segment.start : segment.end]):
            skipped["with characters that XML forbids"] += 1
        elif (segments := xml.segments(xml.pieces(segment, text, MARKUP), text)) is None:
            skipped[xml.CUT_SENTENCE] += 1
        elif not review(segments).is_untranslated:
            targets = [other.child("seg") for other in existing]
            _fill(out, variant, segments, next(filter(None, targets), None), target)
    if codes and not any(is_written_alike(code, source) for code in codes):
        named = ", ".join([*filter(None, codes)][:12]) or "no language that it names"
        raise FormatError(
            f"has texts in {named}, and none in {source}, which the model translates from; choose a model for one of "
            "these, or correct the languages in the file."
        )
    notes = [xml.skipped_note(count, reason) for reason, count in skipped.items()]
    return out.finished(done, notes, unencodable=xml.UNENCODABLE)


def _language(variant: Element) -> str:
    return variant.attributes.get("lang", "")


def _text(variant: Element) -> str:
    """The text of a variant without its codes, and without spaces around it."""
    segment = variant.child("seg")
    return segment.text_without(MARKUP).strip() if segment else ""


def _source_variant(variants: list[Element], source: str) -> Element | None:
    """The variant of a unit that is translated: one in the source language, else in another region's, with words."""
    candidates = [variant for variant in variants if is_written_alike(_language(variant), source)]
    candidates.sort(key=lambda variant: not same_language(_language(variant), source))
    return next((variant for variant in candidates if has_words([_text(variant)])), None)


def _fill(out: Rewriting, variant: Element, segments: list[Segment], target: Element | None, language: str) -> None:
    """Copy the text of a variant to the empty segment of the `target` language, or to a new variant for None."""
    source, prefix = variant.child("seg"), xml.prefix(variant, out.text)
    opening, closing = f"<{prefix}seg>", f"</{prefix}seg>"
    if not target:
        attribute = "xml:lang" if "xml:lang" in out.text[variant.start : variant.inside] else "lang"
        indent = xml.indent(out.text, variant.start)
        opening = f"{indent}<{prefix}tuv {attribute}={xml.in_quotes(language)}>{opening}"
        closing += f"</{prefix}tuv>"
    out.keep(target.start if target else variant.end)
    out.write(opening)
    out.copy(source.inside, source.close, segments)
    out.write(closing)
    out.skip(target.end if target else variant.end)
