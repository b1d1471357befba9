"""Subword regularization: in each epoch, the words of the training text are segmented into other tokens.

A model that has seen several segmentations of a word knows more about its parts: BPE dropout (Provilkov et al. 2020)
for `bpe`, sampling from the unigram language model (Kudo 2018) for `unigram`. Words are numbered once. In each epoch,
every word is segmented anew in up to `VARIANTS` ways, and each occurrence of it draws one of them. All draws follow
from (seed, epoch).
"""

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

from dragoman.config.data import TokenizerConfig
from dragoman.config.run import RunConfig
from dragoman.data.batching import Sentences, TokenStore, memory_mapped
from dragoman.data.encoded_block import EncodedBlock, EncodedSide, Ragged
from dragoman.text.tokenizers.tokenizer import Tokenizer
from dragoman.text.tokenizers.unigram import Lattice, blocks

VARIANTS = 16
"""Most segmentations of a word in one epoch. A word that occurs less often has fewer. A power of two."""
_CHUNK = 1 << 15
"""Sentences that are looked up at a time."""

Segmenter = Callable[[list[str], np.ndarray, np.random.Generator], np.ndarray]
"""Function that segments words, spelled in byte letters, each as many times as an array says.

Position [copy, position] of the result is a token id, or -1 for none; the copies of a word are side by side.
"""


