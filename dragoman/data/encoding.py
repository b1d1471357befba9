"""Encodes pairs into token ids on disk, piece by piece on all cores. What broke off goes on after the last piece."""

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, starmap
from pathlib import Path
from typing import Self

import numpy as np

from dragoman.config.run import RunConfig
from dragoman.data.arrays import save_array
from dragoman.data.bitext import Bitext
from dragoman.data.pair_file import PairFile, counted, lines_of
from dragoman.data.readers.types import Pair
from dragoman.data.subword_regularization import Words, word_numbers
from dragoman.system.atomic import write_file
from dragoman.system.processes import map_on_cores
from dragoman.system.seals import fingerprint, mark_of, read_sealed, read_verified, write_sealed
from dragoman.text.characters import cut_label, without_label
from dragoman.text.preprocessing import SourceStyle, source_rules
from dragoman.text.tokenizers.placeholders import mask_pair
from dragoman.text.tokenizers.pretrained import load_tokenizer
from dragoman.text.tokenizers.tokenizer import Tokenizer

SIDES = ("source", "target")
DIGEST = hashlib.sha256().digest_size
"""Bytes at the beginning of the file of a block: the SHA-256 of what follows."""
STYLE, TOOLS = "source_style.json", "text_tools.json"
"""The style of sources; the marks of the tokenizers and of the style, in a folder that is not sealed yet."""


@dataclass(frozen=True)
class TextTools:
    """Tokenizers and style that turn text into token ids: learnt from the training pairs, or those of a base model."""

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    style: SourceStyle
    source_language: str | None = None
    directions: list[tuple[str | None, str]] = field(default_factory=list)
    """Source and target languages that a model to go on from knows, if there are several pairs."""

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return self.source_tokenizer, self.target_tokenizer

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
        return cls(source, target, SourceStyle.load(folder / STYLE) if cls.are_in(folder) else SourceStyle())

    def save(self, folder: Path) -> None:
        """Write tokenizers, and the style last: where it is, all is."""
        for side, tokenizer in zip(SIDES, self.tokenizers, strict=True):
            tokenizer.save(folder / f"{side}_tokenizer.json")
        style = self.style.model_dump_json().encode()
        files = [folder / f"{side}_tokenizer.json" for side in SIDES]
        write_sealed(folder / TOOLS, {file.name: mark_of(file) for file in files} | {STYLE: fingerprint(style)})
        write_file(folder / STYLE, style)


