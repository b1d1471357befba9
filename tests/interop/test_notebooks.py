"""Weights of the notebooks give the notebooks' log-probabilities; what is no such file is refused by name."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import DataError, UsageError
from dragoman.interop.notebooks import from_notebook
from dragoman.interop.styles import STYLES
from tests.interop.notebook_models import Sizes, log_probabilities, random_weights, sinusoids

SAMPLES = Path(__file__).parents[3] / "shared" / "notebooks"
SIZES = {
    "several of all": Sizes(),
    "one layer, one head": Sizes(d_model=14, d_ff=5, heads=1, encoder_layers=1, decoder_layers=1, source_vocab=7),
    "a head a feature": Sizes(d_model=10, d_ff=7, heads=10, encoder_layers=3, decoder_layers=2, target_vocab=13),
    "a deep decoder": Sizes(d_model=12, d_ff=61, heads=2, encoder_layers=1, decoder_layers=11, positions=29),
    "a deep encoder": Sizes(d_model=8, d_ff=3, heads=4, encoder_layers=11, decoder_layers=1, source_vocab=101),
}
LONG = Sizes(d_model=16, heads=2, encoder_layers=1, decoder_layers=1, positions=613)


def ids(vocab: int, rows: int, length: int) -> torch.Tensor:
    made = torch.randint(1, vocab, (rows, length), generator=torch.Generator().manual_seed(vocab))
    made[1, length - 4 :] = 0
    return made


def assert_same(style: str, weights: dict[str, torch.Tensor], sizes: Sizes, lengths: tuple[int, int], **choices):
    """`from_notebook` gives the log-probabilities of the notebook's formulas."""
    source, target = ids(sizes.source_vocab, 3, lengths[0]), ids(sizes.target_vocab, 3, lengths[1])
    model = from_notebook(choices.get("given", weights), style=style, num_heads=sizes.heads)
    mask = torch.ones_like(source, dtype=torch.bool) if style == "keras" else None
    with torch.no_grad():
        ours = model(source, target, mask).log_softmax(-1)
    expected = log_probabilities(style, weights, sizes, source, target)
    counted = torch.ones_like(target, dtype=torch.bool) if style == "keras" else target != 0
    torch.testing.assert_close(ours[counted], expected[counted], rtol=0, atol=choices.get("atol", 1e-4))


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("style", STYLES)
def test_log_probabilities_are_those_of_the_notebooks_formulas(style, sizes):
    assert_same(style, random_weights(style, sizes), sizes, (13, 11))


@pytest.mark.parametrize("style", STYLES)
def test_long_sequences_are_as_exact(style):
    assert_same(style, random_weights(style, LONG), LONG, (607, 601))


