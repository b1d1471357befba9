"""Attention: the formula, the fused kernel, heads, masks, the cache and the recorder."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dragoman.model.attention import (
    AttentionMaps,
    CrossAttention,
    KeyValueCache,
    MemoryCache,
    SelfAttention,
    attend,
    attention,
    attention_weights,
    causal_mask,
)
from dragoman.model.dropout import Dropout
from dragoman.model.fast.attention import fused_attention
from tests.model import twins
from tests.model.variants import build, sentences, small_config

NO_DROPOUT = Dropout(0.0)
MASKS = ("none", "one for all", "padding", "every row and head")
ROWS, HEADS, QUERIES, WIDTH = 3, 2, 5, 7


def random_mask(kind: str, keys: int) -> Tensor | None:
    """Hides about a third; every query sees at least the first key."""
    shape = {
        "none": None,
        "one for all": (QUERIES, keys),
        "padding": (ROWS, 1, 1, keys),
        "every row and head": (ROWS, HEADS, QUERIES, keys),
    }[kind]
    if shape is None:
        return None
    mask = torch.rand(shape) > 0.34
    mask[..., 0] = True
    return mask


def query_key_value(keys: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(keys)
    shapes = (QUERIES, keys, keys)
    return tuple(3 * torch.randn(ROWS, HEADS, n, WIDTH) for n in shapes)


def by_hand(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> np.ndarray:
    """Equation 1 for one query after the other, in double precision, over the visible keys only."""
    q, k, v = (t.detach().double().numpy() for t in (query, key, value))
    shape = (*q.shape[:3], k.shape[2])
    visible = np.ones(shape, bool) if mask is None else np.broadcast_to(mask.numpy(), shape)
    out = np.zeros((*q.shape[:3], v.shape[3]))
    for row, head, i in np.ndindex(*q.shape[:3]):
        seen = np.flatnonzero(visible[row, head, i])
        scores = [sum(q[row, head, i] * k[row, head, j]) / math.sqrt(WIDTH) for j in seen]
        exponentials = np.exp(np.array(scores) - max(scores))
        for weight, j in zip(exponentials / exponentials.sum(), seen, strict=True):
            out[row, head, i] += weight * v[row, head, j]
    return out


# Rows below 16 keys take another way through the softmax.
@pytest.mark.parametrize("keys", [1, 5, 15, 16, 17, 31])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("kernel", [attention, fused_attention, attend])
def test_every_kernel_equals_a_loop_in_double_precision(kernel, kind: str, keys: int):
    tensors = query_key_value(keys)
    mask = random_mask(kind, keys)
    mixed = kernel(*tensors, mask, dropout=NO_DROPOUT)
    np.testing.assert_allclose(mixed.numpy(), by_hand(*tensors, mask), rtol=0, atol=1e-5)


@pytest.mark.parametrize("keys", [1, 5, 15, 16, 17, 31])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("kernel", [attention, attend])
def test_a_single_query_equals_a_loop_in_double_precision(kernel, kind: str, keys: int):
    query, key, value = query_key_value(keys)
    mask = random_mask(kind, keys)
    mask = mask if mask is None else mask[..., :1, :]
    mixed = kernel(query[:, :, :1], key, value, mask, dropout=NO_DROPOUT)
    np.testing.assert_allclose(mixed.numpy(), by_hand(query[:, :, :1], key, value, mask), rtol=0, atol=1e-5)


def test_few_rows_are_projected_apart_and_many_in_one_product_to_the_same():
    torch.manual_seed(11)
    ours = SelfAttention(small_config())  # 30 wide: 31 positions are worth joining the weights
    x = torch.randn(31, 1, 30)
    products = []
    for projection in (ours.query, ours.key, ours.value):
        projection.register_forward_hook(lambda *_: products.append("apart"))
    together = ours(x)
    assert not products
    apart = torch.cat([ours(row) for row in x.split(1)])
    assert len(products) == 93
    torch.testing.assert_close(together, apart, rtol=0, atol=1e-6)


@pytest.mark.parametrize("keys", [5, 15, 16, 31])
@pytest.mark.parametrize("kind", MASKS)
def test_the_fused_kernel_has_the_gradients_of_the_formula(kind: str, keys: int):
    tensors = [t.double().requires_grad_() for t in query_key_value(keys)]
    mask, direction = random_mask(kind, keys), torch.randn(ROWS, HEADS, QUERIES, WIDTH)
    formula, fused = (
        torch.autograd.grad((kernel(*tensors, mask, dropout=NO_DROPOUT) * direction).sum(), tensors)
        for kernel in (attention, fused_attention)
    )
    for ours, theirs in zip(formula, fused, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("keys", [509, 521])
def test_the_fastest_kernel_is_right_on_both_sides_of_its_threshold(keys: int):
    tensors = query_key_value(keys)
    mixed = attend(*tensors, dropout=NO_DROPOUT)
    np.testing.assert_allclose(mixed.numpy(), by_hand(*tensors, None), rtol=1e-5, atol=1e-5)


def test_what_is_dropped_among_many_keys_follows_from_the_generator_of_the_model_alone():
    """Not from PyTorch's own, which all threads share."""
    tensors = query_key_value(521)
    dropout = Dropout(0.3)
    found = []
    for seed in (5, 7):
        torch.manual_seed(seed)
        dropout.generator = torch.Generator().manual_seed(3)
        found.append(attend(*tensors, dropout=dropout))
    assert torch.equal(*found)
    assert not torch.equal(found[0], attend(*tensors, dropout=dropout))


