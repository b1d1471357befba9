"""Reads tables of text, .tsv and .csv.

A sample of its rows decides, once for all rows of a file, which columns hold the sides, whether fields are quoted and
whether the first row names the columns.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from dragoman.data.readers.fields import KNOWN_NAMES, sides_by_name
from dragoman.data.readers.jsonl import open_json
from dragoman.data.readers.tsv import Columns, pairs_of_rows, read_tsv
from dragoman.data.readers.types import Numbered, PairReader, ReaderOptions
from dragoman.errors import DataError
from dragoman.formats.text_files import MAX_LINE, open_input, read_file, unpacking_errors
from dragoman.text.characters import one_line
from dragoman.text.language_codes import TEXT_IN, Languages, are_exchanged, language_of, languages_named

BLOCK, FARTHEST = 1 << 16, 1 << 26
"""A sample has blocks of `BLOCK` bytes: the first, and one wherever the distance doubles, up to `FARTHEST` bytes."""
DELIMITERS = "\t|;,"
"""Characters that may separate the columns of a .csv file, the rarest in text first."""
NO_TEXT = re.compile(
    r"[\W\d_]*|\S*\d\S*|\w*_\w*|(https?://|www\.)\S+|[\w-]+(\.[\w-]+)+|.*(CC[ -]BY|CC0|tatoeba\.org|[Ll]icen[cs]e|©).*"
)
"""Values that are no text: numbers, ids, keys, addresses, attributions."""
MOSTLY = 0.9
"""A column holds no text if this share of its values is no text."""
REPEATED = 0.05
"""A column holds labels if its different values are at most this share of all."""
FEW = 4
"""From this many rows on, a column with one and the same value in all of them holds no text."""
OFTEN = 0.1
"""If more than this share of the rows have more columns than usual, the additional ones are remarks, not mistakes."""
NOTHING, NUMBERS, SAME, LABELS, TEXT = range(5)
"""Kinds of columns, the least like text first: no values, no text, always the same, few values that repeat, text."""
MAX_SHOWN = 200
"""Most characters of a list of columns in a message."""

_PAIR = re.compile("(?<![A-Za-z0-9])([A-Za-z]{2,3})-([A-Za-z]{2,3})(?![A-Za-z0-9])")
_QUOTED = re.compile('"(?:[^"]|"")*"')
_WORD = re.compile(r"[^\W\d_]{1,12}([-_][^\W_]{1,8})?")
_AROUND_NAME = re.compile(rf"{TEXT_IN.pattern}|[-_]\w{{2,8}}$", re.IGNORECASE)
_SEPARATOR = re.compile("sep=(.)")
"""The first line of a .csv file for Excel, which names the character that separates its columns."""
_JSON = re.compile(r'\s*(\[\s*)?\{\s*"')
csv.field_size_limit(MAX_LINE)


def open_table(path: Path, options: ReaderOptions) -> PairReader:
    """A reader of tab-separated text. A file that begins like JSON is read as JSON."""
    sample = Sample(path, options)
    if _JSON.match("".join(sample.lines[:4])) and "\t" not in sample.lines[0].strip():
        return open_json(path, options)
    return _reader(sample, "\t", quoted=sample.is_quoted())


def open_csv(path: Path, options: ReaderOptions) -> PairReader:
    """A reader of comma-separated text, which may have semicolons, tabs or bars in place of commas."""
    sample = Sample(path, options)
    separator = _SEPARATOR.fullmatch(sample.lines[0])
    if separator and len(sample.lines) > 1:
        sample.lines = sample.lines[1:]
        return _reader(sample, separator[1], quoted=True)
    best = max(DELIMITERS, key=lambda delimiter: sample.split(delimiter, quoted=True))
    return _reader(sample, best, quoted=True)


def _reader(sample: "Sample", delimiter: str, *, quoted: bool) -> PairReader:
    """A reader of the file of a sample, whose name may tell the languages: pairs.en-fr.tsv."""
    path, options = sample.path, sample.options
    sample.split(delimiter, quoted=quoted)
    columns, languages = sample.columns()
    if not any(languages):
        languages = _languages_in_name(path.name)
    if are_exchanged(languages, options.languages) and not options.columns:
        columns = columns._replace(source=columns.target, target=columns.source)
    languages = options.languages or languages
    if options.language_column:
        language = sample.index(options.language_column, "one of {}")
        columns = columns._replace(language=language, source_language=languages[0])
        languages = languages[0], None

    def read() -> Iterator[Numbered]:
        if quoted:
            return pairs_of_rows(_csv_rows(path, delimiter, options.replace_bad_bytes), columns, f"{path}, line")
        return read_tsv(path, columns, options.replace_bad_bytes)

    return PairReader(read, languages, remark=sample.remark(columns))


def _languages_in_name(name: str) -> Languages:
    """The languages in the name of a file, such as pairs.en-fr.tsv."""
    match = _PAIR.search(name)
    if match is None:
        return None, None
    source, target = match.groups()
    # `my-tm` is no Burmese, and `swg-deu` is Swabian and German.
    if (language_of(source) and language_of(target)) or len(source) == len(target) == 3:
        return languages_named(source, target)
    return None, None


def _csv_rows(path: Path, delimiter: str, replace: bool) -> Iterator[tuple[int, list[str]]]:
    """The line on which each row begins, and its fields."""
    # A quoted field may hold line ends.
    lines = read_file(path, replace=replace)
    first = next(lines)
    lines = chain(["" if _SEPARATOR.fullmatch(first) else first], lines)
    rows = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
    line = 0
    try:
        for row in rows:
            yield line + 1, [one_line(field) for field in row]
            line = rows.line_num
    except csv.Error as error:
        remedy = 'write a field with quotation marks as "She said ""no""."'
        raise DataError(f"{path}, line {line + 1} is not CSV ({error}); {remedy}") from None


class Sample:
    """Lines from the beginning of a file and from positions farther on; `split` makes rows of them."""

    def __init__(self, path: Path, options: ReaderOptions):
        self.path, self.options = path, options
        self.lines: list[str] = []
        next(read_file(path, replace=True))  # refuses what is no text
        try:
            with open_input(path) as stream:
                position = 0
                while position <= FARTHEST and stream.seek(position) == position and (block := stream.read(BLOCK)):
                    lines = block.decode("utf-8-sig", "replace").replace("\r", "").split("\n")
                    # The first line of a later block and the last of a full one are cut off.
                    self.lines += filter(str.strip, lines[position > 0 : -1 if len(block) == BLOCK else None])
                    position = 2 * position or BLOCK
        except unpacking_errors():
            pass  # which a pass over the file reports with the line
        self.lines = self.lines or [""]

    def is_quoted(self) -> bool:
        """Whether quotation marks around tab-separated fields are those of CSV, and no text.

        They are if marks inside of fields are doubled, or if just the fields with commas, or all of them, are quoted.
        """
        fields = [field for line in self.lines for field in line.split("\t")]
        quoted = [field for field in fields if field[:1] == '"' and _QUOTED.fullmatch(field)]
        stray = sum('"' in field for field in fields) - len(quoted)
        doubled = sum('""' in field[1:-1] for field in quoted)
        if doubled or stray or len(quoted) < 4:
            return doubled > stray
        plain = [field for field in fields if field[:1] != '"' and not NO_TEXT.fullmatch(field)]
        return not plain or (all("," in field for field in quoted) and not any("," in field for field in plain))

    def split(self, delimiter: str, *, quoted: bool) -> int:
        """Make rows of the lines. Returns how many have the usual number of columns, if that is two or more."""
        rows = csv.reader(self.lines, delimiter=delimiter) if quoted else (line.split(delimiter) for line in self.lines)
        self.rows = list(rows)
        self.names = [name.strip() for name in self.rows[0]]
        widths = Counter(map(len, self.rows))
        # Of two numbers of columns that are equally frequent, the smaller.
        self.width = min(widths, key=lambda width: (-widths[width], width))
        self.share_longer = sum(count for width, count in widths.items() if width > self.width) / len(self.rows)
        return widths[self.width] if self.width > 1 else 0

    def columns(self) -> tuple[Columns, Languages]:
        """The columns that hold the sides, and their languages if the first row names them."""
        names, width, wanted = self.names, self.width, self.options.columns
        kinds = [self._kind(index) for index in range(width)]
        if self.options.language_column:
            kinds[self.index(self.options.language_column, "one of {}")] = SAME
        texts = [name for name, kind in zip(names, kinds, strict=False) if kind in (TEXT, NOTHING)]
        codes = self._codes(texts)
        named = self._has_names(kinds, texts, codes)
        source, target = 0, 1
        if width > 2:
            source, target = sorted(sorted(range(width), key=lambda index: -kinds[index])[:2])
        if wanted and width > 1:
            source, target = map(self.index, wanted)
            named = named or any(isinstance(column, str) for column in wanted)
        elif named and (sides := sides_by_name(texts, self.options.languages, str(self.path))):
            source, target = names.index(sides.source), names.index(sides.target)
        elif width > 2 and min(kinds[source], kinds[target]) < LABELS:
            raise DataError(f"{self.path} has {width} columns, but no two of text; choose two, such as --columns 1,2.")
        languages: Languages = (None, None)
        if codes and [names[source], names[target]] == texts:
            languages = codes
        elif named:
            languages = language_of(names[source]), language_of(names[target])
        more = width == 1 or (self.share_longer > OFTEN and (source, target) == (0, 1))
        return Columns(source, target, width, more, named), languages

    def _has_names(self, kinds: list[int], texts: list[str], codes: Languages | None) -> bool:
        """Whether the first row names the columns: `texts` those of text, whose languages `codes` may be."""
        if isinstance(self.options.language_column, str):
            return True
        if len(self.names) != self.width:
            return False
        if codes is not None or sum(_AROUND_NAME.sub("", name).casefold() in KNOWN_NAMES for name in texts) > 1:
            return True
        # A word above numbers is a name, too.
        above_numbers = [name for name, kind in zip(self.names, kinds, strict=True) if kind == NUMBERS]
        return self.width > 2 and not all(map(NO_TEXT.fullmatch, above_numbers))

    def remark(self, columns: Columns) -> str:
        """A warning if there are more columns of text than two, and the user has not chosen any; else nothing."""
        texts = [index for index in range(self.width) if self._kind(index) == TEXT]
        if len(texts) < 3 or self.options.columns:
            return ""
        return (
            f"has {len(texts)} columns of text; columns {columns.source + 1} and {columns.target + 1} are read as "
            "source and target. Choose others with --columns."
        )

    def _codes(self, names: list[str]) -> Languages | None:
        """The languages, even little known ones, that the first row names above two columns of sentences; or None.

        Such names are "eng" and "luo", or "English" and "Luo". Above single words, they may be words themselves.
        """
        if len(names) != 2 or not all(map(_WORD.fullmatch, names)):
            return None
        values = [field for row in self.rows[1:] if len(row) >= self.width for field in row if field.strip()]
        sentences = sum(not _WORD.fullmatch(value.strip()) for value in values)
        if not values or sentences < MOSTLY * len(values):
            return None
        codes = languages_named(*names)
        if all(codes):
            return codes
        spelled = any(language_of(name) and len(name) > 3 for name in names)
        return (language_of(names[0]), language_of(names[1])) if spelled else None

    def _kind(self, index: int) -> int:
        """The kind of a column, by its values."""
        rows = self.rows[1:] if len(self.rows) > 2 else self.rows  # the first may be names
        values = [row[index] for row in rows if len(row) >= self.width and row[index].strip()]
        if sum(map(bool, map(NO_TEXT.fullmatch, values))) >= MOSTLY * len(values):
            return NUMBERS if values else NOTHING
        if len(values) >= FEW and len(set(values)) == 1:
            return SAME  # such as the code of the language
        return LABELS if len(values) > 1 and len(set(values)) <= max(1, REPEATED * len(values)) else TEXT

    def index(self, column: int | str, remedy: str = "two of {} as --columns") -> int:
        """The index of a column that the user chooses by its name or number."""
        choices: list[int | str] = list(range(1, self.width + 1))
        if isinstance(column, str) and len(self.names) == self.width:
            choices, column = [name.casefold() for name in self.names], column.casefold()
        if column not in choices:
            listed = ", ".join(map(str, choices))[:MAX_SHOWN]
            raise DataError(f"{self.path} has no column {column}; give {remedy.format(listed)}.")
        return choices.index(column)
