"""The weights of a trained model for a new vocabulary: what a model of other languages can begin with.

A model that has learned one language translates another one sooner than one with random weights: Zoph et al. 2016,
"Transfer Learning for Low-Resource Neural Machine Translation". Pieces that both vocabularies have keep their
embeddings. A new piece begins with the mean of those of its parts.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from dragoman.engine.parameters import OF_SOURCES, OF_TARGETS
from dragoman.model import Transformer
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.parts import longest_parts
from dragoman.text.tokenizers.tokenizer import Tokenizer


def weights_for_vocabulary(
    parent: ModelDirectory, model: Transformer, tokenizers: tuple[Tokenizer, Tokenizer]
) -> dict[str, Tensor]:
    """All weights of `parent` by name, with a row for each piece of new `tokenizers` in the tables of `model`.

    `model` has the architecture of the parent. Rows of pieces without a known part stay as they are in it.
    """
    sides = zip(parent.tokenizers, tokenizers, strict=True)
    source_parts, target_parts = (parts_of_vocabulary(old, new) for old, new in sides)
    parts_by_name = {OF_SOURCES: source_parts} | dict.fromkeys(OF_TARGETS, target_parts)
    known = dict(parent.model.named_parameters())
    weights: dict[str, Tensor] = {}
    for name, fresh in model.named_parameters():
        if name in parts_by_name:
            weights[name] = _rows_of_parts(known[name].detach(), fresh.detach().clone(), parts_by_name[name])
        else:
            weights[name] = known[name].detach()
    return weights


def parts_of_vocabulary(old: Tokenizer, new: Tokenizer) -> list[list[int]]:
    """For each piece of `new` the ids in `old` of its parts: the piece itself if it is known; none if nothing is."""
    known: dict[bytes, int] = {}
    for id_, content in enumerate(old.vocabulary()):
        known.setdefault(content, id_)
    parts = [[known[part] for part in longest_parts(content, known) if part in known] for content in new.vocabulary()]
    for old_id, new_id in zip(old.special_ids, new.special_ids, strict=True):
        parts[new_id] = [old_id]
    return parts


def _rows_of_parts(known: Tensor, fresh: Tensor, parts: Sequence[Iterable[int]]) -> Tensor:
    """A table, or a bias, whose rows are the means of known rows; rows without parts are those of `fresh`."""
    for row, ids in enumerate(parts):
        indices = torch.tensor(list(ids), dtype=torch.long)
        if len(indices):
            fresh[row] = known[indices].mean(dim=0)
    return fresh
