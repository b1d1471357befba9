"""Models as ONNX: the encoder, one cached step of the decoder, and our search over onnxruntime."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.data.batching import padded
from dragoman.interop.engine_files import write_script, write_tokenizers
from dragoman.interop.onnx_graph import decoder_graph, encoder_graph
from dragoman.interop.proof import BATCH, Found, ScoreBeams, found_by
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.optional import load

FILES = ("encoder.onnx", "decoder.onnx")


def write(directory: ModelDirectory, folder: Path, numbers: str) -> None:
    """Write both graphs, the tokenizers and a script into `folder`, which exists."""
    write_graphs(directory, folder, numbers)
    write_script(directory, folder, "onnxruntime")


@torch.no_grad()
def write_graphs(directory: ModelDirectory, folder: Path, numbers: str) -> None:
    """Write both graphs and the tokenizers into `folder`, which exists."""
    onnx, model = load("onnx", extra="onnx", purpose="Writing ONNX"), directory.model
    for name, graph in zip(FILES, (encoder_graph, decoder_graph), strict=True):
        onnx.save(graph(model), folder / name)
        if numbers == "int8":
            _round(folder / name)
    write_tokenizers(directory, folder)


def _round(path: Path) -> None:
    """The weights of matrix products in eight bits."""
    quantization = load("onnxruntime.quantization", extra="onnx", purpose="Writing eight bits")
    quantization.quantize_dynamic(path, path, weight_type=quantization.QuantType.QInt8, per_channel=True)


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
