"""Packed weights: the same numbers as the model's own, which stays as it was."""

import copy

import pytest
import torch

from dragoman.model import Transformer
from dragoman.model.fast import prepacked_weights
from dragoman.model.fast.prepacked_weights import can_prepack, prepack
from tests.model.variants import VARIANTS, build, sentences

QUICK = ("rotary", "swiglu", "shared-untied", "biased")


def needs_product(dtype: torch.dtype) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not can_prepack(dtype), reason=f"oneDNN has no product of prepacked {dtype} here")


needs_bfloat16 = needs_product(torch.bfloat16)
PRECISIONS = [pytest.param(dtype, marks=needs_product(dtype)) for dtype in (torch.float32, torch.bfloat16)]


def all_logits(model: Transformer) -> torch.Tensor:
    """Of a pass over whole sentences, and of steps with a cache."""
    source, target = sentences(model, rows=5, src_len=13, tgt_len=7)
    memory, mask = model.encode(source), source != model.config.pad_id
    cache = model.new_cache()
    steps = [model.decode(target[:, i : i + 1], memory, mask, cache) for i in range(7)]
    return torch.cat([model(source, target), *steps], dim=1)


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    "choices",
    [
        pytest.param(choices, id=name, marks=[pytest.mark.slow] * (name not in QUICK))
        for name, choices in VARIANTS.items()
    ],
)
@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
@torch.inference_mode()
def test_a_packed_model_computes_the_same(choices, dtype: torch.dtype, monkeypatch):
    monkeypatch.setattr(prepacked_weights, "SMALLEST", 1)
    model = build(**choices).to(dtype)
    weights = copy.deepcopy(model.state_dict())
    torch.manual_seed(1)
    wanted = all_logits(model)
    twin = prepack(model)
    assert twin is not model
    torch.manual_seed(1)
    tolerance = 1e-4 if dtype == torch.float32 else 0.1 * float(wanted.float().abs().max())
    torch.testing.assert_close(all_logits(twin), wanted, rtol=0, atol=tolerance)
    torch.manual_seed(1)
    assert torch.equal(all_logits(model), wanted)
    assert all(torch.equal(weight, weights[name]) for name, weight in model.state_dict().items())


@needs_bfloat16
def test_every_matrix_is_packed_once_and_small_ones_are_not(monkeypatch):
    shapes = []
    reorder = prepacked_weights.prepacked_linear
    monkeypatch.setattr(
        prepacked_weights, "prepacked_linear", lambda w, b: shapes.append(tuple(w.shape)) or reorder(w, b)
    )
    model = build(**VARIANTS["swiglu"])
    prepack(model)
    assert shapes == []
    twin = prepack(model.bfloat16())
    own = [tuple(m.weight.shape) for m in model.modules() if isinstance(m, torch.nn.Linear)]
    assert sum(rows * columns for rows, columns in shapes) == sum(rows * columns for rows, columns in own)
    shared = zip(model.parameters(), twin.parameters(), strict=True)
    assert all(a is b for a, b in shared)


@needs_bfloat16
@torch.inference_mode()
def test_later_changes_are_not_seen():
    model = build().bfloat16()
    twin = prepack(model)
    torch.manual_seed(1)
    before = all_logits(twin)
    for layer in model.decoder.layers:
        layer.feed_forward.inner.weight.zero_()
    torch.manual_seed(1)
    assert torch.equal(all_logits(twin), before)


def test_without_onednn_the_model_itself_is_taken(monkeypatch):
    double = build().double()
    assert prepack(double) is double
    monkeypatch.setattr(prepacked_weights, "can_prepack", lambda _: False)
    model = build()
    assert prepack(model) is model


@needs_product(torch.float32)
def test_where_the_processor_has_no_products_in_bfloat16_the_model_itself_is_taken(monkeypatch):
    class Operations:
        """As on a processor with AVX2 alone, where the function is there and refuses."""

        _is_mkldnn_bf16_supported = staticmethod(lambda: False)

        def __getattr__(self, name):
            return getattr(operations, name)

    operations = torch.ops.mkldnn
    monkeypatch.setattr(torch.ops, "mkldnn", Operations())
    model = build().bfloat16()
    assert prepack(model) is model
    plain = build()
    assert prepack(plain) is not plain
