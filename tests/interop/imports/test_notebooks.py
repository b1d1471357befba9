"""Weights of the notebooks give the notebooks' log-probabilities; a file that is not of a style is refused by name."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.errors import DataError, UsageError
from dragoman.interop.imports.notebooks import from_notebook
from dragoman.interop.imports.styles import STYLES
from tests.interop.notebook_models import Sizes, log_probabilities, random_weights, sinusoids

SAMPLES = Path(__file__).parents[4] / "shared" / "notebooks"
SIZES = {
    "odd width": Sizes(),
    "one layer, one head": Sizes(d_model=14, d_ff=5, heads=1, encoder_layers=1, decoder_layers=1, source_vocab=7),
    "a head a feature": Sizes(d_model=10, d_ff=1, heads=10, encoder_layers=3, decoder_layers=2, target_vocab=13),
    "a deep decoder": Sizes(d_model=12, d_ff=61, heads=2, encoder_layers=1, decoder_layers=11, positions=29),
    "a deep encoder": Sizes(d_model=8, d_ff=3, heads=4, encoder_layers=11, decoder_layers=1, source_vocab=101),
}
SMALL = SIZES["one layer, one head"]
LONG = Sizes(d_model=16, heads=2, encoder_layers=1, decoder_layers=1, positions=613)


def ids(vocab: int, rows: int, length: int) -> torch.Tensor:
    tokens = torch.randint(1, vocab, (rows, length), generator=torch.Generator().manual_seed(vocab))
    tokens[1, length - 4 :] = 0
    return tokens


def assert_same(style: str, weights: dict[str, torch.Tensor], sizes: Sizes, lengths=(13, 11), given=None):
    """`from_notebook` gives the log-probabilities of the notebook's formulas."""
    source, target = ids(sizes.source_vocab, 3, lengths[0]), ids(sizes.target_vocab, 3, lengths[1])
    model = from_notebook(given or weights, style=style, num_heads=sizes.heads)
    with torch.no_grad():
        ours = model(source, target, (source != 0) | (style == "keras")).log_softmax(-1)
    expected = log_probabilities(style, weights, sizes, source, target)
    counted = (target != 0) | (style == "keras")
    torch.testing.assert_close(ours[counted], expected[counted], rtol=0, atol=1e-4)


@pytest.mark.first_is_quick
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("style", STYLES)
def test_log_probabilities_are_those_of_the_notebooks_formulas(style, sizes):
    assert_same(style, random_weights(style, sizes), sizes)


@pytest.mark.parametrize("style", STYLES)
def test_long_sequences_are_as_exact(style):
    assert_same(style, random_weights(style, LONG), LONG, (607, 601))


@pytest.mark.first_is_quick
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
        ours = model(source, target, (source != 0) | (style == "keras")).log_softmax(-1)
    expected = np.log(arrays["probabilities"]) if style == "keras" else arrays["log_probabilities"]
    counted = (target != 0) | (style == "keras")
    torch.testing.assert_close(ours[counted], torch.as_tensor(expected)[counted], rtol=0, atol=1e-4)


def test_tables_of_sines_may_be_long_or_missing():
    weights, sizes = random_weights("prenorm", Sizes()), Sizes()
    without = {name: value for name, value in weights.items() if not name.endswith(".pe")}
    longer = without | {"src_pos.pe": sinusoids(1201, sizes.d_model)[None], "tgt_pos.pe": torch.empty(1, 0, 21)}
    for given in (without, longer):
        assert_same("prenorm", weights, sizes, (17, 11), given)


def test_positions_of_another_formula_are_refused():
    weights = random_weights("postnorm", Sizes())
    for table in (weights["positional_encoding.pe"].flip(-1), torch.zeros(1, 19, 21), torch.zeros(20)):
        with pytest.raises(DataError, match=r"`positional_encoding.pe` does not hold the sines of the post-norm"):
            from_notebook(weights | {"positional_encoding.pe": table}, style="postnorm", num_heads=3)


def test_a_projection_tied_to_the_target_table_is_saved_twice():
    weights = random_weights("annotated", Sizes())
    weights["generator.proj.weight"] = weights["tgt_embed.0.lut.weight"]
    assert_same("annotated", weights, Sizes())


def test_layers_that_keras_numbered_by_session_are_found():
    sizes = SIZES["a deep decoder"]
    weights = random_weights("keras", sizes)

    def later(layer: re.Match) -> str:
        return f"{layer[1]}_{3 * int(layer[2] or 0) + 8}/"

    renamed = {re.sub(r"(?<=layers/)(\D+?)(?:_(\d+))?/", later, name): value for name, value in weights.items()}
    assert "layers/transformer_decoder_38/feed_forward/layers/dense_11/vars/0" in renamed
    older = {name.replace("layers/", "_layer_checkpoint_dependencies/"): value for name, value in renamed.items()}
    for given in (renamed, older):
        assert_same("keras", weights, sizes, given=given)


