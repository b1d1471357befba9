"""Translation memories: SQLite files in which a server keeps corrected translations, and which training reads."""

import difflib
import json
import logging
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import accumulate, combinations, islice
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from dragoman.errors import DataError, ResourceError
from dragoman.formats.text_files import read_head
from dragoman.system.atomic import real_path
from dragoman.system.locks import holders
from dragoman.system.seals import checksum
from dragoman.text.characters import normalised, well_formed
from dragoman.text.scripts import WORD

APPLICATION = 0x4452474D
"""SQLite's `application_id` of a memory: "DRGM"."""
LEAST_SIMILAR = 0.6
"""Similarity from which an entry counts as close to a text."""
MOST_COMPARED = 500
"""Most characters of a text that is compared with entries: the time grows with their square."""
CANDIDATES = 30
"""Most entries, of those with words in common, that a text is compared with."""
MOST_MET = 500
"""Most entries, about, that have the rarest words of a text and are looked at to find these."""
FEW_WORDS = 3
"""Words of a text by which entries are found if all of its words are frequent."""
MOST_COUNTED = 50_000
"""Most words whose number of entries is kept."""
PATIENCE = 1.0
"""Seconds for which a call waits while another program, or thread, uses the file."""
OPENING = 10.0
"""Seconds for which opening the file waits: no client waits for it."""
ADDED_AT_ONCE = 10_000
"""Pairs that are written together."""
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
_SAME_SOURCE = "source_language = ? AND target_language = ? AND source = ?"
_FIELDS = "pairs.source_language, pairs.target_language, pairs.source, pairs.target, pairs.mark"
OUT_OF_ORDER = "its entries are out of order, as in a damaged file"
FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""Errors of SQLite. The second one comes from names in a damaged file that are not UTF-8."""
LOG = logging.getLogger("dragoman.memory")
_PART = re.compile(r"\w+|\s+|[^\w\s]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


class Entry(NamedTuple):
    """A translation in a memory."""

    source_language: str
    target_language: str
    source: str
    target: str


class Similar(NamedTuple):
    """An entry whose source is similar to a text."""

    source: str
    target: str
    similarity: float
    """Similarity from 0 to 1; 1 is the same text."""
    difference: list[tuple[str, str]]
    """(kind, part) pairs that turn `source` into the text; kinds are "same", "removed" and "added"."""


class Memory:
    """A translation memory that threads may share. What is added is on disk when the call returns.

    Calls raise `ResourceError` if the file cannot be read or written any more, or if another program has locked it for
    longer than `PATIENCE`.
    """

    def __init__(self, path: Path, *, read_only: bool = False):
        """Open a memory, or make one. Raises `DataError` if the file is something else.

        One that is `read_only` is there already, and nothing is written into its file.
        """
        self._path = path
        self._has_warned = False
        self._numbers: dict[str, int] = {}
        """How many entries have a word, for words that were looked up."""
        try:
            self._writing, self._reading = (_Connection(path, read_only=read_only) for _ in range(2))
            with self._writing.taken() as connection:
                if read_only:
                    _check_readable(connection, path)
                else:
                    _prepare(connection, path)
            for shared in (self._writing, self._reading):
                with shared.taken() as connection:  # from now on, clients wait
                    connection.execute(f"PRAGMA busy_timeout = {round(1000 * PATIENCE)}")
        except FAILURES as error:
            raise _resource_error(error, path) or DataError(
                f"{path} cannot be a translation memory: {error}; choose another file."
            ) from None

    def close(self) -> None:
        """Close the file."""
        self._reading.close()
        self._writing.close()

    def add(self, languages: tuple[str, str], source: str, target: str, who: str | None = None) -> None:
        """Add a translation, which replaces an earlier one of the same text; `who` made it.

        Raises `DataError` if nothing of a side is left without control characters.
        """
        if not self._path.exists():
            raise ResourceError("The translation memory was deleted, so nothing is kept; start the server again.")
        entry = (*languages, _clean(source), _clean(target))
        if not entry[2].strip() or not entry[3].strip():
            raise DataError("A translation memory keeps no blank texts; give a text and its translation.")
        row = (*entry, who, time.time(), _mark(entry))
        key = entry[:3]
        with self._use(self._writing) as connection:
            same = f"SELECT number FROM pairs WHERE {_SAME_SOURCE}"
            connection.execute(f"DELETE FROM words WHERE rowid IN ({same})", key)
            connection.execute(f"DELETE FROM pairs WHERE {_SAME_SOURCE}", key)
            self._insert(connection, row)

    def add_all(
        self,
        languages: tuple[str, str],
        pairs: Iterable[tuple[str, str]],
        *,
        progress: Callable[[int], None] = lambda number: None,
    ) -> int:
        """Add pairs whose sources have no entry yet; returns how many. An error leaves whole blocks of them added.

        `progress` is called with numbers of pairs that were looked at.
        """
        added = 0
        remaining = iter(pairs)
        while block := list(islice(remaining, ADDED_AT_ONCE)):
            with self._use(self._writing) as connection:
                for pair in block:
                    source, target = map(_clean, pair)
                    entry = (*languages, source, target)
                    row = (*entry, None, time.time(), _mark(entry))
                    added += self._insert(connection, row, "OR IGNORE")
            progress(len(block))
        return added

    @staticmethod
    def _insert(connection: sqlite3.Connection, row: tuple[object, ...], otherwise: str = "") -> int:
        """Insert an entry and its words, as `row` has its fields. Returns 0 if there was one, `otherwise` ignored."""
        fields = "source_language, target_language, source, target, who, at, mark"
        inserted = connection.execute(f"INSERT {otherwise} INTO pairs ({fields}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        if inserted.rowcount:
            words = " ".join(WORD.findall(str(row[2])))
            connection.execute("INSERT INTO words (rowid, source) VALUES (?, ?)", (inserted.lastrowid, words))
        return inserted.rowcount

    def find(self, languages: tuple[str, str], source: str) -> str | None:
        """The translation of a text, if there is an entry for it."""
        key = (*languages, _clean(source))
        if not key[2].strip():
            return None
        for entry in self._entries(self._rows(f"SELECT {_FIELDS} FROM pairs WHERE {_SAME_SOURCE}", key)):
            if entry[:3] == key:  # a damaged index may lead to another entry
                return entry.target
        return None

    def similar(self, languages: tuple[str, str], source: str, most: int = 3, *, seconds: float = 1.0) -> list[Similar]:
        """At most `most` entries that are similar to a text, closest first.

        After `seconds`, no further entries are compared with the text.
        """
        until = time.monotonic() + seconds
        text = _clean(source)
        close: list[tuple[float, Entry]] = []
        for entry in self.candidates(languages, text):
            if len(entry.source) <= 2 * MOST_COMPARED and time.monotonic() < until:
                similarity = _similarity(text, entry.source)
                if similarity >= LEAST_SIMILAR:
                    close.append((similarity, entry))
        close.sort(key=lambda scored: -scored[0])
        return [
            Similar(entry.source, entry.target, similarity, difference(entry.source, text))
            for similarity, entry in close[:most]
        ]

    def candidates(self, languages: tuple[str, str], source: str) -> list[Entry]:
        """At most `CANDIDATES` entries that have rare words in common with a text; none for a long text."""
        text = _clean(source)
        if len(text) > MOST_COMPARED:
            return []
        words = islice(dict.fromkeys(word for word in WORD.findall(text) if word[0].isalnum()), 64)
        numbers = {word: number for word in words if (number := self._number_of_entries(word))}
        if not numbers:
            return []
        # Of words that are all frequent, a long one says more.
        rarest = sorted(numbers, key=lambda word: (numbers[word], -len(word)))
        if numbers[rarest[0]] > MOST_MET:
            return self._latest_with(languages, rarest[:FEW_WORDS])
        sums = accumulate(numbers[word] for word in rarest)
        few = [word for word, total in zip(rarest, sums, strict=True) if total <= MOST_MET]
        return self._matching(languages, " OR ".join(map(_quoted, few)), order="rank", most=CANDIDATES)

    def _latest_with(self, languages: tuple[str, str], words: Sequence[str]) -> list[Entry]:
        """The latest entries that have most of some frequent words: to rank all that have one would take long."""
        entries: dict[Entry, None] = {}
        for size in range(len(words), 0, -1):
            for chosen in combinations(words, size):
                if len(entries) < CANDIDATES:
                    query = " AND ".join(map(_quoted, chosen))
                    latest = self._matching(languages, query, order="words.rowid DESC", most=CANDIDATES)
                    entries |= dict.fromkeys(latest)
        return list(entries)[:CANDIDATES]

    def _matching(self, languages: tuple[str, str], query: str, *, order: str, most: int) -> list[Entry]:
        """At most so many entries that match a query of the full-text search."""
        rows = self._rows(
            f"SELECT {_FIELDS} FROM words JOIN pairs ON pairs.number = words.rowid WHERE words MATCH ? "
            f"AND source_language = ? AND target_language = ? ORDER BY {order} LIMIT {most}",
            (query, *languages),
        )
        return list(self._entries(rows))

    def _number_of_entries(self, word: str) -> int:
        """How many entries have a word, counted up to `MOST_MET` + 1. The number is kept, so it may be an older one."""
        number = self._numbers.get(word, 0)
        if not number:
            entries = f"SELECT 1 FROM words WHERE words MATCH ? LIMIT {MOST_MET + 1}"
            ((number,),) = self._rows(f"SELECT count(*) FROM ({entries})", (_quoted(word),))
            if len(self._numbers) >= MOST_COUNTED:
                self._numbers.clear()
            self._numbers[word] = number
        return number

    def languages(self) -> list[tuple[str, str]]:
        """(source, target) codes of the languages that entries have."""
        return self._rows("SELECT DISTINCT source_language, target_language FROM pairs", ())

    def pairs(self) -> Iterator[Entry]:
        """All entries in the order in which they were added. They are read page by page."""
        query = f"SELECT number, {_FIELDS} FROM pairs WHERE number > ? ORDER BY number LIMIT {PAGE}"
        last = -1
        while rows := self._rows(query, (last,)):
            yield from self._entries(row[1:] for row in rows)
            number = rows[-1][0]
            if not _follows(number, last):
                raise ResourceError(f"The translation memory fails: {OUT_OF_ORDER}.")
            last = number

    def _entries(self, rows: Iterable[tuple[object, ...]]) -> Iterator[Entry]:
        """The entries of rows. Damaged ones are left out, which is logged once."""
        for row in rows:
            if entry := _entry(row, is_marked=True):
                yield entry
            elif not self._has_warned:
                self._has_warned = True
                LOG.warning("The translation memory is damaged: some of its entries are left out.")

    def _rows(self, query: str, values: tuple[object, ...]) -> list[tuple]:
        with self._use(self._reading) as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def _use(self, shared: "_Connection") -> Iterator[sqlite3.Connection]:
        """A connection for this thread alone. All changes of the `with` block are written, or none."""
        try:
            with shared.taken() as connection, connection:
                yield connection
        except FAILURES as error:
            # Clients read the message; they need not know the path.
            raise _resource_error(error, self._path, "The translation memory") or ResourceError(
                f"The translation memory fails: {error}."
            ) from None


class _Connection:
    """A connection that threads share one after another."""

    def __init__(self, path: Path, *, read_only: bool):
        address = _read_only_address(path) if read_only else str(path)
        connection = sqlite3.connect(address, timeout=OPENING, check_same_thread=False, uri=read_only)
        self._connection = _lenient(connection)
        self._lock = threading.Lock()

    @contextmanager
    def taken(self) -> Iterator[sqlite3.Connection]:
        """The connection, for this thread alone until the `with` block ends."""
        if not self._lock.acquire(timeout=PATIENCE):
            raise sqlite3.OperationalError("it is busy")
        try:
            yield self._connection
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _resource_error(error: Exception, path: Path, shown: str | None = None) -> ResourceError | None:
    """The error for a file that another program has locked, or whose disk is full; None for all other errors.

    `shown` is the name of the file in the message; None: its path.
    """
    shown = shown or str(path)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        processes = holders(path, *(path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal")))
        who = f"process {processes[0]}" if processes else "another program"
        return ResourceError(f"{shown} is in use by {who}; wait until that is done, or end it, and try again.")
    if code == sqlite3.SQLITE_FULL:
        return ResourceError(f"{shown} cannot be written: its disk is full; make room and try again.")
    return None


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a memory, and the checksums of one of an older version, if they are missing."""
    _check(connection, path)
    # With a log beside the file, readers and writers do not block each other. Where the file system does not support
    # it, or a reader has opened the file, SQLite goes on without.
    with suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA journal_mode = WAL")
    # The log is copied into the file after each change, so that a backup of the file alone is complete.
    connection.executescript(f"PRAGMA wal_autocheckpoint = 1; PRAGMA synchronous = FULL; {_SCHEMA}")
    ((application,),) = connection.execute("PRAGMA application_id")
    if application != APPLICATION:
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
    if not _is_marked(connection):
        with connection:
            connection.execute("ALTER TABLE pairs ADD COLUMN mark TEXT")
            marks = []
            for number, *row in connection.execute(f"SELECT number, {_FIELDS} FROM pairs").fetchall():
                if entry := _entry(row, is_marked=False):
                    marks.append((_mark(entry), number))
            connection.executemany("UPDATE pairs SET mark = ? WHERE number = ?", marks)


