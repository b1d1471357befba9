"""Records with named fields, as JSON lines and data sets have them: which two fields are source and target."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from dragoman.data.readers.language_codes import CODE, choose_languages
from dragoman.data.readers.types import Numbered, Pair, PairReader, ReaderOptions
from dragoman.data.text import one_line, well_formed
from dragoman.errors import DataError

Record = Mapping[str, Any]
NAMED = (("source", "target"), ("src", "tgt"))
NESTED = "translation"
"""A field with a text for each language, as data sets for translation have it."""


class SideFields(NamedTuple):
    """The names of the source and target fields of a record."""

    source: str
    target: str
    nested: bool
    """Whether they are inside the field `translation`."""
    languages: tuple[str, str] | None

    def pair(self, record: Record) -> Pair | None:
        """The pair of a record, or None if a side is not a text. A side that is missing or null is empty."""
        texts = record.get(NESTED) if self.nested else record
        if not isinstance(texts, Mapping):
            return None
        source, target = ("" if texts.get(name) is None else texts[name] for name in (self.source, self.target))
        if isinstance(source, str) and isinstance(target, str):
            return one_line(well_formed(source)), one_line(well_formed(target))
        return None


def find_fields(record: Record, wanted: tuple[str, str] | None, where: str) -> SideFields:
    """The two fields of all records, by the names in the first one. Raises `DataError` if they are not clear."""
    nested = isinstance(record.get(NESTED), Mapping)
    for source, target in () if nested else NAMED:
        if source in record and target in record:
            return SideFields(source, target, False, wanted)
    texts = [name for name, value in record.items() if isinstance(value, str)]
    codes = list(record[NESTED]) if nested else list(filter(CODE.fullmatch, texts))
    if len(codes) < 2 and not nested:
        raise DataError(
            f"{where} has no two sides among its fields ({', '.join(map(str, record))}); name them source and "
            "target, src and tgt, or by their languages, such as en and fr."
        )
    source, target = choose_languages(codes, wanted, where)
    return SideFields(source, target, nested, wanted or (source, target))


def record_reader(
    records: Callable[[], Iterator[tuple[int, Record]]], options: ReaderOptions, name: str, unit: str
) -> PairReader:
    """A reader of numbered records. There must be at least one, and the first one decides which fields are read."""
    number, first = next(records())
    fields = find_fields(first, options.languages, f"{name}, {unit} {number}")

    def read() -> Iterator[Numbered]:
        for number, record in records():
            pair = fields.pair(record)
            if pair is None:
                raise DataError(
                    f"{name}, {unit} {number} has no text in `{fields.source}` and `{fields.target}`; "
                    "write every record like the first one."
                )
            yield number, pair

    return PairReader(read, fields.languages or (None, None), unit)
