"""A model in eight bits on a CPU: the encoder, and a step of the decoder, each compiled as a whole (int8.h).

Processors without AVX2, and models with odd widths, have none of this.
"""

import ctypes
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.model.attention import DecoderCache
from dragoman.model.config import TransformerConfig
from dragoman.model.fast import int8_linear, library
from dragoman.model.fast.int8_linear import Int8Linear, LinearStruct, Pointer, Size, check
from dragoman.model.fast.prepacked_weights import with_products
from dragoman.model.layers import ACTIVATIONS, Norm
from dragoman.model.transformer import Transformer

NUMBERS = {"relu": 0, "gelu": 1, "silu": 2}
"""Codes of the activation functions in int8.h."""


class _Norm(ctypes.Structure):
    _fields_ = [("gain", Pointer), ("bias", Pointer)]


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, LinearStruct) for name in ("own", "own_output", "query", "memory_output", "inner", "gate", "outer")),
        ("norms", _Norm * 3),
        ("memory", Pointer),
    ]


class _Stack(ctypes.Structure):
    _fields_ = [
        ("layers", ctypes.POINTER(_Layer)), *((name, Size) for name in ("num_layers", "d_model", "d_ff", "heads")),
        ("norm", _Norm), ("activation", ctypes.c_int), ("eps", ctypes.c_float), ("pre_norm", ctypes.c_int),
    ]  # fmt: skip


class _Step(ctypes.Structure):
    _fields_ = [
        ("x", Pointer), ("rows", Size), ("length", Size), ("positions", ctypes.POINTER(Pointer)),
        ("position_rows", ctypes.POINTER(Size)), ("ancestors", Pointer), ("sentences", Pointer),
        ("source_lengths", Pointer), ("source_length", Size), ("turns", Pointer),
    ]  # fmt: skip


class _Sources(ctypes.Structure):
    _fields_ = [("x", Pointer), ("rows", Size), ("length", Size), ("lengths", Pointer), ("turns", Pointer)]


def can_quantise(config: TransformerConfig) -> bool:
    """Whether this processor and this library can multiply the eight-bit weights of such a model."""
    widths = config.d_model, config.d_ff, config.d_model // config.num_heads
    return int8_linear.functions is not None and not any(width % library.LANES for width in widths)


def in_int8(model: Transformer) -> Transformer:
    """A copy for inference on a CPU, with the parameters of `model`; it does not see later changes of them."""
    twin = with_products(model, Int8Linear)
    twin.encoder.forward = Int8Encoder(twin.encoder, twin.config).forward  # type: ignore[method-assign]
    twin.decoder.forward = Int8Decoder(twin.decoder, twin.config).forward  # type: ignore[method-assign]
    twin.new_cache = Int8Cache  # type: ignore[method-assign]
    twin.log_probs = twin.projection.forward.log_probs  # type: ignore[method-assign, attr-defined]
    return twin


def is_int8(model: Transformer) -> bool:
    """Whether `in_int8` has made this model."""
    return model.new_cache is Int8Cache


class Int8Cache(DecoderCache):
    """Cache that is never reordered: each row stores the indices of its ancestors."""

    def __init__(self) -> None:
        super().__init__(num_layers=0)
        self.positions: list[Tensor] = []
        """Keys and values of each target position, (layers, rows at that time, 2, d_model)."""
        self.ancestors = torch.empty(0, 0, dtype=torch.int32)
        """For each row and position, the row of `positions` that it continues."""
        self.sentences = torch.empty(0, dtype=torch.int32)
        """For each row, the row of the memory that it reads."""
        self.memory: list[Tensor] = []
        """Keys and values of the memory for each layer, (sentences, src_len, 2, d_model)."""
        self.source_lengths = torch.empty(0, dtype=torch.int32)
        self.stack = _Stack()
        """The layers of the decoder as int8.h takes them, over this memory."""

    @property
    def length(self) -> int:
        """Target positions decoded so far."""
        return len(self.positions)

    def reorder(self, rows: Int[Tensor, " kept"], memory_rows: Int[Tensor, " groups"] | None = None) -> None:
        """Keep these target rows. The memory stays: `sentences` says which part of it each row reads."""
        self.ancestors, self.sentences = self.ancestors[rows], self.sentences[rows]


