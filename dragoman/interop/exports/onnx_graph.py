"""The Transformer as two ONNX graphs, written operation by operation: the encoder, and one cached step of the decoder.

`encoder.onnx` gives, for each decoder layer, the keys and values that its cross-attention reads. `decoder.onnx` takes
one token a row, and the keys and values of all before.
"""

import math
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from dragoman.errors import UsageError
from dragoman.interop.exports.engine_files import LONGEST
from dragoman.model import Transformer, TransformerConfig
from dragoman.model.attention import CrossAttention, MultiHeadAttention, SelfAttention
from dragoman.model.layers import Embedding, FeedForward, Norm, ResidualConnection, RotaryPositions
from dragoman.system.optional import load

OPSET = 17
LARGEST = 2_000_000_000
"""Bytes of the weights of a graph."""
HIDDEN = -1e9
"""What is added to the scores of padding."""


class Graph:
    """Nodes and weights of a graph; a value is known by its name."""

    def __init__(self, name: str, config: TransformerConfig):
        self.onnx = load("onnx", extra="onnx", purpose="Writing ONNX")
        self.name, self.config = name, config
        self.nodes: list[Any] = []
        self.weights: dict[str, Any] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.turns: list[str] = []
        self.width = config.d_model // config.num_heads

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The result of an operation."""
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def weight(self, tensor: Tensor) -> str:
        """A weight; the same one is stored once."""
        return self._stored(f"weight_{tensor.data_ptr()}_{'_'.join(map(str, tensor.stride()))}", tensor.numpy())

    def constant(self, *values: float, whole: bool = False, scalar: bool = False) -> str:
        """A vector of numbers, or one number."""
        array = np.array(values[0] if scalar else values, np.int64 if whole else np.float32)
        return self._stored(f"constant_{array.tolist()}_{array.dtype}", array)

    def input(self, name: str, shape: list[str | int], *, whole: bool = False) -> str:
        kind = self.onnx.TensorProto.INT64 if whole else self.onnx.TensorProto.FLOAT
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name: str, value: str, shape: list[str | int]) -> None:
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))
        self.outputs.append(self.onnx.helper.make_tensor_value_info(name, self.onnx.TensorProto.FLOAT, shape))

    def model(self) -> Any:
        """The graph as a checked ONNX model."""
        helper = self.onnx.helper
        weights = [self.onnx.numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, weights)
        opset = helper.make_opsetid("", OPSET)
        made = helper.make_model(graph, opset_imports=[opset], producer_name="dragoman", ir_version=8)
        if sum(array.nbytes for array in self.weights.values()) > LARGEST:
            raise UsageError("A file of ONNX has at most 2 GB, and this model is larger; export it to ctranslate2.")
        self.onnx.checker.check_model(made)
        return made

    def _stored(self, name: str, array: np.ndarray) -> str:
        self.weights.setdefault(name, np.ascontiguousarray(array))
        return name

    def linear(self, x: str, weight: Tensor, bias: Tensor | None) -> str:
        y = self.op("MatMul", x, self.weight(weight.T))
        return y if bias is None else self.op("Add", y, self.weight(bias))

    def norm(self, x: str, norm: Norm) -> str:
        gain = self.weight(norm.gain.expand(self.config.d_model).contiguous())
        if norm.bias is not None:
            bias = self.weight(norm.bias.expand(self.config.d_model).contiguous())
            return self.op("LayerNormalization", x, gain, bias, axis=-1, epsilon=norm.eps)
        mean = self.op("ReduceMean", self.op("Mul", x, x), axes=[-1], keepdims=1)
        root = self.op("Sqrt", self.op("Add", mean, self.constant(norm.eps)))
        return self.op("Mul", self.op("Div", x, root), gain)

    def residual(self, x: str, residual: ResidualConnection, sublayer: Any) -> str:
        if residual.pre_norm:
            return self.op("Add", x, sublayer(self.norm(x, residual.norm)))
        return self.norm(self.op("Add", x, sublayer(x)), residual.norm)

    def feed_forward(self, part: FeedForward, x: str) -> str:
        inner = self.linear(x, part.inner.weight, part.inner.bias)
        gated = inner if part.gate is None else self.linear(x, part.gate.weight, part.gate.bias)
        active = self._activation(gated)
        active = active if part.gate is None else self.op("Mul", active, inner)
        return self.linear(active, part.outer.weight, part.outer.bias)

    def _activation(self, x: str) -> str:
        if self.config.activation == "relu":
            return self.op("Relu", x)
        if self.config.activation != "gelu":
            return self.op("Mul", x, self.op("Sigmoid", x))
        erf = self.op("Erf", self.op("Div", x, self.constant(math.sqrt(2))))
        return self.op("Mul", self.op("Mul", x, self.constant(0.5)), self.op("Add", erf, self.constant(1.0)))

    def embedding(self, ids: str, part: Embedding, first: str, length: str, *, tied: bool = False) -> str:
        """The embeddings of ids (rows, length), of which the first column has the position `first`.

        A table that is `tied` to the projection is stored once, as the projection reads it: a column for each token.
        """
        if tied:
            columns = self.op("Gather", self.weight(part.table.weight.T), ids, axis=1)
            found = self.op("Transpose", columns, perm=[1, 2, 0])
        else:
            found = self.op("Gather", self.weight(part.table.weight), ids)
        x = self.op("Mul", found, self.constant(part.scale))
        if part.positions is None:
            return x
        table = self.weight(part.positions(0, self.config.max_length or LONGEST).contiguous())
        return self.op("Add", x, self.sliced(table, first, length))

    def sliced(self, table: str, first: str, length: str) -> str:
        """`length` rows of a table from `first` on."""
        return self.op("Slice", table, first, self.op("Add", first, length), self.constant(0, whole=True))

    def heads(self, x: str) -> str:
        """(rows, length, d_model) as (rows, heads, length, width)."""
        shape = self.constant(0, 0, self.config.num_heads, self.width, whole=True)
        return self.op("Transpose", self.op("Reshape", x, shape), perm=[0, 2, 1, 3])

    def turned(self, heads: str, rotation: RotaryPositions | None, first: str, length: str) -> str:
        """Queries or keys, turned by their positions."""
        if rotation is None:
            return heads
        if not self.turns:  # All layers turn by the same angles.
            self.turns = self._turns(first, length)
        cos, sin = self.turns
        order = self.constant(*(index ^ 1 for index in range(self.width)), whole=True)
        swapped = self.op("Gather", heads, order, axis=3)
        return self.op("Add", self.op("Mul", heads, cos), self.op("Mul", swapped, sin))

    def _turns(self, first: str, length: str) -> list[str]:
        """Cosines of `length` positions from `first` on, and sines, negative for the first of a pair: (length, width).

        They are computed, in double precision as in `RotaryPositions`, because a table of them is larger than a layer.
        """
        types = self.onnx.TensorProto
        end, one = self.op("Add", first, length), self.constant(1, whole=True, scalar=True)
        positions = self.op("Range", self.op("Squeeze", first), self.op("Squeeze", end), one)
        column = self.op("Unsqueeze", self.op("Cast", positions, to=types.DOUBLE), self.constant(1, whole=True))
        rates = np.repeat(10_000.0 ** -(np.arange(0, self.width, 2) / self.width), 2)
        sine = self._stored("signed_rates", rates * np.resize([-1.0, 1.0], self.width))
        # Cosines are shifted sines, because onnxruntime before 1.32 has no cosine in double precision.
        cosine = self.op("Mul", column, self._stored("rates", rates))
        angles = self.op("Add", cosine, self._stored("quarter", np.array(math.pi / 2))), self.op("Mul", column, sine)
        return [self.op("Cast", self.op("Sin", each), to=types.FLOAT) for each in angles]

    def attention(
        self, query: str, key: str, value: str, mask: str | None, part: MultiHeadAttention
    ) -> tuple[str, str]:
        """What an attention gives, and its weights (rows, heads, queries, keys)."""
        scores = self.op("MatMul", query, self.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = self.op("Mul", scores, self.constant(self.width**-0.5))
        weights = self.op("Softmax", scores if mask is None else self.op("Add", scores, mask), axis=-1)
        mixed = self.op("Transpose", self.op("MatMul", weights, value), perm=[0, 2, 1, 3])
        joined = self.op("Reshape", mixed, self.constant(0, 0, self.config.d_model, whole=True))
        return self.linear(joined, part.output.weight, part.output.bias), weights

    def projected(self, x: str, part: MultiHeadAttention, name: str) -> str:
        """The heads of a projection of `x`."""
        linear = getattr(part, name)
        return self.heads(self.linear(x, linear.weight, linear.bias))


def encoder_graph(model: Transformer) -> Any:
    """ids (rows, length) to `mask` and, for each decoder layer, `cross_key_i` and `cross_value_i`."""
    config, graph = model.config, Graph("encoder", model.config)
    ids = graph.input("ids", ["rows", "length"], whole=True)
    padding = graph.op("Equal", ids, graph.constant(config.pad_id, whole=True))
    hidden = graph.op("Mul", graph.op("Cast", padding, to=graph.onnx.TensorProto.FLOAT), graph.constant(HIDDEN))
    mask = graph.op("Unsqueeze", hidden, graph.constant(1, 2, whole=True))
    first = graph.constant(0, whole=True)
    length = graph.op("Slice", graph.op("Shape", ids), graph.constant(1, whole=True), graph.constant(2, whole=True))
    tied = config.share_embeddings and config.tie_projection
    x = graph.embedding(ids, model.encoder.embedding, first, length, tied=tied)
    for layer in model.encoder.layers:
        attend = partial(_attend_to_all, graph, length, mask, layer.self_attention)
        x = graph.residual(x, layer.residuals[0], attend)
        x = graph.residual(x, layer.residuals[1], partial(graph.feed_forward, layer.feed_forward))
    memory = graph.norm(x, model.encoder.norm) if config.norm_order == "pre" else x
    graph.output("mask", mask, ["rows", 1, 1, "length"])
    for index, layer in enumerate(model.decoder.layers):
        for name in ("key", "value"):
            shape = ["rows", config.num_heads, "length", graph.width]
            graph.output(f"cross_{name}_{index}", graph.projected(memory, layer.cross_attention, name), shape)
    return graph.model()


def _attend_to_all(graph: Graph, length: str, mask: str, part: SelfAttention, x: str) -> str:
    """Self-attention of a whole sentence."""
    found = {name: graph.projected(x, part, name) for name in ("query", "key", "value")}
    for name in ("query", "key"):
        found[name] = graph.turned(found[name], part.rotation, graph.constant(0, whole=True), length)
    return graph.attention(found["query"], found["key"], found["value"], mask, part)[0]


def decoder_graph(model: Transformer) -> Any:
    """One step: tokens (rows, 1), `position` (1), `mask`, keys and values to `log_probs`, `attention` and the new ones.

    `attention` is what the middle layers attend to in the source, the mean of their heads: it tells which words a token
    comes from (see `dragoman.decoding.alignment`).
    """
    config, graph = model.config, Graph("decoder", model.config)
    tokens, first = graph.input("tokens", ["rows", 1], whole=True), graph.input("position", [1], whole=True)
    mask = graph.input("mask", ["rows", 1, 1, "length"])
    one = graph.constant(1, whole=True)
    x = graph.embedding(tokens, model.decoder.embedding, first, one, tied=config.tie_projection)
    looked: list[str] = []
    for index, layer in enumerate(model.decoder.layers):
        own, other = (
            partial(_attend_to_past, graph, first, index),
            partial(_attend_to_source, graph, mask, index, looked),
        )
        x = graph.residual(x, layer.residuals[0], partial(own, layer.self_attention))
        x = graph.residual(x, layer.residuals[1], partial(other, layer.cross_attention))
        x = graph.residual(x, layer.residuals[2], partial(graph.feed_forward, layer.feed_forward))
    states = graph.norm(x, model.decoder.norm) if config.norm_order == "pre" else x
    logits = graph.linear(states, model.projection.weight, model.projection.bias)
    logits = graph.op("Squeeze", logits, one)
    graph.output("log_probs", graph.op("LogSoftmax", logits, axis=-1), ["rows", config.target_vocab_size])
    heads = graph.op("Concat", *(looked[1:-1] or looked), axis=1)
    graph.output("attention", graph.op("ReduceMean", heads, axes=[1, 2], keepdims=0), ["rows", "length"])
    return graph.model()


def _attend_to_past(graph: Graph, first: str, index: int, part: SelfAttention, x: str) -> str:
    """Self-attention of the newest token, with its keys and values behind those of the past."""
    one, sizes = graph.constant(1, whole=True), ["rows", graph.config.num_heads]
    found = {name: graph.projected(x, part, name) for name in ("query", "key", "value")}
    for name in ("query", "key"):
        found[name] = graph.turned(found[name], part.rotation, first, one)
    for name in ("key", "value"):
        past = graph.input(f"{name}_{index}", [*sizes, "past", graph.width])
        found[name] = graph.op("Concat", past, found[name], axis=2)
        graph.output(f"new_{name}_{index}", found[name], [*sizes, "present", graph.width])
    return graph.attention(found["query"], found["key"], found["value"], None, part)[0]


def _attend_to_source(graph: Graph, mask: str, index: int, looked: list[str], part: CrossAttention, x: str) -> str:
    """Attention to the memory; its weights are added to `looked`."""
    shape = ["rows", graph.config.num_heads, "length", graph.width]
    key, value = (graph.input(f"cross_{name}_{index}", shape) for name in ("key", "value"))
    found, weights = graph.attention(graph.projected(x, part, "query"), key, value, mask, part)
    looked.append(weights)
    return found
