"""Whole training loops of toolkits, each in a process and an environment of its own, as their users start them.

A run passes over the same pairs twice, and the second pass counts, as the toolkit's own log tells it.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

import environment
from corpus import Corpus
from dragoman.data.batching import TokenStore
from dragoman.model import Transformer, TransformerConfig
from dragoman.text.tokenizers.algorithms import SPECIAL_TOKENS

SEEN = 2
"""Passes over the pairs."""


class ToolkitFailed(Exception):
    """It does not run here, or did something else than was asked for."""


@dataclass(frozen=True)
class Files:
    """Pairs as text, and the same cut into tokens, which are written as their numbers."""

    folder: Path
    texts: tuple[Path, Path]
    config: TransformerConfig
    weights: int
    pairs: int
    max_tokens: int
    source_tokens: int
    """Source tokens of one pass, each end of sentence included."""
    target_tokens: int

    @property
    def tokens(self) -> int:
        return self.source_tokens + self.target_tokens


@dataclass(frozen=True)
class Run:
    """Speed of one run."""

    rate: float
    """Source and target tokens a second in the second pass, by the toolkit's own log."""
    wall: float
    """Tokens a second in both passes, by our clock, from the start of the process to its end."""


def write_texts(folder: Path, pairs: Iterable[tuple[str, str]]) -> tuple[Path, Path]:
    """A file for each side."""
    paths = folder / "text.source", folder / "text.target"
    for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


def write_files(folder: Path, texts: tuple[Path, Path], corpus: Corpus) -> Files:
    """The pairs to train on as the toolkits read them, in `folder`, and a pair to validate on, which they want."""
    stores: list[TokenStore] = [corpus.data.train.source, corpus.data.train.target]
    for side, store in zip(("src", "trg"), stores, strict=True):
        lines = [" ".join(map(str, store[i].tolist())) + "\n" for i in range(len(store))]
        (folder / f"train.{side}").write_text("".join(lines), encoding="ascii")
        (folder / f"dev.{side}").write_text(lines[0], encoding="ascii")
    numbers = range(len(SPECIAL_TOKENS), corpus.vocab_size)
    (folder / "vocabulary").write_text("".join(f"{number}\n" for number in numbers), encoding="ascii")
    sizes = [int(store.lengths.sum()) + len(store) for store in stores]
    config = corpus.config.transformer(corpus.vocab_size, corpus.vocab_size)
    weights = sum(p.numel() for p in Transformer(config).parameters())
    return Files(folder, texts, config, weights, len(stores[0]), corpus.config.training.max_tokens, *sizes)


def dragoman(files: Files, settings: list[str]) -> Run:
    """`dragoman train`, with its defaults, less validations."""
    output = files.folder / "dragoman"
    command = [sys.executable, "-m", "dragoman", "train", *files.texts]
    options = [f"training.max_epochs={SEEN}", "training.validate_every=1000000", "training.log_every=1"]
    wall, _ = _timed([*command, "--output", output, *settings, *options], output)
    events = [json.loads(line) for line in (output / "run" / "metrics.jsonl").read_text().splitlines()]
    steps = [event for event in events if event["event"] == "step"]
    last = [step for step in steps if step["epoch"] == SEEN - 1]
    before = steps[-len(last) - 1]
    rate = (last[-1]["tokens"] - before["tokens"]) / (last[-1]["seconds"] - before["seconds"])
    return Run(rate, steps[-1]["tokens"] / wall)


def joeynmt(files: Files) -> Run:
    """`python -m joeynmt train`; on a CPU it knows no half precision."""
    output = files.folder / "joeynmt"
    layers = {"type": "transformer", "num_heads": files.config.num_heads, "hidden_size": files.config.d_model}
    layers |= {"ff_size": files.config.d_ff, "dropout": files.config.dropout, "layer_norm": "pre"}
    layers |= {"embeddings": {"embedding_dim": files.config.d_model, "scale": True}}
    side = {"level": "word", "voc_file": str(files.folder / "vocabulary")}
    data = {name: side | {"lang": name} for name in ("src", "trg")}
    data |= {"train": str(files.folder / "train"), "dev": str(files.folder / "dev"), "dataset_type": "plain"}
    config = {
        "name": "benchmark", "model_dir": str(output), "use_cuda": False, "random_seed": 1,
        "data": data, "testing": {"beam_size": 1, "eval_metrics": ["bleu"]},
        "training": {
            "optimizer": "adam", "learning_rate": 1e-4, "learning_rate_min": 0, "scheduling": "warmupinversesquareroot",
            "clip_grad_norm": 1.0, "label_smoothing": 0.1, "normalization": "tokens",
            "batch_size": files.max_tokens, "batch_type": "token", "epochs": SEEN,
            "validation_freq": 10**6, "logging_freq": 10,
        },
        "model": {
            "initializer": "xavier_uniform", "tied_embeddings": True, "tied_softmax": True,
            "encoder": layers | {"num_layers": files.config.num_encoder_layers},
            "decoder": layers | {"num_layers": files.config.num_decoder_layers},
        },
    }  # fmt: skip
    path = _written(files.folder / "joeynmt.yaml", config)
    wall, log = _timed([environment.python("joeynmt"), "-m", "joeynmt", "train", path, "--skip-test"], output)
    _check_weights(log, r"Total params: (\d+)", files)
    # It counts target tokens, with the ends of sentences.
    tokens, seconds = re.findall(r"num\. of tokens: (\d+), ([\d.]+)\[sec\]", log)[-1]
    if int(tokens) != files.target_tokens:
        raise ToolkitFailed(f"it saw {tokens} target tokens in a pass, not {files.target_tokens}.")
    return Run(files.tokens / float(seconds), SEEN * files.tokens / wall)


