"""Records with named fields, as JSON lines and data sets have them: which two fields are source and target."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from dragoman.data.readers.language_codes import CODE, choose_languages
from dragoman.data.readers.types import Pair
from dragoman.data.text import one_line, well_formed
from dragoman.errors import DataError

NAMED = (("source", "target"), ("src", "tgt"))
NESTED = "translation"
"""A field with a text for each language, as data sets for translation have it."""


class Sides(NamedTuple):
    """Where the two sides of a record are."""

    source: str
    target: str
    nested: bool
    """Inside the field `translation`."""
    languages: tuple[str, str] | None

    def pair(self, record: Mapping[str, Any]) -> Pair | None:
        """The pair of a record, or None if a side is no text; one that is missing or null is empty."""
        texts = record.get(NESTED) if self.nested else record
        if not isinstance(texts, Mapping):
            return None
        source, target = (texts.get(name) for name in (self.source, self.target))
        source, target = "" if source is None else source, "" if target is None else target
        if isinstance(source, str) and isinstance(target, str):
            return one_line(well_formed(source)), one_line(well_formed(target))
        return None


def find_sides(record: Mapping[str, Any], wanted: tuple[str, str] | None, where: str) -> Sides:
    """The sides of all records, by the names in the first one. Raises `DataError` if they are not clear."""
    if isinstance(record.get(NESTED), Mapping):
        source, target = choose_languages(record[NESTED], wanted, where)
        return Sides(source, target, True, wanted or (source, target))
    for source, target in NAMED:
        if source in record and target in record:
            return Sides(source, target, False, wanted)
    codes = [name for name, value in record.items() if isinstance(value, str) and CODE.fullmatch(name)]
    if len(codes) < 2:
        raise DataError(
            f"{where} has no two sides among its fields ({', '.join(map(str, record))}); name them source and "
            "target, src and tgt, or by their languages, such as en and fr."
        )
    source, target = choose_languages(codes, wanted, where)
    return Sides(source, target, False, wanted or (source, target))
