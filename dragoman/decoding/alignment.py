"""Which target word comes from which source word, from what the decoder attends to.

Words are what spaces separate. A target word is linked to the source word that its tokens attend to most, and to none
if they attend to the end of sentence more than to any word.
"""

import re
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.data.tokenizers.placeholders import unmask
from dragoman.data.tokenizers.tokenizer import Tokenizer
from dragoman.model import Transformer
from dragoman.model.attention import AttentionMaps

Alignment = list[tuple[int, int]]
"""Pairs of a source word and a target word, counted from 0, in the order of the target."""
_SPACES = " \t\n\r\f\v"
_RUNS = re.compile(f"[{_SPACES}]+|[^{_SPACES}]+")


def align(
    model: Transformer,
    source_ids: Int[Tensor, "batch src_len"],
    target_ids: Int[Tensor, "batch tgt_len"],
    *,
    pairs: list[tuple[list[int], list[int], list[str]]],
    tokenizers: tuple[Tokenizer, Tokenizer],
) -> list[Alignment]:
    """Links of each pair; `pairs` are the tokens of the rows of `source_ids` and `target_ids` alone, and the values of
    their slots.
    """
    weights = word_giving_attention(model, source_ids, target_ids).cpu()
    return [
        links(
            weight[: len(target) + 1, : len(source) + 1],
            *(words(tokenizer, ids, values) for tokenizer, ids in zip(tokenizers, (source, target), strict=True)),
        )
        for weight, (source, target, values) in zip(weights, pairs, strict=True)
    ]


def word_giving_attention(
    model: Transformer, source_ids: Int[Tensor, "batch src_len"], target_ids: Int[Tensor, "batch tgt_len"]
) -> Float[Tensor, "batch tgt_len src_len"]:
    """How much each token took from each source token while it was predicted.

    That is the mean over the heads of the middle layers: the first layer hardly knows yet what is to be said, and the
    last one says less about words than the others.
    """
    maps = AttentionMaps()
    model.states(source_ids, target_ids, maps=maps)
    return torch.stack([weights.float().mean(1) for weights in maps.cross[1:-1] or maps.cross]).mean(0)


def links(weights: Float[Tensor, "tgt_len src_len"], source: list[list[int]], target: list[list[int]]) -> Alignment:
    """The links of one sentence; `source` and `target` hold the places of each word's tokens.

    Other rows and columns are those of the end of sentence, and of what else is no word.
    """
    if not source or not target:
        return []
    in_words = {place for word in source for place in word}
    nowhere = [place for place in range(weights.size(1)) if place not in in_words]
    attended = by_word(weights.numpy(), target, [*source, nowhere])
    return [(best, place) for place, best in enumerate(attended.argmax(1).tolist()) if best < len(source)]


def by_word(
    weights: Float[np.ndarray, "*maps queries keys"], rows: list[list[int]], columns: list[list[int]]
) -> Float[np.ndarray, "*maps query_words key_words"]:
    """Weights between words, given the places of the tokens of each.

    A word that is looked at is given the sum over its tokens, a word that looks has the mean over its tokens.
    """
    seen = np.stack([weights[..., word].sum(-1) for word in columns], axis=-1)
    return np.stack([seen[..., word, :].mean(-2) for word in rows], axis=-2)


def words(tokenizer: Tokenizer, ids: list[int], values: Sequence[str] = ()) -> list[list[int]]:
    """The places of the tokens of each word, as spaces separate them where slots are filled with their `values`.

    A token that adds several words to the text, as a tag may, is in each.
    """
    found: list[list[int]] = []
    inside, before = False, []
    for place, said in enumerate(tokenizer.token_bytes(ids)):
        # A token may end inside a character, which is no slot then.
        runs = _RUNS.findall(unmask(said.decode(errors="surrogateescape"), values))
        for run in runs:
            if run[0] in _SPACES:
                inside = False
            elif inside:
                found[-1] += [place] if found[-1][-1] != place else []
            else:
                found.append([*before, place])
                inside, before = True, []
        if runs and not inside and (not found or found[-1][-1] != place):
            before.append(place)  # the space before a word is a part of it
    return found


def pharaoh(alignment: Alignment) -> str:
    """The links as text: `0-0 1-2` links the first words, and the second source word with the third target word."""
    return " ".join(f"{source}-{target}" for source, target in alignment)
