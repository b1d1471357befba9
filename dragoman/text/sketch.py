"""A sketch of the sentences that a model was trained on: which it has seen, and how familiar the words of another are.

It has three Bloom filters (Bloom 1970, "Space/time trade-offs in hash coding with allowable errors"): of whole
sentences, of words, and of pairs of neighbouring words. Case, punctuation, spaces and the values of numbers do not
matter. A filter holds as many items as fit, those with the smallest hashes; of the others nothing is known. There are
only bits that hashes have set, so that no text can be read from a sketch; whoever guesses a sentence can ask whether it
was probably there.
"""

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, islice, pairwise
from struct import Struct
from typing import NamedTuple, Self

import numpy as np

from dragoman.system.processes import map_on_cores
from dragoman.text.characters import without_label
from dragoman.text.scripts import WORD

SHARE = 0.01
"""Largest share of the size of the pairs that a sketch may take, in bytes."""
LARGEST = 1 << 24
"""Most bytes of a sketch, however many pairs there are."""
SEAL = 40
"""Bytes that the file of a sketch has besides."""
FOR_SENTENCES, FOR_WORDS = 0.3, 0.25
"""Shares of a sketch for whole sentences and for words; the rest is for pairs of words."""
BITS_OF_SENTENCE, BITS_OF_WORD, BITS_OF_PAIR = 8, 8, 4
"""Bits of a filter for each item: 2 % of other sentences and words seem to be there, 15 % of other pairs of words."""
FEWEST_WORDS = 3
"""Words of a sentence that is looked for; shorter ones are everywhere."""
FEWEST_PAIRS = 200
"""With fewer pairs of sentences, or pairs of words, a sketch would tell nothing."""
PAIRS_AT_ONCE = 20_000
MOST_PARTS = 16
"""Most sketches, of a model and of those that it was fine-tuned from, that one file has."""
DENSITIES = BITS_OF_SENTENCE, BITS_OF_WORD, BITS_OF_PAIR
_HEAD = Struct("<4s7IQ")
_MAGIC = b"DSK1"
_ALL = (1 << 32) - 1


