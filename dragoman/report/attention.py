"""Which source words each target word attended to."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.data.placeholders import mask_pair
from dragoman.data.tokenizer import Tokenizer
from dragoman.evaluation import evaluating
from dragoman.model import Transformer
from dragoman.model.attention import record_attention

Weights = Float[np.ndarray, "target_words source_words"]

MOST_PIECES_PER_WORD = 4  # on average, end of sentence included
WIDEST = 16


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


@torch.inference_mode()
def word_attention(
    model: Transformer,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    source_text: str,
    target_text: str,
) -> WordAttention:
    """What `model` attends to, in its cross-attention, while it predicts a given translation.

    Words are what white space separates. A source word is given the sum over its pieces, a target
    word has the mean over its pieces.
    """
    config, device = model.config, next(model.parameters()).device
    if source_tokenizer.placeholders:
        source_text, target_text = mask_pair(source_text, target_text, source_tokenizer.symbols)
    source_ids = [*source_tokenizer.encode(source_text.strip()), config.eos_id]
    target_ids = [*target_tokenizer.encode(target_text.strip()), config.eos_id]
    # A token's row is that of the position that predicts it, whose input is the token before.
    inputs = torch.tensor([[config.bos_id, *target_ids[:-1]]], device=device)
    with evaluating(model), record_attention(model) as maps:
        model(torch.tensor([source_ids], device=device), inputs)
    sources, targets = _words(source_tokenizer, source_ids), _words(target_tokenizer, target_ids)
    names = [f"decoder.layers.{i}.cross_attention" for i in range(config.num_decoder_layers)]
    return WordAttention(
        [_label(source_tokenizer, [source_ids[i] for i in word]) for word in sources],
        [_label(target_tokenizer, [target_ids[i] for i in word]) for word in targets],
        [_by_word(maps[name][0].mean(0), sources, targets) for name in names],
    )


def most_reordered(candidates: Iterable[WordAttention]) -> WordAttention | None:
    """Of several sentences the one that shows best how translation changes the order of words.

    Those of at most `WIDEST` source words go first: their pictures fit on a page.
    """
    return max(
        candidates,
        key=lambda each: (len(each.source_words) <= WIDEST, each.reordering()),
        default=None,
    )


def _by_word(weights: Tensor, sources: list[list[int]], targets: list[list[int]]) -> Weights:
    pieces = weights.float().cpu().numpy()
    columns = np.stack([pieces[:, word].sum(1) for word in sources], axis=1)
    return np.stack([columns[word].mean(0) for word in targets])


def _words(tokenizer: Tokenizer, ids: list[int]) -> list[list[int]]:
    words = tokenizer.words(ids)
    # Scripts without spaces have no such words: there each piece stands for itself.
    spaced = len(words) > 2 and len(ids) <= MOST_PIECES_PER_WORD * len(words)
    return words if spaced else [[i] for i in range(len(ids))]


def _label(tokenizer: Tokenizer, ids: list[int]) -> str:
    word = tokenizer.decode(ids).strip()  # as a whole, since pieces may cut a character
    legible = word.isprintable() and "\N{REPLACEMENT CHARACTER}" not in word
    return word if word and legible else "".join(tokenizer.pieces(ids))


def _mean_entropy(weights: Weights) -> float:
    return float(-(weights * np.log(np.maximum(weights, 1e-12))).sum(-1).mean())
