"""From pairs to token ids on disk, piece by piece on all cores; what broke off goes on after the last piece."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, compress, starmap
from pathlib import Path

import numpy as np

from dragoman.config.run import RunConfig
from dragoman.data.bitext import Bitext, blocks
from dragoman.data.pair_file import PairFile, lines_of, parsed, repeated
from dragoman.data.preprocessing import SourceStyle, source_rules
from dragoman.data.readers.types import Pair
from dragoman.data.text import cut_label, without_label
from dragoman.data.tokenizers.placeholders import mask_pair
from dragoman.data.tokenizers.subword_regularization import write_numbered
from dragoman.data.tokenizers.tokenizer import Tokenizer
from dragoman.system.processes import map_on_cores

SIDES = ("source", "target")


@dataclass(frozen=True)
class TextTools:
    """What turns text into token ids: learnt from the training pairs, or that of a model to go on from."""

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    style: SourceStyle
    source_language: str | None = None
    directions: list[tuple[str | None, str]] = field(default_factory=list)
    """Source and target languages that a model to go on from knows, if there are several pairs."""

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return self.source_tokenizer, self.target_tokenizer


class Encoder:
    """Writes pairs as token ids, less those with a side of `limit` tokens or more."""

    def __init__(self, tools: TextTools, config: RunConfig, source_language: str | None) -> None:
        self.tools, self.config, self.limit = tools, config, config.data.max_length
        self._language = tools.source_language or source_language

    def prepared(self, pairs: Iterable[Pair], *, practice: bool = False) -> Iterable[Pair]:
        """The pairs as they are encoded."""
        if self.tools.style.punctuation:
            rules = source_rules(self.tools.style, self._language)
            pairs = Bitext(lambda raw=pairs: ((rules(source), target) for source, target in raw), name="rules")
        pairs = masked(pairs, self.config, style=self.tools.style, practice=practice)
        if self.tools.source_tokenizer.targets:
            return pairs
        return Bitext(lambda: ((without_label(source), target) for source, target in pairs), name="without labels")

    def write(self, path: Path, pairs: Iterable[Pair]) -> tuple[int, int]:
        """Write `path`-source and `path`-target; returns how many pairs are kept, and how many are too long."""
        return join(path, [self._encoded(list(self.prepared(pairs)))])

    def write_train(self, path: Path, pairs: PairFile) -> tuple[int, int]:
        """The same for training pairs, of which some are given slots to practise with."""
        if self.config.tokenizer.samples:
            return self._write_numbered(path, pairs)
        jobs = ((Path(f"{path}-{number:06}.part"), block) for number, block in enumerate(pairs.blocks()))
        parts: list[Path] = []

        def arrays() -> Iterator[list[np.ndarray]]:
            for part in map_on_cores(partial(self._write_part, pairs.held_out), jobs):
                parts.append(part)
                with open(part, "rb") as file:
                    yield [np.load(file) for _ in range(2 * len(SIDES) + 1)]

        counts = join(path, arrays())
        for part in parts:
            part.unlink()
        return counts

    def _write_part(self, held_out: frozenset[str], path: Path, block: str) -> Path:
        """Write the token ids of a block of a `PairFile`, unless that was done before; returns the path."""
        if not path.exists():
            pairs = repeated(map(parsed, lines_of(block, held_out)))
            unfinished = path.with_suffix(".tmp")
            with open(unfinished, "wb") as file:
                for array in self._encoded(list(self.prepared(pairs, practice=True))):
                    np.save(file, array)
            unfinished.replace(path)
        return path

    def _encoded(self, pairs: list[Pair]) -> list[np.ndarray]:
        """Token ids, end to end, and lengths of the sources, then of the targets; and how many pairs are too long."""
        texts = zip(*pairs, strict=True) if pairs else ((), ())
        sides = [each.encode_batch(side) for each, side in zip(self.tools.tokenizers, texts, strict=True)]
        fits = [max(map(len, pair)) < self.limit for pair in zip(*sides, strict=True)]
        kept = [list(compress(side, fits)) for side in sides]
        arrays = ([np.fromiter(chain(*ids), np.uint32), np.fromiter(map(len, ids), np.uint32)] for ids in kept)
        return [*chain(*arrays), np.array(len(fits) - sum(fits))]

    def _write_numbered(self, path: Path, pairs: PairFile) -> tuple[int, int]:
        """Write numbers of words, which are split into tokens anew in each epoch; the numbers follow from the order."""
        kept = read = 0

        def encoded() -> Iterator[tuple]:
            nonlocal kept, read
            for block in blocks(self.prepared(pairs, practice=True)):
                texts = zip(self.tools.tokenizers, zip(*block, strict=True), strict=True)
                for pair in zip(*(tokenizer.words(side) for tokenizer, side in texts), strict=True):
                    fits = max(sum(map(len, words)) for words in pair) < self.limit
                    kept, read = kept + fits, read + 1
                    if fits:
                        yield pair

        write_numbered([path.with_name(f"{path.name}-{side}") for side in SIDES], encoded())
        return kept, read - kept


def join(path: Path, parts: Iterable[list[np.ndarray]]) -> tuple[int, int]:
    """Write the stores `path`-source and `path`-target from what `Encoder` makes of blocks, one after the other.

    Returns how many pairs they have, and how many are too long.
    """
    paths, long = [path.with_name(f"{path.name}-{side}") for side in SIDES], 0
    lengths: list[list[np.ndarray]] = [[], []]
    with ExitStack() as opened:
        files = [opened.enter_context(open(each.with_suffix(".ids"), "wb")) for each in paths]
        for *sides, too_long in parts:
            long += int(too_long)
            for file, known, ids, sizes in zip(files, lengths, sides[::2], sides[1::2], strict=True):
                file.write(ids)
                known.append(sizes)
    for each, known in zip(paths, lengths, strict=True):
        np.save(each.with_suffix(".ends.npy"), np.cumsum(np.concatenate(known), dtype=np.int64))
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
