"""Sentence pairs: opened, cleaned, weighted and split, one pair at a time.

A corpus is never held in memory; every pass reads its files again.
"""

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from dragoman.config.data import CleaningConfig, CorpusConfig, DataConfig
from dragoman.data.cleaning import HELD_OUT, REPEATED, CleaningReport, Seen, normalised, reason_to_drop
from dragoman.data.entries import Asked, Languages, Numbered, Pair, Skipped
from dragoman.data.sources import Source, find
from dragoman.errors import DataError, UsageError

MIN_PAIRS = 10
MAX_HELD_OUT = 2_000


class Bitext:
    """Sentence pairs `(source, target)`; each loop over it is a fresh pass over the data.

    `name` is short, for messages; `files` are what the user calls it, and `unit` what it is counted by; the languages
    are those in the data or guesses from file names, or None.
    """

    def __init__(self, read: Callable[[], Iterable[Pair]], *, name: str, languages: Languages = (None, None)) -> None:
        self._read = read
        self.name = name
        self.files, self.unit = (name,), "pair"
        self.source_language, self.target_language = languages

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._read())

    @property
    def languages(self) -> tuple[str, str] | None:
        """Source and target language, if both are known."""
        known = self.source_language and self.target_language
        return (self.source_language, self.target_language) if known else None

    def entries(self) -> Iterator[Numbered]:
        """The pairs and, at their places, what the files have instead of one; each after its line or other number."""
        return enumerate(self, start=1)

    @staticmethod
    def open(
        source_path: str | Path,
        target_path: str | Path | None = None,
        *,
        languages: tuple[str, str] | None = None,
        replace_bad_bytes: bool = False,
    ) -> "OpenedBitext":
        """Opens one file with pairs, two files of aligned lines, `builtin:grammar[:COUNT][:PART]` or `hf:NAME`.

        The end of its name tells the format of one file: .jsonl, .tmx, .xliff or .xlf, .po; any other is tab-separated.
        Names that end further in .gz, .xz or .zst are unpacked. `languages` chooses the sides in formats that name
        them; `replace_bad_bytes` reads what is not UTF-8 as U+FFFD. The first pair is read at once, to show most
        mistakes early; the others raise `DataError` during a pass.
        """
        target = None if target_path is None else str(target_path)
        bitext = OpenedBitext(find(str(source_path), target, Asked(languages, replace_bad_bytes)))
        if next(iter(bitext), None) is None:
            raise DataError(f"{source_path} holds no sentence pairs; check that it is translated and in its format.")
        return bitext

    def cleaned(self, rules: CleaningConfig | None = None, *, held_out: Iterable["Bitext"] = ()) -> "CleanedBitext":
        """The pairs in NFC without surrounding whitespace, less those that cannot or, by `rules`, should not be learnt.

        Dropped and counted are pairs with an empty side, those that break the rules, and pairs whose source sentence
        is also in one of `held_out`, which are read once, now.
        """
        return CleanedBitext([Corpus(self)], rules, held_out=held_out)


class OpenedBitext(Bitext):
    """Sentence pairs where a user has them."""

    def __init__(self, source: Source) -> None:
        super().__init__(self._pairs, name=source.name, languages=source.reading.languages)
        self.files, self.unit = source.files, source.reading.unit
        self._reading = source.reading

    def entries(self) -> Iterator[Numbered]:
        return self._reading.read()

    def _pairs(self) -> Iterator[Pair]:
        return (entry for _, entry in self.entries() if not isinstance(entry, Skipped))


class Corpus(NamedTuple):
    """A bitext, and how often each of its pairs occurs in an epoch."""

    bitext: Bitext
    weight: float = 1.0


class CleanedBitext(Bitext):
    """One corpus or several, cleaned, one after the other; `report` tells of the last pass that reached the end."""

    def __init__(
        self, corpora: Sequence[Corpus], rules: CleaningConfig | None = None, *, held_out: Iterable[Bitext] = ()
    ) -> None:
        first = corpora[0].bitext
        name = "+".join(corpus.bitext.name for corpus in corpora)
        super().__init__(self._clean, name=name, languages=(first.source_language, first.target_language))
        self.corpora, self.rules = corpora, rules
        self._held_out = frozenset(_hash(source) for other in held_out for source, _ in other)
        self.report = CleaningReport()

    def cleaned(self, rules: CleaningConfig | None = None, *, held_out: Iterable[Bitext] = ()) -> "CleanedBitext":
        """The same corpora cleaned anew; one report for all reasons to drop."""
        return CleanedBitext(self.corpora, rules or self.rules, held_out=held_out)

    def weighted(self) -> Iterator[Pair]:
        """The pairs of an epoch: each as often as the weight of its corpus says, copies side by side."""
        return self._clean(weighted=True)

    def _clean(self, *, weighted: bool = False) -> Iterator[Pair]:
        read, weighted_pairs, dropped = 0, 0, Counter[str]()
        for bitext, weight in self.corpora:
            seen = Seen() if self.rules and self.rules.drop_repeated else None
            for _, entry in bitext.entries():
                read += 1
                if isinstance(entry, Skipped):
                    dropped[entry.reason] += 1
                    continue
                pair = normalised(entry[0]), normalised(entry[1])
                reason = reason_to_drop(*pair, self.rules)
                if reason is None and self._held_out and _hash(pair[0]) in self._held_out:
                    reason = HELD_OUT
                if reason is None and seen is not None and not seen.add(pair):
                    reason = REPEATED
                if reason:
                    dropped[reason] += 1
                    continue
                count = copies(pair, weight)
                weighted_pairs += count
                for _ in range(count if weighted else 1):
                    yield pair
        self.report = CleaningReport(read, dropped, weighted_pairs)