def test_position_tables_of_two_lengths_are_read():
    weights, sizes = random_weights("keras", Sizes()), Sizes()
    for shorter in ("layers/positional_embedding", "layers/positional_embedding_1"):
        table = f"{shorter}/position_embeddings/vars/0"
        assert_same("keras", weights | {table: weights[table][:13]}, sizes)


@pytest.mark.parametrize("style", STYLES)
def test_the_wrong_style_is_refused_and_the_right_one_named(style):
    weights = random_weights(style, Sizes())
    for wrong in STYLES.keys() - {style}:
        with pytest.raises(DataError, match=f"'{wrong}' but '{style}'"):
            from_notebook(weights, style=wrong, num_heads=3)


def test_a_style_that_does_not_exist_lists_those_that_do():
    with pytest.raises(UsageError, match="choose one of prenorm, postnorm, annotated, keras"):
        from_notebook({}, style="pytorch", num_heads=3)
    with pytest.raises(DataError, match=r"none of the styles prenorm, .* it holds a, b, c\.$"):
        from_notebook(dict.fromkeys("abcd", torch.ones(2)), style="prenorm", num_heads=3)


@pytest.mark.first_is_quick
@pytest.mark.parametrize("style", STYLES)
def test_every_missing_extra_and_misshapen_tensor_is_named(style):
    weights = random_weights(style, SMALL)
    names = [name for name in weights if not name.endswith(".pe")]
    for name in names:
        with pytest.raises(DataError, match=f"The mapping lacks `{re.escape(name)}`; "):
            from_notebook({key: value for key, value in weights.items() if key != name}, style=style, num_heads=1)
    with pytest.raises(DataError, match="has unknown `surprise`"):
        from_notebook(weights | {"surprise": torch.ones(2)}, style=style, num_heads=1)
    for name in names[::3]:
        value = torch.ones(4)
        with pytest.raises(DataError, match=rf"`{re.escape(name)}` of shape \(4,\) (does not fit|should be a matrix)"):
            from_notebook(weights | {name: value}, style=style, num_heads=1)


@pytest.mark.parametrize("style", STYLES)
def test_a_layer_that_is_missing_as_a_whole_is_named(style):
    weights = random_weights(style, Sizes(encoder_layers=3))
    prefix = STYLES[style].name_of("encoder.layers.1.")
    kept = {name: value for name, value in weights.items() if not name.startswith(prefix)}
    assert len(kept) == len(weights) - 16
    if style == "keras":
        # Its names are numbers in a row, whatever the numbers: two layers are a model of two.
        assert from_notebook(kept, style=style, num_heads=3).config.num_encoder_layers == 2
    else:
        with pytest.raises(DataError, match=rf"lacks `{re.escape(prefix)}.*` and \d+ more"):
            from_notebook(kept, style=style, num_heads=3)


@pytest.mark.parametrize("indices", [["99999"], ["9" * 5000], map(str, range(5000))])
def test_layers_of_absurd_numbers_are_no_memory_bomb(indices):
    more = {f"encoder.layers.{index}.x": torch.ones(1) for index in indices}
    with pytest.raises((DataError, UsageError), match=r"lacks|`num_encoder_layers` is 5000"):
        from_notebook(random_weights("prenorm", Sizes()) | more, style="prenorm", num_heads=3)


def test_the_decoder_without_feed_forward_network_is_explained():
    weights = random_weights("postnorm", Sizes())
    broken = {k: v for k, v in weights.items() if not k.startswith("decoder_layers") or "feed_forward" not in k}
    with pytest.raises(DataError, match=r"has no feed-forward network.* give --as-written"):
        from_notebook(broken, style="postnorm", num_heads=3)


def test_the_number_of_heads_may_be_one_of_numpy(annotations_unchecked):
    weights = random_weights("prenorm", Sizes())
    for number in (np.int64(3), np.array(3), torch.tensor(3)):
        assert from_notebook(weights, style="prenorm", num_heads=number).config.num_heads == 3
    for number in (3.0, "3", None):
        with pytest.raises(UsageError, match="cannot be built"):
            from_notebook(weights, style="prenorm", num_heads=number)
    with pytest.raises(UsageError, match="not a multiple of `num_heads` 4"):
        from_notebook(weights, style="prenorm", num_heads=4)


def test_choices_that_make_another_model_are_refused():
    weights = random_weights("prenorm", Sizes())
    assert from_notebook(weights, style="prenorm", num_heads=3, pad_id=1).config.pad_id == 1
    for choice in ({"activation": "swiglu"}, {"tie_projection": True}, {"projection_bias": False}):
        with pytest.raises(UsageError, match="other weights than the file's"):
            from_notebook(weights, style="prenorm", num_heads=3, **choice)
    with pytest.raises(UsageError, match="pading_id"):
        from_notebook(weights, style="prenorm", num_heads=3, pading_id=1)
