"""Models as ONNX: the encoder, one cached step of the decoder, and our search over onnxruntime."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.data.batching import padded
from dragoman.interop.exports.engine_files import write_script, write_tokenizers
from dragoman.interop.exports.onnx_graph import decoder_graph, encoder_graph
from dragoman.interop.exports.proof import BATCH, Found, ScoreBeams, found_by
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.optional import load

FILES = ("encoder.onnx", "decoder.onnx")
SHARED = "shared.bin"
"""Weights that both graphs read, such as the table of embeddings."""
LARGE, ALIGNED = 1024, 64
"""Bytes of a weight that is worth sharing, and of which its place is a multiple."""
FLOAT = 1
"""What ONNX calls float32."""


def write(directory: ModelDirectory, folder: Path, numbers: str) -> None:
    """Write both graphs, the tokenizers and a script into `folder`, which exists."""
    write_graphs(directory, folder, numbers)
    write_tokenizers(directory, folder)
    write_script(directory, folder, "onnxruntime")


@torch.no_grad()
def write_graphs(directory: ModelDirectory, folder: Path, numbers: str) -> None:
    """Write both graphs, and a file of the weights that both read, into `folder`, which exists."""
    onnx, model = load("onnx", extra="onnx", purpose="Writing ONNX"), directory.model
    encoder, decoder = encoder_graph(model), decoder_graph(model)
    first, second = (folder / name for name in FILES)
    if numbers == "int8":
        decoder = _rounded(decoder, second)
        encoder = _rounded(encoder, first, decoder.graph.initializer)
    _share(encoder.graph.initializer, decoder.graph.initializer, folder / SHARED)
    onnx.save(encoder, first)
    onnx.save(decoder, second)


def _rounded(graph: Any, path: Path, known: Sequence[Any] = ()) -> Any:
    """The graph with the weights of matrix products and the tables in eight bits, by way of a file.

    `known` are the weights of the other graph, which may have rounded a table of this one.
    """
    onnx = load("onnx", extra="onnx", purpose="Writing ONNX")
    quantization = load("onnxruntime.quantization", extra="onnx", purpose="Writing eight bits")
    # Columns are only gathered from a table that the projection has rounded, each token by a scale of its own.
    tied = {node.name for node in graph.graph.node if node.op_type == "Gather" and _axis(node) == 1}
    kind = quantization.QuantType.QInt8
    quantization.quantize_dynamic(graph, path, weight_type=kind, per_channel=True, nodes_to_exclude=[*tied])
    made = onnx.load(path)
    for node in [each for each in made.graph.node if each.name in tied]:
        _gather_rounded(made.graph, node, onnx.helper.make_node, known)
    onnx.checker.check_model(made)
    return made


def _axis(node: Any) -> int:
    return next((each.i for each in node.attribute if each.name == "axis"), 0)


def _gather_rounded(graph: Any, node: Any, make: Callable[..., Any], known: Sequence[Any]) -> None:
    """Let `node` gather the columns of the table in eight bits, and the scale of each, instead of those in float32."""
    (table, ids), (output,) = node.input, node.output
    rounded, scale = f"{table}_quantized", f"{table}_scale"
    steps = [
        make("Gather", [rounded, ids], [f"{output}_rounded"], axis=1),
        make("Cast", [f"{output}_rounded"], [f"{output}_whole"], to=FLOAT),
        make("Gather", [scale, ids], [f"{output}_scale"]),
        make("Mul", [f"{output}_whole", f"{output}_scale"], [output]),
    ]
    place = [*graph.node].index(node)
    graph.node.remove(node)
    for step in reversed(steps):
        graph.node.insert(place, step)
    graph.initializer.remove(next(each for each in graph.initializer if each.name == table))
    graph.initializer.extend(each for each in known if each.name in (rounded, scale))


def _share(first: Sequence[Any], second: Sequence[Any], path: Path) -> None:
    """Move the weights that two graphs have in common into a file beside them, if there are any."""
    helper = load("onnx.external_data_helper", extra="onnx", purpose="Writing ONNX")
    others = {each.name: each for each in second}
    pairs = [(each, others[each.name]) for each in first if each.name in others]
    same = [pair for pair in pairs if len(pair[0].raw_data) >= LARGE and pair[0].raw_data == pair[1].raw_data]
    if not same:
        return
    with path.open("wb") as file:
        for pair in same:
            weights = pair[0].raw_data
            file.write(bytes(-file.tell() % ALIGNED))
            for tensor in pair:
                helper.set_external_data(tensor, path.name, file.tell(), len(weights))
                tensor.ClearField("raw_data")
            file.write(weights)


class OnnxStepper:
    """Decodes step by step with the graphs of a folder; each row has a copy of what it reads of the source."""

    def __init__(self, encoder: Any, decoder: Any, source_ids: Int[Tensor, "rows length"]):
        self.decoder = decoder
        names = [each.name for each in encoder.get_outputs()]
        found = encoder.run(None, {"ids": source_ids.numpy()})
        self.memory: dict[str, np.ndarray] = dict(zip(names, found, strict=True))
        rows, heads, _, width = self.memory["cross_key_0"].shape
        layers = sum(name.startswith("cross_key") for name in names)
        empty = np.zeros((rows, heads, 0, width), np.float32)
        self.past = {f"{name}_{index}": empty for name in ("key", "value") for index in range(layers)}
        self.position = 0

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        inputs = {"tokens": tokens.numpy()[:, None], "position": np.array([self.position])}
        names = ["log_probs", *(f"new_{name}" for name in self.past)]
        log_probs, *new = self.decoder.run(names, inputs | self.memory | self.past)
        self.past = dict(zip(self.past, new, strict=True))
        self.position += 1
        return torch.from_numpy(log_probs)

    def reorder(self, rows: Int[Tensor, " kept"]) -> None:
        kept = rows.numpy()
        self.past = {name: value[kept] for name, value in self.past.items()}
        self.memory = {name: value[kept] for name, value in self.memory.items()}


@torch.inference_mode()
def search(
    folder: Path, directory: ModelDirectory, sources: Sequence[list[int]], *, beam_size: int, length_penalty: float
) -> Found:
    """What our search finds over onnxruntime for sources of token ids: ids and score of each."""
    runtime = load("onnxruntime", extra="onnx", purpose="Running ONNX")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    sessions = [runtime.InferenceSession(folder / name, options, ["CPUExecutionProvider"]) for name in FILES]
    special, found = directory.source_tokenizer.closing, []
    for start in range(0, len(sources), BATCH):
        batch = sources[start : start + BATCH]
        stepper = OnnxStepper(*sessions, padded(batch, special))
        found += found_by(
            stepper, directory, batch, beam_size=beam_size, length_penalty=length_penalty, beams=ScoreBeams
        )
    return found
