"""A sketch of the sentences that a model was trained on: which it has seen, and how familiar the words of another are.

It has two Bloom filters (Bloom 1970, "Space/time trade-offs in hash coding with allowable errors"): of whole sentences,
and of pairs of neighbouring words. Case, punctuation, spaces and the values of numbers do not matter. A filter holds as
many items as fit, those with the smallest hashes; of the others nothing is known. There are only bits that hashes have
set, so that no text can be read from a sketch; whoever guesses a sentence can ask whether it was probably there.
"""

import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
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
FOR_SENTENCES = 0.35
"""Share of a sketch for whole sentences."""
BITS_OF_SENTENCE, BITS_OF_PAIR = 8, 4
"""Bits of a filter for each item: 2 % of other sentences seem to be there, and 15 % of other pairs of words."""
FEWEST_WORDS = 3
"""Words of a sentence that is looked for; shorter ones are everywhere."""
FEWEST_PAIRS = 200
"""With fewer pairs of sentences, or pairs of words, a sketch would tell nothing."""
PAIRS_AT_ONCE = 20_000
MOST_PARTS = 16
"""Most sketches, of a model and of those that it was fine-tuned from, that one file has."""
_HEAD = Struct("<4sIIII")
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


class SketchPart(NamedTuple):
    """The sketch of one training."""

    sentences: BloomFilter
    word_pairs: BloomFilter


@dataclass(frozen=True)
class Sketch:
    """The sentences that a model was trained on, and those that the model was trained on from which it goes on."""

    parts: tuple[SketchPart, ...]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> "Sketch | None":
        """The sketch of the sources of training pairs; None if they are too few. Takes a pass over them."""
        blocks = list(map_on_cores(_Block.of, ([block] for block in _blocks(pairs))))
        if not blocks:
            return None
        size = min(LARGEST, int(SHARE * sum(block.size for block in blocks)) - _HEAD.size - SEAL)
        sentences = np.unique(np.concatenate([block.sentences for block in blocks]))
        word_pairs = np.unique(np.concatenate([block.word_pairs for block in blocks]))
        if min(size, len(sentences), len(word_pairs)) < FEWEST_PAIRS:
            return None
        first = BloomFilter.of(sentences, int(FOR_SENTENCES * size), bits_each=BITS_OF_SENTENCE)
        second = BloomFilter.of(word_pairs, size - len(first.bits), bits_each=BITS_OF_PAIR)
        return cls((SketchPart(first, second),))

    def after(self, base: "Sketch | None") -> "Sketch":
        """The sketch of a model that was trained on these sentences after those of a base model."""
        return Sketch((*base.parts, *self.parts)[-MOST_PARTS:]) if base else self

    def knows(self, sources: Sequence[str]) -> "list[bool | None]":
        """Whether each sentence was probably trained on; None if the sketch cannot tell."""
        words = [_words(without_label(source)) for source in sources]
        hashes = _mixed([_sentence_hash(sentence) for sentence in words])
        is_known = np.zeros(len(sources), bool)
        is_told = np.array([len(sentence) >= FEWEST_WORDS for sentence in words], bool)
        for part in self.parts:
            is_known |= part.sentences.has(hashes) & (hashes <= part.sentences.largest)
            is_told &= hashes <= part.sentences.largest
        return [bool(known) if told else None for known, told in zip(is_known, is_told, strict=True)]

    def familiarity(self, sources: Sequence[str]) -> "list[float | None]":
        """The share of the pairs of neighbouring words of each sentence that were trained on; None if none is told."""
        hashes_of_all = [_pair_hashes(_words(without_label(source))) for source in sources]
        hashes = _mixed([hash_ for hashes in hashes_of_all for hash_ in hashes])
        is_known = np.zeros(len(hashes), bool)
        is_told = np.ones(len(hashes), bool)
        for part in self.parts:
            is_known |= part.word_pairs.has(hashes) & (hashes <= part.word_pairs.largest)
            is_told &= hashes <= part.word_pairs.largest
        shares: list[float | None] = []
        begin = 0
        for end in np.cumsum([len(hashes) for hashes in hashes_of_all]).tolist():
            told = int(is_told[begin:end].sum())
            shares.append(float((is_known & is_told)[begin:end].sum() / told) if told else None)
            begin = end
        return shares

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
        for first, second in self.parts:
            content += [
                _HEAD.pack(_MAGIC, first.largest, len(first.bits), second.largest, len(second.bits)),
                first.bits.tobytes(),
                second.bits.tobytes(),
            ]
        return b"".join(content)

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """What `to_bytes` gave. Raises `ValueError` for anything else."""
        parts = []
        begin = 0
        while begin < len(content) and len(parts) < MOST_PARTS:
            if begin + _HEAD.size > len(content):
                raise ValueError("it ends too early")
            magic, *numbers = _HEAD.unpack_from(content, begin)
            first_largest, first_size, second_largest, second_size = numbers
            begin += _HEAD.size
            end = begin + first_size + second_size
            if magic != _MAGIC or not first_size or not second_size or end > len(content):
                raise ValueError("it is no sketch")
            bits = np.frombuffer(content, np.uint8, first_size + second_size, begin)
            first = BloomFilter(first_largest, bits[:first_size], _best_positions(BITS_OF_SENTENCE))
            second = BloomFilter(second_largest, bits[first_size:], _best_positions(BITS_OF_PAIR))
            parts.append(SketchPart(first, second))
            begin = end
        if not parts or begin != len(content):
            raise ValueError("it is no sketch")
        return cls(tuple(parts))


class _Block(NamedTuple):
    """Some of the pairs: their size in bytes, and hashes of their sources."""

    size: int
    sentences: np.ndarray
    word_pairs: np.ndarray

    @classmethod
    def of(cls, pairs: list[tuple[str, str]]) -> Self:
        size = 0
        sentences, word_pairs = set(), set()
        for source, target in pairs:
            source = without_label(source)
            size += len(source.encode(errors="surrogatepass")) + len(target.encode(errors="surrogatepass")) + 2
            words = _words(source)
            if len(words) >= FEWEST_WORDS:
                sentences.add(_sentence_hash(words))
            word_pairs.update(_pair_hashes(words))
        return cls(size, _mixed(list(sentences)), _mixed(list(word_pairs)))


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
