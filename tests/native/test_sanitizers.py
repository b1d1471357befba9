"""The C of the engine under the sanitizers of the compiler: no byte is read or written where it must not be."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import build_kernels

PROGRAM = """
import ctypes, os, random, sys

loaded = ctypes.CDLL
ctypes.CDLL = lambda path, *rest: loaded(os.environ["SANITIZED"] if path.endswith("libkernels.so") else path, *rest)

import numpy as np
from dragoman.engine import int8, parameters
from dragoman.model.config import TransformerConfig

dice, draw = random.Random(int(sys.argv[1])), np.random.default_rng(int(sys.argv[1]))
kinds = [kind for kind in int8.KINDS if int8.compiled(kind)]
for number in range(int(sys.argv[2])):
    int8.functions = int8.compiled(dice.choice(kinds))
    heads, width = dice.choice([1, 2, 3, 5]), 16 * dice.choice([1, 2, 3, 4])
    config = TransformerConfig(
        source_vocab_size=dice.randrange(5, 70), target_vocab_size=dice.randrange(5, 700), d_model=heads * width,
        d_ff=16 * dice.randrange(1, 9), num_heads=heads, num_encoder_layers=dice.randrange(1, 3),
        num_decoder_layers=dice.randrange(1, 3), norm_order=dice.choice(["pre", "post"]),
        norm=dice.choice(["layer", "rms"]), positions=dice.choice(["sinusoidal", "rotary"]),
        activation=dice.choice(["relu", "gelu", "silu", "swiglu"]), tie_projection=dice.random() < 0.5,
        projection_bias=dice.random() < 0.5,
    )
    weights = {
        name: draw.normal(size=shape, scale=0.3).astype(np.float32) for name, shape in parameters.shapes(config).items()
    }
    engine = int8.Int8Engine(config, weights)
    rows = dice.choice([1, 2, 7, 70])
    length = 600 if number % 9 == 0 else dice.choice([1, 2, 9, 15, 16, 17, 63, 64, 65])
    sources = draw.integers(4, config.source_vocab_size, (rows, length))
    for row in sources[1:]:
        row[dice.randrange(length + 1) :] = config.pad_id  # a source may be all padding
    stepper = engine.stepper(sources)
    for _ in range(dice.choice([1, 3, 70])):
        log_probs = stepper.step(draw.integers(0, config.target_vocab_size, rows))
        assert np.isfinite(log_probs.array).all(), config
        log_probs.best(np.zeros((rows, 1)), dice.choice([1, 2, 10]))
        kept = np.sort(draw.integers(0, rows, dice.randrange(1, rows + 1)))
        stepper.reorder(kept)
        rows = len(kept)
    targets = draw.integers(0, config.target_vocab_size, (len(sources), 3))
    assert all(np.isfinite(part.array).all() for part in engine.distributions(sources, targets, targets >= 0))
print("done")
"""


@pytest.mark.slow
def test_no_shape_makes_the_engine_read_or_write_elsewhere(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    runtime = compiler and subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True)
    if not runtime or not os.path.isabs(runtime.stdout.strip()):
        pytest.skip("needs gcc with its address sanitizer")
    root, library = Path(build_kernels.__file__).parents[1], tmp_path / "libsanitized.so"
    sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-sanitize=alignment", "-g"]
    sources = [str(root / source) for source in build_kernels.SOURCES if source.stem != "bfloat16"]  # for training
    flags = ["-O1", *build_kernels.FLAGS, *sanitize]
    subprocess.run([compiler, *flags, *sources, "-o", str(library), "-lm"], check=True, capture_output=True)
    settings = {
        "LD_PRELOAD": runtime.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "SANITIZED": str(library),
        "PYTHONMALLOC": "malloc",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-c", PROGRAM, "1", "60"]
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ | settings)
    assert result.returncode == 0, result.stderr[-4000:]
    assert result.stdout == "done\n"
