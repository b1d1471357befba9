"""Encodes pairs into token ids on disk, block by block on all cores.

An encoding that broke off goes on after the last block that was written.
"""

import hashlib
import io
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Self

from dragoman.config.run import RunConfig
from dragoman.data.bitext import Bitext
from dragoman.data.encoded_block import SIDES, EncodedBlock, EncodedSide, Ragged, store_paths, write_stores
from dragoman.data.pair_file import PairFile, lines_of, with_counts
from dragoman.data.readers.types import Pair
from dragoman.data.subword_regularization import TokensOfWords, Words, word_numbers
from dragoman.system.atomic import write_file
from dragoman.system.processes import map_on_cores
from dragoman.system.seals import fingerprint, mark_of, read_sealed, read_verified, write_sealed
from dragoman.text.characters import cut_label
from dragoman.text.preprocessing import SourceStyle, labels_of_sides, source_rules
from dragoman.text.tokenizers.placeholders import mask_pair
from dragoman.text.tokenizers.pretrained import load_tokenizer
from dragoman.text.tokenizers.tokenizer import Tokenizer

DIGEST = hashlib.sha256().digest_size
"""Bytes at the beginning of the file of a block: the SHA-256 of the rest."""
STYLE, TOOLS = "source_style.json", "text_tools.json"
"""Files with the style of sources, and with checksums of tokenizers and style: their folder is not sealed yet."""


@dataclass(frozen=True)
class TextTools:
    """Tokenizers and style that turn text into token ids: learned from the training pairs, or those of a base model."""

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    style: SourceStyle
    source_language: str | None = None
    directions: list[tuple[str | None, str]] = field(default_factory=list)
    """Source and target languages that the base model knows, if there are several pairs."""

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return self.source_tokenizer, self.target_tokenizer

    def reading(self, hints: Collection[str]) -> Self:
        """These tools for a model that reads no other hints than these."""
        source, target = (tokenizer.reading(hints) for tokenizer in self.tokenizers)
        if self.source_tokenizer is self.target_tokenizer:
            target = source
        return replace(self, source_tokenizer=source, target_tokenizer=target)

    @staticmethod
    def are_in(folder: Path) -> bool:
        """Whether tokenizers and style were saved in a folder."""
        return (folder / STYLE).exists()

    @classmethod
    def load(cls, folder: Path, *, shared: bool) -> Self:
        """The tools saved in a folder, with one tokenizer if it is `shared`. Raises `DataError` for damage."""
        if (folder / TOOLS).is_file():
            for name, mark in read_sealed(folder / TOOLS, into=dict).items():
                read_verified(folder / name, [mark])
        source = load_tokenizer(folder / "source_tokenizer.json")
        target = source if shared else load_tokenizer(folder / "target_tokenizer.json")
        # Runs of version 0.1.0 have no style.
        style = SourceStyle.load(folder / STYLE) if cls.are_in(folder) else SourceStyle()
        return cls(source, target, style)

    def save(self, folder: Path) -> None:
        """Write the tokenizers, and the style last: if it is there, everything is."""
        style = self.style.model_dump_json().encode()
        checksums = {}
        for side, tokenizer in zip(SIDES, self.tokenizers, strict=True):
            file = folder / f"{side}_tokenizer.json"
            tokenizer.save(file)
            checksums[file.name] = mark_of(file)
        checksums[STYLE] = fingerprint(style)
        write_sealed(folder / TOOLS, checksums)
        write_file(folder / STYLE, style)


