"""Reads records with named fields, as in JSON and data sets, and finds the two fields that are source and target."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from dragoman.data.readers.tsv import NO_LANGUAGE
from dragoman.data.readers.types import Numbered, Pair, PairReader, ReaderOptions
from dragoman.errors import DataError
from dragoman.text.characters import one_line, well_formed
from dragoman.text.labels import label_of_target
from dragoman.text.language_codes import (
    ALSO_WORDS,
    CODE,
    TEXT_IN,
    TWO_LETTERS,
    Languages,
    choose_languages,
    language_of,
)

Record = Mapping[str, Any]
NAMED = [
    ("source", "target"), ("src", "tgt"), ("src", "trg"), ("source", "translation"), ("original", "translation"),
    ("text", "translation"), ("sentence1", "sentence2"), ("input", "output"),
]  # fmt: skip
KNOWN_NAMES = {name for names in NAMED for name in names} | TWO_LETTERS.keys() | set(TWO_LETTERS.values())
"""Names of columns, in small letters. A first row with some of them names the columns of a table."""
NESTED = "translation"
"""Name of a field that holds a text for each language, as in data sets for translation."""


class SideFields(NamedTuple):
    """The names of the source and target fields of a record."""

    source: str
    target: str
    nested: bool = False
    """Whether both are inside of the field `translation`."""
    languages: Languages = (None, None)

    def pair(self, record: Record) -> Pair | None:
        """The pair of a record, or None if a side is not a text. A side that is missing or null is empty."""
        texts = record.get(NESTED) if self.nested else record
        if not isinstance(texts, Mapping):
            return None
        source, target = texts.get(self.source), texts.get(self.target)
        source = "" if source is None else source
        target = "" if target is None else target
        if isinstance(source, str) and isinstance(target, str):
            return one_line(well_formed(source)), one_line(well_formed(target))
        return None


def sides_by_name(
    names: Collection[str], wanted: tuple[str, str] | None, where: str, *, languages: bool = False
) -> SideFields | None:
    """The names of the source and target column, and their languages; None if no two names tell them.

    With `languages`, all names are those of languages, even if they are not well known. Raises `DataError` if there are
    several languages, and those that are `wanted` are not among them; `where` begins its message.
    """
    lower = {TEXT_IN.sub("", name).casefold(): name for name in names}
    for source, target in NAMED:
        if source in lower and target in lower:
            return SideFields(lower[source], lower[target])
    codes = {code: name for name in names if (code := language_of(name))}
    if len(names) > 2 and not languages:
        for code in ALSO_WORDS.difference(wanted or ()):
            codes.pop(code, None)
    if len(codes) < 2 and (languages or wanted):
        codes = {name: name for name in names if CODE.fullmatch(name)}
    if len(codes) < 2:
        return None
    source, target = choose_languages(codes, wanted, where)
    return SideFields(codes[source], codes[target], languages=(source, target))


def find_fields(record: Record, options: ReaderOptions, where: str) -> SideFields:
    """The two fields of all records, by the names in the first one. Raises `DataError` if they are not clear."""
    nested = isinstance(record.get(NESTED), Mapping)
    fields = record[NESTED] if nested else record
    names = [name for name, value in fields.items() if value is None or isinstance(value, str)]
    sides: SideFields | None = None
    if options.columns:
        source, target = (_field(column, list(fields)) for column in options.columns)
        if source in names and target in names:
            sides = SideFields(source, target, languages=(language_of(source), language_of(target)))
    else:
        sides = sides_by_name(names, options.languages, where, languages=nested)
    if sides is None:
        listed = ", ".join(map(str, fields))
        example = ",".join(names[:2] if len(names) > 1 else ("en", "fr"))
        raise DataError(
            f"{where} has no two sides among its fields ({listed}); choose two texts, such as --columns {example}, or "
            "name them source and target, or by their languages."
        )
    return sides._replace(nested=nested, languages=options.languages or sides.languages)


def _field(column: int | str, names: list[str]) -> str:
    """The name of the field that the user chooses by name, in any case, or by number; if there is none, `column`."""
    if isinstance(column, int):
        return names[column - 1] if column <= len(names) else str(column)
    for name in names:
        if name.casefold() == column.casefold():
            return name
    return column


def record_reader(
    records: Callable[[], Iterator[tuple[int, Record]]], options: ReaderOptions, name: str, unit: str
) -> PairReader:
    """A reader of numbered records. There must be at least one, and the first one decides which fields are read."""
    number, first = next(records())
    fields = find_fields(first, options, f"{name}, {unit} {number}")
    languages = fields.languages
    language_field: str | None = None
    if options.language_column is not None:
        language_field = _field(options.language_column, list(first))
        languages = languages[0], None
        if language_field not in first:
            listed = ", ".join(map(str, first))
            raise DataError(f"{name} has no field {language_field}, but {listed}; give one of these.")

    def read() -> Iterator[Numbered]:
        for number, record in records():
            pair = fields.pair(record)
            if pair is None:
                raise DataError(
                    f"{name}, {unit} {number} has no text in `{fields.source}` and `{fields.target}`; "
                    "write every record like the first one."
                )
            if language_field is None:
                yield number, pair
                continue
            label = label_of_target(languages[0], str(record.get(language_field)))
            yield number, (label + pair[0], pair[1]) if label else NO_LANGUAGE

    return PairReader(read, languages, unit)
