"""The Transformer (figure 1): encoder, decoder, and both together."""

from typing import Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.model.attention import AttentionMaps, DecoderCache, causal_mask
from dragoman.model.config import TransformerConfig
from dragoman.model.dropout import Dropout
from dragoman.model.formula import Formula
from dragoman.model.initialisation import initialise
from dragoman.model.layers import DecoderLayer, Embedding, EncoderLayer, Norm, build_positions

SourceMask = Bool[Tensor, "batch src_len"]
Memory = Float[Tensor, "batch src_len d_model"]
SLICE = 64
"""Rows whose logits exist at the same time on a CPU: they stay in the cache, and need little memory."""


class Encoder(nn.Module):
    """Computes the memory, the states of all source tokens, from their ids."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        positions, rotation = build_positions(config)
        self.embedding = Embedding(config, config.source_vocab_size, positions)
        self.layers = nn.ModuleList(EncoderLayer(config, rotation) for _ in range(config.num_encoder_layers))
        self.norm = Norm(config) if config.norm_order == "pre" else nn.Identity()

    def forward(
        self, source_ids: Int[Tensor, "batch src_len"], mask: SourceMask, maps: AttentionMaps | None = None
    ) -> Memory:
        x = self.embedding(source_ids)
        for layer in self.layers:
            x = layer(x, mask[:, None, None, :], maps)
        return self.norm(x)


class Decoder(nn.Module):
    """Computes states that predict the next token from target ids and the memory."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        positions, rotation = build_positions(config)
        self.embedding = Embedding(config, config.target_vocab_size, positions)
        self.layers = nn.ModuleList(DecoderLayer(config, rotation) for _ in range(config.num_decoder_layers))
        self.norm = Norm(config) if config.norm_order == "pre" else nn.Identity()

    def forward(
        self,
        target_ids: Int[Tensor, "rows tgt_len"],
        memory: Memory,
        memory_mask: SourceMask,
        cache: DecoderCache | None = None,
        maps: AttentionMaps | None = None,
    ) -> Float[Tensor, "rows tgt_len d_model"]:
        past, length = cache.length if cache else 0, target_ids.size(1)
        x = self.embedding(target_ids, past)
        mask = causal_mask(length, past=past, device=x.device) if length > 1 else None
        for index, layer in enumerate(self.layers):
            layer_cache = cache.layers[index] if cache else None
            x = layer(x, memory, mask, memory_mask[:, None, None, :], layer_cache, maps)
        return self.norm(x)


class Transformer(nn.Module):
    """An encoder-decoder Transformer with the architecture `config` and random weights.

    Each row of target ids holds one sentence that begins with `bos_id`; short rows are filled up with `pad_id`. Masks
    are True where attention may look. By default the source mask hides `pad_id`.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.encoder, self.decoder = Encoder(config), Decoder(config)
        self.projection_dropout = Dropout(config.projection_dropout)
        self.projection = nn.Linear(config.d_model, config.target_vocab_size, bias=config.projection_bias)
        self.initialise()
        if config.share_embeddings:
            self.encoder.embedding.table.weight = self.decoder.embedding.table.weight
        if config.tie_projection:
            self.projection.weight = self.decoder.embedding.table.weight

    def initialise(self) -> Self:
        """Draw all weights anew."""
        initialise(self, self.config, tied=self.projection if self.config.tie_projection else None)
        return self

    def encode(self, source_ids: Int[Tensor, "batch src_len"], source_mask: SourceMask | None = None) -> Memory:
        """The memory, to which the decoder attends: one vector for each source token."""
        return self.encoder(source_ids, self._mask(source_ids, source_mask))

    def decode(
        self,
        target_ids: Int[Tensor, "rows tgt_len"],
        memory: Memory,
        source_mask: SourceMask,
        cache: DecoderCache | None = None,
    ) -> Float[Tensor, "rows tgt_len tgt_vocab"]:
        """Logits for the token after each of `target_ids`.

        With a cache, `target_ids` holds only the new tokens, and several rows may share one of `memory`.
        """
        return self.project(self.decoder(target_ids, memory, source_mask, cache))

    def forward(
        self,
        source_ids: Int[Tensor, "batch src_len"],
        target_ids: Int[Tensor, "batch tgt_len"],
        source_mask: SourceMask | None = None,
    ) -> Float[Tensor, "batch tgt_len tgt_vocab"]:
        """Logits for the token after each of `target_ids`, all at once."""
        return self.project(self.states(source_ids, target_ids, source_mask))

    def states(
        self,
        source_ids: Int[Tensor, "batch src_len"],
        target_ids: Int[Tensor, "batch tgt_len"],
        source_mask: SourceMask | None = None,
        maps: AttentionMaps | None = None,
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """The states that `forward` projects to logits. The loss starts from them, so that it never holds all logits.

        The attention of this call is recorded in `maps`, if given.
        """
        source_mask = self._mask(source_ids, source_mask)
        memory = self.encoder(source_ids, source_mask, maps)
        return self.decoder(target_ids, memory, source_mask, maps=maps)

    def project(self, states: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape tgt_vocab"]:
        """Logits of states of the decoder."""
        return self.projection(self.projection_dropout(states))

    def log_probs(self, states: Float[Tensor, "rows d_model"], out: Float[Tensor, "rows tgt_vocab"]) -> None:
        """Write the log-probabilities of the next token after each state to `out`, in float32."""
        rows = SLICE if states.device.type == "cpu" else max(1, len(states))
        for part, out_part in zip(states.split(rows), out.split(rows), strict=True):
            log_softmax(self.project(part), out_part)

    def new_cache(self) -> DecoderCache:
        """An empty cache for `decode`."""
        return DecoderCache(self.config.num_decoder_layers)

    def _mask(self, source_ids: Tensor, source_mask: SourceMask | None) -> SourceMask:
        return source_ids != self.config.pad_id if source_mask is None else source_mask


@Formula
def log_softmax(logits: Float[Tensor, "rows vocab"], out: Float[Tensor, "rows vocab"]) -> None:
    """Write log-probabilities in float32 to `out`."""
    torch.log_softmax(logits.detach(), -1, dtype=torch.float32, out=out)


def linear_maps(model: nn.Module) -> list[nn.Linear]:
    """The linear maps inside the layers: all but the projection to the vocabulary."""
    modules = model.named_modules()
    return [module for name, module in modules if isinstance(module, nn.Linear) and name != "projection"]
