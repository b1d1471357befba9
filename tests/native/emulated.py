"""What tests/native/test_aarch64.py runs on an emulated processor: the engine beside its formula; no torch, no pytest.

    emulated.py MODEL TEXTS

Prints JSON: for each kind of instructions, the greedy and beam translations of the lines of TEXTS.
"""

import json
import random
import sys
from pathlib import Path

import numpy as np

from dragoman.decoding.translator import Translator
from dragoman.engine import int8, parameters
from dragoman.model.config import TransformerConfig
from dragoman.native import library

ARCHITECTURES = 8


def main(model: str, texts: str) -> None:
    lines = Path(texts).read_text(encoding="utf-8").splitlines()
    assert library.compiled(), "the library is not loaded"
    found = {}
    for kind in int8.KINDS:
        functions = int8.compiled(kind)
        if functions is None:
            continue
        int8.functions = functions
        products_equal_their_formula()
        for seed in range(ARCHITECTURES):
            steps_equal_a_pass_over_whole_sentences(seed)
        translator = Translator.load(model, precision="int8", device="cpu")
        found[kind] = {size: [one.text for one in translator.translate(lines, beam_size=size)] for size in (1, 4)}
    print(json.dumps(found))


def products_equal_their_formula() -> None:
    """Sums of integers are exact, so nothing but the rounding of the float32 afterwards may differ."""
    draw = np.random.default_rng(1)
    for rows, inputs, outputs in ((1, 16, 3), (5, 48, 47), (8, 1024, 96), (65, 64, 32)):
        weight, bias = (draw.normal(size=shape).astype(np.float32) for shape in ((outputs, inputs), outputs))
        linear = int8.Int8Linear(weight, bias)
        x = draw.normal(size=(rows, inputs)).astype(np.float32)
        np.testing.assert_allclose(linear(x), linear.formula(x), rtol=1e-5, atol=1e-5)
        greatest = int8.Int8Linear(np.ones((outputs, inputs), np.float32), None)
        np.testing.assert_allclose(greatest(-np.ones((rows, inputs), np.float32)), -float(inputs), rtol=1e-6)


def steps_equal_a_pass_over_whole_sentences(seed: int) -> None:
    """As tests/engine/test_int8.py has it, for a random architecture."""
    dice, draw = random.Random(seed), np.random.default_rng(seed)
    heads = dice.choice([1, 2, 3])
    config = TransformerConfig(
        source_vocab_size=50, target_vocab_size=dice.choice([47, 301]), d_model=heads * dice.choice([16, 32, 64]),
        d_ff=80, num_heads=heads, num_encoder_layers=2, num_decoder_layers=2,
        norm_order=dice.choice(["pre", "post"]), norm=dice.choice(["layer", "rms"]),
        positions=dice.choice(["sinusoidal", "rotary"]), activation=dice.choice(["relu", "gelu", "silu", "swiglu"]),
    )  # fmt: skip
    weights = {
        name: draw.normal(size=shape, scale=0.3).astype(np.float32) for name, shape in parameters.shapes(config).items()
    }
    engine = int8.Int8Engine(config, weights)
    source, target = draw.integers(4, 50, (3, 9)), draw.integers(4, 47, (3, 6))
    stepper = engine.stepper(source)
    steps = np.stack([stepper.step(column).array.copy() for column in target.T], axis=1)
    (wanted,) = engine.distributions(source, target, np.ones(target.shape, bool))
    wanted = wanted.array.reshape(steps.shape)
    assert np.linalg.norm(steps - wanted) / np.linalg.norm(wanted) < 0.03, config


if __name__ == "__main__":
    main(*sys.argv[1:])
