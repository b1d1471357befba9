"""Translation memories that a server keeps: a file of SQLite with corrected pairs, which training reads."""

import difflib
import json
import logging
import os
import re
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from dragoman.errors import DataError, ResourceError
from dragoman.formats.text_files import read_head
from dragoman.system.locks import holders
from dragoman.text.characters import normalised, well_formed
from dragoman.text.scripts import WORD

APPLICATION = 0x4452474D
"""What marks the file as a memory: "DRGM"."""
LEAST_SIMILAR = 0.6
MOST_COMPARED = 500
"""Characters of a text that is compared with entries: the time grows with their square."""
CANDIDATES = 30
"""Entries with words in common that are compared with a text."""
PATIENCE = 1.0
"""Seconds for which a call waits when another program, or thread, uses the file."""
OPENING = 10.0
"""The same for opening the file, for which nobody waits."""
PAGE = 500
"""Entries that are read at once."""
_SCHEMA = """
    CREATE TABLE IF NOT EXISTS pairs (
        number INTEGER PRIMARY KEY, source_language TEXT NOT NULL, target_language TEXT NOT NULL,
        source TEXT NOT NULL, target TEXT NOT NULL, who TEXT, at REAL NOT NULL, mark TEXT,
        UNIQUE (source_language, target_language, source)
    );
    CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(source);
"""
_THIS = "source_language = ? AND target_language = ? AND source = ?"
_FIELDS = "pairs.source_language, pairs.target_language, pairs.source, pairs.target, pairs.mark"
OUT_OF_ORDER = "its entries are out of order, as in a damaged file"
FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises, the second where a damaged file has names that are no text."""
LOG = logging.getLogger("dragoman.memory")
_PART = re.compile(r"\w+|\s+|[^\w\s]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


class Entry(NamedTuple):
    """A translation that is kept."""

    source_language: str
    target_language: str
    source: str
    target: str


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
        self._path, self._has_told = path, False
        try:
            self._writing, self._reading = _Connection(path), _Connection(path)
            with self._writing.taken() as connection:
                _prepare(connection, path)
            for each in (self._writing, self._reading):
                with each.taken() as connection:  # clients wait now
                    connection.execute(f"PRAGMA busy_timeout = {round(1000 * PATIENCE)}")
        except FAILURES as error:
            raise _lacking(error, path) or DataError(
                f"{path} cannot be a translation memory: {error}; choose another file."
            ) from None

    def close(self) -> None:
        """Close the file."""
        self._reading.close()
        self._writing.close()

    def add(self, languages: tuple[str, str], source: str, target: str, who: str | None = None) -> None:
        """Keep a translation, in the place of an earlier one of the same text."""
        if not self._path.exists():
            raise ResourceError("The translation memory was deleted, so nothing is kept; start the server again.")
        entry = (*languages, _kept(source), _kept(target))
        row = (*entry, who, time.time(), _mark(entry))
        with self._use(self._writing) as connection:
            connection.execute(f"DELETE FROM words WHERE rowid IN (SELECT number FROM pairs WHERE {_THIS})", row[:3])
            connection.execute(f"DELETE FROM pairs WHERE {_THIS}", row[:3])
            fields = "source_language, target_language, source, target, who, at, mark"
            added = connection.execute(f"INSERT INTO pairs ({fields}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            words = " ".join(WORD.findall(row[2]))
            connection.execute("INSERT INTO words (rowid, source) VALUES (?, ?)", (added.lastrowid, words))

    def find(self, languages: tuple[str, str], source: str) -> str | None:
        """The translation of a text, if it is kept."""
        wanted = (*languages, _kept(source))
        entries = self._entries(self._rows(f"SELECT {_FIELDS} FROM pairs WHERE {_THIS}", wanted))
        # An index that is damaged may lead to another entry.
        return next((entry.target for entry in entries if entry[:3] == wanted), None)

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
            f"SELECT {_FIELDS} FROM words JOIN pairs ON pairs.number = words.rowid WHERE words MATCH ? "
            f"AND source_language = ? AND target_language = ? ORDER BY rank LIMIT {CANDIDATES}",
            (words, *languages),
        )
        compared = []
        for entry in self._entries(rows):
            if len(entry.source) <= 2 * MOST_COMPARED and time.monotonic() < until:
                compared.append((_similarity(text, entry.source), entry))
        close = sorted((pair for pair in compared if pair[0] >= LEAST_SIMILAR), key=lambda pair: -pair[0])
        return [
            Similar(entry.source, entry.target, similarity, difference(entry.source, text))
            for similarity, entry in close[:most]
        ]

    def languages(self) -> list[tuple[str, str]]:
        """The codes of the languages of source and target that entries have."""
        return self._rows("SELECT DISTINCT source_language, target_language FROM pairs", ())

    def pairs(self) -> Iterator[Entry]:
        """All entries in the order in which they came: languages, source and target. A part of them is in memory."""
        fields, last = f"number, {_FIELDS}", -1
        while rows := self._rows(f"SELECT {fields} FROM pairs WHERE number > ? ORDER BY number LIMIT {PAGE}", (last,)):
            yield from self._entries(row[1:] for row in rows)
            if not _follows(rows[-1][0], last):
                raise ResourceError(f"The translation memory fails: {OUT_OF_ORDER}.")
            last = rows[-1][0]

    def _entries(self, rows: Iterable[tuple[object, ...]]) -> Iterator[Entry]:
        """The entries of rows; one that is not what was written is left out, and said once."""
        for row in rows:
            if entry := _entry(row, is_marked=True):
                yield entry
            elif not self._has_told:
                self._has_told = True
                LOG.warning("The translation memory is damaged: some of its entries are left out.")

    def _rows(self, question: str, values: tuple[object, ...]) -> list[tuple]:
        with self._use(self._reading) as connection:
            return connection.execute(question, values).fetchall()

    @contextmanager
    def _use(self, own: "_Connection") -> Iterator[sqlite3.Connection]:
        """A connection, for one thread at a time; what is written is kept all or not at all."""
        try:
            with own.taken() as connection, connection:
                yield connection
        except FAILURES as error:
            # Clients are told, whom the path does not concern.
            raise _lacking(error, self._path, "The translation memory") or ResourceError(
                f"The translation memory fails: {error}."
            ) from None


class _Connection:
    """A connection that threads share one after another."""

    def __init__(self, path: Path):
        self._connection = _readable(sqlite3.connect(path, timeout=OPENING, check_same_thread=False))
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


def _lacking(error: Exception, path: Path, shown: str | None = None) -> ResourceError | None:
    """What is to be said when the machine or another program, and not the file, keeps SQLite from its work.

    `shown` is the name of the file in the message, its path if there is none.
    """
    shown = shown or str(path)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        found = holders(path, *(path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal")))
        who = f"process {found[0]}" if found else "another program"
        return ResourceError(f"{shown} is in use by {who}; wait until that is done, or end it, and try again.")
    if code == sqlite3.SQLITE_FULL:
        return ResourceError(f"{shown} cannot be written: its disk is full; make room and try again.")
    return None


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
    if not _is_marked(connection):
        with connection:
            connection.execute("ALTER TABLE pairs ADD COLUMN mark TEXT")
            rows = connection.execute(f"SELECT number, {_FIELDS} FROM pairs").fetchall()
            marks = [(_mark(entry), number) for number, *row in rows if (entry := _entry(row, is_marked=False))]
            connection.executemany("UPDATE pairs SET mark = ? WHERE number = ?", marks)


def _is_marked(connection: sqlite3.Connection) -> bool:
    """Whether entries have checksums; memories of older versions have none."""
    return any(name == "mark" for _, name, *_ in connection.execute("PRAGMA table_info(pairs)"))


def _follows(number: object, last: int) -> bool:
    """Whether an entry comes after another one, as it does unless the file is damaged."""
    return isinstance(number, int) and number > last


def _readable(connection: sqlite3.Connection) -> sqlite3.Connection:
    """The connection, for which text that is not UTF-8 is text of which one sees that it is damaged."""
    connection.text_factory = lambda content: content.decode(errors="replace")
    return connection


def _mark(entry: Iterable[str]) -> str:
    """The checksum of an entry. It finds damage, not malice."""
    return f"{zlib.crc32(json.dumps([*entry]).encode()):08x}"


def _entry(row: Sequence[object], *, is_marked: bool) -> Entry | None:
    """The entry of a row, or None for a row that is not what was written."""
    *columns, mark = row
    texts = [column for column in columns if isinstance(column, str)]
    if len(texts) < len(columns) or (is_marked and mark != _mark(texts)):
        return None
    return Entry(*texts)


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


def stored_entries(path: Path) -> Iterator[Entry | None]:
    """The entries of a memory that is not changed; None for each that is damaged. Raises `DataError`."""
    try:
        address = f"{path.absolute().as_uri()}?mode=ro"
        with closing(_readable(sqlite3.connect(address, timeout=OPENING, uri=True))) as connection:
            _check(connection, path)
            is_marked = _is_marked(connection)
            fields = _FIELDS if is_marked else _FIELDS.replace("pairs.mark", "NULL")
            last = -1
            for number, *row in connection.execute(f"SELECT number, {fields} FROM pairs ORDER BY number"):
                if not _follows(number, last):
                    raise sqlite3.DatabaseError(OUT_OF_ORDER)
                last = number
                yield _entry(row, is_marked=is_marked)
    except FAILURES as error:
        raise _lacking(error, path) or DataError(f"{path} cannot be read as a translation memory: {error}.") from None


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
