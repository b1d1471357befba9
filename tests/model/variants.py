"""Small models for the tests of this folder: one of every kind that the config can describe."""

from typing import Any

import torch
from torch import Tensor

from dragoman.model import Transformer, TransformerConfig

SIZES: dict[str, Any] = {
    "source_vocab_size": 53,
    "target_vocab_size": 47,
    "d_model": 30,
    "d_ff": 41,
    "num_heads": 3,
    "num_encoder_layers": 2,
    "num_decoder_layers": 3,
    "dropout": 0.0,
}

VARIANTS: dict[str, dict[str, Any]] = {
    "pre-norm": {},
    "post-norm": {"norm_order": "post"},
    "rms": {"norm": "rms"},
    "scalar-gain": {"norm_gain": "scalar"},
    "scalar-rms": {"norm": "rms", "norm_gain": "scalar", "norm_order": "post"},
    "concatenated": {"positions": "sinusoidal-concatenated"},
    "learned": {"positions": "learned", "max_positions": 43},
    "rotary": {"positions": "rotary"},
    "gelu": {"activation": "gelu"},
    "silu": {"activation": "silu"},
    "swiglu": {"activation": "swiglu"},
    "positions-again": {"decoder_feed_forward": "positions", "norm_order": "post"},
    "positions-again-pre-norm": {"decoder_feed_forward": "positions", "positions": "sinusoidal-concatenated"},
    "unscaled": {"scale_embeddings": False},
    "shared": {"share_embeddings": True, "source_vocab_size": 47},
    "untied": {"tie_projection": False},
    "compiled": {"d_model": 48},  # heads as wide as the compiled kernel takes
    "biased": {"projection_bias": True},
    "shared-untied": {"share_embeddings": True, "source_vocab_size": 47, "tie_projection": False},
}


def small_config(**choices: Any) -> TransformerConfig:
    """Sizes are distinct, and primes where none has to divide another."""
    return TransformerConfig(**(SIZES | choices))


def build(**choices: Any) -> Transformer:
    """A model in evaluation mode without a weight that is 0 or 1, so that none can be left out."""
    torch.manual_seed(11)
    model = Transformer(small_config(**choices))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model.eval()


def sentences(model: Transformer, *, rows: int, src_len: int, tgt_len: int) -> tuple[Tensor, Tensor]:
    """Random source and target ids without special ones."""
    return (
        torch.randint(4, model.config.source_vocab_size, (rows, src_len)),
        torch.randint(4, model.config.target_vocab_size, (rows, tgt_len)),
    )
