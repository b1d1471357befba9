"""An engine in eight bits: the encoder, and a step of the decoder, each compiled as a whole (int8.h).

Weights have a scale for each output, and activations one for each row, which is computed as they are multiplied.
Models with odd widths, and installations without a C compiler, have none of this.
"""

import ctypes
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from dragoman.engine.engine import ArrayEngine, ArrayStepper, SourceIds, Stepper, suitable_batch
from dragoman.engine.log_probs import SHARED, ArrayLogProbs, LogProbs
from dragoman.engine.parameters import GREATEST, quantised, with_shared
from dragoman.engine.shapes import Float, Int
from dragoman.engine.transformer import Array, LinearMap, NumpyTransformer, rotary_angles
from dragoman.model.config import TransformerConfig
from dragoman.native import library

BATCH_TOKENS = 4_096
"""Source tokens of a batch, times beams. Products of eight bits are quick with few rows too, which fit into a cache."""
ACTIVATIONS = {"relu": 0, "gelu": 1, "silu": 2, "swiglu": 2}
"""Codes of the activation functions in int8.h."""
KINDS = "512", "256", "avx2", "dot", "neon", "any"
"""Kinds of instructions that multiply eight bits, the quickest first: three of x86, two of AArch64, and plain C."""
COARSEST = 64
"""The greatest integer for weights with AVX2 alone, see int8_avx2.c."""
LINE = 64
"""Bytes of a line of the cache. Vectors that are read across two take twice as long."""
POSITIONS, ROOM = 64, 8
"""Target positions that a stepper begins with, and those for which it gets memory at a time."""
JOINED = {"own": ("query", "key", "value"), "memory": ("key", "value")}
"""Projections that read the same input, and so are one product, by its name."""
PARTS = (
    "self_attention.own",
    "self_attention.output",
    "cross_attention.query",
    "cross_attention.output",
    "feed_forward.inner",
    "feed_forward.gate",
    "feed_forward.outer",
)
"""Linear maps of a layer in the order of `_Layer`."""
Pointer, Size = ctypes.c_void_p, ctypes.c_int64


class LinearStruct(ctypes.Structure):
    _fields_ = [(name, Pointer) for name in ("weight", "scale", "bias", "offset")] + [
        ("inputs", Size),
        ("outputs", Size),
    ]


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
        ("source_lengths", Pointer), ("source_length", Size), ("ancestors_width", Size), ("turns", Pointer),
    ]  # fmt: skip


class _Sources(ctypes.Structure):
    _fields_ = [("x", Pointer), ("rows", Size), ("length", Size), ("lengths", Pointer), ("turns", Pointer)]


def compiled(kind: str) -> Any:
    """The functions of int8.h for vectors of `512` or `256` bits and the VNNI of each, or for `avx2` alone.

    None where this processor or this library has none. `greatest_weight` is the largest integer for their weights.
    """
    loaded = library.loaded
    if loaded is None or not loaded[f"multiplies_int8_{kind}"]():
        return None
    functions_of_kind = {
        name: loaded[f"{name}_{kind}"] for name in ("encode", "decoder_step", "linear", "halves", "log_probs")
    }
    for name in ("linear", "halves"):
        functions_of_kind[name].argtypes = [Pointer, Size, ctypes.POINTER(LinearStruct), Pointer]
    functions_of_kind["log_probs"].argtypes = [Pointer, Size, ctypes.POINTER(LinearStruct), Pointer, Pointer]
    return SimpleNamespace(**functions_of_kind, greatest_weight=COARSEST if kind == "avx2" else GREATEST)


functions: Any = next(filter(None, map(compiled, KINDS)), None)
"""None: there is no library."""


@contextmanager
def coarsest_weights() -> Iterator[None]:
    """Models that are made meanwhile have the weights of a processor with AVX2 alone, as nobody has coarser ones."""
    global functions
    kept = functions
    functions = kept and SimpleNamespace(**vars(kept) | {"greatest_weight": COARSEST})
    try:
        yield
    finally:
        functions = kept


