"""Translation memories that a server keeps: a file of SQLite with corrected pairs, which training reads."""

import difflib
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from dragoman.data.language_codes import choose_languages, same_language
from dragoman.data.readers.text_io import read_head
from dragoman.data.readers.types import Numbered, PairReader, ReaderOptions, Skipped
from dragoman.data.scripts import WORD
from dragoman.data.text import normalised, well_formed
from dragoman.errors import DataError, ResourceError

APPLICATION = 0x4452474D
"""What marks the file as a memory: "DRGM"."""
LEAST_SIMILAR = 0.6
MOST_COMPARED = 500
"""Characters of a text that is compared with entries: the time grows with their square."""
CANDIDATES = 30
"""Entries with words in common that are compared with a text."""
PATIENCE = 1.0
"""Seconds for which a call waits when another program, or thread, uses the file."""
PAGE = 500
"""Entries that are read at once."""
_SCHEMA = """
    CREATE TABLE IF NOT EXISTS pairs (
        number INTEGER PRIMARY KEY, source_language TEXT NOT NULL, target_language TEXT NOT NULL,
        source TEXT NOT NULL, target TEXT NOT NULL, who TEXT, at REAL NOT NULL,
        UNIQUE (source_language, target_language, source)
    );
    CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(source);
"""
_THIS = "source_language = ? AND target_language = ? AND source = ?"
_PART = re.compile(r"\w+|\s+|[^\w\s]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


Entry = tuple[str, str, str, str]
"""Languages of source and target, source and target."""


class Similar(NamedTuple):
    """An entry whose source is close to a text."""

    source: str
    target: str
    similarity: float
    """From 0 to 1; 1 is the same text."""
    difference: list[tuple[str, str]]
    """How `source` becomes the text: parts that are the "same", "removed" or "added"."""


class Memory:
    """A translation memory; threads may share it. What it keeps is on disk when a call returns.

    Calls raise `ResourceError` when the file cannot be read or written any more, also when another program has locked
    it for longer than `PATIENCE`.
    """

    def __init__(self, path: Path):
        """Opens a memory, or makes one. Raises `DataError` for another file."""
        try:
            self._writing, self._reading = _Connection(path), _Connection(path)
            with self._writing.taken() as connection:
                _prepare(connection, path)
        except sqlite3.Error as error:
            raise DataError(f"{path} cannot be a translation memory: {error}; choose another file.") from None

    def close(self) -> None:
        """Close the file."""
        self._reading.close()
        self._writing.close()

    def add(self, languages: tuple[str, str], source: str, target: str, who: str | None = None) -> None:
        """Keep a translation, in the place of an earlier one of the same text."""
        row = (*languages, _kept(source), _kept(target), who, time.time())
        with self._use(self._writing) as connection:
            connection.execute(f"DELETE FROM words WHERE rowid IN (SELECT number FROM pairs WHERE {_THIS})", row[:3])
            connection.execute(f"DELETE FROM pairs WHERE {_THIS}", row[:3])
            fields = "source_language, target_language, source, target, who, at"
            added = connection.execute(f"INSERT INTO pairs ({fields}) VALUES (?, ?, ?, ?, ?, ?)", row)
            words = " ".join(WORD.findall(row[2]))
            connection.execute("INSERT INTO words (rowid, source) VALUES (?, ?)", (added.lastrowid, words))

    def find(self, languages: tuple[str, str], source: str) -> str | None:
        """The translation of a text, if it is kept."""
        row = self._rows(f"SELECT target FROM pairs WHERE {_THIS}", (*languages, _kept(source)))
        return row[0][0] if row else None

    def similar(self, languages: tuple[str, str], source: str, most: int = 3, *, seconds: float = 1.0) -> list[Similar]:
        """The entries closest to a text, closest first; of those that can be compared in so many seconds."""
        until = time.monotonic() + seconds
        text = _kept(source)
        if len(text) > MOST_COMPARED:
            return []
        found = dict.fromkeys(word for word in WORD.findall(text) if word[0].isalnum())
        words = " OR ".join(f'"{word}"' for word in islice(found, 64))
        if not words:
            return []
        rows = self._rows(
            "SELECT pairs.source, target FROM words JOIN pairs ON pairs.number = words.rowid WHERE words MATCH ? "
            f"AND source_language = ? AND target_language = ? ORDER BY rank LIMIT {CANDIDATES}",
            (words, *languages),
        )
        rows = [row for row in rows if len(row[0]) <= 2 * MOST_COMPARED]
        compared = []
        for row in rows:
            if time.monotonic() < until:
                compared.append((_similarity(text, row[0]), row))
        close = sorted((each for each in compared if each[0] >= LEAST_SIMILAR), key=lambda each: -each[0])
        return [Similar(*row, similarity, difference(row[0], text)) for similarity, row in close[:most]]

    def languages(self) -> list[tuple[str, str]]:
        """The codes of the languages of source and target that entries have."""
        return self._rows("SELECT DISTINCT source_language, target_language FROM pairs", ())

    def pairs(self) -> Iterator[Entry]:
        """All entries in the order in which they came: languages, source and target. A part of them is in memory."""
        fields, last = "number, source_language, target_language, source, target", -1
        while rows := self._rows(f"SELECT {fields} FROM pairs WHERE number > ? ORDER BY number LIMIT {PAGE}", (last,)):
            last = rows[-1][0]
            yield from (row[1:] for row in rows)

    def _rows(self, question: str, values: tuple[object, ...]) -> list[tuple]:
        with self._use(self._reading) as connection:
            return connection.execute(question, values).fetchall()

    @contextmanager
    def _use(self, own: "_Connection") -> Iterator[sqlite3.Connection]:
        """A connection, for one thread at a time; what is written is kept all or not at all."""
        try:
            with own.taken() as connection, connection:
                yield connection
        except sqlite3.Error as error:
            raise ResourceError(f"The translation memory fails: {error}.") from None


class _Connection:
    """A connection that threads share one after another."""

    def __init__(self, path: Path):
        self._connection = sqlite3.connect(path, timeout=PATIENCE, check_same_thread=False)
        self._lock = threading.Lock()

    @contextmanager
    def taken(self) -> Iterator[sqlite3.Connection]:
        """The connection for the thread that has taken it."""
        if not self._lock.acquire(timeout=PATIENCE):
            raise sqlite3.OperationalError("it is busy")
        try:
            yield self._connection
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a memory, if it has none."""
    _check(connection, path)
    # With a log beside the file, nobody who reads it keeps others from writing, nor the other way round. Where the
    # file system does not allow for that, or a reader has the file at the moment, SQLite goes on without.
    with suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA journal_mode = WAL")
    # Copies of the file alone are to have what was kept: the log is copied into it after each change.
    connection.executescript(f"PRAGMA wal_autocheckpoint = 1; PRAGMA synchronous = FULL; {_SCHEMA}")
    ((application,),) = connection.execute("PRAGMA application_id")
    if application != APPLICATION:
        connection.execute(f"PRAGMA application_id = {APPLICATION}")


def _similarity(text: str, other: str) -> float:
    """From 0 to 1, how similar two texts are; 0 if they are less than `LEAST_SIMILAR`."""
    matcher = difflib.SequenceMatcher(None, text, other, autojunk=False)
    # Bounds that are quick to compute.
    if min(matcher.real_quick_ratio(), matcher.quick_ratio()) < LEAST_SIMILAR:
        return 0.0
    return matcher.ratio()


def difference(text: str, other: str) -> list[tuple[str, str]]:
    """How one text becomes the other, in words, or in characters where no spaces divide words."""
    cut = _PART.findall if " " in text + other else list
    parts, others = cut(text), cut(other)
    found = []
    for kind, start, end, other_start, other_end in difflib.SequenceMatcher(
        None, parts, others, autojunk=False
    ).get_opcodes():
        if start < end:
            found.append(("same" if kind == "equal" else "removed", "".join(parts[start:end])))
        if kind in ("insert", "replace"):
            found.append(("added", "".join(others[other_start:other_end])))
    return found


def _kept(text: str) -> str:
    """A text in its normal form, without what XML cannot contain."""
    return _CONTROL.sub("", normalised(well_formed(text)))


def is_memory(path: Path) -> bool:
    """Whether a file is one of SQLite."""
    return os.path.isfile(path) and read_head(path).startswith(b"SQLite format 3\0")


def open_memory(path: Path, options: ReaderOptions) -> PairReader:
    """A reader of a memory, for the languages of the options or the only two that it has."""
    question = "SELECT source_language, target_language, source, target FROM pairs ORDER BY number"

    def rows() -> Iterator[Entry]:
        try:
            with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
                _check(connection, path)
                yield from connection.execute(question)
        except sqlite3.Error as error:
            raise DataError(f"{path} cannot be read as a translation memory: {error}.") from None

    languages = choose_languages((code for row in rows() for code in row[:2]), options.languages, str(path))

    def read() -> Iterator[Numbered]:
        for number, (source_language, target_language, source, target) in enumerate(rows(), start=1):
            own = same_language(source_language, languages[0]) and same_language(target_language, languages[1])
            yield number, (source, target) if own else Skipped("in other languages")

    return PairReader(read, languages)


def _check(connection: sqlite3.Connection, path: Path) -> None:
    ((application,),) = connection.execute("PRAGMA application_id")
    ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master")
    if application != APPLICATION and tables:
        raise DataError(f"{path} is a database of another program, and no translation memory; choose another file.")


def as_tsv(entries: Iterable[Entry]) -> Iterator[str]:
    """Entries as lines of source, tab and target."""
    for *_, source, target in entries:
        yield "\t".join(re.sub(r"\s+", " ", text) for text in (source, target)) + "\n"


def as_tmx(entries: Iterable[Entry]) -> Iterator[str]:
    """Entries as TMX 1.4."""
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n<header creationtool="dragoman" '
    yield 'creationtoolversion="1" segtype="sentence" o-tmf="dragoman" adminlang="en" srclang="*all*" '
    yield 'datatype="plaintext"/>\n<body>\n'
    for *languages, source, target in entries:
        variants = zip(languages, (source, target), strict=True)
        yield "<tu>" + "".join(f'<tuv xml:lang="{code}"><seg>{escape(text)}</seg></tuv>' for code, text in variants)
        yield "</tu>\n"
    yield "</body>\n</tmx>\n"


WRITERS: dict[str, Callable[[Iterable[Entry]], Iterator[str]]] = {"tsv": as_tsv, "tmx": as_tmx}
"""Ways to write the entries of a memory, by the end of a file name."""
