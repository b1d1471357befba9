"""Products of eight bits on a CPU: linear layers, and a step of the decoder that is compiled as a whole (int8.c).

Weights have a scale for each output, and activations one for each row, which is found while they are multiplied; the
rest stays as it is. Processors without VNNI of 512 bits, and models with odd widths, have neither.
"""

import ctypes
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.model import kernels
from dragoman.model.attention import DecoderCache
from dragoman.model.config import TransformerConfig
from dragoman.model.layers import ACTIVATIONS, Norm
from dragoman.model.prepacked_weights import with_products
from dragoman.model.transformer import Transformer

GREATEST = 127
"""Whole numbers reach from minus this to this."""
SCALE = ".scale"
"""End of the names of scales in a file of weights."""
NUMBERS = {"relu": 0, "gelu": 1, "silu": 2}
"""Of the activations in int8.c."""
Pointer, Size = ctypes.c_void_p, ctypes.c_int64


class _Linear(ctypes.Structure):
    _fields_ = [(name, Pointer) for name in ("weight", "scale", "bias", "offset")] + [
        ("inputs", Size),
        ("outputs", Size),
    ]


class _Norm(ctypes.Structure):
    _fields_ = [("gain", Pointer), ("bias", Pointer)]


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, _Linear) for name in ("own", "own_output", "query", "memory_output", "inner", "gate", "outer")),
        ("norms", _Norm * 3),
        ("memory", Pointer),
    ]


class _Decoder(ctypes.Structure):
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


def can_quantise(config: TransformerConfig) -> bool:
    """Whether this processor and this library multiply eight bits, and a model of this architecture."""
    widths = config.d_model, config.d_ff, config.d_model // config.num_heads
    return _library is not None and not any(width % kernels.LANES for width in widths)


def in_int8(model: Transformer) -> Transformer:
    """A copy for inference on a CPU, with the parameters of `model`; it does not see later changes of them."""
    twin = with_products(model, Int8Linear)
    decoder = Int8Decoder(twin.decoder, twin.config)
    twin.decoder.forward = decoder.forward  # type: ignore[method-assign]
    twin.new_cache = Int8Cache  # type: ignore[method-assign]
    return twin


def quantised(
    weight: Float[Tensor, "outputs inputs"],
) -> tuple[Int[Tensor, "outputs inputs"], Float[Tensor, " outputs"]]:
    """Whole numbers, and the scale of each output that they have to be multiplied by."""
    scale = weight.detach().float().abs().amax(1) / GREATEST
    return (weight.detach().float() / scale.clamp_min(torch.finfo().tiny)[:, None]).round().to(torch.int8), scale


