"""Subword sampling: each epoch cuts the words of the training text into other tokens.

A model that has seen a word in several cuts knows more about its parts: BPE dropout (Provilkov et al. 2020) for `bpe`,
sampling from the language model of pieces (Kudo 2018) for `unigram`. Words are numbered once; in each epoch every word
is cut anew, in up to `VARIANTS` ways, of which each place where it stands draws one. All follows from (seed, epoch).
"""

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
from tokenizers import Encoding

from dragoman.config import RunConfig, TokenizerConfig
from dragoman.data.batching import TokenStore
from dragoman.data.tokenizers.tokenizer import Tokenizer
from dragoman.data.tokenizers.unigram import Lattice, blocks

VARIANTS = 16
"""Cuts of a word in one epoch, at most; a word that stands in fewer places has fewer. A power of two."""
_CHUNK = 1 << 20


Cutter = Callable[[list[str], np.ndarray, np.random.Generator], np.ndarray]
"""Cuts words, spelled in byte letters, each so many times: [copy, place] is a token id, or -1 for none."""


class BpeDropout:
    """Merges as BPE does, best first, but in each step passes over each possible merge with a probability."""

    def __init__(self, vocab: dict[str, int], merges: Iterable[tuple[str, str]], dropout: float):
        self.vocab, self.dropout = vocab, dropout
        pairs = [(self._key(vocab[left], vocab[right]), vocab[left + right]) for left, right in merges]
        keys, merged = np.array(pairs, np.int64).reshape(-1, 2).T
        # Sorted, so that all pairs of a batch are looked up at once; a last key that no pair has.
        order = np.argsort(keys)
        self._keys = np.append(keys[order], np.iinfo(np.int64).max)
        self._ranks = np.append(order, len(keys))
        self._merged = merged

    def __call__(self, words: list[str], copies: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        none = len(self._merged)
        letters = np.full((len(words), max(map(len, words))), -1, np.int64)
        for row, word in zip(letters, words, strict=True):
            row[: len(word)] = [self.vocab[letter] for letter in word]
        cut = np.repeat(letters, copies, axis=0)
        rows, tokens = np.arange(len(cut)), cut
        while len(rows) and tokens.shape[1] > 1:
            ranks = self._rank(tokens)
            ranks[rng.random(ranks.shape) < self.dropout] = none
            places = ranks.argmin(1)  # of equal ones the leftmost
            best = ranks[np.arange(len(rows)), places]
            going_on = best < none
            rows, tokens, places, best = (each[going_on] for each in (rows, tokens, places, best))
            tokens[np.arange(len(rows)), places] = self._merged[best]
            columns = np.arange(tokens.shape[1] - 1)
            tokens = np.take_along_axis(tokens, columns + (columns > places[:, None]), axis=1)
            cut[rows, : tokens.shape[1]], cut[rows, tokens.shape[1] :] = tokens, -1
        return cut

    def _rank(self, tokens: np.ndarray) -> np.ndarray:
        keys = self._key(tokens[:, :-1], tokens[:, 1:])
        found = np.searchsorted(self._keys, keys)
        return np.where(self._keys[found] == keys, self._ranks[found], len(self._merged))

    def _key(self, left: np.ndarray | int, right: np.ndarray | int) -> np.ndarray | int:
        # Where there is no token, -1, the key is negative or its right half all ones: no pair has it.
        return (left << 32) | (right & 0xFFFFFFFF)


class UnigramSampling:
    """Draws in proportion to the probability of a cut to the power of `alpha`: 0 is any cut, a large one the best."""

    def __init__(self, pieces: Iterable[tuple[str, float]], alpha: float):
        pieces = list(pieces)
        self.ids = {piece: id_ for id_, (piece, _) in enumerate(pieces)}
        self.width = max(len(piece) for piece in self.ids)
        self.log_probs = np.append([alpha * score for _, score in pieces], -np.inf)

    def __call__(self, words: list[str], copies: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return Lattice(words, self.ids, width=self.width).draw(self.log_probs, copies, rng)


def cutter(tokenizer: Tokenizer, config: TokenizerConfig) -> Cutter:
    """What `config` asks for."""
    model = json.loads(tokenizer.to_json())["model"]
    if config.kind == "bpe":
        return BpeDropout(model["vocab"], map(tuple, model["merges"]), config.dropout)
    return UnigramSampling(map(tuple, model["vocab"]), config.sampling_alpha)


class WordNumbers:
    """Encodes as a tokenizer does, and numbers the words that it meets."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self._numbers: dict[tuple[int, ...], int] = {}

    def encode_batch(self, texts: Iterable[str]) -> list[Encoding]:
        """Of each text its tokens and their words; `len` is the number of tokens."""
        return self.tokenizer.encodings(texts)

    def numbers(self, encoding: Encoding) -> list[int]:
        """The numbers of the words of a text; a new word is given the next one."""
        words = groupby(zip(encoding.word_ids, encoding.ids, strict=True), itemgetter(0))
        tokens = (tuple(id_ for _, id_ in word) for _, word in words)
        return [self._numbers.setdefault(word, len(self._numbers)) for word in tokens]

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """The tokens of each word, by number."""
        return iter(self._numbers)


def write_numbered(
    paths: list[Path], pairs: Iterable[tuple[Encoding, Encoding]], numberings: tuple[WordNumbers, WordNumbers]
) -> None:
    """Write what two `SampledStore`s read, from a numbering for each side and what it has encoded."""
    source, target = numberings
    TokenStore.write_pair(*paths, ((source.numbers(left), target.numbers(right)) for left, right in pairs))
    for path, words in zip(paths, numberings, strict=True):
        TokenStore.write(_words_beside(path), map(list, words))


class SampledStore:
    """Sentences as numbers of words, and the words as token ids; `epoch` gives what a `TokenStore` does."""

    def __init__(self, path: Path, tokenizer: Tokenizer, cut: Cutter, *, seed: tuple[int, ...], limit: int):
        """A sentence that a draw makes as long as `limit` is cut as it is without sampling."""
        self.sentences, self.words = TokenStore(path), TokenStore(_words_beside(path))
        self.cut, self.seed, self.limit = cut, seed, limit
        self._spelled = [tokenizer.spelling(self.words[i].tolist()) for i in range(len(self.words))]
        lengths = np.array([len(word) for word in self._spelled])
        # A symbol is not spelled at all, and a letter is a token.
        cuttable = np.flatnonzero(lengths > 1)
        self._cuttable = cuttable[np.argsort(lengths[cuttable], kind="stable")]
        self._lengths = lengths[self._cuttable]
        copies = 1 << np.log2(np.clip(self._occurrences()[self._cuttable], 1, VARIANTS)).astype(np.int64)
        # Entry w is word w as it is without sampling; the cuts of an epoch come after all words.
        self._first = np.arange(len(self.words))
        self._first[self._cuttable] = len(self.words) + np.cumsum(copies) - copies
        self._copies = np.ones(len(self.words), np.uint8)
        self._copies[self._cuttable] = copies

    def __len__(self) -> int:
        return len(self.sentences)

    def epoch(self, number: int) -> "SampledEpoch":
        """All sentences, cut for this epoch."""
        rng = np.random.default_rng((*self.seed, number))
        ids, sizes = [self.words.ids], [self.words.lengths]
        for block in blocks(self._lengths, VARIANTS):
            words = self._cuttable[block]
            cuts = self.cut([self._spelled[word] for word in words], self._copies[words], rng)
            ids.append(cuts[cuts >= 0].astype(np.uint32))
            sizes.append((cuts >= 0).sum(1))
        choices = rng.integers(0, VARIANTS, len(self.sentences.ids), np.uint8)
        entries = Entries(np.concatenate(ids), np.concatenate(sizes))
        return SampledEpoch(self.sentences, entries, (self._first, self._copies - 1), choices, self.limit)

    def _occurrences(self) -> np.ndarray:
        counts = np.zeros(len(self.words), np.int64)
        for start in range(0, len(self.sentences.ids), _CHUNK):
            counts += np.bincount(self.sentences.ids[start : start + _CHUNK], minlength=len(counts))
        return counts


class Entries:
    """Cuts of words, end to end."""

    def __init__(self, ids: np.ndarray, sizes: np.ndarray):
        self.ids, self.sizes, self.starts = ids, sizes, np.cumsum(sizes) - sizes

    def joined(self, entries: np.ndarray) -> np.ndarray:
        """The tokens of these entries, in their order."""
        sizes = self.sizes[entries]
        skipped = self.starts[entries] - (np.cumsum(sizes) - sizes)
        return self.ids[np.repeat(skipped, sizes) + np.arange(sizes.sum())]


class SampledEpoch:
    """Sentences as token ids, each of their words in one of its cuts."""

    def __init__(
        self,
        sentences: TokenStore,
        entries: Entries,
        of_words: tuple[np.ndarray, np.ndarray],
        choices: np.ndarray,
        limit: int,
    ):
        """`of_words` are the first entry of each word and a mask for the choice among its entries."""
        self._sentences, self._entries, self._choices = sentences, entries, choices
        self._first, self._mask = of_words
        self.lengths = np.empty(len(sentences), np.int64)
        self._plain = np.empty(len(sentences), bool)
        for rows in self._chunks():
            drawn, plain = self._count(rows, self._chosen), self._count(rows, lambda places: sentences.ids[places])
            self._plain[rows] = drawn >= limit
            self.lengths[rows] = np.where(drawn >= limit, plain, drawn)

    def __len__(self) -> int:
        return len(self._sentences)

    def __getitem__(self, index: int) -> np.ndarray:
        """The token ids of one sentence."""
        words = self._sentences[index]
        end = int(self._sentences.ends[index])
        return self._entries.joined(words if self._plain[index] else self._chosen(slice(end - len(words), end)))

    def _chosen(self, places: slice) -> np.ndarray:
        words = self._sentences.ids[places]
        return self._first[words] + (self._choices[places] & self._mask[words])

    def _chunks(self) -> Iterator[slice]:
        """Rows of sentences with few enough words for arrays of all of them."""
        ends, stop = self._sentences.ends, 0
        while (start := stop) < len(ends):
            stop = max(start + 1, int(np.searchsorted(ends, (ends[start - 1] if start else 0) + _CHUNK)))
            yield slice(start, stop)

    def _count(self, rows: slice, entries: Callable[[slice], np.ndarray]) -> np.ndarray:
        begin = int(self._sentences.ends[rows.start - 1]) if rows.start else 0
        ends = self._sentences.ends[rows]
        tokens = np.concatenate([[0], np.cumsum(self._entries.sizes[entries(slice(begin, int(ends[-1])))])])
        return np.diff(tokens[ends - begin], prepend=0)


def training_stores(
    folder: Path, tokenizers: tuple[Tokenizer, Tokenizer], config: RunConfig
) -> tuple[TokenStore | SampledStore, ...]:
    """The two sides of the training pairs, as `preparation` wrote them."""
    paths = folder / "train-source", folder / "train-target"
    if not config.tokenizer.samples:
        return tuple(map(TokenStore, paths))
    return tuple(
        SampledStore(
            path,
            tokenizer,
            cutter(tokenizer, config.tokenizer),
            seed=(config.seed, side),
            limit=config.data.max_length,
        )
        for side, (path, tokenizer) in enumerate(zip(paths, tokenizers, strict=True))
    )


def _words_beside(path: Path) -> Path:
    return path.with_name(f"{path.name}-words")