def open_corpora(data: DataConfig) -> CleanedBitext:
    """All pairs that a config names, to be cleaned by its rules; the first corpus tells the languages of the others."""
    languages, corpora = data.languages, []
    for corpus in data.corpora or [CorpusConfig(source=data.source, target=data.target)]:
        files = corpus.source, corpus.target
        bitext = Bitext.open(*files, languages=languages, replace_bad_bytes=data.replace_bad_bytes)
        languages = languages or bitext.languages
        corpora.append(Corpus(bitext, corpus.weight))
    return CleanedBitext(corpora, data.cleaning)


def open_held_out(data: DataConfig, languages: tuple[str, str] | None) -> dict[str, Bitext]:
    """The files to validate and test on, as far as a config names them; `languages` are those of the training pairs."""
    options = {"languages": languages, "replace_bad_bytes": data.replace_bad_bytes}
    named = {"valid": data.valid, "test": data.test}
    return {part: Bitext.open(*files, **options) for part, files in named.items() if files}


def copies(pair: Pair, weight: float) -> int:
    """How often a pair occurs in an epoch: of weight 2.25, one pair in four three times and the others twice.

    Which ones follows from the pair alone.
    """
    whole = int(weight)
    return whole + (share(pair, "copies") < weight - whole) if whole != weight else whole


def share(pair: Pair, purpose: str) -> float:
    """A number from 0 to 1 that follows from the pair; those of different purposes are independent."""
    return int.from_bytes(_digest("\t".join(pair), purpose.encode())) / 2**64


class Splits(NamedTuple):
    """Three bitexts, no two of which share a source sentence, or, if split by line, a pair."""

    train: Bitext
    valid: Bitext
    test: Bitext


def split(bitext: Bitext, *, valid: int, test: int, seed: int, by: str = "sentence") -> Splits:
    """Holds out exactly `valid` and `test` different source sentences, with all their translations.

    Sentences that differ only in case, spacing or normalisation count as one. By "line", different pairs are held out
    instead, and a sentence with several translations may come to be in all parts, as if lines had been shuffled.
    Which ones are drawn depends on `seed` and on the sentences, not on their order: those with the smallest hashes are.
    Drawing makes one pass, with memory for the drawn ones alone; what is left to train on is weighted.
    Raises `DataError` if nothing is.
    """
    if min(valid, test) < 0:
        raise UsageError(f"Cannot hold out {min(valid, test)} sentences; give 0 or more.")
    key = str(seed).encode()

    def digest(pair: Pair) -> bytes:
        return _digest(whole(pair, by), key)

    drawn = _smallest(((digest(pair), pair) for pair in bitext), valid + test + 1)
    if len(drawn) <= valid + test:
        what = "source sentences" if by == "sentence" else "pairs"
        raise DataError(
            f"{bitext.name} has {len(drawn)} different {what}, too few to hold out "
            f"{valid} + {test} and train on others; add pairs or hold out fewer."
        )
    hashes = sorted(drawn)
    held_out = frozenset(hashes[: valid + test])

    def part(name: str, read: Callable[[], Iterable[Pair]]) -> Bitext:
        return Bitext(read, name=f"{bitext.name}.{name}", languages=(bitext.source_language, bitext.target_language))

    def train() -> Iterator[Pair]:
        pairs = bitext.weighted() if isinstance(bitext, CleanedBitext) else bitext
        return (pair for pair in pairs if digest(pair) not in held_out)

    return Splits(
        train=part("train", train),
        valid=part("valid", lambda: [pair for each in hashes[:valid] for pair in drawn[each]]),
        test=part("test", lambda: [pair for each in hashes[valid : valid + test] for pair in drawn[each]]),
    )


def held_out_sizes(bitext: Bitext, data: DataConfig) -> tuple[int, int] | None:
    """How many source sentences, or lines, a config asks to hold out for validation and test; None: no size is given.

    Counting what a share is of makes one pass, with 8 bytes of memory a pair.
    """
    sizes = data.held_out
    if sizes and min(sizes) < 1:
        seen = Seen()
        total = sum(seen.add(whole(pair, data.split)) for pair in bitext)
        sizes = tuple(max(1, round(size * total)) if size < 1 else size for size in sizes)
    return sizes


def default_held_out(num_pairs: int) -> int:
    """How many source sentences to hold out for each of validation and test: 5 %, 1 to 2,000."""
    if num_pairs < MIN_PAIRS:
        raise DataError(
            f"{num_pairs} sentence pairs are too few to hold some out for validation and test; "
            f"give at least {MIN_PAIRS}, or validation and test data of their own."
        )
    return min(MAX_HELD_OUT, max(1, num_pairs // 20))


def whole(pair: Pair, by: str) -> str:
    """What a split leaves together: the source sentence, or the line."""
    return folded(pair[0]) if by == "sentence" else "\t".join(pair)


def folded(source: str) -> str:
    """What tells source sentences apart when pairs are held out: case, spacing and normalisation do not."""
    return " ".join(unicodedata.normalize("NFC", source.casefold()).split())


def _hash(source: str) -> bytes:
    return _digest(folded(source))


def _digest(text: str, key: bytes = b"") -> bytes:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8, key=key).digest()


def _smallest(hashed: Iterable[tuple[bytes, Pair]], count: int) -> dict[bytes, list[Pair]]:
    """The pairs with the `count` smallest different hashes."""
    kept: dict[bytes, list[Pair]] = {}
    bound = b"\xff" * 9  # above every hash, which has 8 bytes
    for digest, pair in hashed:
        if digest <= bound:
            kept.setdefault(digest, []).append(pair)
            if len(kept) == 2 * count:
                kept = {digest: kept[digest] for digest in sorted(kept)[:count]}
                bound = max(kept)
    return {digest: kept[digest] for digest in sorted(kept)[:count]}