class Encoder:
    """Writes pairs as token ids, less those with a side of `limit` tokens or more."""

    def __init__(self, tools: TextTools, config: RunConfig, source_language: str | None) -> None:
        self.tools, self.config, self.limit = tools, config, config.data.max_length
        self._language = tools.source_language or source_language

    def prepared(self, pairs: Iterable[Pair], *, practice: bool = False) -> Iterable[Pair]:
        """The pairs as they are encoded."""
        rules = source_rules(self.tools.style, self._language, self.tools.source_tokenizer)
        pairs = Bitext(lambda raw=pairs: ((rules(source), target) for source, target in raw), name="rules")
        pairs = masked(pairs, self.config, style=self.tools.style, practice=practice)
        if self.tools.source_tokenizer.targets:
            return pairs
        return Bitext(lambda: ((without_label(source), target) for source, target in pairs), name="without labels")

    def write(self, path: Path, pairs: Iterable[Pair]) -> tuple[int, int]:
        """Write `path`-source and `path`-target; returns how many pairs are kept, and how many are too long."""
        prepared = list(self.prepared(pairs))
        return join(path, [self._encoded(prepared, [1] * len(prepared))])

    def write_train(self, path: Path, pairs: PairFile) -> tuple[int, int]:
        """Write the stores of training pairs, some of which are given slots to practise with; returns the same."""
        jobs = ((Path(f"{path}-{number:06}.part"), block) for number, block in enumerate(pairs.blocks()))
        parts: list[Path] = []

        def arrays() -> Iterator[list[np.ndarray]]:
            for part in map_on_cores(partial(self._write_part, pairs), jobs):
                parts.append(part)
                with open(part, "rb") as file:
                    file.seek(DIGEST)
                    yield [np.load(file) for _ in range((4 if self._samples else 2) * len(SIDES) + 1)]

        if self._samples:
            words = Words(store_paths(path))
            counts = join(path, map(words.renumbered, arrays()))
            words.write()
        else:
            counts = join(path, arrays())
        for part in parts:
            part.unlink()
        return counts

    @property
    def _samples(self) -> bool:
        return self.config.tokenizer.samples

    def _write_part(self, pairs: PairFile, path: Path, block: str) -> Path:
        """Write the token ids of a block of a `PairFile`, unless that was done before; returns the path."""
        if not _is_whole(path):
            found = [each for each in counted(lines_of(block, pairs.held_out), pairs.counts.weights) if each[1]]
            prepared = list(self.prepared([pair for pair, _ in found], practice=True))
            arrays = self._encoded(prepared, [count for _, count in found], numbered=self._samples)
            content = io.BytesIO()
            for array in arrays:
                np.save(content, array)
            write_file(path, hashlib.sha256(content.getbuffer()).digest() + content.getbuffer())
        return path

    def _encoded(self, pairs: list[Pair], counts: list[int], *, numbered: bool = False) -> list[np.ndarray]:
        """Token ids, end to end, and lengths of the sources, then of the targets; and how many pairs are too long.

        Each pair occurs as often as `counts` says. If they are `numbered`, sentences are numbers of words, and the
        token ids of these words and their lengths come after.
        """
        texts = zip(*pairs, strict=True) if pairs else ((), ())
        tools = list(zip(self.tools.tokenizers, texts, strict=True))
        sides = [each.words(side) if numbered else each.encode_batch(side) for each, side in tools]
        lengths = ([sum(map(len, row)) if numbered else len(row) for row in side] for side in sides)
        fitting = [count if max(pair) < self.limit else 0 for count, *pair in zip(counts, *lengths, strict=True)]
        arrays: list[np.ndarray] = []
        for side in sides:
            known: dict[tuple[int, ...], int] = {}
            rows = (
                (word_numbers(row, known) if numbered else row, n) for row, n in zip(side, fitting, strict=True) if n
            )
            arrays += end_to_end([row for row, count in rows for _ in range(count)])
            arrays += end_to_end(list(known)) if numbered else []
        return [*arrays, np.array(sum(counts) - sum(fitting))]


def _is_whole(part: Path) -> bool:
    """Whether the token ids of a block are there, as they were written."""
    content = memoryview(part.read_bytes()) if part.exists() else b""
    return hashlib.sha256(content[DIGEST:]).digest() == content[:DIGEST]


def end_to_end(rows: list[Sequence[int]]) -> list[np.ndarray]:
    """The numbers of all rows, and the length of each."""
    return [np.fromiter(chain(*rows), np.uint32), np.fromiter(map(len, rows), np.uint32)]


def store_paths(path: Path) -> list[Path]:
    return [path.with_name(f"{path.name}-{side}") for side in SIDES]


def join(path: Path, parts: Iterable[list[np.ndarray]]) -> tuple[int, int]:
    """Write the stores `path`-source and `path`-target from what `Encoder` makes of blocks, one after the other.

    Returns how many pairs they have, and how many are too long.
    """
    paths, long = store_paths(path), 0
    lengths: list[list[np.ndarray]] = [[], []]
    with ExitStack() as opened:
        files = [opened.enter_context(open(each.with_suffix(".ids"), "wb")) for each in paths]
        for *sides, too_long in parts:
            long += int(too_long)
            for file, known, ids, sizes in zip(files, lengths, sides[::2], sides[1::2], strict=True):
                file.write(ids)
                known.append(sizes)
    for each, known in zip(paths, lengths, strict=True):
        save_array(each.with_suffix(".ends.npy"), np.cumsum(np.concatenate(known), dtype=np.int64))
    return sum(map(len, lengths[0])), long


def masked(pairs: Iterable[Pair], config: RunConfig, *, style: SourceStyle, practice: bool = False) -> Iterable[Pair]:
    """The pairs with slots for placeholders, if the config wants them."""
    if not config.tokenizer.placeholders:
        return pairs
    mask = partial(mask_pair, excluded={*config.tokenizer.symbols, *style.translated}, practice=practice)

    def labelled(source: str, target: str) -> Pair:
        found, text = cut_label(source)
        source, target = mask(text, target)
        return found + source, target

    return Bitext(lambda: starmap(labelled, pairs), name="masked")
