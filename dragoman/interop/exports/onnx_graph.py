"""The Transformer as two ONNX graphs, written operation by operation: the encoder, and one cached step of the decoder.

`encoder.onnx` computes the keys and values that the cross-attention of each decoder layer reads. `decoder.onnx` takes
one token for each row, and the keys and values of the tokens before it.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor, nn

from dragoman.errors import UsageError
from dragoman.interop.exports.engine_files import LONGEST
from dragoman.model import Transformer
from dragoman.model.attention import CrossAttention, SelfAttention
from dragoman.model.layers import Embedding, FeedForward, Norm, ResidualConnection, RotaryPositions
from dragoman.system.optional import load

OPSET = 17
"""Version of the operators of ONNX that the graphs use."""
LARGEST = 2_000_000_000
"""Most bytes of the weights of a graph."""
HIDDEN = -1e9
"""Mask of padding: it is added to the scores of attention."""


class Graph:
    """A graph under construction. Its values are names: methods take the names of their inputs and return the name of
    their result."""

    def __init__(self, name: str, model: Transformer):
        self.onnx = load("onnx", extra="onnx", purpose="Writing ONNX")
        self.name, self.config = name, model.config
        self.nodes: list[Any] = []
        self.weights: dict[str, np.ndarray] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.rotation: tuple[str, str] | None = None  # cosines and sines, once they are computed
        self.width = self.config.d_model // self.config.num_heads
        self._names = {parameter.data_ptr(): name for name, parameter in model.named_parameters()}
        """Names of weights by their memory: those of the model, which both graphs share, and of arrays made of them."""

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add an operation."""
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def weight(self, tensor: Tensor) -> str:
        """Store a weight, each only once. Its name tells which weight it is, and its layout."""
        name = self._names.setdefault(tensor.data_ptr(), f"{self.name}.{len(self.weights)}")
        layout = "" if tensor.is_contiguous() else ".transposed"
        return self._stored(name + layout, tensor.numpy())

    def constant(self, *values: float, whole: bool = False, scalar: bool = False) -> str:
        """Store a vector of numbers, or one number; `whole` numbers are int64, others float32."""
        array = np.array(values[0] if scalar else values, np.int64 if whole else np.float32)
        return self._stored(f"constant_{array.tolist()}_{array.dtype}", array)

    def input(self, name: str, shape: list[str | int], *, whole: bool = False) -> str:
        """Declare an input of the graph; sizes that vary have names."""
        kind = self.onnx.TensorProto.INT64 if whole else self.onnx.TensorProto.FLOAT
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name: str, value: str, shape: list[str | int]) -> None:
        """Declare that `value` is the output `name` of the graph."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))
        self.outputs.append(self.onnx.helper.make_tensor_value_info(name, self.onnx.TensorProto.FLOAT, shape))

    def model(self) -> Any:
        """The finished graph as a checked ONNX model. Raises `UsageError` for one that is too large."""
        helper = self.onnx.helper
        weights = [self.onnx.numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, weights)
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], producer_name="dragoman", ir_version=8)
        if sum(array.nbytes for array in self.weights.values()) > LARGEST:
            raise UsageError("A file of ONNX has at most 2 GB, and this model is larger; export it to ctranslate2.")
        self.onnx.checker.check_model(model)
        return model

    def _stored(self, name: str, array: np.ndarray) -> str:
        """Store an array under a name, unless there is one of this name."""
        self.weights.setdefault(name, np.ascontiguousarray(array))
        return name

    def linear(self, x: str, linear: nn.Linear) -> str:
        y = self.op("MatMul", x, self.weight(linear.weight.T))
        return y if linear.bias is None else self.op("Add", y, self.weight(linear.bias))

    def norm(self, x: str, norm: Norm) -> str:
        gain = self.weight(norm.gain.expand(self.config.d_model).contiguous())
        if norm.bias is not None:
            bias = self.weight(norm.bias.expand(self.config.d_model).contiguous())
            return self.op("LayerNormalization", x, gain, bias, axis=-1, epsilon=norm.eps)
        mean = self.op("ReduceMean", self.op("Mul", x, x), axes=[-1], keepdims=1)
        root = self.op("Sqrt", self.op("Add", mean, self.constant(norm.eps)))
        return self.op("Mul", self.op("Div", x, root), gain)

    def residual(self, x: str, residual: ResidualConnection, sublayer: Callable[[str], str]) -> str:
        if residual.pre_norm:
            return self.op("Add", x, sublayer(self.norm(x, residual.norm)))
        return self.norm(self.op("Add", x, sublayer(x)), residual.norm)

    def feed_forward(self, feed_forward: FeedForward, x: str) -> str:
        inner = self.linear(x, feed_forward.inner)
        if feed_forward.gate is None:
            active = self._activation(inner)
        else:
            gate = self._activation(self.linear(x, feed_forward.gate))
            active = self.op("Mul", gate, inner)
        return self.linear(active, feed_forward.outer)

    def _activation(self, x: str) -> str:
        if self.config.activation == "relu":
            return self.op("Relu", x)
        if self.config.activation != "gelu":  # silu and swiglu
            return self.op("Mul", x, self.op("Sigmoid", x))
        erf = self.op("Erf", self.op("Div", x, self.constant(math.sqrt(2))))
        return self.op("Mul", self.op("Mul", x, self.constant(0.5)), self.op("Add", erf, self.constant(1.0)))

    def embedding(self, ids: str, embedding: Embedding, first: str, length: str, *, tied: bool = False) -> str:
        """The embeddings of ids (rows, length); the first column has the position `first`.

        A table that is `tied` to the projection is stored once, as the projection reads it: a column for each token.
        """
        if tied:
            columns = self.op("Gather", self.weight(embedding.table.weight.T), ids, axis=1)
            tokens = self.op("Transpose", columns, perm=[1, 2, 0])
        else:
            tokens = self.op("Gather", self.weight(embedding.table.weight), ids)
        x = self.op("Mul", tokens, self.constant(embedding.scale))
        if embedding.positions is None:
            return x
        return self.positions_added(embedding.positions, x, first=first, length=length)

    def positions_added(self, positions: nn.Module, x: str, *, first: str, length: str) -> str:
        """`x` plus its positions, of which the first one is `first`."""
        table = self.weight(positions(0, self.config.max_length or LONGEST).contiguous())
        return self.op("Add", x, self.sliced(table, first, length))

    def sliced(self, table: str, first: str, length: str) -> str:
        """`length` rows of a table from `first` on."""
        return self.op("Slice", table, first, self.op("Add", first, length), self.constant(0, whole=True))

    def heads(self, x: str) -> str:
        """(rows, length, d_model) as (rows, heads, length, width)."""
        shape = self.constant(0, 0, self.config.num_heads, self.width, whole=True)
        return self.op("Transpose", self.op("Reshape", x, shape), perm=[0, 2, 1, 3])

    def rotated(self, heads: str, rotation: RotaryPositions | None, first: str, length: str) -> str:
        """Queries or keys, rotated by their positions, which start at `first`; without a `rotation`, as they are."""
        if rotation is None:
            return heads
        if self.rotation is None:  # All layers rotate by the same angles.
            self.rotation = self._cosines_and_sines(first, length)
        cos, sin = self.rotation
        order = self.constant(*(index ^ 1 for index in range(self.width)), whole=True)
        swapped = self.op("Gather", heads, order, axis=3)
        return self.op("Add", self.op("Mul", heads, cos), self.op("Mul", swapped, sin))

    def _cosines_and_sines(self, first: str, length: str) -> tuple[str, str]:
        """Cosines of `length` positions from `first` on, and sines, negative for the first feature of each pair. Both
        are (length, width).

        They are computed, in double precision as in `RotaryPositions`, because a table of them is larger than a layer.
        """
        types = self.onnx.TensorProto
        end, one = self.op("Add", first, length), self.constant(1, whole=True, scalar=True)
        positions = self.op("Range", self.op("Squeeze", first), self.op("Squeeze", end), one)
        column = self.op("Unsqueeze", self.op("Cast", positions, to=types.DOUBLE), self.constant(1, whole=True))
        rates = np.repeat(10_000.0 ** -(np.arange(0, self.width, 2) / self.width), 2)
        signed_rates = self._stored("signed_rates", rates * np.resize([-1.0, 1.0], self.width))
        angles = self.op("Mul", column, self._stored("rates", rates))
        # Cosines are shifted sines, because onnxruntime before 1.32 has no cosine in double precision.
        shifted = self.op("Add", angles, self._stored("quarter", np.array(math.pi / 2)))
        signed = self.op("Mul", column, signed_rates)
        cosines = self.op("Cast", self.op("Sin", shifted), to=types.FLOAT)
        sines = self.op("Cast", self.op("Sin", signed), to=types.FLOAT)
        return cosines, sines

    def attention(self, query: str, key: str, value: str, mask: str | None, output: nn.Linear) -> tuple[str, str]:
        """The output of an attention (rows, queries, d_model), and its weights (rows, heads, queries, keys)."""
        scores = self.op("MatMul", query, self.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = self.op("Mul", scores, self.constant(self.width**-0.5))
        weights = self.op("Softmax", scores if mask is None else self.op("Add", scores, mask), axis=-1)
        mixed = self.op("Transpose", self.op("MatMul", weights, value), perm=[0, 2, 1, 3])
        joined = self.op("Reshape", mixed, self.constant(0, 0, self.config.d_model, whole=True))
        return self.linear(joined, output), weights

    def projected(self, x: str, linear: nn.Linear) -> str:
        """A projection of `x` to the heads."""
        return self.heads(self.linear(x, linear))


def encoder_graph(model: Transformer) -> Any:
    """The graph of the encoder.

    Its input is `ids` (rows, length). Its outputs are `mask` and, for each decoder layer, `cross_key_i` and
    `cross_value_i`.
    """
    config, graph = model.config, Graph("encoder", model)
    ids = graph.input("ids", ["rows", "length"], whole=True)
    padding = graph.op("Equal", ids, graph.constant(config.pad_id, whole=True))
    hidden = graph.op("Mul", graph.op("Cast", padding, to=graph.onnx.TensorProto.FLOAT), graph.constant(HIDDEN))
    mask = graph.op("Unsqueeze", hidden, graph.constant(1, 2, whole=True))
    first = graph.constant(0, whole=True)
    length = graph.op("Slice", graph.op("Shape", ids), graph.constant(1, whole=True), graph.constant(2, whole=True))
    tied = config.share_embeddings and config.tie_projection
    x = graph.embedding(ids, model.encoder.embedding, first, length, tied=tied)
    for layer in model.encoder.layers:
        attend_to_all = partial(_attend_to_all, graph, layer.self_attention, mask=mask, length=length)
        x = graph.residual(x, layer.residuals[0], attend_to_all)
        x = graph.residual(x, layer.residuals[1], partial(graph.feed_forward, layer.feed_forward))
    memory = graph.norm(x, model.encoder.norm) if config.norm_order == "pre" else x
    graph.output("mask", mask, ["rows", 1, 1, "length"])
    shape = ["rows", config.num_heads, "length", graph.width]
    for index, layer in enumerate(model.decoder.layers):
        attention = layer.cross_attention
        graph.output(f"cross_key_{index}", graph.projected(memory, attention.key), shape)
        graph.output(f"cross_value_{index}", graph.projected(memory, attention.value), shape)
    return graph.model()


def _attend_to_all(graph: Graph, attention: SelfAttention, x: str, *, mask: str, length: str) -> str:
    """Self-attention of a whole sentence."""
    query, key, value = _projections(graph, attention, x)
    first = graph.constant(0, whole=True)
    query = graph.rotated(query, attention.rotation, first, length)
    key = graph.rotated(key, attention.rotation, first, length)
    result, _ = graph.attention(query, key, value, mask, attention.output)
    return result


def _projections(graph: Graph, attention: SelfAttention, x: str) -> tuple[str, str, str]:
    """Queries, keys and values of `x`."""
    query = graph.projected(x, attention.query)
    key = graph.projected(x, attention.key)
    value = graph.projected(x, attention.value)
    return query, key, value


def decoder_graph(model: Transformer) -> Any:
    """The graph of one step of the decoder.

    Its inputs are `tokens` (rows, 1), `position` (1), the outputs of the encoder, and for each layer `key_i` and
    `value_i` of the tokens before. Its outputs are `log_probs` (rows, vocab), `attention` (rows, length), and for each
    layer `new_key_i` and `new_value_i`, which include this token.

    `attention` is the mean over the heads that tell which source words a token comes from, the one that the step
    predicts or the one that it has read (`TransformerConfig.aligning_layers` and `aligned_token`).
    """
    config, graph = model.config, Graph("decoder", model)
    tokens = graph.input("tokens", ["rows", 1], whole=True)
    position = graph.input("position", [1], whole=True)
    mask = graph.input("mask", ["rows", 1, 1, "length"])
    one = graph.constant(1, whole=True)
    x = graph.embedding(tokens, model.decoder.embedding, position, one, tied=config.tie_projection)
    cross_weights: list[str] = []
    for index, layer in enumerate(model.decoder.layers):
        attend_to_past = partial(_attend_to_past, graph, layer.self_attention, position=position, index=index)
        attend_to_source = partial(
            _attend_to_source, graph, layer.cross_attention, mask=mask, index=index, cross_weights=cross_weights
        )
        x = graph.residual(x, layer.residuals[0], attend_to_past)
        x = graph.residual(x, layer.residuals[1], attend_to_source)
        if config.decoder_feed_forward == "network":
            last_part = partial(graph.feed_forward, layer.feed_forward)
        else:
            last_part = partial(graph.positions_added, model.decoder.embedding.positions, first=position, length=one)
        x = graph.residual(x, layer.residuals[2], last_part)
    states = graph.norm(x, model.decoder.norm) if config.norm_order == "pre" else x
    logits = graph.linear(states, model.projection)
    logits = graph.op("Squeeze", logits, one)
    graph.output("log_probs", graph.op("LogSoftmax", logits, axis=-1), ["rows", config.target_vocab_size])
    chosen = [cross_weights[layer] for layer in config.aligning_layers]
    if config.guided_head:
        from_first, to_second, of_heads = (graph.constant(number, whole=True) for number in (0, 1, 1))
        chosen = [graph.op("Slice", weights, from_first, to_second, of_heads) for weights in chosen]
    heads = graph.op("Concat", *chosen, axis=1)
    graph.output("attention", graph.op("ReduceMean", heads, axes=[1, 2], keepdims=0), ["rows", "length"])
    return graph.model()


def _attend_to_past(graph: Graph, attention: SelfAttention, x: str, *, position: str, index: int) -> str:
    """Self-attention, in layer `index`, of the newest token to itself and to the tokens before."""
    one = graph.constant(1, whole=True)
    query, key, value = _projections(graph, attention, x)
    query = graph.rotated(query, attention.rotation, position, one)
    key = graph.rotated(key, attention.rotation, position, one)
    key = _appended(graph, f"key_{index}", key)
    value = _appended(graph, f"value_{index}", value)
    result, _ = graph.attention(query, key, value, None, attention.output)
    return result


def _appended(graph: Graph, name: str, newest: str) -> str:
    """Keys or values of the tokens before, which are the input `name`, and behind them those of the newest token. Both
    together are the output `new_NAME`."""
    sizes: list[str | int] = ["rows", graph.config.num_heads]
    past = graph.input(name, [*sizes, "past", graph.width])
    present = graph.op("Concat", past, newest, axis=2)
    graph.output(f"new_{name}", present, [*sizes, "present", graph.width])
    return present


def _attend_to_source(
    graph: Graph, attention: CrossAttention, x: str, *, mask: str, index: int, cross_weights: list[str]
) -> str:
    """Cross-attention in layer `index`; its weights are appended to `cross_weights`."""
    shape = ["rows", graph.config.num_heads, "length", graph.width]
    key = graph.input(f"cross_key_{index}", shape)
    value = graph.input(f"cross_value_{index}", shape)
    query = graph.projected(x, attention.query)
    result, weights = graph.attention(query, key, value, mask, attention.output)
    cross_weights.append(weights)
    return result
