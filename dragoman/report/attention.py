"""Which tokens each token attended to, and which words each word."""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.data.text import normalised
from dragoman.data.tokenizers.placeholders import mask_pair
from dragoman.data.tokenizers.tokenizer import Tokenizer
from dragoman.decoding.alignment import by_word
from dragoman.evaluation.likelihood import evaluating
from dragoman.model import Transformer
from dragoman.model.attention import AttentionMaps

Weights = Float[np.ndarray, "target_words source_words"]
Maps = Float[np.ndarray, "layers heads queries keys"]

KINDS = ("encoder", "decoder", "cross")
"""The three attentions of the paper (section 3.2.3), as `AttentionMaps` calls them."""

UNSPACED = {"CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"}
"""Scripts that put no spaces between words, as the Unicode names of their characters begin."""
WIDEST = 16


@dataclass(frozen=True)
class Axis:
    """Tokens in their order, and the words that they form."""

    ids: list[int]
    pieces: list[str]
    """A readable piece for each token; a space is "▁"."""
    words: list[list[int]]
    """For each word the places of its tokens."""
    labels: list[str]
    """For each word how to write it."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, ids: list[int]) -> Self:
        """Words are what white space separates; in scripts without spaces, the characters of the pieces."""
        words = _words(tokenizer, ids)
        labels = [_label(tokenizer, [ids[place] for place in word]) for word in words]
        return cls(ids, tokenizer.pieces(ids), words, labels)


@dataclass(frozen=True)
class Reading:
    """What a model did while it predicted a given target."""

    log_probs: Float[Tensor, "target vocab"]
    """Row i is of the position that predicts token i, whose input is the token before."""
    maps: dict[str, Maps]
    """The weights of each of `KINDS`; a row sums to 1."""


@torch.inference_mode()
def read(model: Transformer, source_ids: list[int], target_ids: list[int]) -> Reading:
    """Let `model` predict `target_ids`, and see what it attends to; both end with the end of sentence."""
    config, device = model.config, next(model.parameters()).device
    inputs = torch.tensor([[config.bos_id, *target_ids[:-1]]], device=device)
    recorded = AttentionMaps()
    with evaluating(model):
        states = model.states(torch.tensor([source_ids], device=device), inputs, maps=recorded)[0]
        logits = model.project(states)
    maps = {kind: torch.cat(getattr(recorded, kind)).float().cpu().numpy() for kind in KINDS}
    return Reading(logits.float().log_softmax(-1).cpu(), maps)


@dataclass(frozen=True)
class WordAttention:
    """How much each target word took from each source word."""

    source_words: list[str]
    """The last one is the end of sentence."""
    target_words: list[str]
    """The last one is the end of sentence."""
    layers: list[Weights]
    """One matrix for each decoder layer, the mean over its heads; each row sums to 1."""

    def clearest_layer(self) -> int:
        """The layer in which the target word says most about the source word attended to.

        That is their mutual information. Low entropy is not enough: a layer that always looks at
        the end of sentence is certain, and says nothing.
        """
        told = [_mean_entropy(weights.mean(0, keepdims=True)) - _mean_entropy(weights) for weights in self.layers]
        return int(np.argmax(told))

    def reordering(self) -> float:
        """How often, and how surely, attention steps back from one target word to the next.

        A sum of weights per target word; 0 for a translation word by word.
        """
        weights = self.layers[self.clearest_layer()]
        places, peaks = weights.argmax(1), weights.max(1)
        sureness = np.minimum(peaks[:-1], peaks[1:])
        return float(sureness[places[1:] < places[:-1]].sum() / len(weights))


def word_attention(
    model: Transformer,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    source_text: str,
    target_text: str,
) -> WordAttention:
    """What `model` attends to, in its cross-attention, while it predicts a given translation."""
    eos = model.config.eos_id
    texts = normalised(source_text), normalised(target_text)
    if source_tokenizer.placeholders:
        texts = mask_pair(*texts, source_tokenizer.symbols)
    # Written anew, a translation that was cut may have more tokens than there are positions.
    room = model.config.max_positions - 1 if model.config.positions == "learned" else None
    source = Axis.of(source_tokenizer, [*source_tokenizer.encode(texts[0])[:room], eos])
    target = Axis.of(target_tokenizer, [*target_tokenizer.encode(texts[1])[:room], eos])
    cross = read(model, source.ids, target.ids).maps["cross"].mean(1)
    return WordAttention(source.labels, target.labels, list(by_word(cross, target.words, source.words)))


def most_reordered(candidates: Iterable[WordAttention]) -> WordAttention | None:
    """Of several sentences the one that shows best how translation changes the order of words.

    Those of at most `WIDEST` source words go first: their pictures fit on a page.
    """
    return max(
        candidates,
        key=lambda each: (len(each.source_words) <= WIDEST, each.reordering()),
        default=None,
    )


def _words(tokenizer: Tokenizer, ids: list[int]) -> list[list[int]]:
    words = []
    for word in tokenizer.words(ids):
        text = tokenizer.decode([ids[place] for place in word])
        unspaced = any(unicodedata.name(each, "").partition(" ")[0] in UNSPACED for each in text)
        words += _whole_characters(tokenizer, ids, word) if unspaced else [word]
    return words


def _whole_characters(tokenizer: Tokenizer, ids: list[int], places: list[int]) -> list[list[int]]:
    """Groups of as few pieces as form characters: a piece may hold several, or some bytes of one."""
    groups: list[list[int]] = [[]]
    for place in places:
        groups[-1].append(place)
        text = tokenizer.decode([ids[each] for each in groups[-1]])
        if text.strip() and "\N{REPLACEMENT CHARACTER}" not in text:
            groups.append([])
    return [group for group in groups if group]


def _label(tokenizer: Tokenizer, ids: list[int]) -> str:
    word = tokenizer.decode(ids).strip()  # as a whole, since pieces may cut a character
    legible = word.isprintable() and "\N{REPLACEMENT CHARACTER}" not in word
    return word if word and legible else "".join(tokenizer.pieces(ids))


def _mean_entropy(weights: Weights) -> float:
    return float(-(weights * np.log(np.maximum(weights, 1e-12))).sum(-1).mean())
