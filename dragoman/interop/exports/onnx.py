"""Export to ONNX: the encoder, one cached step of the decoder, and our search over onnxruntime."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from dragoman.data.batching import padded
from dragoman.engine.log_probs import ArrayLogProbs, LogProbs
from dragoman.interop.exports.engine_files import write_script, write_tokenizers
from dragoman.interop.exports.onnx_graph import decoder_graph, encoder_graph
from dragoman.interop.exports.proof import BATCH, EngineTranslation, ScoreBeams, search_with
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.optional import load

FILES = ("encoder.onnx", "decoder.onnx")
SHARED = "shared.bin"
"""File of the weights that both graphs read, such as the table of embeddings."""
LARGE = 1024
"""Least bytes of a weight that is worth sharing."""
ALIGNMENT = 64
"""The offset of each weight in the shared file is a multiple of this many bytes."""
FLOAT = 1
"""Number of the type float32 in ONNX."""


def write(directory: ModelDirectory, folder: Path, numbers: str) -> None:
    """Write both graphs, the tokenizers and a script into `folder`, which exists."""
    write_graphs(directory, folder, numbers)
    write_tokenizers(directory, folder)
    write_script(directory, folder, "onnxruntime")


@torch.no_grad()
def write_graphs(directory: ModelDirectory, folder: Path, numbers: str) -> None:
    """Write both graphs, and a file of the weights that both read, into `folder`, which exists."""
    onnx = load("onnx", extra="onnx", purpose="Writing ONNX")
    encoder, decoder = encoder_graph(directory.model), decoder_graph(directory.model)
    encoder_path, decoder_path = (folder / name for name in FILES)
    if numbers == "int8":
        decoder = _in_eight_bits(decoder, decoder_path)
        encoder = _in_eight_bits(encoder, encoder_path, decoder.graph.initializer)
    _share_weights(encoder.graph.initializer, decoder.graph.initializer, folder / SHARED)
    onnx.save(encoder, encoder_path)
    onnx.save(decoder, decoder_path)


def _in_eight_bits(model: Any, path: Path, other_weights: Sequence[Any] = ()) -> Any:
    """An ONNX model with the weights of matrix products and the tables in eight bits, which is written to `path`.

    `other_weights` are those of the other graph, which may have rounded a table of this one.
    """
    onnx = load("onnx", extra="onnx", purpose="Writing ONNX")
    quantization = load("onnxruntime.quantization", extra="onnx", purpose="Writing eight bits")
    # Columns are only gathered from a table that the projection has rounded, each token by a scale of its own.
    tied = {node.name for node in model.graph.node if node.op_type == "Gather" and _axis(node) == 1}
    quantization.quantize_dynamic(
        model, path, weight_type=quantization.QuantType.QInt8, per_channel=True, nodes_to_exclude=[*tied]
    )
    rounded = onnx.load(path)
    for node in [node for node in rounded.graph.node if node.name in tied]:
        _gather_rounded_columns(rounded.graph, node, other_weights)
    onnx.checker.check_model(rounded)
    return rounded


def _axis(node: Any) -> int:
    """The axis of a Gather node, by default 0."""
    for attribute in node.attribute:
        if attribute.name == "axis":
            return attribute.i
    return 0


def _gather_rounded_columns(graph: Any, node: Any, other_weights: Sequence[Any]) -> None:
    """Replace `node`, which gathers columns of a table in float32, by nodes that gather the columns in eight bits and
    multiply each by its scale."""
    make = load("onnx", extra="onnx", purpose="Writing ONNX").helper.make_node
    (table, ids), (output,) = node.input, node.output
    rounded_table, scale = f"{table}_quantized", f"{table}_scale"
    replacement = [
        make("Gather", [rounded_table, ids], [f"{output}_rounded"], axis=1),
        make("Cast", [f"{output}_rounded"], [f"{output}_whole"], to=FLOAT),
        make("Gather", [scale, ids], [f"{output}_scale"]),
        make("Mul", [f"{output}_whole", f"{output}_scale"], [output]),
    ]
    index = [*graph.node].index(node)
    graph.node.remove(node)
    for step in reversed(replacement):
        graph.node.insert(index, step)
    graph.initializer.remove(next(weight for weight in graph.initializer if weight.name == table))
    graph.initializer.extend(weight for weight in other_weights if weight.name in (rounded_table, scale))


def _share_weights(first: Sequence[Any], second: Sequence[Any], path: Path) -> None:
    """Move the weights that two graphs have in common into a file beside them, if there are any."""
    helper = load("onnx.external_data_helper", extra="onnx", purpose="Writing ONNX")
    second_by_name = {weight.name: weight for weight in second}
    shared = []
    for weight in first:
        other = second_by_name.get(weight.name)
        if other is not None and len(weight.raw_data) >= LARGE and weight.raw_data == other.raw_data:
            shared.append((weight, other))
    if not shared:
        return
    with path.open("wb") as file:
        for pair in shared:
            content = pair[0].raw_data
            file.write(bytes(-file.tell() % ALIGNMENT))
            for weight in pair:
                helper.set_external_data(weight, path.name, file.tell(), len(content))
                weight.ClearField("raw_data")
            file.write(content)


class OnnxStepper:
    """A `Stepper` over the sessions of both graphs. Each row has a copy of the memory of its source."""

    def __init__(self, encoder: Any, decoder: Any, source_ids: Int[Tensor, "rows length"]):
        self.decoder = decoder
        names = [output.name for output in encoder.get_outputs()]
        outputs = encoder.run(None, {"ids": source_ids.numpy()})
        self.memory: dict[str, np.ndarray] = dict(zip(names, outputs, strict=True))
        rows, heads, _, width = self.memory["cross_key_0"].shape
        layers = sum(name.startswith("cross_key") for name in names)
        empty = np.zeros((rows, heads, 0, width), np.float32)
        self.past = {f"{name}_{index}": empty for name in ("key", "value") for index in range(layers)}
        self.position = 0

    def step(self, tokens: Int[np.ndarray, " rows"]) -> LogProbs:
        """Log-probabilities of the tokens that follow `tokens`."""
        inputs = {"tokens": tokens[:, None], "position": np.array([self.position])}
        names = ["log_probs", *(f"new_{name}" for name in self.past)]
        log_probs, *present = self.decoder.run(names, inputs | self.memory | self.past)
        self.past = dict(zip(self.past, present, strict=True))
        self.position += 1
        return ArrayLogProbs(log_probs)

    def reorder(self, rows: Int[np.ndarray, " kept"]) -> None:
        """Continue with these rows."""
        self.past = {name: array[rows] for name, array in self.past.items()}
        self.memory = {name: array[rows] for name, array in self.memory.items()}


@torch.inference_mode()
def search(
    folder: Path, directory: ModelDirectory, sources: Sequence[list[int]], *, beam_size: int, length_penalty: float
) -> list[EngineTranslation]:
    """Translate sources of token ids with onnxruntime and our search."""
    runtime = load("onnxruntime", extra="onnx", purpose="Running ONNX")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    sessions = [runtime.InferenceSession(folder / name, options, ["CPUExecutionProvider"]) for name in FILES]
    special = directory.source_tokenizer.closing
    translations = []
    for start in range(0, len(sources), BATCH):
        batch = sources[start : start + BATCH]
        stepper = OnnxStepper(*sessions, padded(batch, special))
        translations += search_with(
            stepper, directory, batch, beam_size=beam_size, length_penalty=length_penalty, beams=ScoreBeams
        )
    return translations
