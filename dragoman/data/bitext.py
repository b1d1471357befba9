"""Sentence pairs from files: opened, checked, cleaned and split, one pair at a time.

A corpus is never held in memory; every pass reads its files again.
"""

import difflib
import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import NamedTuple

from dragoman.errors import DataError, UsageError
from dragoman.lines import open_input, read_lines

Pair = tuple[str, str]
Languages = tuple[str | None, str | None]

BUILTIN = "builtin:"
GRAMMAR = "builtin:grammar"
DEFAULT_GRAMMAR_PAIRS = 20_000
MIN_PAIRS = 10
MAX_HELD_OUT = 2_000


class Bitext:
    """Sentence pairs `(source, target)`; each loop over it is a fresh pass over the data.

    `name` is short, for messages; the languages are guesses from file names, or None.
    """

    def __init__(self, read: Callable[[], Iterable[Pair]], *, name: str, languages: Languages = (None, None)) -> None:
        self._read = read
        self.name = name
        self.source_language, self.target_language = languages

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._read())

    @staticmethod
    def open(source_path: str | Path, target_path: str | Path | None = None) -> "Bitext":
        """Opens a tab-separated file, two files of aligned lines, or `builtin:grammar[:COUNT][:PART]`.

        A tab-separated line is source, target and columns that are ignored; nothing is quoted, and
        a blank line is a pair of empty sides. Names that end in `.gz` are unpacked. The first pair
        is read at once, to show most mistakes early; the others raise `DataError` during a pass.
        """
        if str(source_path).startswith(BUILTIN):
            bitext = _open_builtin(str(source_path), target_path)
        elif target_path is None:
            bitext = _open_one(Path(source_path))
        else:
            bitext = _open_two(Path(source_path), Path(target_path))
        next(iter(bitext))
        return bitext

    def cleaned(self, *, held_out: Iterable["Bitext"] = ()) -> "CleanedBitext":
        """The pairs in NFC without surrounding whitespace, less those that cannot be learnt from.

        Dropped and counted are pairs with an empty side, and pairs whose source sentence is also in
        one of `held_out`, which are read once, now.
        """
        return CleanedBitext(self, held_out)


@dataclass(frozen=True)
class CleaningReport:
    """What one pass did: how many pairs it read, and how many it dropped for which reason."""

    read: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def kept(self) -> int:
        """Pairs that came out."""
        return self.read - self.dropped.total()


class CleanedBitext(Bitext):
    """See `Bitext.cleaned`. `report` tells of the last pass that reached the end."""

    def __init__(self, bitext: Bitext, held_out: Iterable[Bitext]) -> None:
        languages = bitext.source_language, bitext.target_language
        super().__init__(partial(self._clean, bitext), name=bitext.name, languages=languages)
        self._raw = bitext
        self._held_out = frozenset(_hash(source) for other in held_out for source, _ in other)
        self.report = CleaningReport()

    def cleaned(self, *, held_out: Iterable[Bitext] = ()) -> "CleanedBitext":
        """The same pairs, less those of `held_out`; one report for both reasons to drop."""
        return CleanedBitext(self._raw, held_out)

    def _clean(self, bitext: Bitext) -> Iterator[Pair]:
        read, dropped = 0, Counter[str]()
        for pair in bitext:
            read += 1
            source, target = map(normalised, pair)
            if reason := self._reason_to_drop(source, target):
                dropped[reason] += 1
            else:
                yield source, target
        self.report = CleaningReport(read, dropped)

    def _reason_to_drop(self, source: str, target: str) -> str | None:
        if not source or not target:
            return "target is empty" if source else "source is empty"
        if self._held_out and _hash(source) in self._held_out:
            return "source is in held-out data"
        return None


def normalised(text: str) -> str:
    """What a model is trained on and given: NFC, without surrounding whitespace."""
    return unicodedata.normalize("NFC", text.strip())


class Splits(NamedTuple):
    """Three bitexts, no two of which share a source sentence."""

    train: Bitext
    valid: Bitext
    test: Bitext


def split(bitext: Bitext, *, valid: int, test: int, seed: int) -> Splits:
    """Holds out exactly `valid` and `test` different source sentences, with all their translations.

    Sentences that differ only in case, spacing or normalisation count as one. Which ones are drawn
    depends on `seed` and on the sentences, not on their order: those with the smallest hashes are.
    Drawing makes one pass, with memory for the drawn ones alone. Raises `DataError` if none is left
    to train on.
    """
    if min(valid, test) < 0:
        raise UsageError(f"Cannot hold out {min(valid, test)} sentences; give 0 or more.")
    key = str(seed).encode()
    smallest = _smallest((_hash(source, key) for source, _ in bitext), valid + test + 1)
    if len(smallest) <= valid + test:
        raise DataError(
            f"{bitext.name} has {len(smallest)} different source sentences, too few to hold out "
            f"{valid} + {test} and train on others; add pairs or hold out fewer."
        )
    drawn_for_valid, drawn = frozenset(smallest[:valid]), frozenset(smallest[: valid + test])

    def part(name: str, hashes: Set[bytes], *, inside: bool = True) -> Bitext:
        def read() -> Iterator[Pair]:
            return (pair for pair in bitext if (_hash(pair[0], key) in hashes) == inside)

        languages = bitext.source_language, bitext.target_language
        return Bitext(read, name=f"{bitext.name}.{name}", languages=languages)

    return Splits(
        train=part("train", drawn, inside=False),
        valid=part("valid", drawn_for_valid),
        test=part("test", drawn - drawn_for_valid),
    )