def stored(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Matrices as whole numbers, and their scales beside them, by the name of the matrix and `SCALE`."""
    found = {}
    for name, weight in weights.items():
        if weight.dim() == 2:
            found[name], found[name + SCALE] = quantised(weight)
        else:
            found[name] = weight
    return found


def restored(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `stored`; what has no scale for each row stays as it is."""
    found = dict(weights)
    for name, whole in weights.items():
        scale = weights.get(name + SCALE)
        if whole.dtype == torch.int8 and scale is not None and scale.shape == whole.shape[:1]:
            found[name] = whole * found.pop(name + SCALE)[:, None]
    return found


class Int8Linear:
    """Applies a linear layer in eight bits; `formula` is what it equals but for the order of sums."""

    def __init__(self, weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None):
        whole, scale = quantised(weight)
        self.outputs, inputs = whole.shape
        missing = -self.outputs % kernels.LANES
        whole = nn.functional.pad(whole, (0, 0, 0, missing))
        self.weight = whole.view(-1, kernels.LANES, inputs // 4, 4).transpose(1, 2).contiguous()
        self.offset = (-128 * whole.sum(1, dtype=torch.int32)).int()
        self.scale = nn.functional.pad(scale, (0, missing))
        bias = torch.zeros(self.outputs) if bias is None else bias.detach().float()
        self.bias = nn.functional.pad(bias, (0, missing))
        pointers = (each.data_ptr() for each in (self.weight, self.scale, self.bias, self.offset))
        self.struct = _Linear(*pointers, inputs, self.outputs)

    def __call__(self, x: Float[Tensor, "*shape inputs"]) -> Float[Tensor, "*shape outputs"]:
        x = x.float().contiguous()
        out = x.new_empty(*x.shape[:-1], self.outputs)
        _check(_library.linear(x.data_ptr(), out.numel() // self.outputs, ctypes.byref(self.struct), out.data_ptr()))
        return out

    def formula(self, x: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """The same with PyTorch."""
        whole = self.weight.transpose(1, 2).reshape(-1, x.size(-1))[: self.outputs].double()
        rows, scale = quantised(x)
        found = rows.double() @ whole.T * scale[:, None] * self.scale[: self.outputs]
        return (found + self.bias[: self.outputs]).float()


class Int8Cache(DecoderCache):
    """What decoding has computed so far, each position where it was computed; rows say by whom theirs was."""

    def __init__(self) -> None:
        super().__init__(num_layers=0)
        self.positions: list[Tensor] = []
        """Keys and values of each, (layers, rows of that time, 2, d_model)."""
        self.ancestors = torch.empty(0, 0, dtype=torch.int32)
        """For each row, its row of the time of each position."""
        self.sentences = torch.empty(0, dtype=torch.int32)
        """Which row of the memory each row reads."""
        self.memory: list[Tensor] = []
        """Keys and values of each layer, (sentences, src_len, 2, d_model)."""
        self.source_lengths = torch.empty(0, dtype=torch.int32)
        self.decoder = _Decoder()
        """The decoder as int8.c takes it, over this memory."""

    @property
    def length(self) -> int:
        """Target positions decoded so far."""
        return len(self.positions)

    def reorder(self, rows: Int[Tensor, " kept"], memory_rows: Int[Tensor, " groups"] | None = None) -> None:
        """Keep these target rows. The memory stays: rows know which part of it is theirs."""
        self.ancestors, self.sentences = self.ancestors[rows], self.sentences[rows]


class Int8Decoder:
    """The decoder of a model whose linear layers are `Int8Linear`: `forward` in its place."""

    def __init__(self, decoder: Any, config: TransformerConfig):
        self.config, self.embedding, self.plain = config, decoder.embedding, decoder.forward
        self.rotation = decoder.layers[0].self_attention.rotation
        self.memory_products = [each.cross_attention.project.args[0] for each in decoder.layers]
        self._kept: list[Any] = []
        self.layers = (_Layer * config.num_decoder_layers)(*map(self._layer, decoder.layers))
        self.norm = self._norm(decoder.norm) if isinstance(decoder.norm, Norm) else _Norm()

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
        cache.decoder = _Decoder(
            layers, len(layers), self.config.d_model, self.config.d_ff, self.config.num_heads, self.norm,
            NUMBERS[ACTIVATIONS[self.config.activation]], self.config.norm_eps, self.config.norm_order == "pre",
        )  # fmt: skip
        cache.source_lengths = mask.sum(1, dtype=torch.int32)
        cache.sentences = torch.arange(len(memory), dtype=torch.int32).repeat_interleave(rows // len(memory))
        cache.ancestors = torch.empty(rows, 0, dtype=torch.int32)

    def _step(self, tokens: Int[Tensor, "rows 1"], cache: Int8Cache) -> Float[Tensor, "rows 1 d_model"]:
        config, rows, length = self.config, len(tokens), cache.length + 1
        x = self.embedding(tokens, cache.length).float().contiguous()
        keys_and_values = torch.empty(config.num_decoder_layers, rows, 2, config.d_model, dtype=torch.bfloat16)
        cache.positions.append(keys_and_values)
        own = torch.arange(rows, dtype=torch.int32)
        cache.ancestors = torch.cat([cache.ancestors, own[:, None]], dim=1)
        turns = None
        if self.rotation is not None:
            turns = self.rotation.turns_before(length, x.unflatten(2, (config.num_heads, -1)))[-1]
        step = _Step(
            x.data_ptr(), rows, length,
            (Pointer * length)(*(each.data_ptr() for each in cache.positions)),
            (Size * length)(*(each.size(1) for each in cache.positions)),
            *(each.data_ptr() for each in (cache.ancestors, cache.sentences, cache.source_lengths)),
            cache.memory[0].size(1), None if turns is None else turns.data_ptr(),
        )  # fmt: skip
        _check(_library.decoder_step(ctypes.byref(cache.decoder), ctypes.byref(step)))
        return x

    def _layer(self, layer: Any) -> _Layer:
        own, memory, network = layer.self_attention, layer.cross_attention, layer.feed_forward
        linears = [own.project.args[0], own.output.forward, memory.query.forward, memory.output.forward]
        gate = network.gate.forward.struct if network.gate is not None else _Linear()
        structs = [*(each.struct for each in linears), network.inner.forward.struct, gate, network.outer.forward.struct]
        return _Layer(*structs, (_Norm * 3)(*(self._norm(each.norm) for each in layer.residuals)))

    def _norm(self, norm: Norm) -> _Norm:
        tensors = [norm.gain] if norm.bias is None else [norm.gain, norm.bias]
        kept = [each.detach().float().expand(self.config.d_model).contiguous() for each in tensors]
        self._kept += kept
        return _Norm(*(each.data_ptr() for each in kept))


def _check(failed: int) -> None:
    if failed:
        raise MemoryError("There is no memory for a step of the decoder.")


def _load() -> ctypes.CDLL | None:
    library = kernels.library()
    if library is None or not library.multiplies_int8():
        return None
    library.linear.argtypes = [Pointer, Size, ctypes.POINTER(_Linear), Pointer]
    library.decoder_step.argtypes = [ctypes.POINTER(_Decoder), ctypes.POINTER(_Step)]
    return library


_library: Any = _load()  # None: `can_quantise` says no to everything
