"""The kinds of tokenizers: how each splits text into words, words into tokens, and joins tokens again.

All spell their tokens in bytes, and a space belongs to the word that follows it.
"""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from dragoman.text.tokenizers.byte_level import BYTES
from dragoman.text.tokenizers.unigram import train_unigram

PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(4)
SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")


class SpecialIds(NamedTuple):
    """The ids of the special tokens of a tokenizer: of pretrained models other than these."""

    pad: int = PAD_ID
    unk: int = UNK_ID
    bos: int = BOS_ID
    """What the decoder starts with."""
    eos: int = EOS_ID


OURS = SpecialIds()
"""Ids of the special tokens in tokenizers that Dragoman trains."""
KINDS = ("bpe", "unigram", "word", "char")
STANDARDISATIONS = ("punctuation", "lowercase", "none")
"""How text becomes words, for the kind `word`; the first is the default."""

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
    """Number of special tokens, and of the bytes that can spell any text; with `word` only one word is needed."""
    return len(SPECIAL_TOKENS) + (1 if kind == "word" else len(BYTES))


def blank(kind: str, standardisation: str | None = None) -> tokenizers.Tokenizer:
    """A tokenizer of a kind, without a vocabulary."""
    unknown = SPECIAL_TOKENS[UNK_ID]
    model = {"unigram": models.Unigram, "word": lambda: models.WordLevel(unk_token=unknown)}
    backend = tokenizers.Tokenizer(model.get(kind, lambda: models.BPE(unk_token=unknown))())
    pattern = {"char": _CHARACTERS, "word": _STANDARDISED_WORDS.get(standardisation)}.get(kind, _WORDS)
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
    lowercase = [normalizers.Lowercase(), normalizers.Replace(Regex(_PUNCTUATION), "")]
    spaces = [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    return (lowercase if standardisation == "lowercase" else []) + spaces


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
    else:
        backend.train_from_iterator(texts, trainers.WordLevelTrainer(min_frequency=min_frequency or 0, **settings))
        # Decoding leaves special tokens out, but unknown words must be visible, so <unk> is no special token here.
        learned, backend = backend.get_vocab(), blank(kind, standardisation)
        backend.model = models.WordLevel(learned, unk_token=SPECIAL_TOKENS[UNK_ID])
        backend.add_special_tokens([token for token in SPECIAL_TOKENS if token != SPECIAL_TOKENS[UNK_ID]])
    return backend


def _train_unigram(backend: tokenizers.Tokenizer, texts: Iterable[str], vocab_size: int) -> tokenizers.Tokenizer:
    """Uses our own trainer, because the library's gives other tokens in each run."""
    normalise, cut = backend.normalizer.normalize_str, backend.pre_tokenizer.pre_tokenize_str
    words = Counter(word for text in texts for word, _ in cut(normalise(text)))
    pieces = train_unigram(words, alphabet=sorted(BYTES), size=vocab_size - len(SPECIAL_TOKENS))
    # No text is cut into a special token, whatever its score: `_WORDS` takes each apart.
    backend.model = models.Unigram([*((token, 0.0) for token in SPECIAL_TOKENS), *pieces], UNK_ID)
    backend.add_special_tokens(list(SPECIAL_TOKENS))
    return backend


def identify(backend: tokenizers.Tokenizer) -> str | None:
    """The kind of a tokenizer that somebody made, None if it is none of ours.

    It has to agree in everything but its vocabulary and what it puts around a text: with another option, such as
    dropout, it would not keep the promises of `Tokenizer`.
    """
    form = _form(backend)
    known = ((kind, standardisation) for kind in KINDS for standardisation in STANDARDISATIONS)
    return next((kind for kind, standardisation in known if _form(blank(kind, standardisation)) == form), None)


def _form(backend: tokenizers.Tokenizer) -> list[Any]:
    content = json.loads(backend.to_str())
    model = {key: value for key, value in content["model"].items() if key not in ("vocab", "merges", "unk_id")}
    return [content["normalizer"], content["pre_tokenizer"], content["decoder"], model]
