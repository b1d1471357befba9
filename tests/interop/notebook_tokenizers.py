"""Tokenizers as the notebooks train and save them."""

from collections import Counter
from collections.abc import Iterable

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

SPECIAL = ["[UNK]", "[PAD]", "[SOS]", "[EOS]"]
"""In the order of notebook A's trainer: ids 0 to 3."""


def word_level(texts: Iterable[str]) -> tokenizers.Tokenizer:
    """Notebook A's, from its imports: WordLevel, WordLevelTrainer, Whitespace."""
    tokenizer = tokenizers.Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=SPECIAL, show_progress=False))
    return tokenizer


def bpe(texts: Iterable[str], *, in_bytes: bool = False) -> tokenizers.Tokenizer:
    """The change of one line that many make to it: pieces of words."""
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel() if in_bytes else pre_tokenizers.Whitespace()
    alphabet = pre_tokenizers.ByteLevel.alphabet() if in_bytes else []
    options = {"special_tokens": SPECIAL, "initial_alphabet": alphabet, "show_progress": False}
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=400 if in_bytes else 90, **options))
    if in_bytes:
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return tokenizer


def keras_vocabulary(texts: Iterable[str], *, kept: str = "") -> list[str]:
    """`get_vocabulary()` of a `TextVectorization`: padding, unknown, then words by frequency."""
    counts = Counter(word for text in texts for word in keras_words(text, kept=kept))
    return ["", "[UNK]", *sorted(sorted(counts, reverse=True), key=counts.get, reverse=True)]


def keras_words(text: str, *, kept: str = "") -> list[str]:
    """Lower case, no punctuation, split at spaces. TensorFlow does it to bytes, and knows ASCII alone."""
    punctuation = bytes(set(rb"""!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~""") - set(kept.encode()))
    return [word.decode() for word in text.encode().lower().translate(None, punctuation).split()]