@pytest.mark.parametrize("keys", [11, 23])
def test_a_query_that_sees_nothing_becomes_uniform_and_not_nan(keys: int):
    query, key, value = (t.requires_grad_() for t in query_key_value(keys))
    mask = torch.ones(QUERIES, keys, dtype=torch.bool)
    mask[2] = False
    weights = attention_weights(query, key, mask)
    torch.testing.assert_close(weights[:, :, 2], torch.full((ROWS, HEADS, keys), 1 / keys))
    attention(query, key, value, mask, dropout=NO_DROPOUT).sum().backward()
    assert all(t.grad.isfinite().all() for t in (query, key, value))


def test_hidden_keys_get_exactly_no_weight():
    query, key, _ = query_key_value(13)
    mask = random_mask("every row and head", 13)
    weights = attention_weights(query, key, mask)
    assert (weights[~mask] == 0).all()
    assert (weights[mask] > 0).all()


@pytest.mark.parametrize("kernel", [attention, fused_attention])
def test_dropout_drops_weights_in_training_only(kernel):
    keys = WIDTH
    query, key, _ = query_key_value(keys)
    # With the unit matrix for values, attention returns its weights.
    value = torch.eye(keys).expand(ROWS, HEADS, keys, keys)
    dropout = Dropout(0.5)
    weights = attention_weights(query, key)
    torch.testing.assert_close(kernel(query, key, value, dropout=dropout.eval()), weights)
    dropped = kernel(query, key, value, dropout=dropout.train())
    kept = dropped != 0
    assert 0 < kept.sum() < kept.numel()
    torch.testing.assert_close(dropped[kept], 2 * weights[kept])


@pytest.mark.parametrize("past", [0, 1, 6])
def test_the_causal_mask_shows_the_past_and_the_present(past: int):
    mask = causal_mask(5, past=past)
    assert mask.tolist() == [[j <= past + i for j in range(past + 5)] for i in range(5)]


@pytest.mark.parametrize("own", [True, False], ids=["self", "cross"])
def test_heads_equal_those_of_torch_with_every_gradient(own: bool):
    torch.manual_seed(3)
    config = small_config()
    ours = (SelfAttention if own else CrossAttention)(config).double()
    theirs = nn.MultiheadAttention(config.d_model, config.num_heads, batch_first=True).double()
    theirs.load_state_dict(twins.attention(ours, twins.weights))
    x = torch.randn(5, 7, config.d_model, dtype=torch.float64)
    memory = x if own else torch.randn(5, 11, config.d_model, dtype=torch.float64)
    visible = torch.rand(5, memory.size(1)) > 0.3
    visible[:, 0] = True
    expected, _ = theirs(x, memory, memory, key_padding_mask=~visible)
    mixed = ours(*((x,) if own else (x, memory)), visible[:, None, None, :])
    torch.testing.assert_close(mixed, expected, rtol=0, atol=1e-12)
    direction = torch.randn_like(mixed)
    (mixed * direction).sum().backward()
    (expected * direction).sum().backward()
    twins.assert_same_gradients(theirs, twins.attention(ours, twins.gradients))