def eole(files: Files, *, precision: str) -> Run:
    """`eole train`, for as many steps as two passes have batches."""
    output, every = files.folder / "eole", 5
    steps = max(2 * every, SEEN * files.target_tokens // files.max_tokens // every * every)
    heads = {"heads": files.config.num_heads, "transformer_ff": files.config.d_ff}
    biases = {"add_qkvbias": True, "add_final_linear_bias": True, "add_ffnbias": True}
    positions = {"position_encoding": True, "position_encoding_type": "SinusoidalInterleaved"}
    config = {
        "data": {"corpus": {"path_src": str(files.folder / "train.src"), "path_tgt": str(files.folder / "train.trg")}},
        "src_vocab": str(files.folder / "vocabulary"), "tgt_vocab": str(files.folder / "vocabulary"),
        "share_vocab": True, "vocab_size_multiple": 1, "transforms": [], "report_every": every, "seed": 1,
        "save_data": str(output),
        "training": {
            "model_path": str(output), "world_size": 1, "gpu_ranks": [], "num_workers": 0, "compute_dtype": precision,
            "optim": "adam", "learning_rate": 1e-4, "max_grad_norm": 1.0, "label_smoothing": 0.1,
            "normalization": "tokens", "dropout": [files.config.dropout], "attention_dropout": [0.0],
            "bucket_size": files.pairs, "prefetch_factor": 4,
            "batch_size": files.max_tokens, "batch_type": "tokens", "train_steps": steps, "valid_steps": 10**6,
            "save_checkpoint_steps": 10**6, "log_attention_entropy": False,
        },
        "model": {
            "architecture": "transformer", "hidden_size": files.config.d_model, "share_embeddings": True,
            "share_decoder_embeddings": True, "generator_bias": False, **heads, **biases,
            "embeddings": {"word_vec_size": files.config.d_model, **positions},
            "encoder": {"encoder_type": "transformer", "layers": files.config.num_encoder_layers},
            "decoder": {"decoder_type": "transformer", "layers": files.config.num_decoder_layers},
        },
    }  # fmt: skip
    path = _written(files.folder / "eole.yaml", config)
    wall, log = _timed([environment.python("eole"), "-m", "eole.bin.main", "train", "--config", path], output)
    _check_weights(log, r"number of parameters: (\d+)", files)
    logged = re.findall(r"bsz: +(\d+)/ *(\d+)/.*?; +(\d+)/ *(\d+) tok/s", log)
    counted = [(every * (int(a) + int(b)), int(c) + int(d)) for a, b, c, d in logged]
    later = counted[len(counted) // 2 :]
    seconds = sum(tokens / rate for tokens, rate in later)
    return Run(sum(tokens for tokens, _ in later) / seconds, sum(tokens for tokens, _ in counted) / wall)


def _written(path: Path, config: dict) -> Path:
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def _check_weights(log: str, pattern: str, files: Files) -> None:
    (number,) = map(int, re.findall(pattern, log))
    if number != files.weights:
        raise ToolkitFailed(f"it has {number:,} weights where ours has {files.weights:,}.")


def _timed(command: list[str | Path], output: Path) -> tuple[float, str]:
    """Seconds of a process, and its output. Files of an earlier one in `output` are deleted first."""

    shutil.rmtree(output, ignore_errors=True)
    started = time.perf_counter()
    process = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=environment.HERE.parent)
    if process.returncode:
        raise ToolkitFailed(f"`{' '.join(map(str, command))}` failed: {process.stderr.strip().splitlines()[-1]}")
    return time.perf_counter() - started, process.stdout + process.stderr


TOOLKITS: dict[str, dict[str, Callable[[Files], Run]]] = {
    "Joey NMT": {"float32": joeynmt},
    "eole": {"float32": partial(eole, precision="fp32"), "bfloat16": partial(eole, precision="bf16")},
}
"""Functions that run the toolkits, by setting."""
