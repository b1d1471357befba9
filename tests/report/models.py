"""A small untrained model with everything around it."""

from functools import cache

import torch

from dragoman.data.bitext import Bitext
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.tokenizer import EOS_ID, Tokenizer
from tests import small

SOURCE, TARGET = "The unbelievably red house is old.", "La maison incroyablement rouge est vieille."
HEADS = 3
LAYERS = {"num_encoder_layers": 2, "num_decoder_layers": 3}


@cache
def learned_tokenizer() -> Tokenizer:
    pairs = Bitext.open("builtin:grammar:211")
    return Tokenizer.train([text for pair in pairs for text in pair], vocab_size=401)


def small_model(tokenizer: Tokenizer | None = None, **choices) -> ModelDirectory:
    """Its tokenizer, if none is given, knows the grammar's commonest words; others are in several pieces."""
    tokenizer = tokenizer or learned_tokenizer()
    sizes = {"d_model": 7 * 2 * HEADS, "d_ff": 29, "num_heads": HEADS} | LAYERS
    model = small.small_model(tokenizer.vocab_size, seed=11, **sizes, **choices, dropout=0.5, projection_bias=True)
    model.eval()
    with torch.no_grad():
        model.projection.bias[EOS_ID] = 2.0  # translations of several lengths, not all up to the limit
    return ModelDirectory(model, tokenizer, tokenizer, "en", "fr")