class _Layers:
    """The layers of an encoder or decoder whose linear layers are `Int8Linear`, as int8.h takes them."""

    def __init__(self, module: Any, config: TransformerConfig):
        self.config, self.embedding, self.plain = config, module.embedding, module.forward
        self.rotation = module.layers[0].self_attention.rotation
        self._kept: list[Any] = []
        self.layers = (_Layer * len(module.layers))(*map(self._layer, module.layers))
        self.norm = self._norm(module.norm) if isinstance(module.norm, Norm) else _Norm()

    def stack(self, layers: ctypes.Array[_Layer]) -> _Stack:
        """The structure that describes these layers to int8.h."""
        config = self.config
        return _Stack(
            layers, len(layers), config.d_model, config.d_ff, config.num_heads, self.norm,
            NUMBERS[ACTIVATIONS[config.activation]], config.norm_eps, config.norm_order == "pre",
        )  # fmt: skip

    def embedded(self, ids: Int[Tensor, "rows length"], offset: int = 0) -> Float[Tensor, "rows length d_model"]:
        """The input of the first layer, which int8.h overwrites."""
        return self.embedding(ids, offset).float().contiguous()

    def turns(self, length: int, x: Tensor) -> Tensor | None:
        """Cosines and sines of rotary positions, (length, 2, width of a head); None for other positions."""
        if self.rotation is None:
            return None
        return self.rotation.turns_before(length, x.unflatten(2, (self.config.num_heads, -1)))

    def _layer(self, layer: Any) -> _Layer:
        attention, network = layer.self_attention, layer.feed_forward
        cross_attention = getattr(layer, "cross_attention", None)
        linears = [attention.project.args[0], attention.output.forward]
        linears += [cross_attention.query.forward, cross_attention.output.forward] if cross_attention else [None, None]
        linears += [network.inner.forward, network.gate and network.gate.forward, network.outer.forward]
        structs = [linear.struct if linear else LinearStruct() for linear in linears]
        norms = [self._norm(residual.norm) for residual in layer.residuals]
        return _Layer(*structs, (_Norm * 3)(norms[0], norms[1], norms[-1]))

    def _norm(self, norm: Norm) -> _Norm:
        tensors = [norm.gain] if norm.bias is None else [norm.gain, norm.bias]
        expanded = [tensor.detach().float().expand(self.config.d_model).contiguous() for tensor in tensors]
        self._kept += expanded  # the structure points to them
        return _Norm(*(tensor.data_ptr() for tensor in expanded))


class Int8Encoder(_Layers):
    """The encoder of a model whose linear layers are `Int8Linear`: `forward` in its place."""

    def forward(self, source_ids: Tensor, mask: Tensor, maps: Any = None) -> Float[Tensor, "batch src_len d_model"]:
        """As `Encoder.forward`; where there is padding, the memory holds nothing of use."""
        if maps is not None:
            return self.plain(source_ids, mask, maps)
        x, lengths = self.embedded(source_ids), mask.sum(1, dtype=torch.int32)
        turns = self.turns(x.size(1), x)
        pointer = None if turns is None else turns.data_ptr()
        sources = _Sources(x.data_ptr(), *source_ids.shape, lengths.data_ptr(), pointer)
        check(int8_linear.functions.encode(ctypes.byref(self.stack(self.layers)), ctypes.byref(sources)))
        return x


class Int8Decoder(_Layers):
    """The decoder of a model whose linear layers are `Int8Linear`: `forward` in its place."""

    def __init__(self, module: Any, config: TransformerConfig):
        super().__init__(module, config)
        self.memory_products = [layer.cross_attention.project.args[0] for layer in module.layers]

    def forward(
        self, target_ids: Tensor, memory: Tensor, memory_mask: Tensor, cache: Any = None, maps: Any = None
    ) -> Float[Tensor, "rows tgt_len d_model"]:
        """As `Decoder.forward`; compiled with an `Int8Cache`, one token after another."""
        if not isinstance(cache, Int8Cache):
            return self.plain(target_ids, memory, memory_mask, cache, maps)
        if not cache.memory:
            self._fill(cache, memory, memory_mask, rows=len(target_ids))
        steps = [self._step(column[:, None], cache) for column in target_ids.T]
        return torch.cat(steps, dim=1)

    def _fill(self, cache: Int8Cache, memory: Tensor, mask: Tensor, *, rows: int) -> None:
        cache.memory = [product(memory).bfloat16() for product in self.memory_products]
        layers = type(self.layers).from_buffer_copy(self.layers)
        for layer, contents in zip(layers, cache.memory, strict=True):
            layer.memory = contents.data_ptr()
        cache.stack = self.stack(layers)
        cache.source_lengths = mask.sum(1, dtype=torch.int32)
        cache.sentences = torch.arange(len(memory), dtype=torch.int32).repeat_interleave(rows // len(memory))
        cache.ancestors = torch.empty(rows, 0, dtype=torch.int32)

    def _step(self, tokens: Int[Tensor, "rows 1"], cache: Int8Cache) -> Float[Tensor, "rows 1 d_model"]:
        config, rows, length = self.config, len(tokens), cache.length + 1
        x = self.embedded(tokens, cache.length)
        keys_and_values = torch.empty(config.num_decoder_layers, rows, 2, config.d_model, dtype=torch.bfloat16)
        cache.positions.append(keys_and_values)
        cache.ancestors = torch.cat([cache.ancestors, torch.arange(rows, dtype=torch.int32)[:, None]], dim=1)
        turns = self.turns(length, x)
        step = _Step(
            x.data_ptr(), rows, length,
            (Pointer * length)(*map(Tensor.data_ptr, cache.positions)),
            (Size * length)(*(position.size(1) for position in cache.positions)),
            *(tensor.data_ptr() for tensor in (cache.ancestors, cache.sentences, cache.source_lengths)),
            cache.memory[0].size(1), None if turns is None else turns[-1].data_ptr(),
        )  # fmt: skip
        check(int8_linear.functions.decoder_step(ctypes.byref(cache.stack), ctypes.byref(step)))
        return x
