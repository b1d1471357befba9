"""Write docs/walk/live/index.html: a small trained model that runs on the page, with every head, the beam, candidates.

    python -m tools.make_live [MODEL]

Without a model directory, one is trained on the built-in grammar (some four minutes on two cores). The page is one file
that loads nothing, so it works from a disk as well as from a server. Its parts beside it are `page.html`,
`transformer.js` and `page.js`; the tokenizer is that of `dragoman export --to web`.
"""

import base64
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.engine import parameters
from dragoman.model.config import TransformerConfig
from dragoman.storage.directory import ArrayDirectory
from dragoman.system.templates import read_static
from tools.pages import DOCS

LIVE = DOCS / "walk/live"
PAGE = LIVE / "index.html"
STEPS = 700
SIZE = ["model.d_model=96", "model.d_ff=384"]
"""A width with which the page, and so each file of a release, stays below a megabyte."""
EXAMPLES = [
    "The little girl does not like the old green umbrella.",
    "My French neighbours hear the very lazy cat.",
    "Two doctors are looking for these beautiful houses.",
    "The cat likes itself.",
]
NEEDED = {"norm": "layer", "norm_order": "pre", "norm_gain": "feature", "positions": "rotary", "activation": "relu"}
"""Settings of the architecture that transformer.js computes."""
CONFIG = (
    "d_model", "num_heads", "num_encoder_layers", "num_decoder_layers", "scale_embeddings", "norm_eps", "bos_id",
    "eos_id",
)  # fmt: skip


def model_of(directory: ArrayDirectory) -> dict[str, Any]:
    """A model as the page has it: settings, tokenizers, shapes, and weights in eight bits."""
    config = directory.model.config
    for name, value in NEEDED.items():
        if getattr(config, name) != value:
            sys.exit(f"The page computes {name}={value} alone, and this model has {getattr(config, name)}.")
    weights = directory.model.weights
    tokenizers = dict.fromkeys(tokenizer.backend_copy().to_str() for tokenizer in directory.tokenizers)
    return {
        "config": {name: getattr(config, name) for name in CONFIG}
        | {"length_penalty": directory.decoding.length_penalty},
        "tokenizers": [json.loads(tokenizer) for tokenizer in tokenizers],
        "shapes": {name: list(weight.shape) for name, weight in weights.items()},
        "weights": base64.b64encode(b"".join(map(_packed, weights.values()))).decode(),
        "architecture": config.to_dict(),
        "examples": EXAMPLES,
    }


def weights_of(model: dict[str, Any]) -> dict[str, np.ndarray]:
    """The weights of the page in float32: the inverse of what `model_of` packs, up to its rounding."""
    content, at = base64.b64decode(model["weights"]), 0
    weights = {}
    for name, shape in model["shapes"].items():
        numbers = np.frombuffer(content, "<f4", shape[0], at)
        at += 4 * shape[0]
        if len(shape) == 2:
            whole = np.frombuffer(content, np.int8, shape[0] * shape[1], at).reshape(shape)
            at += whole.size
            numbers = whole * numbers[:, None]
        weights[name] = numbers.astype(np.float32)
    return weights


def architecture_of(model: dict[str, Any]) -> TransformerConfig:
    """The architecture of the page's model."""
    return TransformerConfig(**model["architecture"])


def _packed(weight: np.ndarray) -> bytes:
    """A vector in float32, or a matrix in eight bits after the scales of its rows."""
    if weight.ndim == 1:
        return weight.astype("<f4").tobytes()
    whole, scales = parameters.quantised(weight)
    return scales.astype("<f4").tobytes() + whole.tobytes()


def page(model: dict[str, Any]) -> str:
    """The page with a model."""
    tokenizer = read_static("interop/exports/static/web/tokenizer.js").replace("export class", "class")
    transformer, user_interface = ((LIVE / name).read_text(encoding="utf-8") for name in ("transformer.js", "page.js"))
    content = json.dumps(model, ensure_ascii=False, separators=(",", ":")).replace("<", r"\u003c")
    values = {
        "weights": f"{sum(int(np.prod(shape)) for shape in model['shapes'].values()):,}",
        "lines": str(transformer.count("\n")),
        "sentence": EXAMPLES[0],
        "script": "\n".join([tokenizer, transformer, f"const MODEL = {content};", user_interface]),
    }
    text = (LIVE / "page.html").read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"{{{{ {name} }}}}", value)
    return text


def model_in(text: str) -> dict[str, Any]:
    """The model of a page."""
    (line,) = (line for line in text.split("\n") if line.startswith("const MODEL = "))
    return json.loads(line.removeprefix("const MODEL = ").removesuffix(";"))


def train(folder: Path) -> None:
    """Train a narrower model of the demo for `STEPS` steps, so that it is the same on each machine up to rounding."""
    steps = [f"training.max_steps={STEPS}", f"training.validate_every={STEPS // 2}"]
    settings = [*SIZE, "training.max_minutes=null", *steps]
    command = [sys.executable, "-m", "dragoman", "train", "builtin:grammar", "--recipe", "demo", *settings]
    subprocess.run([*command, "--output", str(folder)], check=True)


def main() -> None:
    """Write the page of the model that is given, or of one that is trained for it."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch) / "model"
        if len(sys.argv) == 1:
            train(folder)
        PAGE.write_text(page(model_of(ArrayDirectory.load(folder))), encoding="utf-8")
    print(f"{PAGE.name}: {PAGE.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
