"""Kinds of tokenizers, with the rules by which each splits text into words and tokens, and joins tokens again.

All spell their tokens in bytes, and a space belongs to the word that follows it.
"""

import json
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from dragoman.text.tokenizers.byte_level import BYTES

PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(4)
SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")


class SpecialIds(NamedTuple):
    """Ids of the special tokens of a tokenizer; pretrained models have other ids than these."""

    pad: int = PAD_ID
    unk: int = UNK_ID
    bos: int = BOS_ID
    """The token that the decoder starts with."""
    eos: int = EOS_ID


OURS = SpecialIds()
"""Ids of the special tokens in tokenizers that Dragoman trains."""
KINDS = ("bpe", "unigram", "word", "char")
STANDARDISATIONS = ("punctuation", "lowercase", "none")
"""Rules by which the kind `word` splits text into words; the first is the default."""

# A token never crosses the border of a word, a number or a run of other marks. A space belongs to
# what follows it. \p{M}: vowel signs and accents must not cut words of Hindi or decomposed French.
_WORDS = (
    r"'(?:s|t|re|ve|m|ll|d)(?![\p{L}\p{M}])"
    r"| ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+(?!\S)|\s+"
)
_CHARACTERS = r"[\s\S]"
_STANDARDISED_WORDS = {"punctuation": r" ?\w+| ?[^\w\s]+", "lowercase": r" ?\S+", "none": r" ?\S+"}
# Python's string.punctuation, and what Unicode has beyond it.
_PUNCTUATION = r"[\p{P}$+<=>^`|~]"


def min_vocab_size(kind: str) -> int:
    """Number of special tokens and of the bytes that can spell any text; `word` needs one word instead of the bytes."""
    return len(SPECIAL_TOKENS) + (1 if kind == "word" else len(BYTES))


def blank(kind: str, standardisation: str | None = None) -> tokenizers.Tokenizer:
    """A tokenizer of a kind, without a vocabulary."""
    unknown = SPECIAL_TOKENS[UNK_ID]
    if kind == "unigram":
        model, pattern = models.Unigram(), _WORDS
    elif kind == "word":
        model, pattern = models.WordLevel(unk_token=unknown), _STANDARDISED_WORDS[standardisation]
    else:
        model, pattern = models.BPE(unk_token=unknown), _CHARACTERS if kind == "char" else _WORDS
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    if kind == "char":
        return backend
    # With a space before it, the first word is the same token as later in the sentence.
    backend.normalizer = normalizers.Prepend(" ")
    steps = [backend.decoder, decoders.Strip(" ", 1, 0)]
    if kind == "word":
        backend.normalizer = normalizers.Sequence([*_standardising(standardisation), backend.normalizer])
        steps.insert(0, decoders.Replace(Regex(f"^{unknown}$"), f"Ġ{unknown}"))
    backend.decoder = decoders.Sequence(steps)
    return backend


def _standardising(standardisation: str) -> list[normalizers.Normalizer]:
    """The steps that standardise a text."""
    steps: list[normalizers.Normalizer] = []
    if standardisation == "lowercase":
        steps += [normalizers.Lowercase(), normalizers.Replace(Regex(_PUNCTUATION), "")]
    return [*steps, normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]


def train(
    texts: Iterable[str], kind: str, standardisation: str | None, *, vocab_size: int, min_frequency: int | None = None
) -> tokenizers.Tokenizer:
    """A tokenizer with at most `vocab_size` tokens; same texts, same tokens, whatever the number of threads.

    With the kind `word`, words that occur less than `min_frequency` times are not in the vocabulary.
    """
    standardisation = standardisation or STANDARDISATIONS[0]
    backend = blank(kind, standardisation)
    if kind == "unigram":
        return _train_unigram(backend, texts, vocab_size)
    settings = {"vocab_size": vocab_size, "special_tokens": list(SPECIAL_TOKENS), "show_progress": False}
    if kind != "word":
        trainer = trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **settings)
        backend.train_from_iterator(texts, trainer)
        return backend
    backend.train_from_iterator(texts, trainers.WordLevelTrainer(min_frequency=min_frequency or 0, **settings))
    # Decoding leaves special tokens out, but unknown words must be visible, so <unk> is no special token here.
    words = blank(kind, standardisation)
    words.model = models.WordLevel(backend.get_vocab(), unk_token=SPECIAL_TOKENS[UNK_ID])
    words.add_special_tokens([token for token in SPECIAL_TOKENS if token != SPECIAL_TOKENS[UNK_ID]])
    return words


def _train_unigram(backend: tokenizers.Tokenizer, texts: Iterable[str], vocab_size: int) -> tokenizers.Tokenizer:
    """Uses SentencePiece, because the trainer of the library `tokenizers` gives other tokens in each run."""
    from dragoman.text.tokenizers.unigram_training import train_unigram

    normalise, split = backend.normalizer.normalize_str, backend.pre_tokenizer.pre_tokenize_str
    words = Counter(word for text in texts for word, _ in split(normalise(text)))
    pieces = train_unigram(words, size=vocab_size - len(SPECIAL_TOKENS))
    # No text is split into a special token, whatever its score: `_WORDS` takes each apart.
    backend.model = models.Unigram([*((token, 0.0) for token in SPECIAL_TOKENS), *pieces], UNK_ID)
    backend.add_special_tokens(list(SPECIAL_TOKENS))
    return backend


def identify(backend: tokenizers.Tokenizer) -> str | None:
    """The kind of a tokenizer that somebody made, None if it is none of ours.

    It has to agree in everything but its vocabulary and the tokens that it adds around a text: with another option,
    such as dropout, it would not keep the promises of `Tokenizer`.
    """
    parts = _parts(backend)
    for kind in KINDS:
        for standardisation in STANDARDISATIONS:
            if _parts_of_blank(kind, standardisation) == parts:
                return kind
    return None


@cache
def _parts_of_blank(kind: str, standardisation: str) -> list[Any]:
    return _parts(blank(kind, standardisation))


def _parts(backend: tokenizers.Tokenizer) -> list[Any]:
    """Everything that splits and joins text, without the vocabulary."""
    content = json.loads(backend.to_str())
    model = {key: value for key, value in content["model"].items() if key not in ("vocab", "merges", "unk_id")}
    return [content["normalizer"], content["pre_tokenizer"], content["decoder"], model]
