"""Weights of the notebooks give the notebooks' log-probabilities; what is no such file is refused by name."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.errors import DataError, UsageError
from dragoman.interop.notebooks import from_notebook
from dragoman.interop.styles import STYLES
from tests.interop.notebook_models import Sizes, keras_model, log_probabilities, pytorch_model, random_weights

SAMPLES = Path(__file__).parents[3] / "shared" / "notebooks"
SIZES = [Sizes(), Sizes(d_model=10, d_ff=7, heads=5, layers=3, source_vocab=11, target_vocab=13)]


def ids(vocab: int, rows: int, length: int) -> torch.Tensor:
    made = torch.randint(1, vocab, (rows, length), generator=torch.Generator().manual_seed(vocab))
    made[1, length - 4 :] = 0
    return made


@pytest.mark.parametrize("sizes", SIZES, ids=["two layers", "three layers"])
@pytest.mark.parametrize("style", STYLES)
def test_log_probabilities_are_those_of_the_notebooks_formulas(style, sizes):
    weights = random_weights(style, sizes)
    source, target = ids(sizes.source_vocab, 3, 13), ids(sizes.target_vocab, 3, 11)
    reference = keras_model(weights, sizes) if style == "keras" else pytorch_model(weights, sizes, style=style)
    model = from_notebook(weights, style=style, num_heads=sizes.heads)
    mask = torch.ones_like(source, dtype=torch.bool) if style == "keras" else None
    with torch.no_grad():
        ours = model(source, target, mask).log_softmax(-1)
    expected = log_probabilities(reference, source, target, sizes.layers)
    counted = torch.ones_like(target, dtype=torch.bool) if style == "keras" else target != 0
    torch.testing.assert_close(ours[counted], expected[counted], rtol=0, atol=1e-4)


@pytest.mark.parametrize("style", STYLES)
def test_the_reference_cases_made_by_the_notebooks_own_code(style):
    case = SAMPLES / f"{style}_sample.npz"
    if not case.exists():
        pytest.skip("no reference cases beside the checkout")
    if style == "keras":
        pytest.importorskip("h5py")
    arrays = np.load(case)
    source, target = (torch.as_tensor(arrays[side]).long() for side in ("source", "target"))
    file = SAMPLES / ("keras_sample.weights.h5" if style == "keras" else f"{style}_sample.pt")
    model = from_notebook(file, style=style, num_heads=int(arrays["num_heads"]))
    with torch.no_grad():
        ours = model(source, target, torch.ones_like(source, dtype=torch.bool) if style == "keras" else None)
    ours = ours.log_softmax(-1)
    if style == "keras":
        torch.testing.assert_close(ours, torch.as_tensor(arrays["probabilities"]).log(), rtol=0, atol=1e-4)
    else:
        expected = torch.as_tensor(arrays["log_probabilities"])
        torch.testing.assert_close(ours[target != 0], expected[target != 0], rtol=0, atol=1e-4)


def test_a_checkpoint_of_the_notebooks_training_loop_holds_the_weights_under_a_key(tmp_path):
    weights = random_weights("prenorm", Sizes())
    torch.save({"epoch": 3, "model_state_dict": weights}, tmp_path / "tmodel_03.pt")
    model = from_notebook(tmp_path / "tmodel_03.pt", style="prenorm", num_heads=3)
    torch.testing.assert_close(model.projection.bias.data, weights["projection_layer.proj.bias"])


@pytest.mark.parametrize("style", STYLES)
def test_the_wrong_style_is_refused_and_the_right_one_named(style):
    weights = random_weights(style, Sizes())
    for wrong in STYLES.keys() - {style}:
        with pytest.raises(DataError, match=f"'{wrong}' but '{style}'"):
            from_notebook(weights, style=wrong, num_heads=3)


def test_an_unknown_style_lists_the_known_ones():
    with pytest.raises(UsageError, match="choose one of prenorm, postnorm, annotated, keras"):
        from_notebook({}, style="pytorch", num_heads=3)


@pytest.mark.parametrize("style", STYLES)
def test_a_missing_an_extra_and_a_misshapen_tensor_are_named(style):
    weights = random_weights(style, Sizes())
    name = sorted(weights)[len(weights) // 2]
    with pytest.raises(DataError, match=f"lacks `{name}`|`{name}`"):
        from_notebook({key: value for key, value in weights.items() if key != name}, style=style, num_heads=3)
    with pytest.raises(DataError, match="unknown `surprise`"):
        from_notebook(weights | {"surprise": torch.ones(2)}, style=style, num_heads=3)
    name = next(key for key in weights if "feed_forward" in key and key.endswith(("bias", "vars/1")))
    with pytest.raises(DataError, match=f"`{name}` has the shape \\(5,\\)"):
        from_notebook(weights | {name: torch.ones(5)}, style=style, num_heads=3)


def test_a_number_of_heads_that_does_not_divide_the_width_is_a_usage_error():
    with pytest.raises(UsageError, match="not a multiple of `num_heads` 4"):
        from_notebook(random_weights("postnorm", Sizes()), style="postnorm", num_heads=4)


def test_the_decoder_without_feed_forward_network_is_explained():
    weights = random_weights("postnorm", Sizes())
    broken = {k: v for k, v in weights.items() if not k.startswith("decoder_layers") or "feed_forward" not in k}
    with pytest.raises(DataError, match="has no feed-forward network"):
        from_notebook(broken, style="postnorm", num_heads=3)


class Hostile:
    def __reduce__(self):
        return (Path.touch, (Path("ran-on-load"),))


def test_a_hostile_pickle_is_refused_without_running(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("model.pt").write_bytes(pickle.dumps({"a": Hostile()}))
    torch.save({"fc.weight": Hostile()}, "zipped.pt")
    for file in ("model.pt", "zipped.pt"):
        with pytest.raises(DataError, match=f"{file} is refused"):
            from_notebook(file, style="postnorm", num_heads=2)
    assert not Path("ran-on-load").exists()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is refused"),
        (b"\x89HDF\r\n\x1a\nrest", "cannot be read"),
        (b"just text", "is refused"),
    ],
)
def test_a_file_that_holds_no_weights_is_refused(tmp_path, content, problem):
    if content.startswith(b"\x89HDF"):
        pytest.importorskip("h5py")
    (tmp_path / "weights").write_bytes(content)
    with pytest.raises(DataError, match=problem):
        from_notebook(tmp_path / "weights", style="prenorm", num_heads=2)


def test_weights_that_are_no_dense_numbers_are_refused():
    weights = random_weights("postnorm", Sizes())
    weights["fc.bias"] = weights["fc.bias"].to_sparse()
    with pytest.raises(DataError, match="is no dense tensor"):
        from_notebook(weights, style="postnorm", num_heads=3)