def _check_readable(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `DataError` for a database that is no memory of this version."""
    _check(connection, path)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if not {"pairs", "words"} <= tables or not _is_marked(connection):
        raise DataError(
            f"{path} is a translation memory of an older version; `dragoman data memory` brings it up to date."
        )


def _is_marked(connection: sqlite3.Connection) -> bool:
    """Whether the table has a column for checksums; memories of older versions have none."""
    return any(column[1] == "mark" for column in connection.execute("PRAGMA table_info(pairs)"))


def _follows(number: object, last: int) -> bool:
    """Whether the number of an entry is larger than the last one; if not, the file is damaged."""
    return isinstance(number, int) and number > last


def _lenient(connection: sqlite3.Connection) -> sqlite3.Connection:
    """The connection, changed to read bytes that are not UTF-8 as U+FFFD."""
    connection.text_factory = lambda content: content.decode(errors="replace")
    return connection


def _mark(entry: Iterable[str]) -> str:
    """The checksum of an entry."""
    return checksum(json.dumps([*entry]).encode())


def _entry(row: Sequence[object], *, is_marked: bool) -> Entry | None:
    """The entry of a row; None if it is damaged."""
    *columns, mark = row
    texts = [column for column in columns if isinstance(column, str)]
    if len(texts) < len(columns) or (is_marked and mark != _mark(texts)):
        return None
    return Entry(*texts)


def _quoted(word: str) -> str:
    """A word as a query of the full-text search."""
    return f'"{word}"'


def _similarity(text: str, other: str) -> float:
    """Similarity of two texts, from 0 to 1; 0 instead of values below `LEAST_SIMILAR`."""
    matcher = difflib.SequenceMatcher(None, text, other, autojunk=False)
    # Upper bounds that are quick to compute.
    if min(matcher.real_quick_ratio(), matcher.quick_ratio()) < LEAST_SIMILAR:
        return 0.0
    return matcher.ratio()


def difference(text: str, other: str) -> list[tuple[str, str]]:
    """(kind, part) pairs that turn one text into the other; kinds are "same", "removed" and "added".

    Parts are words and marks, or characters if neither text has spaces.
    """
    cut = _PART.findall if " " in text + other else list
    parts, other_parts = cut(text), cut(other)
    matcher = difflib.SequenceMatcher(None, parts, other_parts, autojunk=False)
    changes = []
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        if start < end:
            changes.append(("same" if kind == "equal" else "removed", "".join(parts[start:end])))
        if kind in ("insert", "replace"):
            changes.append(("added", "".join(other_parts[other_start:other_end])))
    return changes


def _clean(text: str) -> str:
    """A text in its normal form, without control characters that XML cannot contain."""
    return _CONTROL.sub("", normalised(well_formed(text)))


def _read_only_address(path: Path) -> str:
    """The URI by which SQLite only reads a file.

    It writes files beside it nevertheless, by which readers and writers take turns, unless it is told that nobody
    writes: so it is where the folder is not to be written in, and no writer has left its log.
    """
    path = real_path(path)  # the files stand beside it, not beside a link to it
    has_log = path.with_name(path.name + "-wal").exists()
    is_fixed = not has_log and not os.access(path.parent, os.W_OK)
    return f"{path.as_uri()}?mode=ro{'&immutable=1' if is_fixed else ''}"


def is_memory(path: Path) -> bool:
    """Whether a file is an SQLite database."""
    return os.path.isfile(path) and read_head(path).startswith(b"SQLite format 3\0")


def stored_entries(path: Path) -> Iterator[Entry | None]:
    """The entries of a memory, which is opened read-only; None for each damaged entry.

    Raises `DataError` if the file cannot be read as a memory, and `ResourceError` if another program has locked it.
    """
    try:
        address = _read_only_address(path)
        with closing(_lenient(sqlite3.connect(address, timeout=OPENING, uri=True))) as connection:
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
        raise _resource_error(error, path) or DataError(
            f"{path} cannot be read as a translation memory: {error}."
        ) from None


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `DataError` for a database of another program."""
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
"""Functions that write the entries of a memory, by file extension."""