def default_held_out(num_pairs: int) -> int:
    """How many source sentences to hold out for each of validation and test: 5 %, 1 to 2,000."""
    if num_pairs < MIN_PAIRS:
        raise DataError(
            f"{num_pairs} sentence pairs are too few to hold some out for validation and test; "
            f"give at least {MIN_PAIRS}, or validation and test data of their own."
        )
    return min(MAX_HELD_OUT, max(1, num_pairs // 20))


def folded(source: str) -> str:
    """What tells source sentences apart when pairs are held out: case, spacing and normalisation do not."""
    return " ".join(unicodedata.normalize("NFC", source.casefold()).split())


def _hash(source: str, key: bytes = b"") -> bytes:
    return hashlib.blake2b(folded(source).encode(), digest_size=8, key=key).digest()


def _smallest(hashes: Iterable[bytes], count: int) -> list[bytes]:
    """The `count` smallest different hashes, in order."""
    kept: set[bytes] = set()
    bound = b"\xff" * 9  # above every hash, which has 8 bytes
    for digest in hashes:
        if digest < bound:
            kept.add(digest)
            if len(kept) == 2 * count:
                kept = set(sorted(kept)[:count])
                bound = max(kept)
    return sorted(kept)[:count]


def _open_builtin(source_path: str, target_path: str | Path | None) -> Bitext:
    match = re.fullmatch(f"{GRAMMAR}(?::0*([1-9][0-9]*))?(?::(train|valid|test))?", source_path)
    if match is None:
        raise DataError(
            f"There is no built-in data {source_path}; write {GRAMMAR}, or {GRAMMAR}:5000 for a "
            f"number of pairs, or {GRAMMAR}:500:test for pairs that training never sees."
        )
    if target_path is not None:
        raise DataError(f"{source_path} has both languages already; leave out {target_path}.")
    count, part = int(match[1] or DEFAULT_GRAMMAR_PAIRS), match[2] or "train"
    return Bitext(partial(_read_grammar, count, part), name="grammar", languages=("en", "fr"))


def _open_one(path: Path) -> Bitext:
    _check_is_file(path)
    name = path.name.removesuffix(".gz")
    pair = re.search("(?<![A-Za-z0-9])([a-z]{2,3})-([a-z]{2,3})(?![A-Za-z0-9])", name)
    guessed = pair is not None and len(pair[1]) == len(pair[2])
    languages = (pair[1], pair[2]) if guessed else (None, None)
    return Bitext(partial(_read_tsv, path), name=Path(name).stem, languages=languages)


def _open_two(source: Path, target: Path) -> Bitext:
    _check_is_file(source)
    _check_is_file(target)
    if source.samefile(target):
        raise DataError(f"Source and target are the same file {source}; give one per language.")
    parts = list(zip(source.name.split("."), target.name.split("."), strict=False))
    common = [left for left, _ in takewhile(lambda pair: pair[0] == pair[1], parts)]
    different = [pair for pair in parts if pair[0] != pair[1]]
    code = re.compile("(?!src|tgt|trg|ref)[a-z]{2,3}([-_][A-Za-z]{2,4})?")
    guessed = len(different) == 1 and all(map(code.fullmatch, different[0]))
    return Bitext(
        partial(_read_two_files, source, target),
        name=".".join(common) or parts[0][0],
        languages=different[0] if guessed else (None, None),
    )


def _check_is_file(path: Path) -> None:
    # os.path answers False where pathlib raises: too long a name, a folder that may not be entered.
    if os.path.isfile(path):
        return
    if os.path.isdir(path):
        raise DataError(f"{path} is a folder; name a file in it, such as {path / 'train.tsv'}.")
    if os.path.exists(path):
        raise DataError(f"{path} cannot be read twice, as training must; save it to a file first.")
    near: list[str] = []
    with suppress(OSError):
        near = difflib.get_close_matches(path.name, os.listdir(path.parent), n=1)
    remedy = f"did you mean {path.parent / near[0]}?" if near else "check the path."
    raise DataError(f"There is no file {path}; {remedy}")


def _read_grammar(count: int, part: str) -> Iterator[Pair]:
    from dragoman.data.grammar import generate

    return generate(count, seed=0, split=part)


def _read_tsv(path: Path) -> Iterator[Pair]:
    for number, line in enumerate(_lines(path), start=1):
        source, tab, rest = line.partition("\t")
        if not tab and line.strip():
            raise DataError(
                f"{path}, line {number} has no tab between source and target; write "
                "source<TAB>target on every line, or give two files, one for each language."
            )
        yield source, rest.partition("\t")[0]


def _read_two_files(source: Path, target: Path) -> Iterator[Pair]:
    sources, targets = _lines(source), _lines(target)
    for number, (left, right) in enumerate(zip_longest(sources, targets), start=1):
        if left is None or right is None:
            num_left = number - 1 if left is None else number + sum(1 for _ in sources)
            num_right = number - 1 if right is None else number + sum(1 for _ in targets)
            raise DataError(
                f"{source} has {num_left} lines but {target} has {num_right}; line N of both must "
                "be the same sentence: find the lines that only one has."
            )
        yield left, right


def _lines(path: Path) -> Iterator[str]:
    """The lines of a file that must have some."""
    line = None
    with open_input(path) as stream:
        for line in read_lines(stream, str(path)):
            yield line
    if line is None:
        raise DataError(f"{path} is empty; give a file with one sentence or pair on each line.")
