"""The kinds of tokenizers side by side on a bitext: how long they train, how long texts become, what sampling costs.

    .venv/bin/python benchmarks/subwords.py SOURCE TARGET

One vocabulary for both sides. `tokens` are those of a sentence on average. Below a kind, what sampling does: by how
much sentences become longer, and the seconds that it takes to draw an epoch and to read all its sentences.
"""

import argparse
import tempfile
import time
from itertools import chain
from pathlib import Path

import numpy as np

from dragoman.config.run import load_config
from dragoman.config.settings import parse_settings
from dragoman.data.batching import TokenStore
from dragoman.data.bitext import Bitext
from dragoman.data.encoded_block import EncodedBlock, EncodedSide, Ragged
from dragoman.data.subword_regularization import TokensOfWords, Words, training_stores, word_numbers
from dragoman.text.tokenizers.tokenizer import UNK_ID, Tokenizer

COLUMNS = ("kind", "vocabulary", "train s", "encode s", "tokens", "unknown %", "sampled", "longer", "epoch s")
SAMPLINGS = {"bpe": ("dropout=0.1",), "unigram": ("sampling_alpha=0.1", "sampling_alpha=0.3")}


def row(kind: str, pairs: list[tuple[str, str]], vocab_size: int) -> tuple[list[str], Tokenizer]:
    """The columns of training and encoding without sampling, and the tokenizer."""
    started = time.perf_counter()
    tokenizer = Tokenizer.train(chain.from_iterable(pairs), vocab_size=vocab_size, kind=kind)
    trained = time.perf_counter()
    sentences = tokenizer.encode_batch(chain.from_iterable(pairs))
    encoded = time.perf_counter()
    tokens = sum(map(len, sentences))
    unknown = sum(ids.count(UNK_ID) for ids in sentences)
    figures = [f"{trained - started:.1f}", f"{encoded - trained:.1f}"]
    shares = [f"{tokens / len(sentences):.1f}", f"{100 * unknown / tokens:.1f}"]
    return [kind, f"{tokenizer.vocab_size:,}", *figures, *shares], tokenizer


def sampled(tokenizer: Tokenizer, pairs: list[tuple[str, str]], setting: str) -> list[str]:
    """The columns of one epoch of sampling: setting, growth of the sentences, seconds."""
    config = load_config({}, parse_settings([f"tokenizer.kind={tokenizer.kind}", f"tokenizer.{setting}"]))
    with tempfile.TemporaryDirectory() as folder:
        sides = [tokenizer.words(texts) for texts in zip(*pairs, strict=True)]
        paths = [Path(folder) / f"train-{side}" for side in ("source", "target")]
        write_numbered(paths, sides)
        stores = training_stores(Path(folder), (tokenizer, tokenizer), config)
        started = time.perf_counter()
        epochs = [store.epoch(0) for store in stores]
        tokens = sum(len(epoch[i]) for epoch in epochs for i in range(len(epoch)))
        seconds = time.perf_counter() - started
    longer = tokens / sum(len(word) for side in sides for words in side for word in words) - 1
    return [setting, f"{100 * longer:.0f} %", f"{seconds:.1f}"]


def write_numbered(paths: list[Path], sides: list[list[TokensOfWords]]) -> None:
    """Write the stores of both sides, as `preparation` does where subwords are sampled."""
    words, encoded = Words(paths), []
    for texts in sides:
        known: dict[tuple[int, ...], int] = {}
        numbers = Ragged.of([word_numbers(text, known) for text in texts])
        encoded.append(EncodedSide(numbers, Ragged.of(list(known))))
    columns = []
    for side in words.renumbered(EncodedBlock(encoded, too_long=0)).sides:
        columns.append(np.split(side.sentences.values, np.cumsum(side.sentences.lengths)[:-1]))
    TokenStore.write(paths, zip(*columns, strict=True))
    words.write()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--words", type=int, default=20_000, help="vocabulary of the kind word")
    options = parser.parse_args()
    pairs = list(Bitext.open(options.source, options.target))
    print(f"{len(pairs):,} pairs\n")
    print(*COLUMNS, sep=" | ")
    print(*("---" for _ in COLUMNS), sep=" | ")
    for kind in ("bpe", "unigram", "char", "word"):
        figures, tokenizer = row(kind, pairs, options.words if kind == "word" else options.vocab_size)
        for number, setting in enumerate(("", *SAMPLINGS.get(kind, ()))):
            blank = [""] * len(figures)
            print(*(blank if number else figures), *(sampled(tokenizer, pairs, setting) if setting else []), sep=" | ")


if __name__ == "__main__":
    main()