@pytest.mark.parametrize("rows", [3, 43])
def test_the_cache_returns_what_was_appended_beyond_its_first_capacity(rows: int):
    torch.manual_seed(5)
    keys, values = torch.randn(2, rows, 2, 41, 7)
    cache = KeyValueCache()
    for start, stop in ((0, 1), (1, 4), (4, 16), (16, 17), (17, 37), (37, 41)):
        key, value = cache.append(keys[:, :, start:stop], values[:, :, start:stop])
        assert cache.length == stop
        assert torch.equal(key, keys[:, :, :stop])
        assert torch.equal(value, values[:, :, :stop])


def test_in_bfloat16_the_formula_stays_in_bfloat16_and_near_double_precision():
    query, key, value = (x.bfloat16() for x in query_key_value(11))
    found = attention(query, key, value, None, dropout=NO_DROPOUT)
    assert found.dtype == torch.bfloat16
    np.testing.assert_allclose(found.float().numpy(), by_hand(query, key, value, None), rtol=0.05, atol=0.2)


@pytest.mark.parametrize("length", [3, 19])
def test_reordering_the_cache_drops_and_repeats_rows(length: int):
    torch.manual_seed(7)
    keys, values = torch.randn(2, 3, 2, length + 1, 7)
    cache = KeyValueCache()
    cache.append(keys[:, :, :length], values[:, :, :length])
    rows = torch.tensor([2, 0, 2, 2])
    cache.reorder(rows)
    key, value = cache.append(keys[rows][:, :, length:], values[rows][:, :, length:])
    assert torch.equal(key, keys[rows])
    assert torch.equal(value, values[rows])


def test_reordering_an_empty_cache_does_nothing():
    cache = KeyValueCache()
    cache.reorder(torch.tensor([0, 0]))
    assert cache.length == 0


def test_a_memory_is_kept_in_one_piece_and_its_rows_can_be_dropped():
    torch.manual_seed(5)
    keys, values = torch.randn(2, 3, 11, 2, 7).transpose(2, 3)
    cache = MemoryCache()
    cache.reorder(torch.tensor([0]))
    assert cache.contents is None
    for found, expected in zip(cache.fill(keys, values), (keys, values), strict=True):
        assert torch.equal(found, expected)
        assert found.is_contiguous()
    rows = torch.tensor([2, 0])
    cache.reorder(rows)
    assert all(map(torch.equal, cache.contents, (keys[rows], values[rows])))


def test_queries_that_share_a_memory_row_equal_queries_with_one_each():
    torch.manual_seed(9)
    ours = CrossAttention(small_config())
    x, memory = torch.randn(6, 5, 30), torch.randn(2, 11, 30)
    mask = torch.rand(2, 1, 1, 11) > 0.3
    expected = ours(x, memory.repeat_interleave(3, 0), mask.repeat_interleave(3, 0))
    torch.testing.assert_close(ours(x, memory, mask), expected, rtol=0, atol=1e-6)


def test_weights_that_were_asked_for_sum_to_one_and_change_nothing():
    model = build()
    source, target = sentences(model, rows=5, src_len=13, tgt_len=7)
    source[:, 11:] = model.config.pad_id
    maps = AttentionMaps()
    with_maps = model.states(source, target, maps=maps)
    torch.testing.assert_close(with_maps, model.states(source, target), rtol=0, atol=1e-5)
    for layers, count, shape in (
        (maps.encoder, 2, (5, 3, 13, 13)),
        (maps.decoder, 3, (5, 3, 7, 7)),
        (maps.cross, 3, (5, 3, 7, 13)),
    ):
        assert [tuple(layer.weights.shape) for layer in layers] == [shape] * count
        for layer in layers:
            weights, width = layer.weights, layer.query.size(-1)
            torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
            torch.testing.assert_close(layer.weights_of(1), weights[:, 1], rtol=0, atol=1e-6)
            assert layer.query.shape == (*shape[:3], width)
            assert layer.key.shape == layer.value.shape == (5, 3, shape[3], width)
            assert (weights.triu(1) == 0).all() if layers is maps.decoder else (weights[..., 11:] == 0).all()
