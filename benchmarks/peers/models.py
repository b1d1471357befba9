"""Encoder-decoders that people would train instead, each as a function of (source ids, target ids) to logits.

They have the sizes of a TransformerConfig, no dropout in attention and in the middle of the feed-forward network (as
Dragoman by default, which suits their fast paths) where there is a choice, and the shared and tied table of embeddings
where their own code allows for it. `Peer.differences` says what is different in weights, to the last one.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import Tensor, nn
from transformers import MarianMTModel
from x_transformers import Decoder, Encoder, TransformerWrapper

from dragoman.model import TransformerConfig
from dragoman.model.layers import SinusoidalPositions
from peers.marian import marian_like
from peers.notebooks import POSTNORM, PRENORM, NotebookA, notebook_b

LONGEST = 512
"""Positions of learned tables."""


@dataclass(frozen=True)
class Peer:
    """A model of somebody else, in the ways it can be run."""

    name: str
    models: dict[str, nn.Module]
    """Variants by their names, "" for the plain one. forward(source_ids, target_ids) returns logits."""
    differences: dict[str, int] = field(default_factory=dict)
    """Numbers of weights that it has in addition to our model of the same config, by reason."""


class TorchTransformer(nn.Module):
    """`torch.nn.Transformer` with embeddings, sinusoidal positions and a tied projection around it."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.table = nn.Embedding(config.source_vocab_size, config.d_model)
        self.positions = SinusoidalPositions(config)
        self.dropout = nn.Dropout(config.dropout)
        layers = {"num_encoder_layers": config.num_encoder_layers, "num_decoder_layers": config.num_decoder_layers}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "enable_nested_tensor")  # which is of inference, and cannot be set here
            self.body = nn.Transformer(
                config.d_model, config.num_heads, **layers, dim_feedforward=config.d_ff, dropout=config.dropout,
                batch_first=True, norm_first=True,
            )  # fmt: skip
        for layer in (*self.body.encoder.layers, *self.body.decoder.layers):
            layer.dropout.p = layer.self_attn.dropout = 0.0
            if hasattr(layer, "multihead_attn"):
                layer.multihead_attn.dropout = 0.0

    def forward(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        hidden = source_ids == 0
        future = nn.Transformer.generate_square_subsequent_mask(target_ids.size(1))
        states = self.body(
            self.embed(source_ids), self.embed(target_ids), src_key_padding_mask=hidden,
            memory_key_padding_mask=hidden, tgt_mask=future, tgt_is_causal=True,
        )  # fmt: skip
        return states @ self.table.weight.T

    def embed(self, ids: Tensor) -> Tensor:
        scaled = self.table(ids) * self.table.embedding_dim**0.5
        return self.dropout(scaled + self.positions(0, ids.size(1)).to(scaled.dtype))


class XTransformers(nn.Module):
    """An encoder and a decoder of x-transformers over one table; `flash` calls PyTorch's fused attention."""

    def __init__(self, config: TransformerConfig, *, flash: bool):
        super().__init__()
        stack = {
            "dim": config.d_model, "heads": config.num_heads, "attn_dim_head": config.d_model // config.num_heads,
            "ff_mult": config.d_ff / config.d_model, "ff_custom_activation": nn.ReLU(), "attn_flash": flash,
            "attn_sublayer_dropout": config.dropout, "ff_sublayer_dropout": config.dropout,
        }  # fmt: skip
        around = {"num_tokens": config.source_vocab_size, "max_seq_len": LONGEST, "emb_dropout": config.dropout}
        encoder = Encoder(depth=config.num_encoder_layers, **stack)
        decoder = Decoder(depth=config.num_decoder_layers, cross_attend=True, **stack)
        self.encoder = TransformerWrapper(**around, return_only_embed=True, attn_layers=encoder)
        shared = self.encoder.token_emb
        self.decoder = TransformerWrapper(**around, tie_embedding=True, token_emb=shared, attn_layers=decoder)

    def forward(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        seen = source_ids != 0
        memory = self.encoder(source_ids, mask=seen, return_embeddings=True)
        return self.decoder(target_ids, context=memory, context_mask=seen)


class Marian(nn.Module):
    """MarianMTModel of `transformers`."""

    def __init__(self, model: MarianMTModel):
        super().__init__()
        self.model = model.train()

    def forward(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        mask = source_ids != 0
        return self.model(input_ids=source_ids, attention_mask=mask, decoder_input_ids=target_ids).logits


def peers(config: TransformerConfig) -> Iterator[Peer]:
    """Everybody's model of these sizes, with fresh weights."""
    d, table = config.d_model, config.source_vocab_size * config.d_model
    encoder, decoder = config.num_encoder_layers, config.num_decoder_layers
    norms = 2 * encoder + 3 * decoder + 2
    yield Peer("torch.nn.Transformer", {"": TorchTransformer(config)})
    yield Peer("MarianMTModel", {"": Marian(marian_like(config))}, {"no final norms": -4 * d})
    flash = {
        "fused attention": XTransformers(config, flash=True),
        "plain attention": XTransformers(config, flash=False),
    }
    less = {"no biases in attention": -(encoder + 2 * decoder) * 4 * d, "nor in norms": -norms * d}
    yield Peer("x-transformers", flash, {"learned positions": 2 * LONGEST * d} | less)
    untied = {"a table for each side, and a projection of its own with a bias": 2 * table + config.source_vocab_size}
    if PRENORM.is_file():
        scalar = {"norms of one gain and one bias": -norms * 2 * (d - 1)}
        yield Peer("notebook A", {"": NotebookA(config)}, untied | scalar)
    if POSTNORM.is_file():
        yield Peer("notebook B", {"": notebook_b(config)}, untied | {"no final norms": -4 * d})
