"""The notebooks' recipes: their architectures, splits and ends, a small run of each, and notebook B's loss curve."""

import json
import math
from pathlib import Path

import pytest

from dragoman.config.recipes import read_recipe
from dragoman.config.run import RunConfig, load_config
from dragoman.config.settings import parse_settings
from dragoman.data.bitext import Bitext
from dragoman.data.preparation import PreparedData, prepare
from dragoman.interop.imports.styles import STYLES
from dragoman.storage.metrics_log import read_metrics
from dragoman.storage.run_directory import RunDirectory
from dragoman.text.characters import folded
from tests.small import MODEL_SETTINGS, plan, train_run, write_pairs

RECIPES = {style: f"notebook-{style}" for style in STYLES}
SMALL = [
    *MODEL_SETTINGS, "training.validate_sentences=3", "training.max_steps=5",
]  # fmt: skip


def recipe(style: str, *settings: str) -> RunConfig:
    return load_config(read_recipe(RECIPES[style]), parse_settings(list(settings)))


@pytest.mark.first_is_quick
@pytest.mark.parametrize("style", STYLES)
def test_the_architecture_is_that_of_the_notebooks_weights(style: str):
    """What a run with the recipe trains could be loaded back as the notebook's own weights are."""
    model = recipe(style).transformer(997, 1009)
    choices = STYLES[style].choices
    assert {name: getattr(model, name) for name in choices} == choices
    assert (model.d_model, model.d_ff, model.num_heads, model.share_embeddings) == (512, 2048, 8, False)
    layers = 1 if style == "keras" else 6
    assert (model.num_encoder_layers, model.num_decoder_layers) == (layers, layers)


@pytest.mark.parametrize("style", STYLES)
def test_nothing_is_done_that_the_notebooks_do_not_do(style: str):
    training, decoding = recipe(style).training, recipe(style).decoding
    assert (training.clip_norm, training.average, training.ema, training.weight_decay) == (0, 1, 0, 0)
    assert (training.monitor, decoding.beam_size, training.max_minutes) == ("loss", 1, None)
    assert (training.guided_alignment, training.typos, training.joined) == (0, 0, 0)
    assert training.label_smoothing == (0.1 if style in ("prenorm", "annotated") else 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "style", ["prenorm", *(pytest.param(style, marks=pytest.mark.slow) for style in STYLES if style != "prenorm")]
)
def test_each_recipe_makes_a_model_that_is_scored(tmp_path: Path, style: str):
    pairs = write_pairs(tmp_path / "pairs.tsv", Bitext.open("builtin:grammar:60"))
    data = "builtin:random:5" if style == "postnorm" else pairs
    evaluation = train_run(tmp_path / "model", data, settings=SMALL, recipe=RECIPES[style])
    assert math.isfinite(evaluation.tokens.perplexity)
    directory = RunDirectory(tmp_path / "model")
    saved = load_config(read_recipe(str(directory.config)), {})
    assert saved.decoding.beam_size == 1
    events = read_metrics(directory.metrics)
    assert [event["step"] for event in events if event["event"] == "validation"][-1] == 5
    assert directory.tensorboard.exists() == (style == "prenorm")
    if style == "postnorm":
        assert [event["step"] for event in events if event["event"] == "step"] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("by", ["sentence", "line"])
def test_the_keras_recipe_shares_out_70_20_10(tmp_path: Path, by: str):
    lines = [f"Sentence {n}!\tPhrase {n}, {v}.\n" for n in range(110) for v in range(1 + n % 3)]
    (tmp_path / "fra.txt").write_text("".join(lines), encoding="utf-8")
    config, bitext = plan(tmp_path / "fra.txt", settings=[*SMALL, f"data.split={by}"], recipe="notebook-keras")
    prepare(bitext, config, tmp_path)
    data = PreparedData.open(tmp_path, config)
    total = 110 if by == "sentence" else len(lines)
    held_out = [{(folded(s), t if by == "line" else "") for s, t in p} for p in (data.valid_pairs, data.test_pairs)]
    assert [len(part) for part in held_out] == [round(0.2 * total), round(0.1 * total)]
    assert data.about.train_pairs == len(lines) - len(data.valid_pairs) - len(data.test_pairs)
    assert bool(data.about.leaked) == (by == "line")
    assert data.target_tokenizer.decode(data.target_tokenizer.encode("PHRASE, 1")) == "phrase 1"


@pytest.mark.slow
def test_the_random_pairs_are_learned_as_the_notebook_learns_them(tmp_path: Path):
    """Notebook B's own code with its decoder repaired: 8.683, 7.971 after ten epochs, 7.643 after fourteen."""
    settings = ["training.max_epochs=14", "training.precision=float32"]
    train_run(tmp_path / "model", settings=settings, recipe="notebook-postnorm")
    directory = RunDirectory(tmp_path / "model")
    losses = {event["step"]: event["loss"] for event in read_metrics(directory.metrics) if event["event"] == "step"}
    assert losses.keys() == set(range(1, 15))
    assert {epoch: losses[epoch] for epoch in (1, 10, 14)} == pytest.approx({1: 8.683, 10: 7.971, 14: 7.643}, rel=0.03)
    assert json.loads(directory.evaluation.read_bytes())["perplexity"] > 4_000
