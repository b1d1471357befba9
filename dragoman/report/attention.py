"""Attention between the tokens of a sentence pair, and between its words."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.decoding.alignment import by_word, words
from dragoman.errors import DataError
from dragoman.evaluation.likelihood import evaluating
from dragoman.model import Transformer
from dragoman.model.attention import AttentionMaps, Recorded
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.scripts import is_unspaced
from dragoman.text.tokenizers.placeholders import SLOTS, Prepared
from dragoman.text.tokenizers.tokenizer import Tokenizer

Weights = Float[np.ndarray, "target_words source_words"]
Maps = Float[np.ndarray, "layers heads queries keys"]
Vectors = Float[np.ndarray, "layers heads length width"]

MOST_TOKENS = 512
"""Most tokens of a text, end of sentence included: all maps of a base model then take 150 MB."""
WIDEST = 16
"""Most source words of a sentence whose picture fits on a page."""


class Heads(NamedTuple):
    """Values that the heads of all layers computed for one sentence pair; `model.attention.Recorded` has a layer's."""

    query: Vectors
    key: Vectors
    value: Vectors
    weights: Maps


@dataclass(frozen=True)
class Axis:
    """The tokens of one side of a map, and the words that they form."""

    ids: list[int]
    pieces: list[str]
    """A readable piece for each token; a space is "▁"."""
    words: list[list[int]]
    """For each word the indices of its tokens. Every token belongs to one word."""
    labels: list[str]
    """The text of each word."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, ids: list[int]) -> Self:
        """The axis of these token ids. White space separates words; in scripts without spaces, characters are words."""
        groups = _words(tokenizer, ids)
        labels = [_label(tokenizer, [ids[index] for index in group]) for group in groups]
        return cls(ids, tokenizer.pieces(ids), groups, labels)

    def to_list(self) -> list[dict[str, Any]]:
        """Words and their pieces, for JSON."""
        return [
            {"text": label, "pieces": [{"text": self.pieces[index]} for index in word]}
            for label, word in zip(self.labels, self.words, strict=True)
        ]


def encoded(model: ModelDirectory, tokenizer: Tokenizer, text: str) -> list[int]:
    """The token ids of a text with its end of sentence. Raises `DataError` for a text that is too long to be shown."""
    config = model.model.config
    ids = [*tokenizer.encode(text), tokenizer.closing.eos]
    most = min(MOST_TOKENS, config.max_length or MOST_TOKENS)
    if len(ids) > most:
        raise DataError(f"A text has {len(ids)} tokens, and at most {most} can be shown; give one sentence at a time.")
    return ids


@torch.inference_mode()
def forced_decoding(
    model: Transformer, source_ids: list[int], target_ids: list[int], *, given: int = 0
) -> tuple[Float[Tensor, "target vocab"], dict[str, Heads]]:
    """Log-probabilities and attention of `model` when it is given `target_ids` to predict from `source_ids`.

    Both end with the end of sentence. Row i belongs to the position that predicts token i; its input is the token
    before. The first `given` tokens, such as that of a language, are certain: no others could stand there. The
    attention has the keys `encoder`, `decoder` and `cross`; each row of weights sums to 1.
    """
    config, device = model.config, next(model.parameters()).device
    inputs = torch.tensor([[config.bos_id, *target_ids[:-1]]], device=device)
    recorded = AttentionMaps()
    with evaluating(model):
        states = model.states(torch.tensor([source_ids], device=device), inputs, maps=recorded)[0]
        logits = model.project(states)
    heads = {kind: _heads_of(layers) for kind, layers in vars(recorded).items()}
    log_probs = logits.float().log_softmax(-1).cpu()
    log_probs[:given] = -torch.inf
    log_probs[range(given), target_ids[:given]] = 0.0
    return log_probs, heads


def _heads_of(layers: list[Recorded]) -> Heads:
    """What all layers recorded of one sentence pair, layer by layer."""
    return Heads(
        query=_stacked(layer.query for layer in layers),
        key=_stacked(layer.key for layer in layers),
        value=_stacked(layer.value for layer in layers),
        weights=_stacked(layer.weights for layer in layers),
    )


def _stacked(layers: Iterable[Tensor]) -> Maps:
    return torch.cat(list(layers)).float().cpu().numpy()


@dataclass(frozen=True)
class WordAttention:
    """Cross-attention of a sentence pair: how much each target word took from each source word."""

    source_words: list[str]
    """Words of the source, up to and including the end of sentence."""
    target_words: list[str]
    """Words of the target, up to and including the end of sentence."""
    layers: list[Weights]
    """One matrix for each decoder layer, the mean over its heads; each row sums to 1."""

    def clearest_layer(self) -> int:
        """Index of the layer that distinguishes best between the source words."""
        return clearest_layer(self.layers)

    def reordering(self) -> float:
        """How often, and how surely, attention steps back from one target word to the next.

        A sum of weights per target word; 0 for a translation word by word.
        """
        weights = self.layers[self.clearest_layer()]
        positions, peaks = weights.argmax(1), weights.max(1)
        sureness = np.minimum(peaks[:-1], peaks[1:])
        return float(sureness[positions[1:] < positions[:-1]].sum() / len(weights))


def word_attention(model: ModelDirectory, source_text: str, target_text: str) -> WordAttention:
    """Cross-attention between words while the model predicts a given translation."""
    source_text, target_text = model.preprocessor.pair(source_text, target_text)
    max_length = model.model.config.max_length
    source = _truncated_axis(model.source_tokenizer, source_text, max_length)
    target = _truncated_axis(model.target_tokenizer, target_text, max_length)
    _, heads = forced_decoding(model.model, source.ids, target.ids)
    layers = by_word(heads["cross"].weights.mean(1), target.words, source.words)
    return WordAttention(source.labels, target.labels, list(layers))


def _truncated_axis(tokenizer: Tokenizer, text: str, max_length: int | None) -> Axis:
    """The axis of a text and its end of sentence, at most `max_length` tokens together."""
    ids = tokenizer.encode(text)
    # Tokenized again, a translation that was truncated may have more tokens than there are positions.
    if max_length:
        ids = ids[: max_length - 1]
    return Axis.of(tokenizer, [*ids, tokenizer.closing.eos])


def clearest_layer(layers: Iterable[Weights]) -> int:
    """Index of the layer with the most mutual information between its rows and the columns they attend to.

    Low entropy is not enough: a layer that always looks at the end of sentence is certain, and says nothing.
    """
    return int(np.argmax([_entropy(weights.mean(0, keepdims=True)) - _entropy(weights) for weights in layers]))


def most_reordered(candidates: Iterable[WordAttention]) -> WordAttention | None:
    """The sentence that shows best how translation changes the order of words, preferably one that fits on a page."""
    return max(candidates, key=_suitability, default=None)


def _suitability(candidate: WordAttention) -> tuple[bool, float]:
    """Sort key of `most_reordered`: whether the picture fits on a page, then how much the order of words changes."""
    return len(candidate.source_words) <= WIDEST, candidate.reordering()


def _words(tokenizer: Tokenizer, ids: list[int]) -> list[list[int]]:
    """The token indices of each word as `decoding.alignment` splits them, or of each character in scripts without
    spaces. All other tokens stand alone."""
    slots = Prepared("", list(SLOTS))  # each slot stands for itself
    word_of = {index: number for number, word in enumerate(words(tokenizer, ids, slots)) for index in word}
    # A tokenizer may put a space before a text, which is no part of the text; here it belongs to the first word.
    spaces = [index for index, id_ in enumerate(ids) if id_ not in tokenizer.special_ids and index not in word_of]
    word_of |= {index: word_of[index + 1] for index in spaces if index + 1 in word_of}
    # ~index is a number that no word and no other token has.
    keys = [word_of.get(index, ~index) for index in range(len(ids))]
    groups = []
    for _, indices in groupby(range(len(ids)), keys.__getitem__):
        group = list(indices)
        if is_unspaced(tokenizer.decode([ids[index] for index in group])):
            groups += _whole_characters(tokenizer, ids, group)
        else:
            groups.append(group)
    return groups


def _whole_characters(tokenizer: Tokenizer, ids: list[int], word: list[int]) -> list[list[int]]:
    """The token indices of a word in the smallest groups that form characters: a piece may hold several characters, or
    some bytes of one."""
    groups: list[list[int]] = [[]]
    for index in word:
        groups[-1].append(index)
        text = tokenizer.decode([ids[i] for i in groups[-1]])
        if text.strip() and "\N{REPLACEMENT CHARACTER}" not in text:
            groups.append([])
    return [group for group in groups if group]


def _label(tokenizer: Tokenizer, ids: list[int]) -> str:
    """The text of a word; its pieces if the text is empty or cannot be printed."""
    word = tokenizer.decode(ids).strip()  # together, since a piece may end inside a character
    legible = word.isprintable() and "\N{REPLACEMENT CHARACTER}" not in word
    return word if word and legible else "".join(tokenizer.pieces(ids))


def _entropy(weights: Weights) -> float:
    """Mean entropy of the rows, in nats."""
    return float(-(weights * np.log(np.maximum(weights, 1e-12))).sum(-1).mean())