class Encoder:
    """Writes pairs as token ids, less those with a side of `limit` tokens or more."""

    def __init__(self, tools: TextTools, config: RunConfig, source_language: str | None) -> None:
        self.tools = tools
        self.config = config
        self.limit = config.data.max_length
        self._language = tools.source_language or source_language

    def prepared(self, pairs: Iterable[Pair], *, practice: bool = False) -> Iterable[Pair]:
        """The texts that tokenizers are given: sources by the rules of the style, placeholders as slots.

        For `practice`, some pairs without placeholders get slots as well. Labels stay where tokenizers make tokens of
        them.
        """
        rules = source_rules(self.tools.style, self._language, self.tools.source_tokenizer)
        styled = Bitext(lambda: ((rules(source), target) for source, target in pairs), name="styled")
        with_slots = masked(styled, self.config, style=self.tools.style, practice=practice)
        return Bitext(lambda: (self._with_labels(*pair) for pair in with_slots), name="labelled")

    def _with_labels(self, source: str, target: str) -> Pair:
        """A pair with the labels that its tokenizers read, instead of the one before its source."""
        label, text = cut_label(source)
        source_label, target_label = labels_of_sides(label, *self.tools.tokenizers)
        return source_label + text, target_label + target

    def write(self, path: Path, pairs: Iterable[Pair]) -> tuple[int, int]:
        """Write `path`-source and `path`-target; returns how many pairs are kept, and how many are too long."""
        prepared = list(self.prepared(pairs))
        return write_stores(path, [self._encoded(prepared, [1] * len(prepared))])

    def write_train(self, path: Path, pairs: PairFile) -> tuple[int, int]:
        """Write the training pairs like `write`, with slots for practice.

        With subword regularization, words are numbered, so that each epoch can sample their tokens.
        """
        jobs = ((Path(f"{path}-{number:06}.part"), block) for number, block in enumerate(pairs.blocks()))
        parts: list[Path] = []

        def encoded_blocks() -> Iterator[EncodedBlock]:
            for part in map_on_cores(partial(self._write_part, pairs), jobs):
                parts.append(part)
                with open(part, "rb") as file:
                    file.seek(DIGEST)
                    yield EncodedBlock.read(file, numbered=self._samples)

        if self._samples:
            words = Words(store_paths(path))
            counts = write_stores(path, map(words.renumbered, encoded_blocks()))
            words.write()
        else:
            counts = write_stores(path, encoded_blocks())
        for part in parts:
            part.unlink()
        return counts

    @property
    def _samples(self) -> bool:
        """Whether each epoch splits words into other tokens (subword regularization)."""
        return self.config.tokenizer.samples

    def _write_part(self, pairs: PairFile, path: Path, lines: str) -> Path:
        """Write the token ids of a block of lines of a `PairFile`, unless that was done before; returns the path."""
        if not _is_whole(path):
            counted = with_counts(lines_of(lines, pairs.held_out), pairs.counts.weights)
            chosen = [(pair, count) for pair, count in counted if count]
            prepared = list(self.prepared([pair for pair, _ in chosen], practice=True))
            encoded = self._encoded(prepared, [count for _, count in chosen], numbered=self._samples)
            content = io.BytesIO()
            encoded.write(content)
            write_file(path, hashlib.sha256(content.getbuffer()).digest() + content.getbuffer())
        return path

    def _encoded(self, pairs: list[Pair], counts: list[int], *, numbered: bool = False) -> EncodedBlock:
        """The token ids of pairs, each as often as `counts` says, or those of their words if these are `numbered`."""
        texts = zip(*pairs, strict=True) if pairs else ((), ())
        sides = []
        lengths = []
        for tokenizer, side_texts in zip(self.tools.tokenizers, texts, strict=True):
            if numbered:
                side = tokenizer.words(side_texts)
                lengths.append([sum(map(len, words)) for words in side])
            else:
                side = tokenizer.encode_batch(side_texts)
                lengths.append([len(ids) for ids in side])
            sides.append(side)
        kept_counts = [
            count if max(source_length, target_length) < self.limit else 0
            for count, source_length, target_length in zip(counts, *lengths, strict=True)
        ]
        encode = _numbered_side if numbered else _plain_side
        too_long = sum(counts) - sum(kept_counts)
        return EncodedBlock([encode(side, kept_counts) for side in sides], too_long)


def _plain_side(sentences: list[list[int]], counts: list[int]) -> EncodedSide:
    """The token ids of sentences, each as often as `counts` says."""
    rows = [ids for ids, count in zip(sentences, counts, strict=True) for _ in range(count)]
    return EncodedSide(Ragged.of(rows))


def _numbered_side(sentences: list[TokensOfWords], counts: list[int]) -> EncodedSide:
    """The numbers of the words of sentences, each as often as `counts` says, and the token ids of these words."""
    known: dict[tuple[int, ...], int] = {}
    rows: list[list[int]] = []
    for words, count in zip(sentences, counts, strict=True):
        if count:
            rows += [word_numbers(words, known)] * count
    return EncodedSide(Ragged.of(rows), Ragged.of(list(known)))


def _is_whole(part: Path) -> bool:
    """Whether the file of a block is there, with the content that was written."""
    if not part.exists():
        return False
    content = memoryview(part.read_bytes())
    return hashlib.sha256(content[DIGEST:]).digest() == content[:DIGEST]


def masked(pairs: Iterable[Pair], config: RunConfig, *, style: SourceStyle, practice: bool = False) -> Iterable[Pair]:
    """The pairs with slots for placeholders, if the config wants them."""
    if not config.tokenizer.placeholders:
        return pairs
    mask = partial(mask_pair, excluded={*config.tokenizer.symbols, *style.translated}, practice=practice)

    def mask_behind_label(source: str, target: str) -> Pair:
        label, text = cut_label(source)
        text, target = mask(text, target)
        return label + text, target

    return Bitext(lambda: starmap(mask_behind_label, pairs), name="masked")
