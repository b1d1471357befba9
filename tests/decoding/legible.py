"""Random models that say whole characters only: translations with parts of characters are searched for again."""

import torch

from dragoman.model import Transformer
from dragoman.text.tokenizers.tokenizer import Tokenizer


def legible(model: Transformer, tokenizer: Tokenizer) -> Transformer:
    """The model, whose bias keeps it from tokens that are parts of characters."""
    parts = [id_ for id_, token in enumerate(tokenizer.vocabulary()) if "\ufffd" in token.decode(errors="replace")]
    with torch.no_grad():
        model.projection.bias[parts] = -30
    return model