def can_quantise(config: TransformerConfig) -> bool:
    """Whether this processor and this library can multiply the eight-bit weights of such a model."""
    widths = config.d_model, config.d_ff, config.d_model // config.num_heads
    return functions is not None and not any(width % library.LANES for width in widths)


def aligned(shape: Sequence[int], dtype: Any) -> Array:
    """An array without content that begins with a line of the cache."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + LINE, np.uint8)
    begin = -memory.ctypes.data % LINE
    return memory[begin : begin + size].view(dtype).reshape(shape)


class Int8Linear:
    """Applies a linear map in eight bits; `formula` is what it equals but for the order of sums."""

    def __init__(self, weight: Float[np.ndarray, "outputs inputs"], bias: Float[np.ndarray, " outputs"] | None):
        whole, scale = quantised(weight, functions.greatest_weight)
        self.outputs, self.inputs = whole.shape
        filled_up = -self.outputs % library.LANES
        whole = np.pad(whole, ((0, filled_up), (0, 0)))
        blocks = whole.reshape(-1, library.LANES, self.inputs // 4, 4).swapaxes(1, 2)
        self.weight = aligned(blocks.shape, np.int8)
        self.weight[:] = blocks
        self.offset = -128 * whole.sum(1, dtype=np.int32)
        self.scale = np.pad(scale, (0, filled_up))
        bias = np.zeros(self.outputs, np.float32) if bias is None else bias
        self.bias = np.pad(bias, (0, filled_up))
        pointers = [array.ctypes.data for array in (self.weight, self.scale, self.bias, self.offset)]
        self.struct = LinearStruct(*pointers, self.inputs, self.outputs)

    def __call__(self, x: Float[np.ndarray, "*shape inputs"]) -> Float[np.ndarray, "*shape outputs"]:
        return self._computed(self.struct, x)

    def part(self, index: int, parts: int) -> "partial[Array]":
        """The map to one of so many equal parts of the outputs, whose width is a multiple of `LANES`."""
        width = self.outputs // parts
        first = index * width
        pointers = [array.ctypes.data + first * array.itemsize for array in (self.scale, self.bias, self.offset)]
        weight = self.weight.ctypes.data + first * self.inputs
        struct = LinearStruct(weight, *pointers, self.inputs, width)
        return partial(self._computed, struct)

    def log_probs(self, x: Float[np.ndarray, "rows inputs"]) -> ArrayLogProbs:
        """The log-softmax of what `__call__` returns."""
        x = np.ascontiguousarray(x, np.float32)
        out, maxima = (np.empty((len(x), width), np.float32) for width in (self.outputs, maxima_of(self.outputs)))
        struct = ctypes.byref(self.struct)
        check(functions.log_probs(x.ctypes.data, len(x), struct, out.ctypes.data, maxima.ctypes.data))
        return ArrayLogProbs(out, maxima)

    def halves(self, x: Float[np.ndarray, "*shape inputs"]) -> Int[np.ndarray, "*shape outputs"]:
        """The bits of what `__call__` returns, rounded to bfloat16. The number of outputs is a multiple of `LANES`."""
        x = np.ascontiguousarray(x, np.float32)
        out = aligned((*x.shape[:-1], self.outputs), np.uint16)
        rows = x.size // self.inputs
        check(functions.halves(x.ctypes.data, rows, ctypes.byref(self.struct), out.ctypes.data))
        return out

    def _computed(self, struct: LinearStruct, x: Array) -> Array:
        x = np.ascontiguousarray(x, np.float32)
        out = np.empty((*x.shape[:-1], struct.outputs), np.float32)
        rows = x.size // self.inputs
        check(functions.linear(x.ctypes.data, rows, ctypes.byref(struct), out.ctypes.data))
        return out

    def formula(self, x: Float[np.ndarray, "rows inputs"]) -> Float[np.ndarray, "rows outputs"]:
        """The same in numpy."""
        whole = self.weight.swapaxes(1, 2).reshape(-1, self.inputs)[: self.outputs].astype(np.float64)
        rows, scale = quantised(x)
        products = rows.astype(np.float64) @ whole.T * scale[:, None] * self.scale[: self.outputs]
        return (products + self.bias[: self.outputs]).astype(np.float32)


def maxima_of(outputs: int) -> int:
    """Number of the maxima that log-probabilities of so many outputs have."""
    return -(-outputs // SHARED)


def check(failed: int) -> None:
    """Raise `MemoryError` if a function of int8.h returned that memory ran out."""
    if failed:
        raise MemoryError("There is no memory to multiply eight bits.")


class Int8Engine(ArrayEngine):
    """A model whose linear maps have weights of eight bits. Given targets are read by the formula over these maps."""

    precision = "int8"

    def __init__(self, config: TransformerConfig, weights: Mapping[str, np.ndarray]):
        self.config = config
        self._maps = _linear_maps(with_shared(config, weights))
        kept = {name: array for name, array in weights.items() if ".embedding." in name or array.ndim == 1}
        self.transformer = NumpyTransformer(config, kept, linear=self._linear)
        self._encoder, self._decoder = (_Layers(self, stack, kept) for stack in ("encoder", "decoder"))
        self.projection = self._maps["projection"]

    @property
    def batch_tokens(self) -> int:
        return suitable_batch(self.config, BATCH_TOKENS)

    def stepper(self, source_ids: SourceIds) -> Stepper:
        if self.config.decoder_feed_forward == "positions":
            return ArrayStepper(self, source_ids)  # a decoder of int8.h has feed-forward networks
        return Int8Stepper(self, source_ids)

    def encode(self, source_ids: SourceIds) -> Float[np.ndarray, "batch src_len d_model"]:
        x = _contiguous(self.transformer.embedded_source(source_ids))
        lengths = (source_ids != self.config.pad_id).sum(1, dtype=np.int32)
        turns = _turns(self.config, source_ids.shape[1])
        sources = _Sources(x.ctypes.data, *source_ids.shape, lengths.ctypes.data, _address(turns))
        check(functions.encode(ctypes.byref(self._encoder.stack(self._encoder.layers)), ctypes.byref(sources)))
        return x

    def log_probs(self, states: Float[np.ndarray, "rows d_model"]) -> Float[np.ndarray, "rows vocab"]:
        return self.projection.log_probs(states).array

    def decoder_over(self, memories: Sequence[Array]) -> _Stack:
        """The layers of the decoder as int8.h takes them; `memories` are the keys and values of each."""
        layers = type(self._decoder.layers).from_buffer_copy(self._decoder.layers)
        for layer, memory in zip(layers, memories, strict=True):
            layer.memory = memory.ctypes.data
        return self._decoder.stack(layers)

    def keys_and_values(self, memory: Float[np.ndarray, "batch src_len d_model"]) -> list[Array]:
        """Keys and values of the memory for each layer of the decoder, in bfloat16: (batch, src_len, 2 * d_model)."""
        layers = range(self.config.num_decoder_layers)
        return [self._maps[f"decoder.layers.{index}.cross_attention.memory"].halves(memory) for index in layers]

    def map_of(self, name: str) -> Int8Linear | None:
        """The linear map of this name, if the architecture has it."""
        return self._maps.get(name)

    def _linear(self, name: str) -> LinearMap:
        """The linear map of a name, or the part of a map that it is joined in."""
        if name in self._maps:
            return self._maps[name]
        attention, _, part = name.rpartition(".")
        joined = f"{attention}.own" if f"{attention}.own" in self._maps else f"{attention}.memory"
        parts = JOINED[joined.rpartition(".")[2]]
        return self._maps[joined].part(parts.index(part), len(parts))


def _linear_maps(weights: Mapping[str, Array]) -> dict[str, Int8Linear]:
    """All linear maps of a model by name, with those of `JOINED` as one."""
    maps = {}
    joined = set()
    for name in weights:
        attention, is_attention, _ = name.partition(".value.weight")
        if not is_attention:
            continue
        together = "own" if attention.endswith("self_attention") else "memory"
        parts = [f"{attention}.{part}" for part in JOINED[together]]
        weight, bias = (np.concatenate([weights[f"{part}.{kind}"] for part in parts]) for kind in ("weight", "bias"))
        maps[f"{attention}.{together}"] = Int8Linear(weight, bias)
        joined.update(parts)
    for name, weight in weights.items():
        linear = name.removesuffix(".weight")
        if weight.ndim == 2 and ".embedding." not in name and linear not in joined:
            maps[linear] = Int8Linear(weight, weights.get(f"{linear}.bias"))
    return maps


class _Layers:
    """The layers of an encoder or decoder as int8.h takes them."""

    def __init__(self, engine: Int8Engine, stack: str, weights: Mapping[str, Array]):
        self.config = config = engine.config
        self._engine, self._weights = engine, weights
        self._kept: list[Array] = []
        number = config.num_encoder_layers if stack == "encoder" else config.num_decoder_layers
        self.layers = (_Layer * number)(*(self._layer(f"{stack}.layers.{index}") for index in range(number)))
        self.norm = self._norm(f"{stack}.norm") if config.norm_order == "pre" else _Norm()

    def stack(self, layers: "ctypes.Array[_Layer]") -> _Stack:
        """The structure that describes these layers to int8.h."""
        config = self.config
        return _Stack(
            layers, len(layers), config.d_model, config.d_ff, config.num_heads, self.norm,
            ACTIVATIONS[config.activation], config.norm_eps, config.norm_order == "pre",
        )  # fmt: skip

    def _layer(self, name: str) -> _Layer:
        maps = [self._engine.map_of(f"{name}.{part}") for part in PARTS]
        structs = [linear.struct if linear else LinearStruct() for linear in maps]
        last = 2 if f"{name}.residuals.2.norm.gain" in self._weights else 1
        norms = [self._norm(f"{name}.residuals.{index}.norm") for index in (0, 1, last)]
        return _Layer(*structs, (_Norm * 3)(*norms))

    def _norm(self, name: str) -> _Norm:
        arrays = [self._weights[f"{name}.{part}"] for part in ("gain", "bias") if f"{name}.{part}" in self._weights]
        expanded = [_contiguous(np.broadcast_to(array, self.config.d_model)) for array in arrays]
        self._kept += expanded  # the structure points to them
        return _Norm(*(array.ctypes.data for array in expanded))


class Int8Stepper:
    """Decodes with an `Int8Engine` step by step. Nothing is reordered: each row stores the indices of its ancestors.

    Memory and structures are made once where that can be, since a step takes some ten microseconds a row.
    """

    def __init__(self, engine: Int8Engine, source_ids: SourceIds):
        self.engine = engine
        self._memory = engine.keys_and_values(engine.encode(source_ids))
        self._stack = engine.decoder_over(self._memory)
        self._source_lengths = (source_ids != engine.config.pad_id).sum(1, dtype=np.int32)
        self._sentences = np.arange(len(source_ids), dtype=np.int32)
        """For each row, the row of the memory that it reads."""
        self._ancestors = np.empty((len(source_ids), POSITIONS), np.int32)
        """For each row and position, the row of that time that it continues."""
        self._length = 0
        """Target positions decoded so far."""
        self._addresses, self._rows = (Pointer * POSITIONS)(), (Size * POSITIONS)()
        """Addresses of the keys and values of each position, and the number of its rows."""
        self._kept: list[Array] = []
        """Keys and values in bfloat16, (positions, layers, rows, 2, d_model), for some positions each."""
        self._free = 0
        """Positions that the last of these still has room for."""
        self._step = _Step(positions=self._addresses, position_rows=self._rows)
        self._step.source_lengths, self._step.source_length = self._source_lengths.ctypes.data, source_ids.shape[1]
        self._x = self._log_probs = self._maxima = np.empty((0, 0), np.float32)
        """Buffers: new memory is slower than the product that fills it."""

    def step(self, tokens: Int[np.ndarray, " rows"]) -> LogProbs:
        step, rows, position = self._step, len(tokens), self._length
        if rows > len(self._x):
            self._x = aligned((rows, self.engine.config.d_model), np.float32)
            self._log_probs = np.empty((rows, self.engine.config.target_vocab_size), np.float32)
            self._maxima = np.empty((rows, maxima_of(self.engine.config.target_vocab_size)), np.float32)
            self._x_address, self._log_probs_address = self._x.ctypes.data, self._log_probs.ctypes.data
            self._maxima_address = self._maxima.ctypes.data
            self._numbers = np.arange(rows, dtype=np.int32)
        if position == self._ancestors.shape[1]:
            self._make_room()
        self._x[:rows] = self.engine.transformer.embedded_target(tokens[:, None], position)[:, 0]
        self._ancestors[:, position] = self._numbers[:rows]
        self._addresses[position], self._rows[position] = self._address_of_next(rows), rows
        self._length += 1
        step.x, step.rows, step.length = self._x_address, rows, self._length
        step.ancestors, step.ancestors_width = self._ancestors.ctypes.data, self._ancestors.shape[1]
        step.sentences = self._sentences.ctypes.data
        turns = _turns(self.engine.config, self._length)
        if turns is not None:
            step.turns = turns[-1].ctypes.data
        check(functions.decoder_step(ctypes.byref(self._stack), ctypes.byref(step)))
        projection = ctypes.byref(self.engine.projection.struct)
        addresses = self._log_probs_address, self._maxima_address
        check(functions.log_probs(self._x_address, rows, projection, *addresses))
        return ArrayLogProbs(self._log_probs[:rows], self._maxima[:rows])

    def reorder(self, rows: Int[np.ndarray, " kept"]) -> None:
        ancestors = np.empty((len(rows), self._ancestors.shape[1]), np.int32)
        ancestors[:, : self._length] = self._ancestors[rows, : self._length]
        self._ancestors, self._sentences = ancestors, self._sentences[rows]

    def _make_room(self) -> None:
        """Twice as many positions as there were."""
        length = 2 * self._length
        ancestors = np.empty((len(self._ancestors), length), np.int32)
        ancestors[:, : self._length] = self._ancestors
        self._ancestors = ancestors
        self._addresses, self._rows = (Pointer * length)(*self._addresses), (Size * length)(*self._rows)
        self._step.positions, self._step.position_rows = self._addresses, self._rows

    def _address_of_next(self, rows: int) -> int:
        """The address at which int8.h is to store the keys and values of the next position."""
        if not self._kept or not self._free or self._kept[-1].shape[2] != rows:
            config, self._free = self.engine.config, ROOM
            self._kept.append(aligned((ROOM, config.num_decoder_layers, rows, 2, config.d_model), np.uint16))
            self._begin = self._kept[-1].ctypes.data
        address = self._begin + (ROOM - self._free) * self._kept[-1].strides[0]
        self._free -= 1
        return address


def _contiguous(x: Array) -> Array:
    """A copy that int8.h may overwrite, or that nobody else has yet."""
    copy = aligned(x.shape, np.float32)
    copy[...] = x
    return copy


def _address(array: Array | None) -> int | None:
    return None if array is None else array.ctypes.data


def _turns(config: TransformerConfig, length: int) -> Array | None:
    """Cosines and sines of rotary positions, (length, 2, width of a head); None for other positions."""
    if config.positions != "rotary":
        return None
    return _first_turns(config.d_model // config.num_heads, max(512, 1 << (length - 1).bit_length()))[:length]


@lru_cache(maxsize=8)
def _first_turns(width: int, length: int) -> Array:
    """Each feature is multiplied by its cosine, and the other one of its pair by the sine, of which one is negative."""
    angles = rotary_angles(0, length, width)
    cos, sin = np.cos(angles), np.sin(angles)
    pairs = [np.stack([cos, cos], axis=-1), np.stack([-sin, sin], axis=-1)]
    return _contiguous(np.stack(pairs, axis=1).reshape(length, 2, width))
