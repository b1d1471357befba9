"""Small models and tokenizers, and a pickle that shows whether somebody reads it."""

import os
from pathlib import Path

import torch

from dragoman.model import Transformer
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.small import small_model

LAYERS = {"num_encoder_layers": 2, "num_decoder_layers": 3}
SIZES = {"d_model": 22, "d_ff": 31, "num_heads": 1, **LAYERS}
IDS = torch.tensor([[5, 7, 11, 3], [13, 3, 0, 0]]), torch.tensor([[2, 17, 19], [2, 23, 29]])


def random_model(source: Tokenizer, target: Tokenizer, **choices) -> Transformer:
    model = small_model(source.vocab_size, **({"target_vocab_size": target.vocab_size} | SIZES | choices))
    with torch.no_grad():  # gains and biases that are not all alike
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


class Bomb:
    """Makes a folder when it is unpickled."""

    def __init__(self, canary: Path):
        self.canary = canary

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.canary),)
