"""The small model of chapter 0, whose numbers the next chapters look at again: width 4, two heads, one layer a side."""

import torch
from torch import Tensor
from transformer import Transformer

WORDS = "pad begin end the cat sleeps le chat dort".split()
SOURCE, TARGET = "the cat sleeps".split(), "begin le chat dort".split()


def ids_of(words: list[str]) -> Tensor:
    """Token ids of these words, (1, length)."""
    return torch.tensor([[WORDS.index(word) for word in words]])


def small_model() -> Transformer:
    """An untrained model whose weights are rounded to one decimal; the same ones on every page."""
    precision = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)  # in another precision the generator draws other numbers
    with torch.random.fork_rng():
        torch.manual_seed(207)
        model = Transformer(len(WORDS), d_model=4, d_ff=8, num_heads=2, num_layers=1, dropout=0.0)
    torch.set_default_dtype(precision)
    model = model.to(precision).eval().requires_grad_(False)
    for weight in model.parameters():
        weight.copy_((10 * weight).round() / 10)
    return model