@dataclass(frozen=True)
class BloomFilter:
    """Items by their hashes. One whose hash is above `largest` was left out."""

    largest: int
    """Largest hash of an item that may be there, below 2^32."""
    bits: np.ndarray
    """Eight bits a byte."""
    positions: int
    """Bits that an item sets."""

    @classmethod
    def of(cls, hashes: np.ndarray, size: int, *, bits_each: int) -> Self:
        """A filter of at most `size` bytes for different hashes of 32 bits, of which the smallest are kept."""
        most = max(1, size * 8 // bits_each)
        largest = _ALL
        if len(hashes) > most:
            largest = int(np.partition(hashes, most)[most - 1])
        kept = hashes[hashes <= largest]
        bits = np.zeros(max(1, min(size, -(-len(kept) * bits_each // 8))) * 8, bool)
        positions = _best_positions(bits_each)
        bits[_positions(kept, len(bits), positions)] = True
        return cls(largest, np.packbits(bits), positions)

    def has(self, hashes: np.ndarray) -> np.ndarray:
        """Whether each of these items is probably there."""
        positions = _positions(hashes, 8 * len(self.bits), self.positions)
        return (self.bits[positions >> 3] >> (7 - (positions & 7)) & 1).all(1)

    @property
    def false_share(self) -> float:
        """The share of other items that seem to be there."""
        return float(np.unpackbits(self.bits).mean() ** self.positions)


class NewWords(NamedTuple):
    """Words of a text that a model was not trained on."""

    words: list[str]
    """Different new words in small letters, the most frequent ones first."""
    count: int
    """How often they occur."""
    total: int
    """Number of words of the text of which the sketch can tell, new or not."""

    @property
    def share(self) -> float:
        """The share of the words that are new."""
        return self.count / max(1, self.total)


class SketchPart(NamedTuple):
    """The sketch of one training."""

    sentences: BloomFilter
    words: BloomFilter
    word_pairs: BloomFilter
    pairs: int
    """Number of pairs that it was trained on."""
    characters: int
    """Characters of all their sources."""

    @property
    def filters(self) -> tuple[BloomFilter, ...]:
        """The filters in the order of a file."""
        return self.sentences, self.words, self.word_pairs


@dataclass(frozen=True)
class Sketch:
    """The sentences that a model was trained on, and those that the model was trained on from which it goes on."""

    parts: tuple[SketchPart, ...]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> "Sketch | None":
        """The sketch of the sources of training pairs; None if they are too few. Takes a pass over them.

        However many there are, no more hashes are held than the largest filters have room for.
        """
        of_sentences, of_words, of_pairs = (
            _SmallestHashes(int(share * LARGEST) * 8 // bits + 1)
            for share, bits in ((FOR_SENTENCES, BITS_OF_SENTENCE), (FOR_WORDS, BITS_OF_WORD), (1, BITS_OF_PAIR))
        )
        num_pairs = num_characters = num_bytes = 0
        for block in map_on_cores(_Block.of, ([block] for block in _blocks(pairs))):
            of_sentences.add(block.sentences)
            of_words.add(block.words)
            of_pairs.add(block.word_pairs)
            num_pairs += block.pairs
            num_characters += block.characters
            num_bytes += block.size
        size = min(LARGEST, int(SHARE * num_bytes) - _HEAD.size - SEAL)
        sentences, words, word_pairs = (hashes.different() for hashes in (of_sentences, of_words, of_pairs))
        if min(size, len(sentences), len(word_pairs)) < FEWEST_PAIRS:
            return None
        first = BloomFilter.of(sentences, int(FOR_SENTENCES * size), bits_each=BITS_OF_SENTENCE)
        second = BloomFilter.of(words, int(FOR_WORDS * size), bits_each=BITS_OF_WORD)
        rest = size - len(first.bits) - len(second.bits)
        third = BloomFilter.of(word_pairs, rest, bits_each=BITS_OF_PAIR)
        return cls((SketchPart(first, second, third, num_pairs, num_characters),))

    def after(self, base: "Sketch | None") -> "Sketch":
        """The sketch of a model that was trained on these sentences after those of a base model."""
        return Sketch((*base.parts, *self.parts)[-MOST_PARTS:]) if base else self

    def knows(self, sources: Sequence[str]) -> "list[bool | None]":
        """Whether each sentence was probably trained on; None if the sketch cannot tell."""
        words = [_words(without_label(source)) for source in sources]
        is_known, is_decidable = self._look_up(
            [part.sentences for part in self.parts], [_sentence_hash(sentence) for sentence in words]
        )
        return [
            bool(known) if decidable and len(sentence) >= FEWEST_WORDS else None
            for sentence, known, decidable in zip(words, is_known, is_decidable, strict=True)
        ]

    def new_words(self, sources: Sequence[str]) -> "NewWords":
        """The words of sentences that were not trained on, among those of which the sketch can tell."""
        words = [word for source in sources for word in _words(without_label(source))]
        different = list(dict.fromkeys(words))
        is_known, is_decidable = self._look_up(
            [part.words for part in self.parts], [_word_hash(word) for word in different]
        )
        counts = Counter(words)
        new = list(compress(different, is_decidable & ~is_known))
        return NewWords(
            sorted(new, key=lambda word: -counts[word]),
            sum(counts[word] for word in new),
            sum(counts[word] for word in compress(different, is_decidable)),
        )

    def familiarity(self, sources: Sequence[str]) -> "list[float | None]":
        """The share of the pairs of neighbouring words of each sentence that were trained on.

        None if the sketch cannot tell of any of them.
        """
        hashes_of_all = [_pair_hashes(_words(without_label(source))) for source in sources]
        is_known, is_decidable = self._look_up(
            [part.word_pairs for part in self.parts], [hash_ for hashes in hashes_of_all for hash_ in hashes]
        )
        shares: list[float | None] = []
        begin = 0
        for end in np.cumsum([len(hashes) for hashes in hashes_of_all]).tolist():
            decidable = int(is_decidable[begin:end].sum())
            shares.append(float((is_known & is_decidable)[begin:end].sum() / decidable) if decidable else None)
            begin = end
        return shares

    @staticmethod
    def _look_up(filters: "Sequence[BloomFilter]", checksums: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Whether each item is probably in one of the filters, and whether all of them can tell."""
        hashes = _mixed(checksums)
        is_known = np.zeros(len(hashes), bool)
        is_decidable = np.ones(len(hashes), bool)
        for one in filters:
            is_covered = hashes <= one.largest
            is_known |= one.has(hashes) & is_covered
            is_decidable &= is_covered
        return is_known, is_decidable

    @property
    def pairs(self) -> int:
        """Number of pairs that the model was trained on."""
        return sum(part.pairs for part in self.parts)

    @property
    def mean_length(self) -> float:
        """Mean number of characters of the sources that it was trained on."""
        return sum(part.characters for part in self.parts) / max(1, self.pairs)

    @property
    def false_share(self) -> float:
        """The share of new sentences that seem to have been trained on."""
        new = 1.0
        for part in self.parts:
            new *= 1 - part.sentences.false_share
        return 1 - new

    def to_bytes(self) -> bytes:
        """The content of a file."""
        content = []
        for part in self.parts:
            numbers = [number for filter_ in part.filters for number in (filter_.largest, len(filter_.bits))]
            content += [_HEAD.pack(_MAGIC, *numbers, part.pairs, part.characters)]
            content += [filter_.bits.tobytes() for filter_ in part.filters]
        return b"".join(content)

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """What `to_bytes` gave. Raises `ValueError` for anything else."""
        parts = []
        begin = 0
        while begin < len(content) and len(parts) < MOST_PARTS:
            if begin + _HEAD.size > len(content):
                raise ValueError("it ends too early")
            magic, *numbers, pairs, characters = _HEAD.unpack_from(content, begin)
            sizes = numbers[1::2]
            begin += _HEAD.size
            if magic != _MAGIC or not all(sizes) or begin + sum(sizes) > len(content):
                raise ValueError("it is no sketch")
            filters = []
            for largest, size, bits_each in zip(numbers[::2], sizes, DENSITIES, strict=True):
                bits = np.frombuffer(content, np.uint8, size, begin)
                filters.append(BloomFilter(largest, bits, _best_positions(bits_each)))
                begin += size
            parts.append(SketchPart(*filters, pairs, characters))
        if not parts or begin != len(content):
            raise ValueError("it is no sketch")
        return cls(tuple(parts))


class _Block(NamedTuple):
    """Some of the pairs: their number and size, and hashes of their sources."""

    pairs: int
    characters: int
    size: int
    sentences: np.ndarray
    words: np.ndarray
    word_pairs: np.ndarray

    @classmethod
    def of(cls, pairs: list[tuple[str, str]]) -> Self:
        size = characters = 0
        sentences, different_words, word_pairs = set(), set(), set()
        for source, target in pairs:
            source = without_label(source)
            characters += len(source)
            size += len(source.encode(errors="surrogatepass")) + len(target.encode(errors="surrogatepass")) + 2
            words = _words(source)
            if len(words) >= FEWEST_WORDS:
                sentences.add(_sentence_hash(words))
            different_words.update(words)
            word_pairs.update(_pair_hashes(words))
        word_hashes = [_word_hash(word) for word in different_words]
        hashes = _mixed(list(sentences)), _mixed(word_hashes), _mixed(list(word_pairs))
        return cls(len(pairs), characters, size, *hashes)


class _SmallestHashes:
    """The smallest different ones of many hashes, in memory for a few times as many as are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[np.ndarray] = []
        self._waiting = 0

    def add(self, hashes: np.ndarray) -> None:
        """Add some hashes."""
        self._parts.append(hashes)
        self._waiting += len(hashes)
        if self._waiting > self._most:
            self._parts, self._waiting = [self.different()], 0

    def different(self) -> np.ndarray:
        """The smallest different ones of all that were added, in rising order."""
        return np.unique(np.concatenate([np.zeros(0, np.uint32), *self._parts]))[: self._most]


def _blocks(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    remaining = iter(pairs)
    while block := list(islice(remaining, PAIRS_AT_ONCE)):
        yield block


def _words(text: str) -> list[str]:
    """The words of a sentence, without case; each number is 0."""
    words = []
    for word in WORD.findall(text.casefold()):
        if word[0].isnumeric():
            words.append("0")
        elif word[0].isalnum():
            words.append(word)
    return words


def _sentence_hash(words: Sequence[str]) -> int:
    return zlib.crc32(" ".join(words).encode(errors="surrogatepass"))


def _word_hash(word: str) -> int:
    return zlib.crc32(word.encode(errors="surrogatepass"))


def _pair_hashes(words: Sequence[str]) -> list[int]:
    """The hashes of the pairs of neighbouring words, the edges of the sentence among them."""
    edged = ["", *words, ""]
    return [zlib.crc32(f"{first} {second}".encode(errors="surrogatepass")) for first, second in pairwise(edged)]


def _mixed(checksums: Sequence[int]) -> np.ndarray:
    """Hashes whose size says nothing about the text, unlike that of a checksum (the finaliser of MurmurHash3)."""
    hashes = np.array(checksums, np.uint32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        hashes = (hashes ^ (hashes >> np.uint32(shift))) * np.uint32(factor)
    return hashes


def _best_positions(bits_each: int) -> int:
    """How many bits an item should set, so that the fewest others seem to be there."""
    return round(bits_each * math.log(2))


def _positions(hashes: np.ndarray, bits: int, count: int) -> np.ndarray:
    """The bits of each item, (items, count): an arithmetic progression of two hashes (Kirsch and Mitzenmacher)."""
    wide = hashes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    first, step = wide >> np.uint64(32), (wide & np.uint64(_ALL)) | np.uint64(1)
    numbers = first[:, None] + step[:, None] * np.arange(count, dtype=np.uint64)
    return (numbers % np.uint64(bits)).astype(np.int64)