@given(
    style=st.sampled_from(sorted(STYLES)),
    sizes=st.builds(
        lambda heads, width, **rest: Sizes(heads=heads, d_model=2 * heads * width, **rest),
        heads=st.integers(1, 7), width=st.integers(4, 7), d_ff=st.integers(1, 41),
        encoder_layers=st.integers(1, 4), decoder_layers=st.integers(1, 4),
        source_vocab=st.integers(5, 60), target_vocab=st.integers(5, 60),
    ),
    seed=st.integers(0, 1000),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_any_size_gives_the_notebooks_log_probabilities(style, sizes, seed):
    assert_same(style, random_weights(style, sizes, seed), sizes, (7, 5))


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


def test_tables_of_sines_may_be_long_or_missing():
    weights, sizes = random_weights("prenorm", Sizes()), Sizes()
    without = {name: value for name, value in weights.items() if not name.endswith(".pe")}
    longer = without | {"src_pos.pe": sinusoids(1201, sizes.d_model)[None], "tgt_pos.pe": torch.empty(1, 0, 21)}
    for given_ in (without, longer):
        assert_same("prenorm", weights, sizes, (17, 11), given=given_)


def test_positions_of_another_formula_are_refused():
    weights = random_weights("postnorm", Sizes())
    for table in (weights["positional_encoding.pe"].flip(-1), torch.zeros(1, 19, 21), torch.zeros(20)):
        with pytest.raises(DataError, match=r"`positional_encoding.pe` does not hold the sines and cosines"):
            from_notebook(weights | {"positional_encoding.pe": table}, style="postnorm", num_heads=3)


def test_a_projection_tied_to_the_target_table_is_saved_twice():
    weights = random_weights("annotated", Sizes())
    weights["generator.proj.weight"] = weights["tgt_embed.0.lut.weight"]
    assert_same("annotated", weights, Sizes(), (13, 11))


def in_another_session(name: str) -> str:
    """The name of a layer that was not the first of its class in its session."""
    parts = name.split("/")
    for depth in range(1, len(parts)):
        if parts[depth - 1] == "layers":
            base, _, number = parts[depth].rpartition("_")
            numbered = (base, int(number)) if number.isdecimal() else (parts[depth], 0)
            parts[depth] = f"{numbered[0]}_{3 * numbered[1] + 8}"
    return "/".join(parts)


def test_layers_that_keras_numbered_by_session_are_found():
    sizes = SIZES["a deep decoder"]
    weights = random_weights("keras", sizes)
    renamed = {in_another_session(name): value for name, value in weights.items()}
    assert "layers/transformer_decoder_38/feed_forward/layers/dense_11/vars/0" in renamed
    older = {name.replace("layers/", "_layer_checkpoint_dependencies/"): value for name, value in renamed.items()}
    for given_ in (renamed, older):
        assert_same("keras", weights, sizes, (13, 11), given=given_)


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
def test_every_missing_extra_and_misshapen_tensor_is_named(style):
    weights = random_weights(style, SIZES["one layer, one head"])
    for name in [name for name in weights if not name.endswith(".pe")]:
        with pytest.raises(DataError, match=f"The mapping lacks `{re.escape(name)}`; "):
            from_notebook({key: value for key, value in weights.items() if key != name}, style=style, num_heads=1)
        decides_sizes = weights[name].dim() == 2 and ("embed" in name or "feed_forward" in name)
        if not decides_sizes:
            with pytest.raises(DataError, match=rf"`{re.escape(name)}` has the shape \(5, 2\), which does not fit"):
                from_notebook(weights | {name: torch.ones(5, 2)}, style=style, num_heads=1)
        with pytest.raises(DataError, match=rf"`{re.escape(name)}` has the shape \(\)"):
            from_notebook(weights | {name: torch.tensor(1.0)}, style=style, num_heads=1)
    with pytest.raises(DataError, match="unknown `surprise`"):
        from_notebook(weights | {"surprise": torch.ones(2)}, style=style, num_heads=1)


@pytest.mark.parametrize("style", STYLES)
def test_a_layer_that_is_missing_as_a_whole_is_named(style):
    weights = random_weights(style, Sizes(encoder_layers=3))
    second = STYLES[style].name_of("encoder.layers.1.norm.gain".replace("norm", "residuals.0.norm"))
    prefix = second.split("layer_norm")[0] if style == "keras" else second[: second.index(".1.") + 3]
    kept = {name: value for name, value in weights.items() if not name.startswith(prefix)}
    assert len(kept) < len(weights)
    if style == "keras":
        # Its names are numbers in a row, whatever the numbers: two layers are a model of two.
        assert from_notebook(kept, style=style, num_heads=3).config.num_encoder_layers == 2
    else:
        with pytest.raises(DataError, match=rf"lacks `{re.escape(prefix)}.*` and \d+ more"):
            from_notebook(kept, style=style, num_heads=3)


def test_layers_of_absurd_numbers_are_no_memory_bomb():
    weights = random_weights("prenorm", Sizes())
    for number in ("99999", "9" * 5000):
        with pytest.raises(DataError, match=r"lacks|unknown"):
            from_notebook(weights | {f"encoder.layers.{number}.x": torch.ones(1)}, style="prenorm", num_heads=3)


def test_a_number_of_heads_that_does_not_divide_the_width_is_a_usage_error():
    with pytest.raises(UsageError, match="not a multiple of `num_heads` 4"):
        from_notebook(random_weights("postnorm", Sizes()), style="postnorm", num_heads=4)


def test_the_decoder_without_feed_forward_network_is_explained():
    weights = random_weights("postnorm", Sizes())
    broken = {k: v for k, v in weights.items() if not k.startswith("decoder_layers") or "feed_forward" not in k}
    with pytest.raises(DataError, match="has no feed-forward network"):
        from_notebook(broken, style="postnorm", num_heads=3)


def test_position_tables_of_two_lengths_are_read():
    weights, sizes = random_weights("keras", Sizes()), Sizes()
    for shorter in ("layers/positional_embedding", "layers/positional_embedding_1"):
        table = f"{shorter}/position_embeddings/vars/0"
        assert_same("keras", weights | {table: weights[table][:13]}, sizes, (13, 11))


def test_the_number_of_heads_may_be_one_of_numpy(annotations_unchecked):
    weights = random_weights("prenorm", Sizes())
    for number in (np.int64(3), np.array(3), torch.tensor(3)):
        assert from_notebook(weights, style="prenorm", num_heads=number).config.num_heads == 3
    for number in (3.0, "3", None):
        with pytest.raises(UsageError, match="cannot be built"):
            from_notebook(weights, style="prenorm", num_heads=number)


def test_choices_that_make_another_model_are_refused():
    weights = random_weights("prenorm", Sizes())
    assert from_notebook(weights, style="prenorm", num_heads=3, pad_id=1).config.pad_id == 1
    for choice in ({"activation": "swiglu"}, {"tie_projection": True}, {"projection_bias": False}):
        with pytest.raises(UsageError, match="other weights than the notebook's"):
            from_notebook(weights, style="prenorm", num_heads=3, **choice)
    with pytest.raises(UsageError, match="pading_id"):
        from_notebook(weights, style="prenorm", num_heads=3, pading_id=1)