class BpeDropout:
    """Merges as BPE does, best first, but in each step skips each possible merge with a probability."""

    def __init__(self, vocab: dict[str, int], merges: Iterable[tuple[str, str]], dropout: float):
        self.vocab = vocab
        self.dropout = dropout
        pairs = [(self._key(vocab[left], vocab[right]), vocab[left + right]) for left, right in merges]
        keys, merged = np.array(pairs, np.int64).reshape(-1, 2).T
        # Sorted, so that all pairs of tokens are looked up at once; no pair has the last key.
        order = np.argsort(keys)
        self._keys = np.append(keys[order], np.iinfo(np.int64).max)
        self._ranks = np.append(order, len(keys))
        self._merged = merged

    def __call__(self, words: list[str], copies: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        no_merge = len(self._merged)
        letters = np.full((len(words), max(map(len, words))), -1, np.int64)
        for row, word in zip(letters, words, strict=True):
            row[: len(word)] = [self.vocab[letter] for letter in word]
        segmented = np.repeat(letters, copies, axis=0)
        rows, tokens = np.arange(len(segmented)), segmented  # of the copies that may still be merged
        while len(rows) and tokens.shape[1] > 1:
            ranks = self._rank(tokens)
            ranks[rng.random(ranks.shape) < self.dropout] = no_merge
            positions = ranks.argmin(1)  # of equal ones the leftmost
            best = ranks[np.arange(len(rows)), positions]
            unfinished = best < no_merge
            rows, tokens = rows[unfinished], tokens[unfinished]
            positions, best = positions[unfinished], best[unfinished]
            tokens[np.arange(len(rows)), positions] = self._merged[best]
            columns = np.arange(tokens.shape[1] - 1)
            tokens = np.take_along_axis(tokens, columns + (columns > positions[:, None]), axis=1)
            segmented[rows, : tokens.shape[1]] = tokens
            segmented[rows, tokens.shape[1] :] = -1
        return segmented

    def _rank(self, tokens: np.ndarray) -> np.ndarray:
        """The rank of the merge of each token with the next one, or the number of merges if there is none."""
        keys = self._key(tokens[:, :-1], tokens[:, 1:])
        indices = np.searchsorted(self._keys, keys)
        return np.where(self._keys[indices] == keys, self._ranks[indices], len(self._merged))

    def _key(self, left: np.ndarray | int, right: np.ndarray | int) -> np.ndarray | int:
        # Without a token, -1, the key is negative or its right half all ones: no pair has it.
        return (left << 32) | (right & 0xFFFFFFFF)


class UnigramSampling:
    """Samples in proportion to the probability of a segmentation to the power of `alpha`.

    With 0 all segmentations are equally likely, with a large one the best is almost certain.
    """

    def __init__(self, pieces: Iterable[tuple[str, float]], alpha: float):
        pieces = list(pieces)
        self.ids = {piece: id_ for id_, (piece, _) in enumerate(pieces)}
        self.width = max(len(piece) for piece in self.ids)
        self.log_probs = np.append([alpha * score for _, score in pieces], -np.inf)

    def __call__(self, words: list[str], copies: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return Lattice(words, self.ids, width=self.width).sample(self.log_probs, copies, rng)


def segmenter(tokenizer: Tokenizer, config: TokenizerConfig) -> Segmenter:
    """A function that samples segmentations of a tokenizer, with the dropout or alpha of the config."""
    model = json.loads(tokenizer.to_json())["model"]
    if config.kind == "bpe":
        return BpeDropout(model["vocab"], map(tuple, model["merges"]), config.dropout)
    return UnigramSampling(map(tuple, model["vocab"]), config.sampling_alpha)


TokensOfWords = list[tuple[int, ...]]
"""The tokens of each word of a text."""


def word_numbers(words: TokensOfWords, known: dict[tuple[int, ...], int]) -> list[int]:
    """The numbers of the words of a text. `known` maps the tokens of a word to its number; new words are added."""
    return [known.setdefault(word, len(known)) for word in words]


class Words:
    """The words of the sentences of two `SampledStore`s, each side numbered on its own."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths
        self._known: list[dict[bytes, int]] = [{} for _ in paths]
        """For each side the number of each word, by the bytes of its token ids."""

    def renumbered(self, block: EncodedBlock) -> EncodedBlock:
        """The block with numbers of words that all blocks share: in the order in which the words first occur."""
        sides: list[EncodedSide] = []
        for side, known in zip(block.sides, self._known, strict=True):
            assert side.words is not None
            content = side.words.values.tobytes()
            ends = np.cumsum(side.words.lengths) * side.words.values.itemsize
            words = (content[start:stop] for start, stop in pairwise([0, *ends.tolist()]))
            numbers = np.array([known.setdefault(word, len(known)) for word in words], np.uint32)
            sides.append(EncodedSide(Ragged(numbers[side.sentences.values], side.sentences.lengths)))
        return EncodedBlock(sides, block.too_long)

    def write(self) -> None:
        """Write a store of the words beside each store of sentences."""
        for path, known in zip(self._paths, self._known, strict=True):
            TokenStore.write([_words_path(path)], ((memoryview(word).cast("I"),) for word in known))


def _words_path(path: Path) -> Path:
    """The store of the words of the sentences in the store at `path`."""
    return path.with_name(f"{path.name}-words")


class SampledStore:
    """Sentences as numbers of words, and the words as token ids; `epoch` draws the tokens of an epoch.

    A sentence that would become `limit` tokens long or longer keeps its usual tokens in that epoch.
    """

    def __init__(self, path: Path, tokenizer: Tokenizer, segment: Segmenter, *, seed: tuple[int, ...], limit: int):
        self.sentences = TokenStore(path)
        self.words = TokenStore(_words_path(path))
        self.folder = path.parent
        self.segment = segment
        self.seed = seed
        self.limit = limit
        self._spelled = [tokenizer.spelling(self.words[i].tolist()) for i in range(len(self.words))]
        lengths = np.array([len(word) for word in self._spelled])
        # Shorter ones have one segmentation: a symbol is not spelled at all, and a single letter is a token.
        splittable = np.flatnonzero(lengths > 1)
        self._splittable = splittable[np.argsort(lengths[splittable], kind="stable")]
        self._lengths = lengths[self._splittable]
        occurrences = np.zeros(len(self.words), np.int64)
        for _, words in self._chunks():
            occurrences += np.bincount(self.sentences.ids[words], minlength=len(self.words))
        variants = 1 << np.log2(np.clip(occurrences[self._splittable], 1, VARIANTS)).astype(np.int64)
        # Entry w is word w as it is without sampling; the segmentations of an epoch come after all words.
        self._first_entry = np.arange(len(self.words))
        self._first_entry[self._splittable] = len(self.words) + np.cumsum(variants) - variants
        self._num_variants = np.ones(len(self.words), np.uint8)
        self._num_variants[self._splittable] = variants

    def __len__(self) -> int:
        return len(self.sentences)

    def epoch(self, number: int) -> Sentences:
        """All sentences, each word in one of its segmentations of this epoch.

        They are in a temporary file, which is deleted with the `Sentences`.
        """
        rng = np.random.default_rng((*self.seed, number))
        ids, sizes = self._entries(rng)
        ends = np.cumsum(sizes)
        lengths: list[np.ndarray] = []
        choices = rng.integers(0, VARIANTS, len(self.sentences.ids), np.uint8)
        with TemporaryFile(dir=self.folder) as file:
            for num_words, words in self._chunks():
                plain = self.sentences.ids[words]
                drawn = self._first_entry[plain] + (choices[words] & (self._num_variants[plain] - 1))
                sentence = np.repeat(np.arange(len(num_words)), num_words)
                too_long = np.bincount(sentence, sizes[drawn], len(num_words)) >= self.limit
                drawn = np.where(too_long[sentence], plain, drawn)
                num_tokens = sizes[drawn]
                skipped = ends[drawn] - np.cumsum(num_tokens)
                file.write(ids[np.repeat(skipped, num_tokens) + np.arange(num_tokens.sum())])
                lengths.append(np.bincount(sentence, num_tokens, len(num_words)).astype(np.int64))
            return Sentences(memory_mapped(file), np.cumsum(np.concatenate(lengths)))

    def _entries(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The token ids of all words, then those of their segmentations in an epoch, and the number of ids of each."""
        ids, sizes = [self.words.ids], [self.words.lengths]
        for block in blocks(self._lengths, VARIANTS):
            words = self._splittable[block]
            tokens = self.segment([self._spelled[word] for word in words], self._num_variants[words], rng)
            ids.append(tokens[tokens >= 0].astype(np.uint32))
            sizes.append((tokens >= 0).sum(1))
        return np.concatenate(ids), np.concatenate(sizes)

    def _chunks(self) -> Iterator[tuple[np.ndarray, slice]]:
        """Parts of the corpus: for each sentence its number of words, and the slice of all words that they are."""
        stop = 0
        for num_words in np.array_split(self.sentences.lengths, len(self) // _CHUNK + 1):
            start, stop = stop, stop + int(num_words.sum())
            yield num_words, slice(start, stop)


def training_stores(
    folder: Path, tokenizers: tuple[Tokenizer, Tokenizer], config: RunConfig
) -> tuple[TokenStore | SampledStore, ...]:
    """The sources and the targets of the training pairs, as `preparation` wrote them."""
    paths = folder / "train-source", folder / "train-target"
    if not config.tokenizer.samples:
        return tuple(map(TokenStore, paths))
    stores = []
    for side, (path, tokenizer) in enumerate(zip(paths, tokenizers, strict=True)):
        segment = segmenter(tokenizer, config.tokenizer)
        seed = config.seed, side
        stores.append(SampledStore(path, tokenizer, segment, seed=seed, limit=config.data.max_length))
    return tuple(stores)
