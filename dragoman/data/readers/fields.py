"""Records with named fields, as JSON, data sets and tables have them: which two fields are source and target."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from dragoman.data.readers.tsv import NO_LANGUAGE
from dragoman.data.readers.types import Numbered, Pair, PairReader, ReaderOptions
from dragoman.errors import DataError
from dragoman.text.characters import one_line, well_formed
from dragoman.text.labels import label_of_target
from dragoman.text.language_codes import CODE, TEXT_IN, TWO_LETTERS, Languages, choose_languages, language_of

Record = Mapping[str, Any]
NAMED = [
    ("source", "target"), ("src", "tgt"), ("src", "trg"), ("source", "translation"), ("original", "translation"),
    ("text", "translation"), ("sentence1", "sentence2"), ("input", "output"),
]  # fmt: skip
KNOWN_NAMES = {name for names in NAMED for name in names} | TWO_LETTERS.keys() | set(TWO_LETTERS.values())
"""Names, in small letters, by which the first row of a table is known to name the columns."""
NESTED = "translation"
"""A field with a text for each language, as data sets for translation have it."""


class SideFields(NamedTuple):
    """The names of the source and target fields of a record."""

    source: str
    target: str
    nested: bool
    """Whether they are inside the field `translation`."""
    languages: Languages

    def pair(self, record: Record) -> Pair | None:
        """The pair of a record, or None if a side is not a text. A side that is missing or null is empty."""
        texts = record.get(NESTED) if self.nested else record
        if not isinstance(texts, Mapping):
            return None
        source, target = ("" if texts.get(name) is None else texts[name] for name in (self.source, self.target))
        if isinstance(source, str) and isinstance(target, str):
            return one_line(well_formed(source)), one_line(well_formed(target))
        return None


def sides_by_name(
    names: Collection[str], wanted: tuple[str, str] | None, where: str, *, languages: bool = False
) -> tuple[str, str, Languages] | None:
    """The names of the source and target column, and their languages; None if no two names tell them.

    With `languages`, all names are those of languages, even if they are not well known.

    Raises `DataError` if they name several languages, and those that are `wanted` are not among them.
    """
    lower = {TEXT_IN.sub("", name).casefold(): name for name in names}
    for source, target in NAMED:
        if source in lower and target in lower:
            return lower[source], lower[target], (None, None)
    codes = {code: name for name in names if (code := language_of(name))}
    if len(names) > 2 and not (languages or "id" in (wanted or ())):
        codes.pop("id", None)  # Indonesian, or an id
    if len(codes) < 2 and (languages or wanted):
        codes = {name: name for name in names if CODE.fullmatch(name)}
    if len(codes) < 2:
        return None
    source, target = choose_languages(codes, wanted, where)
    return codes[source], codes[target], (source, target)


def find_fields(record: Record, options: ReaderOptions, where: str) -> SideFields:
    """The two fields of all records, by the names in the first one. Raises `DataError` if they are not clear."""
    nested = isinstance(record.get(NESTED), Mapping)
    fields = record[NESTED] if nested else record
    names = [name for name, value in fields.items() if value is None or isinstance(value, str)]
    if options.columns:
        source, target = (_field(column, list(fields)) for column in options.columns)
        found = (source, target, (language_of(source), language_of(target))) if {source, target} <= {*names} else None
    else:
        found = sides_by_name(names, options.languages, where, languages=nested)
    if found is None:
        listed, example = ", ".join(map(str, fields)), ",".join(names[:2] if len(names) > 1 else ("en", "fr"))
        raise DataError(
            f"{where} has no two sides among its fields ({listed}); choose two texts, such as --columns {example}, or "
            "name them source and target, or by their languages."
        )
    source, target, languages = found
    return SideFields(source, target, nested, options.languages or languages)


def _field(column: int | str, names: list[str]) -> str:
    """The name of a field that the user chooses by its name, in any case, or by its number."""
    if isinstance(column, int):
        return names[column - 1] if column <= len(names) else str(column)
    return next((name for name in names if name.casefold() == column.casefold()), column)


def record_reader(
    records: Callable[[], Iterator[tuple[int, Record]]], options: ReaderOptions, name: str, unit: str
) -> PairReader:
    """A reader of numbered records. There must be at least one, and the first one decides which fields are read."""
    number, first = next(records())
    fields = find_fields(first, options, f"{name}, {unit} {number}")
    column, languages = options.language_column, fields.languages
    if column is not None:
        column, languages = _field(column, list(first)), (languages[0], None)
        if column not in first:
            raise DataError(f"{name} has no field {column}, but {', '.join(map(str, first))}; give one of these.")

    def read() -> Iterator[Numbered]:
        for number, record in records():
            pair = fields.pair(record)
            if pair is None:
                raise DataError(
                    f"{name}, {unit} {number} has no text in `{fields.source}` and `{fields.target}`; "
                    "write every record like the first one."
                )
            if column is None:
                yield number, pair
                continue
            found = label_of_target(languages[0], str(record.get(column)))
            yield number, (found + pair[0], pair[1]) if found else NO_LANGUAGE

    return PairReader(read, languages, unit)
